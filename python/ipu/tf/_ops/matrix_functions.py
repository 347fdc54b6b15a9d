# SPDX-License-Identifier: MIT
"""Functions of matrices, and systems of equations that need more than one solution.

Source of the exponential: Higham, "The scaling and squaring method for the matrix
exponential revisited", 2005.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ipu import _core
from ipu.tf._ops.creation import eye
from ipu.tf._ops.products import matmul
from ipu.tf._ops.reductions import reduce_max, reduce_sum
from ipu.tf._ops.shapes import concat
from ipu.tf._ops.spectral import again, pinv, qr, turned
from ipu.tf._tensor.convert import Tensor, apply, cast, like
from ipu.tf._tensor.dispatch import op
from ipu.tf.control_flow import while_loop
from ipu.tf.custom_gradient import custom_gradient
from ipu.tf.dtypes import as_dtype, int32

# --- the exponential ------------------------------------------------------------------

# degree of the Pade approximant, and the norm up to which it serves
_PADE = {"float32": (7, 3.925724783138660), "float64": (13, 5.371920351148152)}


def _coefficients(degree: int) -> list[float]:
    """Return the coefficients of the numerator, from the constant term on."""
    whole = math.factorial(2 * degree)
    top = math.factorial(degree)
    return [
        math.factorial(2 * degree - k)
        * top
        / (whole * math.factorial(k) * math.factorial(degree - k))
        for k in range(degree + 1)
    ]


def _exponential(matrix: Tensor) -> Tensor:
    degree, reach = _PADE[matrix.dtype_name]
    n = matrix.shape[-1]
    size = reduce_max(reduce_sum(abs(matrix), -2), -1)[..., None, None]
    halvings = apply("ceil", (apply("log", (size / reach,)) * (1.0 / math.log(2.0)),))
    halvings = apply("maximum", (halvings, like(0, halvings)))
    # infinite and no numbers are not halved away
    halvings = apply("select", (halvings < 2000.0, halvings, like(0, halvings)))
    small = matrix * apply("pow", (like(0.5, matrix), halvings))
    one = eye(n, dtype=matrix.dtype)
    power = one
    even, odd = one * 0.0, one * 0.0
    square = matmul(small, small)
    pairs = _coefficients(degree)
    for k in range(0, degree, 2):
        even = even + power * pairs[k]
        odd = odd + power * pairs[k + 1]
        power = matmul(power, square) if k else square
    odd = matmul(small, odd)
    result = apply("solve", (even - odd, even + odd), {"transpose_a": False})
    most = reduce_max(halvings)
    _, squared = while_loop(
        lambda turn, _: turn < most,
        lambda turn, r: (
            turn + 1.0,
            apply("select", (turn < halvings, matmul(r, r), r)),
        ),
        (like(0.0, halvings), result),
    )
    whole: Tensor = squared
    return whole


@custom_gradient
def _expm(matrix: Tensor) -> Any:
    n = matrix.shape[-1]

    def gradient(g: Tensor) -> Tensor:
        """Return the derivative in the direction g, at the transpose: a corner of the
        exponential of a matrix of four blocks."""
        own = turned(matrix)
        above = concat([own, g], -1)
        below = concat([g * 0.0, own], -1)
        whole: Tensor = _expm(concat([above, below], -2))
        return whole[..., :n, n:]

    return _exponential(matrix), gradient


@op
def expm(input: Any, name: str | None = None) -> Tensor:
    """Return the exponential of square matrices: the sum of A^k / k!.

    Args:
        input: [..., n, n] of float32, or float64 on the host.

    Raises:
        ValueError: The matrices are not square.

    Example:
        >>> tf.linalg.expm([[0.0, 1.0], [0.0, 0.0]]).numpy().tolist()
        [[1.0, 1.0], [0.0, 1.0]]
    """
    matrix = Tensor(input)
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"expm takes square matrices. Received shape {matrix.shape}.")
    if matrix.dtype_name not in _PADE:
        raise TypeError(
            f"expm takes float32 or float64. Received: {matrix.dtype_name}."
        )
    if matrix.shape[-1] == 0:
        return matrix
    result: Tensor = _expm(matrix)
    return result


# --- least squares --------------------------------------------------------------------


@op
def lstsq(
    matrix: Any,
    rhs: Any,
    l2_regularizer: float = 0.0,
    fast: bool = True,
    name: str | None = None,
) -> Tensor:
    """Return the X for which matrix X is nearest to rhs, in the sum of squares.

    Args:
        matrix: [..., m, n] of full rank where ``fast``.
        rhs: [..., m, k].
        l2_regularizer: How much the sum of the squares of X counts, too.
        fast: Solve by QR; else by singular values, which serve any rank and of all
            solutions take the shortest; ``l2_regularizer`` is not used then.

    Returns:
        [..., n, k]; the shortest one where m < n.

    Raises:
        ValueError: The shapes do not fit, or the regularizer is negative.
        InvalidArgumentError: The rank is not full.

    Example:
        >>> points = [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]
        >>> tf.linalg.lstsq(points, [[1.0], [3.0], [5.0]]).numpy().tolist()
        [[1.0], [2.0]]
    """
    a = Tensor(matrix)
    b = like(rhs, a)
    if min(a.ndim, b.ndim) < 2 or a.shape[:-1] != b.shape[:-1]:
        raise ValueError(
            "lstsq takes matrices [..., m, n] and right sides [..., m, k]. Received "
            f"shapes {a.shape} and {b.shape}."
        )
    weight = float(l2_regularizer)
    if weight < 0.0:
        raise ValueError(f"l2_regularizer must be non-negative. Received: {weight}.")
    if not fast:
        return matmul(pinv(a), b)
    rows, columns = a.shape[-2:]
    if weight:
        below = eye(columns, batch_shape=a.shape[:-2], dtype=a.dtype) * weight**0.5
        nothing = apply(
            "broadcast",
            (like(0, b),),
            {"shape": [*b.shape[:-2], columns, b.shape[-1]]},
        )
        a, b = concat([a, below], -2), concat([b, nothing], -2)
    elif rows < columns:
        q, r = qr(turned(a))
        flags = {"lower": False, "transpose_a": True}
        return matmul(q, apply("triangular_solve", (r, b), flags))
    q, r = qr(a)
    flags = {"lower": False, "transpose_a": False}
    return apply("triangular_solve", (r, matmul(q, b, transpose_a=True)), flags)


# --- LU -------------------------------------------------------------------------------


class LU(NamedTuple):
    """The result of :func:`lu`."""

    lu: Tensor
    p: Tensor


def _triangles(both: Tensor) -> tuple[Tensor, Tensor]:
    """Return L, whose diagonal is 1, and U."""
    n = both.shape[-1]
    low = np.tril(np.ones((n, n)), -1)
    lower = both * like(low, both) + eye(n, dtype=both.dtype)
    return lower, both * like(1.0 - low, both)


def _triangular(a: Tensor, b: Tensor, lower: bool, transpose: bool) -> Tensor:
    flags = {"lower": lower, "transpose_a": transpose}
    return apply("triangular_solve", (a, b), flags)


def _rows(value: Tensor, places: Tensor) -> Tensor:
    batch = places.ndim - 1
    return apply("gather", (value, places), {"axis": batch, "batch_dims": batch})


def _inverse(places: Tensor) -> Tensor:
    """Return the permutation that undoes one."""
    n = places.shape[-1]
    return _core.apply("top_k", (places,), {"depth": n, "ascending": True})[1]


@custom_gradient
def _lu(matrix: Tensor) -> Any:
    found = _core.apply("lu", (matrix,))

    def gradient(g: Tensor, _: Tensor) -> Tensor:
        both, p = again(_lu, found, matrix)
        lower, upper = _triangles(both)
        n = both.shape[-1]
        below = like(np.tril(np.ones((n, n)), -1), both)
        inner = matmul(lower, g * below, transpose_a=True) * below
        inner = inner + matmul(g * (1.0 - below), upper, transpose_b=True) * (
            1.0 - below
        )
        half = _triangular(lower, inner, True, True)
        made = turned(_triangular(upper, turned(half), False, False))
        return _rows(made, _inverse(p))

    return tuple(found), gradient


@op
def lu(input: Any, output_idx_type: Any = int32, name: str | None = None) -> LU:
    """Decompose square matrices into P L U, with row exchanges.

    Args:
        input: [..., n, n].
        output_idx_type: int32, or int64 on the host.

    Returns:
        ``(lu, p)``: L below the diagonal, whose own is 1, and U on and above it; and
        the row of the input that each of their rows is of, [..., n].

    Raises:
        InvalidArgumentError: A matrix is not invertible.

    Source of the gradient: de Hoog, Anderssen and Lukas, "Differentiation of matrix
    functionals using triangular factorization", 2011.

    Example:
        >>> lu, p = tf.linalg.lu([[1.0, 2.0], [4.0, 4.0]])
        >>> lu.numpy().tolist(), p.numpy().tolist()
        ([[4.0, 4.0], [0.25, 1.0]], [1, 0])
    """
    both, p = _lu(Tensor(input))
    kind = as_dtype(output_idx_type)
    return LU(both, p if kind == int32 else cast(p, kind))


@op
def lu_solve(
    lower_upper: Any,
    perm: Any,
    rhs: Any,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the X with A X = rhs, given ``lu`` and ``p`` of :func:`lu` of A.

    Example:
        >>> parts = tf.linalg.lu([[2.0, 0.0], [0.0, 4.0]])
        >>> tf.linalg.lu_solve(*parts, [[2.0], [8.0]]).numpy().tolist()
        [[1.0], [2.0]]
    """
    both, p = Tensor(lower_upper), Tensor(perm)
    lower, upper = _triangles(both)
    right = like(rhs, both)
    if right.ndim < 2 or right.shape[-2] != both.shape[-1]:
        raise ValueError(
            f"`rhs` has as many rows as the matrix. Received shapes {both.shape} and "
            f"{right.shape}."
        )
    half = _triangular(lower, _rows(right, p), True, False)
    return _triangular(upper, half, False, False)


@op
def lu_matrix_inverse(
    lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """Return the inverse of A, given ``lu`` and ``p`` of :func:`lu` of A.

    Example:
        >>> parts = tf.linalg.lu([[2.0, 0.0], [0.0, 4.0]])
        >>> tf.linalg.lu_matrix_inverse(*parts).numpy().tolist()
        [[0.5, 0.0], [0.0, 0.25]]
    """
    both = Tensor(lower_upper)
    one = eye(both.shape[-1], batch_shape=both.shape[:-2], dtype=both.dtype)
    return lu_solve(both, perm, one)


@op
def lu_reconstruct(
    lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """Return A, given ``lu`` and ``p`` of :func:`lu` of A.

    Example:
        >>> parts = tf.linalg.lu([[1.0, 2.0], [4.0, 4.0]])
        >>> tf.linalg.lu_reconstruct(*parts).numpy().tolist()
        [[1.0, 2.0], [4.0, 4.0]]
    """
    both, p = Tensor(lower_upper), Tensor(perm)
    return _rows(matmul(*_triangles(both)), _inverse(p))
