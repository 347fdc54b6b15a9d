# SPDX-License-Identifier: MIT
"""Diagonals, bands and transposes of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ipu.tf._ops.reductions import reduce_sum
from ipu.tf._ops.shapes import transpose
from ipu.tf._tensor.convert import Tensor, apply, known_count, like
from ipu.tf._tensor.dispatch import op


def matrices(value: Any, what: str) -> Tensor:
    """Return a tensor of at least two axes.

    Args:
        what: The function of ``tf.linalg`` that takes it, for messages.

    Raises:
        ValueError: It has fewer.
    """
    tensor = Tensor(value)
    if tensor.ndim < 2:
        raise ValueError(
            f"tf.linalg.{what} takes matrices in the last two axes. Received shape "
            f"{tensor.shape}."
        )
    return tensor


@op
def matrix_transpose(a: Any, name: str = "", conjugate: bool = False) -> Tensor:
    """Return the last two axes exchanged.

    Example:
        >>> tf.linalg.matrix_transpose([[[1, 2]]]).numpy().tolist()
        [[[1], [2]]]
    """
    value = matrices(a, "matrix_transpose")
    order = list(range(value.ndim))
    order[-2], order[-1] = order[-1], order[-2]
    return transpose(value, order)


@op
def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """Return the same as :func:`matrix_transpose`: the tensors are real.

    Example:
        >>> tf.linalg.adjoint([[1, 2]]).numpy().tolist()
        [[1], [2]]
    """
    return matrix_transpose(matrices(matrix, "adjoint"))


# --- diagonals ------------------------------------------------------------------------


def _diagonal_of(rows: int, columns: int, k: int) -> tuple[int, int]:
    """Return where diagonal ``k`` begins in the matrix as one row, and how long it
    is."""
    begin = k if k >= 0 else -k * columns
    length = min(rows + min(k, 0), columns - max(k, 0))
    if length <= 0:
        raise ValueError(f"A {rows} by {columns} matrix has no diagonal {k}.")
    return begin, length


@op
def diag_part(input: Any, name: str = "", k: int = 0) -> Tensor:
    """Return the main diagonal of each matrix, or the k-th one above it.

    Example:
        >>> tf.linalg.diag_part([[1, 2], [3, 4]]).numpy().tolist()
        [1, 4]
    """
    value = matrices(input, "diag_part")
    *lead, rows, columns = value.shape
    begin, length = _diagonal_of(rows, columns, k)
    flat = apply("reshape", (value,), {"shape": [*lead, rows * columns]})
    ones = [1] * len(lead)
    bounds = {
        "begin": [*[0] * len(lead), begin],
        "size": [*lead, length],
        "strides": [*ones, columns + 1],
    }
    return apply("slice", (flat,), bounds)


def _placed(diagonal: Tensor, rows: int, columns: int, k: int) -> Tensor:
    """Return zeros with a diagonal."""
    *lead, length = diagonal.shape
    begin, expected = _diagonal_of(rows, columns, k)
    if length != expected:
        raise ValueError(
            f"Diagonal {k} of a {rows} by {columns} matrix has {expected} elements. "
            f"Received a diagonal of shape {diagonal.shape}."
        )
    attrs = {
        "shape": [*lead, rows * columns],
        "begin": [*[0] * len(lead), begin],
        "size": diagonal.shape,
        "strides": [*[1] * len(lead), columns + 1],
    }
    flat = apply("slice_grad", (diagonal,), attrs)
    return apply("reshape", (flat,), {"shape": [*lead, rows, columns]})


@op
def diag(diagonal: Any, name: str = "", k: int = 0) -> Tensor:
    """Return matrices with the given diagonal (the main one, or the k-th), 0 elsewhere.

    Example:
        >>> tf.linalg.diag([1, 2]).numpy().tolist()
        [[1, 0], [0, 2]]
    """
    value = Tensor(diagonal)
    if not value.ndim:
        raise ValueError("tf.linalg.diag takes diagonals in the last axis, not ().")
    n = value.shape[-1] + abs(k)
    return _placed(value, n, n, k)


@op
def set_diag(input: Any, diagonal: Any, name: str = "", k: int = 0) -> Tensor:
    """Return ``input`` with another diagonal.

    Example:
        >>> tf.linalg.set_diag([[1, 2], [3, 4]], [0, 9]).numpy().tolist()
        [[0, 2], [3, 9]]
    """
    value = matrices(input, "set_diag")
    rows, columns = value.shape[-2:]
    placed = _placed(like(diagonal, value), rows, columns, k)
    mask = Tensor(np.eye(rows, columns, k, dtype=bool))
    return apply("select", (mask, placed, value))


@op
def tensor_diag(diagonal: Any, name: str | None = None) -> Tensor:
    """Return a tensor with the shape of ``diagonal`` twice, 0 off its diagonal.

    Of a vector it is :func:`diag`; of others element [i, ..., k, i, ..., k] is
    ``diagonal[i, ..., k]``.

    Example:
        >>> tf.linalg.tensor_diag([1, 2]).numpy().tolist()
        [[1, 0], [0, 2]]
    """
    value = Tensor(diagonal)
    if not value.ndim:
        raise ValueError("tf.linalg.tensor_diag takes at least one axis, not ().")
    flat = apply("reshape", (value,), {"shape": [math.prod(value.shape)]})
    return apply("reshape", (diag(flat),), {"shape": [*value.shape, *value.shape]})


@op
def tensor_diag_part(input: Any, name: str | None = None) -> Tensor:
    """Return the diagonal of a tensor with a shape twice, as :func:`tensor_diag` makes
    it.

    Raises:
        ValueError: The axes of the second half are not those of the first.

    Example:
        >>> tf.linalg.tensor_diag_part([[1, 2], [3, 4]]).numpy().tolist()
        [1, 4]
    """
    value = Tensor(input)
    half = value.shape[: value.ndim // 2]
    if not half or value.shape != half * 2:
        raise ValueError(
            "tf.linalg.tensor_diag_part takes a tensor whose shape is one shape twice. "
            f"Received shape {value.shape}."
        )
    size = math.prod(half)
    square = apply("reshape", (value,), {"shape": [size, size]})
    return apply("reshape", (diag_part(square),), {"shape": half})


@op
def trace(x: Any, name: str | None = None) -> Tensor:
    """Return the sum of the main diagonal of each matrix.

    Example:
        >>> int(tf.linalg.trace([[1, 2], [3, 4]]))
        5
    """
    return reduce_sum(diag_part(matrices(x, "trace")), -1)


@op
def band_part(
    input: Any, num_lower: Any, num_upper: Any, name: str | None = None
) -> Tensor:
    """Return matrices with 0 outside of a band around the diagonal.

    Args:
        input: [..., rows, columns].
        num_lower: How many diagonals below the main one stay; -1: all.
        num_upper: How many above it; -1: all.

    Example:
        >>> tf.linalg.band_part([[1, 2], [3, 4]], -1, 0).numpy().tolist()
        [[1, 0], [3, 4]]
    """
    value = matrices(input, "band_part")
    rows, columns = value.shape[-2:]
    lower = known_count(num_lower, "num_lower")
    upper = known_count(num_upper, "num_upper")
    below = np.arange(rows)[:, None] - np.arange(columns)
    inside = np.ones((rows, columns), dtype=bool)
    if lower >= 0:
        inside &= below <= lower
    if upper >= 0:
        inside &= -below <= upper
    return apply("select", (Tensor(inside), value, like(0, value)))
