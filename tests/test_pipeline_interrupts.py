# SPDX-License-Identifier: MIT
"""Pipelines that stop half way: Ctrl-C, and data that end or fail. All IPUs stop at the
same step boundary, no weight is half updated, and the next run works."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu.ops.pipelining_ops import OptimizerFunctionOutput, PipelineSchedule, pipeline
from ipu.tf._functions.function import DeviceFunction

COUNT = 4  # micro-batches of an update
SCHEDULES = [
    PipelineSchedule.Grouped,
    PipelineSchedule.Sequential,
    PipelineSchedule.OneForwardOneBackward,
    PipelineSchedule.ZeroBubble,
]


pytestmark = pytest.mark.usefixtures("two_ipus")


class Counting:
    """Two stages that count their micro-batches; a weight that each update moves by one
    for each micro-batch."""

    def __init__(self, data: Any, schedule: PipelineSchedule) -> None:
        self.seen = [tf.Variable(0), tf.Variable(0)]
        self.weight = tf.Variable(0.0)
        self.infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
        self.outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        self.schedule = schedule
        assert self.infeed.initializer is None

    def run(self, updates: int) -> None:
        def first(x: Any) -> Any:
            self.seen[0].assign_add(1)
            return tf.reduce_mean(x)

        def second(x: Any) -> Any:
            self.seen[1].assign_add(1)
            return -x * self.weight

        def optimize(loss: Any) -> OptimizerFunctionOutput:
            sgd = keras.optimizers.SGD(1.0)
            return OptimizerFunctionOutput(sgd, loss, variables=[self.weight])

        def step() -> None:
            pipeline(
                [first, second],
                gradient_accumulation_count=COUNT,
                repeat_count=updates,
                infeed_queue=self.infeed,
                outfeed_queue=self.outfeed,
                optimizer_function=optimize,
                pipeline_schedule=self.schedule,
                reduction_method="sum",
            )

        DeviceFunction(step)()

    def counts(self) -> tuple[int, int, float]:
        return int(self.seen[0]), int(self.seen[1]), float(self.weight)


def ones(count: int) -> Any:
    return tf.data.Dataset.from_tensors(np.ones(2, np.float32)).repeat(count)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_ctrl_c_stops_all_ipus_at_the_same_update(schedule: PipelineSchedule) -> None:
    model = Counting(ones(-1), schedule)
    model.run(1)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.run(2_000_000)
    timer.join()
    seen = model.counts()
    assert seen[0] > COUNT and seen[0] % COUNT == 0
    assert seen == (seen[0], seen[0], float(seen[0]))
    model.run(3)
    after = seen[0] + 3 * COUNT
    assert model.counts() == (after, after, float(after))


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_in_a_step_whose_data_are_on_their_way() -> None:
    def numbers() -> Iterator[np.ndarray]:
        for i in range(1000 * COUNT):
            if i == 500 * COUNT + 2:  # the queue is not as long: a run is under way
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.1)
            yield np.ones(2, np.float32)

    data = tf.data.Dataset.from_generator(
        numbers, output_signature=tf.TensorSpec((2,), tf.float32)
    )
    model = Counting(data, PipelineSchedule.Grouped)
    with pytest.raises(KeyboardInterrupt):
        model.run(1000)
    seen = model.counts()
    assert seen[0] > COUNT and seen[0] % COUNT == 0
    assert seen == (seen[0], seen[0], float(seen[0]))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("fails", [False, True])
def test_data_that_stop_in_the_middle_of_a_pipeline(
    schedule: PipelineSchedule, fails: bool
) -> None:
    broken = [True]

    def numbers() -> Iterator[np.ndarray]:
        for _ in range(2 * COUNT + 3):
            yield np.ones(2, np.float32)
        if broken[0] and fails:
            raise ValueError("no more numbers")

    data = tf.data.Dataset.from_generator(
        numbers, output_signature=tf.TensorSpec((2,), tf.float32)
    )
    model = Counting(data, schedule)
    error = "no more numbers" if fails else "11 elements"
    with pytest.raises(Exception, match=error):
        model.run(5)
    first, second, weight = model.counts()
    assert weight == 2 * COUNT  # two whole updates
    assert 2 * COUNT <= second <= first <= 2 * COUNT + 3
    broken[0] = False
    assert model.infeed.deleter is None
    assert model.infeed.initializer is None
    model.run(2)
    assert model.counts() == (first + 2 * COUNT, second + 2 * COUNT, 4.0 * COUNT)
