# SPDX-License-Identifier: MIT
"""``ipu.keras.optimizers``: how gradients change weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu._text.faces import face
from ipu.keras import _serialization
from ipu.keras.optimizers import schedules
from ipu.keras.optimizers.adam import Adam
from ipu.keras.optimizers.adamw import AdamW
from ipu.keras.optimizers.adaptive import Adadelta, Adagrad, Adamax, Ftrl, Nadam
from ipu.keras.optimizers.als import (
    ALSOptimizer,
    ALSOptimizerAdam,
    ALSOptimizerRMSProp,
    ALSOptimizerSGD,
)
from ipu.keras.optimizers.ipu_optimizers import (
    AdamIpuOptimizer,
    IpuOptimizerBase,
    SGDIpuOptimizer,
)
from ipu.keras.optimizers.lamb import LAMBIpuOptimizer
from ipu.keras.optimizers.loss_scale import LossScaleOptimizer
from ipu.keras.optimizers.optimizer import Optimizer
from ipu.keras.optimizers.rmsprop import RMSprop
from ipu.keras.optimizers.sgd import SGD
from ipu.keras.optimizers.wrappers import (
    ALSGradientAccumulationOptimizer,
    CrossReplicaOptimizer,
    GradientAccumulationOptimizer,
    IpuOptimizer,
    MapGradientOptimizer,
)

__all__ = [
    "SGD",
    "ALSGradientAccumulationOptimizer",
    "ALSOptimizer",
    "ALSOptimizerAdam",
    "ALSOptimizerRMSProp",
    "ALSOptimizerSGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamIpuOptimizer",
    "AdamW",
    "Adamax",
    "CrossReplicaOptimizer",
    "Ftrl",
    "GradientAccumulationOptimizer",
    "IpuOptimizer",
    "IpuOptimizerBase",
    "LAMBIpuOptimizer",
    "LossScaleOptimizer",
    "MapGradientOptimizer",
    "Nadam",
    "Optimizer",
    "RMSprop",
    "SGDIpuOptimizer",
    "deserialize",
    "get",
    "schedules",
    "serialize",
]

_TABLE: dict[str, type[Any]] = {
    "adadelta": Adadelta,
    "adagrad": Adagrad,
    "adam": Adam,
    "adamax": Adamax,
    "adamipuoptimizer": AdamIpuOptimizer,
    "adamw": AdamW,
    "alsgradientaccumulationoptimizer": ALSGradientAccumulationOptimizer,
    "alsoptimizer": ALSOptimizer,
    "crossreplicaoptimizer": CrossReplicaOptimizer,
    "ftrl": Ftrl,
    "gradientaccumulationoptimizer": GradientAccumulationOptimizer,
    "ipuoptimizer": IpuOptimizer,
    "lambipuoptimizer": LAMBIpuOptimizer,
    "lossscaleoptimizer": LossScaleOptimizer,
    "nadam": Nadam,
    "rmsprop": RMSprop,
    "sgd": SGD,
    "sgdipuoptimizer": SGDIpuOptimizer,
}


def get(identifier: Any) -> Optimizer:
    """Give the optimizer that ``compile`` was told.

    Args:
        identifier: A name such as ``"sgd"``, a dict with ``class_name`` and ``config``,
            an optimizer, or a subclass of ``Optimizer``.

    Returns:
        An optimizer; new for a name, with its default arguments.

    Raises:
        ValueError: There is no optimizer of that name; the nearest is offered.
        TypeError: It is none of these.

    Example:
        >>> get("adam").get_config()["beta_1"]
        0.9
        >>> sgd = get({"class_name": "SGD", "config": {"momentum": 0.5}})
        >>> sgd.get_config()["momentum"]
        0.5
    """
    if isinstance(identifier, Optimizer):
        return identifier
    if isinstance(identifier, str):
        made: Optimizer = _serialization.find("optimizer", identifier, _TABLE)()
        return made
    if _serialization.is_config(identifier):
        made = _serialization.make("optimizer", identifier, _TABLE)
        return made
    if isinstance(identifier, type) and issubclass(identifier, Optimizer):
        return identifier()
    raise TypeError(
        "Could not interpret optimizer identifier: it must be a name or an Optimizer. "
        f"Received: {identifier!r} ({type(identifier).__name__})."
    )


def serialize(optimizer: Any) -> Any:
    """Describe a optimizer as plain data: a configuration, a name or None.

    Example:
        >>> serialize(SGD(0.5))["class_name"]
        'SGD'
    """
    return _serialization.serialize_keras_object(optimizer)


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    """Make a optimizer from what ``serialize`` gave.

    Args:
        config: A configuration, a name or None.
        custom_objects: A user's own classes and functions by name.

    Raises:
        ValueError: There is no optimizer of that name.

    Example:
        >>> config = serialize(SGD(momentum=0.5))
        >>> deserialize(config).get_config()["momentum"]
        0.5
    """
    with _serialization.CustomObjectScope(custom_objects or {}):
        return get(config)


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
