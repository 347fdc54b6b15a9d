# SPDX-License-Identifier: MIT
"""``ipu.keras.optimizers``: how gradients change weights.

Every optimizer takes a ``learning_rate``, a number or a schedule, a ``name``, and as
keywords what :class:`Optimizer` takes. ``epsilon`` keeps a division finite. The
``name`` of a call has no effect.
"""

from __future__ import annotations

from typing import Any

from ipu._text.exports import export, like, offered
from ipu.keras import _serialization
from ipu.keras.optimizers import schedules as schedules
from ipu.keras.optimizers.adam import *
from ipu.keras.optimizers.adamw import *
from ipu.keras.optimizers.adaptive import *
from ipu.keras.optimizers.als import *
from ipu.keras.optimizers.ipu_optimizers import *
from ipu.keras.optimizers.lamb import *
from ipu.keras.optimizers.loss_scale import *
from ipu.keras.optimizers.optimizer import *
from ipu.keras.optimizers.optimizer import Optimizer
from ipu.keras.optimizers.recent import *
from ipu.keras.optimizers.rmsprop import *
from ipu.keras.optimizers.sgd import *
from ipu.keras.optimizers.wrappers import *

# whose constructors need more than defaults
_NOT_BY_NAME = """
    ALSOptimizerAdam ALSOptimizerRMSProp ALSOptimizerSGD IpuOptimizerBase
    MapGradientOptimizer Optimizer
""".split()
_TABLE: dict[str, type[Any]] = {
    name.lower(): globals()[name]
    for name in offered(__name__)
    if name not in _NOT_BY_NAME
}


def get(identifier: Any) -> Optimizer:
    """Return the optimizer that ``compile`` was told.

    Args:
        identifier: A name such as ``"sgd"``, a dict with ``class_name`` and ``config``,
            an optimizer, or a subclass of ``Optimizer``.

    Returns:
        An optimizer; new for a name, with its default arguments.

    Raises:
        ValueError: There is no optimizer of that name; the nearest is offered.
        TypeError: It is anything else.

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


@like(_serialization.serialize_keras_object)
def serialize(optimizer: Any) -> Any:
    return _serialization.serialize_keras_object(optimizer)


@like(_serialization.deserialize_keras_object)
def deserialize(config: Any, custom_objects: Any = None) -> Any:
    with _serialization.CustomObjectScope(custom_objects or {}):
        return get(config)


export(__name__, offered(__name__, ["schedules"]))
