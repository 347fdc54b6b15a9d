# SPDX-License-Identifier: MIT
"""Layers of words in the ``call`` of a subclass of ``Model``: they work on the host,
and results are those of a model of the words' numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.keras import layers

WORDS = np.array([*"abcacbbaaccbabca"])
NUMBERS = np.array([" abc".index(word) for word in WORDS], np.int32)
Y = np.cos(np.arange(16, dtype=np.float32))
MORE = np.sin(np.arange(32, dtype=np.float32)).reshape(16, 2)


class Numbers(keras.Model):
    """Of the numbers of words, in a dict beside others."""

    def __init__(self) -> None:
        super().__init__()
        self.table = layers.Embedding(4, 4, embeddings_initializer="glorot_uniform")
        self.flat = layers.Flatten()
        self.dense = layers.Dense(4, "relu")
        self.last = layers.Dense(1)

    def call(self, inputs: Any, training: bool = False) -> Any:
        found = self.flat(self.table(inputs["word"]))
        if training:
            found = found * 2.0
        return self.last(tf.concat([found, self.dense(inputs["more"])], axis=1))


class Words(Numbers):
    """The same of words."""

    def __init__(self) -> None:
        super().__init__()
        self.lookup = layers.StringLookup(vocabulary=["a", "b", "c"])

    def call(self, inputs: Any, training: bool = False) -> Any:
        inputs = {"word": self.lookup(inputs["word"]), "more": inputs["more"]}
        return super().call(inputs, training)


class OwnStep(Words):
    """With a step of its own that calls the model."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compiled_loss(y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(
            zip(gradients, self.trainable_variables, strict=True)
        )
        return {"loss": loss}


def trained(kind: Any, words: Any, how: str) -> tuple[list[Any], Any, Any]:
    tf.random.set_seed(4)
    model = kind()
    model.compile(keras.optimizers.SGD(0.5), "mse")
    x = {"word": words, "more": MORE}
    if how == "batch":
        for _ in range(3):
            model.train_on_batch(x, Y)
        return model.get_weights(), model.predict_on_batch(x), None
    if how == "data set":
        data = tf.data.Dataset.from_tensor_slices((x, Y)).batch(8, drop_remainder=True)
        model.fit(data, epochs=3, verbose=0)
        return model.get_weights(), model.predict(data), model.evaluate(data, verbose=0)
    rest = {"batch_size": 8, "verbose": 0}
    model.fit(x, Y, epochs=3, validation_data=(x, Y), shuffle=False, **rest)
    return model.get_weights(), model.predict(x, 8), model.evaluate(x, Y, **rest)


@pytest.mark.parametrize("how", ["arrays", "data set", "batch"])
@pytest.mark.parametrize("kind", [Words, OwnStep])
def test_numbers_are_those_of_the_words_numbers(kind: Any, how: str) -> None:
    numbers = NUMBERS if how == "batch" else NUMBERS.reshape(-1, 1)
    words = WORDS if how == "batch" else WORDS.reshape(-1, 1)
    mine, its = trained(kind, words, how), trained(Numbers, numbers, how)
    for one, other in zip(mine[0], its[0], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(mine[1], its[1])
    assert mine[2] == its[2]


def test_in_the_scope_of_a_strategy() -> None:
    with IPUStrategy().scope():
        weights, predicted, _ = trained(Words, WORDS, "arrays")
    other = trained(Words, WORDS, "arrays")
    np.testing.assert_array_equal(predicted, other[1])
    assert len(weights) == len(other[0]) == 5


class Texts(keras.Model):
    """A text is its only input."""

    def __init__(self) -> None:
        super().__init__()
        self.split = layers.TextVectorization(output_sequence_length=2)
        self.split.set_vocabulary(["a", "b"])
        self.table = layers.Embedding(4, 2)
        self.mean = layers.GlobalAveragePooling1D()
        self.scale = 1.0

    def call(self, texts: Any) -> Any:
        return self.mean(self.table(self.split(texts))) * self.scale


def test_a_text_alone_and_a_number_that_changes() -> None:
    model = Texts()
    texts = np.array(["a b", "b", "c a"])
    found = model.predict(texts)
    np.testing.assert_array_equal(found, model(tf.constant(texts)).numpy())
    model.scale = 2.0
    np.testing.assert_array_equal(model.predict(texts), 2.0 * found)
    np.testing.assert_array_equal(model.predict(texts[:2]), 2.0 * found[:2])
    assert [layer.name for layer in model.layers] == [
        layer.name for layer in (model.split, model.table, model.mean)
    ]


class Uncut(Texts):
    """It asks for the values of what it gets."""

    def call(self, texts: Any) -> Any:
        return super().call(texts.numpy())


class Echo(Texts):
    """It gives a text."""

    def call(self, texts: Any) -> Any:
        return texts


@pytest.mark.parametrize(
    "kind, text",
    [
        (Uncut, r"cannot be cut into a part for the host.*dataset\.map"),
        (Echo, "strings"),
    ],
)
def test_what_cannot_be_cut(kind: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        kind().predict(np.array(["a", "b"]))
