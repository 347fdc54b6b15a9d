# SPDX-License-Identifier: MIT
"""Normalisation: numbers of TensorFlow's, bits, running averages, what is refused.

The values of REFERENCE are those of TensorFlow 2.21 (Keras 3) on a CPU, float32,
rounded to six digits, with x = waves(shape), gamma = 1 + waves / 4, beta = waves / 4:
the result; the gradients, with respect to x, gamma and beta, of the sum of it times the
transposed waves of the reversed shape; the averages after this one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_cases import harness
from op_cases.model import Graph
from op_cases.normalizations import Groups

import ipu
from ipu import _core, keras, tf

L = keras.layers
Array = np.ndarray[Any, Any]
CLASSES = ("generic", "avx2", "avx512")


pytestmark = pytest.mark.usefixtures("one_thread")


def waves(*shape: int) -> Array:
    steps = np.arange(np.prod(shape), dtype=np.float64)
    return np.sin(steps * 1.7 + 0.3).reshape(shape).astype(np.float32)


CASES: dict[str, tuple[Callable[[], Any], tuple[int, ...], bool]] = {
    "dense": (lambda: L.BatchNormalization(momentum=0.9), (4, 3), True),
    "image": (lambda: L.BatchNormalization(momentum=0.9), (2, 2, 2, 2), True),
    "first": (lambda: L.BatchNormalization(axis=1, momentum=0.9), (2, 3, 4), True),
    "layer": (lambda: L.LayerNormalization(), (3, 4), False),
    "layers": (lambda: L.LayerNormalization(axis=[1, 2]), (2, 3, 2), False),
    "inner": (lambda: L.LayerNormalization(axis=1), (2, 3, 2), False),
    "groups": (
        lambda: L.GroupNormalization(groups=2, strided_channel_grouping=False),
        (2, 3, 4),
        False,
    ),
}
Reference = tuple[list[float], list[float], list[list[float]], list[list[float]]]
REFERENCE: dict[str, Reference] = {
    "dense": (
        [
            1.327808,
            1.537962,
            -1.412474,
            -0.876067,
            1.256341,
            0.319039,
            -1.096666,
            -0.441548,
            0.920294,
            0.940445,
            -1.443456,
            -0.356696,
        ],
        [
            0.964419,
            0.176547,
            -0.086328,
            1.695764,
            0.151892,
            0.609622,
            -1.326713,
            -0.92773,
            -0.402858,
            -1.333469,
            0.59929,
            -0.120436,
        ],
        [[-0.505341, 2.235946, -2.630028], [-0.097783, 0.075961, 0.229864]],
        [[-0.03123, 0.007007, 0.029424], [0.926996, 0.961661, 0.931095]],
    ),
    "image": (
        [
            0.516014,
            2.033169,
            -0.575523,
            -1.744723,
            1.089252,
            1.304615,
            -1.038214,
            -0.813682,
            1.410671,
            0.232911,
            -1.197019,
            0.32752,
            1.396316,
            -0.902008,
            -1.010456,
            1.380794,
        ],
        [
            0.398473,
            1.966428,
            0.961739,
            2.070228,
            -0.687827,
            -2.437453,
            -1.169954,
            -2.048745,
            1.21837,
            0.086405,
            0.765552,
            -1.051724,
            -1.006295,
            0.21952,
            -0.480059,
            1.195341,
        ],
        [[-0.059347, 0.148324], [-0.021822, 0.553589]],
        [[-0.00388, 0.010527], [0.965835, 0.929761]],
    ),
    "first": (
        [
            0.480003,
            1.412627,
            -0.774111,
            -1.143236,
            1.405138,
            1.154836,
            -1.390054,
            -0.483961,
            0.987263,
            -0.074587,
            -1.435331,
            -0.022832,
            1.49142,
            -0.573113,
            -1.273824,
            0.971274,
            1.353482,
            -1.249875,
            -0.718729,
            1.747757,
            0.105934,
            -1.425508,
            -0.205885,
            1.011274,
        ],
        [
            0.158023,
            -1.875824,
            1.5031,
            -0.60877,
            -0.381924,
            2.168554,
            -1.613389,
            0.535174,
            0.46203,
            -1.448349,
            0.912852,
            -0.229314,
            0.821556,
            -0.555153,
            -0.428482,
            0.985549,
            -0.81623,
            0.099019,
            1.112485,
            -1.103687,
            0.462339,
            0.235911,
            -1.175285,
            0.779816,
        ],
        [[1.504245, -1.334293, 1.136361], [0.963299, -1.199808, 1.356646]],
        [[0.002824, 0.005112, 0.006065], [0.949848, 0.949791, 0.949758]],
    ),
    "layer": (
        [
            0.587001,
            1.938708,
            -0.787212,
            -1.094799,
            1.217369,
            1.269043,
            -1.301766,
            -0.649644,
            1.473606,
            0.315288,
            -1.439675,
            -0.086929,
        ],
        [
            1.085436,
            -0.568014,
            -0.846601,
            0.329179,
            0.114142,
            0.208109,
            0.602831,
            -0.925081,
            -0.304287,
            0.676214,
            -0.23894,
            -0.132988,
        ],
        [
            [0.41884, -0.416894, -0.317865, 0.464948],
            [0.674982, 0.541122, -0.265918, -0.742144],
        ],
        [],
    ),
    "layers": (
        [
            0.230694,
            1.591447,
            -1.132049,
            -1.431096,
            1.16092,
            0.835377,
            -1.061797,
            -0.119592,
            1.337186,
            0.137421,
            -1.278984,
            0.687676,
        ],
        [
            0.757446,
            -0.983693,
            -1.078332,
            0.697615,
            1.936094,
            -1.32913,
            0.520118,
            -1.050334,
            -0.031272,
            0.209267,
            -0.026269,
            0.37849,
        ],
        [
            [-0.91847, -0.87649, -0.698608, -1.447217, -0.119494, -0.530297],
            [1.204818, -1.237925, -1.302601, 1.079761, 1.313886, -0.849897],
        ],
        [],
    ),
    "inner": (
        [
            0.342066,
            1.058701,
            -1.402672,
            -1.477859,
            0.803057,
            0.277265,
            -0.612488,
            -1.426488,
            1.959398,
            0.973471,
            -0.802298,
            0.552205,
        ],
        [
            0.157265,
            0.217174,
            -0.058869,
            0.05595,
            -0.098396,
            -0.273124,
            0.328183,
            -0.035903,
            -0.02145,
            0.116392,
            -0.306733,
            -0.080488,
        ],
        [[-0.813616, -1.671853, -0.019428], [-0.033107, -0.222839, 0.463989]],
        [],
    ),
    "groups": (
        [
            -0.966256,
            1.436907,
            -0.053194,
            -0.627724,
            0.515697,
            0.169388,
            -0.840261,
            0.239557,
            1.346641,
            -1.695134,
            -1.110398,
            1.302606,
            1.542482,
            -0.359572,
            -1.433498,
            0.289378,
            1.160397,
            -1.028927,
            -0.983466,
            0.641408,
            0.511863,
            -1.350307,
            -0.374709,
            0.716324,
        ],
        [
            1.930061,
            -3.749563,
            1.931718,
            -1.173932,
            -1.76173,
            4.137005,
            -2.034501,
            0.239572,
            2.054332,
            -2.610106,
            1.514242,
            -0.477099,
            0.996249,
            -0.680806,
            -0.297598,
            0.902928,
            -1.410032,
            0.169018,
            0.867757,
            -1.366874,
            0.651319,
            0.274251,
            -0.995753,
            0.88954,
        ],
        [
            [1.059979, 0.521518, 0.212477, 1.049738],
            [1.216103, -1.008061, 0.223944, 0.688151],
        ],
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_layers_give_tensorflows_numbers(name: str) -> None:
    make, shape, batch = CASES[name]
    values, gradient, slopes, averages = REFERENCE[name]
    layer = make()
    layer.build(shape)
    for k, weight in enumerate(layer.trainable_weights):
        weight.assign(1.0 * (k == 0) + 0.25 * waves(*weight.shape))
    x = tf.constant(waves(*shape))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, training=True) if batch else layer(x)
        loss = tf.reduce_sum(y * np.ascontiguousarray(waves(*shape[::-1]).T))
    found = tape.gradient(loss, [x, *layer.trainable_weights])
    np.testing.assert_allclose(y.numpy().ravel(), values, atol=3e-6)
    np.testing.assert_allclose(found[0].numpy().ravel(), gradient, atol=1e-5)
    for got, want in zip(found[1:], slopes, strict=True):
        np.testing.assert_allclose(got.numpy().ravel(), want, atol=1e-5)
    for got, want in zip(layer.non_trainable_weights, averages, strict=True):
        if name == "image":  # Keras 3 keeps the biased variance, Keras 2 did not
            want = want if got.name.startswith("moving_mean") else None
        if want is not None:
            np.testing.assert_allclose(got.numpy().ravel(), want, atol=2e-6)


def test_the_running_variance_of_images_is_the_unbiased_one() -> None:
    x = waves(2, 2, 2, 3)
    for fused, ddof in ((None, 1), (False, 0), (True, 1)):
        layer = L.BatchNormalization(momentum=0.0, fused=fused)
        layer(x, training=True)
        want = x.reshape(-1, 3).var(axis=0, ddof=ddof)
        np.testing.assert_allclose(layer.moving_variance.numpy(), want, rtol=2e-6)


def test_a_frozen_layer_runs_on_its_averages() -> None:
    layer = L.BatchNormalization()
    layer(waves(4, 3), training=True)
    before = [w.numpy() for w in layer.weights]
    layer.trainable = False
    np.testing.assert_array_equal(
        layer(waves(4, 3), training=True).numpy(), layer(waves(4, 3)).numpy()
    )
    for was, weight in zip(before, layer.weights, strict=True):
        np.testing.assert_array_equal(was, weight.numpy())


def test_renorm_corrects_towards_the_averages() -> None:
    """Against the formulas of Ioffe 2017, step by step."""
    limits = {"rmax": 1.5, "rmin": 0.5, "dmax": 0.25}
    layer = L.BatchNormalization(
        momentum=0.5, renorm=True, renorm_clipping=limits, renorm_momentum=0.75
    )
    mean, deviation = np.zeros(3), np.ones(3)
    for step in range(3):
        x = waves(5, 3) * (step + 1) + 0.5
        got = layer(x, training=True).numpy()
        own = np.sqrt(x.var(axis=0) + 1e-3)
        r = np.clip(own / deviation, 0.5, 1.5)
        d = np.clip((x.mean(axis=0) - mean) / deviation, -0.25, 0.25)
        np.testing.assert_allclose(got, (x - x.mean(axis=0)) / own * r + d, atol=2e-6)
        mean += (x.mean(axis=0) - mean) * 0.25
        deviation += (own - deviation) * 0.25
    np.testing.assert_allclose(layer.renorm_mean.numpy(), mean, atol=1e-6)
    np.testing.assert_allclose(layer.renorm_stddev.numpy(), deviation, atol=1e-6)
    names = [w.name.split("/")[-1].split(":")[0] for w in layer.weights]
    assert names == [
        *("gamma", "beta", "moving_mean", "moving_variance"),
        *("renorm_mean", "renorm_stddev"),
    ]
    again = L.BatchNormalization.from_config(layer.get_config())
    assert again.get_config() == layer.get_config() and again.renorm_clipping == limits


def test_renorm_counts_its_correction_as_constant() -> None:
    layer = L.BatchNormalization(renorm=True)
    x = tf.constant(waves(4, 2))
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(layer(x, training=True) * waves(2, 4).T.copy())
    plain = L.BatchNormalization()
    with tf.GradientTape() as other:
        other.watch(x)
        same = tf.reduce_sum(plain(x, training=True) * waves(2, 4).T.copy())
    r = np.sqrt(waves(4, 2).var(axis=0) + 1e-3)
    want = other.gradient(same, x).numpy() * r
    np.testing.assert_allclose(tape.gradient(loss, x).numpy(), want, atol=2e-6)


def test_float16_has_statistics_of_float32() -> None:
    x = (waves(300, 4) * 50 + 900).astype(np.float16)
    layer = L.BatchNormalization(dtype="float16", momentum=0.0)
    y = layer(x, training=True).numpy()
    wide = x.astype(np.float64)
    want = (wide - wide.mean(axis=0)) / np.sqrt(wide.var(axis=0) + 1e-3)
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, want, atol=2e-3)
    assert layer.moving_mean.numpy().dtype == np.float32
    np.testing.assert_allclose(layer.moving_mean.numpy(), wide.mean(axis=0), rtol=1e-6)


def test_means_far_from_zero_lose_no_variance() -> None:
    x = (waves(4096, 3) + 4000).astype(np.float32)
    layer = L.BatchNormalization(momentum=0.0)
    layer(x, training=True)
    want = x.astype(np.float64).var(axis=0)
    np.testing.assert_allclose(layer.moving_variance.numpy(), want, rtol=1e-4)


def test_fused_batch_norm_keeps_the_averages() -> None:
    x = waves(2, 3, 2, 2)
    ones, zeros = np.ones(2, "f4"), np.zeros(2, "f4")
    y, mean, variance = tf.nn.fused_batch_norm(
        x, ones, zeros, zeros, ones, exponential_avg_factor=0.25
    )
    flat = x.reshape(-1, 2).astype(np.float64)
    np.testing.assert_allclose(mean.numpy(), flat.mean(axis=0) * 0.25, atol=1e-6)
    want = 0.75 + flat.var(axis=0, ddof=1) * 0.25
    np.testing.assert_allclose(variance.numpy(), want, atol=1e-6)
    again, *_ = tf.nn.fused_batch_norm(
        np.moveaxis(x, -1, 1).copy(), ones, zeros, data_format="NCHW"
    )
    np.testing.assert_allclose(np.moveaxis(again.numpy(), 1, -1), y.numpy(), atol=1e-6)
    out, *_ = tf.nn.fused_batch_norm(
        x, ones, zeros, ones, ones * 4, epsilon=0.0, is_training=False
    )
    np.testing.assert_allclose(out.numpy(), (x - 1) / 2, atol=1e-6)


GROUPS = (
    Groups((1, 1000, 7), 7),
    Groups((1, 333, 64), 64),
    Groups((12, 50, 24), 6),
    Groups((3, 70, 24), 6, strided=True),
    Groups((130, 1, 77), 1),
    Groups((2, 1, 20000), 1),
    Groups((9, 1, 12), 3),
    Groups((1, 40, 9000), 9000),
)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("g", GROUPS, ids=lambda g: g.label)
def test_classes_and_threads_give_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, g: Groups, dtype: str
) -> None:
    rng = np.random.default_rng(5)
    x, dy = (rng.normal(size=g.shape).astype(dtype) for _ in range(2))
    factor, shift = (rng.normal(size=g.channels).astype("f4") for _ in range(2))
    wide = ("float32", g.statistics)
    graph = Graph()
    names = [graph.param((v.dtype.name, v.shape)) for v in (x, dy, factor, shift)]
    y, mean, variance = graph.node(
        "normalize",
        [names[0], names[2], names[3]],
        g.attrs,
        [(dtype, g.shape), wide, wide],
    )
    slopes = graph.node(
        "normalize_grad",
        [names[0], names[1], names[2], mean, variance],
        g.attrs,
        [(dtype, g.shape), ("float32", g.channels), ("float32", g.channels)],
    )
    text = graph.finish([y, mean, variance, *slopes])
    first = None
    for name in CLASSES:
        monkeypatch.setenv("IPU_CPU_CLASS", name)
        if _core.cpu_class() != name:
            continue
        for count in (1, 2, 3):
            ipu.set_num_threads(count)
            got = harness.run(text, [x, dy, factor, shift])
            first = got if first is None else first
            harness.same_bits(got, first, f"{g.label}, {name}, {count} threads")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: L.BatchNormalization(renorm=True, fused=True),
            "`fused=True` and `renorm=True`",
        ),
        (
            lambda x: L.BatchNormalization(renorm=True, renorm_clipping={"max": 1}),
            "may have 'rmin', 'rmax' and 'dmax'",
        ),
        (lambda x: L.BatchNormalization(virtual_batch_size=2), "virtual_batch_size"),
        (lambda x: L.BatchNormalization(axis=3)(x), "Invalid axis of BatchNorm"),
        (lambda x: L.LayerNormalization(axis=[1, 1])(x), "Duplicate axis"),
        (lambda x: L.LayerNormalization(axis=7)(x), "Invalid axis of LayerNorm"),
        (lambda x: L.GroupNorm(groups=9)(x), "Invalid groups 9 for 4 channels."),
        (lambda x: L.GroupNorm(groups=3)(x), "4 channels is not commensurate with 3"),
        (
            lambda x: tf.nn.fused_batch_norm(x, x[0, 0], x[0, 0]),
            "must have 4 axes",
        ),
        (
            lambda x: tf.nn.fused_batch_norm(
                x[None], x[0, 0], x[0, 0], is_training=False
            ),
            "`mean` and `variance` are needed",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    call: Callable[[Array], Any], message: str
) -> None:
    refusals = (ValueError, tf.errors.InvalidArgumentError, tf.errors.OpError)
    with pytest.raises(refusals, match=message):
        call(waves(2, 3, 4))
