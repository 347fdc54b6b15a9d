"""What models in stages refuse, how they count, and what is kept of them."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach
from staged_models import (
    Batches,
    Dense,
    Schedule,
    X,
    Z,
    assign,
    branches,
    chain,
    fit_small,
    run_plainly,
    small,
)

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.keras.engine.training import execution

pytestmark = pytest.mark.usefixtures("one_ipu")


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    run_plainly(monkeypatch)


# --- what is refused ------------------------------------------------------------------


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
    attach(2)
    model = small()
    model.set_pipelining_options(pipeline_shedule=Schedule.Sequential)
    with pytest.raises(
        TypeError, match=r"'pipeline_shedule'. Did you mean 'pipeline_schedule'\?"
    ):
        fit_small(model)
    model.set_pipelining_options(schedule=Schedule.Interleaved)
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
    assert model._pipelining_kwargs == {}  # each call replaces them
    fit_small(model)
    with pytest.raises(ValueError, match="another name of `pipeline_schedule`"):
        model.set_pipelining_options(
            schedule=Schedule.GPipe, pipeline_schedule=Schedule.Sequential
        )
    model.set_pipelining_options(device_mapping=[0])
    with pytest.raises(ValueError, match=r"Each stage must be mapped"):
        fit_small(model)


def test_weights_that_two_ipus_share() -> None:
    attach(2)
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
    with (
        IPUStrategy().scope(),
        pytest.raises(RuntimeError, match="Keras models cannot run eagerly"),
    ):
        small().compile("sgd", "mse", run_eagerly=True)


# --- counting -------------------------------------------------------------------------


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
    from ipu.keras.engine.training.step_plan import INFINITE, plan_steps

    pipeline = execution.Execution(True, 4, 2)
    with pytest.warns(UserWarning, match="larger than the number"):
        plan = plan_steps(INFINITE, 500, 500, replicas=2)
    assert (plan.steps, plan.per_execution) == (250, 250)
    with pytest.raises(RuntimeError, match=r"You gave 500, but an epoch has 250"):
        execution._check_divides(pipeline, plan.per_execution, 500)
    with pytest.warns(UserWarning, match="larger than the number"):
        plan = plan_steps(INFINITE, 512, 500, replicas=2)
    assert (plan.steps, plan.per_execution) == (256, 256)
    execution._check_divides(pipeline, plan.per_execution, 500)
    message = "contains 3 items, but all 4 replicas are requested to run"
    with pytest.raises(ValueError, match=message):
        plan_steps(3, None, 1, replicas=4)
    with pytest.warns(UserWarning, match="not a multiple of the number of replicas"):
        assert plan_steps(7, None, 1, replicas=2).steps == 3


def test_a_pipeline_on_twice_its_ipus() -> None:
    """Two replicas: 250 steps each, which are not a whole number of updates."""
    attach(4)
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
