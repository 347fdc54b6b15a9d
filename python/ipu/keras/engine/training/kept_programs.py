# SPDX-License-Identifier: MIT
"""The programs that a model keeps from one ``fit``, ``evaluate`` or ``predict`` to the
next.

A program serves again where all is equal that it was traced for: the mode and the kind
of data, the layers and their attributes, what ``compile`` was given, the device. What
``call`` reads elsewhere (a global, an element of a list) is read when it is traced, as
in Keras; ``compile`` has everything traced again.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import Any

from ipu._device.locks import Lock
from ipu._device.placement import current_device, on_host
from ipu.keras import losses, metrics
from ipu.keras._backend_state import state
from ipu.keras.optimizers.optimizer import Optimizer
from ipu.keras.optimizers.schedules import LearningRateSchedule
from ipu.tf._functions.signature import exact
from ipu.tf._tensor.reference import Reference

_MOST = 8

_PLAIN = frozenset({bool, int, float, str, type(None)})
_PARTS = (Optimizer, LearningRateSchedule, losses.Loss, metrics.Metric)
_DEPTH = 4
# of optimizers: the rate is a variable, slots are made in a trace
_NOT_TRACED = frozenset({"_rate", "_slot_order", "_slot_owners"})


class KeptPrograms:
    """Programs that wait for their next run: those that were used last.

    A run takes its programs out and gives them back: no two runs have the same ones.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Any] = {}  # the oldest first
        self._lock = Lock()

    def take(self, key: Hashable) -> Any:
        """Take what was given back with a key; None: there is none."""
        with self._lock:
            return self._waiting.pop(key, None)

    def give_back(self, key: Hashable, programs: Any) -> None:
        """Keep programs, which hold nothing of their run, for the next one."""
        with self._lock:
            self._waiting.pop(key, None)
            self._waiting[key] = programs
            while len(self._waiting) > _MOST:
                del self._waiting[next(iter(self._waiting))]


class Lease:
    """Programs of a model while a run has them.

    Args:
        model: The model.
        mode: ``"train"``, ``"test"`` or ``"predict"``.
        *kind: What else they were traced for.

    Attributes:
        programs: Those of an earlier run; None: there are none.
    """

    def __init__(self, model: Any, mode: str, *kind: Hashable) -> None:
        self._pool = model._kept
        self._kind = kind
        self._key = (*state_of(model, mode), *kind)
        self.programs = self._pool.take(self._key)

    def hold(self, model: Any, mode: str, programs: Any) -> None:
        """Note new programs; the model may have been built for them."""
        self._key = (*state_of(model, mode), *self._kind)
        self.programs = programs

    def end(self) -> None:
        """Keep the programs for the next run."""
        self._pool.give_back(self._key, self.programs)


def state_of(model: Any, mode: str) -> tuple[Hashable, ...]:
    """What a model's programs of a mode are traced for, but for the data.

    Args:
        model: The model.
        mode: ``"train"``, ``"test"`` or ``"predict"``.

    Returns:
        The mode, and something that differs where another program may be needed.
    """
    layers = [(la._last_change, la._trainable) for la in model._flatten_layers()]
    compiled: list[Any] = []
    if mode != "predict":
        compiled = [model.optimizer, *model.compiled_loss.parts]
        compiled += model.compiled_metrics.parts
    return (
        mode,
        tuple(layers),
        _values_of(compiled),
        (state.epsilon, state.floatx, state.image_data_format),
        weakref.ref(current_device()),
        on_host(),
    )


def _values_of(value: Any, depth: int = _DEPTH) -> Hashable:
    """The numbers and names in an optimizer, a loss or a metric that a trace reads;
    None where there is nothing to compare."""
    if depth == 0:
        return None
    if isinstance(value, _PARTS):
        value = vars(value)
    if isinstance(value, dict):
        found = []
        for key, one in value.items():
            one = exact(one) if type(one) in _PLAIN else _values_of(one, depth - 1)
            if one is not None and key not in _NOT_TRACED:  # None: a temporary one
                found.append((key, one))
        return tuple(found)
    if isinstance(value, (list, tuple)):
        return tuple(
            exact(item) if type(item) in _PLAIN else _values_of(item, depth - 1)
            for item in value
        )
    return Reference(value) if callable(value) else None
