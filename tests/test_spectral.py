# SPDX-License-Identifier: MIT
"""Decompositions beyond what tests/op_cases/calls.py compares with TensorFlow: large,
degenerate and wrong matrices, second gradients, loops, functions for the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ipu
from ipu import tf
from ipu.ipu_strategy import IPUStrategy

RNG = np.random.default_rng(4)
L = tf.linalg


def orthonormal(columns: Any) -> None:
    array = np.asarray(columns).astype(np.float64)
    inner = np.swapaxes(array, -1, -2) @ array
    np.testing.assert_allclose(inner, np.eye(inner.shape[-1]), atol=2e-6)


@pytest.mark.parametrize("shape", [(60, 60), (90, 20), (20, 90), (1, 7)])
def test_parts_make_the_matrix(shape: tuple[int, int]) -> None:
    a = RNG.normal(size=shape).astype(np.float32)
    s, u, v = (np.asarray(t) for t in L.svd(a))
    np.testing.assert_allclose(u * s @ v.T, a, atol=1e-5)
    # the smallest one has the error of the largest one, as LAPACK says
    np.testing.assert_allclose(s, np.linalg.svd(a)[1], rtol=1e-5, atol=1e-6)
    q, r = (np.asarray(t) for t in L.qr(a, full_matrices=True))
    np.testing.assert_allclose(q @ r, a, atol=1e-5)
    for columns in (u, v, q, *L.svd(a, full_matrices=True)[1:]):
        orthonormal(columns)
    square = a @ a.T
    e, w = (np.asarray(t) for t in L.eigh(square))
    np.testing.assert_allclose(w * e @ w.T, square, atol=1e-3)
    assert (np.diff(e) >= 0).all()
    orthonormal(w)


DEGENERATE = {
    "zeros": np.zeros((4, 3)),
    "ones": np.ones((4, 3)),
    "eye": np.eye(4),
    "one row": np.array([[3.0, 4.0]]),
    "huge": np.full((3, 3), 1e37) + np.eye(3) * 1e37,
    "tiny": np.diag([1e-38, 2e-38, 0.0]),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_matrices_of_low_rank(name: str) -> None:
    a = DEGENERATE[name].astype(np.float32)
    s, u, v = (np.asarray(t).astype(np.float64) for t in L.svd(a))
    np.testing.assert_allclose(u * s @ v.T, a, rtol=1e-5, atol=1e-6 * np.abs(a).max())
    orthonormal(u)
    orthonormal(v)
    assert int(L.matrix_rank(a)) == np.linalg.matrix_rank(a)
    pinv = np.linalg.pinv(a.astype(np.float64))
    if name != "tiny":
        np.testing.assert_allclose(L.pinv(a), pinv, rtol=1e-4, atol=1e-6)


def test_the_exponential_of_large_and_endless_matrices() -> None:
    turn = np.array([[0.0, -50.0], [50.0, 0.0]], np.float32)
    want = [[np.cos(50.0), -np.sin(50.0)], [np.sin(50.0), np.cos(50.0)]]
    np.testing.assert_allclose(L.expm(turn), want, atol=2e-4)
    both = np.stack([turn, turn * 0.01])
    np.testing.assert_allclose(L.expm(both)[1], L.expm(both[1]), atol=1e-6)
    assert np.isnan(L.expm([[np.inf, 0.0], [0.0, 1.0]])).any()
    assert L.expm(np.zeros((2, 0, 0), np.float32)).shape == (2, 0, 0)


def loss(kind: str, a: Any) -> Any:
    if kind == "eigh":
        return tf.reduce_sum(tf.sin(L.eigvalsh(a + tf.transpose(a))))
    if kind == "svd":
        return tf.reduce_sum(tf.sin(L.svd(a, compute_uv=False)))
    if kind == "qr":
        return tf.reduce_sum(tf.sin(L.qr(a).r))
    if kind == "expm":
        return tf.reduce_sum(tf.sin(L.expm(0.3 * a)))
    if kind == "lu":
        return tf.reduce_sum(tf.sin(L.lu(a).lu))
    return tf.reduce_sum(tf.sin(L.pinv(a[:, :2])))


KINDS = ["eigh", "svd", "qr", "expm", "lu", "pinv"]


def slope(kind: str, a: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(a)
        y = loss(kind, a)
    return tape.gradient(y, a)


@pytest.mark.parametrize("kind", KINDS)
def test_first_and_second_gradients(kind: str) -> None:
    start = RNG.normal(size=(3, 3)) + 2 * np.eye(3)
    a = tf.constant(start, tf.float64)
    way = tf.constant(RNG.normal(size=(3, 3)), tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(a)
        first = slope(kind, a)
        along = tf.reduce_sum(first * way)
    second = outer.gradient(along, a)
    h = 1e-5
    ends = [loss(kind, a + way * k).numpy() for k in (h, -h)]
    assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(float(along), rel=1e-5)
    steps = [slope(kind, a + way * k).numpy() for k in (h, -h)]
    want = (steps[0] - steps[1]) / (2 * h)
    np.testing.assert_allclose(second, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_on_the_device_and_in_loops(kind: str) -> None:
    a = (RNG.normal(size=(3, 3)) + 2 * np.eye(3)).astype(np.float32)

    @tf.function
    def descended(x: Any) -> Any:
        for _ in tf.range(3):
            x = x - 0.1 * slope(kind, x)
        return x

    want = tf.constant(a)
    for _ in range(3):
        want = want - 0.1 * slope(kind, want)
    with IPUStrategy().scope():
        got = tf.distribute.get_strategy().run(descended, (a,))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


WRONG = {
    "vector": lambda: L.qr(np.ones(3, np.float32)),
    "not square": lambda: L.eigh(np.ones((2, 3), np.float32)),
    "expm": lambda: L.expm(np.ones((2, 3), np.float32)),
    "nan": lambda: L.eigh(np.full((3, 3), np.nan, np.float32)),
    "singular": lambda: L.lu(np.zeros((2, 2), np.float32)),
    "integers": lambda: L.svd(np.ones((2, 2), np.int32)),
    "rows": lambda: L.lstsq(np.ones((2, 3), np.float32), np.ones((3, 1), np.float32)),
    "weight": lambda: L.lstsq(
        np.ones((2, 2), np.float32), np.ones((2, 1), np.float32), -1.0
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_said(what: str) -> None:
    errors = (ValueError, TypeError, tf.errors.InvalidArgumentError)
    with pytest.raises(errors, match=r"matri|square|float32|non-negative"):
        WRONG[what]()


def test_rows_are_dealt_out_and_put_together() -> None:
    x = RNG.normal(size=(7, 2)).astype(np.float32)
    which = [0, 2, 1, 0, 2, 2, 0]
    parts = tf.dynamic_partition(x, which, 3)
    places = tf.dynamic_partition(np.arange(7), which, 3)
    assert [len(p) for p in parts] == [3, 1, 3]
    np.testing.assert_array_equal(tf.dynamic_stitch(places, parts), x)
    with pytest.raises(ValueError, match="partitions"):
        tf.dynamic_partition(x, [0] * 6 + [3], 3)
    with pytest.raises(ValueError, match="does not fit"):
        tf.dynamic_stitch([[0, 1]], [[1.0]])
    with pytest.raises(ValueError, match="must differ"):
        tf.reverse_sequence(x, [1] * 7, 0, 0)


def test_diagonals_of_tensors() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    wanted = np.diag(x.ravel()).reshape(2, 3, 2, 3)
    got = tf.linalg.tensor_diag(x)
    np.testing.assert_array_equal(got.numpy(), wanted)
    np.testing.assert_array_equal(tf.linalg.tensor_diag_part(got).numpy(), x)


def scaled(s: float) -> Any:
    return np.array([[s, 2 * s], [s, -s]])


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1.0, 1e150])
def test_the_size_of_elements_loses_no_digits(size: float) -> None:
    a = scaled(size)
    q, r = (np.asarray(t) for t in L.qr(a))
    orthonormal(q)
    np.testing.assert_allclose(q @ r, a, rtol=1e-14)
    s, u, v = (np.asarray(t) for t in L.svd(a))
    np.testing.assert_allclose(s, np.linalg.svd(scaled(1.0))[1] * size, rtol=1e-14)
    np.testing.assert_allclose((u * s) @ v.T, a, rtol=1e-13)
    e, w = (np.asarray(t) for t in L.eigh(a @ scaled(1.0).T))
    np.testing.assert_allclose((w * e) @ w.T, a @ scaled(1.0).T, rtol=1e-13)
    np.testing.assert_allclose(L.solve(a, a), np.eye(2), atol=1e-14)
    np.testing.assert_allclose(L.cholesky(np.eye(2) * size) ** 2, np.eye(2) * size)


def test_eigenvalues_of_very_different_size() -> None:
    a = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1e-170], [0.0, 1e-170, 0.0]])
    e, w = (np.asarray(t) for t in L.eigh(a))
    np.testing.assert_array_equal(e, np.linalg.eigvalsh(a))
    orthonormal(w)


def symmetric(kind: str, n: int) -> Any:
    a = RNG.normal(size=(n, n))
    a = a + a.T
    if kind == "graded":
        size = 10.0 ** -RNG.uniform(0, 12, n)
        return a * np.sqrt(np.outer(size, size))
    if kind == "multiple":
        q = np.linalg.qr(a)[0]
        return (q * RNG.integers(-2, 3, n)) @ q.T
    if kind == "in parts":
        between = RNG.normal(size=n - 1) * 10.0 ** -RNG.uniform(0, 40, n - 1)
        return np.diag(RNG.normal(size=n)) + np.diag(between, 1) + np.diag(between, -1)
    return a * {"usual": 1.0, "tiny": 1e-37, "huge": 1e36, "zeros": 0.0}[kind]


@pytest.mark.parametrize(
    "kind", ["usual", "graded", "multiple", "in parts", "tiny", "huge", "zeros"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigenvalues_of_small_matrices_of_all_kinds(kind: str, dtype: str) -> None:
    """Up to 25 rows they are made by our own steps, and so are parts of larger ones."""
    for n in (2, 3, 4, 8, 13, 25, 60):
        a = symmetric(kind, n).astype(dtype)
        near = 30 * np.finfo(dtype).eps
        e, v = (np.asarray(t).astype(np.float64) for t in L.eigh(a))
        wide = a.astype(np.float64)
        size = np.abs(np.linalg.eigvalsh(wide)).max()
        np.testing.assert_allclose((v * e) @ v.T, wide, rtol=0, atol=near * size)
        np.testing.assert_allclose(v.T @ v, np.eye(n), rtol=0, atol=near)
        assert (np.diff(e) >= 0).all()


def test_all_numbers_of_rows_from_none_to_past_all_blocks() -> None:
    """LAPACK takes whole blocks of 32 and 64 columns by other routines; our own factors
    end their halves with 16 and 48."""
    for n in (0, 1, 2, 17, 31, 32, 33, 49, 65, 130):
        a = RNG.normal(size=(n, n))
        sign, log = np.linalg.slogdet(a)
        np.testing.assert_allclose(L.det(a), np.linalg.det(a), rtol=1e-9)
        np.testing.assert_allclose(L.slogdet(a), (sign, log), rtol=1e-9)
        b = RNG.normal(size=(n, 3))
        for adjoint in (False, True):
            want = np.linalg.solve(a.T if adjoint else a, b)
            np.testing.assert_allclose(L.solve(a, b, adjoint), want, rtol=1e-7)
            for lower in (False, True):
                half = np.tril(a) if lower else np.triu(a)
                half = half * 0.1 + np.eye(n)
                want = np.linalg.solve(half.T if adjoint else half, b)
                # the other triangle is not read
                other = half + np.where(half == 0, np.nan, 0.0) * (1 - np.eye(n))
                got = L.triangular_solve(other, b, lower, adjoint)
                np.testing.assert_allclose(got, want, rtol=1e-7)
        lu, p = (np.asarray(t) for t in L.lu(a))
        product = (np.tril(lu, -1) + np.eye(n)) @ np.triu(lu)
        np.testing.assert_allclose(product, a[p], atol=1e-10)
        square = a @ a.T + np.eye(n)
        np.testing.assert_allclose(
            L.cholesky(square), np.linalg.cholesky(square), rtol=1e-7, atol=1e-12
        )
        np.testing.assert_allclose(L.eigvalsh(square), np.linalg.eigvalsh(square))
        for m in (n, n // 2, 2 * n + 1):
            wide = RNG.normal(size=(n, m))
            q, r = (np.asarray(t) for t in L.qr(wide))
            np.testing.assert_allclose(q @ r, wide, atol=1e-12)
            assert (np.tril(r, -1) == 0).all()
            s, u, v = (np.asarray(t) for t in L.svd(wide))
            np.testing.assert_allclose((u * s) @ v.T, wide, atol=1e-12)


def factors(a: Any, b: Any) -> dict[str, list[Any]]:
    """What all routines make of a matrix and right sides."""
    square = a @ np.swapaxes(a, -1, -2) / a.shape[-1] + np.eye(len(a), dtype=a.dtype)
    half = np.tril(a) / 16 + np.eye(len(a), dtype=a.dtype)
    made = {
        "cholesky": [L.cholesky(square)],
        "triangle": [L.triangular_solve(half, b), L.triangular_solve(half, b, True)],
        "solve": [L.solve(a, b)],
        "det": [*L.slogdet(a)],
        "lu": [*L.lu(a)],
        "qr": [*L.qr(a)],
        "eigh": [*L.eigh(square)],
        "svd": [*L.svd(a)],
    }
    return {name: [np.asarray(t) for t in results] for name, results in made.items()}


@pytest.mark.parametrize("n", [130, 330])
def test_errors_of_float32_are_those_of_its_arithmetic(n: int) -> None:
    """Backward, where systems may be of any condition."""
    a = RNG.normal(size=(n, n)).astype(np.float32)
    b = RNG.normal(size=(n, 40)).astype(np.float32)
    made = factors(a, b)
    assert all(t.dtype in (np.float32, np.int32) for r in made.values() for t in r)
    got = {name: [t.astype(np.float64) for t in r] for name, r in made.items()}
    wide = a.astype(np.float64)
    square = wide @ wide.T / n + np.eye(n)
    size = np.linalg.norm(wide, 2)
    near = 4e-7 * np.sqrt(n)  # of 1

    (c,) = got["cholesky"]
    assert np.abs(c @ c.T - square).max() < near * 4
    x = got["triangle"][0]
    half = np.tril(a) / 16 + np.eye(n, dtype=np.float32)
    assert np.abs(half @ x - b).max() < near * np.abs(x).max()
    (x,) = got["solve"]
    assert np.abs(wide @ x - b).max() < near * size * np.abs(x).max()
    np.testing.assert_allclose(got["det"], np.linalg.slogdet(wide), rtol=1e-4)
    both, rows = got["lu"]
    product = (np.tril(both, -1) + np.eye(n)) @ np.triu(both)
    assert np.abs(product - wide[rows.astype(int)]).max() < near * size
    q, r = got["qr"]
    assert np.abs(q @ r - wide).max() < near * size
    e, v = got["eigh"]
    assert np.abs((v * e) @ v.T - square).max() < near * e.max()
    s, u, w = got["svd"]
    assert np.abs((u * s) @ w.T - wide).max() < near * size
    for columns in (q, v, u, w):
        assert np.abs(columns.T @ columns - np.eye(n)).max() < near


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_threads_change_no_bit_of_a_large_matrix(dtype: str) -> None:
    a = RNG.normal(size=(300, 300)).astype(dtype)
    b = RNG.normal(size=(300, 170)).astype(dtype)
    before = ipu.num_threads()
    try:
        made = []
        for threads in (1, 2, 5, 16):
            ipu.set_num_threads(threads)
            made.append(factors(a, b))
    finally:
        ipu.set_num_threads(before)
    for other in made[1:]:
        for name, results in made[0].items():
            for one, two in zip(results, other[name], strict=True):
                assert one.tobytes() == two.tobytes(), name


def test_what_is_not_finite() -> None:
    bad = np.array([[1.0, np.nan], [0.0, 1.0]])
    assert all(np.isnan(t).all() for t in L.svd(bad))
    assert np.isnan(L.qr(bad).r).any() and np.isnan(L.det(bad))
    with pytest.raises(tf.errors.InvalidArgumentError, match="not finite"):
        L.eigh(np.full((2, 2), np.inf))
    with pytest.raises(tf.errors.InvalidArgumentError, match="not positive definite"):
        L.cholesky(bad.T)


@pytest.mark.parametrize("n", [3, 41, 100])
def test_the_first_column_without_a_pivot_is_said(n: int) -> None:
    right = RNG.normal(size=(2, n, 2))
    for column in (0, n // 2, n - 1):
        a = RNG.normal(size=(2, n, n))
        a[1] = np.triu(a[1], 1) + np.eye(n)
        a[1, column, column] = 0.0
        lower = np.swapaxes(a, 1, 2)  # needs no exchange in columns
        assert L.det(lower)[1] == 0.0 and L.slogdet(lower).sign[1] == 0.0
        where = f"matrix 1.*column {column}$"
        with pytest.raises(tf.errors.InvalidArgumentError, match=where):
            L.lu(a)
        where = f"element {column} of the diagonal of matrix 1"
        with pytest.raises(tf.errors.InvalidArgumentError, match=where):
            L.solve(a, right)
        with pytest.raises(tf.errors.InvalidArgumentError, match=where):
            L.triangular_solve(a, right, lower=False)
        square = np.eye(n)
        square[column, column] = -1.0
        where = "matrix 0 is not positive"
        with pytest.raises(tf.errors.InvalidArgumentError, match=where):
            L.cholesky(square)
