# SPDX-License-Identifier: MIT
"""A model keeps its programs from one call to the next, and drops them where they would
be wrong. Traces are counted."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

from ipu import keras, tf
from ipu.config import IPUConfig
from ipu.ipu_strategy import IPUStrategy
from ipu.keras import layers
from ipu.keras.engine.training import program
from ipu.tf._functions import function as _function, tracing

N, BATCH = 24, 8
X = np.sin(np.arange(N * 4, dtype=np.float32)).reshape(N, 4)
Y = np.cos(np.arange(N, dtype=np.float32)).reshape(N, 1)


class Traces:
    """Counts what is traced: programs, and shapes that are looked for."""

    def __init__(self) -> None:
        self.programs = 0
        self.scratch = 0

    def of(self, call: Callable[[], Any]) -> int:
        """How many programs a call traces."""
        before = self.programs
        call()
        return self.programs - before


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Traces:
    found = Traces()
    program, trace = tracing.trace_program, tracing._trace

    def counted(*args: Any, **kwargs: Any) -> Any:
        found.programs += 1
        return program(*args, **kwargs)

    def any_trace(function: Any, args: Any, host: bool, build: Any, *rest: Any) -> Any:
        found.scratch += build.is_scratch
        return trace(function, args, host, build, *rest)

    monkeypatch.setattr(_function, "trace_program", counted)
    monkeypatch.setattr(tracing, "_trace", any_trace)
    return found


def made(**how: Any) -> Any:
    tf.random.set_seed(3)
    model = keras.Sequential(
        [layers.Dense(8, "relu", input_shape=(4,)), layers.Dense(1)]
    )
    model.compile(**{"optimizer": "sgd", "loss": "mse", "metrics": ["mae"], **how})
    return model


def fit(model: Any, **how: Any) -> Any:
    return model.fit(X, Y, BATCH, verbose=0, **how)


CALLS: dict[str, Callable[[Any], Any]] = {
    "fit": fit,
    "fit with validation": lambda m: fit(m, validation_data=(X, Y)),
    "partial batches": lambda m: m.fit(X[:20], Y[:20], BATCH, verbose=0),
    "evaluate": lambda m: m.evaluate(X, Y, BATCH, verbose=0),
    "predict": lambda m: m.predict(X, BATCH),
    "a generator": lambda m: m.predict(iter([X[:8], X[8:11]])),
    "train_on_batch": lambda m: m.train_on_batch(X, Y),
    "test_on_batch": lambda m: m.test_on_batch(X, Y),
    "predict_on_batch": lambda m: m.predict_on_batch(X),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_a_second_call_traces_nothing(
    call: Callable[[Any], Any], traces: Traces
) -> None:
    model = made(steps_per_execution=1)
    assert traces.of(lambda: call(model)) > 0
    scratch = traces.scratch
    assert traces.of(lambda: call(model)) == 0
    assert traces.scratch == scratch


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_kept_programs_give_the_same_bits(call: Callable[[Any], Any]) -> None:
    results = []
    for keeps in (True, False):
        model = made()
        found = []
        for _ in range(3):
            found.append(call(model))
            if not keeps:
                model._drop_programs()
        results.append(
            [getattr(one, "history", one) for one in found] + model.get_weights()
        )
    kept, anew = results
    for one, other in zip(kept, anew, strict=True):
        np.testing.assert_equal(one, other)


def test_one_fit_traces_once(traces: Traces) -> None:
    model = made(steps_per_execution=3)
    scratch = traces.scratch
    assert traces.of(lambda: fit(model, epochs=3)) == 1
    assert traces.scratch == scratch


class Plain(keras.Model):
    """A model with a number that its call reads."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = layers.Dense(1)
        self.scale = 1.0
        self.calls: list[int] = []

    def call(self, x: Any) -> Any:
        self.calls.append(1)
        return self.inner(x) * self.scale


def compiled(model: Any) -> Any:
    model.compile("sgd", "mse", steps_per_execution=3)
    return model


def test_a_subclass_is_looked_at_once(traces: Traces) -> None:
    model = compiled(Plain())
    assert traces.of(lambda: fit(model)) == 1
    assert traces.scratch == 1
    assert traces.of(lambda: fit(model)) == 0
    assert traces.of(lambda: model.evaluate(X, Y, BATCH, verbose=0)) == 1
    assert traces.scratch == 1
    assert len(model.calls) == 3


class OwnStep(Plain):
    """A model with a step of its own."""

    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


def test_a_step_of_ones_own(traces: Traces) -> None:
    model = compiled(OwnStep())
    assert traces.of(lambda: fit(model)) == 1
    assert traces.of(lambda: fit(model)) == 0
    assert traces.scratch == 1


# --- what makes programs wrong --------------------------------------------------------


def replace_weight(model: Any) -> None:
    layer = model.layers[1]
    layer.kernel = tf.Variable(np.zeros((8, 1), np.float32))
    layer._added_weights = [layer.kernel, layer.bias]


def add_loss(model: Any) -> None:
    model.add_loss(model.layers[0].output)


def unfreeze(model: Any) -> None:
    model.layers[0].trainable = False
    model.compile("sgd", "mse")


CHANGES: dict[str, Callable[[Any], Any]] = {
    "compile": lambda m: m.compile("sgd", "mse"),
    "make_train_function": lambda m: m.make_train_function(force=True),
    "trainable": unfreeze,
    "a weight": replace_weight,
    "add_loss": add_loss,
    "add_metric": lambda m: m.add_metric(m.layers[0].output, "size"),
    "add": lambda m: m.add(layers.Dense(1)),
    "pop": lambda m: m.pop(),
    "an attribute of a layer": lambda m: setattr(m.layers[0], "activation", tf.tanh),
    "momentum": lambda m: setattr(m.optimizer, "momentum", 0.5),
    "clipnorm": lambda m: setattr(m.optimizer, "clipnorm", 0.5),
    "a schedule": lambda m: setattr(
        m.optimizer,
        "learning_rate",
        keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9),
    ),
    "infeeds": lambda m: m.set_infeed_queue_options(prefetch_depth=2),
    "accumulation": lambda m: m.set_gradient_accumulation_options(1),
    "epsilon": lambda m: keras.backend.set_epsilon(1e-6),
}


@pytest.fixture
def epsilon() -> Any:
    before = keras.backend.epsilon()
    yield
    keras.backend.set_epsilon(before)


@pytest.mark.usefixtures("epsilon")
@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("call", [fit, CALLS["train_on_batch"]], ids=["fit", "batch"])
def test_a_change_has_models_trace_anew(
    call: Callable[[Any], Any], change: Callable[[Any], None], traces: Traces
) -> None:
    model = made(steps_per_execution=1)
    call(model)
    change(model)
    assert traces.of(lambda: call(model)) > 0
    assert traces.of(lambda: call(model)) == 0


def test_a_number_that_call_reads(traces: Traces) -> None:
    model = compiled(Plain())
    before = model.predict(X, BATCH)
    model.scale = 2.0
    np.testing.assert_array_equal(model.predict(X, BATCH), 2.0 * before)
    model.scale = 2.0
    assert traces.of(lambda: model.predict(X, BATCH)) == 0


class Scaled(keras.losses.Loss):
    """A loss with a number that its call reads."""

    factor = 1.0

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self.factor * tf.reduce_mean(tf.square(y_true - y_pred), axis=-1)


def test_what_a_loss_and_a_schedule_have() -> None:
    loss = Scaled()
    schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    model = made(loss=loss, optimizer=keras.optimizers.SGD(schedule))
    results = []
    for keeps in (True, False):
        model.set_weights(made().get_weights())
        loss.factor, schedule.decay_rate = 1.0, 0.5
        found = [fit(model, shuffle=False).history]
        loss.factor, schedule.decay_rate = 2.0, 0.25
        if not keeps:
            model._drop_programs()
        found.append(fit(model, shuffle=False).history)
        model.optimizer.iterations.assign(0)
        results.append((found, [w.tolist() for w in model.get_weights()]))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m.optimizer, "learning_rate", 0.25),
        lambda m: m.optimizer.learning_rate.assign(0.25),
        lambda m: keras.backend.set_value(m.optimizer.lr, 0.25),
    ],
    ids=["set", "assign", "set_value"],
)
def test_a_rate_needs_no_trace(change: Callable[[Any], None], traces: Traces) -> None:
    model, other = made(), made(optimizer=keras.optimizers.SGD(0.25))
    for one in (model, other):
        one.set_weights(made().get_weights())
    fit(model, shuffle=False)
    model.set_weights(other.get_weights())
    change(model)
    assert traces.of(lambda: fit(model, shuffle=False)) == 0
    fit(other, shuffle=False)
    np.testing.assert_array_equal(model.get_weights()[0], other.get_weights()[0])


def test_a_scheduler_of_rates_needs_no_trace(traces: Traces) -> None:
    model = made()
    scheduler = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    fit(model, epochs=2)
    assert traces.of(lambda: fit(model, epochs=3, callbacks=[scheduler])) == 0
    assert float(model.optimizer.learning_rate.numpy()) == pytest.approx(0.01 / 8)


def test_random_numbers_follow_a_new_seed() -> None:
    model = keras.Sequential([layers.Dropout(0.5, input_shape=(4,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    start = model.get_weights()
    losses = []
    for seed in (1, 1, 2):
        tf.random.set_seed(seed)
        model.set_weights(start)
        losses.append(fit(model).history["loss"])
    assert losses[0] == losses[1] != losses[2]


def test_data_of_another_shape_or_form(traces: Traces) -> None:
    model = made(steps_per_execution=1)
    fit(model)
    assert traces.of(lambda: model.fit(X, Y, 12, verbose=0)) == 1
    weights = np.ones(N, np.float32)
    assert traces.of(lambda: fit(model, sample_weight=weights)) == 1
    assert traces.of(lambda: fit(model)) == 0
    assert traces.of(lambda: model.fit(X, Y, 12, verbose=0)) == 0


def test_class_weights(traces: Traces) -> None:
    model = made(steps_per_execution=1)
    labels = (Y > 0).astype(np.int32)
    for weight, count in ((1.0, 1), (2.0, 1), (1.0, 0)):
        how = {"class_weight": {0: weight}, "verbose": 0}
        assert traces.of(lambda h=how: model.fit(X, labels, BATCH, **h)) == count


# --- runs at the same time, runs that fail --------------------------------------------


def test_a_callback_may_use_the_model() -> None:
    model, other = made(), made()
    other.set_weights(model.get_weights())
    found: list[Any] = []

    class Looks(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            found.append(self.model.evaluate(X, Y, BATCH, verbose=0))
            found.append(self.model.predict(X, BATCH))

    data = {"validation_data": (X, Y), "epochs": 2, "shuffle": False}
    for _ in range(2):
        fit(model, callbacks=[Looks()], **data)
        fit(other, **data)
    assert len(found) == 8
    for mine, its in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, its)


def test_two_threads_may_predict() -> None:
    model = made()
    expected = model.predict(X, BATCH)
    found: list[Any] = []

    def predict() -> None:
        found.extend(model.predict(X, BATCH) for _ in range(5))

    threads = [threading.Thread(target=predict) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 10
    for one in found:
        np.testing.assert_array_equal(one, expected)


def test_what_a_failed_run_leaves_is_not_used() -> None:
    model, other = made(), made()
    other.set_weights(model.get_weights())
    fit(model), fit(other)

    class Fails(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fit(model, callbacks=[Fails()])
    model.set_weights(other.get_weights())
    fits = [fit(one, shuffle=False).history for one in (model, other)]
    assert fits[0] == fits[1]


# --- devices ------------------------------------------------------------------------


def test_a_strategy_that_is_entered_again(traces: Traces) -> None:
    strategy = IPUStrategy()
    with strategy.scope():
        model = made()
        fit(model)
    assert traces.of(lambda: fit(model)) == 0
    with strategy.scope():
        assert traces.of(lambda: fit(model)) == 0


def test_devices_that_are_configured_again() -> None:
    """A model goes on to the bits that it would have had; its random numbers, too."""
    results = []
    for ipus in (None, [1, 1]):
        attach(1)
        tf.random.set_seed(3)
        model = keras.Sequential(
            [layers.Dense(8, input_shape=(4,)), layers.Dropout(0.5), layers.Dense(1)]
        )
        model.compile("adam", "mse")
        fit(model)
        if ipus is not None:
            config = IPUConfig()
            config.auto_select_ipus = ipus
            config.configure_ipu_system()
        fit(model)
        results.append(model.get_weights())
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)
    attach(1)


def test_a_cleared_session(traces: Traces) -> None:
    model = made()
    fit(model)
    keras.backend.clear_session()
    assert traces.of(lambda: fit(model)) == 0


# --- memory -------------------------------------------------------------------------


def test_few_programs_are_kept() -> None:
    model = made()
    for size in range(1, 20):
        model.predict(X[:size], size)
    assert len(model._programs._waiting) == program._MOST_PROGRAMS


def test_data_are_not_kept() -> None:
    model = made()
    x, y = X.copy(), Y.copy()
    gone = [weakref.ref(x), weakref.ref(y)]
    model.fit(x, y, BATCH, verbose=0)
    model.train_on_batch(x, y)
    del x, y
    gc.collect()
    assert [one() for one in gone] == [None, None]


def test_programs_go_with_their_model() -> None:
    model = compiled(Plain())
    fit(model)
    model.train_on_batch(X, Y)
    programs = [weakref.ref(one) for one in model._programs._waiting.values()]
    assert len(programs) == 2
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert [one() for one in (gone, *programs)] == [None, None, None]


def test_programs_that_are_dropped_go_at_once() -> None:
    model = made()
    fit(model)
    (programs,) = (weakref.ref(one) for one in model._programs._waiting.values())
    gc.disable()
    try:
        model._drop_programs()
        assert programs() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "twin",
    [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))],
    ids=["deepcopy", "pickle"],
)
def test_copies_have_programs_of_their_own(twin: Callable[[Any], Any]) -> None:
    model = made()
    fit(model)
    other = twin(model)
    before = model.get_weights()
    other.fit(X, Y, BATCH, verbose=0)
    for mine, was in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(mine, was)
    assert not np.array_equal(other.get_weights()[0], before[0])


def test_a_model_from_a_configuration(traces: Traces) -> None:
    model = made()
    fit(model)
    other = keras.Sequential.from_config(model.get_config())
    other.compile("sgd", "mse", metrics=["mae"])
    assert traces.of(lambda: fit(other)) > 0
    assert traces.of(lambda: fit(model)) == 0


@pytest.mark.parametrize(
    "optimizer",
    ["adam", "rmsprop", "adagrad", "adadelta", "adamax", "nadam", "ftrl", "adamw"],
)
def test_optimizers_keep_nothing_that_differs(optimizer: str, traces: Traces) -> None:
    model = made(optimizer=optimizer)
    fit(model)
    assert traces.of(lambda: fit(model)) == 0


def test_scaled_losses(traces: Traces) -> None:
    optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    model = made(optimizer=optimizer)
    fit(model)
    assert traces.of(lambda: fit(model)) == 0


def test_pipelines(traces: Traces) -> None:
    attach(2)
    try:
        with IPUStrategy().scope():
            model = made(steps_per_execution=4)
            model.set_pipeline_stage_assignment([0, 1])
            model.set_pipelining_options(4)
            calls = {
                "fit": lambda: model.fit(X, Y, 6, verbose=0).history,
                "evaluate": lambda: model.evaluate(X, Y, 6, verbose=0),
                "predict": lambda: model.predict(X, 6),
            }
            for name, call in calls.items():
                assert traces.of(call) > 0, name
                assert traces.of(call) == 0, name
            assert set(calls["fit"]()) == {"loss", "mae"}
            assert calls["predict"]().shape == (N, 1)
    finally:
        attach(1)


def test_large_programs_run_again_after_a_rest() -> None:
    tf.random.set_seed(3)
    model = keras.Sequential([layers.Dense(512, "relu", input_shape=(4,))])
    rows = np.resize(X, (2048, 4))
    first = model.predict(rows, 1024)
    (programs,) = model._programs._waiting.values()
    (entry,) = programs._full._function._cache.values()
    assert entry.traced.program.memory_report["slab_bytes"] > 1 << 20
    np.testing.assert_array_equal(model.predict(rows, 1024), first)


# --- Python's part ------------------------------------------------------------------


def python_calls(call: Callable[[], Any]) -> tuple[int, int]:
    """How many functions of Python a call calls, and how deep in one another."""
    calls = depth = deepest = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls, depth, deepest
        if event == "call":
            calls, depth = calls + 1, depth + 1
            deepest = max(deepest, depth)
        elif event == "return":
            depth -= 1

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return calls, deepest


def test_a_layer_is_made_in_few_calls() -> None:
    keras.layers.Dense(4)
    calls, _ = python_calls(lambda: keras.layers.Dense(4))
    assert calls <= 160


@pytest.mark.parametrize("pace", [None, 3])
def test_epochs_of_one_execution_take_few_calls(pace: int | None) -> None:
    model = made(steps_per_execution=pace, metrics=None)
    fit(model, epochs=3)
    few, deepest = python_calls(lambda: fit(model, epochs=4))
    more, _ = python_calls(lambda: fit(model, epochs=5))
    assert more - few <= 100
    assert deepest < 20


@pytest.mark.parametrize("how", ["eagerly", "under a tape"])
def test_functions_that_run_op_by_op_leave_fit_alone(how: str) -> None:
    expected = fit(made(), epochs=2).history
    try:
        tf.config.run_functions_eagerly(how == "eagerly")
        with tf.GradientTape():
            found = fit(made(), epochs=2).history
    finally:
        tf.config.run_functions_eagerly(False)
    assert found == expected
