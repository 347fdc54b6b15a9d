# SPDX-License-Identifier: MIT
"""What optimizers of Keras 3 do: weights after steps, as Keras 3.15 has them.

``keras3_optimizers.json`` holds weights, gradients, and Keras's weights after steps 1,
3 and 7 and after ``finalize_variable_values``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ipu
from ipu import keras, tf

_NUMBERS = json.loads(
    (Path(__file__).parent / "keras3_optimizers.json").read_text("ascii")
)
_ARGUMENTS = [
    {"use_ema": True, "ema_momentum": 0.9, "ema_overwrite_frequency": 2},
    {"gradient_accumulation_steps": 2},
    {"loss_scale_factor": 8.0},
    {"clipnorm": 1.0},
    {"clipvalue": 1.0},
    {"global_clipnorm": 1.0},
    {"weight_decay": 0.01},
]
_NAMES = """
    SGD RMSprop Adam AdamW Adadelta Adagrad Adamax Adafactor Nadam Ftrl Lion Lamb Muon
""".split()


def _variables() -> list[tf.Variable]:
    names = ("kernel", "bias", "other")
    pairs = zip(_NUMBERS["weights"], names, strict=True)
    return [tf.Variable(np.float32(w), name=name) for w, name in pairs]


def _check(found: list[tf.Variable], wanted: list[object]) -> None:
    for variable, weights in zip(found, wanted, strict=True):
        np.testing.assert_allclose(variable.numpy(), weights, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "case", _NUMBERS["cases"], ids=lambda c: f"{c['name']} {sorted(c['arguments'])}"
)
@pytest.mark.parametrize("is_program", [False, True])
def test_steps_are_those_of_keras_3(case: dict[str, object], is_program: bool) -> None:
    kind = getattr(keras.optimizers, str(case["name"]))
    optimizer = kind(**case["arguments"])
    variables = _variables()
    with ipu.ipu_strategy.IPUStrategy().scope():
        optimizer.build(variables)

        def apply(*gradients: tf.Tensor) -> tf.Tensor:
            return optimizer.apply(list(gradients), variables)

        step = tf.function(apply) if is_program else apply
        shown = iter(case["steps"])  # type: ignore[call-overload]
        for number, given in enumerate(_NUMBERS["gradients"]):
            step(*[tf.constant(np.float32(g)) for g in given])
            if number in (0, 2, 6):
                _check(variables, next(shown))
        optimizer.finalize_variable_values(variables)
    _check(variables, case["final"])  # type: ignore[arg-type]
    made = keras.optimizers.get(keras.optimizers.serialize(optimizer))
    assert made.get_config() == optimizer.get_config()


@pytest.mark.parametrize("name", _NAMES)
def test_every_optimizer_takes_what_keras_3_gives_all(name: str) -> None:
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(16, 2)
    for arguments in _ARGUMENTS:
        optimizer = getattr(keras.optimizers, name)(**arguments)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile(optimizer, "mse")
        before = model.get_weights()
        model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0)
        assert not np.array_equal(before[0], model.get_weights()[0])
        again = keras.optimizers.get(keras.optimizers.serialize(optimizer))
        assert again.get_config() == optimizer.get_config()
        assert arguments.items() <= again.get_config().items()


def test_accumulated_steps_are_one_step_of_a_larger_batch() -> None:
    x = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)
    results = []
    for batch, steps in ((8, None), (4, 2)):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.Adam(0.1, gradient_accumulation_steps=steps)
        model.compile(optimizer, "mse")
        model.fit(x, x[:, :1], batch_size=batch, shuffle=False, verbose=0)
        assert int(optimizer.iterations) == 4
        results.append(model.get_weights()[0])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)


def test_a_scaled_loss_trains_as_an_unscaled_one() -> None:
    x = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)
    results = []
    for factor, policy in ((None, None), (256.0, None), (4.0, "mixed_float16")):
        keras.utils.set_random_seed(1)
        dense = keras.layers.Dense(1, dtype=policy)
        model = keras.Sequential([keras.Input((3,)), dense])
        model.compile(keras.optimizers.SGD(0.1, loss_scale_factor=factor), "mse")
        model.fit(x, x[:, :1], batch_size=8, shuffle=False, verbose=0)
        results.append(model.get_weights()[0])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)
    np.testing.assert_allclose(results[0], results[2], rtol=1e-2)


def test_a_step_of_the_users_own_scales_and_applies() -> None:
    """``scale_loss`` and ``apply`` belong together, for a dynamic factor too."""
    for optimizer in (
        keras.optimizers.SGD(0.5, loss_scale_factor=16.0),
        keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.5)),
    ):
        w = tf.Variable(2.0)
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(w * w)
        optimizer.apply(tape.gradient(loss, [w]), [w])
        assert float(w) == 0.0


def test_fit_ends_with_the_averages() -> None:
    x = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5)
    model.compile(optimizer, "mse")
    model.fit(x, x[:, :1], batch_size=8, verbose=0)
    kernel = model.trainable_variables[0]
    average = optimizer.get_slot(kernel, "average").numpy()
    np.testing.assert_array_equal(kernel.numpy(), average)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"gradient_accumulation_steps": 1}, "an integer >= 2"),
        ({"gradient_accumulation_steps": 2.5}, "an integer above 0"),
        ({"ema_momentum": 1.5}, r"in the range \[0, 1\]"),
        ({"use_ema": True, "ema_overwrite_frequency": 0}, "an integer above 0"),
        ({"loss_scale_factor": 0.0}, "a number above 0"),
        ({"weight_decay": -1.0}, "weight_decay >= 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        keras.optimizers.Adam(**arguments)


def test_gradients_and_variables_of_apply_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="2 gradients and 0 variables"):
        keras.optimizers.SGD().apply([tf.constant(1.0), tf.constant(1.0)])
