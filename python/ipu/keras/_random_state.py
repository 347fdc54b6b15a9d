# SPDX-License-Identifier: MIT
"""Which random numbers come next: what training needs to go on to the same bits.

A model has the order of its training data. All else belongs to the process: the seed
and the step of the device, the stream of eager ops, the counts of draws on the host. A
model's file holds both as they are when it is written; they are set when the model that
was read is trained, unless a new global seed was set by then.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from ipu import _core
from ipu._device import processes as _processes, seed as _seed
from ipu._device.generators import generator
from ipu._device.placement import current_device

_COUNTS = 1 << 63  # more passes or draws than there can be
_WORDS = 1 << 64


class Order:
    """In which order a model is shown its training data.

    The order of a pass is a function of a seed and of the number of the pass: the first
    ``fit`` draws the seed, later ones go on with the passes. So two times two epochs
    are four epochs.

    Args:
        state: What to go on with; None: from the beginning.

    Attributes:
        passes: How many there were.
    """

    def __init__(self, state: RandomState | None = None) -> None:
        self._seed, self.passes = (None, 0) if state is None else state.order
        self._generation = _seed.current()[1]
        self._pending = state

    def follow(self) -> None:
        """Begin anew where a global seed was set."""
        if self._generation != _seed.current()[1]:
            self._seed, self.passes = None, 0
            self._generation = _seed.current()[1]
            self._pending = None

    def resume(self) -> None:
        """Set the random numbers of the process to those that training is to go on
        with, once; call it in the scope of the model."""
        self.follow()
        state, self._pending = self._pending, None
        if state is not None:
            state.restore()

    @property
    def seed(self) -> int:
        """The seed."""
        if self._seed is None:
            self._seed = int(generator(None).integers(1 << 31))
            shared = _processes.shared()
            if shared is not None:  # each process shows its replicas a part
                self._seed = int(shared.broadcast(np.array(self._seed), 0))
        return self._seed

    @property
    def plain(self) -> tuple[int | None, int]:
        """The seed, None where none was drawn, and the passes."""
        return self._seed, self.passes


class RandomState(NamedTuple):
    """Where all random numbers stand.

    Attributes:
        order: Seed and passes of the training data.
        device: Seed and step of the device.
        eager: Seed, count and number of the stream of this thread's eager ops.
        seed: The global seed.
        drawn: How many draws of each kind the host made under it.
    """

    order: tuple[int | None, int]
    device: tuple[int, int]
    eager: tuple[int, int, int]
    seed: int
    drawn: dict[str, int]

    def to_json(self) -> str:
        """Return the state as text."""
        return json.dumps(self._asdict())

    def restore(self) -> None:
        """Set what belongs to the process; call it in the scope of the model."""
        current_device().core.set_random(*self.device)
        _core.set_eager_random(*self.eager)
        if self.seed == _seed.current()[0]:
            _seed.set_drawn(self.drawn)


def captured(order: Order) -> RandomState:
    """Return the state that training is to go on with; call it in the scope of the
    model."""
    order.follow()
    if order._pending is not None:  # read, and not trained since
        return order._pending
    return RandomState(
        order.plain,
        current_device().core.random,
        _core.eager_random(),
        _seed.current()[0],
        _seed.drawn(),
    )


def parsed(text: str, path: str) -> RandomState:
    """Read what :meth:`RandomState.to_json` wrote."""
    try:
        told: dict[str, Any] = json.loads(text)
        seed, passes = told["order"]
        state = RandomState(
            (None if seed is None else _within(seed, _WORDS), _within(passes, _COUNTS)),
            _words(told["device"], 2, _WORDS),
            _words(told["eager"], 3, _WORDS),
            _whole(told["seed"]),
            {str(name): _within(n, _COUNTS) for name, n in told["drawn"].items()},
        )
        _within(state.eager[2], 1 << 32)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"The file {path!r} is damaged, nothing was loaded (its random state: "
            f"{type(error).__name__}: {error})."
        ) from None
    return state


def _whole(number: Any) -> int:
    if type(number) is not int:
        raise TypeError(f"{number!r} is not a whole number")
    return number


def _within(number: Any, end: int) -> int:
    if not 0 <= _whole(number) < end:
        raise ValueError(f"{number!r} is out of range")
    return int(number)


def _words(numbers: Any, count: int, end: int) -> Any:
    if len(numbers) != count:
        raise ValueError(f"{numbers!r} are not {count} numbers")
    return tuple(_within(number, end) for number in numbers)
