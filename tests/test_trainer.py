# SPDX-License-Identifier: MIT
"""What compiling, training and evaluating settle, apart from their programs."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.keras.engine.training import accounting, fit_loops, trainer
from ipu.keras.engine.training.trainer import Trainer

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(12, 2)
Y = X[:, :1]


def small(kind: Any = keras.Sequential, **how: Any) -> Any:
    model = kind([keras.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse", **how)
    return model


def test_compile_and_its_keywords() -> None:
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    assert not model.compiled and model._is_paced and model._steps_per_execution == 1
    assert model.stop_training is False is model.run_eagerly
    for call in (model.fit, model.evaluate, model.train_on_batch, model.test_on_batch):
        with pytest.raises(RuntimeError, match="You must compile your model"):
            call(X, Y)
    model.compile(jit_compile=True, sample_weight_mode=None, auto_scale_loss=True)
    assert model.compiled and model._is_paced and model._steps_per_execution == 1
    assert type(model.optimizer).__name__ == "RMSprop" and model.run_eagerly is False
    model.compile("sgd", "mse", steps_per_execution=3, run_eagerly=True)
    assert model._steps_per_execution == 3 and not model._is_paced
    assert model.run_eagerly is True
    with pytest.raises(TypeError, match=r"`compile`: \['metric'\]\. .*'metrics'"):
        model.compile("sgd", metric=["mae"])
    with pytest.raises(TypeError) as caught:
        model.compile("sgd", **{"self_": 1})
    assert "'self'" not in str(caught.value)
    with IPUStrategy().scope():
        model = small()
        model.compile("sgd", "mse", run_eagerly=False)
        assert isinstance(model._scope(), nullcontext)
        with pytest.raises(ValueError, match="for models outside of a strategy"):
            model.compile("sgd", "mse", steps_per_execution="auto")
    small(steps_per_execution="auto")
    with model._scope() as strategy:
        assert strategy is model._strategy
    with pytest.raises(RuntimeError, match="cannot run eagerly when using"):
        model.compile("sgd", "mse", run_eagerly=True)


def test_losses_of_halves_are_scaled() -> None:
    scaling = keras.optimizers.LossScaleOptimizer
    for policy, how, given, is_scaled in (
        ("mixed_float16", {}, "sgd", True),
        ("mixed_float16", {"auto_scale_loss": False}, "sgd", False),
        ("mixed_float16", {}, scaling(keras.optimizers.SGD()), True),
        ("float32", {}, "sgd", False),
    ):
        keras.mixed_precision.set_global_policy(policy)
        try:
            model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
        finally:
            keras.mixed_precision.set_global_policy("float32")
        model.compile(given, "mse", **how)
        assert isinstance(model.optimizer, scaling) is is_scaled
        if not isinstance(given, str):
            assert model.optimizer is given


def test_which_runs_are_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = ("train", "test", "predict")

    def strict(model: Any) -> list[bool]:
        return [model._is_strict(mode) for mode in modes]

    model = small()
    assert strict(model) == [False] * 3
    model._accumulation_steps = 1
    assert strict(model) == [False] * 3
    model._accumulation_steps = 2
    assert strict(model) == [True, False, False]
    model._accumulation_steps = None

    class Own(keras.Sequential):
        def make_test_function(self, force: bool = False) -> Any:
            return super().make_test_function(force)

    assert strict(small(Own)) == [False, True, False]
    with IPUStrategy().scope():
        assert strict(model) == [True] * 3
    monkeypatch.setattr(model, "_has_stages", lambda: True)
    assert strict(model) == [True] * 3
    monkeypatch.undo()
    attach(2)
    try:
        assert strict(model) == [True] * 3
    finally:
        attach(1)


def test_arguments_of_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    run = fit_loops.Run

    def noted(*given: Any, **how: Any) -> Any:
        made.append((given[1:], how))
        return run(*given, **how)

    monkeypatch.setattr(fit_loops, "Run", noted)
    model = small()

    def fit(**how: Any) -> list[Any]:
        made.clear()
        history = model.fit(X, Y, 4, verbose=0, **how)
        assert history.epoch == list(range(how.get("initial_epoch", 0), how["epochs"]))
        return made

    ((train, _),) = fit(epochs=5, initial_epoch=2, class_weight={0: 2.0})
    mode, given, steps, epochs, argument, again, weights, resumed = train
    assert (mode, steps, epochs, argument, again) == (
        *("train", None, 3, "steps_per_epoch", False),
    )
    assert given.batch_size == 4 and given.shuffle is True and given.workers == (10, 1)
    assert weights == {0: 2.0} and resumed == 0
    ((train, _),) = fit(epochs=2, initial_epoch=2, steps_per_epoch=2, shuffle=False)
    assert train[2:4] == (2, 1) and train[1].shuffle is False
    train, test = fit(epochs=1, validation_split=0.25, max_queue_size=3, workers=2)
    assert len(train[0][1].x) == 9 and train[0][1].workers == (3, 2)
    (mode, given, *rest), how = test
    assert mode == "test" and rest == [None, 1, "validation_steps"]
    assert len(given.x) == 3
    assert given.batch_size == 4 and given.workers == (3, 2)
    assert how == {"again": True}
    pair = (X[:6], Y[:6])
    train, test = fit(
        epochs=1,
        validation_split=0.25,
        validation_data=pair,
        validation_steps=1,
        validation_batch_size=3,
    )
    assert len(train[0][1].x) == 12 and len(test[0][1].x) == 6
    assert test[0][1].batch_size == 3 and test[0][2] == 1
    data = tf.data.Dataset.from_tensor_slices(pair).batch(3)
    train, test = fit(epochs=1, validation_data=data)
    assert test[0][1].batch_size is None and test[0][1].x is data
    weighed = (*pair, np.ones(6))
    train, test = fit(epochs=1, validation_data=weighed)
    assert test[0][1].sample_weight is weighed[2]
    history = model.fit(X, Y, 4, 4, 0, validation_data=pair, validation_freq=2).history
    assert len(history["val_loss"]) == 2
    history = model.fit(
        *(X, Y, 4, 2, 0), validation_data=pair, validation_freq=[1]
    ).history
    assert len(history["val_loss"]) == 1
    for verbose, told in (("auto", 1), (1, 1), (2, 2), (0, 0)):
        callback = keras.callbacks.Callback()
        model.fit(X, Y, 4, 1, verbose, callbacks=[callback])
        assert callback.params["verbose"] == told  # type: ignore[index]
    made.clear()
    numbers = np.array([0] * 9 + [1] * 3)
    model.fit(X, numbers, 4, class_weight="balanced", verbose=0)
    assert made[0][0][6] == {0: 12 / 18, 1: 2.0}
    # epochs that were run before the run was stopped
    monkeypatch.setattr(trainer.backup, "resumed", lambda model, given: (3, []))
    made.clear()
    assert model.fit(X, Y, 4, 5, 0, initial_epoch=1).epoch == [3, 4]
    assert made[0][0][3] == 2 and made[0][0][7] == 2
    explained: list[Any] = []

    def noted_too(*given: Any) -> Any:
        explained.append(given[-2:])
        return nullcontext()

    monkeypatch.setattr(trainer, "explained", noted_too)
    for size in (None, 3):
        model.fit(*(X, Y, 4, 5, 0), validation_data=pair, validation_batch_size=size)
        asked, has_own_size = explained.pop()
        assert asked.given.batch_size == (size or 4) and has_own_size is (size == 3)


def test_steps_of_ones_own_are_tried_once() -> None:
    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)
            self.scale: Any = None
            self.seen: list[Any] = []

        def call(self, x: Any, training: Any = None) -> Any:
            self.seen.append(training)
            if self.scale is None:
                self.scale = tf.Variable(2.0)
            return self.dense(x) * self.scale

    class OwnStep(Own):
        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
            weights = self.trainable_variables
            pairs = zip(tape.gradient(loss, weights), weights, strict=True)
            self.optimizer.apply_gradients(pairs)
            return {"loss": loss}

    model = OwnStep()
    model.compile("adam", "mse")
    model.fit(X, Y, 4, verbose=0)
    assert model.built and model._tried_steps == {"train"}
    traced = len(model.seen)
    model.fit(X[:6], Y[:6], 3, verbose=0)  # of another size
    assert len(model.seen) == traced + 1
    model = Own()
    assert model._known_outputs() is None
    model.compile("adam", "mse")
    assert model.predict(X).shape == (12, 1) and model.seen[0] is False
    assert model._known_outputs() is not None
    model.dense.built = False
    assert model._known_outputs() is None
    model.dense.built, model.built = True, False
    assert model._known_outputs() is None

    class Nothing(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            return {"loss": tf.reduce_mean(data[0])}

    model = Nothing([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(X, Y, 4, verbose=0)
    assert model.built


def test_who_resets_metrics() -> None:
    class Lists(keras.Sequential):
        @property
        def metrics(self) -> list[Any]:
            return super().metrics

    class Resets(keras.Sequential):
        def reset_metrics(self) -> None:
            super().reset_metrics()

    assert small()._resets_what_it_lists is True
    assert small(Lists)._resets_what_it_lists is False
    assert small(Resets)._resets_what_it_lists is False


def test_names_of_outputs() -> None:
    def names(outputs: Any, given: Any = None, **compiled: Any) -> list[str]:
        model = small()
        model._compile_arguments = compiled
        model.__dict__["output_names"] = given
        return list(Trainer._names_of(model, outputs))

    two = [tf.zeros(1), tf.zeros(1)]
    assert names(two) == ["output_1", "output_2"]
    assert names(two, ["a", "b"]) == ["a", "b"]
    assert names(two, ["a"]) == ["output_1", "output_2"]
    by_name = {"y": tf.zeros(1), "x": tf.zeros(1)}
    assert names(by_name) == ["x", "y"] == names(by_name, ["a", "b"])
    assert names(by_name, ["a", "b"], loss={"a": "mse"}) == ["a", "b"]
    assert names(by_name, ["a", "b"], loss="mae") == ["x", "y"]
    assert names(by_name, ["a", "x"], loss={"x": "mse"}) == ["x", "y"]
    assert names({"x": two}) == ["output_1", "output_2"]


def test_a_loss_of_ones_own_is_given_what_it_takes() -> None:
    seen: list[Any] = []

    class Plain(keras.Sequential):
        def compute_loss(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
            seen.append(None)
            return super().compute_loss(x, y, y_pred, sample_weight)

    class Told(keras.Sequential):
        def compute_loss(
            self, x: Any, y: Any, y_pred: Any, sample_weight: Any, training: Any = 7
        ) -> Any:
            seen.append(training)
            return 2.0 * super().compute_loss(x, y, y_pred, sample_weight)

    class Any_(keras.Sequential):
        def compute_loss(self, **how: Any) -> Any:
            seen.append(how["training"])
            return super().compute_loss(**how)

    for kind, wanted in ((Plain, [None] * 2), (Told, [True, False]), (Any_, [True, 0])):
        seen.clear()
        model = small(kind, run_eagerly=True)
        model.train_on_batch(X, Y)
        loss = model.test_on_batch(X, Y)
        assert seen == wanted
        right = np.mean((model.predict(X) - Y) ** 2) * (2.0 if kind is Told else 1.0)
        assert loss == pytest.approx(right, rel=1e-5)


def test_an_account_is_of_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "account_of", lambda *given: given)
    model = small()
    asked = model.account(X, Y, batch_size=3, training=False, machine="bow", replicas=2)
    assert asked == (model, X, Y, 3, False, "bow", {"replicas": 2})


def test_results_as_they_are_told() -> None:
    results = {"loss": 1.0, "mae": 2.0}
    assert trainer._as_told(results, True) is results
    assert trainer._as_told(results, False) == [1.0, 2.0]
    assert trainer._as_told({"loss": 1.0}, False) == 1.0
    assert type(trainer._number(np.float32(2))) is float
    assert trainer._number(np.ones(2)).shape == (2,)
    assert trainer._checked_logs("train_step", results) == results
    with pytest.raises(TypeError, match="`train_step` must return a dict"):
        trainer._checked_logs("train_step", [1.0])
    with pytest.raises(ValueError, match="at least one result"):
        trainer._checked_logs("train_step", {})


def test_single_batches_and_their_results() -> None:
    model = small(metrics=["mae"])
    _, mae = model.test_on_batch(X[:4], Y[:4])
    both = model.test_on_batch(X[4:], Y[4:], reset_metrics=False, return_dict=True)
    whole = model.test_on_batch(X, Y, return_dict=True)
    assert both["mae"] == pytest.approx(whole["mae"], rel=1e-5) != mae
    assert list(whole) == ["loss", "mae"] == model.metrics_names
    weights = np.zeros(12, np.float32)
    assert model.test_on_batch(X, Y, weights)[0] == 0.0
    before = model.get_weights()[0]
    assert model.train_on_batch(X, Y, weights)[0] == 0.0
    assert (model.get_weights()[0] == before).all()
    first = model.train_on_batch(X[:4], Y[:4], reset_metrics=False)
    assert first[0] > 0.0
    only = small()
    assert type(only.train_on_batch(X, Y)) is float
    by_name = only.train_on_batch(X, Y, return_dict=True)
    assert list(by_name) == ["loss"]


def test_states_that_layers_carry() -> None:
    rnn = keras.layers.LSTM(2, stateful=True, batch_input_shape=(4, 3, 2))
    model = keras.Sequential([rnn, keras.layers.Dense(1)])
    model.predict(np.ones((4, 3, 2), np.float32), batch_size=4)
    assert all((np.asarray(state) != 0).any() for state in rnn.states)
    model.stateful = True  # it does not reset itself
    model.reset_states()
    assert all((np.asarray(state) == 0).all() for state in rnn.states)


def test_metrics_of_layers() -> None:
    model = small(metrics=["mae"])
    (dense,) = model.layers
    dense.seen = dense.same = keras.metrics.Mean("seen")
    model.own = keras.metrics.Sum("own")
    model.evaluate(X, Y, verbose=0)
    names = model.metrics_names
    assert names[:2] == ["loss", "mae"] and sorted(names[2:]) == ["own", "seen"]
    dense.seen.update_state(3.0)
    variables = model._made_variables()
    assert all(any(v is one for one in variables) for v in dense.seen.variables)
    model.fit(X, Y, verbose=0)
    count = len(model._made_variables())
    model.optimizer = None
    assert len(model._made_variables()) == count - 2  # those of its steps and rate
    model.reset_metrics()
    assert float(dense.seen.result()) == 0.0


def test_what_is_trained_is_settled_by_compile() -> None:
    model = small()
    kernel = model.get_weights()[0]
    (dense,) = model.layers
    dense.trainable = False
    model.fit(X, Y, verbose=0)
    assert (model.get_weights()[0] != kernel).any() and dense.trainable is False
    model.compile("sgd", "mse")
    kernel = model.get_weights()[0]
    dense.trainable = True
    model.train_on_batch(X, Y)
    assert (model.get_weights()[0] == kernel).all() and dense.trainable is True


def test_targets_that_are_missing() -> None:
    for call, name in ((small().fit, "fit"), (small().evaluate, "evaluate")):
        with pytest.raises(
            ValueError, match=f"Give {name} `y`, or a data set of tuples"
        ):
            call(X, verbose=0)
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd")
    with pytest.raises(ValueError, match="cannot be trained because it has no loss"):
        model.fit(X, Y, verbose=0)
    model.evaluate(X, Y, verbose=0)


def test_functions_of_iterators_are_kept() -> None:
    model = small(steps_per_execution=2)
    made = {name: getattr(model, f"make_{name}_function") for name in ("train", "test")}
    for name, make in made.items():
        kept = make()
        assert kept is make() is getattr(model, f"{name}_function")
        programs = model._programs
        assert make(force=True) is not kept and model._programs is not programs
    model.compile("sgd", "mse")
    assert model.train_function is None is model.test_function
    assert model._programs is not programs
    predict = model.make_predict_function()
    assert predict is model.make_predict_function() is model.predict_function
    assert model.make_predict_function(True) is not predict

    class Own(keras.Sequential):
        def make_predict_function(self, force: bool = False) -> Any:
            return None

    with pytest.raises(tf.errors.UnimplementedError, match="cannot be overridden"):
        small(Own).predict(X)


def test_a_loop_over_steps_is_one_call() -> None:
    """The functions of an iterator take the batches of an execution."""
    counts = []

    class Scaled(keras.Sequential):
        scale: Any = None

        def call(self, x: Any, training: Any = None) -> Any:
            if self.scale is None:
                self.scale = tf.Variable(2.0)
            return super().call(x) * self.scale

    for steps in (1, 2, 3):
        model = Scaled([keras.layers.Dense(1)])
        model.compile("adam", "mse", steps_per_execution=steps)
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(2, drop_remainder=True)
        iterator = iter(data.repeat())
        logs = model.make_train_function()(iterator)
        counts.append(int(model.optimizer.iterations))
        assert list(logs) == ["loss"] and np.shape(logs["loss"]) == ()
        assert model.make_predict_function()(iterator).shape == (2, 1)
    assert counts == [1, 2, 3]


def test_what_a_step_gives() -> None:
    none = keras.losses.MeanSquaredError(reduction="none")
    model = small()
    model.compile(keras.optimizers.SGD(0.0), none)
    steps = model.fit(X, Y, 4, shuffle=False, verbose=0).steps["loss"]
    wanted = ((model.predict(X) - Y) ** 2).reshape(3, 4).mean(1)
    np.testing.assert_allclose(steps, wanted, rtol=1e-5)

    class Own(keras.Sequential):
        def compute_metrics(self, x: Any, y: Any, y_pred: Any, weight: Any) -> Any:
            raise NotImplementedError

        def make_train_function(self, force: bool = False) -> Any:
            return lambda iterator: {"loss": 7.0}

    model = small(Own)
    assert model.fit(X, Y, 4, verbose=0).history["loss"] == [7.0]

    class Converted(keras.Sequential):
        def compute_metrics(
            self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
        ) -> Any:
            found = tf.constant(2.0)
            if tf.reduce_sum(x) > 1000.0:
                found = tf.constant(1.0)
            return {"found": found}

    assert small(Converted).evaluate(X, Y, verbose=0) == 2.0
    model = keras.Sequential([keras.layers.Dropout(0.9)])
    model.compile("sgd", "mse")
    np.testing.assert_array_equal(model.predict(X), X)
    assert model.evaluate(X, X, verbose=0) == 0.0
    assert Trainer._fed(model, X) is X


def test_single_batches_leave_nothing_behind() -> None:
    model = small()
    model.set_gradient_accumulation_options(3)
    model.compile("sgd", "mse", steps_per_execution=3)
    model.fit(X, Y, 4, verbose=0)
    kernel = model.get_weights()[0]
    resumed: list[int] = []
    resume = model._data_order.resume
    model._data_order.resume = lambda: (resumed.append(1), resume())
    model.test_on_batch(X, Y)
    model.predict_on_batch(X)
    assert not resumed
    model.train_on_batch(X, Y)
    assert (model.get_weights()[0] != kernel).all() and resumed == [1]
    kept = model._programs._waiting.values()
    assert len(kept) == 4
    assert all(getattr(program, "_step", None) is None for program in kept)


def test_captures_of_a_model_without_weights() -> None:
    model = keras.Sequential([keras.layers.ReLU(input_shape=(2,))])
    sgd = keras.optimizers.SGD(0.1)
    als = keras.optimizers.ALSOptimizer(sgd, captured_grads_only=True)
    model.compile(als, "mse")
    assert len(model.fit(X, X, 4, verbose=0).steps["loss"]) == 3


def test_a_model_without_a_scope() -> None:
    @tf.function
    def inside(x: Any) -> Any:
        return small().predict(x)

    with pytest.raises(RuntimeError, match="Detected a call to fit, evaluate, predict"):
        inside(tf.constant(X))
    model: Any = SimpleNamespace(_strategy=None)
    with Trainer._scope(model) as entered:
        assert entered is None
