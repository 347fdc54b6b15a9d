# SPDX-License-Identifier: MIT
"""The benchmark of ops: all sides compute the same; what counts as missed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks import ops
from benchmarks.op_inputs import square_shape
from benchmarks.op_rows import ROWS, Row

from ipu import tf

BYTES = 4096
KNOWN = {row.name: row for row in ROWS}
COMPARED = [row for row in ROWS if row.numpy is not None and row.group != "random"]
# top k: values here, places there
DIFFERENT = ("top k",)


def figure(**seconds: float) -> ops.Figure:
    rounds = {
        side: [value, 2.0 * value, 0.5 * value] for side, value in seconds.items()
    }
    return ops.Figure(ROWS[0], "4 KiB", 1, rounds)


@pytest.mark.parametrize("row", COMPARED, ids=lambda row: row.name)
def test_numpy_computes_the_same(row: Row) -> None:
    if row.name in DIFFERENT:
        pytest.skip("the sides answer in other terms")
    inputs = row.make(BYTES)
    assert row.numpy is not None
    with np.errstate(over="ignore"):
        want = row.numpy(None, *inputs)
        again = row.numpy(want if isinstance(want, np.ndarray) else None, *inputs)
    got = np.asarray(row.ipu(tf, *map(tf.constant, inputs)))
    kind = got.dtype if got.dtype.kind in "iu" else np.dtype(np.float64)
    tolerance = 2e-2 if "float16" in row.name else 1e-4
    for one in (want, again):
        one = np.asarray(one).astype(kind)
        np.testing.assert_allclose(got.astype(kind), one, tolerance, tolerance)


@pytest.mark.parametrize("row", COMPARED[::9], ids=lambda row: row.name)
def test_a_row_is_measured(row: Row) -> None:
    timer = ops.ipu_timer(row, row.make(BYTES))
    assert 0.0 < timer(3) < 1.0


def test_a_program_repeats_the_op_and_nothing_else() -> None:
    row = KNOWN["add"]
    text = ops.compile_loop(row, row.make(BYTES)).text
    body = text[text.index(" loop ") : text.index(" next ")]
    assert body.count(" kernel ") == 1, text


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
@pytest.mark.parametrize("size", ops.SIZES.values())
def test_inputs_take_the_bytes_they_should(size: int, dtype: str) -> None:
    shape = square_shape(size, dtype)
    assert math.prod(shape) * np.dtype(dtype).itemsize == size
    assert shape[0] <= shape[1] <= 2 * shape[0]


def test_the_ratio_is_to_the_faster_peer() -> None:
    assert figure(ipu=1.0, numpy=3.0, torch=2.0).ratio == 2.0
    assert figure(ipu=1.0, numpy=3.0).ratio == 3.0
    assert figure(ipu=1.0).ratio == math.inf


@pytest.mark.parametrize(
    ("peer", "verdict"), [(1.0, ""), (0.9, ""), (0.87, "near"), (0.84, "missed")]
)
def test_what_counts_as_missed(peer: float, verdict: str) -> None:
    assert figure(ipu=1.0, torch=peer).verdict == verdict


def test_figures_have_three_digits() -> None:
    assert ops.text_of(1.234e-7) == "123 ns"
    assert ops.text_of(1.5e-6) == "1.5 us"
    assert ops.text_of(0.0123) == "12.3 ms"
    assert ops.text_of(2.0) == "2 s"
