# SPDX-License-Identifier: MIT
"""Sums of any length are as exact as NumPy's: products, convolutions, recurrence,
attention, reductions, averages and sums by index add up by a tree
(ipu_core/kernels/core/sum_tree.h), where one chain would lose digits from some ten
thousand terms on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import _core, keras, tf

BLOCK = 1024  # terms of a chain
NODE = 32 * BLOCK
ENDS = (1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1, 3001, 7919)
LONG = (NODE - 1, NODE, NODE + 1, 2 * NODE + BLOCK + 1, 104_729)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    threads = _core.num_threads()
    yield
    _core.set_num_threads(threads)


def uniform(*shape: int) -> Any:
    return np.random.default_rng(shape).random(shape, dtype=np.float32)


def tenths(*shape: int) -> Any:
    """Equal terms, whose roundings all go in one direction."""
    return np.full(shape, 0.1, np.float32)


def error(got: Any, want: Any) -> float:
    """The largest one, relative to the largest element."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return float(np.abs(got - want).max() / np.abs(want).max())


def wide(x: Any) -> Any:
    return np.asarray(x, np.float64)


# A chain of equal terms rounds in one direction: half of an ulp of what it has come to,
# a term at a time. What the tree adds to that is little.
BOUNDS = {uniform: 2e-6, tenths: 1.1 * BLOCK * 2.0**-25}


@pytest.mark.parametrize("numbers", [uniform, tenths])
@pytest.mark.parametrize("k", [*ENDS, *LONG])
def test_products(k: int, numbers: Any) -> None:
    for m, n in ((1, 1), (1, 5), (2, 40), (7, 3), (14, 35)):
        a, b = numbers(m, k), numbers(k, n)
        want = wide(a) @ wide(b)
        for left, right in ((False, False), (False, True), (True, False), (True, True)):
            got = tf.matmul(
                np.ascontiguousarray(a.T) if left else a,
                np.ascontiguousarray(b.T) if right else b,
                transpose_a=left,
                transpose_b=right,
            )
            assert error(got, want) < BOUNDS[numbers], (m, n, left, right)


def test_ones_are_counted() -> None:
    ones = np.ones((1, 2**24 + 2 * NODE + 5), np.float32)
    counted = tf.matmul(ones, ones, transpose_b=True)
    assert float(counted) == np.float32(ones.size)
    assert float(tf.reduce_sum(ones)) == np.float32(ones.size)


def test_products_of_halves() -> None:
    k = 40_000
    a, b = uniform(3, k).astype("f2"), (uniform(k, 4) / 1000).astype("f2")
    got = tf.matmul(a, b)
    want = wide(a) @ wide(b)
    np.testing.assert_array_equal(got, want.astype("f2"))


AXES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1_000_003,), (0,)),
    ((3, 700_001), (1,)),
    ((300_007, 3), (0,)),
    ((40, 30_011), (1,)),
    ((70_001, 40), (0,)),
    ((100_003, 2, 2), (0, 2)),
    ((2, 50_021, 3, 2), (1, 3)),
    ((20, 5, 9001, 2), (0, 2)),
    ((11, 7003, 3), (1,)),
)


@pytest.mark.parametrize("numbers", [uniform, tenths])
@pytest.mark.parametrize(("shape", "axes"), AXES)
def test_reductions(
    shape: tuple[int, ...], axes: tuple[int, ...], numbers: Any
) -> None:
    x = numbers(*shape)
    results = []
    bound = BOUNDS[numbers]
    for threads in (1, 2):
        ipu.set_num_threads(threads)
        total, mean = tf.reduce_sum(x, axes), tf.reduce_mean(x, axes)
        norm = tf.norm(tf.reshape(x, [-1]))
        assert error(total, wide(x).sum(axes)) < bound
        assert error(mean, wide(x).mean(axes)) < bound
        assert error(norm, np.sqrt((wide(x) ** 2).sum())) < bound
        results.append([np.asarray(r).tobytes() for r in (total, mean, norm)])
    assert results[0] == results[1]


@pytest.mark.parametrize("decides", [0, 8191, 8192, 300_000, 299_999])
def test_any_and_all_of_many(decides: int) -> None:
    one = np.zeros(300_001, bool)
    one[decides] = True
    for x in (one, one.reshape(1, -1), np.repeat(one[:, None], 2, 1)):
        assert np.asarray(tf.reduce_any(x)).item()
        assert not np.asarray(tf.reduce_all(~x)).item()
        assert not np.asarray(tf.reduce_any(np.zeros_like(x))).item()
        assert np.asarray(tf.reduce_max(x.astype("f4"))).item() == 1.0


def test_softmax_over_many_classes() -> None:
    x = np.full((2, 2_000_003), 0.3, np.float32)
    got = np.asarray(tf.nn.softmax(x))
    assert error(got, np.full(x.shape, 1 / x.shape[1])) < BOUNDS[tenths]


def test_log_softmax_over_many_classes() -> None:
    x = np.full((1, 3_000_000), 0.3, np.float32)
    want = np.full(x.shape, -np.log(x.shape[1]))
    assert error(tf.nn.log_softmax(x), want) < 1e-7
    loss = tf.nn.softmax_cross_entropy_with_logits(np.full_like(x, 1 / x.shape[1]), x)
    assert error(loss, -want[:, 0]) < 1e-6


@pytest.mark.parametrize("filters", [(3, 3, 3, 4), (1, 1, 3, 4)])
@pytest.mark.parametrize("numbers", [uniform, tenths])
def test_filters_gradients(numbers: Any, filters: tuple[int, ...]) -> None:
    x, w = numbers(2, 130, 129, 3), tf.Variable(uniform(*filters))
    with tf.GradientTape() as tape:
        y = tf.nn.conv2d(x, w, 1, "VALID")
    slope = numbers(*y.shape)
    got = tape.gradient(y, w, output_gradients=tf.constant(slope))
    rows, columns = y.shape[1:3]
    want = np.array(
        [
            [
                np.einsum(
                    "nhwc,nhwf->cf", wide(x)[:, i : i + rows, j : j + columns], slope
                )
                for j in range(filters[1])
            ]
            for i in range(filters[0])
        ]
    )
    assert error(got, want) < BOUNDS[numbers]


def test_depthwise_filters_gradients() -> None:
    x, w = tenths(2, 130, 129, 3), tf.Variable(uniform(2, 2, 3, 1))
    with tf.GradientTape() as tape:
        y = tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "VALID")
    got = tape.gradient(y, w)
    want = np.full(w.shape, wide(x)[0, 0, 0, 0] * 2 * 129 * 128)
    assert error(got, want) < BOUNDS[tenths]


def test_convolutions_over_many_channels() -> None:
    x, w = tenths(1, 3, 4, 12_000), tf.Variable(tenths(3, 3, 12_000, 2))
    y = tf.nn.conv2d(x, w, 1, "VALID")
    assert (
        error(y, np.full(y.shape, wide(x)[0, 0, 0, 0] ** 2 * 108_000)) < BOUNDS[tenths]
    )


def test_attention_over_many_keys() -> None:
    q, k, v = tenths(1, 1, 2, 4), tenths(1, 1, 40_000, 4), tenths(1, 1, 40_000, 3)
    y = tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v)
    assert error(y, np.full(y.shape, np.float32(0.1))) < BOUNDS[tenths]


def same_bits(first: Any, second: Any) -> None:
    assert first.dtype == second.dtype
    assert first.tobytes() == second.tobytes()


def same_everywhere(
    op: str, inputs: list[Any], shape: tuple[int, ...], attrs: str
) -> Any:
    """The result of an op; all classes have its bits, and a reference kernel has."""

    def kind(x: Any, dims: tuple[int, ...]) -> str:
        return f"{x.dtype.name}[{','.join(map(str, dims))}]"

    params = ", ".join(f"%{i}: {kind(x, x.shape)}" for i, x in enumerate(inputs))
    operands = ", ".join(f"%{i}" for i in range(len(inputs)))
    node = f"%9 = {op}({operands}) {{{attrs}}} : {kind(inputs[-1], shape)}"
    text = f"block b0({params}) {{\n  {node}\n}} -> (%9)\n"
    (result,) = _core.graph_compile(text, reference=True).run(inputs)
    want = np.asarray(result)
    with pytest.MonkeyPatch.context() as patch:
        for name, threads in (("generic", 1), ("avx2", 2), ("avx512", 3)):
            patch.setenv("IPU_CPU_CLASS", name)
            ipu.set_num_threads(threads)
            (result,) = _core.graph_compile(text).run(inputs)
            same_bits(np.asarray(result), want)
    return want


def averages(x: Any, window: int | list[int], stride: int, padding: str) -> list[Any]:
    """Means of windows, and the gradient of their sum."""
    image = tf.Variable(x)
    with tf.GradientTape() as tape:
        y = tf.nn.avg_pool2d(image, window, stride, padding)
    return [np.asarray(y), np.asarray(tape.gradient(y, image))]


@pytest.mark.parametrize("channels", [1, 3, 43])
@pytest.mark.parametrize("numbers", [uniform, tenths])
def test_averages_of_large_windows(numbers: Any, channels: int) -> None:
    x = numbers(1, 400, 401, channels)
    y, dx = averages(x, [400, 401], 1, "VALID")
    assert error(y, wide(x).mean((1, 2), keepdims=True)) < BOUNDS[numbers]
    assert error(dx, np.full(x.shape, 1 / (400 * 401))) < 1e-6
    half = x.astype("f2")
    got = averages(half, [400, 401], 1, "VALID")[0]
    np.testing.assert_allclose(got, wide(half).mean((1, 2), keepdims=True), rtol=1e-3)


def test_gradients_of_averages_that_overlap() -> None:
    """The one in the middle has a share of all windows: 71 * 71 equal ones."""
    x = tenths(1, 141, 141, 1)
    y, dx = averages(x, 71, 1, "VALID")
    assert error(y, np.full(y.shape, wide(x).max())) < BOUNDS[tenths]
    reach = np.minimum(np.arange(1.0, 142), np.arange(141.0, 0, -1))
    assert error(dx[0, :, :, 0], np.outer(reach, reach) / 71**2) < BOUNDS[tenths]


# window, strides, dilations, padding of both ends
POOLS: tuple[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]], ...] = (
    ((2, 40, 37, 3), ((33, 32), (1, 2), (1, 1), (16, 16, 15, 16))),
    ((1, 70, 9, 9), ((65, 40), (4, 1), (1, 1), (32, 32, 20, 19))),
    ((1, 4, 4100, 1), ((3, 2051), (2, 1024), (1, 1), (0, 0, 0, 0))),
    ((1, 70, 71, 35), ((33, 34), (3, 1), (2, 2), (0, 0, 0, 0))),
    ((1, 36, 36, 41), ((36, 35), (1, 1), (1, 1), (0, 0, 0, 0))),
    ((1, 11, 12, 13, 2), ((10, 11, 12), (1, 1, 1), (1, 1, 1), (0, 1, 2, 3, 4, 5))),
)


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize(("shape", "how"), POOLS)
def test_averages_are_the_same_everywhere(
    shape: tuple[int, ...], how: tuple[tuple[int, ...], ...], dtype: str
) -> None:
    names = ("window", "strides", "dilations", "padding")
    attrs = ", ".join(f"{a}={list(v)}" for a, v in zip(names, how, strict=True))
    window, strides, dilations, padding = map(np.array, how)
    room = np.array(shape[1:-1]) + padding.reshape(-1, 2).sum(1)
    counts = (room - (window - 1) * dilations - 1) // strides + 1
    windows = (shape[0], *counts.tolist(), shape[-1])
    y = same_everywhere("average_pool", [uniform(*shape).astype(dtype)], windows, attrs)
    dy = np.cos(y).astype(dtype)
    attrs += f", shape={list(shape)}"
    same_everywhere("average_pool_grad", [dy], shape, attrs)


def ids_with(counts: dict[int, int]) -> Any:
    """Integers, each as often as `counts` says, in any order."""
    ids = np.repeat(list(counts), list(counts.values())).astype("i4")
    return np.random.default_rng(len(ids)).permutation(ids)


SEGMENTS = {
    0: 1,
    1: BLOCK - 1,
    2: BLOCK,
    3: BLOCK + 1,
    5: 2 * BLOCK + 1,
    6: NODE,
    4101: NODE + BLOCK + 1,  # in one bin with 5
}


@pytest.mark.parametrize("inner", [1, 3, 20, 2050])
@pytest.mark.parametrize("numbers", [uniform, tenths])
def test_segments(numbers: Any, inner: int) -> None:
    counts = SEGMENTS if inner < 2050 else {0: 3, 2: 2 * BLOCK + 1, 3: BLOCK}
    ids = ids_with(counts)
    x = numbers(len(ids), inner)
    want = np.zeros((max(counts) + 2, inner))
    np.add.at(want, ids, wide(x))
    results = []
    for threads in (1, 2):
        ipu.set_num_threads(threads)
        got = tf.math.unsorted_segment_sum(x, ids, len(want))
        results.append(np.array(got))
        np.testing.assert_allclose(results[-1], want, BOUNDS[numbers])
    same_bits(*results)
    order = np.argsort(ids, kind="stable")
    got = np.asarray(tf.math.segment_sum(x[order], ids[order]))
    same_bits(got, results[0][: max(counts) + 1])
    half = np.asarray(
        tf.math.unsorted_segment_sum(x.astype("f2"), ids, len(want)), "f8"
    )
    np.testing.assert_allclose(half, want, 2e-3)


def test_the_longest_segment() -> None:
    x = tenths(3_000_000)
    ids = np.zeros(len(x), "i4")
    total = tf.math.unsorted_segment_sum(x, ids, 2)
    assert error(total, [wide(x[0]) * len(x), 0.0]) < BOUNDS[tenths]


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4"])
@pytest.mark.parametrize("shape", [(4, 1), (2, 3), (2, 20), (30, 40)])
def test_segments_are_the_same_everywhere(shape: tuple[int, int], dtype: str) -> None:
    """Of all three ops; an update of a tensor begins with what stands there."""
    slices, inner = shape
    ids = ids_with({0: 5, 1: (NODE if slices == 4 else 2 * BLOCK) + BLOCK + 1})
    x = (uniform(len(ids), inner) * 9).astype(dtype)
    start = uniform(*shape).astype(dtype)
    attrs = f"shape={list(shape)}"
    points = ids[:, None]
    sums = same_everywhere("gather_grad", [ids, x], shape, f"axis=0, {attrs}")
    exact = np.zeros(shape)
    np.add.at(exact, ids, x.astype(float))
    if dtype != "f2":  # which overflows
        np.testing.assert_allclose(sums, exact, 1e-6 if dtype == "f4" else 0, atol=1e-2)
    same_everywhere("scatter_nd", [points, x], shape, attrs)
    same_everywhere("tensor_scatter", [start, points, x], shape, "reduction=1")


@pytest.mark.parametrize(
    ("optimizer", "dtype"),
    [("sgd", "f4"), ("sgd", "f2"), ("momentum", "f4"), ("adam", "f4")],
)
def test_updates_of_rows_that_are_often_named(optimizer: str, dtype: str) -> None:
    """Fused, they have the bits of the gradient and the update in turn."""
    chosen: Any = {
        "sgd": lambda: keras.optimizers.SGD(0.1),
        "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
        "adam": lambda: keras.optimizers.Adam(0.01),
    }[optimizer]
    ids = ids_with({0: 7, 2: BLOCK, 3: NODE + BLOCK + 1})
    slope, start = uniform(len(ids), 5).astype(dtype), uniform(6, 5).astype(dtype)

    def trained(fuses: bool) -> list[Any]:
        table, opt = tf.Variable(start), chosen()

        def step() -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.gather(table, ids) * slope)
            gradient = tf.convert_to_tensor(tape.gradient(loss, table))
            opt.apply_gradients([(gradient, table)])

        run = tf.function(step) if fuses else step
        run()
        run()
        return [np.asarray(table)]

    same_bits(trained(True)[0], trained(False)[0])


def weights_after_a_step(units: int, inputs: int, rows: int) -> list[Any]:
    model = keras.Sequential([keras.layers.Dense(units, input_shape=(inputs,))])
    model.set_weights([uniform(inputs, units) / inputs, uniform(units)])
    model.compile(keras.optimizers.SGD(1.0), keras.losses.MeanSquaredError())
    x, y = uniform(rows, inputs), uniform(rows, units)
    model.fit(x, y, batch_size=rows, shuffle=False, verbose=0)
    return [np.asarray(w) for w in model.get_weights()]


@pytest.mark.parametrize(("units", "inputs"), [(1, 3), (40, 7)])
def test_gradients_of_a_large_batch(units: int, inputs: int) -> None:
    """Weights and biases, by fused updates, against NumPy in float64."""
    rows = NODE + 77
    w, b = weights_after_a_step(units, inputs, rows)
    x, y = wide(uniform(rows, inputs)), wide(uniform(rows, units))
    start = wide(uniform(inputs, units) / inputs), wide(uniform(units))
    slope = 2 * (x @ start[0] + start[1] - y) / (rows * units)
    assert error(w, start[0] - x.T @ slope) < 1e-6
    assert error(b, start[1] - slope.sum(0)) < 3e-6  # a difference, 0.1 of its parts


@pytest.mark.slow
def test_the_longest() -> None:
    ones = np.ones((1, 2**25), np.float32)
    assert float(tf.matmul(ones, ones, transpose_b=True)) == 2.0**25
    a, b = uniform(1, 1_000_000), uniform(1_000_000, 1)
    assert error(tf.matmul(a, b), wide(a) @ wide(b)) < 2e-6
    x = tenths(100_000_000)
    total = wide(x[0]) * x.size
    assert error(tf.reduce_sum(x), total) < BOUNDS[tenths]
    assert error(tf.reduce_mean(x), wide(x[0])) < BOUNDS[tenths]
    images, w = uniform(16, 224, 224, 3), tf.Variable(uniform(3, 3, 3, 8))
    with tf.GradientTape() as tape:
        y = tf.nn.conv2d(images, w, 1, "VALID")
    got = np.asarray(tape.gradient(y, w))
    want = [
        [wide(images)[:, i : i + 222, j : j + 222].sum((0, 1, 2)) for j in range(3)]
        for i in range(3)
    ]
    assert error(got, np.asarray(want)[..., None].repeat(8, -1)) < 2e-6


def test_the_block_is_what_the_core_says() -> None:
    path = os.path.join(
        os.path.dirname(__file__), "..", "ipu_core", "kernels", "core", "sum_tree.h"
    )
    with open(path) as file:
        text = file.read()
    assert f"IPU_SUM_BLOCK = {BLOCK}," in text
    assert f"IPU_SUM_FAN = {NODE // BLOCK}," in text
