# SPDX-License-Identifier: MIT
"""Which rows of a table were looked up, so that an update may leave the others alone.

TensorFlow's gradient of a lookup has values for some rows only (``IndexedSlices``), and
optimizers treat the rest as if there had been no step. Gradients here are whole
tensors; for one that came from lookups alone it is noted which rows they took, with the
values of each (``slices.py``).
"""

from __future__ import annotations

import bisect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ipu import _core
from ipu._core import Tensor, apply
from ipu._device import strategy_state
from ipu.tf._functions.tracing import current_build
from ipu.tf._gradients.slices import Slices, slices_of
from ipu.tf._tensor.notes import note, noted
from ipu.tf.variable import Variable


def with_rows(
    xs: Sequence[Any],
    walk: Callable[[Sequence[Any]], list[Tensor | None]],
    begin: int = 0,
) -> list[Tensor | None]:
    """Differentiate in a trace, and note the rows of gradients that have some only.

    Args:
        walk: Gives the gradients of what it is given.
        begin: The first node of the trace that counts.
    """
    if not any(isinstance(x, Variable) for x in xs):
        return walk(xs)
    trace, known = _core.open_trace(), current_build().reads
    assert trace is not None
    reads = [
        _reads_from(begin, known.get(x._id, [])) if isinstance(x, Variable) else []
        for x in xs
    ]
    # a read inside of a loop or branch cannot be a source: its variable is left alone
    wanted = [
        each
        if any(noted(r, "looked_up") is not None for r in each)
        and all(map(trace.sees, with_values(each)))
        else []
        for each in reads
    ]
    if not any(wanted):
        return walk(xs)
    found = walk([*xs, *(x for each in wanted for x in with_values(each))])
    parts = iter(found[len(xs) :])
    for gradient, each in zip(found, wanted, strict=False):
        note_rows(gradient, each, [next(parts) for _ in with_values(each)])
    return found[: len(xs)]


def with_values(reads: Sequence[Tensor]) -> list[Tensor]:
    """Return the reads of a variable, and the rows that were taken of each."""
    found = [noted(read, "looked_up") for read in reads]
    return [*reads, *(one.values for one in found if one is not None)]


def _reads_from(begin: int, reads: list[tuple[int, Tensor]]) -> list[Tensor]:
    first = bisect.bisect_right(reads, begin, key=operator.itemgetter(0))
    return [read for _, read in reads[first:]]


def note_rows(
    gradient: Tensor | None, reads: Sequence[Tensor], parts: Sequence[Tensor | None]
) -> None:
    """Note the rows of a variable's gradient, where it has values for some alone.

    Args:
        parts: The gradients of :func:`with_values` of them; that of the variable is the
            sum of those of the reads.
    """
    values = iter(parts[len(reads) :])
    slices: list[Slices] = []
    for read, part in zip(reads, parts, strict=False):
        taken = noted(read, "looked_up")
        value = None if taken is None else next(values)
        if part is None:
            continue
        if taken is None or value is None:
            return  # one read takes the whole table, so every row has a gradient
        slices.append(Slices(taken.ids, value))
    if gradient is not None and slices:
        note(gradient, "slices", slices)


def taken_rows(gradient: Any, rows: int) -> Tensor | None:
    """Say which rows of a variable a gradient is about.

    Args:
        gradient: What a tape or ``tf.gradients`` gave, itself.

    Returns:
        bool, ``(rows,)``: true for those that were looked up; or None where the
        gradient has all rows, as it always does in the scope of a strategy.
    """
    if strategy_state.has_strategy():
        return None
    found = slices_of(gradient)
    if found is None:
        return None
    taken = None
    for ids, _ in found:
        count = math.prod(ids.shape)
        points = apply("reshape", (ids,), {"shape": [count, 1]})
        ones = Tensor([1.0] * count)
        counts = apply("scatter_nd", (points, ones), {"shape": [rows]})
        taken = counts if taken is None else taken + counts
    return None if taken is None else taken > 0.0
