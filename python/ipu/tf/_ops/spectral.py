# SPDX-License-Identifier: MIT
"""Matrices as products of orthogonal, diagonal and triangular ones; what follows.

The gradients follow Giles, "Collected matrix derivative results", 2008, for eigenvalues
and singular values, Walter and Lehmann, "Algorithmic differentiation of linear algebra
functions", 2012, for QR, Golub and Pereyra, 1973, for the pseudo-inverse. Where two
eigenvalues or singular values are equal, their vectors have no gradient; what would be
divided by 0 there counts as 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ipu import _core
from ipu.tf._gradients import tapes
from ipu.tf._ops import diagonals
from ipu.tf._ops.creation import eye
from ipu.tf._ops.elementwise import divide_no_nan
from ipu.tf._ops.products import matmul
from ipu.tf._ops.reductions import reduce_max, reduce_sum
from ipu.tf._ops.shapes import concat
from ipu.tf._tensor.convert import Tensor, apply, cast, like
from ipu.tf._tensor.dispatch import op
from ipu.tf.custom_gradient import custom_gradient
from ipu.tf.dtypes import int32


class Eigh(NamedTuple):
    """The result of :func:`eigh`."""

    e: Tensor
    v: Tensor


class QR(NamedTuple):
    """The result of :func:`qr`."""

    q: Tensor
    r: Tensor


class SVD(NamedTuple):
    """The result of :func:`svd`."""

    s: Tensor
    u: Tensor
    v: Tensor


def turned(matrix: Tensor) -> Tensor:
    """Return the last two axes exchanged."""
    return diagonals.matrix_transpose(matrix)


def again(function: Callable[..., Any], results: Any, *operands: Tensor) -> Any:
    """Return the results of a function with a gradient of its own, for use in that
    gradient.

    Where that may be differentiated in its turn, they come from another call, since
    what the function is made of has no gradient; a compiled program has one of both.
    """
    if _core.open_trace() is None and not tapes.active():
        return results
    return function(*operands)


def _gaps(values: Tensor) -> Tensor:
    """Return one over values[j] - values[i], and 0 on the diagonal."""
    gap = values[..., None, :] - values[..., :, None]
    return divide_no_nan(like(1, gap), gap)


def _scaled(matrix: Tensor, columns: Tensor) -> Tensor:
    """Return each column times its number."""
    return matrix * columns[..., None, :]


# --- eigenvalues ----------------------------------------------------------------------


@custom_gradient
def _eigh(matrix: Tensor) -> Any:
    found = _core.apply("eigh", (matrix,))

    def gradient(de: Tensor, dv: Tensor) -> Tensor:
        e, v = again(_eigh, found, matrix)
        inner = diagonals.diag(de) + _gaps(e) * matmul(v, dv, transpose_a=True)
        whole = matmul(matmul(v, inner), v, transpose_b=True)
        # the triangle above the diagonal is not read: its share goes below
        both = diagonals.band_part(whole + turned(whole), -1, 0)
        return both - diagonals.diag(diagonals.diag_part(whole))

    return tuple(found), gradient


@op
def eigh(tensor: Any, name: str | None = None) -> Eigh:
    """Return the eigenvalues and eigenvectors of symmetric matrices.

    Args:
        tensor: [..., n, n]; the lower triangle is read.

    Returns:
        ``(e, v)``: the eigenvalues [..., n], the least first, and the vectors [..., n,
        n], one in each column.

    Raises:
        InvalidArgumentError: The matrices are not square, or not finite.

    Example:
        >>> tf.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).e.numpy().tolist()
        [1.0, 2.0]
    """
    return Eigh(*_eigh(diagonals.matrices(tensor, "eigh")))


@op
def eigvalsh(tensor: Any, name: str | None = None) -> Tensor:
    """Return the eigenvalues of symmetric matrices; see :func:`eigh`.

    Example:
        >>> tf.linalg.eigvalsh([[0.0, 1.0], [1.0, 0.0]]).numpy().tolist()
        [-1.0, 1.0]
    """
    e: Tensor = _eigh(diagonals.matrices(tensor, "eigvalsh"))[0]
    return e


# --- QR -------------------------------------------------------------------------------


def _of_tall(q: Tensor, r: Tensor, dq: Tensor, dr: Tensor) -> Tensor:
    """Return the gradient where there are at least as many rows as columns."""

    def by_inverse(x: Tensor) -> Tensor:  # x r^-T
        flags = {"lower": False, "transpose_a": False}
        return turned(apply("triangular_solve", (r, turned(x)), flags))

    inner = matmul(q, dq, transpose_a=True)
    outer = matmul(r, dr, transpose_b=True)
    both = inner - turned(inner) + outer - turned(outer)
    low = diagonals.band_part(both, -1, 0)
    return matmul(q, dr + by_inverse(low)) + by_inverse(dq - matmul(q, inner))


@custom_gradient
def _qr(matrix: Tensor) -> Any:
    found = _core.apply("qr", (matrix,))
    rows, columns = matrix.shape[-2:]

    def gradient(dq: Tensor, dr: Tensor) -> Tensor:
        q, r = again(_qr, found, matrix)
        if rows >= columns:
            return _of_tall(q, r, dq, dr)
        rest, d_rest = matrix[..., rows:], dr[..., rows:]
        dq = dq + matmul(rest, d_rest, transpose_b=True)
        first = _of_tall(q, r[..., :rows], dq, dr[..., :rows])
        return concat([first, matmul(q, d_rest)], -1)

    return tuple(found), gradient


@op
def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> QR:
    """Return a matrix as an orthogonal one times an upper triangular one.

    Args:
        input: [..., m, n].
        full_matrices: Give all m columns of q, in place of the first min(m, n).

    Returns:
        ``(q, r)``: [..., m, k] and [..., k, n]. As in LAPACK an element of r's diagonal
        may be negative.

    Example:
        >>> q, r = tf.linalg.qr([[3.0, 1.0], [4.0, 2.0]])
        >>> r.numpy().tolist()
        [[-5.0, -2.2], [0.0, 0.4]]
    """
    matrix = diagonals.matrices(input, "qr")
    rows, columns = matrix.shape[-2:]
    if not full_matrices or rows <= columns:
        return QR(*_qr(matrix))
    wide = concat(
        [matrix, eye(rows, batch_shape=matrix.shape[:-2], dtype=matrix.dtype)], -1
    )
    q, r = _qr(wide)
    return QR(q, r[..., :columns])


# --- singular values ------------------------------------------------------------------


def _of_wide(
    s: Tensor, u: Tensor, v: Tensor, ds: Tensor, du: Tensor, dv: Tensor
) -> Tensor:
    """Return the gradient where u is square."""
    gaps = _gaps(apply("square", (s,)))
    left = gaps * matmul(u, du, transpose_a=True)
    share = matmul(v, dv, transpose_a=True)
    right = gaps * share
    inner = diagonals.diag(ds) + _scaled(left + turned(left), s)
    inner = inner + s[..., :, None] * (right + turned(right))
    result = matmul(matmul(u, inner), v, transpose_b=True)
    if v.shape[-2] == v.shape[-1]:
        return result
    rest = dv - matmul(v, share)  # what v turns out of its space
    inverse = divide_no_nan(like(1, s), s)
    return result + matmul(_scaled(u, inverse), rest, transpose_b=True)


@custom_gradient
def _svd(matrix: Tensor) -> Any:
    found = _core.apply("svd", (matrix,))
    rows, columns = matrix.shape[-2:]

    def gradient(ds: Tensor, du: Tensor, dv: Tensor) -> Tensor:
        s, u, v = again(_svd, found, matrix)
        if rows > columns:
            return turned(_of_wide(s, v, u, ds, dv, du))
        return _of_wide(s, u, v, ds, du, dv)

    return tuple(found), gradient


@custom_gradient
def _singular_values(matrix: Tensor) -> Any:
    found = _core.apply("svd", (matrix,))

    def gradient(ds: Tensor) -> Tensor:
        _, u, v = again(_svd, found, matrix)
        return matmul(_scaled(u, ds), v, transpose_b=True)

    return found[0], gradient


def _completed(vectors: Tensor) -> Tensor:
    """Return orthonormal columns, and as many more as there are rows."""
    if vectors.shape[-2] == vectors.shape[-1]:
        return vectors
    rest = qr(apply("stop_gradient", (vectors,)), full_matrices=True).q
    return concat([vectors, rest[..., vectors.shape[-1] :]], -1)


@op
def svd(
    tensor: Any,
    full_matrices: bool = False,
    compute_uv: bool = True,
    name: str | None = None,
) -> Any:
    """Decompose matrices into u diag(s) v^T with orthonormal columns in u and v.

    Args:
        tensor: [..., m, n].
        full_matrices: Give all m columns of u and all n of v, in place of the first
            k = min(m, n).
        compute_uv: Give u and v, too.

    Returns:
        ``(s, u, v)``: the singular values [..., k], the largest first, [..., m, k] and
        [..., n, k]; or s alone.

    Example:
        >>> tf.linalg.svd([[0.0, 2.0], [1.0, 0.0]], compute_uv=False).numpy().tolist()
        [2.0, 1.0]
    """
    matrix = diagonals.matrices(tensor, "svd")
    if not compute_uv:
        return _singular_values(matrix)
    s, u, v = _svd(matrix)
    if full_matrices:
        u, v = _completed(u), _completed(v)
    return SVD(s, u, v)


def _tolerance(matrix: Tensor) -> float:
    """Return the largest side times the distance of 1 from the next number."""
    dtype = matrix.dtype.as_numpy_dtype
    return float(max(matrix.shape[-2:]) * np.finfo(dtype).eps)


@op
def matrix_rank(
    a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """Return how many singular values are more than a tolerance.

    Args:
        a: [..., m, n].
        tol: The tolerance; None: max(m, n) times the dtype's epsilon times the largest
            singular value.
        validate_args: Accepted and not used.

    Returns:
        int32 [...].

    Example:
        >>> int(tf.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]))
        1
    """
    matrix = diagonals.matrices(a, "matrix_rank")
    s = svd(matrix, compute_uv=False)
    if tol is None:
        least = reduce_max(s, -1, keepdims=True) * _tolerance(matrix)
    else:
        least = like(tol, s)
    return reduce_sum(cast(s > least, int32), -1)


@custom_gradient
def _pinv(matrix: Tensor, rcond: Tensor) -> Any:
    s, u, v = _core.apply("svd", (matrix,))
    least = reduce_max(s, -1, keepdims=True) * rcond
    inverse = divide_no_nan(like(1, s), apply("select", (s > least, s, like(0, s))))
    result = matmul(_scaled(v, inverse), u, transpose_b=True)

    def gradient(g: Tensor) -> Any:
        p = again(_pinv, result, matrix, rcond)
        pt, gt = turned(p), turned(g)
        through = matmul(matmul(pt, g), pt)
        one = matmul(matmul(gt, p), pt)
        other = matmul(matmul(pt, p), gt)
        outside_left = one - matmul(matrix, matmul(p, one))
        outside_right = other - matmul(matmul(other, p), matrix)
        return outside_left + outside_right - through, None

    return result, gradient


@op
def pinv(
    a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """Return the pseudo-inverse of Moore and Penrose.

    Args:
        a: [..., m, n].
        rcond: [...] or a number: singular values that are at most this share of the
            largest count as 0; None: 10 max(m, n) times the dtype's epsilon.
        validate_args: Accepted and not used.

    Returns:
        [..., n, m].

    Example:
        >>> tf.linalg.pinv([[2.0, 0.0], [0.0, 0.0]]).numpy().tolist()
        [[0.5, 0.0], [0.0, 0.0]]
    """
    matrix = diagonals.matrices(a, "pinv")
    share = like(10.0 * _tolerance(matrix) if rcond is None else rcond, matrix)
    result: Tensor = _pinv(matrix, share[..., None])
    return result
