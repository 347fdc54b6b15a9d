# SPDX-License-Identifier: MIT
"""Products with forms of their own: by one column whose terms are neighbours, of
float64, and of integers. They have the same bits whatever the class of CPU and the
number of threads; of float64 those of the reference kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from op_cases import harness
from op_cases.model import Array, Graph

from ipu import _core

CLASSES = ("generic", "avx2", "avx512")
TERMS = (31, 32, 33, 63, 64, 65, 67, 512, 1000, 1024, 1025, 3001, 17 * 1024 + 5)
NODE = 1 << 15  # terms
SHAPES = (  # m, k, n
    *((8, 8, 8), (4, 4, 4), (1, 7, 1), (5, 3, 2), (9, 17, 25), (64, 64, 64), (3, 0, 4)),
    *((31, 129, 49), (33, 300, 24), (1, 40, 700), (7, 130, 300), (300, 257, 1)),
    *((1, 513, 300), (12, 512, 512), (40, 128, 512), (700, 5, 3), (97, 101, 103)),
)


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("IPU_CPU_CLASS", "")
    threads = _core.num_threads()
    yield
    _core.set_num_threads(threads)


def matmul(
    a: Array, b: Array, transposed: tuple[bool, bool], more: str = ""
) -> tuple[str, list[Array]]:
    """A graph of one product, and its operands as they are stored."""
    dtype = a.dtype.name
    made = Graph(host=dtype not in ("float32", "float16"))
    stored = [
        np.ascontiguousarray(x.swapaxes(-1, -2) if turned else x)
        for x, turned in zip((a, b), transposed, strict=True)
    ]
    params = [made.param((dtype, x.shape)) for x in stored]
    flags = [str(turned).lower() for turned in transposed]
    attrs = f"transpose_a={flags[0]}, transpose_b={flags[1]}"
    shape = (*a.shape[:-1], b.shape[-1])
    if more:
        params.append(made.param((dtype, (shape[-1],))))
        stored.append(np.linspace(-1, 1, shape[-1]).astype(dtype))
    op = "fused_matmul" if more else "matmul"
    node = made.node(op, params, attrs + more, [(dtype, shape)])
    return made.finish(node), stored


def on_all(text: str, inputs: list[Array], first: str = "generic") -> Array:
    """The result, which is the same on all classes from `first` on."""
    want = []
    if first != "generic":
        want = harness.run(text, inputs, reference=True)
    for name in CLASSES[CLASSES.index(first) :]:
        os.environ["IPU_CPU_CLASS"] = name
        if _core.cpu_class() != name:
            continue
        program = _core.graph_compile(text)
        for threads in (1, 3):
            _core.set_num_threads(threads)
            got = harness.results(program, inputs)
            want = want or got
            harness.same_bits(got, want, f"{name}, {threads} threads")
    return want[0]


def numbers(*shape: int) -> Array:
    """Of all sizes, with those whose products are too small for a float."""
    random = np.random.default_rng(shape)
    x = random.standard_normal(shape)
    return np.where(random.random(shape) < 0.2, x * 1e-30, x).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 15, 16, 17, 33])
@pytest.mark.parametrize("terms", TERMS)
def test_one_column(dtype: str, rows: int, terms: int) -> None:
    a, x = numbers(rows, terms).astype(dtype), numbers(terms, 1).astype(dtype)
    for left, right in ((a, x), (x.T, a.T)):
        text, inputs = matmul(left, right, (False, left is not a))
        got = on_all(text, inputs)
        want = left.astype("f8") @ right.astype("f8")
        bound = 1e-2 if dtype == "float16" else 1e-5
        np.testing.assert_allclose(got, want, bound, bound * np.sqrt(terms))


def test_a_negative_sum_that_underflows_keeps_its_sign() -> None:
    a, x = np.zeros((1, 3000), np.float32), np.full((3000, 1), -1e-30, np.float32)
    a[0, ::1024] = 1e-30
    got = on_all(*matmul(a, x, (False, False)))
    assert got[0, 0] == 0 and np.signbit(got[0, 0])


@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_float64(shape: tuple[int, int, int], turned: tuple[int, int]) -> None:
    m, k, n = shape
    random = np.random.default_rng(shape)
    a, b = random.standard_normal((m, k)), random.standard_normal((k, n))
    flags = (bool(turned[0]), bool(turned[1]))
    by_terms = (m == 1 or not turned[0]) and (n == 1 or turned[1]) and min(m, n) <= 8
    for more in ("", ", activation=1"):
        text, inputs = matmul(a, b, flags, more)
        blis = by_terms and harness.run(text, inputs)
        got = blis[0] if blis else on_all(text, inputs, "avx2")
        want = a @ b
        want = np.maximum(want + np.linspace(-1, 1, n), 0) if more else want
        np.testing.assert_allclose(got, want, 1e-13, 1e-12)


def test_float64_in_batches() -> None:
    random = np.random.default_rng(1)
    for shape in ((70, 8, 8, 8), (3, 4, 40, 9), (2, 65, 40, 70)):
        batch, m, k, n = shape
        a = random.standard_normal((batch, m, k))
        b = random.standard_normal((batch, k, n))
        got = on_all(*matmul(a, b, (False, False)), "avx2")
        np.testing.assert_allclose(got, a @ b, 1e-13, 1e-12)


@pytest.mark.parametrize("dtype", ["float64", "int32", "int8"])
@pytest.mark.parametrize("terms", [NODE - 1, NODE, NODE + 1, 2 * NODE, 5 * NODE + 7])
def test_dots_of_nodes(dtype: str, terms: int) -> None:
    """Threads share the nodes of long sums where there are few of those."""
    random = np.random.default_rng(terms)
    for batch, m, n in ((1, 1, 1), (1, 3, 2), (2, 1, 2), (1, 9, 1)):
        a = random.integers(-99, 99, (batch, m, terms)).astype(dtype)
        b = random.integers(-99, 99, (batch, n, terms)).astype(dtype).swapaxes(1, 2)
        if dtype == "float64":
            a, b = a / 97, b / 89
        text, inputs = matmul(a, b, (False, True))
        got = set()
        for name in ("avx2", "avx512"):
            os.environ["IPU_CPU_CLASS"] = name
            program = _core.graph_compile(text)
            for threads in (1, 2, 5):
                _core.set_num_threads(threads)
                result = harness.results(program, inputs)[0]
                got.add(result.tobytes())
        assert len(got) == 1
        np.testing.assert_allclose(result, a @ b, 1e-13, 1e-10)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64"]
)
@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)], ids=str)
def test_integers_wrap(dtype: str, turned: tuple[int, int]) -> None:
    random = np.random.default_rng(1)
    ends = np.iinfo(dtype)
    for m, k, n in (*SHAPES, (70, 67, 600), (600, 66, 1), (1, 3000, 1)):
        a, b = (
            random.integers(ends.min, ends.max, shape, dtype, endpoint=True)
            for shape in ((m, k), (k, n))
        )
        text, inputs = matmul(a, b, (bool(turned[0]), bool(turned[1])))
        np.testing.assert_array_equal(on_all(text, inputs), a @ b)


def test_integers_in_batches() -> None:
    a = np.arange(7 * 5 * 6, dtype=np.int64).reshape(7, 5, 6)
    for b in (a.swapaxes(1, 2), a.swapaxes(1, 2)[..., :1].copy()):
        for turned in (False, True):
            text, inputs = matmul(a, b, (turned, False))
            np.testing.assert_array_equal(on_all(text, inputs), a @ b)
