# SPDX-License-Identifier: MIT
"""Optimizers that wrap others: accumulation in a loop, and functions of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

from ipu import keras, loops, optimizers, tf
from ipu.gradient_accumulation import GradientAccumulationReductionMethod
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.tf import errors
from ipu.tf._functions.function import trace_program

SGD = keras.optimizers.SGD


pytestmark = pytest.mark.usefixtures("one_ipu")


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return tf.function(function, jit_compile=True)


class Seen(optimizers.IpuOptimizer):
    """Hands what it is given to apply to an outfeed."""

    def __init__(self, opt: Any, queue: IPUOutfeedQueue) -> None:
        super().__init__(opt)
        self.queue = queue

    def _apply(self, pairs: Any, global_step: Any) -> Any:
        self.queue.enqueue([gradient for gradient, _ in pairs])
        return super()._apply(pairs, global_step)


GRADIENTS = np.array([1.0, 2.0, 3.0, 6.0], np.float32)


def accumulated(times: int = 1, count: int = 4, **options: Any) -> list[Any]:
    """What the wrapped optimizer gets for the gradients 1, 2, 3, 6, again and again."""
    out = IPUOutfeedQueue()
    v = tf.Variable(0.0)
    given = tf.constant(np.tile(GRADIENTS, times))
    opt = optimizers.GradientAccumulationOptimizerV2(
        Seen(SGD(0.0), out), count, **options
    )

    def body(i: Any) -> Any:
        opt.apply_gradients([(given[i], v)])
        return i + 1

    compiled(lambda: loops.repeat(4 * times, body, [tf.constant(0)]))()
    return [np.asarray(a).tolist() for a in out.dequeue()]


def test_four_gradients_become_one() -> None:
    assert accumulated() == [[12]]
    assert accumulated(reduction_method="MEAN") == [[3]]
    method = GradientAccumulationReductionMethod.RUNNING_MEAN
    assert accumulated(reduction_method=method) == [[3]]
    assert accumulated(3) == [[12, 12, 12]]  # from zero on each time
    assert accumulated(2, count=2) == [[3, 9, 3, 9]]
    assert accumulated(count=1) == [[1, 2, 3, 6]]


def test_accumulators_have_a_dtype_of_their_own() -> None:
    v = tf.Variable(np.float16(0.0))

    class Cast(optimizers.IpuOptimizer):
        def _apply(self, pairs: Any, global_step: Any) -> Any:
            assert [g.dtype for g, _ in pairs] == [tf.float32]
            cast = [(tf.cast(g, v.dtype), v) for g, v in pairs]
            return super()._apply(cast, global_step)

    opt = optimizers.GradientAccumulationOptimizerV2(
        Cast(SGD(1.0)), 2, dtype=lambda variable: tf.float32
    )

    def body() -> None:
        opt.minimize(-3.0 * tf.cast(v, tf.float32), var_list=[v])

    compiled(lambda: loops.repeat(4, body, []))()
    assert float(v) == 12.0


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(
    "kind",
    [
        optimizers.GradientAccumulationOptimizer,
        optimizers.GradientAccumulationOptimizerV2,
        optimizers.CrossReplicaGradientAccumulationOptimizer,
        optimizers.CrossReplicaGradientAccumulationOptimizerV2,
    ],
)
def test_the_update_runs_once_for_all_its_turns(kind: Any, momentum: float) -> None:
    """With the bits of gradients that were summed up by hand."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 8, 5)).astype("f4")
    start = rng.normal(size=(5, 3)).astype("f4")
    v = tf.Variable(start)
    steps = tf.Variable(0)
    opt = kind(SGD(0.1, momentum=momentum), 3)
    data = tf.constant(x)

    def loss(weights: Any, batch: Any) -> Any:
        return tf.reduce_sum(tf.tanh(batch @ weights) ** 2)

    def body(i: Any) -> Any:
        opt.minimize(loss(v, data[i]), global_step=steps, var_list=[v])
        return i + 1

    turns = compiled(lambda: loops.repeat(12, body, [tf.constant(0)]))
    assert int(turns()) == 12 and int(steps) == 4

    w = tf.Variable(start)
    plain = SGD(0.1, momentum=momentum)

    @compiled
    def update(batches: Any) -> None:
        total = tf.zeros(start.shape)
        for k in range(3):
            total = total + tf.gradients(loss(w, batches[k]), [w])[0]
        plain.apply_gradients([(total, w)])

    for k in range(0, 12, 3):
        update(x[k : k + 3])
    np.testing.assert_array_equal(v.numpy(), w.numpy(), strict=True)


def test_a_loop_of_autograph_accumulates_too() -> None:
    v = tf.Variable(0.0)
    opt = optimizers.GradientAccumulationOptimizerV2(SGD(1.0), 4)

    @compiled
    def train() -> Any:
        x = tf.constant(1.0)
        for _ in tf.range(8):
            opt.minimize(-x * v * v, var_list=[v])
            x = x + 1.0
        return x

    v.assign(1.0)
    assert float(train()) == 9.0
    # 2 (1 + 2 + 3 + 4) with v = 1, then 2 (5 + 6 + 7 + 8) with v = 21
    assert float(v) == 21 + 52 * 21


def test_a_product_goes_into_its_accumulator() -> None:
    v = tf.Variable(np.ones((5, 3), "f4"))
    opt = optimizers.GradientAccumulationOptimizerV2(SGD(0.1), 2)

    def body(x: Any) -> Any:
        opt.minimize(tf.reduce_sum((x @ v) ** 2), var_list=[v])
        return x

    spec = tf.TensorSpec((8, 5))
    traced = trace_program(lambda x: loops.repeat(4, body, [x]), [spec])
    assert "matmul_accumulate." in traced.program.text


def test_one_ipu_has_nothing_to_average() -> None:
    """The update is joined with the product that it takes, as without the wrapper."""
    v = tf.Variable(np.ones((5, 3), "f4"))
    opt = optimizers.CrossReplicaOptimizer(SGD(0.1))
    for ipus, is_joined in ((1, True), (2, False)):
        attach(ipus)
        traced = trace_program(
            lambda x: opt.minimize(tf.reduce_sum((x @ v) ** 2), var_list=[v]),
            [tf.TensorSpec((8, 5))],
        )
        assert ("matmul_sgd_update." in traced.program.text) == is_joined
        assert ("all_reduce." in traced.program.text) != is_joined


# --- what is refused ------------------------------------------------------------------


def apply_in(trips: Any, count: int, kind: Any = None, opt: Any = None) -> Any:
    v = tf.Variable(0.0)
    kind = kind or optimizers.GradientAccumulationOptimizerV2
    wrapped = kind(opt or SGD(0.1), count)

    def body() -> None:
        wrapped.apply_gradients([(tf.constant(1.0), v)])

    return compiled(lambda: loops.repeat(trips, body, []))()


def test_counts_that_do_not_fit() -> None:
    for kind in (
        optimizers.GradientAccumulationOptimizer,
        optimizers.GradientAccumulationOptimizerV2,
        optimizers.CrossReplicaGradientAccumulationOptimizer,
        optimizers.CrossReplicaGradientAccumulationOptimizerV2,
    ):
        for bad in (0, -1, 1.5, True):
            with pytest.raises(ValueError, match="num_mini_batches must be a positive"):
                kind(SGD(0.1), bad)
        match = "Detected a gradient accumulation operation with 4 number of"
        with pytest.raises(errors.FailedPreconditionError, match=match):
            apply_in(10, 4, kind)
    apply_in(8, 4)
    apply_in(0, 4)


def test_accumulation_needs_a_loop_of_known_length() -> None:
    v = tf.Variable(1.0)
    opt = optimizers.GradientAccumulationOptimizerV2(SGD(0.1), 2)
    failed = errors.FailedPreconditionError

    def apply() -> None:
        opt.apply_gradients([(v * 1.0, v)])

    with pytest.raises(failed, match="which is not inside a training loop"):
        compiled(apply)()
    with pytest.raises(failed, match="not known when the program is compiled"):
        compiled(lambda n: loops.repeat(n, apply, []))(tf.constant(4))

    def branch() -> None:
        tf.cond(v > 0.0, lambda: opt.apply_gradients([(v * 1.0, v)]), lambda: None)

    with pytest.raises(failed, match="which is not inside a training loop"):
        compiled(lambda: loops.repeat(4, branch, []))()

    def loop(i: Any) -> Any:
        apply()
        return i + 1

    with pytest.raises(failed, match="which is not inside a training loop"):
        compiled(lambda: loops.while_loop(lambda i: i < 4, loop, [0]))()
    assert float(v) == 1.0


def test_a_loop_has_one_update() -> None:
    v = tf.Variable(1.0)
    opt = optimizers.GradientAccumulationOptimizerV2(SGD(0.1), 2)

    def body() -> None:
        opt.apply_gradients([(v * 1.0, v)])
        opt.apply_gradients([(v * 2.0, v)])

    with pytest.raises(errors.FailedPreconditionError, match="only one resource"):
        compiled(lambda: loops.repeat(4, body, []))()


def test_the_first_form_is_for_gradient_descent() -> None:
    first = optimizers.GradientAccumulationOptimizer
    with pytest.raises(errors.FailedPreconditionError, match="OptimizerV2"):
        apply_in(4, 2, first, keras.optimizers.Adam())
    apply_in(
        4, 2, lambda o, n: first(o, n, verify_usage=False), keras.optimizers.Adam()
    )
    attach(2)
    momentum = SGD(0.1, momentum=0.9)
    with pytest.raises(errors.FailedPreconditionError, match="CrossReplicaGradient"):
        apply_in(4, 2, first, momentum)
    apply_in(4, 2, first)
    apply_in(4, 2, optimizers.CrossReplicaGradientAccumulationOptimizer, momentum)


# --- the others -----------------------------------------------------------------------


def test_mapped_gradients() -> None:
    """Variables 1, 2, 3 and ab + ac + bc have gradients 5, 4, 3."""
    variables = [tf.Variable(float(k)) for k in (1, 2, 3)]
    decay = optimizers.MapGradientOptimizer(SGD(1.0), lambda g, v: g + 0.01 * v)

    def loss() -> Any:
        a, b, c = variables
        return a * b + a * c + b * c

    def gradients(opt: Any) -> list[float]:
        run = compiled(lambda: [g for g, _ in opt.compute_gradients(loss(), variables)])
        return [round(float(g), 4) for g in run()]

    assert gradients(decay) == [5.01, 4.02, 3.03]
    assert gradients(optimizers.ShardedOptimizer(SGD(1.0))) == [5, 4, 3]
    inverted = optimizers.map_gradient_optimizer._MapGradientOptimizerInvertedChaining
    late = inverted(SGD(1.0), lambda g, v: 0.5 * g)
    assert gradients(late) == [5, 4, 3]
    compiled(lambda: late.minimize(loss(), var_list=variables))()
    assert [float(v) for v in variables] == [1 - 2.5, 2 - 2, 3 - 1.5]


def test_wrappers_hand_on_what_they_do_not_change() -> None:
    inner = SGD(0.5, momentum=0.5)
    opt = optimizers.CrossReplicaOptimizer(inner)
    assert opt.name == opt.get_name() == "CrossReplicaOptimizer"
    v = tf.Variable(2.0)
    compiled(lambda: opt.minimize(v * 3.0, var_list=[v]))()
    assert float(v) == 0.5
    assert float(opt.get_slot(v, "momentum")) == -1.5
    assert opt.get_slot_names() == inner.get_slot_names()
    assert len(opt.variables()) == len(
        inner.variables() if callable(inner.variables) else inner.variables
    )
    with pytest.raises(TypeError, match="wraps an optimizer"):
        optimizers.CrossReplicaOptimizer(0.5)
    with pytest.raises(ValueError, match="`var_list` must be given"):
        compiled(lambda: opt.minimize(v * 3.0))()
