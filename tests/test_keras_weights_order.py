# SPDX-License-Identifier: MIT
"""What is trained, and the order of weights, as Keras has them.

The expected lists are what the same classes gave with tensorflow-cpu 2.21.0 and
tf_keras 2.21.0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import keras, tf

layers = keras.layers


def dense(units: int, name: str, inputs: int) -> Any:
    model = keras.Sequential([layers.Dense(units, input_shape=(inputs,))], name=name)
    model.set_weights([np.full(w.shape, 0.25, "f") for w in model.get_weights()])
    return model


def test_what_compile_saw_is_trained() -> None:
    discriminator, generator = dense(1, "discriminator", 3), dense(3, "generator", 2)
    discriminator.compile("sgd", "mse")
    discriminator.trainable = False
    inputs = keras.Input((2,))
    gan = keras.Model(inputs, discriminator(generator(inputs)))
    gan.compile("sgd", "mse")
    x, z, ones = np.ones((4, 3), "f"), np.ones((4, 2), "f"), np.zeros((4, 1), "f")

    def changed(run: Any) -> tuple[bool, bool]:
        before = [m.get_weights() for m in (discriminator, generator)]
        run()
        after = [m.get_weights() for m in (discriminator, generator)]
        return tuple(
            any((a != b).any() for a, b in zip(one, two, strict=True))
            for one, two in zip(before, after, strict=True)
        )  # type: ignore[return-value]

    for _ in range(2):
        assert changed(lambda: discriminator.train_on_batch(x, ones)) == (True, False)
        assert changed(lambda: gan.train_on_batch(z, ones)) == (False, True)
        assert changed(lambda: gan.fit(z, ones, verbose=0)) == (False, True)
        assert changed(lambda: discriminator.fit(x, ones, verbose=0)) == (True, False)
    # what is seen from outside is what was set
    assert not discriminator.trainable and not discriminator.trainable_weights
    discriminator.trainable = True
    assert changed(lambda: gan.fit(z, ones, verbose=0)) == (False, True)
    gan.compile("sgd", "mse")
    assert changed(lambda: gan.fit(z, ones, verbose=0)) == (True, True)


def test_a_frozen_batch_normalization_counts_from_the_next_compile() -> None:
    model = keras.Sequential([layers.BatchNormalization(input_shape=(2,))])
    model.compile("sgd", "mse")
    model.layers[0].trainable = False
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    model.fit(x, x, verbose=0)
    moving = model.layers[0].moving_mean.numpy()
    assert (moving != 0).all()
    model.compile("sgd", "mse")
    model.fit(x, x, verbose=0)
    np.testing.assert_array_equal(model.layers[0].moving_mean.numpy(), moving)


class Part(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.z = tf.Variable(0.0, name="mz")
        self.y = tf.Variable(1.0, name="my")
        self.f = tf.Variable(1.0, name="mf", trainable=False)


class Mixed(layers.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.late = None
        self.a = tf.Variable(1.0, name="a")
        self.b = self.add_weight("b", ())
        self.c = tf.Variable(2.0, name="c")
        self.add_weight("d", ())
        self.several = [tf.Variable(3.0, name="e")]
        self.dense = layers.Dense(1)
        self.dense.build((None, 1))
        self.late = tf.Variable(1.0, name="late")
        self.n = tf.Variable(1.0, trainable=False, name="n")
        self.table = {"k": tf.Variable(1.0, name="dk")}
        self.part = Part()
        self.f = self.add_weight("f", ())
        self.same = self.a

    def call(self, x: Any) -> Any:
        return x


class Changed(Mixed):
    def __init__(self) -> None:
        super().__init__()
        del self.c
        self.several.append(tf.Variable(1.0, name="app"))


def short(variables: Any) -> str:
    return " ".join(v.name.split("/")[-1].split(":")[0] for v in variables)


def test_variables_come_in_the_order_they_were_made_known() -> None:
    layer = Mixed()
    own, inner = "a b c d e late dk f", "kernel bias my mz"
    assert short(layer.weights) == f"{own} {inner} n mf"
    layer.trainable = False
    assert short(layer.weights) == f"{own} n kernel bias mf my mz"
    assert layer.trainable_weights == []


def test_deleted_variables_and_ones_that_a_list_gets_later() -> None:
    own, inner = "a b d e late dk f app", "kernel bias my mz"
    assert short(Changed().weights) == f"{own} {inner} n mf"


class Several(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.v = tf.Variable(1.0, name="v")
        self.d = layers.Dense(1)
        self.m = Part()
        self.w = self.add_weight("w", ())
        self.n = tf.Variable(1.0, name="n", trainable=False)
        self.e = layers.BatchNormalization()
        self.mixed = [Part(), layers.Dense(1)]
        self.norms = [layers.BatchNormalization(), layers.BatchNormalization()]

    def call(self, x: Any) -> Any:
        x = self.mixed[1](self.e(self.d(x)))
        return self.norms[1](self.norms[0](x))


def test_a_model_lists_what_its_attributes_hold_then_its_own() -> None:
    model = Several()
    model.build((None, 2))
    norms = "gamma beta gamma beta"
    moving = "moving_mean moving_variance"
    assert short(model.weights) == (
        f"kernel bias mf my mz gamma beta {moving} my mz kernel bias mf "
        f"{norms} {moving} {moving} v w n"
    )
    assert short(model.trainable_weights) == (
        f"kernel bias my mz gamma beta my mz kernel bias {norms} v w"
    )
    assert short(model.non_trainable_weights) == (f"mf {moving} mf {moving} {moving} n")


class Scaled(layers.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.part = Part()
        self.own = tf.Variable(1.0, name="own")

    def call(self, x: Any) -> Any:
        return x * self.part.y * self.own


def test_a_module_inside_a_layer_is_trained() -> None:
    inputs = keras.Input((2,))
    layer = Scaled()
    model = keras.Model(inputs, layers.Dense(1)(layer(inputs)))
    assert short(model.weights) == "own my mz mf kernel bias"
    model.extra = tf.Variable(1.0, name="extra")
    model.part = Part()
    assert short(model.weights) == "own my mz mf kernel bias mf my mz extra"
    model.compile("sgd", "mse")
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        model.fit(np.ones((4, 2)), np.zeros((4, 1)), verbose=0)
    assert float(layer.part.y) != 1.0


def test_slots_come_in_keras_s_order() -> None:
    expected = {
        "Nadam": "iter momentum_cache m m v v",
        "Ftrl": "iter accumulator linear accumulator linear",
        "RMSprop": "iter rms rms momentum momentum mg mg",
        "Adam": "iter m m v v",
        "Adamax": "iter m m v v",
        "Adadelta": "iter accum_grad accum_grad accum_var accum_var",
        "Adagrad": "iter accumulator accumulator",
    }
    for name, order in expected.items():
        more = {"momentum": 0.9, "centered": True} if name == "RMSprop" else {}
        optimizer = getattr(keras.optimizers, name)(**more)
        model = dense(2, "one", 3)
        model.compile(optimizer, "mse")
        model.fit(np.zeros((4, 3)), np.zeros((4, 2)), verbose=0)
        assert short(optimizer.weights) == order, name


def test_shapes_of_models_and_layers_are_tuples() -> None:
    model = dense(3, "three", 2)
    for one in (model, model.layers[0]):
        assert type(one.input_shape) is type(one.output_shape) is tuple
        assert (one.input_shape, one.output_shape) == ((None, 2), (None, 3))
