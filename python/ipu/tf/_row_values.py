# SPDX-License-Identifier: MIT
"""The values of gradients that have some rows only, before rows that were looked up
twice are added up; ``_lookups.py`` notes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ipu import _core
from ipu._core import Tensor, apply
from ipu.tf._notes import note, noted

__all__ = ["scaled", "values_of", "with_values"]


def values_of(gradient: Any) -> list[Tensor] | None:
    """The values of a gradient that has some rows only, one tensor for each lookup.

    A row that was looked up twice has two values, whose sum is in the gradient. What is
    clipped in TensorFlow is these, before they are added up.

    Args:
        gradient: What ``tf.gradients`` gave, itself.

    Returns:
        The values; None where the gradient has all rows, or they are not known.
    """
    if not isinstance(gradient, Tensor) or noted(gradient, "rows") is None:
        return None
    values: list[Tensor] | None = noted(gradient, "row_values")
    trace = _core.open_trace()
    if values is None or trace is None or not all(map(trace.sees, values)):
        return None
    return values


def with_values(gradient: Tensor, values: Sequence[Tensor]) -> Tensor:
    """A gradient of the same rows with other values.

    Args:
        gradient: One that :func:`values_of` gives values of.
        values: As many, of the same shapes.
    """
    taken: list[Tensor] = noted(gradient, "rows")
    shape = list(gradient.shape)
    total = None
    for ids, rows in zip(taken, values, strict=True):
        count = math.prod(ids.shape)
        points = apply("reshape", (ids,), {"shape": [count, 1]})
        flat = apply("reshape", (rows,), {"shape": [count, *shape[1:]]})
        part = apply("scatter_nd", (points, flat), {"shape": shape})
        total = part if total is None else total + part
    assert total is not None
    note(total, "rows", taken)
    note(total, "row_values", list(values))
    return total


def scaled(gradient: Tensor, factor: Tensor) -> Tensor:
    """A gradient times a scalar; it has the same rows."""
    made = gradient * factor
    values = values_of(gradient)
    if values is not None:
        note(made, "rows", noted(gradient, "rows"))
        note(made, "row_values", [one * factor for one in values])
    return made
