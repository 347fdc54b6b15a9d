# SPDX-License-Identifier: MIT
"""What ``pipelining_ops.pipeline`` refuses, and runs of pipelines that end early."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from small_pipelines import TWO, fails, numbers, run, trained

from ipu import keras, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu.ops.pipelining_ops import (
    OptimizerFunctionOutput,
    PipelineSchedule,
    PipelineStageOptions,
    pipeline,
)
from ipu.optimizers import GradientAccumulationOptimizerV2
from ipu.tf import errors

pytestmark = pytest.mark.usefixtures("two_ipus")


# --- what is refused ------------------------------------------------------------------


def _train(**options: Any) -> dict[str, Any]:
    stages, optimize = trained(tf.Variable(0.0))
    return {"stages": stages, "optimizer_function": optimize, **options}


BAD: dict[str, tuple[type[BaseException], str, dict[str, Any]]] = {
    "stages of another type": (TypeError, "list or a tuple", {"stages": TWO[0]}),
    "one stage": (ValueError, "Pipeline requires at least two", {"stages": TWO[:1]}),
    "a stage that is none": (TypeError, "must be a function", {"stages": [TWO[0], 3]}),
    "no count": (
        ValueError,
        "gradient_accumulation_count must be specified",
        {"count": None},
    ),
    "a negative count": (ValueError, "positive integer below", {"count": -4}),
    "a huge count": (ValueError, "positive integer below", {"count": 2**31}),
    "half a count": (ValueError, "positive integer below", {"count": 2.5}),
    "a count that the schedule cannot run": (
        errors.FailedPreconditionError,
        "The number of iterations of the pipeline must be a multiple of 2",
        {"count": 3},
    ),
    "a mapping of another type": (
        TypeError,
        "device_mapping argument needs to be a list or a tuple",
        {"device_mapping": 1},
    ),
    "a short mapping": (
        ValueError,
        "Each stage must be mapped to an IPU: 1 mappings != 2 stages",
        {"device_mapping": [0]},
    ),
    "a mapping to no IPU": (ValueError, "from 0 on", {"device_mapping": [0, -1]}),
    "more IPUs than there are": (
        errors.InternalError,
        "uses .* IPUs",
        {"device_mapping": [0, 7]},
    ),
    "an infeed of another type": (
        TypeError,
        "infeed_queue is not an instance of IPUInfeedQueue",
        {"infeed_queue": [1.0]},
    ),
    "an optimizer function that is none": (
        TypeError,
        "optimizer_function must be callable",
        {"optimizer_function": 1},
    ),
    "a result that is not an output": (
        TypeError,
        "must return an OptimizerFunctionOutput",
        {"optimizer_function": lambda x: x},
    ),
    "a schedule of another type": (
        TypeError,
        "a pipeline schedule is a PipelineSchedule, its name or a Timetable, but got 3",
        {"pipeline_schedule": 3},
    ),
    "a recomputation mode of another type": (
        TypeError,
        "recomputation_mode must be of type RecomputationMode",
        {"recomputation_mode": True},
    ),
    "stage options of another type": (
        TypeError,
        "forward_propagation_stages_poplar_options must be a list or a tuple",
        {"forward_propagation_stages_poplar_options": 3},
    ),
    "too few stage options": (
        ValueError,
        "forward_propagation_stages_poplar_options must be a list or a tuple",
        {"forward_propagation_stages_poplar_options": [PipelineStageOptions()]},
    ),
    "options of a stage that are none": (
        TypeError,
        "to be of type PipelineStageOptions",
        {"backward_propagation_stages_poplar_options": [1, 2]},
    ),
    "options of the update that are none": (
        TypeError,
        "to be of type PipelineStageOptions",
        {"weight_update_poplar_options": {}},
    ),
    "tensors without an outfeed": (
        ValueError,
        "The last computational stage has tensor outputs: .*no outfeed_queue has been",
        {"outfeed_queue": False},
    ),
    "the loss of no optimizer": (
        ValueError,
        "An optimizer_function must be provided",
        {"outfeed_loss": True},
    ),
    "the mask of no optimizer": (
        ValueError,
        "An optimizer_function must be provided",
        {"outfeed_mask": [True]},
    ),
    "sums of the newest element": (
        ValueError,
        "To accumulate the outfeed, it must be in IPUOutfeedMode ALL",
        {
            "accumulate_outfeed": True,
            "outfeed_queue": IPUOutfeedQueue(IPUOutfeedMode.LAST),
        },
    ),
    "updates all the time": (
        NotImplementedError,
        "continuous_weight_updates",
        {"continuous_weight_updates": True},
    ),
    "serialized batches with another schedule": (
        NotImplementedError,
        "only supported with the Sequential",
        {
            "batch_serialization_iterations": 2,
            "pipeline_schedule": PipelineSchedule.Grouped,
        },
    ),
    "serialized batches on two IPUs": (
        NotImplementedError,
        "all stages must be mapped to one IPU",
        {"batch_serialization_iterations": 2, "device_mapping": [0, 1]},
    ),
    "state that is shared out and stays": (
        ValueError,
        "optimizer state must be offloaded",
        {
            "replicated_optimizer_state_sharding": True,
            "offload_weight_update_variables": False,
        },
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name: str) -> None:
    kind, text, options = BAD[name]
    fails(kind, text, **{"stages": TWO, **options})


BAD_TRAINING: dict[str, tuple[type[BaseException], str, dict[str, Any]]] = {
    "loss and mask": (
        ValueError,
        "Only one of `outfeed_loss` and `outfeed_mask` can be set",
        {"outfeed_loss": True, "outfeed_mask": [True, False]},
    ),
    "a mask of another length": (
        ValueError,
        "has 2 outputs, but outfeed_mask has 1",
        {"outfeed_mask": [True]},
    ),
    "a method that is none": (
        ValueError,
        "Cannot parse None as one of GradientAccumulationReductionMethod",
        {"reduction_method": None},
    ),
    "the mean of serialized batches": (
        ValueError,
        "must be SUM",
        {"reduction_method": "mean", "batch_serialization_iterations": 2},
    ),
    "too small a count": (
        errors.FailedPreconditionError,
        "The number of iterations of the pipeline must be a multiple of 4",
        {"count": 2},
    ),
    "Interleaved on one IPU": (
        NotImplementedError,
        "The pipelining schedule 'Interleaved'",
        {
            "device_mapping": [0, 0],
            "pipeline_schedule": PipelineSchedule.Interleaved,
        },
    ),
}


@pytest.mark.parametrize("name", BAD_TRAINING)
def test_bad_arguments_of_training(name: str) -> None:
    kind, text, options = BAD_TRAINING[name]
    fails(kind, text, **_train(**options))


def test_outside_of_a_function() -> None:
    with pytest.raises(RuntimeError, match="builds a device program"):
        pipeline(TWO, 4)


def test_a_stage_captures_a_tensor() -> None:
    @tf.function(jit_compile=True)
    def program(outside: Any) -> Any:
        return pipeline(
            [lambda: outside * 2.0, lambda x: x],
            2,
            outfeed_queue=IPUOutfeedQueue(),
        )

    with pytest.raises(
        ValueError, match=r"Trying to capture the tensor \(an argument, float32"
    ):
        program(tf.constant(1.0))


def test_a_variable_of_two_ipus() -> None:
    v = tf.Variable(3.0, name="shared")
    with pytest.raises(
        errors.UnimplementedError,
        match=r"'shared.*an input can only be used by pipeline stages on the same IPU",
    ):
        run([lambda x: x * v, lambda x: x + v])


def test_a_stage_that_does_not_take_what_it_is_called_with() -> None:
    with pytest.raises(
        TypeError,
        match=r"Stage 1 of .* what stage 0 returned, \(float32\[\], float32\[\]\), but "
        r"it takes \(x\): too many positional arguments",
    ):
        run([lambda x: (x, x), lambda x: x])
    with pytest.raises(TypeError, match=r"Stage 0 .* with `inputs` and the infeed's"):
        run([lambda x, y: x, lambda x: x])
    data = tf.data.Dataset.from_tensors({"a": 1.0, "b": 2.0}).repeat()
    queue = IPUInfeedQueue(data)
    with pytest.raises(TypeError, match=r"\('a', 'b'\), but it takes \(a, c\)"):
        run([lambda a, c: a, lambda x: x], infeed_queue=queue)


def test_a_stage_that_returns_no_tensor() -> None:
    with pytest.raises(ValueError, match=r"Stage 0 .* must return tensors: .*'text'"):
        run([lambda x: "text", lambda x: x])


def test_variables_that_the_loss_does_not_depend_on() -> None:
    v, idle = tf.Variable(1.0, name="used"), tf.Variable(1.0, name="idle")
    optimizer = keras.optimizers.SGD(1.0)
    stages, _ = trained(v)

    def optimize(_: Any, y: Any) -> OptimizerFunctionOutput:
        return OptimizerFunctionOutput(optimizer, y, variables=[v, idle])

    message = r"do not exist for variables \['idle:0'\]"
    with pytest.warns(UserWarning, match=message) as seen:
        run(stages, optimizer_function=optimize)
    assert seen[0].filename == run.__code__.co_filename  # where it calls pipeline
    assert float(v) == -9.0 and float(idle) == 1.0
    stages[1] = lambda x, y: (x, 1.0)
    with pytest.raises(ValueError, match=r"any variable: \['used:0', 'idle:0'\]"):
        run(stages, optimizer_function=optimize)


def test_two_pipelines() -> None:
    a, b = IPUOutfeedQueue(), IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def program() -> None:
        pipeline([lambda x: x, lambda x: x], 2, inputs=[1.0], outfeed_queue=a)
        pipeline([lambda x: x, lambda x: x], 2, inputs=[1.0], outfeed_queue=b)

    with pytest.raises(errors.FailedPreconditionError, match="Only one pipeline"):
        program()


def test_optimizers_with_nothing_to_train() -> None:
    stages, optimize = trained(tf.Variable(0.0), keras.optimizers.SGD(1.0))
    fails(RuntimeError, "No variables to optimize", stages, optimizer_function=optimize)


def test_a_pipeline_accumulates_by_itself() -> None:
    v = tf.Variable(0.0)
    twice = GradientAccumulationOptimizerV2(keras.optimizers.SGD(1.0), 4)
    stages, optimize = trained(v, twice)
    with pytest.raises(
        errors.FailedPreconditionError, match="A pipeline accumulates by itself"
    ):
        run(stages, optimizer_function=optimize)


def test_output_of_an_optimizer_function() -> None:
    v, opt = tf.Variable(0.0), keras.optimizers.SGD(1.0)
    with pytest.raises(TypeError, match="`tape` must be a GradientTape"):
        OptimizerFunctionOutput(opt, 1.0, tape=3)
    with pytest.raises(ValueError, match="Only one of `tape` and `variables`"):
        OptimizerFunctionOutput(opt, 1.0, tape=tf.GradientTape(), variables=[v])
    with pytest.raises(ValueError, match="may not be used with OptimizerV2 instances"):
        OptimizerFunctionOutput(opt, 1.0, compute_gradients_kwargs={"var_list": [v]})
    with pytest.raises(TypeError, match="must be a tuple"):
        OptimizerFunctionOutput(opt, 1.0, apply_gradients_args=[1])
    with pytest.raises(TypeError, match="must be a dict"):
        OptimizerFunctionOutput(opt, 1.0, apply_gradients_kwargs=[1])
    output = OptimizerFunctionOutput(opt, 1.0, variables=[v])
    with pytest.raises(ValueError, match="Only one of"):
        output.tape = tf.GradientTape()
    with pytest.raises(TypeError, match="must be a dict"):
        PipelineStageOptions(matmul_options=3)  # type: ignore[arg-type]


def test_a_shared_variable_under_zero_bubble() -> None:
    v = tf.Variable(np.eye(3, dtype="float32"))
    opt = keras.optimizers.SGD(1.0)
    with pytest.raises(
        errors.UnimplementedError, match=r"stages 0 and 2 share a variable.*use another"
    ):
        run(
            [
                lambda x: tf.sin(tf.fill((2, 3), x) @ v),
                tf.sin,
                lambda x: tf.reduce_sum(tf.sin(x @ v)),
            ],
            6,
            device_mapping=[0, 1, 0],
            pipeline_schedule=PipelineSchedule.ZeroBubble,
            optimizer_function=lambda y: OptimizerFunctionOutput(opt, y, variables=[v]),
        )


# --- runs that end early --------------------------------------------------------------


def two_executions(stages: Any, optimize: Any, infeed: Any, outfeed: Any) -> Any:
    """A program of two updates, each of four micro-batches."""

    @tf.function(jit_compile=True)
    def program() -> Any:
        return pipeline(
            stages,
            4,
            repeat_count=2,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=optimize,
        )

    return program


def test_a_data_set_that_ends_in_a_pipeline() -> None:
    v = tf.Variable(0.0)
    stages, optimize = trained(v)
    outfeed, infeed = IPUOutfeedQueue(), numbers(6)

    program = two_executions(stages, optimize, infeed, outfeed)

    with pytest.raises(errors.OutOfRangeError):
        program()
    assert float(v) == -10.0  # one update, and not a part of the second
    assert outfeed.dequeue()[0].shape[0] >= 4


def test_an_exception_in_the_middle_of_a_pipeline() -> None:
    v = tf.Variable(0.0)
    stages, optimize = trained(v)
    failing = [True]

    def elements() -> Iterator[float]:
        for i in range(1, 100):
            if i == 7 and failing[0]:
                raise ValueError("the seventh element")
            yield float(i)

    def make() -> IPUInfeedQueue:
        data = tf.data.Dataset.from_generator(
            elements, output_signature=tf.TensorSpec((), tf.float32)
        )
        return IPUInfeedQueue(data)

    outfeed, infeed = IPUOutfeedQueue(), make()

    program = two_executions(stages, optimize, infeed, outfeed)

    assert infeed.initializer is None
    with pytest.raises(Exception, match="the seventh element"):
        program()
    assert float(v) == -10.0
    failing[0] = False
    outfeed.dequeue()
    assert infeed.deleter is None
    assert infeed.initializer is None
    program()
    assert float(v) == -10.0 - 36.0
    assert outfeed.dequeue()[0].shape == (8,)
