# SPDX-License-Identifier: MIT
"""Rows of tables that are looked up by their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu.tf._ops.clip import clip_by_norm
from ipu.tf._ops.selection import gather
from ipu.tf._tensor.convert import Tensor, apply
from ipu.tf._tensor.dispatch import op


def look_up(params: Any, ids: Any, max_norm: float | None, strategy: str) -> Tensor:
    """Work like :func:`embedding_lookup`.

    Args:
        strategy: How rows are spread over several tables: "div" or "mod".
    """
    if strategy not in ("div", "mod"):
        raise ValueError(
            f"Unrecognized partition strategy: {strategy}. Must be one of either `mod` "
            "or `div`."
        )
    is_several = isinstance(params, (list, tuple)) and hasattr(params[0], "shape")
    table, places = params, ids
    if is_several and len(params) == 1:
        table = params[0]
    elif is_several:
        tables = [Tensor(one) for one in params]
        table = apply("concat", tuple(tables), {"axis": 0})
        places = _places([one.shape[0] for one in tables], Tensor(ids), strategy)
    rows = gather(table, places, axis=0)
    if max_norm is None:
        return rows
    first = Tensor(ids).ndim
    return clip_by_norm(rows, max_norm, axes=list(range(first, rows.ndim)))


def _places(sizes: list[int], ids: Tensor, strategy: str) -> Tensor:
    """Return where rows are among those of several tables, one after the other."""
    total, parts = sum(sizes), len(sizes)
    number = np.arange(total)
    if strategy == "mod":
        part, row = number % parts, number // parts
    else:
        few, more = divmod(total, parts)
        part = np.maximum(number // (few + 1), (number - more) // max(few, 1))
        row = np.where(part < more, number % (few + 1), (number - more) % max(few, 1))
    begins = np.cumsum([0, *sizes[:-1]])
    # a row that its table does not have is not a row of all of them
    places = np.where(row < np.asarray(sizes)[part], begins[part] + row, total)
    return gather(Tensor(places.astype(np.int32)), ids, axis=0)


@op
def embedding_lookup(
    params: Any, ids: Any, max_norm: float | None = None, name: str | None = None
) -> Tensor:
    """Return rows of a table.

    Args:
        params: The table [rows, ...], or a list of tables that are parts of one: the
            first rows are in the first of them, and so on.
        ids: Integers of any shape.
        max_norm: Rows whose Euclidean norm is larger are scaled down to it.

    Raises:
        InvalidArgumentError: An id is not a row of the table.

    Example:
        >>> tf.nn.embedding_lookup([[1.0, 2.0], [3.0, 4.0]], [1, 0]).numpy().tolist()
        [[3.0, 4.0], [1.0, 2.0]]
    """
    return look_up(params, ids, max_norm, "div")
