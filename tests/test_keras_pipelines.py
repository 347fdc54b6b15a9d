"""Models in pipelines: the weights of accumulation to the bit, and what they tell."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach
from staged_models import (
    MODELS,
    Batches,
    Dense,
    Schedule,
    X,
    Y,
    Z,
    accumulated,
    assert_same,
    branches,
    chain,
    dropout,
    fit_small,
    in_code_order,
    ipus_of,
    masks,
    shared,
    small,
    staged,
    train,
)

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy

pytestmark = pytest.mark.usefixtures("one_ipu")


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
    attach(ipus_of(make))
    options: dict[str, Any] = {"pipeline_schedule": schedule}
    if make is shared:
        if schedule in (Schedule.Interleaved, Schedule.ZeroBubble):
            pytest.skip("not for stages that share weights on one IPU")
        attach(1)
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
    attach(2)
    assert_same(one, train(in_code_order, staged(steps=4)))


def test_random_layers_draw_the_same_numbers() -> None:
    one = train(dropout, accumulated(steps=4))
    attach(2)
    for schedule in (Schedule.Grouped, Schedule.Interleaved, Schedule.Sequential):
        assert_same(one, train(dropout, staged(steps=4, pipeline_schedule=schedule)))


@pytest.mark.parametrize("method", ["mean", "running_mean"])
def test_reductions_in_a_pipeline(method: str) -> None:
    one = train(chain, accumulated(method))
    attach(2)
    assert_same(one, train(chain, staged(method)))


def test_a_pipeline_on_one_ipu() -> None:
    one = train(chain, accumulated())
    assert_same(one, train(chain, staged(device_mapping=[0, 0])))


def test_a_model_outside_of_a_scope() -> None:
    def fit(stages: bool) -> list[Any]:
        attach(2 if stages else 1)
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
        attach(2 if stages else 1)
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
    """``accumulate_outfeed``: one entry an update, the mean of its batches' losses and
    what metrics say after the last of them."""
    plain = train(chain, accumulated())
    attach(2)
    sums = train(chain, staged(accumulate_outfeed=True))
    for one, other in zip(plain.weights, sums.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    losses = np.array(plain.steps["loss"], np.float32).reshape(-1, 4)
    np.testing.assert_allclose(sums.steps["loss"], losses.mean(1), rtol=1e-5)
    accuracy = np.array(plain.steps["accuracy"], np.float32).reshape(-1, 4)
    assert sums.steps["accuracy"] == accuracy[:, -1].tolist()
    assert sums.history == plain.history
    np.testing.assert_array_equal(plain.outputs, sums.outputs)


@pytest.mark.parametrize("method", ["sum", "mean", "running_mean"])
@pytest.mark.parametrize("schedule", list(Schedule))
def test_sums_of_results_change_no_number(method: str, schedule: Any) -> None:
    attach(2)
    is_looped = schedule is Schedule.InterleavedOneForwardOneBackward
    stages = [0, 1, 2, 3] if is_looped else [0, 0, 1, 1]
    mapping = {"device_mapping": [0, 1, 0, 1]} if is_looped else {}

    def fit(**options: Any) -> Any:
        keras.utils.set_random_seed(2)
        with IPUStrategy().scope():
            hidden = [Dense(4, "relu") for _ in range(3)]
            model = keras.Sequential([keras.Input((6,)), *hidden, Dense(2)])
            model.compile(
                keras.optimizers.SGD(0.01),
                "mse",
                metrics=["mae", keras.metrics.RootMeanSquaredError(name="root")],
                weighted_metrics=["mse"],
                steps_per_execution=16,
            )
            model.set_pipeline_stage_assignment(stages)
            model.set_pipelining_options(
                8,
                gradient_accumulation_reduction_method=method,
                pipeline_schedule=schedule,
                **mapping,
                **options,
            )
            weights = np.linspace(0.5, 2.0, 64, dtype=np.float32)
            history = model.fit(
                X, Z, 4, epochs=2, sample_weight=weights, shuffle=False, verbose=0
            )
            scores = model.evaluate(X, Z, batch_size=4, verbose=0)
            return history.history, scores, [w.tolist() for w in model.get_weights()]

    plain = fit()
    assert set(plain[0]) == {"loss", "mae", "root", "mse"}
    assert fit(accumulate_outfeed=True) == plain


def test_the_tutorial_counts_batches() -> None:
    """500 steps of an epoch and an execution, 4 of an update."""
    attach(2)
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
    attach(2)
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
    attach(2)
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
    attach(2)
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
            attach(1)
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
    attach(2)

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
    attach(max(mapping) + 1)
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


def test_the_timetable_names_layers_of_models_inside() -> None:
    inner = keras.Sequential([Dense(2, name="first"), Dense(2, name="second")])
    model = keras.Sequential([Dense(2, name="before"), inner, Dense(2, name="after")])
    assignment = model.get_pipeline_stage_assignment()
    assignment[0].pipeline_stage = 0
    for entry, stage in zip(
        assignment[1].pipeline_stage_assignments, (0, 1), strict=True
    ):
        entry.pipeline_stage = stage
    assignment[2].pipeline_stage = 1
    model.set_pipeline_stage_assignment(assignment)
    model.set_pipelining_options(4)
    names = model.pipeline_schedule().names
    assert names == ["before ... first", "second ... after"]


def test_what_ran_is_recorded() -> None:
    attach(2)
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


def test_the_fastest_run_is_kept() -> None:
    tables: list[Any] = []

    def timetable(*given: Any) -> Any:
        tables.append(given)
        return given

    recorder = keras.callbacks.PipelineRecorder()
    model = SimpleNamespace(_is_pipelined=lambda: True, _timetable=timetable)
    recorder.set_model(model)

    def times(training: bool, *found: tuple[int, int]) -> Any:
        recorder._on_recorded(training, 4, [("row",) * 4 + one for one in found])
        return [row[4:] for row in recorder.timetable[2]]  # type: ignore[index]

    recorder.on_train_begin()
    first = times(True, (10, 20), (12, 30))
    assert first == [(10, 20), (12, 30)] and recorder.timetable[:2] == (True, 4)
    assert times(True, (100, 120)) == first
    recorder.on_test_begin()  # the validation is not recorded
    assert times(False, (0, 1)) == first == times(True)
    second = times(True, (50, 55), (50, 69))
    assert second == [(50, 55), (50, 69)] and len(tables) == 2
    recorder._abandon()
    for begin in (recorder.on_test_begin, recorder.on_predict_begin):
        begin()
        assert recorder.timetable is None
        assert times(False, (0, 1000)) == [(0, 1000)]
    assert recorder.timetable[0] is False
    recorder.on_train_begin()
    assert recorder.timetable is None


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


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_stops_all_ipus_after_the_same_update() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "usable after" in done.stdout


@pytest.mark.parametrize("schedule", [Schedule.Grouped, Schedule.ZeroBubble])
def test_an_error_leaves_the_weights_of_the_last_update(schedule: Any) -> None:
    attach(2)

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
