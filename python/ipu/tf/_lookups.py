# SPDX-License-Identifier: MIT
"""Which rows of a table were looked up, so that an update may leave the others alone.

TensorFlow's gradient of a lookup has values for some rows only (``IndexedSlices``), and
optimizers treat the rest as if there had been no step. Gradients here are whole
tensors; for one that came from lookups alone it is noted which rows they took.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ipu import _core, _strategy_state
from ipu._core import Tensor, apply
from ipu.tf import _tapes
from ipu.tf._tracing import current_build
from ipu.tf.variable import Variable

__all__ = ["look_up", "note_rows", "taken_rows", "with_rows"]

_RECENT = 8  # gradients of eager tapes that are kept until an optimizer takes them


class _Eager(threading.local):
    def __init__(self) -> None:
        # by the gradient's id; a tensor cannot be referenced weakly
        self.recent: dict[int, tuple[Tensor, list[Tensor]]] = {}


_eager = _Eager()


def look_up(table: Variable, ids: Tensor) -> Tensor:
    """Take rows of a variable, and note which.

    Args:
        table: The variable, ``(rows, ...)``.
        ids: Integers of any shape.

    Returns:
        ``(*ids.shape, ...)``.

    Raises:
        InvalidArgumentError: A number is not one of a row.
    """
    read = table.value()
    if read.is_symbolic:
        current_build().lookups.ids[id(read)] = ids
    else:
        for tape in _tapes.active():
            tape._take_lookup(read, ids)
    return apply("gather", (read, ids), {"axis": 0, "batch_dims": 0})


def with_rows(
    xs: Sequence[Any], walk: Callable[[Sequence[Any]], list[Tensor | None]]
) -> list[Tensor | None]:
    """Differentiate in a trace, and note the rows of gradients that have some only.

    Args:
        xs: Variables and tensors.
        walk: Gives the gradients of what it is given.

    Returns:
        The gradients.
    """
    if not any(isinstance(x, Variable) for x in xs):
        return walk(xs)
    trace, lookups = _core.open_trace(), current_build().lookups
    assert trace is not None
    reads = [
        lookups.reads.get(x._id, []) if isinstance(x, Variable) else [] for x in xs
    ]
    # a read inside of a loop or branch can be no source: its variable is left alone
    wanted = [
        each
        if any(id(r) in lookups.ids for r in each) and all(map(trace.sees, each))
        else []
        for each in reads
    ]
    if not any(wanted):
        return walk(xs)
    found = walk([*xs, *(read for each in wanted for read in each)])
    parts = iter(found[len(xs) :])
    for gradient, each in zip(found, wanted, strict=False):
        # by a read that is no lookup every row has a gradient
        taken = [
            lookups.ids.get(id(read))
            for read, part in zip(each, [next(parts) for _ in each], strict=True)
            if part is not None
        ]
        if gradient is not None and taken and None not in taken:
            lookups.rows[id(gradient)] = (gradient, taken)
    return found[: len(xs)]


def note_rows(gradient: Tensor, taken: list[Tensor]) -> None:
    """Note the rows of a gradient that an eager tape gave."""
    recent: dict[int, tuple[Tensor, list[Tensor]]] = _eager.recent
    recent[id(gradient)] = (gradient, taken)
    if len(recent) > _RECENT:
        del recent[next(iter(recent))]


def taken_rows(gradient: Any, rows: int) -> Tensor | None:
    """Say which rows of a variable a gradient is about.

    Args:
        gradient: What a tape or ``tf.gradients`` gave, itself.
        rows: How many rows the variable has.

    Returns:
        bool, ``(rows,)``: true for those that were looked up; or None where the
        gradient has all rows, as it always does in the scope of a strategy.
    """
    if _strategy_state.has_strategy():
        return None
    trace = _core.open_trace()
    if trace is None:
        found = _eager.recent.pop(id(gradient), None)
    else:
        found = current_build().lookups.rows.get(id(gradient))
        if found is not None and not all(map(trace.sees, found[1])):
            return None
    if found is None:
        return None
    taken = None
    for ids in found[1]:
        count = math.prod(ids.shape)
        points = apply("reshape", (ids,), {"shape": [count, 1]})
        ones = Tensor([1.0] * count)
        counts = apply("scatter_nd", (points, ones), {"shape": [rows]})
        taken = counts if taken is None else taken + counts
    return None if taken is None else taken > 0.0
