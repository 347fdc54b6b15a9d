# SPDX-License-Identifier: MIT
"""``ipu.keras.losses``: what training makes small.

A loss function gives one number for each sample, a loss object reduces them to one.

Source: ``tf.keras.losses`` of Keras 2.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu._text.faces import face, offered
from ipu.keras import _serialization
from ipu.keras._loss_base import (
    Loss as Loss,
    LossFunctionWrapper as LossFunctionWrapper,
    Reduction as Reduction,
)
from ipu.keras._loss_functions import (
    binary_crossentropy as binary_crossentropy,
    categorical_crossentropy as categorical_crossentropy,
    kl_divergence as kl_divergence,
    sparse_categorical_crossentropy as sparse_categorical_crossentropy,
)
from ipu.keras._regression_losses import (
    categorical_hinge as categorical_hinge,
    cosine_similarity as cosine_similarity,
    hinge as hinge,
    huber as huber,
    log_cosh as log_cosh,
    mean_absolute_error as mean_absolute_error,
    mean_absolute_percentage_error as mean_absolute_percentage_error,
    mean_squared_error as mean_squared_error,
    mean_squared_logarithmic_error as mean_squared_logarithmic_error,
    poisson as poisson,
    squared_hinge as squared_hinge,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ipu.keras._types import Tensor


class _LossOf(LossFunctionWrapper):
    """The loss of the function that stands in a subclass's head."""

    _function: Callable[..., Tensor]

    def __init_subclass__(cls, function: Any = None, **defaults: Any) -> None:
        if function is not None:
            cls._function = staticmethod(function)
            defaults.setdefault("name", function.__name__)
        super().__init_subclass__(**defaults)

    def __init__(self, reduction: str = Reduction.AUTO, name: str = "") -> None:
        super().__init__(self._function, reduction, name)


class MeanSquaredError(_LossOf, function=mean_squared_error):
    """The mean of ``(y_true - y_pred) ** 2``.

    Args:
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> float(MeanSquaredError()([[0.0, 1.0]], [[1.0, 1.0]]))
        0.5
    """


class MeanAbsoluteError(_LossOf, function=mean_absolute_error):
    """The mean of ``abs(y_true - y_pred)``.

    Args:
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> round(float(MeanAbsoluteError()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        1.5
    """


class BinaryCrossentropy(LossFunctionWrapper):
    """Cross-entropy of yes-or-no targets.

    Args:
        from_logits: Whether ``y_pred`` are logits rather than probabilities.
        label_smoothing: In [0, 1]: draws targets towards one half.
        axis: The axis of the mean.
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> round(float(BinaryCrossentropy()([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        0.6931
    """

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str = Reduction.AUTO,
        name: str = "binary_crossentropy",
    ) -> None:
        super().__init__(
            binary_crossentropy,
            reduction,
            name,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
            axis=axis,
        )


class CategoricalCrossentropy(LossFunctionWrapper):
    """Cross-entropy of targets given as one probability for each class.

    Args:
        from_logits: Whether ``y_pred`` are logits rather than probabilities.
        label_smoothing: In [0, 1]: draws targets towards the uniform distribution.
        axis: The axis of the classes.
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> round(float(CategoricalCrossentropy()([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        0.6931
    """

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str = Reduction.AUTO,
        name: str = "categorical_crossentropy",
    ) -> None:
        super().__init__(
            categorical_crossentropy,
            reduction,
            name,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
            axis=axis,
        )


class SparseCategoricalCrossentropy(LossFunctionWrapper):
    """Cross-entropy of targets given as class numbers.

    Args:
        from_logits: Whether ``y_pred`` are logits rather than probabilities.
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> loss = SparseCategoricalCrossentropy(from_logits=True)
        >>> round(float(loss([1], [[0.0, 0.0]])), 4)
        0.6931
    """

    def __init__(
        self,
        from_logits: bool = False,
        reduction: str = Reduction.AUTO,
        name: str = "sparse_categorical_crossentropy",
    ) -> None:
        super().__init__(
            sparse_categorical_crossentropy, reduction, name, from_logits=from_logits
        )


class MeanAbsolutePercentageError(_LossOf, function=mean_absolute_percentage_error):
    """100 times the mean of ``abs((y_true - y_pred) / y_true)``.

    Args:
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> round(float(MeanAbsolutePercentageError()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        100.0
    """


class MeanSquaredLogarithmicError(_LossOf, function=mean_squared_logarithmic_error):
    """The mean of ``(log(y_true + 1) - log(y_pred + 1)) ** 2``.

    Args:
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> round(float(MeanSquaredLogarithmicError()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        0.2127
    """


class Huber(LossFunctionWrapper):
    """Half the squared error near the target, and a line far from it.

    Args:
        delta: The error at which the line begins.
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> float(Huber()([[0.0, 0.0]], [[1.0, 3.0]]))
        1.5
    """

    def __init__(
        self,
        delta: float = 1.0,
        reduction: str = Reduction.AUTO,
        name: str = "huber_loss",
    ) -> None:
        super().__init__(huber, reduction, name, delta=delta)


class LogCosh(_LossOf, function=log_cosh):
    """The mean of ``log(cosh(y_pred - y_true))``.

    Args:
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> round(float(LogCosh()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        0.8794
    """


class KLDivergence(_LossOf, function=kl_divergence):
    """The divergence ``sum(y_true * log(y_true / y_pred))``.

    Args:
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> round(float(KLDivergence()([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        0.6931
    """


class Poisson(_LossOf, function=poisson):
    """The mean of ``y_pred - y_true * log(y_pred)``.

    Args:
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> round(float(Poisson()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        1.2671
    """


class CosineSimilarity(LossFunctionWrapper):
    """The negated cosine: -1 where predictions point the same way as targets.

    Args:
        axis: The axis along which they are vectors.
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> round(float(CosineSimilarity()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        -1.0
    """

    def __init__(
        self,
        axis: int = -1,
        reduction: str = Reduction.AUTO,
        name: str = "cosine_similarity",
    ) -> None:
        super().__init__(cosine_similarity, reduction, name, axis=axis)


class Hinge(_LossOf, function=hinge):
    """The mean of ``max(1 - y_true * y_pred, 0)``, with targets of -1 and 1.

    Args:
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> round(float(Hinge()([[1.0, -1.0]], [[0.5, 0.5]])), 4)
        1.0
    """


class SquaredHinge(_LossOf, function=squared_hinge):
    """The mean of ``max(1 - y_true * y_pred, 0) ** 2``, with targets of -1 and 1.

    Args:
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> round(float(SquaredHinge()([[1.0, -1.0]], [[0.5, 0.5]])), 4)
        1.25
    """


class CategoricalHinge(_LossOf, function=categorical_hinge):
    """``max(best wrong class - right class + 1, 0)``, given one-hot targets.

    Args:
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> round(float(CategoricalHinge()([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        1.0
    """


BCE = bce = binary_crossentropy
KLD = kld = kullback_leibler_divergence = kl_divergence
MAE = mae = mean_absolute_error
MAPE = mape = mean_absolute_percentage_error
MSE = mse = mean_squared_error
MSLE = msle = mean_squared_logarithmic_error
logcosh = log_cosh

# every public name that stands for a loss
_TABLE: dict[str, Any] = {
    name: globals()[name]
    for name in offered(__name__)
    if name not in ("Loss", "LossFunctionWrapper", "Reduction")
}
_TABLE |= {"huber_loss": huber, "cosine_proximity": cosine_similarity}


def get(identifier: Any) -> Any:
    """Give the loss that an argument names.

    Args:
        identifier: None, a configuration, a name such as ``"mse"``, a loss or a loss
            function.

    Returns:
        None, a ``Loss``, or a function ``(y_true, y_pred)``.

    Raises:
        ValueError: There is no loss of that name; the nearest is offered.
        TypeError: It is none of these.

    Example:
        >>> get("mse")([[1.0]], [[3.0]]).numpy().tolist()
        [4.0]
    """
    if identifier is None:
        return None
    if isinstance(identifier, str):
        found = _serialization.find("loss function", identifier, _TABLE)
        return found() if isinstance(found, type) else found
    if _serialization.is_config(identifier):
        return _serialization.make("loss", identifier, _TABLE)
    if isinstance(identifier, type) and issubclass(identifier, Loss):
        return identifier()
    if callable(identifier):
        return identifier
    raise TypeError(
        "A loss must be None, a name, a Loss or a function (y_true, y_pred). "
        f"Received: {identifier!r} ({type(identifier).__name__})."
    )


def serialize(loss: Any) -> Any:
    """Describe a loss as plain data: a configuration, a name or None.

    Example:
        >>> serialize(Hinge())["class_name"]
        'Hinge'
    """
    return _serialization.serialize_keras_object(loss)


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    """Make a loss from what ``serialize`` gave.

    Args:
        config: A configuration, a name or None.
        custom_objects: A user's own classes and functions by name.

    Raises:
        ValueError: There is no loss of that name.

    Example:
        >>> type(deserialize({"class_name": "Hinge", "config": {}})).__name__
        'Hinge'
    """
    with _serialization.CustomObjectScope(custom_objects or {}):
        return get(config)


if not TYPE_CHECKING:
    __all__ = offered(__name__)
    __getattr__, __dir__ = face(__name__, __all__)
