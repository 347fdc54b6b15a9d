# SPDX-License-Identifier: MIT
"""Cases of Keras: training, evaluation, callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras_programs import fixed, numbers, optimizer

Case = Callable[[Any], Any]
_cases: dict[str, Case] = {}


def case(area: str) -> Callable[[Case], Case]:
    def take(function: Case) -> Case:
        _cases[f"{area}: {function.__name__}"] = function
        return function

    return take


def cases() -> dict[str, Case]:
    return {**fits(), **_cases}


X, Y = numbers((12, 3)), numbers((12, 1), 9)
CLASSES = np.array([0, 2, 1, 1, 0, 2, 2, 1, 0, 0, 1, 2], np.int32)


def regression(tf: Any, **options: Any) -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Dense(4, activation="tanh", input_shape=(3,)), layers.Dense(1)]
    )
    fixed(model)
    options.setdefault("optimizer", optimizer(tf, "SGD", learning_rate=0.1))
    options.setdefault("loss", "mse")
    model.compile(**options)
    return model


def classifier(tf: Any, **options: Any) -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Dense(5, "relu", input_shape=(3,)), layers.Dense(3, "softmax")]
    )
    fixed(model)
    options.setdefault("optimizer", optimizer(tf, "Adam", learning_rate=0.05))
    options.setdefault("loss", "sparse_categorical_crossentropy")
    model.compile(**options)
    return model


def history(model: Any, *arguments: Any, **options: Any) -> Any:
    """What `fit` tells, and the weights after it."""
    options = {"epochs": 2, "batch_size": 4, "shuffle": False, "verbose": 0, **options}
    told = model.fit(*arguments, **options)
    return told.history, told.epoch, model.get_weights()


# model and arguments of `fit`
FITS = """
regression(tf), X, Y
regression(tf, metrics=["mae"]), X, Y
regression(tf, metrics=["mae", "mse", tf.keras.metrics.RootMeanSquaredError()]), X, Y
regression(tf, loss="mae"), X, Y
regression(tf, loss=tf.keras.losses.Huber()), X, Y
regression(tf, loss=lambda a, b: tf.reduce_mean(tf.abs(a - b))), X, Y
regression(tf, optimizer="sgd"), X, Y
regression(tf, optimizer=optimizer(tf, "Adam")), X, Y
regression(tf, optimizer=optimizer(tf, "RMSprop")), X, Y
regression(tf), X, Y, "epochs=3, initial_epoch=1"
regression(tf), X, Y, "batch_size=5"
regression(tf), X, Y, "batch_size=12"
regression(tf), X, Y, "sample_weight=np.arange(12.0)"
regression(tf, metrics=["mae"], weighted_metrics=["mae"]), X, Y, "sample_weight=np.arange(12.0)"
regression(tf, weighted_metrics=["mse"]), X, Y, "sample_weight=np.arange(12.0)"
regression(tf), X, Y, "validation_data=(X[:4], Y[:4])"
regression(tf, metrics=["mae"]), X, Y, "validation_data=(X[:4], Y[:4]), validation_freq=2"
regression(tf, metrics=["mae"]), X, Y, "validation_split=0.34"
regression(tf), X, Y, "steps_per_epoch=2"
regression(tf), X, Y, "steps_per_epoch=1, epochs=3"
regression(tf, steps_per_execution=3), X, Y
regression(tf), X, Y[:, 0]
regression(tf), X.astype("float64"), Y.astype("float64")
regression(tf), (np.arange(12) % 5)[:, None] * np.ones((12, 3), "int32"), Y
classifier(tf), X, CLASSES
classifier(tf, metrics=["accuracy"]), X, CLASSES
classifier(tf, metrics=["acc"]), X, CLASSES
classifier(tf, metrics=["sparse_categorical_accuracy"]), X, CLASSES
classifier(tf, metrics=[tf.keras.metrics.SparseCategoricalAccuracy(name="mine")]), X, CLASSES
classifier(tf, loss="categorical_crossentropy", metrics=["accuracy"]), X, np.eye(3, dtype="f4")[CLASSES]
classifier(tf, metrics=["accuracy"]), X, CLASSES, "class_weight={0: 1.0, 1: 2.0, 2: 0.5}"
classifier(tf, metrics=["accuracy"]), X, CLASSES[:, None]
classifier(tf), X, CLASSES, "sample_weight=np.arange(12.0)"
"""


def fits() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for line in FITS.strip().splitlines():

        def fit(tf: Any, line: str = line) -> Any:
            names = {**globals(), "tf": tf}
            model, *arguments = eval(f"[{line}]", names)
            options = {}
            if isinstance(arguments[-1], str):
                options = eval(f"dict({arguments.pop()})", names)
            return history(model, *arguments, **options)

        found[f"fit: {line}"] = fit
    return found


@case("fit")
def evaluate_and_predict(tf):
    model = regression(tf, metrics=["mae"])
    told = model.evaluate(X, Y, batch_size=4, verbose=0)
    named = model.evaluate(X, Y, batch_size=4, verbose=0, return_dict=True)
    return told, named, model.predict(X, batch_size=4, verbose=0), model.metrics_names


@case("fit")
def last_batch_is_smaller(tf):
    model = regression(tf, metrics=["mae"])
    told = model.evaluate(X, Y, batch_size=5, verbose=0)
    return told, model.predict(X, batch_size=7, verbose=0)


@case("fit")
def on_batches(tf):
    model = regression(tf, metrics=["mae"])
    return [
        model.train_on_batch(X[:4], Y[:4]),
        model.train_on_batch(X[4:8], Y[4:8], return_dict=True),
        model.test_on_batch(X[:4], Y[:4]),
        model.predict_on_batch(X[:4]),
    ]


@case("fit")
def of_data_set(tf):
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4, drop_remainder=True)
    model = regression(tf, metrics=["mae"])
    return history(model, data, batch_size=None), model.evaluate(data, verbose=0)


@case("fit")
def of_endless_data_set(tf):
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4, True).repeat()
    return history(regression(tf), data, batch_size=None, steps_per_epoch=2)


@case("fit")
def functional_with_two_outputs(tf):
    layers = tf.keras.layers
    x = layers.Input((3,), name="x")
    hidden = layers.Dense(4, activation="tanh")(x)
    a, b = layers.Dense(1, name="a")(hidden), layers.Dense(2, name="b")(hidden)
    model = fixed(tf.keras.Model(x, [a, b]))
    model.compile(
        optimizer(tf, "SGD", learning_rate=0.1),
        loss={"a": "mse", "b": "mae"},
        loss_weights={"a": 1.0, "b": 0.5},
        metrics={"a": ["mae"], "b": ["mse"]},
    )
    targets = {"a": Y, "b": numbers((12, 2))}
    return history(model, X, targets), model.metrics_names


@case("fit")
def functional_with_two_inputs(tf):
    layers = tf.keras.layers
    x, z = layers.Input((3,), name="x"), layers.Input((2,), name="z")
    y = layers.Dense(1)(layers.Concatenate()([x, z]))
    model = fixed(tf.keras.Model([x, z], y))
    model.compile(optimizer(tf, "SGD", learning_rate=0.1), "mse")
    inputs = {"x": X, "z": numbers((12, 2))}
    return history(model, inputs, Y), model.predict(
        [X, numbers((12, 2))], batch_size=4, verbose=0
    )


@case("fit")
def subclassed(tf):
    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.first = tf.keras.layers.Dense(4, activation="relu")
            self.second = tf.keras.layers.Dense(1)

        def call(self, x, training=False):
            return self.second(self.first(x) * (2.0 if training else 1.0))

    model = Model()
    model(X[:4])
    fixed(model)
    model.compile(optimizer(tf, "SGD", learning_rate=0.1), "mse")
    return history(model, X, Y), model.evaluate(X, Y, batch_size=4, verbose=0)


@case("fit")
def regularized(tf):
    layers, l2 = tf.keras.layers, tf.keras.regularizers.l2(0.1)
    model = tf.keras.Sequential(
        [layers.Dense(4, kernel_regularizer=l2, input_shape=(3,)), layers.Dense(1)]
    )
    fixed(model)
    model.compile(optimizer(tf, "SGD", learning_rate=0.1), "mse")
    return history(model, X, Y), model.losses


@case("fit")
def added_loss_and_metric(tf):
    class Layer(tf.keras.layers.Layer):
        def call(self, x):
            self.add_loss(0.1 * tf.reduce_sum(tf.square(x)))
            return x * 2.0

    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(2, input_shape=(3,)), Layer(), tf.keras.layers.Dense(1)]
    )
    fixed(model)
    model.compile(optimizer(tf, "SGD", learning_rate=0.01), "mse")
    return history(model, X, Y)


@case("fit")
def frozen_layer(tf):
    model = regression(tf)
    model.layers[0].trainable = False
    model.compile(optimizer(tf, "SGD", learning_rate=0.1), "mse")
    return history(model, X, Y), len(model.trainable_weights)


@case("fit")
def frozen_after_compile(tf):
    """`trainable` counts as it was when the model was compiled."""
    model = regression(tf)
    model.trainable = False
    return history(model, X, Y)


@case("fit")
def adversarial_pair(tf):
    """A discriminator that is compiled, frozen, and put into a second model."""
    layers = tf.keras.layers
    judge = regression(tf)
    judge.trainable = False
    maker = fixed(tf.keras.Sequential([layers.Dense(3, input_shape=(3,))]))
    both = tf.keras.Sequential([maker, judge])
    both.compile(optimizer(tf, "SGD", learning_rate=0.1), "mse")
    return [
        judge.train_on_batch(X, Y),
        both.train_on_batch(X, Y),
        judge.train_on_batch(X, Y),
        judge.get_weights(),
        maker.get_weights(),
    ]


@case("fit")
def own_train_step(tf):
    class Model(tf.keras.Sequential):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self(x, training=True) - y)) * 3.0
            gradients = tape.gradient(loss, self.trainable_variables)
            pairs = zip(gradients, self.trainable_variables, strict=True)
            self.optimizer.apply_gradients(pairs)
            return {"mine": loss}

    model = fixed(Model([tf.keras.layers.Dense(1, input_shape=(3,))]))
    model.compile(optimizer(tf, "SGD", learning_rate=0.1))
    return history(model, X, Y)


@case("fit")
def batch_normalized(tf):
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Dense(4, input_shape=(3,)),
            layers.BatchNormalization(),
            layers.Dense(1),
        ]
    )
    fixed(model)
    model.set_weights([abs(w) + 0.1 for w in model.get_weights()])
    model.compile(optimizer(tf, "SGD", learning_rate=0.05), "mse")
    return history(model, X, Y), model.predict(X, batch_size=4, verbose=0)


@case("fit")
def weights_order(tf):
    class Layer(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.v = tf.Variable([1.0], name="v")

        def build(self, shape):
            self.w = self.add_weight(name="w", shape=(2,), initializer="zeros")
            self.n = self.add_weight(
                name="n", shape=(3,), initializer="ones", trainable=False
            )
            self.u = tf.Variable([2.0, 2.0, 2.0, 2.0], name="u")

        def call(self, x):
            return x * self.v

    layer = Layer()
    layer(tf.ones([1, 1]))
    return [
        [w.name.split(":")[0].split("/")[-1] for w in ws]
        for ws in (layer.weights, layer.trainable_weights, layer.non_trainable_weights)
    ]


@case("fit")
def module_in_a_layer(tf):
    class Part(tf.Module):
        def __init__(self):
            super().__init__()
            self.v = tf.Variable([1.0, 2.0])

    class Layer(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.part = Part()

        def call(self, x):
            return x * self.part.v

    layer = Layer()
    return layer(tf.ones([1, 2])), len(layer.weights), len(layer.trainable_variables)


@case("fit")
def wrong_targets(tf):
    return history(regression(tf), X, Y[:5])


@case("fit")
def binary_targets_of_another_width(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, "sigmoid", input_shape=(3,))])
    model.compile(optimizer(tf, "SGD"), "binary_crossentropy")
    return history(fixed(model), X, (Y[:, 0] > 0).astype("f4"))


@case("fit")
def not_compiled(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])
    return model.fit(X, Y, verbose=0)


@case("fit")
def unknown_loss(tf):
    return history(regression(tf, loss="nonsense"), X, Y)


@case("fit")
def same_metric_twice(tf):
    return history(regression(tf, metrics=["mae", "mae"]), X, Y)


@case("fit")
def loss_object_as_metric(tf):
    metric = tf.keras.losses.MeanAbsoluteError(name="mine")
    return history(regression(tf, metrics=[metric]), X, Y)


@case("fit")
def learning_rate_schedules(tf):
    known = tf.keras.optimizers.schedules
    made = [
        known.ExponentialDecay(0.1, 10, 0.5),
        known.ExponentialDecay(0.1, 10, 0.5, staircase=True),
        known.PiecewiseConstantDecay([3, 7], [0.1, 0.01, 0.001]),
        known.PolynomialDecay(0.1, 10, 0.01, power=2.0),
        known.InverseTimeDecay(0.1, 5, 0.5),
        known.CosineDecay(0.1, 10),
    ]
    rates = [[np.asarray(s(k)) for k in (0, 3, 5, 12)] for s in made]
    model = regression(tf, optimizer=optimizer(tf, "SGD", learning_rate=made[0]))
    return rates, history(model, X, Y)


@case("fit")
def saved_as_json(tf):
    model = regression(tf)
    again = tf.keras.models.model_from_json(model.to_json())
    shapes = [list(w.shape) for w in again.get_weights()]
    return shapes, [type(layer).__name__ for layer in again.layers]


@case("fit")
def counts(tf):
    model = classifier(tf)
    return (
        model.count_params(),
        len(model.layers),
        model.input_shape,
        model.output_shape,
    )


# --- callbacks ------------------------------------------------------------------------


@case("callbacks")
def order_of_calls(tf):
    seen = []

    def note(name: str) -> Any:
        def method(self: Any, *arguments: Any, **options: Any) -> None:
            keys = [sorted(a) if isinstance(a, dict) else a for a in arguments]
            seen.append((name, keys))

        return method

    names = [
        f"on_{part}{what}_{when}"
        for part in ("train", "test", "predict")
        for what in ("", "_batch")
        for when in ("begin", "end")
    ] + ["on_epoch_begin", "on_epoch_end"]
    kind = type("Noter", (tf.keras.callbacks.Callback,), {n: note(n) for n in names})
    model = regression(tf, metrics=["mae"])
    history(model, X, Y, validation_data=(X[:4], Y[:4]), callbacks=[kind()])
    model.evaluate(X, Y, batch_size=4, verbose=0, callbacks=[kind()])
    model.predict(X, batch_size=4, verbose=0, callbacks=[kind()])
    return seen


@case("callbacks")
def early_stopping(tf):
    stop = tf.keras.callbacks.EarlyStopping("loss", min_delta=10.0, patience=2)
    told = history(regression(tf), X, Y, epochs=9, callbacks=[stop])
    return told, stop.stopped_epoch


@case("callbacks")
def early_stopping_restores(tf):
    stop = tf.keras.callbacks.EarlyStopping(
        "val_loss", patience=1, restore_best_weights=True, mode="max"
    )
    return history(
        regression(tf), X, Y, epochs=6, validation_data=(X[:4], Y[:4]), callbacks=[stop]
    )


@case("callbacks")
def reduced_rate(tf):
    less = tf.keras.callbacks.ReduceLROnPlateau(
        "loss", factor=0.5, patience=1, min_delta=10.0
    )
    return history(regression(tf), X, Y, epochs=5, callbacks=[less])


@case("callbacks")
def scheduled_rate(tf):
    rate = tf.keras.callbacks.LearningRateScheduler(lambda k, lr: lr * 0.5)
    return history(regression(tf), X, Y, callbacks=[rate])


@case("callbacks")
def called_back(tf):
    seen = []
    callback = tf.keras.callbacks.LambdaCallback(
        on_epoch_end=lambda k, logs: seen.append((k, sorted(logs)))
    )
    return history(regression(tf), X, Y, callbacks=[callback]), seen


@case("callbacks")
def stopped_by_a_callback(tf):
    class Stop(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = epoch == 1

    return history(regression(tf), X, Y, epochs=5, callbacks=[Stop()])


@case("callbacks")
def terminate_on_nan(tf):
    stop = tf.keras.callbacks.TerminateOnNaN()
    model = regression(tf, loss=lambda a, b: tf.reduce_mean(a - b) * float("nan"))
    return history(model, X, Y, callbacks=[stop])[1]


@case("callbacks")
def unknown_monitor(tf):
    stop = tf.keras.callbacks.EarlyStopping("nonsense")
    return history(regression(tf), X, Y, callbacks=[stop])[1]
