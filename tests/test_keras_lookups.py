# SPDX-License-Identifier: MIT
"""Updates of embeddings: rows that were not looked up, by Keras's rules for them.

The numbers in EXPECTED are what the same functions gave with tensorflow-cpu 2.21.0,
tf_keras 2.21.0 and its ``optimizers.legacy``, the optimizers of TensorFlow 2.6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy

layers = keras.layers
optimizers = getattr(keras.optimizers, "legacy", keras.optimizers)
ROWS, WIDTH = 7, 2
IDS = np.array([[0, 1], [1, 1], [2, 0], [3, 3], [0, 5], [5, 1]], np.int32)
TARGETS = np.sin(np.arange(6.0)).reshape(6, 1).astype(np.float32)
TABLE = np.cos(np.arange(ROWS * WIDTH) * 1.3).reshape(ROWS, WIDTH).astype(np.float32)


def made(name: str) -> Any:
    return {
        "SGD": lambda: optimizers.SGD(0.1),
        "momentum": lambda: optimizers.SGD(0.1, momentum=0.9),
        "Nesterov": lambda: optimizers.SGD(0.1, momentum=0.9, nesterov=True),
        "RMSprop": lambda: optimizers.RMSprop(0.01),
        "RMSprop with momentum": lambda: optimizers.RMSprop(0.01, momentum=0.9),
        "RMSprop, centered": lambda: optimizers.RMSprop(
            0.01, momentum=0.9, centered=True
        ),
        "RMSprop, centered alone": lambda: optimizers.RMSprop(0.01, centered=True),
        "Adam": lambda: optimizers.Adam(0.01),
        "AMSGrad": lambda: optimizers.Adam(0.01, amsgrad=True),
        "Adamax": lambda: optimizers.Adamax(0.01),
        "Nadam": lambda: optimizers.Nadam(0.01),
        "Adagrad": lambda: optimizers.Adagrad(0.1),
        "Adadelta": lambda: optimizers.Adadelta(1.0),
        "Ftrl": lambda: optimizers.Ftrl(0.1, l1_regularization_strength=0.01),
    }[name]()


NAMES = [
    "SGD",
    "momentum",
    "Nesterov",
    "RMSprop",
    "RMSprop with momentum",
    "RMSprop, centered",
    "RMSprop, centered alone",
    "Adam",
    "AMSGrad",
    "Adamax",
    "Nadam",
    "Adagrad",
    "Adadelta",
    "Ftrl",
]


def table_after(optimizer: Any, batch: int = 2, epochs: int = 2, **more: Any) -> Any:
    """The table after steps that each look up some of its rows."""
    inputs = keras.Input((2,), dtype="int32")
    table = layers.Embedding(ROWS, WIDTH, **more)
    outputs = layers.Dense(1)(layers.Flatten()(table(inputs)))
    model = keras.Model(inputs, outputs)
    model.set_weights([TABLE, np.full((4, 1), 0.5, "f"), np.zeros(1, "f")])
    model.compile(optimizer, "mse")
    model.fit(IDS, TARGETS, batch, epochs=epochs, shuffle=False, verbose=0)
    return model.get_weights()[0]


def case(name: str) -> dict[str, list[float]]:
    return {"table": np.ravel(table_after(made(name), 2)).tolist()}


def tied() -> dict[str, list[float]]:
    """A table that is multiplied too: all of its rows have a gradient."""
    keras.backend.clear_session()

    class Tied(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.table = layers.Embedding(ROWS, WIDTH)

        def call(self, ids: Any) -> Any:
            mean = tf.reduce_mean(self.table(ids), axis=1)
            return tf.matmul(mean, self.table.embeddings, transpose_b=True)

    model = Tied()
    model(tf.constant(IDS))
    model.set_weights([TABLE])
    model.compile(made("momentum"), "mse")
    y = np.resize(TARGETS, (6, ROWS))
    model.fit(IDS, y, 2, epochs=2, shuffle=False, verbose=0)
    return {"table": np.ravel(model.get_weights()[0]).tolist()}


def gathered() -> dict[str, list[float]]:
    """Rows of a variable of one's own, by tf.gather and tf.nn.embedding_lookup."""

    class Gathered(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.table = tf.Variable(TABLE, name="table")

        def call(self, ids: Any) -> Any:
            one = tf.gather(self.table, tf.cast(ids[:, 0], tf.int32))
            two = tf.nn.embedding_lookup(self.table, tf.cast(ids[:, 1], tf.int32))
            return tf.reduce_sum(one * two, axis=1, keepdims=True)

    model = Gathered()
    model.compile(made("Adamax"), "mse")
    model.fit(IDS, TARGETS, 2, epochs=2, shuffle=False, verbose=0)
    return {"table": np.ravel(model.table.numpy()).tolist()}


def looked_up_twice() -> dict[str, list[float]]:
    """Two lookups in one step."""
    inputs = keras.Input((2,), dtype="int32")
    table, flat = layers.Embedding(ROWS, WIDTH), layers.Flatten()
    one = layers.Dense(1)(flat(table(inputs[:, :1])))
    two = layers.Dense(1)(flat(table(inputs[:, 1:] + 1)))
    model = keras.Model(inputs, layers.Add()([one, two]))
    weights = [np.full(w.shape, 0.5, "f") for w in model.get_weights()]
    model.set_weights([TABLE, *weights[1:]])
    model.compile(made("momentum"), "mse")
    model.fit(IDS, TARGETS, 2, epochs=2, shuffle=False, verbose=0)
    return {"table": np.ravel(model.get_weights()[0]).tolist()}


def a_step_of_one_s_own() -> dict[str, list[float]]:
    """Gradients of a tape in a ``train_step``."""

    class Own(keras.Model):
        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compiled_loss(y, self(x, training=True))
            variables = self.trainable_variables
            gradients = tape.gradient(loss, variables)
            self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
            return {"loss": loss}

    inputs = keras.Input((2,), dtype="int32")
    table = layers.Embedding(ROWS, WIDTH)(inputs)
    model = Own(inputs, layers.Dense(1)(layers.Flatten()(table)))
    model.set_weights([TABLE, np.full((4, 1), 0.5, "f"), np.zeros(1, "f")])
    model.compile(made("Ftrl"), "mse")
    model.fit(IDS, TARGETS, 2, epochs=2, shuffle=False, verbose=0)
    return {"table": np.ravel(model.get_weights()[0]).tolist()}


EXPECTED: dict[str, dict[str, list[float]]] = {
    "SGD": {
        "table": [
            0.959573,
            0.222929,
            -0.619183,
            -0.448197,
            0.461647,
            0.978678,
            0.0834492,
            -0.900162,
            -0.560984,
            0.647596,
            0.814405,
            -0.281401,
            -0.994178,
            -0.369768,
        ],
    },
    "momentum": {
        "table": [
            0.833061,
            0.195834,
            -0.00466016,
            0.0987333,
            0.343016,
            0.919273,
            0.164311,
            -0.871292,
            -0.560984,
            0.647596,
            0.910708,
            -0.205192,
            -0.994178,
            -0.369768,
        ],
    },
    "Nesterov": {
        "table": [
            0.709239,
            0.23072,
            0.116669,
            0.284083,
            0.134308,
            0.91921,
            0.169387,
            -0.933639,
            -0.560984,
            0.647596,
            1.07036,
            -0.203346,
            -0.994178,
            -0.369768,
        ],
    },
    "RMSprop": {
        "table": [
            0.948089,
            0.215415,
            -0.811139,
            -0.679887,
            0.42089,
            0.928978,
            0.107122,
            -0.894344,
            -0.560984,
            0.647596,
            0.85332,
            -0.216586,
            -0.994178,
            -0.369768,
        ],
    },
    "RMSprop with momentum": {
        "table": [
            0.906915,
            0.175096,
            -0.729254,
            -0.598561,
            0.40694,
            0.915069,
            0.127211,
            -0.874302,
            -0.560984,
            0.647596,
            0.830916,
            -0.239421,
            -0.994178,
            -0.369768,
        ],
    },
    "RMSprop, centered": {
        "table": [
            0.905811,
            0.174378,
            -0.722276,
            -0.591697,
            0.405302,
            0.913368,
            0.130649,
            -0.870841,
            -0.560984,
            0.647596,
            0.826907,
            -0.243634,
            -0.994178,
            -0.369768,
        ],
    },
    "RMSprop, centered alone": {
        "table": [
            0.945212,
            0.212544,
            -0.808213,
            -0.676909,
            0.419019,
            0.927131,
            0.110588,
            -0.890813,
            -0.560984,
            0.647596,
            0.849602,
            -0.220394,
            -0.994178,
            -0.369768,
        ],
    },
    "Adam": {
        "table": [
            0.980192,
            0.247667,
            -0.819335,
            -0.688379,
            0.438573,
            0.946655,
            0.0841154,
            -0.91756,
            -0.560984,
            0.647596,
            0.885057,
            -0.184509,
            -0.994178,
            -0.369768,
        ],
    },
    "AMSGrad": {
        "table": [
            0.980192,
            0.247667,
            -0.819341,
            -0.688385,
            0.438583,
            0.946665,
            0.084105,
            -0.917571,
            -0.560984,
            0.647596,
            0.885064,
            -0.184502,
            -0.994178,
            -0.369768,
        ],
    },
    "Adamax": {
        "table": [
            0.992649,
            0.260138,
            -0.836396,
            -0.705455,
            0.459017,
            0.967107,
            0.0636453,
            -0.938039,
            -0.560984,
            0.647596,
            0.899796,
            -0.169773,
            -0.994178,
            -0.369768,
        ],
    },
    "Nadam": {
        "table": [
            0.976192,
            0.243658,
            -0.838287,
            -0.707298,
            0.449006,
            0.957079,
            0.0741006,
            -0.92755,
            -0.560984,
            0.647596,
            0.885501,
            -0.184108,
            -0.994178,
            -0.369768,
        ],
    },
    "Adagrad": {
        "table": [
            0.865026,
            0.134913,
            -0.735516,
            -0.600901,
            0.440153,
            0.94841,
            0.182633,
            -0.81584,
            -0.560984,
            0.647596,
            0.759513,
            -0.313848,
            -0.994178,
            -0.369768,
        ],
    },
    "Adadelta": {
        "table": [
            0.993689,
            0.261186,
            -0.854462,
            -0.723505,
            0.465695,
            0.973766,
            0.0567924,
            -0.944884,
            -0.560984,
            0.647596,
            0.904607,
            -0.164955,
            -0.994178,
            -0.369768,
        ],
    },
    "Ftrl": {
        "table": [
            0.0201321,
            0.00284966,
            -0.634358,
            -0.517068,
            0.10101,
            0.126402,
            0.107505,
            -0.248766,
            -0.560984,
            0.647596,
            0.395648,
            -0.235267,
            -0.994178,
            -0.369768,
        ],
    },
    "tied": {
        "table": [
            0.539521,
            0.0744747,
            -0.495164,
            -0.300967,
            0.166173,
            0.687411,
            0.249989,
            -0.638298,
            -0.395685,
            0.60634,
            0.74828,
            -0.158991,
            -0.881377,
            -0.242054,
        ],
    },
    "gathered": {
        "table": [
            0.96576,
            0.247078,
            -0.836806,
            -0.703793,
            0.478364,
            0.986467,
            0.0443168,
            -0.937861,
            -0.560984,
            0.647596,
            0.899774,
            -0.169646,
            -0.994178,
            -0.369768,
        ],
    },
    "looked_up_twice": {
        "table": [
            0.543861,
            -0.163892,
            -0.891521,
            -0.63097,
            -0.21941,
            0.358459,
            -0.0342727,
            -0.900185,
            -0.53798,
            0.603097,
            0.851555,
            -0.255575,
            -1.03011,
            -0.367019,
        ],
    },
    "a_step_of_one_s_own": {
        "table": [
            0.0201321,
            0.00284966,
            -0.634358,
            -0.517068,
            0.10101,
            0.126402,
            0.107505,
            -0.248766,
            -0.560984,
            0.647596,
            0.395648,
            -0.235267,
            -0.994178,
            -0.369768,
        ],
    },
}
CASES = [tied, gathered, looked_up_twice, a_step_of_one_s_own]


@pytest.mark.parametrize("name", NAMES)
def test_rows_follow_keras_s_rules(name: str) -> None:
    found = case(name)["table"]
    np.testing.assert_allclose(found, EXPECTED[name]["table"], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.__name__)
def test_other_ways_to_look_up(one: Any) -> None:
    expected = EXPECTED[one.__name__]["table"]
    np.testing.assert_allclose(one()["table"], expected, rtol=2e-5, atol=2e-6)


def test_a_strategy_updates_all_rows() -> None:
    with IPUStrategy().scope():
        dense = table_after(made("Ftrl"))
    assert (dense[4] == 0).all()  # never looked up
    np.testing.assert_array_equal(table_after(made("Ftrl"))[4], TABLE[4])


def test_a_lookup_inside_of_a_loop_updates_all_rows() -> None:
    class Looped(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.table = layers.Embedding(ROWS, WIDTH)
            self.table.build(None)

        def call(self, ids: Any) -> Any:
            total = tf.zeros((ids.shape[0], WIDTH))
            for i in tf.range(2):
                total += self.table(tf.gather(ids, i, axis=1))
            return total

    model = Looped()
    model(tf.constant(IDS))
    model.set_weights([TABLE])
    model.compile(made("momentum"), "mse")
    model.fit(IDS, TARGETS, 2, epochs=2, shuffle=False, verbose=0)
    found = model.get_weights()[0]
    assert np.isfinite(found).all() and (found[0] != TABLE[0]).any()
    np.testing.assert_array_equal(found[4], TABLE[4])


def test_an_eager_step_gives_what_a_program_gives() -> None:
    def steps(compiled: bool) -> list[np.ndarray]:
        table, dense = tf.Variable(TABLE), tf.Variable([[0.5], [-0.5]])
        optimizer = made("momentum")

        def step(ids: Any) -> None:
            with tf.GradientTape() as tape:
                rows = tf.nn.embedding_lookup(table, ids)
                loss = tf.reduce_sum(tf.matmul(rows, dense) ** 2)
            gradients = tape.gradient(loss, [table, dense])
            optimizer.apply_gradients(zip(gradients, [table, dense], strict=True))

        run = tf.function(step) if compiled else step
        for ids in IDS:
            run(tf.constant(ids))
        return [table.numpy(), dense.numpy()]

    for one, other in zip(steps(True), steps(False), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_array_equal(steps(False)[0][4], TABLE[4])
