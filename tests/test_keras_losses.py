"""Losses, metrics, activations, optimizers and schedules, against NumPy."""

from __future__ import annotations

import sys
import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy

RNG = np.random.default_rng(5)
LOGITS = RNG.normal(size=(6, 4)).astype(np.float32)
LABELS = RNG.integers(0, 4, 6)
ONE_HOT = np.eye(4, dtype=np.float32)[LABELS]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


PER_SAMPLE = -np.log(softmax(LOGITS.astype(np.float64)))[np.arange(6), LABELS]


# --- losses ---------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6,), (6, 1)])
@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
def test_sparse_crossentropy(shape: tuple[int, ...], dtype: str) -> None:
    labels = LABELS.reshape(shape).astype(dtype)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    np.testing.assert_allclose(
        float(loss(labels, LOGITS)), PER_SAMPLE.mean(), rtol=1e-5
    )
    of_probabilities = keras.losses.SparseCategoricalCrossentropy()
    probabilities = softmax(LOGITS)
    np.testing.assert_allclose(
        float(of_probabilities(labels, probabilities)), PER_SAMPLE.mean(), rtol=1e-5
    )


def test_categorical_crossentropy() -> None:
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    np.testing.assert_allclose(
        float(loss(ONE_HOT, LOGITS)), PER_SAMPLE.mean(), rtol=1e-5
    )
    loss = keras.losses.CategoricalCrossentropy()
    np.testing.assert_allclose(
        float(loss(ONE_HOT, 3 * softmax(LOGITS))), PER_SAMPLE.mean(), rtol=1e-5
    )
    smooth = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.2)
    targets = ONE_HOT * 0.8 + 0.2 / 4
    expected = -(targets * np.log(softmax(LOGITS))).sum(-1).mean()
    np.testing.assert_allclose(float(smooth(ONE_HOT, LOGITS)), expected, rtol=1e-5)


def test_reductions_and_weights() -> None:
    weights = np.arange(6, dtype=np.float32)
    for reduction, expected in [
        ("sum", (PER_SAMPLE * weights).sum()),
        ("auto", (PER_SAMPLE * weights).mean()),
        ("none", PER_SAMPLE * weights),
    ]:
        loss = keras.losses.SparseCategoricalCrossentropy(True, reduction=reduction)
        value = loss(LABELS, LOGITS, sample_weight=weights).numpy()
        np.testing.assert_allclose(value, expected, rtol=1e-5)
    with pytest.raises(ValueError, match="Invalid Reduction Key"):
        keras.losses.MeanSquaredError(reduction="average")


def test_squared_absolute_and_binary() -> None:
    y = RNG.normal(size=(5, 3)).astype(np.float32)
    p = RNG.normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(
        keras.losses.mean_squared_error(y, p).numpy(),
        ((y - p) ** 2).mean(-1),
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        float(keras.losses.MeanAbsoluteError()(y, p)),
        np.abs(y - p).mean(),
        rtol=1e-5,
    )
    targets = (y > 0).astype(np.int32)
    expected = -(
        targets * np.log(sigmoid(p)) + (1 - targets) * np.log(1 - sigmoid(p))
    ).mean()
    of_logits = keras.losses.BinaryCrossentropy(from_logits=True)
    np.testing.assert_allclose(float(of_logits(targets, p)), expected, rtol=1e-5)
    of_probabilities = keras.losses.BinaryCrossentropy()
    np.testing.assert_allclose(
        float(of_probabilities(targets, sigmoid(p))), expected, rtol=1e-4
    )


def test_softmax_then_from_logits_uses_the_logits_and_warns() -> None:
    big = LOGITS * 200
    expected = -np.log(np.maximum(softmax(big.astype(np.float64)), 1e-300))[
        np.arange(6), LABELS
    ].mean()
    for name, labels in [
        ("SparseCategoricalCrossentropy", LABELS),
        ("CategoricalCrossentropy", ONE_HOT),
    ]:
        kind = getattr(keras.losses, name)
        with pytest.warns(UserWarning, match="does not represent logits") as seen:
            value = kind(from_logits=True)(labels, keras.activations.softmax(big))
        assert seen[0].filename == __file__
        np.testing.assert_allclose(float(value), expected, rtol=1e-5)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value = kind()(labels, keras.activations.softmax(big))
        # exact although the probabilities have rounded to 0
        np.testing.assert_allclose(float(value), expected, rtol=1e-5)


@pytest.mark.parametrize("eagerly", [False, True])
def test_logits_are_those_of_the_head_whatever_comes_after_it(eagerly: bool) -> None:
    class Gated(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.head = keras.layers.Dense(2, "softmax", kernel_initializer="identity")

        def call(self, x):
            y = self.head(x)
            for _ in range(600):
                x = keras.activations.sigmoid(x)
            return y

    model = Gated()
    sgd, loss = keras.optimizers.SGD(1.0), keras.losses.CategoricalCrossentropy()
    model.compile(sgd, loss, run_eagerly=eagerly)
    x, y = np.array([[100.0, -100.0]], "f"), np.array([[0.0, 1.0]], "f")
    assert model.train_on_batch(x, y) == 200.0
    np.testing.assert_array_equal(model.head.bias.numpy(), [-1.0, 1.0])


def test_logits_of_many_heads() -> None:
    x = keras.Input((2,))
    heads = [keras.layers.Softmax()(x) for _ in range(20)]
    model = keras.Model(x, heads)
    model.compile(loss=keras.losses.CategoricalCrossentropy(from_logits=True))
    y = np.array([[0.0, 1.0]], "f")
    with pytest.warns(UserWarning, match="from_logits=True"):
        losses = model.evaluate(np.array([[100.0, 0.0]], "f"), [y] * 20, verbose=0)
    assert losses == [2000.0] + [100.0] * 20


@pytest.mark.parametrize("eagerly", [False, True])
def test_a_mask_is_that_of_its_tensor_whatever_comes_after_it(eagerly: bool) -> None:
    class Masked(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.masking = keras.layers.Masking()
            self.mean = keras.layers.GlobalAveragePooling1D()

        def call(self, x):
            first = self.masking(x)
            for _ in range(600):
                self.masking(x)
            return self.mean(first)

    model = Masked()
    model.compile(loss="mse", run_eagerly=eagerly)
    x = np.array([[[2.0], [0.0], [4.0]]], "f")
    np.testing.assert_array_equal(model.predict(x, verbose=0), [[3.0]])


def test_what_a_tensor_came_from_dies_with_it() -> None:
    kept = keras.activations.sigmoid(tf.constant([0.5]))
    for _ in range(100_000):  # of a chain as well: taken apart without recursion
        kept = keras.activations.sigmoid(kept)
    logits = kept._notes["logits"][0]
    before = sys.getrefcount(logits)
    del kept
    assert sys.getrefcount(logits) < before


def test_loss_errors() -> None:
    with pytest.raises(ValueError, match="Did you mean 'sparse_categorical_cross"):
        keras.losses.get("sparse_categorical_crossentrpy")
    with pytest.raises(ValueError, match="belong to categorical_crossentropy"):
        keras.losses.sparse_categorical_crossentropy(ONE_HOT, LOGITS)
    with pytest.raises(ValueError, match="are incompatible"):
        keras.losses.categorical_crossentropy(LABELS[:, None], LOGITS)


# --- metrics --------------------------------------------------------------------------


def test_metrics_over_batches() -> None:
    predicted = softmax(LOGITS)
    hits = predicted.argmax(-1) == LABELS
    for metric, targets in [
        (keras.metrics.SparseCategoricalAccuracy(), LABELS),
        (keras.metrics.CategoricalAccuracy(), ONE_HOT),
    ]:
        for part in (slice(0, 2), slice(2, 6)):
            metric.update_state(targets[part], predicted[part])
        np.testing.assert_allclose(float(metric.result()), hits.mean(), rtol=1e-6)
        metric.reset_state()
        assert float(metric.result()) == 0.0
    binary = keras.metrics.BinaryAccuracy()
    binary.update_state([[1.0], [0.0], [1.0]], [[0.9], [0.8], [0.2]])
    np.testing.assert_allclose(float(binary.result()), 1 / 3, rtol=1e-6)
    mean = keras.metrics.Mean()
    mean.update_state([1.0, 3.0], sample_weight=[3.0, 1.0])
    assert float(mean.result()) == 1.5
    root = keras.metrics.RootMeanSquaredError()
    root.update_state([0.0, 0.0], [3.0, 4.0])
    np.testing.assert_allclose(float(root.result()), np.sqrt(12.5), rtol=1e-6)
    with pytest.raises(ValueError, match="Did you mean 'mae'"):
        keras.metrics.get("maee")


def test_accuracy_means_what_the_shapes_say() -> None:
    from ipu.keras.metrics import resolve

    wide = tf.constant(LOGITS)
    narrow = tf.constant(LOGITS[:, :1])
    column = tf.constant(LABELS[:, None])
    assert resolve("accuracy", column, wide).__name__ == "sparse_categorical_accuracy"
    assert resolve("accuracy", tf.constant(ONE_HOT), wide).__name__ == (
        "categorical_accuracy"
    )
    assert resolve("acc", column, narrow).__name__ == "binary_accuracy"
    assert resolve("ce", column, wide).__name__ == "sparse_categorical_crossentropy"


# --- activations ----------------------------------------------------------------------


X = np.linspace(-4, 4, 17, dtype=np.float32).reshape(1, -1)
ACTIVATIONS = {
    "linear": X,
    "relu": np.maximum(X, 0),
    "sigmoid": sigmoid(X),
    "tanh": np.tanh(X),
    "softmax": softmax(X),
    "elu": np.where(X > 0, X, np.exp(X) - 1),
    "selu": 1.05070098 * np.where(X > 0, X, 1.67326324 * (np.exp(X) - 1)),
    "softplus": np.log1p(np.exp(X)),
    "softsign": X / (1 + np.abs(X)),
    "swish": X * sigmoid(X),
    "exponential": np.exp(X),
    "hard_sigmoid": np.clip(0.2 * X + 0.5, 0, 1),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name: str) -> None:
    value = keras.activations.get(name)(tf.constant(X)).numpy()
    np.testing.assert_allclose(value, ACTIVATIONS[name], rtol=2e-5, atol=1e-6)


def test_relu_arguments_and_softmax_axes() -> None:
    value = keras.activations.relu(tf.constant(X), alpha=0.1, max_value=3, threshold=1)
    expected = np.where(X >= 3, 3, np.where(X >= 1, X, 0.1 * (X - 1)))
    np.testing.assert_allclose(value.numpy(), expected, atol=1e-6)
    first = keras.activations.softmax(tf.constant(LOGITS), axis=0).numpy()
    np.testing.assert_allclose(first, softmax(LOGITS.T).T, rtol=1e-5)
    with pytest.raises(ValueError, match="1D"):
        keras.activations.softmax(tf.constant([1.0, 2.0]))


# --- optimizers -----------------------------------------------------------------------


def updates(optimizer: object, steps: int = 3) -> list[np.ndarray]:
    """Weights after each of some steps with gradients 1 and 2 times the step."""
    weight = tf.Variable(np.array([1.0, -2.0], np.float32))
    seen = []
    for step in range(1, steps + 1):
        gradient = tf.constant(np.array([1.0, 2.0], np.float32) * step)
        optimizer.apply_gradients([(gradient, weight)])
        seen.append(weight.numpy())
    assert int(optimizer.iterations) == steps
    return seen


def gradients(steps: int = 3) -> list[np.ndarray]:
    return [np.array([1.0, 2.0]) * step for step in range(1, steps + 1)]


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd(momentum: float, nesterov: bool) -> None:
    w, v = np.array([1.0, -2.0]), np.zeros(2)
    seen = updates(keras.optimizers.SGD(0.1, momentum, nesterov))
    for g, value in zip(gradients(), seen, strict=True):
        v = momentum * v - 0.1 * g
        w = w + (momentum * v - 0.1 * g if nesterov and momentum else v)
        np.testing.assert_allclose(value, w, rtol=1e-5)


def test_adam() -> None:
    w, m, v = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    seen = updates(keras.optimizers.Adam(0.1))
    for t, (g, value) in enumerate(zip(gradients(), seen, strict=True), 1):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        rate = 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        w = w - rate * m / (np.sqrt(v) + 1e-7)
        np.testing.assert_allclose(value, w, rtol=1e-4)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("centered", [False, True])
def test_rmsprop(momentum: float, centered: bool) -> None:
    w, r, mg, v = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2), np.zeros(2)
    optimizer = keras.optimizers.RMSprop(0.1, momentum=momentum, centered=centered)
    for g, value in zip(gradients(), updates(optimizer), strict=True):
        r = 0.9 * r + 0.1 * g * g
        mg = 0.9 * mg + 0.1 * g
        spread = r - mg * mg if centered else r
        if momentum:
            v = momentum * v + 0.1 * g / np.sqrt(spread + 1e-7)
            w = w - v
        else:
            w = w - 0.1 * g / (np.sqrt(spread) + 1e-7)
        np.testing.assert_allclose(value, w, rtol=1e-4)


def test_clipping_and_decay() -> None:
    w = np.array([1.0, -2.0])
    seen = updates(keras.optimizers.SGD(1.0, clipvalue=1.5), 1)
    np.testing.assert_allclose(seen[0], w - [1.0, 1.5])
    seen = updates(keras.optimizers.SGD(1.0, clipnorm=1.0), 1)
    np.testing.assert_allclose(seen[0], w - np.array([1, 2]) / np.sqrt(5), rtol=1e-5)
    seen = updates(keras.optimizers.SGD(1.0, global_clipnorm=10.0), 1)
    np.testing.assert_allclose(seen[0], w - [1.0, 2.0], rtol=1e-6)
    seen = updates(keras.optimizers.SGD(1.0, decay=1.0), 2)
    np.testing.assert_allclose(seen[1], w - [1, 2] - np.array([2, 4]) / 2, rtol=1e-6)


def test_learning_rate_can_be_assigned_and_slots_read() -> None:
    optimizer = keras.optimizers.SGD(0.5, momentum=0.5)
    weight = tf.Variable(np.zeros(2, np.float32))
    gradient = tf.constant([1.0, 1.0])
    optimizer.apply_gradients([(gradient, weight)])
    optimizer.learning_rate = 0.25
    assert float(optimizer.lr) == 0.25
    optimizer.apply_gradients([(gradient, weight)])
    np.testing.assert_allclose(weight.numpy(), -0.5 - 0.25 - 0.25)
    np.testing.assert_allclose(optimizer.get_slot(weight, "momentum").numpy(), -0.5)
    saved = optimizer.get_weights()
    assert int(saved[0]) == 2
    optimizer.set_weights([np.int32(7), saved[1] * 0])
    assert int(optimizer.iterations) == 7
    with pytest.raises(ValueError, match="expects 2"):
        optimizer.set_weights([saved[0]])
    assert optimizer.get_config()["learning_rate"] == 0.25


def test_optimizer_errors() -> None:
    with pytest.raises(ValueError, match="Did you mean 'adam'"):
        keras.optimizers.get("adm")
    with pytest.raises(TypeError, match="Did you mean 'clipnorm'"):
        keras.optimizers.SGD(clipnrom=1)
    with pytest.raises(ValueError, match="learning_rate >= 0"):
        keras.optimizers.SGD(-1.0)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        keras.optimizers.SGD(momentum=2)
    with pytest.raises(ValueError, match="No gradients provided"):
        keras.optimizers.SGD().apply_gradients([(None, tf.Variable(1.0))])


def test_minimize_a_callable() -> None:
    weight = tf.Variable(3.0)
    optimizer = keras.optimizers.SGD(0.1)

    def loss() -> object:
        return tf.square(weight.value())

    optimizer.minimize(loss, [weight])
    optimizer.minimize(loss, [weight])
    np.testing.assert_allclose(float(weight), 3 * 0.8 * 0.8, rtol=1e-6)


# --- schedules ------------------------------------------------------------------------


STEPS = np.arange(0, 35)
SCHEDULES = [
    (
        keras.optimizers.schedules.ExponentialDecay(0.5, 10, 0.3),
        0.5 * 0.3 ** (STEPS / 10),
    ),
    (
        keras.optimizers.schedules.ExponentialDecay(0.5, 10, 0.3, staircase=True),
        0.5 * 0.3 ** (STEPS // 10),
    ),
    (
        keras.optimizers.schedules.InverseTimeDecay(0.5, 10, 2.0),
        0.5 / (1 + 2.0 * STEPS / 10),
    ),
    (
        keras.optimizers.schedules.PiecewiseConstantDecay([5, 20], [1.0, 0.5, 0.1]),
        np.where(STEPS <= 5, 1.0, np.where(STEPS <= 20, 0.5, 0.1)),
    ),
    (
        keras.optimizers.schedules.PolynomialDecay(0.5, 20, 0.1, power=2.0),
        0.4 * (1 - np.minimum(STEPS, 20) / 20) ** 2 + 0.1,
    ),
    (
        keras.optimizers.schedules.PolynomialDecay(0.5, 10, 0.1, cycle=True),
        0.4 * (1 - STEPS / (10 * np.maximum(1, np.ceil(STEPS / 10)))) + 0.1,
    ),
    (
        keras.optimizers.schedules.CosineDecay(0.5, 30, alpha=0.1),
        0.5 * (0.9 * 0.5 * (1 + np.cos(np.pi * np.minimum(STEPS, 30) / 30)) + 0.1),
    ),
]


@pytest.mark.parametrize(("schedule", "expected"), SCHEDULES)
def test_schedule(schedule: object, expected: np.ndarray) -> None:
    seen = [float(schedule(int(step))) for step in STEPS]
    np.testing.assert_allclose(seen, expected, rtol=1e-5, atol=1e-7)
    config = schedule.get_config()
    again = type(schedule).from_config(config)
    assert float(again(7)) == seen[7]


def test_schedule_drives_an_optimizer() -> None:
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([0], [1.0, 0.5])
    seen = updates(keras.optimizers.SGD(schedule), 2)
    np.testing.assert_allclose(seen[1], [1 - 1 - 0.5 * 2, -2 - 2 - 0.5 * 4])
    with pytest.raises(ValueError, match="1 less"):
        keras.optimizers.schedules.PiecewiseConstantDecay([1], [1.0])


# --- as Keras has it ------------------------------------------------------------------


def test_gelu_is_exact_unless_it_is_said_otherwise() -> None:
    from math import erf

    x = np.linspace(-4, 4, 17)
    exact = np.array([0.5 * v * (1 + erf(v / 2**0.5)) for v in x])
    near = 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))
    given = tf.constant(x.astype(np.float32))
    for found in (
        keras.activations.gelu(given),
        keras.layers.Activation("gelu")(given),
        keras.activations.gelu(given, approximate=False),
    ):
        np.testing.assert_allclose(found.numpy(), exact, rtol=2e-5, atol=1e-6)
    found = keras.activations.gelu(given, approximate=True)
    np.testing.assert_allclose(found.numpy(), near, rtol=2e-5, atol=1e-6)


def test_slopes_at_zero() -> None:
    x = tf.Variable([0.0, -1.0, 1.0])
    # as tensorflow-cpu 2.21.0 and tf_keras 2.21.0 give them
    for function, slopes in [
        (keras.activations.selu, [1.050701, 0.64676857, 1.050701]),
        (tf.nn.selu, [1.050701, 0.64676857, 1.050701]),
        (keras.activations.elu, [1.0, 0.36787945, 1.0]),
        (lambda v: keras.activations.elu(v, 2.0), [2.0, 0.7357589, 1.0]),
    ]:
        with tf.GradientTape() as tape:
            y = function(x)
        np.testing.assert_allclose(tape.gradient(y, x).numpy(), slopes, rtol=1e-5)


@pytest.mark.parametrize("activation", ["sigmoid", "softmax", None])
@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_binary_crossentropy_wants_a_target_for_each_output(
    activation: str | None, shape: tuple[int, ...]
) -> None:
    model = keras.Sequential(
        [keras.layers.Dense(2, activation=activation, input_shape=(3,))]
    )
    model.compile("sgd", keras.losses.BinaryCrossentropy())
    with pytest.raises(ValueError, match="needs a target for each output"):
        model.fit(np.ones((4, 3)), np.ones(shape), verbose=0)
    model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)


@pytest.mark.parametrize("name", ["initializers", "losses", "metrics", "optimizers"])
def test_modules_have_their_short_names(name):
    assert getattr(tf, name) is getattr(keras, name)


@pytest.mark.parametrize("scope", [False, True])
@pytest.mark.parametrize(
    "shapes", [((8, 1), (7, 1)), ((8, 7), (7, 1)), ((8, 1), (1, 1))]
)
def test_a_last_axis_of_one_is_lost(shapes: Any, scope: bool) -> None:
    """Of predictions that have one axis more than the targets."""
    of_targets, of_sample = shapes
    rng = np.random.default_rng(0)
    p = rng.random((8, *of_sample)).astype(np.float32)
    y = (rng.random(of_targets) > 0.5).astype(np.float32)
    with IPUStrategy().scope() if scope else nullcontext():
        model = keras.Sequential([keras.layers.Activation("linear")])
        model.build((4, *of_sample))
        model.compile("sgd", "mse", metrics=["mae", "accuracy"], steps_per_execution=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = model.evaluate(p, y, batch_size=4, verbose=0)
    difference = p[..., 0] - y
    hits = (p[..., 0] > 0.5) == y
    expected = [np.mean(difference**2), np.mean(abs(difference)), np.mean(hits)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("axis", [None, -1, 1])
def test_programs_find_the_logits_of_plain_activations(axis: int | None) -> None:
    """`activation=tf.nn.softmax` is common; Keras looks at the operation of a graph."""
    x = tf.constant([[200.0, 0.0]])
    y = [[0.0, 1.0]]

    def losses(x: Any) -> Any:
        return (
            keras.losses.categorical_crossentropy(y, tf.nn.softmax(x, axis)),
            keras.losses.binary_crossentropy(y, tf.sigmoid(x)),
            keras.losses.categorical_crossentropy(y, tf.identity(tf.nn.softmax(x))),
        )

    rounded = [float(loss[0]) for loss in losses(x)]
    assert rounded == pytest.approx([16.118095, 8.013193, 16.118095], rel=1e-3)
    traced = [float(loss[0]) for loss in tf.function(losses)(x)]
    assert traced == pytest.approx([200.0, 100.346573, 16.118095])
    model = keras.Sequential([keras.layers.Dense(2, tf.nn.softmax, input_shape=(2,))])
    model.set_weights([np.eye(2), np.zeros(2)])
    model.compile("sgd", "categorical_crossentropy")
    assert model.evaluate(x.numpy(), np.array(y), verbose=0) == 200.0
