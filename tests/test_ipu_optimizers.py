# SPDX-License-Identifier: MIT
"""Optimizers of the IPU's Keras: state of another dtype, and wrappers of others."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from op_cases.model import Array
from simulated_ipus import attach

from ipu import keras, loops, tf
from ipu.gradient_accumulation import GradientAccumulationReductionMethod
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.keras import optimizers
from ipu.keras.optimizers import (
    AdamIpuOptimizer,
    ALSGradientAccumulationOptimizer,
    ALSOptimizer,
    CrossReplicaOptimizer,
    GradientAccumulationOptimizer,
    IpuOptimizer,
    LAMBIpuOptimizer,
    MapGradientOptimizer,
    SGDIpuOptimizer,
)
from ipu.tf import errors

SGD = keras.optimizers.SGD


@pytest.fixture(autouse=True)
def _one_ipu() -> Iterator[None]:
    attach(1)
    yield
    attach(1)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return tf.function(function, jit_compile=True)


# --- state of another dtype -----------------------------------------------------------

W = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
G = np.array([[0.1, -0.5, 0.0, 1.0], [0.3, 0.2, -0.1, 0.7], [0.1, 0.1, 0.2, -2.0]])
RATE = 0.05


def after(opt: Any, dtype: str, name: str = "dense/kernel") -> tuple[Array, list[Any]]:
    """A variable after three updates, and the optimizer's state."""
    v = tf.Variable(W.astype(dtype), name=name)
    for g in G:
        opt.apply_gradients([(tf.constant(g.astype(dtype)), v)])
    return np.asarray(v.numpy().astype(np.float64)), opt.weights[1:]


def sgd(momentum: float, nesterov: bool) -> Array:
    w, v = W.astype(np.float64), np.zeros(4)
    for g in G:
        v = momentum * v - RATE * g
        w = w + (momentum * v - RATE * g if nesterov else v)
    return w


def moments(debiasing: bool) -> Iterator[tuple[Array, Array]]:
    m, v = np.zeros(4), np.zeros(4)
    for t, g in enumerate(G, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        yield (m / (1 - 0.9**t), v / (1 - 0.999**t)) if debiasing else (m, v)


def adam(debiasing: bool, amsgrad: bool) -> Array:
    w, most = W.astype(np.float64), np.zeros(4)
    for m, v in moments(debiasing):
        most = np.maximum(most, v)
        w = w - RATE * m / (np.sqrt(most if amsgrad else v) + 1e-3)
    return w


def lamb(decay: float, adapts: bool, clip: float | None) -> Array:
    w = W.astype(np.float64)
    for m, v in moments(True):
        u = m / (np.sqrt(v) + 1e-3) + decay * w
        norm = np.linalg.norm(w)
        ratio = min(norm, clip or norm) / np.linalg.norm(u) if adapts else 1.0
        w = w - RATE * ratio * u
    return w


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("state", [None, "float32", tf.float16])
def test_sgd(dtype: str, nesterov: bool, state: Any) -> None:
    opt = SGDIpuOptimizer(RATE, 0.9, nesterov, momentum_accum_dtype=state)
    got, slots = after(opt, dtype)
    assert [s.dtype for s in slots] == [tf.as_dtype(state or dtype)]
    exact = dtype == "float32" and state != tf.float16
    np.testing.assert_allclose(got, sgd(0.9, nesterov), atol=1e-6 if exact else 4e-3)
    plain = SGDIpuOptimizer(RATE)
    np.testing.assert_allclose(after(plain, dtype)[0], sgd(0.0, False), atol=3e-3)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("debiasing", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("states", [(None, None), ("float16", "float32")])
def test_adam(dtype: str, debiasing: bool, amsgrad: bool, states: Any) -> None:
    m, v = states
    opt = AdamIpuOptimizer(
        RATE,
        epsilon=1e-3,
        amsgrad=amsgrad,
        m_dtype=m,
        v_dtype=v,
        vhat_dtype=v,
        debiasing=debiasing,
    )
    got, slots = after(opt, dtype)
    kinds = [m, v, v] if amsgrad else [m, v]
    assert [s.dtype.name for s in slots] == [kind or dtype for kind in kinds]
    exact = dtype == "float32" and m is None
    np.testing.assert_allclose(
        got, adam(debiasing, amsgrad), atol=1e-5 if exact else 4e-3
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, lamb(0.0, True, None)),
        ({"weight_decay_rate": 0.1}, lamb(0.1, True, None)),
        (
            {"weight_decay_rate": 0.1, "exclude_from_weight_decay": ["kern"]},
            lamb(0.0, True, None),
        ),
        ({"exclude_from_layer_adaptation": ["x", "^dense"]}, lamb(0.0, False, None)),
        ({"weight_norm_clip": 2.0}, lamb(0.0, True, 2.0)),
    ],
)
def test_lamb(dtype: str, options: dict[str, Any], expected: Array) -> None:
    opt = LAMBIpuOptimizer(
        RATE, epsilon=1e-3, m_dtype="float32", v_dtype="float32", **options
    )
    got, slots = after(opt, dtype)
    assert [s.dtype.name for s in slots] == ["float32", "float32"]
    np.testing.assert_allclose(got, expected, atol=1e-5 if dtype == "float32" else 6e-3)


def test_a_weight_of_zeros_is_changed_by_lamb() -> None:
    v = tf.Variable(np.zeros(2, np.float32))
    LAMBIpuOptimizer(0.5).apply_gradients([(tf.constant([1.0, 0.0]), v)])
    np.testing.assert_allclose(v.numpy(), [-0.5, 0.0], atol=1e-5)
    LAMBIpuOptimizer(0.5).apply_gradients([(tf.constant([0.0, 0.0]), v)])
    assert np.isfinite(v.numpy()).all()


def test_what_is_computed_in_float16_is_rounded() -> None:
    fine, _ = after(AdamIpuOptimizer(RATE, epsilon=1e-3), "float32")
    coarse, _ = after(
        AdamIpuOptimizer(
            RATE, epsilon=1e-3, optimizer_compute_precisions=(tf.float16,)
        ),
        "float32",
    )
    assert 0 < np.abs(fine - coarse).max() < 1e-3
    last, _ = after(
        LAMBIpuOptimizer(RATE, optimizer_compute_precisions=("float32", "float16")),
        "float32",
    )
    assert 0 < np.abs(last - after(LAMBIpuOptimizer(RATE), "float32")[0]).max() < 1e-3


def test_gradients_may_have_another_dtype() -> None:
    for opt in (SGDIpuOptimizer(0.5), SGDIpuOptimizer(0.5, 0.9), AdamIpuOptimizer(0.5)):
        v = tf.Variable(np.ones(2, np.float16))
        opt.apply_gradients([(tf.constant([1.0, 1.0]), v)])
        np.testing.assert_allclose(v.numpy(), [0.5, 0.5], atol=1e-3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SGDIpuOptimizer(0.1, 0.9, momentum_accum_dtype=tf.float16),
        lambda: AdamIpuOptimizer(0.1, v_dtype="float32", amsgrad=True),
        lambda: LAMBIpuOptimizer(0.1, exclude_from_weight_decay=["b"]),
        lambda: GradientAccumulationOptimizer(SGD(0.1), 4, dtype=tf.float16),
        lambda: ALSGradientAccumulationOptimizer(ALSOptimizer(SGD(0.1), 4), 8),
        lambda: CrossReplicaOptimizer(SGD(0.1, momentum=0.5)),
    ],
)
def test_configurations_make_equal_ones(make: Callable[[], Any]) -> None:
    opt = make()
    config = optimizers.serialize(opt)
    again = optimizers.deserialize(copy.deepcopy(config))
    assert type(again) is type(opt)
    assert optimizers.serialize(again) == config


def test_dtypes_and_stages_are_checked() -> None:
    with pytest.raises(ValueError, match="`m_dtype` must be float16 or float32"):
        AdamIpuOptimizer(m_dtype="int32")
    with pytest.raises(ValueError, match="`momentum_accum_dtype`"):
        SGDIpuOptimizer(momentum_accum_dtype="floaty")
    with pytest.raises(ValueError, match=r"of LAMBIpuOptimizer must be a tuple of 2"):
        LAMBIpuOptimizer(optimizer_compute_precisions=(tf.float32,))
    with pytest.raises(ValueError, match="optimizer_compute_precisions"):
        SGDIpuOptimizer(optimizer_compute_precisions=tf.float32)
    with pytest.raises(ValueError, match=r"`beta_1` must be in \[0, 1\)"):
        LAMBIpuOptimizer(beta_1=1.0)


def test_a_float16_model_trains_with_state_in_float32() -> None:
    from ipu.ipu_strategy import IPUStrategy

    rng = np.random.default_rng(0)
    x = rng.normal(size=(256, 6)).astype(np.float16)
    y = (x.astype(np.float32).sum(1, keepdims=True) * 0.5).astype(np.float16)
    with IPUStrategy().scope():
        model = keras.Sequential(
            [keras.layers.Dense(1, input_shape=(6,), dtype="float16")]
        )
        opt = AdamIpuOptimizer(0.02, m_dtype=tf.float32, v_dtype=tf.float32)
        model.compile(opt, "mse", steps_per_execution=8)
        history = model.fit(x, y, batch_size=32, epochs=20, verbose=0).history
    assert history["loss"][-1] < 0.05 * history["loss"][0]
    kernel = model.trainable_weights[0]
    assert kernel.dtype == tf.float16
    assert opt.get_slot(kernel, "v").dtype == tf.float32


# --- wrappers -------------------------------------------------------------------------


def in_loop(
    opt: Any, trips: int, dtype: str = "float32", gradients: Any = None
) -> Array:
    """A variable, first 0, after turns whose gradients are these, or 1, 2, 3, ..."""
    v = tf.Variable(np.zeros((), dtype))
    given = np.arange(1.0, 1.0 + trips) if gradients is None else np.array(gradients)
    rows = tf.constant(given.astype(dtype))

    def body(i: Any) -> Any:
        opt.apply_gradients([(rows[i], v)])
        return i + 1

    compiled(lambda: loops.repeat(trips, body, [tf.constant(0)]))()
    return np.asarray(v.numpy())


@pytest.mark.parametrize(
    ("method", "expected"), [("SUM", -36.0), ("mean", -9.0), ("RUNNING_MEAN", -9.0)]
)
def test_accumulation(method: str, expected: float) -> None:
    opt = GradientAccumulationOptimizer(SGD(1.0), 4, reduction_method=method)
    np.testing.assert_allclose(in_loop(opt, 8), expected, rtol=1e-5)
    assert int(opt.iterations) == 2
    member = GradientAccumulationReductionMethod[method.upper()]
    opt = GradientAccumulationOptimizer(SGD(1.0), 4, reduction_method=member)
    np.testing.assert_allclose(in_loop(opt, 8), expected, rtol=1e-5)


def test_the_accumulators_dtype_reaches_the_wrapped_optimizer() -> None:
    seen = []

    def look(gradient: Any, variable: Any) -> Any:
        seen.append(gradient.dtype.name)
        return tf.cast(gradient, variable.dtype)

    for dtype, kind in (
        (None, "float16"),
        (tf.float32, "float32"),
        (lambda v: "float32", "float32"),
    ):
        opt = GradientAccumulationOptimizer(
            MapGradientOptimizer(SGD(1.0), look), 4, dtype=dtype
        )
        assert in_loop(opt, 4, "float16") == -10.0
        assert seen.pop() == kind
    # 2048 + 1 is 2048 in float16, and the sum of many ones is lost
    for dtype, expected in ((None, 2048.0), ("float32", 2052.0)):
        inner = MapGradientOptimizer(SGD(1.0), look)
        opt = GradientAccumulationOptimizer(inner, 5, dtype=dtype)
        assert in_loop(opt, 5, "float16", [2048.0, 1.0, 1.0, 1.0, 1.0]) == -expected


def test_one_mini_batch_is_the_optimizer_itself() -> None:
    inner = SGD(0.1)
    assert GradientAccumulationOptimizer(inner, 1) is inner
    als = ALSOptimizer(inner)
    assert ALSGradientAccumulationOptimizer(als, 1) is als
    several = GradientAccumulationOptimizer(inner, 2)
    assert GradientAccumulationOptimizer(several, 1) is several
    assert several._num_mini_batches == 2


def test_accumulation_has_to_be_in_a_loop_of_turns() -> None:
    v = tf.Variable(0.0)
    opt = GradientAccumulationOptimizer(SGD(1.0), 4)
    one = tf.constant(1.0)
    with pytest.raises(
        errors.FailedPreconditionError, match="not inside a training loop"
    ):
        opt.apply_gradients([(one, v)])
    with pytest.raises(
        errors.FailedPreconditionError, match="not inside a training loop"
    ):
        compiled(lambda: opt.apply_gradients([(one * 1.0, v)]))()
    with pytest.raises(errors.FailedPreconditionError, match="evenly divides"):
        in_loop(opt, 6)
    for wrong in (0, -1, 2.0, True, "4"):
        with pytest.raises(ValueError, match="must be a positive number"):
            GradientAccumulationOptimizer(SGD(1.0), wrong)
    with pytest.raises(ValueError, match="Cannot parse"):
        GradientAccumulationOptimizer(SGD(1.0), 2, reduction_method="median")
    with pytest.raises(TypeError, match=r"wraps one of keras\.optimizers"):
        GradientAccumulationOptimizer("sgd", 2)
    with pytest.raises(ValueError, match="instances of ALSOptimizer"):
        ALSGradientAccumulationOptimizer(SGD(0.1), 2)


def test_fit_accumulates_as_its_option_does() -> None:
    from ipu.ipu_strategy import IPUStrategy

    x = np.random.default_rng(0).normal(size=(64, 5)).astype(np.float32)

    def trained(wraps: bool) -> list[Array]:
        keras.utils.set_random_seed(1)
        with IPUStrategy().scope():
            model = keras.Sequential([keras.layers.Dense(5, input_shape=(5,))])
            opt = SGD(0.01, momentum=0.9)
            if wraps:
                opt = GradientAccumulationOptimizer(opt, 4)
            else:
                model.set_gradient_accumulation_options(4)
            model.compile(opt, "mse", steps_per_execution=8)
            model.fit(x, x, batch_size=8, epochs=2, shuffle=False, verbose=0)
            return [np.asarray(w) for w in model.get_weights()]

    for one, other in zip(trained(False), trained(True), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_mean_over_replicas_and_their_sum() -> None:
    def change(make: Callable[[], Any], turns: int = 2) -> float:
        attach(2)
        queue = IPUInfeedQueue(
            tf.data.Dataset.from_tensor_slices(np.arange(1.0, 9.0, dtype=np.float32))
        )
        _ = queue.initializer
        v, opt = tf.Variable(0.0), make()

        def body(g: Any) -> None:
            opt.apply_gradients([(g, v)])

        compiled(lambda: loops.repeat(turns, body, [], queue))()
        return -float(v)

    assert change(lambda: SGD(1.0)) == 10.0  # 1 + 2, 3 + 4
    assert change(lambda: CrossReplicaOptimizer(SGD(1.0))) == 5.0
    assert change(lambda: IpuOptimizer(SGD(1.0))) == 10.0
    assert change(lambda: GradientAccumulationOptimizer(SGD(1.0), 2)) == 10.0
    assert (
        change(
            lambda: GradientAccumulationOptimizer(CrossReplicaOptimizer(SGD(1.0)), 2)
        )
        == 5.0
    )


def test_functions_of_gradients() -> None:
    a, b, c = (tf.Variable(x) for x in (1.0, 2.0, 3.0))
    seen = []
    opt = MapGradientOptimizer(SGD(1.0), lambda g, v: g + 0.01 * v)
    with tf.GradientTape() as tape:
        loss = a * b + a * c + b * c
    before = [float(v) for v in (a, b, c)]
    opt.minimize(loss, [a, b, c], tape=tape)
    seen = [x - float(v) for x, v in zip(before, (a, b, c), strict=True)]
    np.testing.assert_allclose(seen, [5.01, 4.02, 3.03], rtol=1e-5)
    with pytest.raises(NotImplementedError, match="not plain data"):
        opt.get_config()


def test_automatic_loss_scaling_sees_what_is_accumulated() -> None:
    als = ALSOptimizer(SGD(1.0), initial_loss_scaling_factor=4, update_frequency=2)
    opt = ALSGradientAccumulationOptimizer(als, 4)
    v = tf.Variable(np.zeros(3, np.float16))

    def body() -> None:
        opt.minimize(
            lambda: tf.reduce_sum(v * tf.constant([1.0, 2.0, 3.0], tf.float16)), [v]
        )

    compiled(lambda: loops.repeat(4, body, []))()
    np.testing.assert_array_equal(v.numpy(), [-4.0, -8.0, -12.0])  # unscaled
    np.testing.assert_array_equal(als.histogram.numpy(), [3.0, 0.0])  # once an update
    assert int(opt.iterations) == 1
    assert int(als.update_counter) == 1
    compiled(lambda: loops.repeat(8, body, []))()
    assert float(als.loss_scaling_factor) == 8.0
    assert opt.als_optimizer is als and float(opt.loss_scaling_factor) == 8.0
    assert (opt.update_frequency, opt.decrease_factor) == (2, 0.5)
    with pytest.raises(AttributeError, match=r"als_optimizer\.update_frequency = 3"):
        opt.update_frequency = 3
    als.lpf_alpha = 0.0  # as it was
    assert float(opt.loss_scaling_factor) == 8.0
    als.lpf_alpha = 0.5
    assert float(opt.loss_scaling_factor) == 4.0
    assert not hasattr(opt, "no_such_name")


def test_captured_gradients_are_accumulated_and_counted() -> None:
    als = ALSOptimizer(
        SGD(1.0), captured_grads_only=True, histogram_bin_edge=8, update_frequency=4
    )
    opt = ALSGradientAccumulationOptimizer(als, 4)
    v = tf.Variable(0.0)

    def body(g: Any) -> Any:
        captured = {"a": [tf.cast(g, tf.float16) * 3.0, tf.cast(g, tf.float16)]}
        opt.apply_gradients([(g, v)], captured_grads=captured)
        return g

    compiled(lambda: loops.repeat(4, body, [tf.constant(1.0)]))()
    np.testing.assert_array_equal(als.histogram.numpy(), [1.0, 1.0])  # 12 and 4
