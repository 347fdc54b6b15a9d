# SPDX-License-Identifier: MIT
"""Dtype policies, and optimizers that scale the loss.

A factor that is a power of two changes no bit of a float32 training, but where numbers
leave the normal range: that is what these optimizers are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

from ipu import drop_in, keras, tf
from ipu.ipu_strategy import IPUStrategy

LossScaleOptimizer = keras.mixed_precision.LossScaleOptimizer
Policy = keras.mixed_precision.Policy
layers = keras.layers
optimizers = keras.optimizers

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 12)).astype(np.float32)
Y = X[:, :3].argmax(1).astype(np.int32)
START = [
    RNG.normal(size=shape).astype(np.float32) * 0.3
    for shape in ((12, 8), (8,), (8, 3), (3,))
]


@pytest.fixture(autouse=True)
def _float32_again() -> Iterator[None]:
    yield
    keras.mixed_precision.set_global_policy(None)


def dense(**kwargs: Any) -> Any:
    model = keras.Sequential(
        [
            layers.Dense(8, "relu", input_shape=(12,), **kwargs),
            layers.Dense(3, **kwargs),
            layers.Activation("linear", dtype="float32"),
        ]
    )
    model.set_weights(START)
    return model


def fitted(optimizer: Any, model: Any = None, **kwargs: Any) -> Any:
    model = model or dense()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, steps_per_execution=2, **kwargs)
    model.fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    return model


def assert_same(a: Any, b: Any) -> None:
    for one, other in zip(a.get_weights(), b.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


# --- policies -------------------------------------------------------------------------


def test_policies() -> None:
    mixed = Policy("mixed_float16")
    assert (mixed.compute_dtype, mixed.variable_dtype) == ("float16", "float32")
    half = Policy("float16")
    assert (half.compute_dtype, half.variable_dtype) == ("float16", "float16")
    assert Policy.from_config(mixed.get_config()) == mixed != half
    assert hash(mixed) == hash(Policy("mixed_float16"))
    assert keras.mixed_precision.global_policy() == Policy("float32")
    keras.backend.set_floatx("float16")
    try:
        assert keras.mixed_precision.global_policy() == half
        assert layers.Dense(1).dtype == "float16"
    finally:
        keras.backend.set_floatx("float32")


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("mixed_float17", ValueError, "Cannot convert value mixed_float17"),
        ("mixed_bfloat16", ValueError, "no bfloat16 on an IPU"),
        (tf.float16, TypeError, "pass DType.name. Got: float16"),
        (16, TypeError, "must be a string, but got: 16"),
    ],
)
def test_policies_that_are_none(name: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        Policy(name)


@pytest.mark.parametrize("given", ["global", "name", "policy", "config"])
def test_layers_take_policies(given: str) -> None:
    mixed = Policy("mixed_float16")
    if given == "global":
        keras.mixed_precision.set_global_policy(mixed)
    told = {
        "global": {},
        "name": {"dtype": "mixed_float16"},
        "policy": {"dtype": mixed},
        "config": {"dtype": {"class_name": "Policy", "config": mixed.get_config()}},
    }[given]
    layer = layers.Dense(4, **told)
    assert layer.dtype == layer.variable_dtype == "float32"
    assert layer.compute_dtype == "float16"
    assert layer.dtype_policy == mixed
    keras.mixed_precision.set_global_policy("float32")
    same = layers.Dense.from_config(layer.get_config())
    assert same.dtype_policy == mixed
    x = X[:2]
    result = layer(x)
    assert result.dtype == tf.float16
    assert layer.kernel.dtype == tf.float32
    product = tf.matmul(x.astype(np.float16), tf.cast(layer.kernel, tf.float16))
    np.testing.assert_array_equal(result, product + tf.cast(layer.bias, tf.float16))


def test_inputs_keep_their_dtype() -> None:
    keras.mixed_precision.set_global_policy("mixed_float16")
    inputs = keras.Input((3,))
    assert inputs.dtype == tf.float32
    hidden = layers.Dense(2)(inputs)
    assert hidden.dtype == tf.float16
    outside = layers.Dense(2, dtype="float32")(hidden)
    assert outside.dtype == tf.float32


@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.LayerNormalization(),
        lambda: layers.BatchNormalization(),
        lambda: keras.Sequential([layers.Embedding(12, 4), layers.Flatten()]),
        lambda: layers.MultiHeadAttention(2, 4),
        lambda: layers.PReLU(),
        lambda: layers.Rescaling(0.5),
        lambda: layers.TimeDistributed(layers.Dense(2)),
        lambda: layers.Conv1D(4, 2, activation="relu"),
        lambda: layers.SeparableConv1D(4, 2),
        lambda: layers.Conv1DTranspose(4, 2),
        lambda: layers.MaxPooling1D(),
        lambda: layers.LSTM(3, return_sequences=True),
        lambda: layers.LSTM(3, activation="relu"),
        lambda: layers.GRU(3),
        lambda: layers.Bidirectional(layers.GRU(3, reset_after=False)),
        lambda: layers.SimpleRNN(3),
    ],
)
@pytest.mark.parametrize("training", [False, True])
def test_layers_compute_in_float16(make: Callable[[], Any], training: bool) -> None:
    """Near to what they give in float32, and their weights stay float32."""
    x = RNG.uniform(0, 3, (4, 3, 5)).astype(np.float32)
    args = (x, x) if "attention" in make().name else (x,)
    if "sequential" in make().name:
        args = (x[0].astype(np.int32),)
    kwargs = {"training": training}
    plain = make()
    expected = plain(*args, **kwargs)
    keras.mixed_precision.set_global_policy("mixed_float16")
    mixed = make()
    mixed(*args, **kwargs)
    mixed.set_weights(plain.get_weights())
    result = mixed(*args, **kwargs)
    assert result.dtype == tf.float16
    assert all(weight.dtype == tf.float32 for weight in mixed.weights)
    np.testing.assert_allclose(result, expected, rtol=2e-2, atol=2e-2)


def test_gradients_are_the_weights() -> None:
    layer = layers.Dense(2, dtype="mixed_float16")
    layer.build((None, 12))

    @tf.function(jit_compile=True)
    def gradients(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.cast(layer(x), tf.float32))
        return tape.gradient(loss, layer.trainable_variables)

    for gradient in (IPUStrategy().run(gradients, (X,)), gradients(X)):
        assert [g.dtype for g in gradient] == [tf.float32, tf.float32]
        half = X.astype(np.float16)
        product = tf.matmul(half, np.ones((64, 2), np.float16), transpose_a=True)
        np.testing.assert_array_equal(gradient[0], tf.cast(product, tf.float32))


def test_training_in_float16() -> None:
    keras.mixed_precision.set_global_policy("mixed_float16")
    model = fitted("adam")
    assert isinstance(model.optimizer, LossScaleOptimizer)
    assert int(model.optimizer.iterations) == 16
    keras.mixed_precision.set_global_policy("float32")
    plain = fitted("adam")
    assert not isinstance(plain.optimizer, LossScaleOptimizer)
    for one, other in zip(model.get_weights(), plain.get_weights(), strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, atol=2e-2)
        assert (one != other).any()


def test_saved_models_keep_their_policy(tmp_path: Any) -> None:
    keras.mixed_precision.set_global_policy("mixed_float16")
    model = fitted(optimizers.Adam(0.01))
    model.save(tmp_path / "model.safetensors")
    keras.mixed_precision.set_global_policy("float32")
    again = keras.models.load_model(tmp_path / "model.safetensors")
    assert again.layers[0].compute_dtype == "float16"
    assert again.optimizer.get_config() == model.optimizer.get_config()
    again.optimizer.dynamic_counter.assign(0)
    for one, other in zip(
        again.optimizer.get_weights()[:-1],
        model.optimizer.get_weights()[:-1],
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    for each in (model, again):
        each.fit(X, Y, batch_size=8, epochs=1, shuffle=False, verbose=0)
    assert_same(model, again)


# --- loss scaling ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"inner_optimizer": "sgd"}, TypeError, "must be an instance of"),
        ({"dynamic": 1}, TypeError, "must be a bool, but got: 1"),
        ({"dynamic": False}, ValueError, '"initial_scale" must be specified'),
        (
            {"dynamic": False, "initial_scale": 2, "dynamic_growth_steps": 3},
            ValueError,
            "must be None if",
        ),
        ({"initial_scale": 0.5}, ValueError, "at least 1. Received: 0.5"),
        (
            {"inner_optimizer": LossScaleOptimizer(optimizers.SGD())},
            TypeError,
            "cannot wrap another LossScaleOptimizer",
        ),
    ],
)
def test_arguments(arguments: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        LossScaleOptimizer(**{"inner_optimizer": optimizers.SGD(), **arguments})


SCALED = {
    "dynamic": lambda opt: LossScaleOptimizer(opt, dynamic_growth_steps=3),
    "fixed": lambda opt: LossScaleOptimizer(opt, False, 1024),
    "als": lambda opt: optimizers.ALSOptimizer(opt, 16, update_frequency=3),
}
INNER = {
    "sgd": lambda: optimizers.SGD(0.1, 0.9),
    "adam": lambda: optimizers.Adam(0.01),
    "clipped": lambda: optimizers.SGD(0.1, clipnorm=0.1),
}


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("scaled", SCALED)
def test_a_power_of_two_changes_no_bit(scaled: str, inner: str) -> None:
    plain = fitted(INNER[inner]())
    model = fitted(SCALED[scaled](INNER[inner]()))
    assert_same(model, plain)
    assert int(model.optimizer.iterations) == 16
    assert model.optimizer.learning_rate is model.optimizer._inner.learning_rate


@pytest.mark.parametrize("scaled", SCALED)
@pytest.mark.parametrize("kind", ["accumulated", "pipelined", "replicated"])
def test_with_other_ipus(kind: str, scaled: str) -> None:
    def trained(wrap: Callable[[Any], Any]) -> Any:
        attach({"accumulated": 1, "pipelined": 2, "replicated": 2}[kind])
        strategy = IPUStrategy()
        try:
            with strategy.scope():
                model = dense()
                if kind == "pipelined":
                    model.set_pipeline_stage_assignment([0, 1, 1])
                    model.set_pipelining_options(
                        gradient_accumulation_steps_per_replica=4
                    )
                elif kind == "accumulated":
                    model.set_gradient_accumulation_options(
                        gradient_accumulation_steps_per_replica=4
                    )
                model.compile(
                    wrap(optimizers.SGD(0.1, 0.9)),
                    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                    steps_per_execution=8,
                )
                data = tf.data.Dataset.from_tensor_slices((X, Y))
                data = data.batch(4, drop_remainder=True).repeat()
                model.fit(data, steps_per_epoch=16, epochs=2, verbose=0)
                return model.get_weights()
        finally:
            attach(1)

    for one, other in zip(
        trained(SCALED[scaled]), trained(lambda opt: opt), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def custom(optimizer: Any, variable: Any) -> Any:
    """A function that does a step with a given gradient of a scaled loss."""

    @tf.function(jit_compile=True)
    def step(gradient: Any) -> Any:
        grads = optimizer.get_unscaled_gradients([gradient])
        optimizer.apply_gradients(zip(grads, [variable], strict=True))
        return optimizer.loss_scale

    return step


@pytest.mark.parametrize("is_traced", [True, False])
def test_the_factor_follows_the_gradients(is_traced: bool) -> None:
    v = tf.Variable([1.0, 2.0])
    opt = LossScaleOptimizer(optimizers.SGD(1.0, 0.5), True, 8.0, 2)
    opt._create_all_weights([v])
    step = custom(opt, v)

    def run(gradient: list[float]) -> tuple[float, int, int]:
        if is_traced:
            step(tf.constant(gradient))
        else:
            grads = opt.get_unscaled_gradients([tf.constant(gradient)])
            opt.apply_gradients(zip(grads, [v], strict=True))
        return float(opt.loss_scale), int(opt.dynamic_counter), int(opt.iterations)

    assert run([8.0, 0.0]) == (8.0, 1, 1)
    assert run([np.inf, 0.0]) == (4.0, 0, 1)
    assert run([0.0, np.nan]) == (2.0, 0, 1)
    np.testing.assert_array_equal(v, [0.0, 2.0])
    np.testing.assert_array_equal(opt.get_slot(v, "momentum"), [-1.0, 0.0])
    assert run([0.0, 0.0]) == (2.0, 1, 2)
    assert run([0.0, 0.0]) == (4.0, 0, 3)
    for _ in range(4):
        run([np.inf, 0.0])
    assert float(opt.loss_scale) == 1.0
    assert opt.get_unscaled_gradients([None]) == [None]


def test_overflow_in_a_model() -> None:
    """A first factor that is too large for float16 is halved until it fits."""
    keras.mixed_precision.set_global_policy("mixed_float16")
    model = fitted(LossScaleOptimizer(optimizers.SGD(0.1), True, 2.0**40))
    assert np.isfinite(np.concatenate([w.ravel() for w in model.get_weights()])).all()
    assert float(model.optimizer.loss_scale) < 2.0**30
    assert int(model.optimizer.iterations) < 16


def test_loops_of_ones_own() -> None:
    plain, scaled = dense(), dense()
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    opt = LossScaleOptimizer(optimizers.SGD(0.1))
    other = optimizers.SGD(0.1)

    @tf.function(jit_compile=True)
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, scaled(x, training=True))
            large = opt.get_scaled_loss(loss)
        grads = tape.gradient(large, scaled.trainable_variables)
        grads = opt.get_unscaled_gradients(grads)
        opt.apply_gradients(zip(grads, scaled.trainable_variables, strict=True))
        with tf.GradientTape() as tape:
            loss = loss_of(y, plain(x, training=True))
        other.minimize(loss, plain.trainable_variables, tape=tape)
        return large / opt.loss_scale - loss

    for i in range(4):
        assert float(step(X[16 * i :][:16], Y[16 * i :][:16])) == 0.0
    assert_same(plain, scaled)
    assert float(opt.get_scaled_loss(lambda: tf.constant(2.0))()) == 65536.0


@pytest.mark.parametrize("name", SCALED)
def test_configurations(name: str) -> None:
    opt = SCALED[name](optimizers.Adam(0.02, beta_1=0.8))
    again = optimizers.deserialize(optimizers.serialize(opt))
    assert type(again) is type(opt)
    assert again.get_config() == opt.get_config()
    assert optimizers.get(opt) is opt
    again.learning_rate = 0.5
    assert float(again.learning_rate) == 0.5


# --- automatic loss scaling -----------------------------------------------------------


class Follower:
    """The rules of the port, in Python."""

    def __init__(self, **settings: Any) -> None:
        self.settings = {
            "initial": 1.0,
            "frequency": 8,
            "increase": 2.0,
            "most": 32768.0,
            "accumulates": True,
            "threshold": 10e-6,
            "alpha": 0.0,
            **settings,
        }
        self.factor = self.before = self.settings["initial"]
        self.counts = np.zeros(2)
        self.steps = 0

    def step(self, elements: np.ndarray) -> None:
        s = self.settings
        is_due = s["frequency"] == 1 or self.steps == s["frequency"]
        large = np.count_nonzero(np.abs(elements) >= 2**13)
        new = np.array([elements.size - large, large])
        if s["accumulates"] or is_due:
            old = self.counts
            self.counts = s["alpha"] * old + (1 - s["alpha"]) * (old + new)
        self.steps += 1
        if not is_due:
            return
        too_many = self.counts[1] / self.counts.sum() > s["threshold"]
        by = 1 / s["increase"] if too_many else s["increase"]
        wanted = self.factor * by
        if 1 <= wanted < s["most"]:
            self.before, self.factor = self.factor, wanted
        self.counts, self.steps = np.zeros(2), 1


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"frequency": 1},
        {"frequency": 3, "accumulates": False},
        {"frequency": 2, "increase": 4.0, "most": 64.0},
        {"frequency": 3, "initial": 64.0, "threshold": 0.4, "alpha": 0.5},
    ],
)
def test_automatic_scaling_follows_the_rules(settings: dict[str, Any]) -> None:
    names = {
        "initial": "initial_loss_scaling_factor",
        "frequency": "update_frequency",
        "increase": "increase_factor",
        "most": "max_loss_scaling_factor",
        "accumulates": "accumulate_statistics_over_update_period",
        "threshold": "ratio_threshold",
        "alpha": "lpf_alpha",
    }
    opt = optimizers.ALSOptimizer(
        optimizers.SGD(0.0), **{names[key]: value for key, value in settings.items()}
    )
    follower = Follower(**settings)
    half = tf.Variable(np.ones(6, np.float16))
    single = tf.Variable(np.ones(2, np.float32))
    opt._create_all_weights([half, single])

    @tf.function(jit_compile=True)
    def step(gradient: Any, other: Any) -> None:
        opt.apply_gradients([(gradient, half), (other, single)])

    rng = np.random.default_rng(len(settings))
    for _ in range(40):
        gradient = np.float16(rng.choice([1.0, 8191.0, -8192.0, 60000.0], 6, p=P))
        step(gradient, np.full(2, 1e9, np.float32))
        follower.step(np.float32(gradient))
        assert float(opt.loss_scaling_factor) == follower.factor
        assert float(opt.previous_loss_scaling_factor) == follower.before
        assert int(opt.update_counter) == follower.steps
        np.testing.assert_allclose(opt.histogram, follower.counts, rtol=1e-6)
    opt.reset()
    assert float(opt.loss_scaling_factor) == follower.settings["initial"]
    assert not opt.histogram.numpy().any()
    assert int(opt.update_counter) == 0
    assert int(opt.iterations) == 40


P = [0.5, 0.4, 0.05, 0.05]


@pytest.mark.parametrize(
    "frequency, changed", [(1, [1, 2, 3, 4, 5]), (3, [4, 7, 10]), (4, [5, 9, 13])]
)
def test_the_factor_changes_once_in_a_period(
    frequency: int, changed: list[int]
) -> None:
    opt = optimizers.ALSOptimizer(optimizers.SGD(0.0), update_frequency=frequency)
    v = tf.Variable(np.ones(2, np.float16))
    opt._create_all_weights([v])

    @tf.function(jit_compile=True)
    def step() -> None:
        opt.apply_gradients([(tf.ones(2, tf.float16), v)])

    found, before = [], 1.0
    for number in range(1, changed[-1] + 1):
        step()
        factor = float(opt.loss_scaling_factor)
        if factor != before:
            found.append(number)
        before = factor
    assert found == changed


def test_captured_gradients_count() -> None:
    opt = optimizers.ALSOptimizer(optimizers.SGD(0.0), captured_grads_only=True)
    v = tf.Variable(np.ones(2, np.float16))
    opt._create_all_weights([v])

    @tf.function(jit_compile=True)
    def step(gradient: Any, captured: Any) -> None:
        more = {"a": captured, "b": [captured, captured[:1]]}
        opt.apply_gradients([(gradient, v)], captured_grads=more)

    step(np.float16([9e3, 9e3]), np.float16([1.0, 9e3]))
    np.testing.assert_array_equal(opt.histogram, [3.0, 2.0])
    np.testing.assert_allclose(opt.normalized_histogram, [0.6, 0.4], rtol=1e-6)
    with pytest.raises(ValueError, match=r"inside a @tf\.function"):
        opt.apply_gradients(
            [(np.float16([1, 1]), v)], captured_grads={"a": tf.constant([1.0])}
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"update_frequency": 0}, "update_frequency must be positive"),
        ({"increase_factor": 3}, "increase_factor must be a power of two"),
        ({"initial_loss_scaling_factor": 5}, "must be a power of two. Received: 5"),
        ({"max_loss_scaling_factor": 100}, "max_loss_scaling_factor must be a power"),
        ({"initial_loss_scaling_factor": 32768}, "must be less than max_loss"),
        ({"initial_loss_scaling_factor": 16384}, "16384 x 2 and 32768"),
        ({"ratio_threshold": 0.0}, "between 0 and 1"),
        ({"ratio_threshold": 1.0}, "between 0 and 1"),
        ({"lpf_alpha": 1.5}, "from 0 to 1"),
        ({"histogram_bin_edge": 0}, "histogram_bin_edge must be positive"),
    ],
)
def test_settings_of_automatic_scaling(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        optimizers.ALSOptimizer(optimizers.SGD(), **settings)
    opt = optimizers.ALSOptimizer(optimizers.SGD())
    (name, value), *_ = settings.items()
    with pytest.raises(ValueError, match=name):
        setattr(opt, name, value)


def test_what_automatic_scaling_shows_is_read_only() -> None:
    opt = optimizers.ALSOptimizerAdam(0.01, 0.8, update_frequency=5, epsilon=1e-5)
    assert isinstance(opt, optimizers.ALSOptimizer)
    assert opt.supports_captured_grads
    assert opt.update_frequency == 5
    opt.update_frequency = 4
    assert opt.update_frequency == 4
    assert opt.decrease_factor == 0.5
    assert opt._inner.get_config()["beta_1"] == 0.8
    for name in (
        "histogram",
        "normalized_histogram",
        "loss_scaling_factor",
        "previous_loss_scaling_factor",
        "update_counter",
        "decrease_factor",
    ):
        with pytest.raises(ValueError, match=f"{name} is a read only property"):
            setattr(opt, name, 1)
    with pytest.raises(TypeError, match=r"wraps one of keras\.optimizers"):
        optimizers.ALSOptimizer("sgd")


def test_automatic_scaling_in_a_float16_model() -> None:
    model = fitted(
        optimizers.ALSOptimizerSGD(0.05, update_frequency=2), dense(dtype="float16")
    )
    assert float(model.optimizer.loss_scaling_factor) == 2.0**7
    assert int(model.optimizer.iterations) == 16


def test_old_programs_find_them() -> None:
    drop_in.install()
    try:
        from keras.ipu.optimizers import ALSOptimizer as by_keras
        from tensorflow.keras import mixed_precision
        from tensorflow.keras.mixed_precision import LossScaleOptimizer as served

        assert mixed_precision.Policy is Policy
        assert served is LossScaleOptimizer
        assert by_keras is optimizers.ALSOptimizer
    finally:
        drop_in.uninstall()


def test_a_loss_that_is_not_to_be_scaled() -> None:
    for is_scaled in (True, False):
        model = keras.Sequential([keras.layers.Dense(1, dtype="mixed_float16")])
        model._set_policy("mixed_float16")
        model.compile("sgd", "mse", auto_scale_loss=is_scaled)
        kind = keras.mixed_precision.LossScaleOptimizer
        assert isinstance(model.optimizer, kind) == is_scaled
