# SPDX-License-Identifier: MIT
"""``ipu.keras.ops.linalg``: decompositions and systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu import tf
from ipu._text.exports import export, offered
from ipu.keras.ops import _bodies as b, _table as t
from ipu.keras.ops._table import op as _op

_f = t.floats

# fmt: off
cholesky = _op(lambda x, upper=False:
    tf.linalg.matrix_transpose(tf.linalg.cholesky(_f(x))) if upper else
    tf.linalg.cholesky(_f(x)), "Decompose a positive definite matrix",
    "cholesky([[4.0]]) -> [[2.0]]")
cholesky_inverse = _op(lambda x, upper=False:
    tf.linalg.cholesky_solve(tf.linalg.matrix_transpose(_f(x)) if upper else _f(x),
    tf.eye(_f(x).shape[-1])), "Invert a matrix from its Cholesky factor",
    "cholesky_inverse([[2.0]]) -> [[0.25]]")
det = _op(lambda x: tf.linalg.det(_f(x)), "Give determinants",
    "det([[1.0, 2.0], [3.0, 4.0]]) -> -2.0")
eigh = _op(lambda x: tuple(tf.linalg.eigh(_f(x))), "Give eigenvalues and eigenvectors "
    "of symmetric matrices", "eigh([[2.0]])[0] -> [2.0]")
inv = _op(lambda x: tf.linalg.inv(_f(x)), "Invert matrices", "inv([[4.0]]) -> [[0.25]]")
logdet = _op(lambda x: tf.linalg.logdet(_f(x)), "Give the logarithm of determinants of "
    "positive definite matrices", "logdet([[1.0]]) -> 0.0")
lstsq = _op(lambda a, b, rcond=None: tf.linalg.lstsq(_f(a), _f(b) if _f(b).ndim > 1 else
    _f(b)[:, None], fast=False) if _f(b).ndim > 1 else tf.linalg.lstsq(_f(a), _f(b)[:,
    None], fast=False)[:, 0], "Give the solution with the least squares",
    "lstsq([[1.0], [1.0]], [1.0, 3.0]) -> [2.0]")
norm = _op(b.norm, "Give norms", "norm([3.0, 4.0]) -> 5.0")
qr = _op(lambda x, mode="reduced": tuple(tf.linalg.qr(_f(x), mode == "complete")),
    "Decompose into an orthogonal and a triangular matrix", "qr([[1.0], "
    "[0.0]])[0].shape => (2, 1)")
slogdet = _op(lambda x: tuple(tf.linalg.slogdet(_f(x))), "Give signs and logarithms of "
    "determinants", "slogdet([[-1.0]])[0] -> -1.0")
solve = _op(lambda a, b: tf.linalg.solve(_f(a), _f(b)) if _f(b).ndim > 1 else
    tf.linalg.solve(_f(a), _f(b)[:, None])[:, 0], "Solve systems of equations",
    "solve([[2.0]], [4.0]) -> [2.0]")
solve_triangular = _op(lambda a, b, lower=False: tf.linalg.triangular_solve(_f(a),
    _f(b), lower) if _f(b).ndim > 1 else tf.linalg.triangular_solve(_f(a), _f(b)[:,
    None], lower)[:, 0], "Solve systems of triangular matrices",
    "solve_triangular([[2.0]], [4.0]) -> [2.0]")
svd = _op(lambda x, full_matrices=True, compute_uv=True: (lambda s, u, v: (u, s,
    tf.linalg.matrix_transpose(v)))(*tf.linalg.svd(_f(x), full_matrices)) if compute_uv
    else tf.linalg.svd(_f(x), compute_uv=False), "Give the singular values, between "
    "two orthogonal matrices", "svd([[2.0]])[1] -> [2.0]")
# fmt: on

if not TYPE_CHECKING:
    export(__name__, offered(__name__))
