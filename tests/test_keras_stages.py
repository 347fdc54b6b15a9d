"""Pipeline stages of models: how they are given, checked, shown and kept."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.keras.engine.pipelines.calls import flatten

Dense = keras.layers.Dense


class Chain(keras.Model):
    """A subclass of ``Model`` that calls its layers one after another."""

    def __init__(self, layers: list[Any], name: str | None = None) -> None:
        super().__init__(self, name=name)
        self.chain = layers

    def call(self, inputs: Any) -> Any:
        for layer in self.chain:
            inputs = layer(inputs)
        return inputs


def make(kind: str, layers: list[Any], size: int) -> Any:
    if kind == "sequential":
        return keras.Sequential([keras.Input((size,)), *layers])
    if kind == "functional":
        x = inputs = keras.Input((size,))
        for layer in layers:
            x = layer(x)
        return keras.Model(inputs, x)
    model = Chain(layers)
    model.build((1, size))
    return model


KINDS = ["sequential", "functional", "subclass"]


def number(entries: list[Any], start: int = 0) -> int:
    for entry in entries:
        if entry.is_nested_model:
            start = number(entry.pipeline_stage_assignments, start)
        else:
            entry.pipeline_stage = start
            start += 1
    return start


def stages_of(entries: list[Any]) -> list[Any]:
    return [
        stages_of(entry.pipeline_stage_assignments)
        if entry.is_nested_model
        else entry.pipeline_stage
        for entry in entries
    ]


@pytest.mark.parametrize(
    "outer, middle, inner", list(itertools.product(KINDS, KINDS, KINDS))
)
def test_models_in_models_have_stages_of_their_own(
    outer: str, middle: str, inner: str
) -> None:
    in_it = make(inner, [Dense(3)], 5)
    model = make(outer, [Dense(6), make(middle, [Dense(5), in_it], 6), Dense(2)], 4)
    assert stages_of(model.get_pipeline_stage_assignment()) == [
        None,
        [None, [None]],
        None,
    ]
    entries = model.get_pipeline_stage_assignment()
    number(entries)
    model.set_pipeline_stage_assignment(entries)
    assert stages_of(model.get_pipeline_stage_assignment()) == [0, [1, [2]], 3]
    kinds = {"sequential": "Sequential", "functional": "Functional", "subclass": ""}
    found = model.get_pipeline_stage_assignment()
    layer = kinds[outer] or "Model"
    assert type(found[0]).__name__ == f"{layer}LayerPipelineStageAssignment"
    assert (
        type(found[1]).__name__ == f"{kinds[outer]}NestedModelPipelineStageAssignment"
    )
    assert found[1].nested_model is model.layers[-2]
    calls = flatten(model, model._stage_tree()).calls
    assert [call.stage for call in calls] == [0, 1, 2, 3]
    model.reset_pipeline_stage_assignment()
    assert stages_of(model.get_pipeline_stage_assignment()) == [
        None,
        [None, [None]],
        None,
    ]


@pytest.mark.parametrize("kind", ["functional", "subclass"])
def test_a_model_that_is_called_twice_has_stages_for_each_call(kind: str) -> None:
    shared = make("functional", [Dense(4)], 4)
    model = make(kind, [Dense(4), shared, shared, Dense(1)], 4)
    entries = model.get_pipeline_stage_assignment()
    assert number(entries) == 4
    assert [entry.node_index for entry in entries[1:3]] != [0, 0]
    model.set_pipeline_stage_assignment(entries)
    assert stages_of(model.get_pipeline_stage_assignment()) == [0, [1], [2], 3]


@pytest.mark.parametrize("inner_kind", ["functional", "subclass"])
@pytest.mark.parametrize("outer_kind", ["functional", "subclass"])
def test_stages_by_scope(outer_kind: str, inner_kind: str) -> None:
    with IPUStrategy().scope():

        def staged(stage: int, size: int) -> Any:
            with keras.PipelineStage(stage):
                return Dense(size)

        inner = make(inner_kind, [staged(1, 5), staged(2, 3)], 6)
        model = make(outer_kind, [staged(0, 6), inner, staged(3, 2)], 4)
    assert model._is_pipelined()
    assert stages_of(model.get_pipeline_stage_assignment()) == [0, [1, 2], 3]


def test_the_call_counts_before_the_construction() -> None:
    with IPUStrategy().scope():
        x = keras.Input((3,))
        with keras.PipelineStage(0):
            made_here = Dense(3)
            y = made_here(x)
        with keras.PipelineStage(1):
            y = made_here(y)
        y = made_here(y)
        model = keras.Model(x, y)
    assert stages_of(model.get_pipeline_stage_assignment()) == [0, 1, 0]
    with pytest.raises(ValueError, match="has a dependency from a pipeline stage"):
        model.set_pipeline_stage_assignment(model.get_pipeline_stage_assignment())


def test_stages_in_the_call_of_a_subclass() -> None:
    class Two(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Dense(4), Dense(1)

        def call(self, inputs: Any, training: bool = False) -> Any:
            with keras.PipelineStage(0):
                inputs = self.a(inputs)
            with keras.PipelineStage(1):
                return tf.nn.relu(self.b(inputs))

    with IPUStrategy().scope():
        model = Two()
        with pytest.raises(RuntimeError, match="Cannot get pipeline stage assignments"):
            model.get_pipeline_stage_assignment()
        model.build((2, 3))
        assert model._is_pipelined()
    entries = model.get_pipeline_stage_assignment()
    assert [entry.pipeline_stage for entry in entries] == [0, 1, 1]
    assert type(entries[0]).__name__ == "ModelLayerPipelineStageAssignment"
    model.reset_pipeline_stage_assignment()
    assert not model._is_pipelined()


def test_layers_without_a_stage_beside_others_with_one() -> None:
    with IPUStrategy().scope():
        with keras.PipelineStage(0):
            first = Dense(2)
        model = keras.Sequential([first, Dense(1)])
        with pytest.raises(ValueError, match="must have an associated pipeline stage"):
            model._is_pipelined()


def test_a_stage_without_a_layer() -> None:
    model = make("functional", [Dense(2), Dense(1)], 3)
    entries = model.get_pipeline_stage_assignment()
    entries[0].pipeline_stage, entries[1].pipeline_stage = 0, 2
    model.set_pipeline_stage_assignment(entries)
    message = "All stages in a pipeline must have at lease one layer assigned"
    with pytest.raises(RuntimeError, match=message):
        model._stage_count()


def test_assignments_of_the_wrong_kind() -> None:
    functional = make("functional", [Dense(2), Dense(1)], 3)
    sequential = make("sequential", [Dense(2), Dense(1)], 3)
    message = "All elements of `pipeline_stage_assignment` must be"
    for model, given in [
        (functional, [0, 1]),
        (functional, sequential.get_pipeline_stage_assignment()),
        (sequential, functional.get_pipeline_stage_assignment()),
        (sequential, [0, "1"]),
        (sequential, [0, -1]),
    ]:
        with pytest.raises(ValueError, match=message):
            model.set_pipeline_stage_assignment(given)
    entries = functional.get_pipeline_stage_assignment()
    message = "does not match the number of layers in the graph"
    with pytest.raises(ValueError, match=message):
        functional.set_pipeline_stage_assignment(entries[:1])
    entries[0].pipeline_stage = 0
    with pytest.raises(ValueError, match="has not been assigned a pipeline stage"):
        functional.set_pipeline_stage_assignment(entries)
    other = make("functional", [Dense(2), Dense(1)], 3)
    message = "The order of .* does not match the post-order"
    with pytest.raises(ValueError, match=message):
        functional.set_pipeline_stage_assignment(other.get_pipeline_stage_assignment())
    wrong = keras.FunctionalLayerPipelineStageAssignment(functional.layers[1], 7, 0)
    with pytest.raises(ValueError, match=message):
        functional.set_pipeline_stage_assignment([wrong, entries[1]])


def test_a_later_stage_inside_an_inner_model() -> None:
    inner = make("functional", [Dense(2), Dense(2)], 3)
    model = make("functional", [inner, Dense(1)], 3)
    entries = model.get_pipeline_stage_assignment()
    number(entries)
    entries[1].pipeline_stage = 0
    message = "has a dependency from a pipeline stage which has not yet been executed"
    with pytest.raises(ValueError, match=message):
        model.set_pipeline_stage_assignment(entries)


def test_a_sequential_that_changes_forgets_its_stages(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = make("sequential", [Dense(2), Dense(1)], 3)
    model.set_pipeline_stage_assignment([0, 1])
    with caplog.at_level(logging.INFO, logger="ipu"):
        model.add(Dense(1))
    assert "pipeline stage assignment is cleared" in caplog.text
    assert stages_of(model.get_pipeline_stage_assignment()) == [None, None, None]
    model.set_pipeline_stage_assignment([0, 1, 1])
    model.pop()
    assert stages_of(model.get_pipeline_stage_assignment()) == [None, None]


def test_integers_of_numpy() -> None:
    model = make("sequential", [Dense(2), Dense(1)], 3)
    model.set_pipeline_stage_assignment(list(np.repeat([0, 1], 1)))
    model.set_pipelining_options(np.int64(4), device_mapping=list(np.zeros(2, int)))
    kept = model.get_config()["ipu_options"]
    assert kept["pipeline_stage_assignment"] == [0, 1]
    assert kept["pipelining_device_mapping"] == [0, 0]
    assert all(type(n) is int for n in kept["pipelining_device_mapping"])
    with pytest.raises(ValueError, match="to be a list of integers"):
        model.set_pipelining_options(device_mapping=[0, True])


def test_an_inner_model_on_one_stage() -> None:
    inner = make("functional", [Dense(2), Dense(2)], 3)
    model = make("sequential", [inner, Dense(1)], 3)
    model.set_pipeline_stage_assignment([0, 1])
    assert [call.stage for call in flatten(model, model._stage_tree()).calls] == [0, 1]
    # and one that is not built yet
    open_model = keras.Sequential([Chain([Dense(2)]), Dense(1)])
    open_model.set_pipeline_stage_assignment([0, 1])
    assert open_model._is_pipelined()


class Sizes(keras.Model):
    """Its ``call`` needs the size of the batch as a number."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Dense(3)

    def call(self, inputs: Any) -> Any:
        return self.inner(inputs) + np.zeros((inputs.shape[0], 3), np.float32)


def test_a_call_that_does_not_run_on_symbols() -> None:
    model = Sizes()
    model.build((4, 3))
    message = "its `call` does not run on symbolic values"
    with pytest.raises(RuntimeError, match=message):
        model.get_pipeline_stage_assignment()
    assert not model._is_pipelined()
    # as a part of another model it is one layer
    outer = make("functional", [Dense(3), Sizes(), Dense(2)], 3)
    entries = outer.get_pipeline_stage_assignment()
    assert [entry.is_nested_model for entry in entries] == [False] * 3
    assert number(entries) == 3
    outer.set_pipeline_stage_assignment(entries)
    with IPUStrategy().scope():
        with keras.PipelineStage(0):
            staged = Dense(3)
        model = Sizes()
        model.inner = staged
        model.build((4, 3))
        with pytest.raises(RuntimeError, match=f"Cannot use pipeline .*{message}"):
            model._is_pipelined()


def test_models_without_stages_are_not_looked_into() -> None:
    traced = []

    class Noted(Chain):
        def call(self, inputs: Any) -> Any:
            traced.append(type(inputs).__name__)
            return super().call(inputs)

    inputs = keras.Input((3,))
    model = keras.Model(inputs, Noted([Dense(2)])(inputs))
    model.compile("sgd", "mse")
    x = np.ones((4, 3), np.float32)
    model.fit(x, x[:, :2], verbose=0)
    assert "KerasTensor" not in traced and traced


def test_a_functional_model_with_a_call_of_its_own() -> None:
    class Own(keras.Model):
        def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
            return 2.0 * super().call(inputs)

    x = keras.Input((3,))
    model = Own(x, Dense(1)(Dense(2)(x)))
    with pytest.raises(RuntimeError, match="defines `call`"):
        model.get_pipeline_stage_assignment()
    assert not model._is_pipelined()


def test_summary_of_stages() -> None:
    inner = make("functional", [Dense(2, name="in_it")], 3)
    model = make("functional", [inner, Dense(1, name="last")], 3)
    entries = model.get_pipeline_stage_assignment()
    number(entries)
    model.set_pipeline_stage_assignment(entries)
    lines: list[str] = []
    model.print_pipeline_stage_assignment_summary(print_fn=lines.append)
    text = "\n".join(lines)
    for part in ("Layer (type) (node index)", "Input Layers", "Pipeline Stage"):
        assert part in text
    assert max(len(line) for line in lines) == 89
    row = next(line for line in lines if "in_it (Dense) (0)" in line)
    assert row.startswith("  in_it") and row.endswith(" 0")
    assert any("last (Dense) (0)" in line and line.endswith(" 1") for line in lines)
    sequential = make("sequential", [Dense(1)], 3)
    lines.clear()
    sequential.print_pipeline_stage_assignment_summary(print_fn=lines.append)
    assert "Layer (type)" in "\n".join(lines) and "node index" not in "\n".join(lines)
    assert max(len(line) for line in lines) == 60


def test_a_stage_does_not_change_a_direct_call() -> None:
    model = make("sequential", [Dense(2), Dense(1)], 3)
    x = np.ones((2, 3), np.float32)
    before = model(x).numpy()
    model.set_pipeline_stage_assignment([0, 1])
    np.testing.assert_array_equal(model(x).numpy(), before)
