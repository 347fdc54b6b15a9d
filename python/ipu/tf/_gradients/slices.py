# SPDX-License-Identifier: MIT
"""Gradients that have values for some rows only.

A row of a table that was looked up twice has two values, whose sum is in the gradient.
What is clipped, as in TensorFlow, is each of them. ``lookups.py`` notes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ipu import _core
from ipu._core import Tensor, apply
from ipu.tf._tensor.notes import note, noted


class Slices(NamedTuple):
    """Rows of a table: which ones, and their values or the gradient of those."""

    ids: Tensor
    values: Tensor


def slices_of(gradient: Any) -> list[Slices] | None:
    """Return the rows that a gradient has values for; None where it has all.

    Args:
        gradient: What a tape or ``tf.gradients`` gave, itself.
    """
    found: list[Slices] | None = noted(gradient, "slices")
    trace = _core.open_trace()
    is_hidden = trace is not None and not all(
        trace.sees(tensor) for one in found or () for tensor in one
    )
    return None if is_hidden else found


def mapped(function: Callable[[Tensor], Tensor], gradient: Tensor) -> Tensor:
    """Apply a function of each element to a gradient.

    Of one with rows it is applied to each that was taken, before they are added up, and
    the result has rows, too.
    """
    slices = slices_of(gradient)
    if slices is None:
        return function(gradient)
    made = [Slices(one.ids, function(one.values)) for one in slices]
    total: Tensor | None = None
    attrs = {"axis": 0, "batch_dims": 0, "shape": list(gradient.shape)}
    for one in made:
        part = apply("gather_grad", one, attrs)
        total = part if total is None else total + part
    assert total is not None
    note(total, "slices", made)
    return total
