# SPDX-License-Identifier: MIT
"""What optimizers of Keras 3 do: weights after steps, as Keras 3.15 has them.

``keras3_optimizers.json`` holds weights, gradients, and Keras's weights after steps 1,
3 and 7 and after ``finalize_variable_values``.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

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


class Momentum(keras.optimizers.Optimizer):
    """SGD with momentum, as one writes it for Keras 3."""

    def __init__(
        self,
        learning_rate: float = 0.1,
        momentum: float = 0.9,
        name: str = "own",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.momentum = momentum

    def build(self, variables: Any) -> None:
        if self.built:
            return
        super().build(variables)
        self.count = self.add_variable((), dtype="int32", name="count")
        self.sums = [
            self.add_variable_from_reference(one, name="sum") for one in variables
        ]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        rate = keras.ops.cast(learning_rate, variable.dtype)
        total = self.sums[self._get_variable_index(variable)]
        self.assign(total, self.momentum * total - rate * gradient)
        self.assign_add(variable, total)
        self.assign_add(self.count, 1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "momentum": self.momentum}


@pytest.mark.parametrize(
    "options", [{}, *_ARGUMENTS], ids=lambda one: "-".join(one) or "plain"
)
@pytest.mark.parametrize("on_device", [False, True])
def test_an_optimizer_written_for_keras_3(
    options: dict[str, Any], on_device: bool
) -> None:
    x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    found = []
    for optimizer in (
        Momentum(0.1, 0.9, **options),
        keras.optimizers.SGD(0.1, momentum=0.9, **options),
    ):
        scope = ipu.ipu_strategy.IPUStrategy().scope() if on_device else nullcontext()
        with scope:
            keras.utils.set_random_seed(1)
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
            model.compile(optimizer, "mse")
            model.fit(x, x[:, :2], batch_size=16, epochs=2, verbose=0)
        found.append(model.get_weights())
        if isinstance(optimizer, Momentum):
            updates = 4 if "gradient_accumulation_steps" in options else 8
            assert int(optimizer.iterations) == updates
            assert int(optimizer.count) == 2 * updates
    for own, built_in in zip(*found, strict=True):
        np.testing.assert_allclose(own, built_in, rtol=1e-5, atol=1e-6)


def test_an_own_optimizer_is_saved_and_goes_on(tmp_path: Path) -> None:
    x = np.ones((32, 4), np.float32)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile(Momentum(0.01), "mse")
    model.fit(x, x[:, :2], verbose=0)
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(
        tmp_path / "m.keras", custom_objects={"Momentum": Momentum}
    )
    assert len(again.optimizer.variables) == 4
    losses = [
        one.fit(x, x[:, :2], epochs=2, verbose=0).history["loss"]
        for one in (model, again)
    ]
    assert losses[0] == losses[1]


def test_own_optimizers_that_cannot_work() -> None:
    w, other = tf.Variable([1.0]), tf.Variable([1.0])
    gradient = tf.constant([1.0])
    with pytest.raises(NotImplementedError, match=r"must define update_step\(gradient"):
        keras.optimizers.Optimizer().apply_gradients([(gradient, w)])
    optimizer = Momentum()
    optimizer.build([w])
    with pytest.raises(ValueError, match="was built for other variables"):
        optimizer.apply_gradients([(gradient, other)])
