# SPDX-License-Identifier: MIT
"""Notes what a tensor came from, on the tensor itself: they live and die with it.

| name | what it says |
|---|---|
| ``"part_of"`` | the variable and the index that the tensor was read by |
| ``"looked_up"`` | of a read of a variable: which rows are taken of it, and these |
| ``"slices"`` | of a gradient: the rows that it has values for, and these |
| ``"logits"`` | of an activation: what it was computed from, and which one it is |
| ``"mask"`` | which time steps count |
| ``"running"`` | that it says something of all micro-batches so far |
"""

from __future__ import annotations

import contextlib
from typing import Any

from ipu._core import Tensor


def note(tensor: Any, name: str, what: Any) -> None:
    """Note something of a tensor; what was noted by that name before is replaced.

    Args:
        tensor: Of known value, of a trace or of a graph. Other objects that have no
            room for notes, such as NumPy arrays, are left as they are.
        what: Anything. It must not hold the tensor.
    """
    notes = noted_all(tensor)
    if notes is not None:
        notes[name] = what
        return
    with contextlib.suppress(AttributeError):
        tensor._notes = {name: what}


def noted(tensor: Any, name: str) -> Any:
    """Return what was noted of a tensor by a name; None where nothing was."""
    notes = noted_all(tensor)
    return None if notes is None else notes.get(name)


def noted_all(tensor: Any) -> dict[str, Any] | None:
    """Return all notes of a tensor by name; None where there are none."""
    notes: dict[str, Any] | None = getattr(tensor, "_notes", None)
    return notes


def note_logits(activation: Tensor, logits: Tensor, kind: str) -> Tensor:
    """Note in a program what an activation was computed from, for losses of Keras.

    Keras asks for the operation that made an output, which eager tensors do not have.

    Args:
        kind: "softmax" or "sigmoid".
    """
    if activation.is_symbolic:
        note(activation, "logits", (logits, kind))
    return activation
