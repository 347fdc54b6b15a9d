# SPDX-License-Identifier: MIT
"""Softmax and cross entropy of rows of all widths: one result on every class of CPU."""

from __future__ import annotations

import numpy as np
import pytest
from op_cases import harness
from op_cases.model import Graph

from ipu import _core

OPS = ("softmax", "log_softmax", "sparse_cross_entropy", "cross_entropy")
WIDTHS = (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 500, 1000, 1024, 1025, 2500)
ROWS = 37


def graph(op: str, n: int, dtype: str) -> str:
    made = Graph(host=dtype == "float64")
    x = made.param((dtype, (ROWS, n)))
    if op.endswith("softmax"):
        return made.finish([made.one(op, [x], (dtype, (ROWS, n)))])
    sparse = op == "sparse_cross_entropy"
    labels = made.param(("int32", (ROWS,)) if sparse else (dtype, (ROWS, n)))
    types = [(dtype, (ROWS,)), (dtype, (ROWS, n))]
    return made.finish(made.node(op, [x, labels], "", types))


def inputs(op: str, n: int, dtype: str, special: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    x = rng.normal(size=(ROWS, n), scale=3).astype(dtype)
    if special:
        x[1, n // 2] = np.nan
        x[2, -1] = np.inf
        x[3, 0] = -np.inf
        x[4] = -np.inf
    if op.endswith("softmax"):
        return [x]
    if op == "sparse_cross_entropy":
        return [x, rng.integers(0, n, ROWS).astype("i4")]
    labels = rng.random((ROWS, n)).astype(dtype)
    labels[labels < 0.3] = 0
    return [x, labels]


def oracle(op: str, values: list[np.ndarray]) -> list[np.ndarray]:
    x = values[0].astype(np.float64)
    shifted = x - x.max(-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    if op == "softmax":
        return [np.exp(logs)]
    if op == "log_softmax":
        return [logs]
    labels = values[1].astype(np.float64)
    if op == "sparse_cross_entropy":
        labels = np.eye(x.shape[1])[values[1]]
    gradient = np.exp(logs) * labels.sum(-1, keepdims=True) - labels
    return [-(labels * logs).sum(-1), gradient]


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_any_width(
    op: str, n: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = graph(op, n, dtype)
    values = inputs(op, n, dtype, special=False)
    error = 1e-5 if dtype == "float32" else 1e-13
    for got, want in zip(harness.run(text, values), oracle(op, values), strict=True):
        np.testing.assert_allclose(got, want, rtol=error, atol=error / 5)
    for special in (False, True):
        values = inputs(op, n, dtype, special)
        found = {}
        for cpu_class in ("generic", "avx2", "avx512"):
            monkeypatch.setenv("IPU_CPU_CLASS", cpu_class)
            if _core.cpu_class() == cpu_class:
                found[cpu_class] = harness.run(text, values)
        for other in found.values():
            for got, want in zip(other, found["generic"], strict=True):
                np.testing.assert_array_equal(got, want)
