# SPDX-License-Identifier: MIT
"""The key that tells when a model's programs must be traced again.

A program serves again where all is equal that it was traced for: the mode and the kind
of data, the layers and their attributes, what ``compile`` was given, the device. What
``call`` reads elsewhere (a global, an element of a list) is read when it is traced, as
in Keras; ``compile`` has everything traced again.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Hashable
from typing import Any

from ipu._device.placement import current_device, on_host
from ipu.keras import losses, metrics
from ipu.keras._backend_state import state
from ipu.keras.optimizers.optimizer import Optimizer
from ipu.keras.optimizers.schedules import LearningRateSchedule
from ipu.tf._functions.signature import exact
from ipu.tf._functions.tracing import in_trace
from ipu.tf._tensor.operation import Reference

_PLAIN = frozenset({bool, int, float, str, type(None)})
_PARTS = (Optimizer, LearningRateSchedule, losses.Loss, metrics.Metric)
_DEPTH = 4
# of layers: what `call` does not depend on, or what is compared by itself
_NOT_OF_LAYERS = frozenset(
    """
    _called_on _data_order _form_of_outputs _programs _sink _step_loss _trainable
    _tried_steps _untraceable history predict_function stop_training test_function
    train_function
    """.split()
)
# of optimizers: the rate is a variable, slots are made in a trace
_NOT_OF_OPTIMIZERS = frozenset({"_rate", "_slot_order", "_slot_owners"})
_NOTHING = object()
_changes = itertools.count(1)  # a number for each, that no other change has


def note_change(
    layer: Any, name: str, before: Any = _NOTHING, value: Any = None
) -> None:
    """Note that an attribute of a layer was set or deleted.

    A change in a trace does not count: it happens once for each program.
    """
    is_plain = type(before) is type(value) and type(value) in _PLAIN
    is_same = before is value or (is_plain and bool(before == value))
    if not is_same and name not in _NOT_OF_LAYERS and not in_trace():
        layer.__dict__["_last_change"] = next(_changes)


def key_of_layers(model: Any) -> tuple[Hashable, ...]:
    """Return what differs where an attribute of a layer has changed."""
    return tuple((la._last_change, la._trainable) for la in model._flatten_layers())


def key_of_model(model: Any, mode: str, *kind: Hashable) -> tuple[Hashable, ...]:
    """Return what differs where a model may need another program.

    Args:
        *kind: What else it is traced for.
    """
    compiled: list[Any] = []
    if mode != "predict":
        compiled = [model.optimizer, *model.compiled_loss.parts]
        compiled += model.compiled_metrics.parts
    return (
        mode,
        key_of_layers(model),
        _values_of(compiled),
        (state.epsilon, state.floatx, state.image_data_format),
        weakref.ref(current_device()),
        on_host(),
        *kind,
    )


def _values_of(value: Any, depth: int = _DEPTH) -> Hashable:
    """Return the numbers and names in an optimizer, a loss or a metric that a trace
    reads; None where there is nothing to compare."""
    if type(value) in _PLAIN:
        plain: Hashable = exact(value)
        return plain
    if depth == 0:
        return None
    if isinstance(value, _PARTS):
        value = vars(value)
    if isinstance(value, dict):
        found = [(key, _values_of(one, depth - 1)) for key, one in value.items()]
        left_out = _NOT_OF_OPTIMIZERS
        # a temporary one is None
        return tuple(e for e in found if e[1] is not None and e[0] not in left_out)
    if isinstance(value, (list, tuple)):
        return tuple(_values_of(item, depth - 1) for item in value)
    return Reference(value) if callable(value) else None
