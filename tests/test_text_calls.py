# SPDX-License-Identifier: MIT
"""Layers of words in the ``call`` of a subclass of ``Model``: they work on the host,
and results are those of a model of the words' numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.keras import layers
from ipu.keras.engine.training import host_part, text_calls
from ipu.keras.engine.training.data_adapter import Given, as_batches
from ipu.tf._string_ops.tensors import StringTensor

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


# --- the part on the host -------------------------------------------------------------


def test_which_calls_work_on_the_host() -> None:
    """Those of words and of what leads to them; the device gets all other inputs."""
    word = keras.Input((1,), dtype="string", name="word")
    number = keras.Input((1,), dtype="int32", name="number")
    more, unused = keras.Input((2,), name="more"), keras.Input((3,), name="unused")
    plus = layers.Lambda(lambda x: x + 1, name="plus")(number)
    numbers = layers.IntegerLookup(vocabulary=[1, 2, 3], name="numbers")(plus)
    words = layers.StringLookup(vocabulary=["a"], name="words")(word)
    found = [layers.Embedding(5, 2)(one) for one in (numbers, words)]
    added = layers.Flatten()(layers.Add()(found))
    output = layers.Dense(1)(layers.Concatenate()([added, more]))
    model = keras.Model([word, number, more, unused], [output, more])
    part: Any = model._host_part
    wanted = ["word", "number", "plus", "numbers", "words"]
    assert sorted(node.layer.name for node in part.nodes) == sorted(wanted)
    names = ["more/0/0", "numbers/0/0", "unused/0/0", "words/0/0"]
    assert sorted(part.symbols) == names
    assert part.has_run(dict.fromkeys(names)) and not part.has_run({"word": 1})
    assert not part.has_run(names)
    assert part.arranged({name: name for name in names}) == list(part.symbols)
    one = SimpleNamespace(dtype=tf.float32)
    assert host_part._as_declared(one, tf.constant([1])).dtype == tf.float32
    same, text = tf.constant([1.0]), StringTensor(np.array(["a"]))
    assert host_part._as_declared(one, same) is same
    assert host_part._as_declared(one, text) is text


def test_values_of_the_host() -> None:
    values = host_part.host_values
    for data in (["a", "b"], np.array(["a", "b"]), [b"a", b"b"]):
        assert isinstance(values(data), StringTensor)
    assert values([1, 2]).numpy().tolist() == [1, 2]
    assert values([[1], [2]]).shape == (2, 1) and values([1.5]).dtype == tf.float32
    found = values({"x": [np.ones(2), ["a"]], "y": ([],)})
    assert found["x"][0].shape == (2,) and isinstance(found["x"][1], StringTensor)
    assert found["y"] == [[]]


def test_the_only_input() -> None:
    rows = tf.data.Dataset.from_tensor_slices((np.ones(4, np.float32), np.ones(4)))
    first = host_part.first_input
    assert first(rows.batch(2)).dtype == tf.float32
    assert first(rows.map(lambda x, y: x).batch(2)).dtype == tf.float32
    assert first(rows.map(lambda x, y: ({"a": x}, y)).batch(2)) is None
    assert first(np.ones(3)).shape == (3,) and first(["a"]).shape == (1,)
    assert first({"a": np.ones(3)}) is None
    assert first([np.ones(3), np.ones(3)]) is None and first(iter([1])) is None


def test_data_of_every_kind_are_fed() -> None:
    x, y = np.ones((4, 2), np.float32), np.zeros(4, np.float32)

    def fed(data: Any) -> Any:
        return host_part.fed(data, lambda one: one * 3.0)

    assert (fed(x) == 3.0).all()
    rows = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
    for data in (rows, rows.map(lambda x, y: x)):
        (found,) = fed(data)
        assert type(found) is type(next(iter(data)))
        assert (np.asarray(found[0]) == 3.0).all()
    for batch in ((x, y), [x, y], x):
        (found,) = fed(iter([batch]))
        assert (found[0] == 3.0).all()
        if batch is not x:
            assert found[1] is y

    class Rows(keras.utils.Sequence):
        calls = ""

        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> Any:
            return x * index, y

        def on_epoch_begin(self) -> None:
            self.calls += "b"

        def on_epoch_end(self) -> None:
            self.calls += "e"

    made = fed(given := Rows(workers=3, max_queue_size=7))
    assert (made.workers, made.max_queue_size, len(made)) == (3, 7, 2)
    assert made.use_multiprocessing is False and made.num_batches == 2
    assert (made[1][0] == 3.0).all() and made[1][1] is y
    made.on_epoch_begin()
    made.on_epoch_end()
    assert given.calls == "be"

    class Old:
        def __getitem__(self, index: int) -> Any:
            return x, y

        def __len__(self) -> int:
            return 1

        def on_epoch_end(self) -> None:
            pass

    made = fed(Old())
    made.on_epoch_begin()
    assert made.workers is None and made.max_queue_size is None
    batches: Any = as_batches(Given(made)).read_by_host
    ((found, _),) = batches.read()
    assert (np.asarray(found) == 3.0).all()


def test_specs_of_texts() -> None:
    specs = text_calls.text_specs
    text, numbers = np.array(["a", "b"]), np.ones(2, np.float32)
    rows = tf.data.Dataset.from_tensor_slices(({"w": text, "n": numbers}, numbers))
    found = specs(rows.batch(2))
    assert found["w"].shape == (None, 1) and found["w"].dtype == tf.string
    assert found["n"].dtype == tf.float32
    assert specs(rows.map(lambda x, y: (x["n"], y)).batch(2)) is None
    assert specs(rows.map(lambda x, y: x["n"]).batch(2)) is None
    assert specs(rows.map(lambda x, y: x["w"]).batch(2)).dtype == tf.string
    assert specs(iter([text])) is None
    for data, shape in (
        *((text, (None, 1)), (["a"], (None, 1)), (tf.constant(["a"]), (None, 1))),
        *(([["a", "b"]], (None, 2)), (text[:, None], (None, 1))),
        (text.reshape(1, 1, 2), (None, 1, 2)),
    ):
        assert specs(data).shape == shape and specs(data).dtype == tf.string
    found = specs([numbers, text])
    assert [one.dtype for one in found] == [tf.float32, tf.string]
    assert specs({"a": text, "b": numbers})["a"].dtype == tf.string
    for data in (numbers, [numbers], [1.0, 2.0], [[1, 2]], [], {"a": numbers}, ([],)):
        assert specs(data) is None
