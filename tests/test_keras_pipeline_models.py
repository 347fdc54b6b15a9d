"""``PipelineModel`` and ``SequentialPipelineModel``: models made as pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import keras
from ipu.ipu_strategy import IPUStrategy
from ipu.ops.pipelining_ops import PipelineSchedule

Dense = keras.layers.Dense


def functional(**kwargs: Any) -> Any:
    with IPUStrategy().scope():
        x = inputs = keras.Input((6,))
        with keras.PipelineStage(0):
            x = Dense(8, "relu")(x)
        with keras.PipelineStage(1):
            x = Dense(2)(x)
        arguments = {"gradient_accumulation_count": 4, **kwargs}
        return keras.PipelineModel(inputs, x, **arguments)


def sequential(**kwargs: Any) -> Any:
    stages = [[Dense(8, "relu", input_shape=(6,))], [Dense(2)]]
    arguments = {"gradient_accumulation_count": 4, **kwargs}
    return keras.SequentialPipelineModel(stages, **arguments)


BOTH = pytest.mark.parametrize("make", [functional, sequential])


@BOTH
def test_they_are_models_like_others(make: Any, tmp_path: Any) -> None:
    model = make(name="made")
    assert model.name == "made" and model._is_pipelined()
    x = np.ones((3, 6), np.float32)
    assert model(x).shape == (3, 2)
    assert len(model.trainable_variables) == 4
    model.save_weights(tmp_path / "weights")
    before = model(x).numpy()
    model.set_weights([np.zeros_like(w) for w in model.get_weights()])
    model.load_weights(tmp_path / "weights")
    np.testing.assert_array_equal(model(x).numpy(), before)
    model.reset_pipeline_stage_assignment()
    assert not model._is_pipelined()


@BOTH
def test_arguments_are_those_of_the_pipeline(make: Any) -> None:
    model = make(
        pipeline_schedule=PipelineSchedule.Interleaved,
        device_mapping=[1, 0],
        offload_activations=False,
        gradient_accumulation_dtype="float16",
        batch_serialization_iterations=2,
    )
    assert model.gradient_accumulation_count == 4
    assert model._pipelining_steps == 8 and model._serialized == 2
    assert model._pipelining_device_mapping == [1, 0]
    assert model._pipelining_kwargs == {
        "pipeline_schedule": PipelineSchedule.Interleaved,
        "offload_activations": False,
        "gradient_accumulation_dtype": "float16",
    }
    model.compile("sgd", "mse")
    assert model._steps_per_execution == 8
    model.compile("sgd", "mse", steps_per_execution=24)
    assert model._steps_per_execution == 24


@BOTH
def test_configurations_files_and_copies(make: Any, tmp_path: Any) -> None:
    model = make(
        pipeline_schedule=PipelineSchedule.Sequential,
        device_mapping=[0, 0],
        offload_weights=False,
        name="kept",
    )
    model.compile("sgd", "mse", steps_per_execution=16)
    model.save(tmp_path / "model")
    loaded = keras.models.load_model(tmp_path / "model")
    assert loaded._steps_per_execution == 16
    copies = [
        loaded,
        type(model).from_config(model.get_config()),
        keras.models.model_from_json(model.to_json()),
        keras.models.clone_model(model),
    ]
    for copy in copies:
        assert type(copy) is type(model)
        assert copy._stage_tree() == [0, 1]
        assert copy.gradient_accumulation_count == 4
        assert copy._pipelining_kwargs == model._pipelining_kwargs
        assert copy._pipelining_device_mapping == [0, 0]
        assert copy.name == "kept" and len(copy.weights) == 4
    for one, other in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_sequential_that_is_not_built() -> None:
    model = keras.SequentialPipelineModel(
        [[Dense(3)], [Dense(2), Dense(1)]], gradient_accumulation_count=4
    )
    assert not model.built and model._stage_tree() == [0, 1, 1]
    copy = type(model).from_config(model.get_config())
    assert not copy.built and copy._stage_tree() == [0, 1, 1]
    model.build((None, 5))
    assert len(model.weights) == 6


@pytest.mark.parametrize(
    "stages, message",
    [
        ([], "must take a non-empty list of stages"),
        (3, "must take a non-empty list of stages"),
        ([Dense(1)], "may only contain lists of stages"),
        ([[Dense(1)], ["dense"]], "must contain only Keras Layers"),
    ],
)
def test_stages_that_are_none(stages: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        keras.SequentialPipelineModel(stages, 4)


def test_arguments_that_are_not_legal() -> None:
    for name in ("gradient_accumulation_count", "batch_serialization_iterations"):
        for wrong in (0, True, 1.5, None):
            with pytest.raises(ValueError, match=f"`{name}` must be a positive"):
                sequential(**{name: wrong})
    with pytest.raises(ValueError, match="to be a list of integers"):
        sequential(device_mapping=(0, 1))
    with pytest.raises(TypeError, match="gradient_accumulation_count"):
        keras.PipelineModel(keras.Input((1,)), keras.Input((1,)))  # type: ignore[call-arg]
    x = keras.Input((2,))
    with pytest.raises(ValueError, match="must have an associated pipeline stage"):
        keras.PipelineModel(x, Dense(1)(x), gradient_accumulation_count=4)
    with IPUStrategy().scope():
        with keras.PipelineStage(1):
            y = Dense(2)(x)
        with keras.PipelineStage(0):
            y = Dense(2)(y)
        message = "has a dependency from a pipeline stage"
        with pytest.raises(ValueError, match=message):
            keras.PipelineModel(x, y, gradient_accumulation_count=4)
