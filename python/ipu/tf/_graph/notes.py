# SPDX-License-Identifier: MIT
"""Notes on results of operations: a mask, or the logits that an activation came from.

The tensor in a note becomes one more result of the operation, so that whoever uses the
first one finds the note in the graph and in every program, as eager code does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu.tf._tensor.notes import note, noted, noted_all

# the leaf that the note is on, its name, and what stands beside the tensor in it
Place = tuple[int, str, str | None]

_NAMES = ("logits", "mask")


def of_results(leaves: Sequence[Any]) -> list[Place]:
    """Return the places of the notes on results."""
    places: list[Place] = []
    for index, leaf in enumerate(leaves):
        for name in _NAMES:
            what = noted(leaf, name)
            if what is not None:
                kind = what[1] if isinstance(what, tuple) else None
                places.append((index, name, kind))
    return places


def at(places: Sequence[Place], leaves: Sequence[Any]) -> list[Any]:
    """Return the tensors in the notes at these places."""
    found = [noted(leaves[index], name) for index, name, _ in places]
    return [what[0] if isinstance(what, tuple) else what for what in found]


def hand_on(symbol: Any, value: Any, value_of: Any) -> None:
    """Note of a value what a tensor of the graph knows of itself.

    Args:
        value_of: Gives the value of a tensor of the graph there; None where it is not
            a part of the program.
    """
    for name, what in (noted_all(symbol) or {}).items():
        if name in _NAMES and noted(value, name) is None:
            tensor, kind = what if isinstance(what, tuple) else (what, None)
            found = value_of(tensor)
            if found is not None:
                note(value, name, found if kind is None else (found, kind))
