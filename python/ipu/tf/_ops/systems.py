# SPDX-License-Identifier: MIT
"""Norms, linear systems and determinants of matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ipu import _core
from ipu.tf._ops.creation import eye
from ipu.tf._ops.diagonals import diag_part
from ipu.tf._ops.reductions import reduce_max, reduce_min, reduce_sum
from ipu.tf._ops.shapes import expand_dims, transpose
from ipu.tf._ops.spectral import svd
from ipu.tf._tensor.convert import Tensor, apply, axes_of, like
from ipu.tf._tensor.dispatch import op


class SignAndLogDet(NamedTuple):
    """The result of :func:`slogdet`."""

    sign: Tensor
    log_abs_determinant: Tensor


@op
def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the norm of vectors or of whole matrices.

    Args:
        tensor: A floating-point tensor.
        ord: "euclidean" (or "fro"), 1, 2, ``np.inf`` or another positive number; of
            matrices (two axes) "euclidean", 1, 2 and ``np.inf``.
        axis: The axis of the vectors, the two axes of the matrices, or None for all
            elements as one vector.
        keepdims: Keep reduced axes, with size 1.

    Example:
        >>> float(tf.norm([3.0, 4.0]))
        5.0
        >>> tf.norm([[1.0, -2.0], [3.0, 4.0]], ord=1, axis=1).numpy().tolist()
        [3.0, 7.0]
    """
    value = Tensor(tensor)
    axes = axes_of(axis, value.ndim)
    matrix = isinstance(axis, (list, tuple)) and len(axis) == 2
    if ord in ("euclidean", "fro") or (ord == 2 and not matrix):
        squares = apply("square", (value,))
        return apply("sqrt", (reduce_sum(squares, axes, keepdims),))
    if matrix and ord == 2:
        return _largest_singular_value(value, axes, keepdims)
    size = apply("abs", (value,))
    if matrix:
        if ord not in (1, np.inf):
            raise ValueError(f"'ord' must be a supported matrix norm, got {ord}")
        over, across = axis if ord == 1 else axis[::-1]
        sums = reduce_sum(size, over, keepdims=True)
        largest = reduce_max(sums, across, keepdims=True)
        shape = [s for i, s in enumerate(largest.shape) if keepdims or i not in axes]
        return apply("reshape", (largest,), {"shape": shape})
    if ord == np.inf:
        return reduce_max(size, axes, keepdims)
    if ord == -np.inf:
        return reduce_min(size, axes, keepdims)
    if ord == 1:
        return reduce_sum(size, axes, keepdims)
    if not isinstance(ord, (int, float)) or ord <= 0:
        raise ValueError(f"'ord' must be a supported vector norm, got {ord}")
    powers = apply("pow", (size, like(float(ord), value)))
    total = reduce_sum(powers, axes, keepdims)
    return apply("pow", (total, like(1.0 / ord, value)))


def _largest_singular_value(value: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    lead = [axis for axis in range(value.ndim) if axis not in axes]
    largest = reduce_max(svd(transpose(value, [*lead, *axes]), compute_uv=False), -1)
    for axis in axes if keepdims else ():
        largest = expand_dims(largest, axis)
    return largest


@op
def normalize(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return a tensor divided by its norm, and the norm; see :func:`norm`.

    Example:
        >>> tf.linalg.normalize([3.0, 4.0])[0].numpy().tolist()
        [0.6, 0.8]
    """
    value = Tensor(tensor)
    size = norm(value, ord, axis, keepdims=True)
    return value / size, size


@op
def cross(a: Any, b: Any, name: str | None = None) -> Tensor:
    """Return the cross product of vectors of three elements in the last axis.

    Raises:
        ValueError: There are not three.

    Example:
        >>> tf.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).numpy().tolist()
        [0.0, 0.0, 1.0]
    """
    x, y = Tensor(a), Tensor(b)
    if x.shape[-1:] != (3,) or y.shape[-1:] != (3,):
        raise ValueError(
            "tf.linalg.cross takes vectors of three elements in the last axis. "
            f"Received: shapes {x.shape} and {y.shape}."
        )
    one, two = Tensor([1, 2, 0]), Tensor([2, 0, 1])

    def pick(t: Tensor, places: Tensor) -> Tensor:
        return apply("gather", (t, places), {"axis": t.ndim - 1})

    return pick(x, one) * pick(y, two) - pick(x, two) * pick(y, one)


@op
def cholesky(input: Any, name: str | None = None) -> Tensor:
    """Return the lower triangular matrix L with L L^T = input.

    Args:
        input: Positive definite matrices [..., n, n]; the lower triangle is read.

    Raises:
        InvalidArgumentError: A matrix is not positive definite.

    Example:
        >>> tf.linalg.cholesky([[4.0, 2.0], [2.0, 2.0]]).numpy().tolist()
        [[2.0, 0.0], [1.0, 1.0]]
    """
    return apply("cholesky", (Tensor(input),))


def _with_batches(matrix: Any, rhs: Any) -> tuple[Tensor, Tensor]:
    """Return both with the same leading axes."""
    a = Tensor(matrix)
    b = like(rhs, a)
    if a.shape[:-2] == b.shape[:-2] or min(a.ndim, b.ndim) < 2:
        return a, b
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = apply("broadcast", (a,), {"shape": [*lead, *a.shape[-2:]]})
    b = apply("broadcast", (b,), {"shape": [*lead, *b.shape[-2:]]})
    return a, b


@op
def triangular_solve(
    matrix: Any,
    rhs: Any,
    lower: bool = True,
    adjoint: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the X with matrix X = rhs, where one triangle of the matrix is read.

    Args:
        matrix: [..., n, n].
        rhs: [..., n, k]; leading axes broadcast.
        lower: Read the lower triangle, else the upper one.
        adjoint: Solve with the transposed matrix.

    Raises:
        InvalidArgumentError: An element of the diagonal is 0.

    Example:
        >>> tf.linalg.triangular_solve([[2.0, 0.0], [1.0, 1.0]], [[4.0], [5.0]]).numpy()
        array([[2.],
               [3.]], dtype=float32)
    """
    flags = {"lower": bool(lower), "transpose_a": bool(adjoint)}
    return apply("triangular_solve", _with_batches(matrix, rhs), flags)


@op
def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """Return the X with A X = rhs, given the decomposition ``chol`` of A.

    Example:
        >>> tf.linalg.cholesky_solve([[2.0]], [[8.0]]).numpy().tolist()
        [[2.0]]
    """
    half = triangular_solve(chol, rhs)
    return triangular_solve(chol, half, adjoint=True)


@op
def solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str = "") -> Tensor:
    """Return the X with matrix X = rhs.

    Args:
        matrix, rhs, adjoint: As for :func:`triangular_solve`.

    Raises:
        InvalidArgumentError: A matrix is not invertible.

    Example:
        >>> tf.linalg.solve([[1.0, 2.0], [3.0, 4.0]], [[1.0], [2.0]]).numpy().tolist()
        [[0.0], [0.5]]
    """
    flags = {"transpose_a": bool(adjoint)}
    return apply("solve", _with_batches(matrix, rhs), flags)


@op
def inv(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Return the inverse of each matrix.

    Raises:
        InvalidArgumentError: A matrix is not invertible.

    Example:
        >>> tf.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).numpy().tolist()
        [[0.5, 0.0], [0.0, 0.25]]
    """
    value = Tensor(input)
    return solve(value, eye(value.shape[-1], dtype=value.dtype), adjoint)


@op
def det(input: Any, name: str | None = None) -> Tensor:
    """Return the determinant of each matrix.

    Example:
        >>> float(tf.linalg.det([[1.0, 2.0], [3.0, 4.0]]))
        -2.0
    """
    return apply("det", (Tensor(input),))


@op
def slogdet(input: Any, name: str | None = None) -> SignAndLogDet:
    """Return the sign of each determinant and the logarithm of its size.

    Example:
        >>> float(tf.linalg.slogdet([[1.0, 2.0], [3.0, 4.0]]).sign)
        -1.0
    """
    sign, size = _core.apply("slogdet", (Tensor(input),))
    return SignAndLogDet(sign, size)


@op
def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """Return the logarithm of the determinant of positive definite matrices.

    Example:
        >>> round(float(tf.linalg.logdet([[4.0, 0.0], [0.0, 1.0]])), 4)
        1.3863
    """
    logs = apply("log", (diag_part(cholesky(matrix)),))
    return reduce_sum(logs, -1) * 2.0
