# SPDX-License-Identifier: MIT
"""Queues in programs, and the number of a micro-batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import ipu_compiler, loops, pipelining_ops, scopes, tf
from ipu.config import IPUConfig, reset_ipu_configuration
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.ipu_strategy import IPUStrategy
from ipu.keras.optimizers import SGD
from ipu.ops import internal_ops, replication_ops
from ipu.ops.pipelining_ops import OptimizerFunctionOutput, PipelineSchedule
from ipu.tf.compat import v1


def compiled(function: Any) -> Any:
    return tf.function(function, jit_compile=True)


@pytest.mark.parametrize("depth", [-1, 0])
def test_a_queue_of_nothing_is_the_value(depth: int) -> None:
    assert float(internal_ops.fifo(3.0, depth)) == 3.0


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bool"])
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_a_queue_lasts_from_run_to_run(dtype: str, shape: tuple[int, ...]) -> None:
    late = compiled(lambda x: internal_ops.fifo(x, 3, offload=True))
    for turn in range(10):
        x = np.full(shape, turn, dtype)
        found = late(tf.constant(x)).numpy()
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, np.full(shape, max(turn - 3, 0), dtype))


@pytest.mark.parametrize(("turns", "wanted"), [(3, 0.0), (6, 1.0)])
def test_a_queue_in_a_loop_of_a_session(turns: int, wanted: float) -> None:
    """As fifo_test.py of the port has it."""
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(np.float32, [2])

        def net(x: Any) -> Any:
            return loops.repeat(turns, lambda y: internal_ops.fifo(y, 5), [x])

        with scopes.ipu_scope("/device:IPU:0"):
            run = ipu_compiler.compile(net, [x])
        session.run(v1.global_variables_initializer())
        assert np.ravel(session.run(run, {x: np.ones(2)})).tolist() == [wanted] * 2
        assert v1.global_variables() == []


def test_queues_are_separate() -> None:
    def step(x: Any) -> Any:
        return internal_ops.fifo(x, 1), internal_ops.fifo(internal_ops.fifo(x, 1), 2)

    late = compiled(step)
    found = [[float(v) for v in late(tf.constant(float(i)))] for i in range(1, 6)]
    assert found == [[0, 0], [1, 0], [2, 0], [3, 1], [4, 2]]


def test_replicas_have_queues_of_their_own() -> None:
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    out = IPUOutfeedQueue()

    def body(x: Any) -> Any:
        index = tf.cast(replication_ops.replication_index(), "float32")
        out.enqueue(internal_ops.fifo(x + 10 * index, 2))
        return x + 1.0

    try:
        IPUStrategy().run(compiled(lambda: loops.repeat(4, body, [1.0])))
        assert out.dequeue().numpy().tolist() == [[0, 0], [0, 0], [1, 11], [2, 12]]
    finally:
        reset_ipu_configuration()


def test_a_queue_needs_a_program() -> None:
    with pytest.raises(RuntimeError, match="compiled for the device"):
        internal_ops.fifo(1.0, 2)


@pytest.mark.parametrize("schedule", list(PipelineSchedule))
def test_each_stage_counts_micro_batches(schedule: PipelineSchedule) -> None:
    """As execution_counter_test.py of the port has it, and in a loop in a stage."""
    out = IPUOutfeedQueue()
    count = internal_ops.get_current_iteration_counter

    def first() -> Any:
        return loops.repeat(2, lambda x: x + count(), [tf.constant(0)])

    def second(x: Any) -> Any:
        return x, count() + 0

    def run() -> None:
        pipelining_ops.pipeline(
            [first, second],
            6,
            repeat_count=2,
            device_mapping=[0, 0],
            outfeed_queue=out,
            pipeline_schedule=schedule,
        )

    IPUStrategy().run(compiled(run))
    doubled, plain = (x.numpy().tolist() for x in out.dequeue())
    assert plain == list(range(6)) * 2
    assert doubled == [1] * 12  # 0 and 1: the loop is the innermost one that turns


def test_micro_batches_of_training_are_counted() -> None:
    """The gradient of micro-batch i is i: their sum is 6."""
    weight = tf.Variable(0.0)
    out = IPUOutfeedQueue()

    def last(x: Any) -> Any:
        index = internal_ops.get_current_iteration_counter()
        return tf.cast(index, "float32") * weight * x

    def run() -> None:
        pipelining_ops.pipeline(
            [lambda: tf.constant(1.0), last],
            4,
            repeat_count=2,
            device_mapping=[0, 0],
            outfeed_queue=out,
            optimizer_function=lambda loss: OptimizerFunctionOutput(
                SGD(1.0), loss, variables=[weight]
            ),
            reduction_method="SUM",
        )

    IPUStrategy().run(compiled(run))
    assert float(weight) == -12.0


def test_a_count_needs_micro_batches() -> None:
    with pytest.raises(RuntimeError, match="in a stage, or in the body of a loop"):
        internal_ops.get_current_iteration_counter()
    with pytest.raises(RuntimeError, match="in a stage, or in the body of a loop"):
        compiled(internal_ops.get_current_iteration_counter)()
