# SPDX-License-Identifier: MIT
"""Pooling: fast kernels against the reference to the bit, and what it refuses.

Random geometries: windows, strides, dilations, padding, of 1 to 3 axes, with the values
at which orders of summation and of comparison differ. Every class of CPU and every
number of threads gives the same bits.
"""

from __future__ import annotations

import numpy as np
import pytest
from op_cases import harness
from op_cases.model import Array, Graph, Type
from op_cases.pools import Geometry

import ipu
from ipu import _core

CLASSES = ("generic", "avx2", "avx512")
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0)


pytestmark = pytest.mark.usefixtures("one_thread")


def random_geometry(rng: np.random.Generator) -> Geometry:
    axes = int(rng.integers(1, 4))
    window, strides, dilations, padding, sizes = [], [], [], [], []
    for _ in range(axes):
        window.append(int(rng.integers(1, 5)))
        strides.append(int(rng.integers(1, 4)))
        dilations.append(int(rng.choice([1, 1, 1, 2, 3])))
        reach = (window[-1] - 1) * dilations[-1] + 1
        pads = [int(rng.integers(0, reach)) for _ in range(2)]
        padding += pads
        most = 40 if axes == 1 else 14 if axes == 2 else 7
        sizes.append(int(rng.integers(max(1, reach - sum(pads)), reach + most)))
    channels = int(rng.choice([1, 2, 3, 8, 17, 40, 67]))
    shape = (int(rng.integers(1, 4)), *sizes, channels)
    return Geometry(
        shape, tuple(window), tuple(strides), tuple(padding), tuple(dilations)
    )


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    value = (rng.integers(-40, 40, shape) / 7).astype(dtype)
    flat = value.reshape(-1)
    if flat.size and rng.random() < 0.5:
        places = rng.integers(0, flat.size, 1 + flat.size // 40)
        flat[places] = rng.choice(np.array(SPECIAL, dtype), len(places))
    return value


def text_of(op: str, inputs: list[Array], attrs: str, result: Type) -> str:
    graph = Graph()
    names = [graph.param((x.dtype.name, x.shape)) for x in inputs]
    return graph.finish([graph.one(op, names, result, attrs)])


def same_everywhere(
    monkeypatch: pytest.MonkeyPatch, op: str, inputs: list[Array], attrs: str, out: Type
) -> Array:
    text = text_of(op, inputs, attrs, out)
    want = harness.run(text, inputs, reference=True)
    for name in CLASSES:
        monkeypatch.setenv("IPU_CPU_CLASS", name)
        if _core.cpu_class() != name:
            continue
        for count in (1, 3):
            ipu.set_num_threads(count)
            got = harness.run(text, inputs)
            harness.same_bits(got, want, f"{op} {attrs}, {name}, {count} threads")
    return want[0]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("seed", range(30))
def test_fast_kernels_have_the_bits_of_the_reference(
    monkeypatch: pytest.MonkeyPatch, seed: int, dtype: str
) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(4):
        g = random_geometry(rng)
        x = numbers(rng, g.shape, dtype)
        dy = numbers(rng, g.windows(), dtype)
        whole, windows = (dtype, g.shape), (dtype, g.windows())
        attrs = g.attrs()
        y = same_everywhere(monkeypatch, "max_pool", [x], attrs, windows)
        same_everywhere(monkeypatch, "max_pool_grad", [x, y, dy], attrs, whole)
        v = numbers(rng, g.shape, dtype)
        same_everywhere(monkeypatch, "max_pool_pick", [x, y, v], attrs, windows)
        same_everywhere(monkeypatch, "average_pool", [x], attrs, windows)
        spread = f"{attrs}, shape={list(g.shape)}".replace(" ", "")
        same_everywhere(monkeypatch, "average_pool_grad", [dy], spread, whole)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_many_channels_and_columns_are_made_in_parts(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    rng = np.random.default_rng(1)
    for g in (
        Geometry((1, 3, 4, 2500), (2, 2), (1, 2), (1, 0, 0, 1)),
        Geometry((2, 9000, 1), (5,), (2,), (2, 3)),
        Geometry((2, 60, 300, 3), (3, 3), (1, 1), (1, 1, 1, 1)),
        Geometry((1, 200, 2, 1), (150, 2), (1, 1), (40, 70, 0, 1)),
    ):
        x = numbers(rng, g.shape, dtype)
        dy = numbers(rng, g.windows(), dtype)
        whole, windows = (dtype, g.shape), (dtype, g.windows())
        y = same_everywhere(monkeypatch, "max_pool", [x], g.attrs(), windows)
        same_everywhere(monkeypatch, "max_pool_grad", [x, y, dy], g.attrs(), whole)


def test_a_window_too_wide_for_a_tile_is_left_to_the_reference() -> None:
    g = Geometry((1, 40000, 1), (20000,), (20000,))
    x = np.arange(40000, dtype="f4").reshape(g.shape)
    attrs, out = g.attrs(), ("float32", g.windows())
    [y] = harness.run(text_of("max_pool", [x], attrs, out), [x])
    assert y.reshape(-1).tolist() == [19999.0, 39999.0]


def test_the_gradient_goes_to_the_first_of_equal_elements() -> None:
    x = np.array([1, 3, 3, 2, 2, 2, 0, np.nan], "f4").reshape(1, 8, 1)
    attrs = "window=[4], strides=[4]"
    [y] = harness.run(text_of("max_pool", [x], attrs, ("float32", (1, 2, 1))), [x])
    assert y[0, 0, 0] == 3 and np.isnan(y[0, 1, 0])
    dy = np.array([5, 7], "f4").reshape(1, 2, 1)
    out = ("float32", (1, 8, 1))
    [dx] = harness.run(text_of("max_pool_grad", [x, y, dy], attrs, out), [x, y, dy])
    assert dx.reshape(-1).tolist() == [0, 5, 0, 0, 0, 0, 0, 7]


@pytest.mark.parametrize(
    ("shape", "attrs", "message"),
    [
        ((1, 4), "window=[2], strides=[2]", "1 to 3 axes"),
        ((1, 4, 2), "window=[5], strides=[1]", "Negative dimension size"),
        ((1, 4, 2), "window=[2,2], strides=[1,1]", "window has 2 integers"),
        ((1, 4, 2), "window=[2], strides=[0]", "strides holds 0"),
        ((1, 4, 2), "window=[0], strides=[1]", "window holds 0"),
        ((1, 4, 2), "window=[2], strides=[1], padding=[2,0]", "smaller than the"),
        ((1, 4, 2), "window=[2], strides=[1], padding=[1]", "padding has 1 integers"),
    ],
)
def test_geometries_that_do_not_fit_are_refused(
    shape: tuple[int, ...], attrs: str, message: str
) -> None:
    text = text_of("max_pool", [np.zeros(shape, "f4")], attrs, ("float32", shape))
    with pytest.raises((ValueError, ipu.tf.errors.InvalidArgumentError), match=message):
        _core.graph_compile(text)
