# SPDX-License-Identifier: MIT
"""Kernels that work in another way where a tensor is large: what element-wise ops store
past the caches, transposition by large tiles, reductions of wide rows by chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import _core

Array = np.ndarray[Any, Any]
LARGE = (32 << 20) // 4  # float32: from there on results are stored past the caches


def run(node: str, operands: list[Array], result: str, **options: bool) -> Array:
    kinds = [f"{x.dtype.name}[{','.join(map(str, x.shape))}]" for x in operands]
    params = ", ".join(f"%{i}: {kind}" for i, kind in enumerate(kinds))
    last = f"%{len(operands)}"
    text = f"block b0({params}) {{\n  {last} = {node} : {result}\n}} -> ({last})\n"
    if operands[0].dtype == np.float64:
        text = f"host graph\n{text}"
    return np.asarray(_core.graph_compile(text, **options).run(operands)[0])


def numbers(*shape: int) -> Array:
    return np.random.default_rng(shape).random(shape, dtype=np.float32)


@pytest.mark.parametrize("shape", [(LARGE,), (LARGE + 5,), (1001, 8391)])
def test_what_is_stored_past_the_caches_is_the_result(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = f"float32[{','.join(map(str, shape))}]"
    a, b = numbers(*shape), numbers(shape[-1])
    for name in ("generic", "avx2", "avx512"):
        monkeypatch.setenv("IPU_CPU_CLASS", name)
        assert np.array_equal(run("add(%0, %1)", [a, b], kind), a + b)


def test_a_large_chain_is_stored_past_the_caches() -> None:
    from ipu import tf

    x = numbers(LARGE + 77)

    @tf.function
    def chain(x: Any) -> Any:
        return (x * 2.0 + 1.0) * x

    want = (x * np.float32(2) + np.float32(1)) * x
    assert np.array_equal(chain(tf.constant(x)).numpy(), want)


def test_a_large_result_in_its_operands_place() -> None:
    from ipu import loops, tf

    x = numbers(LARGE)

    @tf.function
    def twice(x: Any) -> Any:
        return loops.repeat(3, lambda y: y + 1.0, [x])

    one = np.float32(1)
    assert np.array_equal(twice(tf.constant(x)).numpy(), ((x + one) + one) + one)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape", [(1500, 1500), (130, 70, 300), (64, 40000), (5, 4, 128, 1000)]
)
def test_a_large_transposition_moves_every_element(
    shape: tuple[int, ...], dtype: str
) -> None:
    x = numbers(*shape).astype(dtype)
    perm = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
    kind = f"{dtype}[{','.join(str(shape[p]) for p in perm)}]"
    got = run(f"transpose(%0) {{perm={perm}}}", [x], kind)
    assert np.array_equal(got, x.transpose(perm))


@pytest.mark.parametrize("op", ["sum", "mean", "max", "prod"])
@pytest.mark.parametrize("shape", [(200, 4096), (65, 9000), (129, 2049), (64, 3000)])
def test_rows_wider_than_a_strip_fold_as_in_numpy(
    op: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = numbers(*shape) + np.float32(0.5)
    node, kind = f"{op}(%0) {{axes=[0]}}", f"float32[{shape[1]}]"
    want = getattr(np, op)(x.astype(np.float64), axis=0)
    found = []
    before = _core.num_threads()
    try:
        for name in ("generic", "avx2"):
            monkeypatch.setenv("IPU_CPU_CLASS", name)
            for threads in (1, 3):
                _core.set_num_threads(threads)
                found.append(run(node, [x], kind))
    finally:
        _core.set_num_threads(before)
    assert all(np.array_equal(one, found[0]) for one in found)
    np.testing.assert_allclose(found[0], want, rtol=2e-5)
