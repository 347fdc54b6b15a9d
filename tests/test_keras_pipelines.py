"""Models with gradient accumulation and in pipelines: same weights to the bit.

The oracle of a pipeline is ``plain_pipeline``: its stages in plain loops.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import plain_pipeline as oracle
import pytest

import ipu
from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.keras.engine import device_steps, execution

Dense = keras.layers.Dense


def floats(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


X = floats(64, 6)
Y = np.random.default_rng(1).integers(0, 3, 64).astype(np.int32)
Z = floats(64, 2, seed=2)


def configure(ipus: int) -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


@pytest.fixture(autouse=True)
def one_ipu() -> Iterator[None]:
    configure(1)
    yield
    configure(1)


# --- models ---------------------------------------------------------------------------


def branches() -> tuple[Any, list[int]]:
    """A skip over a stage, batch normalisation, penalties of weights and results."""
    inputs = keras.Input((6,))
    a = Dense(8, "relu", kernel_regularizer="l2", activity_regularizer="l1")(inputs)
    b = Dense(8, "tanh")(a)
    c = keras.layers.Concatenate()([a, b, inputs])
    c = keras.layers.BatchNormalization()(c)
    out = Dense(3, "softmax", kernel_regularizer="l1")(c)
    return keras.Model(inputs, out), [0, 1, 1, 1, 2]


def chain() -> tuple[Any, list[int]]:
    layers = [Dense(8, "relu"), Dense(7, "relu"), Dense(3, "softmax")]
    return keras.Sequential(layers), [0, 1, 1]


def shared() -> tuple[Any, list[int]]:
    """A layer and a model that are called in two stages each."""
    twice = Dense(6, "tanh")
    inner = keras.Sequential([Dense(6, "relu", input_shape=(6,)), twice])
    x = inputs = keras.Input((6,))
    x = twice(x)
    x = inner(x)
    x = keras.layers.Add()([inner(x), x])
    return keras.Model(inputs, Dense(3, "softmax")(x)), [0, 0, 0, 1, 1, 1, 1]


def masks() -> tuple[Any, list[int]]:
    inputs = keras.Input((6,))
    x = keras.layers.Reshape((3, 2))(inputs)
    x = x + np.array([[[9.0, 9.0], [0.0, 0.0], [0.0, 0.0]]], np.float32)
    x = keras.layers.Masking()(tf.nn.relu(x))  # the first step always counts
    x = Dense(4, "relu")(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, Dense(3, "softmax")(x)), [0, 0, 0, 0, 1, 1, 2]


class Subclass(keras.Model):
    def __init__(self) -> None:
        super().__init__(self)
        self.a, self.b, self.c = Dense(8, "relu"), Dense(4, "relu"), Dense(3, "softmax")
        self.normal = keras.layers.BatchNormalization()

    def call(self, inputs: Any, training: bool = False) -> Any:
        x = self.normal(self.a(inputs), training=training)
        return self.c(tf.concat([self.b(x), x], -1))


class InCodeOrder(keras.Model):
    """Branches in another order than that of their depths, and a call for its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = Dense(8, "relu"), Dense(3, "softmax")
        self.drops = [keras.layers.Dropout(0.4) for _ in range(3)]
        self.penalty = Dense(1, activity_regularizer="l2")

    def call(self, inputs: Any) -> Any:
        x = self.first(inputs)
        short = self.drops[0](x)
        long = self.drops[1](x)
        self.penalty(x)
        long = self.drops[2](long)
        return self.last(tf.concat([long, short, x], -1))


def in_code_order() -> tuple[Any, list[int]]:
    model = InCodeOrder()
    model.build((4, 6))
    return model, [0, 0, 0, 0, 1, 1, 1]


def subclass() -> tuple[Any, list[int]]:
    model = Subclass()
    model.build((4, 6))
    return model, [0, 0, 1, 1, 1]


class Noting(keras.layers.Layer):
    """Keeps a metric of what passes, and adds to the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = keras.metrics.Mean("passed")

    def call(self, inputs: Any) -> Any:
        self.mean.update_state(inputs)
        self.add_loss(0.1 * tf.reduce_mean(tf.square(inputs)))
        return inputs


def noting() -> tuple[Any, list[int]]:
    layers = [Dense(8, "relu"), Noting(), Dense(3, "softmax")]
    return keras.Sequential(layers), [0, 0, 1]


MODELS = [noting, branches, chain, shared, masks, subclass]


def assign(model: Any, stages: list[int]) -> None:
    supply = iter(stages)

    def fill(entries: list[Any]) -> None:
        for entry in entries:
            if entry.is_nested_model:
                fill(entry.pipeline_stage_assignments)
            else:
                entry.pipeline_stage = next(supply)

    entries = model.get_pipeline_stage_assignment()
    fill(entries)
    model.set_pipeline_stage_assignment(entries)


# --- the oracle -----------------------------------------------------------------------


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pipelines run as plain loops on one IPU."""
    module = SimpleNamespace(
        pipeline=oracle.plain_pipeline, OptimizerFunctionOutput=SimpleNamespace
    )

    def output(opt: Any, loss: Any, variables: Any) -> Any:
        return SimpleNamespace(opt=opt, loss=loss, variables=variables)

    module.OptimizerFunctionOutput = output
    monkeypatch.setattr(device_steps, "pipelining_ops", module)
    monkeypatch.setattr(execution, "_replicas", lambda shards: 1)
    yield


def train(
    make: Callable[[], tuple[Any, list[int]]],
    prepare: Callable[[Any, list[int]], None],
    k: int = 8,
    **kwargs: Any,
) -> SimpleNamespace:
    """Train a model from the same start; what came of it."""
    keras.utils.set_random_seed(5)
    with IPUStrategy().scope():
        model, stages = make()
        model.compile(
            keras.optimizers.SGD(0.02, momentum=0.9),
            "sparse_categorical_crossentropy",
            metrics=["accuracy"],
            steps_per_execution=k,
        )
        if not model.built:
            model.build((None, 6))
        prepare(model, stages)
        oracle.plain_pipeline.variables = model.trainable_variables  # type: ignore[attr-defined]
        arguments = {"batch_size": 4, "epochs": 2, "shuffle": False, **kwargs}
        samples = 4 * k * (64 // (4 * k))
        x, y = X[:samples], Y[:samples]
        history = model.fit(x, y, verbose=0, **arguments)
        return SimpleNamespace(
            history=history.history,
            steps=history.steps,
            results=model.evaluate(x, y, batch_size=4, verbose=0),
            outputs=model.predict(x, batch_size=4),
            weights=model.get_weights(),
        )


def assert_same(one: SimpleNamespace, other: SimpleNamespace) -> None:
    assert one.history == other.history
    assert one.steps == other.steps
    assert one.results == other.results
    np.testing.assert_array_equal(one.outputs, other.outputs)
    for a, b in zip(one.weights, other.weights, strict=True):
        np.testing.assert_array_equal(a, b)


def accumulated(method: str = "sum", steps: int = 4) -> Callable[..., None]:
    def prepare(model: Any, _: list[int]) -> None:
        model.set_gradient_accumulation_options(
            steps, gradient_accumulation_reduction_method=method
        )

    return prepare


def staged(method: str = "sum", steps: int = 4, **options: Any) -> Callable[..., None]:
    def prepare(model: Any, stages: list[int]) -> None:
        assign(model, stages)
        model.set_pipelining_options(
            steps, gradient_accumulation_reduction_method=method, **options
        )

    return prepare


# --- accumulation and stages ----------------------------------------------------------


@pytest.mark.parametrize("make", MODELS)
def test_stages_one_after_another_give_what_the_model_gives(
    make: Any, plainly: None
) -> None:
    weight = {0: 1.0, 1: 2.0, 2: 0.5}
    one = train(make, accumulated(), class_weight=weight)
    assert_same(one, train(make, staged(), class_weight=weight))
    assert np.isfinite(one.history["loss"]).all()
    assert one.history["loss"][1] != one.history["loss"][0]


@pytest.mark.parametrize("method", ["mean", "running_mean"])
def test_accumulated_gradients_are_reduced(method: str, plainly: None) -> None:
    assert_same(train(chain, accumulated(method)), train(chain, staged(method)))


def test_sample_weights_travel_to_the_last_stage(plainly: None) -> None:
    weight = np.abs(floats(64, seed=3))
    one = train(chain, accumulated(), sample_weight=weight)
    assert_same(one, train(chain, staged(), sample_weight=weight))


def test_accumulation_is_the_gradient_of_all_its_batches() -> None:
    def fit(batch_size: int, steps: int) -> list[Any]:
        keras.utils.set_random_seed(1)
        with IPUStrategy().scope():
            model = keras.Sequential([Dense(3, input_shape=(6,))])
            loss = keras.losses.MeanSquaredError(reduction="sum")
            model.compile("sgd", loss, steps_per_execution=4)
            model.set_gradient_accumulation_options(steps)
            targets = floats(64, 3, seed=4)
            model.fit(X, targets, batch_size=batch_size, shuffle=False, verbose=0)
            assert int(model.optimizer.iterations.numpy()) == 4
            return model.get_weights()

    for one, other in zip(fit(16, 1), fit(4, 4), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_accumulators_of_another_dtype() -> None:
    seen: list[str] = []

    class Cast(keras.optimizers.SGD):
        def apply_gradients(self, pairs: Any, name: Any = None, **_: Any) -> Any:
            pairs = list(pairs)
            seen.extend(gradient.dtype.name for gradient, _ in pairs)
            return super().apply_gradients([(tf.cast(g, v.dtype), v) for g, v in pairs])

    model = keras.Sequential([Dense(2, input_shape=(6,))])
    model.compile(Cast(0.1), "mse", steps_per_execution=4)
    model.set_gradient_accumulation_options(2, dtype="float16")
    model.fit(X[:16], Z[:16], batch_size=4, verbose=0)
    assert seen == ["float16", "float16"]


def test_options_for_the_accumulating_optimizer_are_checked() -> None:
    model = keras.Sequential([Dense(2, input_shape=(6,))])
    model.compile("sgd", "mse", steps_per_execution=4)
    model.set_gradient_accumulation_options(2, dtpye="float16")
    with pytest.raises(TypeError, match="unexpected keyword argument 'dtpye'"):
        model.fit(X[:16], Z[:16], batch_size=4, verbose=0)


def test_pipelining_options_do_nothing_without_stages() -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([Dense(2, input_shape=(6,))])
    model.compile("sgd", "mse", steps_per_execution=4)
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=3)
    model.fit(X[:16], Z[:16], batch_size=4, verbose=0)
    assert int(model.optimizer.iterations.numpy()) == 4


# --- pipelines ------------------------------------------------------------------------

Schedule = ipu.pipelining_ops.PipelineSchedule


def ipus_of(make: Any) -> int:
    configure(1)
    stages = max(make()[1]) + 1
    return 1 << (stages - 1).bit_length()


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize(
    "schedule",
    [
        Schedule.Grouped,
        Schedule.Interleaved,
        Schedule.Sequential,
        Schedule.GPipe,
        Schedule.OneForwardOneBackward,
        Schedule.ZeroBubble,
    ],
)
def test_every_schedule_gives_the_weights_of_accumulation(
    make: Any, schedule: Any
) -> None:
    steps = 6 if make in (branches, masks) else 8
    arguments = {"class_weight": {0: 1.0, 1: 2.0, 2: 0.5}}
    one = train(make, accumulated(steps=steps), k=steps, **arguments)
    configure(ipus_of(make))
    options: dict[str, Any] = {"pipeline_schedule": schedule}
    if make is shared:
        if schedule in (Schedule.Interleaved, Schedule.ZeroBubble):
            pytest.skip("not for stages that share weights on one IPU")
        configure(1)
        options["device_mapping"] = [0, 0]
    other = train(make, staged(steps=steps, **options), k=steps, **arguments)
    assert_same(one, other)


def test_a_subclass_runs_in_the_order_of_its_code() -> None:
    model, stages = in_code_order()
    names = [entry.layer.name for entry in model.get_pipeline_stage_assignment()]
    drops = [layer.name for layer in model.drops]
    assert names[1:5] == [drops[0], drops[1], model.penalty.name, drops[2]]
    assert len(names) == len(stages)
    one = train(in_code_order, accumulated(steps=4))
    configure(2)
    assert_same(one, train(in_code_order, staged(steps=4)))


def dropout() -> tuple[Any, list[int]]:
    layers: list[Any] = [Dense(8, "relu"), keras.layers.Dropout(0.5), Dense(8, "relu")]
    layers += [keras.layers.Dropout(0.5), Dense(3, "softmax")]
    return keras.Sequential(layers), [0, 0, 1, 1, 1]


def test_random_layers_draw_the_same_numbers() -> None:
    one = train(dropout, accumulated(steps=4))
    configure(2)
    for schedule in (Schedule.Grouped, Schedule.Interleaved, Schedule.Sequential):
        assert_same(one, train(dropout, staged(steps=4, pipeline_schedule=schedule)))


@pytest.mark.parametrize("method", ["mean", "running_mean"])
def test_reductions_in_a_pipeline(method: str) -> None:
    one = train(chain, accumulated(method))
    configure(2)
    assert_same(one, train(chain, staged(method)))


def test_a_pipeline_on_one_ipu() -> None:
    one = train(chain, accumulated())
    assert_same(one, train(chain, staged(device_mapping=[0, 0])))


def test_a_model_outside_of_a_scope() -> None:
    def fit(stages: bool) -> list[Any]:
        configure(2 if stages else 1)
        keras.utils.set_random_seed(2)
        model = small(stages)
        if not stages:
            model.set_gradient_accumulation_options(4)
        fit_small(model, shuffle=False, epochs=2)
        assert int(model.optimizer.iterations.numpy()) == 8
        return model.get_weights()

    for one, other in zip(fit(False), fit(True), strict=True):
        np.testing.assert_array_equal(one, other)


def test_validation_and_several_outputs() -> None:
    def fit(stages: bool) -> Any:
        configure(2 if stages else 1)
        keras.utils.set_random_seed(2)
        x = keras.Input((6,))
        h = Dense(5, "relu", name="hidden")(x)
        early = Dense(2, name="early")(h)
        late = Dense(3, "softmax", name="late")(Dense(4, name="middle")(h))
        model = keras.Model(x, {"early": early, "late": late})
        model.compile(
            keras.optimizers.Adam(0.01, clipnorm=1.0),
            {"early": "mse", "late": "sparse_categorical_crossentropy"},
            metrics={"late": "accuracy"},
            loss_weights={"early": 0.5},
            steps_per_execution=8,
        )
        if stages:
            entries = model.get_pipeline_stage_assignment()
            for entry in entries:
                entry.pipeline_stage = int(entry.layer.name in ("middle", "late"))
            model.set_pipeline_stage_assignment(entries)
            model.set_pipelining_options(4)
        else:
            model.set_gradient_accumulation_options(4)
        y = {"early": Z, "late": Y}
        history = model.fit(
            X, y, batch_size=4, epochs=3, validation_data=(X[:32], {
                "early": Z[:32], "late": Y[:32]}), verbose=0, shuffle=False,
        )  # fmt: skip
        outputs = model.predict(X, batch_size=8)
        assert set(outputs) == {"early", "late"}
        return history.history, outputs["late"], model.get_weights()

    (history, outputs, weights), (history_2, outputs_2, weights_2) = fit(0), fit(1)
    assert history == history_2 and len(history["val_late_accuracy"]) == 3
    np.testing.assert_array_equal(outputs, outputs_2)
    for one, other in zip(weights, weights_2, strict=True):
        np.testing.assert_array_equal(one, other)


def test_sums_of_results() -> None:
    """``accumulate_outfeed``: one entry an update, the mean of its batches."""
    plain = train(chain, accumulated())
    configure(2)
    sums = train(chain, staged(accumulate_outfeed=True))
    for one, other in zip(plain.weights, sums.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    losses = np.array(plain.steps["loss"], np.float32).reshape(-1, 4)
    np.testing.assert_allclose(sums.steps["loss"], losses.mean(1), rtol=1e-5)
    accuracy = np.array(plain.steps["accuracy"], np.float32).reshape(-1, 4)
    np.testing.assert_allclose(sums.steps["accuracy"], accuracy.mean(1), rtol=1e-5)
    last = sums.steps["accuracy"][3]
    assert sums.history["accuracy"][0] == last
    np.testing.assert_array_equal(plain.outputs, sums.outputs)


def test_the_tutorial_counts_batches() -> None:
    """500 steps of an epoch and an execution, 4 of an update."""
    configure(2)
    notes = Batches()
    data = tf.data.Dataset.from_tensor_slices((X, Z))
    data = data.batch(4, drop_remainder=True).repeat()
    with IPUStrategy().scope():
        model = small(k=500)
        history = model.fit(
            data, steps_per_epoch=500, epochs=4, verbose=0, callbacks=[notes]
        )
    assert notes.calls == [("begin", 0), ("end", 499)] * 4
    assert int(model.optimizer.iterations.numpy()) == 4 * 125
    assert len(history.history["loss"]) == 4
    assert len(history.steps["loss"]) == 2000


def test_evaluation_takes_an_execution_as_its_count() -> None:
    configure(2)
    model = small(k=2)
    assert model.evaluate(X, Z, batch_size=1, verbose=0) >= 0.0  # 2: as many as stages
    message = "The number of iterations of the pipeline must be a multiple of 2"
    model.compile("sgd", "mse", steps_per_execution=1)
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"must be .* 2"):
        model.evaluate(X, Z, batch_size=1, verbose=0)
    model.compile("sgd", "mse", steps_per_execution=3)
    with pytest.raises(tf.errors.FailedPreconditionError, match=message):
        model.predict(X[:63], batch_size=1)
    del model


def test_predictions_without_compile() -> None:
    model = keras.Sequential([Dense(4, input_shape=(6,)), Dense(2)])
    expected = model(X).numpy()
    model.set_pipeline_stage_assignment([0, 1])
    model.set_pipelining_options(
        pipeline_schedule=Schedule.Sequential, device_mapping=[0, 0]
    )
    np.testing.assert_array_equal(model.predict(X, batch_size=64), expected)


def test_asynchronous_callbacks_of_a_pipeline() -> None:
    configure(2)
    notes = Batches()
    model = small(k=8)
    model.set_asynchronous_callbacks(True)
    history = fit_small(model, callbacks=[notes])
    expected = [(what, step) for step in range(16) for what in ("begin", "end")]
    assert notes.calls == expected
    assert notes.losses[-1] == history.history["loss"][0]
    # sums come once an update: callbacks are those of an execution again
    model.set_pipelining_options(accumulate_outfeed=True)
    notes.calls.clear()
    fit_small(model, callbacks=[notes])
    assert notes.calls == [("begin", 0), ("end", 7), ("begin", 8), ("end", 15)]
    notes.calls.clear()
    model.predict(X, batch_size=4, callbacks=[notes])
    assert notes.calls == [("predict", step) for step in range(16)]


@pytest.mark.parametrize("make", ["functional", "sequential"])
def test_models_that_are_made_as_pipelines(make: str) -> None:
    configure(2)
    with IPUStrategy().scope():
        if make == "functional":
            x = inputs = keras.Input((6,))
            with keras.PipelineStage(0):
                x = Dense(5, "relu")(x)
            with keras.PipelineStage(1):
                x = Dense(2)(x)
            model: Any = keras.PipelineModel(inputs, x, gradient_accumulation_count=8)
        else:
            model = keras.SequentialPipelineModel(
                [[Dense(5, "relu")], [Dense(2)]],
                gradient_accumulation_count=2,
                batch_serialization_iterations=4,
                device_mapping=[0, 1],
                pipeline_schedule=Schedule.Sequential,
            )
        model.compile("sgd", "mse")
        if make == "sequential":
            with pytest.raises(NotImplementedError, match="mapped to one"):
                fit_small(model)
            configure(1)
    if make == "sequential":
        return
    history = fit_small(model, validation_data=(X, Z), validation_batch_size=4)
    assert list(history.history) == ["loss", "val_loss"]
    assert int(model.optimizer.iterations.numpy()) == 2


def test_serialized_batches() -> None:
    def fit(serialized: int) -> Any:
        keras.utils.set_random_seed(2)
        model = keras.SequentialPipelineModel(
            [[Dense(5, "relu")], [Dense(2)]],
            gradient_accumulation_count=8 // serialized,
            batch_serialization_iterations=serialized,
            device_mapping=[0, 0],
            pipeline_schedule=Schedule.Sequential,
        )
        model.compile("sgd", "mse")
        history = fit_small(model, shuffle=False)
        assert int(model.optimizer.iterations.numpy()) == 2
        return history.steps, model.predict(X, batch_size=8)

    (steps, outputs), (steps_4, outputs_4) = fit(1), fit(4)
    assert steps == steps_4
    np.testing.assert_array_equal(outputs, outputs_4)


def test_the_next_fit_works_after_data_that_end() -> None:
    configure(2)

    def few() -> Iterator[Any]:
        for _ in range(5):
            yield X[:4], Z[:4]

    spec = (tf.TensorSpec((4, 6), tf.float32), tf.TensorSpec((4, 2), tf.float32))
    data = tf.data.Dataset.from_generator(few, output_signature=spec)
    model = small(k=8)
    before = model.get_weights()
    with pytest.raises(tf.errors.OutOfRangeError):
        model.fit(data, steps_per_epoch=8, verbose=0)
    assert int(model.optimizer.iterations.numpy()) <= 1
    assert all(np.isfinite(w).all() for w in model.get_weights()) and before
    fit_small(model)


@pytest.mark.parametrize("mapping", [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1]])
@pytest.mark.parametrize("schedule", list(Schedule))
def test_several_stages_on_an_ipu(schedule: Any, mapping: list[int]) -> None:
    """A value may be read last by what comes first in the order of stages."""
    if schedule is Schedule.Interleaved:
        pytest.skip("not for several stages on one IPU")
    deals_out = schedule is Schedule.InterleavedOneForwardOneBackward
    if deals_out and mapping == [0, 0, 1, 1]:
        pytest.skip("stages are dealt out in turn")

    def deep() -> tuple[Any, list[int]]:
        layers = [Dense(5, "tanh") for _ in range(3)]
        return keras.Sequential([*layers, Dense(3, "softmax")]), [0, 1, 2, 3]

    one = train(deep, accumulated(steps=8))
    configure(max(mapping) + 1)
    options = {"device_mapping": mapping, "pipeline_schedule": schedule}
    assert_same(one, train(deep, staged(steps=8, **options)))


def test_the_timetable_of_a_model() -> None:
    model = small(k=8)
    table = model.pipeline_schedule()
    assert (table.schedule, table.micro_batches, table.training) == ("Grouped", 4, True)
    assert table.names == [layer.name for layer in model.layers]
    model.set_pipelining_options(
        device_mapping=[1, 0], schedule=Schedule.OneForwardOneBackward
    )
    table = model.pipeline_schedule(training=False)
    assert (table.micro_batches, table.ipus) == (8, [1, 0])
    assert table.schedule == "1F1B" and not table.training
    model.set_pipelining_options(3)
    with pytest.raises(tf.errors.FailedPreconditionError, match="multiple of 4"):
        model.pipeline_schedule()
    model.reset_pipeline_stage_assignment()
    with pytest.raises(ValueError, match="is not pipelined"):
        model.pipeline_schedule()


def test_what_ran_is_recorded() -> None:
    configure(2)
    recorder = keras.callbacks.PipelineRecorder()
    model = small(k=8)
    model.set_pipelining_options(4, schedule=Schedule.OneForwardOneBackward)
    fit_small(model, callbacks=[recorder], validation_data=(X, Z), epochs=2)
    table: Any = recorder.timetable
    assert (table.schedule, table.micro_batches, table.training) == ("1F1B", 4, True)
    passes = {
        (ipu, kind, stage, batch) for ipu, kind, stage, batch, *_ in table.recorded
    }
    assert passes == {(i, k, i, m) for i in (0, 1) for k in "FB" for m in range(4)}
    assert all(begin <= end for *_, begin, end in table.recorded)
    assert 0.0 <= table.recorded_idle_share < 1.0
    recorder = keras.callbacks.PipelineRecorder()
    model.evaluate(X, Z, batch_size=4, verbose=0, callbacks=[recorder])
    table = recorder.timetable
    assert (table.micro_batches, table.training) == (8, False)
    assert len(table.recorded) == 16
    model.predict(X, batch_size=4, callbacks=[recorder])
    assert len(recorder.timetable.recorded) == 16  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="PipelineRecorder needs a model in stages"):
        fit_small(small(stages=False), callbacks=[recorder])


INTERRUPTED = """
import os, signal
import numpy as np
import ipu
from ipu import keras, tf
config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()
rng = np.random.default_rng(0)
x = rng.normal(size=(64, 32)).astype(np.float32)
data = tf.data.Dataset.from_tensor_slices((x, x))
data = data.batch(16, drop_remainder=True).repeat()

def make(steps):
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(32, "tanh", input_shape=(32,)) for _ in range(2)]
    model = keras.Sequential(layers)
    model.set_pipeline_stage_assignment([0, 1])
    model.set_pipelining_options(4)
    model.compile(keras.optimizers.SGD(1e-3), "mse", steps_per_execution=steps)
    return model

def stop(batch, logs):
    if batch == 100:  # of which the device is well ahead
        os.kill(os.getpid(), signal.SIGINT)

model = make(40_000_000)
model.set_asynchronous_callbacks(True)
stopper = keras.callbacks.LambdaCallback(on_batch_end=stop)
try:
    model.fit(data, steps_per_epoch=40_000_000, verbose=0, callbacks=[stopper])
except KeyboardInterrupt:
    done = int(model.optimizer.iterations.numpy())
    assert 0 < done < 10_000_000, done
    other = make(4 * done)
    other.fit(data, steps_per_epoch=4 * done, verbose=0)
    for a, b in zip(model.get_weights(), other.get_weights()):
        np.testing.assert_array_equal(a, b)
    model.set_asynchronous_callbacks(False)
    model.compile("sgd", "mse", steps_per_execution=8)
    model.fit(data, steps_per_epoch=8, verbose=0)
    print("usable after", done, "updates")
"""


def test_ctrl_c_stops_all_ipus_after_the_same_update() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "usable after" in done.stdout


@pytest.mark.parametrize("schedule", [Schedule.Grouped, Schedule.ZeroBubble])
def test_an_error_leaves_the_weights_of_the_last_update(schedule: Any) -> None:
    configure(2)

    def make(k: int) -> Any:
        keras.utils.set_random_seed(3)
        model = keras.Sequential([Dense(4, "relu", input_shape=(6,)), Dense(3)])
        model.set_pipeline_stage_assignment([0, 1])
        model.set_pipelining_options(4, schedule=schedule)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, steps_per_execution=k)
        return model

    labels = Y.copy()
    labels[4 * 10 + 1] = 7  # in the third update
    model = make(16)
    with pytest.raises(tf.errors.InvalidArgumentError, match="outside the 3 classes"):
        model.fit(X, labels, batch_size=4, shuffle=False, verbose=0)
    assert int(model.optimizer.iterations.numpy()) == 2
    other = make(8)
    other.fit(X[:32], Y[:32], batch_size=4, shuffle=False, verbose=0)
    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    assert np.isfinite(model.fit(X, Y, batch_size=4, verbose=0).history["loss"]).all()


# --- what is refused ------------------------------------------------------------------


def small(stages: bool = True, k: int = 4, steps: int | None = 4) -> Any:
    model = keras.Sequential([Dense(4, input_shape=(6,)), Dense(2)])
    model.compile("sgd", "mse", steps_per_execution=k)
    if stages:
        model.set_pipeline_stage_assignment([0, 1])
        model.set_pipelining_options(steps)
    return model


def fit_small(model: Any, **kwargs: Any) -> Any:
    return model.fit(X, Z, batch_size=4, verbose=0, **kwargs)


def test_training_needs_accumulation_steps(plainly: None) -> None:
    with pytest.raises(ValueError, match="has not been set through"):
        fit_small(small(steps=None))


@pytest.mark.parametrize("stages, what", [(True, "pipelined model"), (False, "model")])
def test_an_execution_is_whole_updates(stages: bool, what: str, plainly: None) -> None:
    model = small(stages)
    model.compile("sgd", "mse", steps_per_execution=2)
    if not stages:
        model.set_gradient_accumulation_options(4)
    message = (
        rf"The {what} has been configured .* \(set to 2\) is not divisible by "
        r"`gradient_accumulation_steps_per_replica` \(set to 4\)"
    )
    with pytest.raises(RuntimeError, match=message):
        fit_small(model)


def test_too_few_ipus() -> None:
    message = "Current device has 1 IPUs attached, .* a multiple of 4 IPUs"
    model = keras.Sequential([Dense(2, input_shape=(6,)) for _ in range(3)])
    model.compile("sgd", "mse", steps_per_execution=6)
    model.set_pipeline_stage_assignment([0, 1, 2])
    model.set_pipelining_options(6)
    with pytest.raises(ValueError, match=message):
        fit_small(model)


@pytest.mark.parametrize(
    "name", ["train_step", "test_step", "predict_step", "make_train_function"]
)
def test_own_steps_are_refused_in_pipelines(name: str, plainly: None) -> None:
    kind = type("Own", (keras.Sequential,), {name: lambda self, data=None: {}})
    model = kind([Dense(4, input_shape=(6,)), Dense(2)])
    model.compile("sgd", "mse", steps_per_execution=4)
    model.set_pipeline_stage_assignment([0, 1])
    model.set_pipelining_options(4)
    with pytest.raises(RuntimeError, match=f"The function `{name}`"):
        fit_small(model)


def test_an_own_train_step_is_refused_with_accumulation() -> None:
    class Own(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            return super().train_step(data)

    model = Own([Dense(2, input_shape=(6,))])
    model.compile("sgd", "mse", steps_per_execution=4)
    model.set_gradient_accumulation_options(2)
    with pytest.raises(RuntimeError, match="The function `train_step`"):
        fit_small(model)
    model.set_gradient_accumulation_options(1)
    fit_small(model)


@pytest.mark.parametrize("stages", [True, False])
def test_an_own_minimize_is_refused(stages: bool, plainly: None) -> None:
    class Own(keras.optimizers.SGD):
        def minimize(self, *args: Any, **kwargs: Any) -> Any:
            return super().minimize(*args, **kwargs)

    model = small(stages)
    model.compile(Own(), "mse", steps_per_execution=4)
    model.set_gradient_accumulation_options(2)
    with pytest.raises(ValueError, match=r"must not override OptimizerV2\.minimize"):
        fit_small(model)


def test_options_that_the_pipeline_does_not_have() -> None:
    configure(2)
    model = small()
    model.set_pipelining_options(pipeline_shedule=Schedule.Sequential)
    with pytest.raises(TypeError, match="pipeline_shedule"):
        fit_small(model)
    model.set_pipelining_options(schedule=Schedule.Interleaved)
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
    assert model._pipelining_kwargs == {}  # each call replaces them
    fit_small(model)
    model.set_pipelining_options(device_mapping=[0])
    with pytest.raises(ValueError, match=r"Each stage must be mapped"):
        fit_small(model)


def test_weights_that_two_ipus_share() -> None:
    configure(2)
    twice = Dense(6)
    x = inputs = keras.Input((6,))
    model = keras.Model(inputs, Dense(2)(twice(twice(x))))
    model.compile("sgd", "mse", steps_per_execution=4)
    assign(model, [0, 1, 1])
    model.set_pipelining_options(4)
    message = "can only be used by pipeline stages on the same IPU"
    with pytest.raises(tf.errors.UnimplementedError, match=message):
        fit_small(model)


def test_one_stage_is_no_pipeline() -> None:
    model = small()
    model.set_pipeline_stage_assignment([0, 0])
    with pytest.raises(ValueError, match="Pipeline requires at least two"):
        fit_small(model)


def test_models_do_not_run_eagerly() -> None:
    with pytest.raises(RuntimeError, match="Keras models cannot run eagerly"):
        small().compile("sgd", "mse", run_eagerly=True)


# --- counting -------------------------------------------------------------------------


class Batches(keras.callbacks.Callback):
    """Notes the hooks of batches."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, int]] = []
        self.losses: list[float] = []
        self.threads: set[int] = set()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.calls.append(("begin", batch))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.calls.append(("end", batch))
        self.losses.append(logs["loss"])
        self.threads.add(threading.get_ident())

    on_test_batch_begin = on_train_batch_begin
    on_test_batch_end = on_train_batch_end

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        self.calls.append(("predict", batch))
        assert logs["outputs"].shape == (4, 2)
        self.threads.add(threading.get_ident())


def test_batches_are_counted_from_the_first_to_the_last_of_an_execution() -> None:
    notes = Batches()
    model = small(stages=False, k=8)
    model.set_gradient_accumulation_options(4)
    history = fit_small(model, callbacks=[notes])
    assert notes.calls == [("begin", 0), ("end", 7), ("begin", 8), ("end", 15)]
    assert list(history.history) == ["loss"]
    assert type(history.history["loss"][0]) is float
    assert len(history.steps["loss"]) == 16


def test_asynchronous_callbacks_see_every_step() -> None:
    model = small(stages=False, k=8)
    keras.utils.set_random_seed(3)
    notes = Batches()
    model.set_asynchronous_callbacks(True)
    history = fit_small(model, callbacks=[notes], shuffle=False)
    expected = [(what, step) for step in range(16) for what in ("begin", "end")]
    assert notes.calls == expected
    assert notes.threads and threading.get_ident() not in notes.threads
    assert notes.losses[-1] == history.history["loss"][0]
    assert len(set(notes.losses)) == 16  # running means, not the last one
    notes.calls.clear()
    model.evaluate(X, Z, batch_size=4, verbose=0, callbacks=[notes])
    assert notes.calls == expected
    notes.calls.clear()
    one = model.predict(X, batch_size=4, callbacks=[notes])
    assert notes.calls == [("predict", step) for step in range(16)]
    model.set_asynchronous_callbacks(False)
    np.testing.assert_array_equal(one, model.predict(X, batch_size=4))


def test_asynchronous_callbacks_run_while_the_device_is_busy() -> None:
    """The data wait for the callback of the first batch."""
    seen = threading.Event()

    class First(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.set()

    def batches() -> Iterator[Any]:
        for i in range(64):
            # more than queues hold: these come after the first result
            if i == 60:
                assert seen.wait(30)
            yield X[:4], Z[:4]

    spec = (tf.TensorSpec((4, 6), tf.float32), tf.TensorSpec((4, 2), tf.float32))
    data = tf.data.Dataset.from_generator(batches, output_signature=spec)
    model = small(stages=False, k=64)
    model.set_asynchronous_callbacks(True)
    model.fit(data, steps_per_epoch=64, callbacks=[First()], verbose=0)


def test_what_an_asynchronous_callback_raises_ends_the_run() -> None:
    class Broken(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            raise ZeroDivisionError("in a callback")

    model = small(stages=False, k=8)
    model.set_asynchronous_callbacks(True)
    with pytest.raises(ZeroDivisionError, match="in a callback"):
        fit_small(model, callbacks=[Broken()])
    assert len(fit_small(model).history["loss"]) == 1


def test_steps_of_replicas() -> None:
    """The worked numbers of two replicas and a pipeline on two IPUs each."""
    from ipu.keras.engine.step_plan import INFINITE, plan_steps

    with pytest.warns(UserWarning, match="larger than the number"):
        plan = plan_steps(INFINITE, 500, 500, replicas=2)
    assert (plan.steps, plan.per_execution) == (250, 250)
    with pytest.raises(RuntimeError, match="is not divisible by"):
        execution._check_divides(execution.Execution(True, 4, 2), plan.per_execution)
    with pytest.warns(UserWarning, match="larger than the number"):
        plan = plan_steps(INFINITE, 512, 500, replicas=2)
    assert (plan.steps, plan.per_execution) == (256, 256)
    execution._check_divides(execution.Execution(True, 4, 2), plan.per_execution)
    message = "contains 3 items, but all 4 replicas are requested to run"
    with pytest.raises(ValueError, match=message):
        plan_steps(3, None, 1, replicas=4)
    with pytest.warns(UserWarning, match="no multiple of the number of replicas"):
        assert plan_steps(7, None, 1, replicas=2).steps == 3


def test_a_pipeline_on_twice_its_ipus() -> None:
    """Two replicas: 250 steps each, which are no whole number of updates."""
    configure(4)
    data = tf.data.Dataset.from_tensor_slices((X, Z))
    data = data.batch(4, drop_remainder=True).repeat()
    model = small(k=500)
    message = r"\(set to 250\) is not divisible by"
    with (
        pytest.warns(UserWarning, match="larger than the number"),
        pytest.raises(RuntimeError, match=message),
    ):
        model.fit(data, steps_per_epoch=500, verbose=0)
    with pytest.raises(ValueError, match="all 2 replicas are requested to run"):
        model.fit(data, steps_per_epoch=1, verbose=0)


def test_updates_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    model = small(stages=False, k=8)
    model.set_gradient_accumulation_options(4)
    with caplog.at_level("DEBUG", logger="ipu"):
        fit_small(model)
    assert "batch size is 4 x 4 accumulated x 1 replica(s)" in caplog.text
    assert "Weight updates in an execution: 2, in an epoch: 4." in caplog.text


@pytest.mark.parametrize(
    "method, expected",
    [
        ("none", [[2.0], [4.0]]),
        ("list", [[[1.0], [2.0]], [[3.0], [4.0]]]),
        ("SUM", [[3.0], [7.0]]),
        (keras.ReplicatedMetricReductionMethod.MEAN, [[1.5], [3.5]]),
    ],
)
def test_results_of_replicas(method: Any, expected: Any) -> None:
    model = small()
    model.set_replication_options(method)
    values = np.array([[[1.0], [2.0]], [[3.0], [4.0]]], np.float32)
    reduced = execution.over_replicas(model, "train", 2)(values)
    np.testing.assert_array_equal(reduced, np.array(expected, np.float32))
    rows = execution.over_replicas(model, "predict", 2)(values)
    assert rows.ravel().tolist() == [1.0, 2.0, 3.0, 4.0]


# --- in files -------------------------------------------------------------------------


def nested() -> tuple[Any, list[int]]:
    inner = keras.Sequential([Dense(6, "relu", input_shape=(6,)), Dense(6)])
    x = inputs = keras.Input((6,))
    x = inner(inner(x))
    return keras.Model(inputs, Dense(3, "softmax")(x)), [0, 0, 0, 1, 2]


@pytest.mark.parametrize("make", [branches, chain, nested])
def test_options_and_stages_are_kept_in_files(make: Any, tmp_path: Any) -> None:
    with IPUStrategy().scope():
        model, stages = make()
        if not model.built:
            model.build((None, 6))
        assign(model, stages)
        model.set_gradient_accumulation_options(3)
        model.set_pipelining_options(
            8,
            device_mapping=[0, 0, 0],
            accumulate_outfeed=True,
            gradient_accumulation_reduction_method="mean",
            offload_weights=False,
        )
        model.set_asynchronous_callbacks(True)
        model.set_replication_options("LIST")
        model.set_infeed_queue_options(prefetch_depth=2)
        model.set_outfeed_queue_options(buffer_depth=5)
        model.save(tmp_path / "model")
        loaded = keras.models.load_model(tmp_path / "model")
        copies = [
            loaded,
            type(model).from_config(model.get_config()),
            keras.models.clone_model(model),
        ]
    np.testing.assert_array_equal(loaded(X[:4]).numpy(), model(X[:4]).numpy())
    for copy in copies:
        assert copy._options_config() == model._options_config()
        assert copy._stage_tree() == model._stage_tree()
        assert copy._pipelining_kwargs == {}
        assert copy._accumulation_reduction is model._accumulation_reduction
    plain = keras.Sequential([Dense(1, input_shape=(2,))])
    assert "ipu_options" not in plain.get_config()


def test_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = small(stages=False)
        model.set_gradient_accumulation_options(2)
        fit_small(model)
