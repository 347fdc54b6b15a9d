# SPDX-License-Identifier: MIT
"""``ipu.keras.metrics``: what is reported of training, kept in device variables.

Every metric takes ``name``, its key in logs, and the ``dtype`` of its state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu._text.exports import export, like, offered
from ipu.keras import _serialization
from ipu.keras.losses import (
    binary_crossentropy as binary_crossentropy,
    binary_focal_crossentropy as binary_focal_crossentropy,
    categorical_crossentropy as categorical_crossentropy,
    categorical_focal_crossentropy as categorical_focal_crossentropy,
    categorical_hinge as categorical_hinge,
    hinge as hinge,
    huber as huber,
    kl_divergence as kl_divergence,
    log_cosh as log_cosh,
    mean_absolute_error as mean_absolute_error,
    mean_absolute_percentage_error as mean_absolute_percentage_error,
    mean_squared_error as mean_squared_error,
    mean_squared_logarithmic_error as mean_squared_logarithmic_error,
    poisson as poisson,
    sparse_categorical_crossentropy as sparse_categorical_crossentropy,
    squared_hinge as squared_hinge,
)
from ipu.keras.metrics.base import *
from ipu.keras.metrics.base import Metric
from ipu.keras.metrics.confusion import *
from ipu.keras.metrics.curves import *
from ipu.keras.metrics.iou import *
from ipu.keras.metrics.scores import *
from ipu.keras.metrics.wrapped import *
from ipu.keras.metrics.wrapped import (
    accuracy,
    binary_accuracy,
    categorical_accuracy,
    cosine_similarity,
    sparse_categorical_accuracy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ipu.keras._types import Tensor

KLD = kld = kullback_leibler_divergence = kl_divergence
MAE = mae = mean_absolute_error
MAPE = mape = mean_absolute_percentage_error
MSE = mse = mean_squared_error
MSLE = msle = mean_squared_logarithmic_error
logcosh = log_cosh

# every public name that stands for a metric
_TABLE: dict[str, Any] = {
    name: globals()[name] for name in offered(__name__) if name != "Metric"
}
_TABLE["cosine_proximity"] = cosine_similarity
# names whose meaning depends on the shapes of outputs and targets
BY_SHAPE = {
    "accuracy": "accuracy",
    "acc": "accuracy",
    "crossentropy": "crossentropy",
    "ce": "crossentropy",
}


def get(identifier: Any) -> Any:
    """Return the metric that an argument names.

    Args:
        identifier: A configuration, a name such as ``"mse"``, a metric, its class, or a
            function ``(y_true, y_pred)``.

    Returns:
        A ``Metric`` or a function.

    Raises:
        ValueError: There is no metric of that name; the nearest is offered.
        TypeError: It is anything else.

    Example:
        >>> keras.metrics.get("mse")([[1.0]], [[3.0]]).numpy().tolist()
        [4.0]
    """
    if isinstance(identifier, str):
        found = find(identifier)
        return found() if isinstance(found, type) else found
    if _serialization.is_config(identifier):
        return _serialization.make("metric", identifier, _TABLE)
    if isinstance(identifier, type) and issubclass(identifier, Metric):
        return identifier()
    if isinstance(identifier, Metric) or callable(identifier):
        return identifier
    raise TypeError(
        "A metric must be a name, a Metric or a function (y_true, y_pred). "
        f"Received: {identifier!r} ({type(identifier).__name__})."
    )


def find(name: str) -> Any:
    """Return the class or function that a name stands for; nothing is made of it.

    Args:
        name: A name such as ``"mse"`` or ``"AUC"``.

    Raises:
        ValueError: There is no metric of that name; the nearest is offered.
    """
    known = {**_TABLE, **{key: accuracy for key in BY_SHAPE}}
    return _serialization.find("metric function", name, known)


def resolve(name: str, y_true: Tensor, y_pred: Tensor) -> Callable[..., Tensor]:
    """Choose what "accuracy" or "crossentropy" means for these shapes.

    Args:
        name: A key of ``BY_SHAPE``.
        y_true: The targets.
        y_pred: The predictions.

    Returns:
        The binary, the sparse or the categorical function, by Keras's rule.
    """
    last_true = y_true.shape[-1] if y_true.shape else 1
    last_pred = y_pred.shape[-1] if y_pred.shape else 1
    is_binary = last_pred == 1
    is_sparse = len(y_true.shape) < len(y_pred.shape) or (
        last_true == 1 and last_pred > 1
    )
    if BY_SHAPE[name] == "accuracy":
        if is_binary:
            return binary_accuracy
        return sparse_categorical_accuracy if is_sparse else categorical_accuracy
    if is_binary:
        return binary_crossentropy
    return sparse_categorical_crossentropy if is_sparse else categorical_crossentropy


@like(_serialization.serialize_keras_object)
def serialize(metric: Any) -> Any:
    return _serialization.serialize_keras_object(metric)


@like(_serialization.deserialize_keras_object)
def deserialize(config: Any, custom_objects: Any = None) -> Any:
    with _serialization.CustomObjectScope(custom_objects or {}):
        return get(config)


_INNER = {"BY_SHAPE", "accuracy", "cosine_similarity", "find", "resolve"}
export(__name__, [name for name in offered(__name__) if name not in _INNER])
