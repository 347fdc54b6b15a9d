# SPDX-License-Identifier: MIT
"""The benchmark of ops: it has every op, all sides compute the same; what counts as
missed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import op_table, ops
from benchmarks.op_exceptions import EXCEPTIONS, covers
from benchmarks.op_peers import NUMPY, TORCH, torch_module
from benchmarks.op_table import AWKWARD, GROUPS, OWN_GROUPS, SIZES, Row, square_shape
from benchmarks.results import FOLDER, page

from ipu import _core

SHAPE = (12, 20)
ROWS = [
    row for group in (*GROUPS, *OWN_GROUPS) for row in op_table.rows_of(group, SHAPE)
]
KNOWN = {row.name: row for row in ROWS}
MOST_EXCEPTIONS = 19  # may only shrink
# what is drawn, and what has several answers
DIFFERENT = ("random", "truncated", "dropout", "qr", "eigh", "svd", "lu")
# PyTorch has channels first, or the gradient alone
OTHERWISE = ("conv", "max_pool", "average_pool", "normalize", "sparse_", "cross_")
# a matrix product of so many terms is no test of a benchmark
LARGE = 1 << 20


def figure(dtype: str = "float32", **seconds: float) -> ops.Figure:
    rounds = {
        side: [value, 2.0 * value, 0.5 * value] for side, value in seconds.items()
    }
    return ops.Figure("add", dtype, "4 KiB", 1, rounds)


def small(row: Row) -> bool:
    return all(math.prod(one.shape) < LARGE for one in row.inputs)


def results(row: Row, dtype: str) -> Any:
    """What ipu gives: the first result."""
    arrays = row.arrays(dtype)
    starts = [
        np.zeros(shape, op_table.kind_of(kind, dtype)) for shape, kind in row.outputs
    ]
    program = _core.graph_compile(row.graph(dtype))
    return np.asarray(program.run([*arrays, *starts, np.int32(2)])[0].numpy())


def test_every_op_has_a_row() -> None:
    served = {name for name, _, _ in _core.op_table()}
    assert {row.op for row in ROWS} == served - op_table.WITHOUT_ROW
    assert served >= op_table.WITHOUT_ROW


@pytest.mark.parametrize("dtype", [*op_table.FLOATS, *op_table.INTEGERS, "bool"])
def test_every_row_is_a_program(dtype: str) -> None:
    for row in ROWS:
        if dtype in row.dtypes:
            program = _core.graph_compile(row.graph(dtype))
            body = program.text[program.text.index(" loop ") :]
            assert body[: body.index(" next ")].count(" kernel ") == 1, row.name


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("size", [*SIZES, *AWKWARD])
def test_rows_come_in_every_size(group: str, size: str) -> None:
    rows = op_table.rows_of(group, op_table.shape_of(size, "float16"))
    assert {row.name for row in rows} >= {
        r.name for r in op_table.rows_of(group, SHAPE)
    }
    for row in rows:
        _core.graph_compile(row.graph(row.dtypes[0]))


@pytest.mark.parametrize("op", sorted({*NUMPY, *TORCH}))
def test_all_sides_compute_the_same(op: str) -> None:
    sides: list[tuple[Any, Any]] = [(NUMPY, lambda x: x)]
    if torch_module() is not None:
        sides.append((TORCH, torch_module().from_numpy))
    compared = [row for row in ROWS if row.op == op and small(row)]
    for row in compared:
        dtype = row.dtypes[0]
        got = results(row, dtype)
        for peers, convert in sides:
            if op in peers:
                attrs = {"dtype": dtype, "shape": list(row.outputs[0][0])}
                attrs |= row.attributes(dtype)
                call = peers[op](attrs, *map(convert, row.arrays(dtype)))
                one, again = call(), call()
                if not op.startswith(DIFFERENT):
                    same(row, got, one)
                    same(row, got, again)


def same(row: Row, got: Any, other: Any) -> None:
    want = np.asarray(other[0] if isinstance(other, tuple) else other)
    if row.op.startswith(OTHERWISE):
        return
    kind = np.float64 if got.dtype.kind == "f" else got.dtype
    np.testing.assert_allclose(want.astype(kind), got.astype(kind), 1e-4, 1e-4)


@pytest.mark.parametrize("name", ["add", "sum, all", "softmax"])
def test_a_row_is_measured(name: str) -> None:
    found = ops.measure(KNOWN[name], "float16", "12 x 20", 1, 1)
    assert set(found.seconds) == {"ipu", "float32"}
    assert 0.0 < found.median("ipu") < 1.0
    assert "numpy" in ops.measure(KNOWN[name], "float64", "12 x 20", 1, 1).seconds


def test_figures_are_kept(tmp_path: Path) -> None:
    kept = tmp_path / "figures.csv"
    figures = [figure(ipu=1.0, numpy=3.0), figure("float16", ipu=1.0, float32=0.4)]
    ops.keep(figures, kept)
    again = ops.read(kept)
    assert list(map(ops.cells, again)) == list(map(ops.cells, figures))
    assert [f.ratio for f in again] == [3.0, 0.4]
    all_of, below = ops.tables_of(again)
    assert [row[-3] for row in all_of.rows] == ["0", "1"]
    assert [row[-1] for row in below.rows] == ["0.40 missed"]


def test_the_page_shows_the_files() -> None:
    assert (FOLDER / "RESULTS.md").read_text() == page()


def test_exceptions_are_of_rows_and_only_shrink() -> None:
    assert len(EXCEPTIONS) <= MOST_EXCEPTIONS
    for (name, _, size), reason in EXCEPTIONS.items():
        assert any(covers(name, known) for known in KNOWN), name
        assert size in ("", op_table.OWN_SHAPE, *ops.ALL_SIZES)
        assert reason


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
@pytest.mark.parametrize("size", SIZES.values())
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


def test_float16_may_take_twice_as_long_as_float32() -> None:
    assert figure("float16", ipu=1.0, float32=0.5).verdict == ""
    assert figure("float16", ipu=1.0, float32=0.44).verdict == "missed"


def test_figures_have_three_digits() -> None:
    assert ops.text_of(1.234e-7) == "123 ns"
    assert ops.text_of(1.5e-6) == "1.5 us"
    assert ops.text_of(0.0123) == "12.3 ms"
    assert ops.text_of(2.0) == "2 s"
