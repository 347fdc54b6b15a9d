# SPDX-License-Identifier: MIT
"""Layers of words and categories, with the values that Keras gives; models of them."""

from __future__ import annotations

import json
import zipfile
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.tf import errors
from ipu.tf._string_ops.host_only import HostOnlyError

layers = keras.layers
TEXTS = ["The cat sat. The CAT!", "dogs & cats; the end", "", "a b-c d's the"]

LAYERS = {name: getattr(layers, name) for name in layers.__all__}


def adapted(layer: Any, data: Any) -> Any:
    layer.adapt(data)
    return layer


def plain(value: Any) -> Any:
    """Nested lists of what a tensor, dense or ragged, holds."""
    if isinstance(value, (list, int)):
        return value
    if hasattr(value, "to_list"):
        return value.to_list()
    made = value.numpy()
    return (np.round(made, 5) if made.dtype == np.float32 else made).tolist()


WORDS = ["", "[UNK]", "the", "cat", "sat", "end", "ds", "dogs", "cats", "bc", "a"]
LOOK_UP = "StringLookup(vocabulary=['a', 'b', 'c']"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("adapted(TextVectorization(), TEXTS).get_vocabulary()", WORDS),
        ("adapted(TextVectorization(max_tokens=4), TEXTS).get_vocabulary()", WORDS[:4]),
        (
            "adapted(TextVectorization(), TEXTS)(TEXTS)",
            [[2, 3, 4, 2, 3], [7, 8, 2, 5, 0], [0] * 5, [10, 9, 6, 2, 0]],
        ),
        (
            "adapted(TextVectorization(output_sequence_length=2), TEXTS)(TEXTS)",
            [[2, 3], [7, 8], [0, 0], [10, 9]],
        ),
        (
            "adapted(TextVectorization(ragged=True), TEXTS)(TEXTS[2:])",
            [[], [10, 9, 6, 2]],
        ),
        ("adapted(TextVectorization(), TEXTS)('the cat')", [2, 3]),
        (
            "adapted(TextVectorization(4, output_mode='count'), TEXTS)(TEXTS)",
            [[0, 2, 2, 1], [3, 1, 0, 0], [0] * 4, [3, 1, 0, 0]],
        ),
        (
            "adapted(TextVectorization(6, ngrams=2), TEXTS).get_vocabulary()",
            ["", "[UNK]", "the", "the cat", "cat", "the end"],
        ),
        (
            "adapted(TextVectorization(split='character', max_tokens=5), TEXTS)"
            ".get_vocabulary()",
            ["", "[UNK]", " ", "t", "e"],
        ),
        (
            "TextVectorization(standardize=None, split=None, vocabulary=['A b'])"
            "(['A b', 'a'])",
            [2, 1],
        ),
        (
            "TextVectorization(vocabulary=['a', 'b'], output_mode='tf_idf',"
            " idf_weights=[0.5, 2.0])(['a c b b'])",
            [[1.25, 0.5, 4.0]],
        ),
        (f"{LOOK_UP})([['a', 'c'], ['d', 'b']])", [[1, 3], [0, 2]]),
        (f"{LOOK_UP}, num_oov_indices=2)(['a', 'd', 'm', 'z'])", [2, 1, 0, 1]),
        (f"{LOOK_UP}, mask_token='')(['a', '', 'q'])", [2, 0, 1]),
        (f"{LOOK_UP}, mask_token='').get_vocabulary()", ["", "[UNK]", "a", "b", "c"]),
        (
            f"{LOOK_UP}, output_mode='one_hot')(['a', 'z'])",
            [[0, 1, 0, 0], [1, 0, 0, 0]],
        ),
        (f"{LOOK_UP}, output_mode='one_hot')([['a']])", [[0, 1, 0, 0]]),
        (
            f"{LOOK_UP}, output_mode='count', num_oov_indices=2)([list('addz')])",
            [[0, 3, 1, 0, 0]],
        ),
        (
            f"{LOOK_UP}, output_mode='multi_hot', mask_token='m')([['m', 'a']])",
            [[0, 1, 0, 0]],
        ),
        (f"{LOOK_UP}, invert=True)([[1, 0, 9]])", [[b"a", b"[UNK]", b"[UNK]"]]),
        (
            "adapted(StringLookup(), ['b', 'a', 'a', 'c', 'b']).get_vocabulary()",
            ["[UNK]", "b", "a", "c"],
        ),
        ("IntegerLookup(vocabulary=[12, 36], mask_token=0)([36, 0, 37])", [3, 0, 1]),
        ("IntegerLookup(vocabulary=[12], num_oov_indices=2)([12, 37, 36])", [2, 1, 0]),
        ("IntegerLookup(vocabulary=[12, 36], invert=True)([1, 2, 0])", [12, 36, -1]),
        (
            "adapted(IntegerLookup(), [[3, 5], [5, 3], [3, 9]]).get_vocabulary()",
            [-1, 3, 5, 9],
        ),
        ("CategoryEncoding(4, 'one_hot')([3, 0])", [[0, 0, 0, 1], [1, 0, 0, 0]]),
        (
            "CategoryEncoding(4)(np.array([[0, 1], [3, 3]]))",
            [[1, 1, 0, 0], [0, 0, 0, 1]],
        ),
        (
            "CategoryEncoding(3, 'count')(np.array([[0, 0]]),"
            " count_weights=np.array([[0.5, 2.0]]))",
            [[2.5, 0, 0]],
        ),
        ("Hashing(3)(['A', 'B', 'C', 'D', 'E'])", [1, 0, 1, 1, 2]),
        ("Hashing(3, mask_value='')(['A', 'B', '', 'C', 'D'])", [1, 1, 0, 2, 2]),
        ("Hashing(3, salt=[133, 137])(['A', 'B', 'C', 'D', 'E'])", [1, 2, 1, 0, 2]),
        ("Hashing(3, salt=133)(['A', 'B', 'C', 'D', 'E'])", [0, 0, 2, 1, 0]),
        (
            "HashedCrossing(5)((list('ABABA'), [101, 101, 101, 102, 102]))",
            [1, 4, 1, 1, 3],
        ),
        (
            "HashedCrossing(10, 'one_hot')((['A'], ['x'], [-2])).shape.as_list()",
            [1, 10],
        ),
        (
            "Discretization([0.0, 1.0, 2.0])(np.array([[-1.5, 1.0, 3.4, 0.5]], 'f'))",
            [[0, 2, 3, 1]],
        ),
        (
            "Discretization([0.0], output_mode='count')(np.array([[-1.0, 1.0, 2.0]]))",
            [[1, 2]],
        ),
    ],
)
def test_values(call: str, expected: Any) -> None:
    names = {"adapted": adapted, "TEXTS": TEXTS, "np": np, **LAYERS}
    made = eval(call, names)
    assert plain(made) == expected


def test_weights_of_words() -> None:
    layer = layers.TextVectorization(max_tokens=4, output_mode="tf_idf")
    assert np.allclose(
        adapted(layer, TEXTS)(TEXTS[:2]),
        [[0.0, 1.38629, 2.19722, 1.09861], [2.89037, 0.69315, 0.0, 0.0]],
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        ("StringLookup(vocabulary=['a', 'a'])", ValueError, r"terms are: \['a'\]"),
        ("StringLookup(vocabulary=['a', '[UNK]'])", ValueError, "reserved OOV token"),
        (
            "StringLookup(vocabulary=['a', ''], mask_token='')",
            ValueError,
            "reserved mask token",
        ),
        ("StringLookup(2, vocabulary=['a', 'b'])", ValueError, "vocab size is 3"),
        ("StringLookup(1)", ValueError, "greater than 1"),
        ("StringLookup(num_oov_indices=-1)", ValueError, "num_oov_indices=-1"),
        ("StringLookup(output_mode='onehot')", ValueError, "'onehot'"),
        ("StringLookup(invert=True, output_mode='count')", ValueError, "invert"),
        ("StringLookup(pad_to_max_tokens=True)", ValueError, "must set `max_tokens`"),
        ("StringLookup(sparse=True)", NotImplementedError, "sparse=True"),
        ("StringLookup(vocabulary='/no/file')", ValueError, "does not exist"),
        ("StringLookup()(['a'])", ValueError, "has no vocabulary yet. Call adapt"),
        ("StringLookup(vocabulary=['a'])([1])", TypeError, "takes strings.*int32"),
        ("IntegerLookup(vocabulary=[1])(['a'])", TypeError, "takes integers.*strings"),
        (
            "StringLookup(num_oov_indices=0, vocabulary=['a'])(['b'])",
            errors.InvalidArgumentError,
            r"found OOV values \['b'\]",
        ),
        (
            "StringLookup(output_mode='tf_idf', vocabulary=['a'])",
            ValueError,
            "`idf_weights` must be set",
        ),
        ("StringLookup(vocabulary=['a'], idf_weights=[1.0])", ValueError, "tf_idf"),
        ("TextVectorization(standardize='upper')", ValueError, "standardize='upper'"),
        ("TextVectorization(split=3)", ValueError, "split=3"),
        ("TextVectorization(ngrams=0)", ValueError, "ngrams=0"),
        (
            "TextVectorization(output_mode='count', output_sequence_length=3)",
            ValueError,
            "output_sequence_length=3",
        ),
        (
            "TextVectorization(vocabulary=['a'])([['a', 'b']])",
            ValueError,
            "the last shape dimension must be 1",
        ),
        ("CategoryEncoding()", ValueError, "num_tokens` must be set"),
        ("CategoryEncoding(3)([4])", ValueError, "range 0 <= values < num_tokens"),
        ("CategoryEncoding(3)([1], [2.0])", ValueError, "count_weights"),
        ("Hashing(0)", ValueError, "num_bins=0"),
        ("Hashing(3, salt=[1])", ValueError, r"salt=\[1\]"),
        ("Hashing(3)([1.5])", TypeError, "strings or integers.*float32"),
        ("HashedCrossing(3)(['a'])", ValueError, "at least two inputs"),
        ("HashedCrossing(3)((['a'], ['b', 'c']))", ValueError, "the same shape"),
        ("Discretization()", ValueError, "needs one of"),
        ("Discretization(num_bins=3)([1.0])", ValueError, "no boundaries yet"),
        ("Discretization([1.0]).adapt([1.0])", ValueError, "Cannot adapt"),
    ],
)
def test_mistakes(call: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        eval(call, dict(LAYERS))


def test_boundaries_from_data() -> None:
    values = np.random.RandomState(0).randn(1000).astype("f")
    whole = adapted(layers.Discretization(num_bins=10), values)
    assert np.allclose(
        whole.bin_boundaries,
        np.array([-130324, -86405, -54571, -31198, -5859, 19656, 42833, 78633, 123029])
        / 1e5,
        atol=1e-5,
    )
    batches = tf.data.Dataset.from_tensor_slices(values).batch(100)
    parts = adapted(layers.Discretization(num_bins=3, epsilon=0.1), batches)
    assert np.allclose(parts.bin_boundaries, [-0.29199, 0.54527], atol=1e-5)


def test_words_from_data_sets_and_files(tmp_path: Any) -> None:
    data = tf.data.Dataset.from_tensor_slices(TEXTS).batch(3)
    layer = adapted(layers.TextVectorization(), data)
    assert layer.get_vocabulary() == WORDS and layer.vocabulary_size() == len(WORDS)
    few = layers.TextVectorization()
    few.adapt(data, steps=1)
    assert "bc" not in few.get_vocabulary()
    path = tmp_path / "words.txt"
    path.write_text("".join(f"{word}\n" for word in layer.get_vocabulary(False)))
    again = layers.TextVectorization(vocabulary=path)
    assert again.get_vocabulary() == WORDS
    assert plain(again(TEXTS)) == plain(layer(TEXTS))


def test_in_data_sets() -> None:
    layer = layers.TextVectorization(output_sequence_length=3, vocabulary=["a", "b"])
    data = tf.data.Dataset.from_tensor_slices((["a b", "c"], [1, 0])).batch(2)
    made = data.map(lambda text, label: (layer(text), label))
    assert made.element_spec[0] == tf.TensorSpec((None, 3), tf.int64)
    assert plain(next(iter(made))[0]) == [[2, 3, 0], [1, 0, 0]]
    look_up = layers.IntegerLookup(vocabulary=[5, 7])
    numbers = tf.data.Dataset.from_tensor_slices([7, 6]).map(look_up)
    assert [int(x) for x in numbers] == [2, 0]
    hot = layers.CategoryEncoding(3, "one_hot")
    assert [x.numpy().tolist() for x in numbers.map(hot)] == [[0, 0, 1], [1, 0, 0]]
    buckets = tf.data.Dataset.range(4).map(layers.Hashing(3))
    assert [int(x) for x in buckets] == plain(layers.Hashing(3)([0, 1, 2, 3]))


def test_functions_of_the_program() -> None:
    @keras.utils.register_keras_serializable("texts")
    def commas(text: Any) -> Any:
        return tf.strings.split(text, ",")

    layer = layers.TextVectorization(
        standardize=lambda text: tf.strings.regex_replace(text, "[0-9]", ""),
        split=commas,
        vocabulary=["a b", "c"],
    )
    assert plain(layer(["a b1,c", "x"])) == [[2, 3], [1, 0]]
    plain_layer = layers.TextVectorization(
        standardize=None, split=commas, vocabulary=["c"]
    )
    made = layers.TextVectorization.from_config(plain_layer.get_config())
    assert plain(made(["c,d"])) == [[2, 1]]


# --- models ---------------------------------------------------------------------------


def text_model() -> Any:
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            adapted(layers.TextVectorization(output_sequence_length=4), TEXTS),
            layers.Embedding(20, 3),
            layers.GlobalAveragePooling1D(),
            layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    return model


def test_models_of_texts() -> None:
    model = text_model()
    x, y = np.array(TEXTS), np.arange(4.0, dtype=np.float32)
    first = model.fit(x, y, batch_size=2, epochs=2, shuffle=False, verbose=0).history
    assert model.input_shape == (None,) and model.output_shape == (None, 1)
    assert np.array_equal(model.predict(x), model(x).numpy())
    assert np.array_equal(model.predict(TEXTS), model(TEXTS).numpy())
    assert np.array_equal(model.predict_on_batch(x), model.predict(x))
    loss = model.evaluate(x, y, verbose=0)
    assert np.isclose(loss, np.mean((model.predict(x)[:, 0] - y) ** 2))
    # a model that is told numbers learns the same
    other = text_model()
    ids = other.layers[0](x).numpy()
    rest = keras.Sequential(other.layers[1:])
    rest.compile("sgd", "mse")
    second = rest.fit(ids, y, batch_size=2, epochs=2, shuffle=False, verbose=0).history
    assert first == second
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(2)
    third = text_model()
    assert third.fit(data, epochs=2, verbose=0, validation_data=(x, y)).history[
        "loss"
    ] == pytest.approx(first["loss"])
    batches = ((x[i : i + 2], y[i : i + 2]) for i in (0, 2))
    assert len(third.fit(batches, verbose=0).history["loss"]) == 1


def test_a_part_of_texts_for_validation() -> None:
    x, y = np.array(TEXTS), np.arange(4.0, dtype=np.float32)
    both = []
    for data in ({"validation_split": 0.5}, {"validation_data": (x[2:], y[2:])}):
        rows = 4 if "validation_split" in data else 2
        model = text_model()
        history = model.fit(
            x[:rows], y[:rows], batch_size=2, epochs=2, shuffle=False, verbose=0, **data
        ).history
        both.append((history, model.predict(x).tolist()))
    assert both[0] == both[1]


def test_models_of_features(tmp_path: Any) -> None:
    """Words, categories and numbers of a table, as in Keras's guide."""
    keras.utils.set_random_seed(1)
    rows = {
        "color": np.array(["red", "blue", "red", "green"]),
        "size": np.array([3, 7, 3, 5]),
        "price": np.array([1.0, 2.0, 3.0, 4.0], np.float32),
    }
    inputs = {
        "color": keras.Input((1,), dtype="string", name="color"),
        "size": keras.Input((1,), dtype="int64", name="size"),
        "price": keras.Input((1,), name="price"),
    }
    color = layers.StringLookup(output_mode="one_hot")
    color.adapt(rows["color"])
    size = layers.IntegerLookup(output_mode="one_hot")
    size.adapt(rows["size"])
    price = layers.Normalization()
    price.adapt(rows["price"][:, None])
    crossed = layers.HashedCrossing(5, output_mode="one_hot")
    features = [
        color(inputs["color"]),
        size(inputs["size"]),
        price(inputs["price"]),
        crossed([inputs["color"], inputs["size"]]),
    ]
    output = layers.Dense(1)(layers.concatenate(features))
    model = keras.Model(inputs, output)
    model.compile("adam", "mse")
    model.fit(rows, np.ones(4), epochs=2, verbose=0)
    expected = model.predict(rows)
    assert expected.shape == (4, 1)
    assert np.array_equal(model(rows).numpy(), expected)
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = keras.models.load_model(path)
    assert again.get_layer(color.name).get_vocabulary() == color.get_vocabulary()
    assert np.array_equal(again.predict(rows), expected)
    listed = keras.Model(list(inputs.values()), output)
    assert np.array_equal(listed.predict(list(rows.values())), expected)
    with pytest.raises(ValueError, match=r"'color'.*takes strings\. Received: numbers"):
        model.predict({**rows, "color": rows["size"]})


def test_models_inside_of_models() -> None:
    inputs = keras.Input((), dtype=tf.string)
    inner = keras.Model(inputs, layers.StringLookup(vocabulary=["a", "b"])(inputs))
    outer_input = keras.Input((), dtype=tf.string)
    embedded = layers.Embedding(4, 2)(inner(outer_input))
    model = keras.Model(outer_input, embedded)
    x = np.array(["b", "q", "a"])
    assert np.array_equal(model.predict(x), model(x).numpy())
    assert plain(inner(x)) == [2, 0, 1] == inner.predict(x).tolist()
    words = layers.StringLookup(vocabulary=["a", "b"], invert=True)
    named = keras.Model(inputs, words(inner(inputs)))
    assert plain(named(x)) == [b"b", b"[UNK]", b"a"]
    with pytest.raises(TypeError, match=r"gives strings.*model\(x\)"):
        named.predict(x)


def test_models_of_texts_on_a_device() -> None:
    with IPUStrategy().scope():
        model = text_model()
        x, y = np.array(TEXTS), np.ones(4, np.float32)
        model.fit(x, y, batch_size=2, verbose=0)
        assert model.predict(x, batch_size=2).shape == (4, 1)

    @tf.function
    def called(x: Any) -> Any:
        return layers.Hashing(3)(x)

    with pytest.raises(HostOnlyError, match="Hashing works on the host"):
        called(tf.constant([1]))


@pytest.mark.parametrize("suffix", ["safetensors", "h5", "keras"])
def test_saved_models_of_texts(tmp_path: Any, suffix: str) -> None:
    if suffix != "safetensors":
        pytest.importorskip("h5py")
    model = text_model()
    layer = layers.Discretization(num_bins=2, output_mode="one_hot")
    layer.adapt(np.arange(4.0))
    model.add(layer)
    model.predict(TEXTS)
    path = tmp_path / f"model.{suffix}"
    model.save(path)
    again = keras.models.load_model(path)
    assert again.layers[0].get_vocabulary() == WORDS
    assert np.array_equal(again.predict(TEXTS), model.predict(TEXTS))


def test_words_in_archives_of_keras_3(tmp_path: Any) -> None:
    """There the words are in files of their own beside the weights."""
    pytest.importorskip("h5py")
    path, told = tmp_path / "model.keras", tmp_path / "told.keras"
    model = text_model()
    model.predict(TEXTS)
    model.save(path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(told, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "config.json":
                config = json.loads(data)
                for entry in config["config"]["layers"]:
                    if entry["class_name"] == "TextVectorization":
                        entry["config"]["vocabulary"] = None
                        entry["config"]["vocabulary_size"] = len(WORDS)
                data = json.dumps(config).encode()
            new.writestr(name, data)
        place = "assets/layers/text_vectorization/vocabulary.txt"
        new.writestr(place, "".join(f"{word}\n" for word in WORDS))
    again = keras.models.load_model(told)
    assert again.layers[0].get_vocabulary() == WORDS
    assert np.array_equal(again.predict(TEXTS), model.predict(TEXTS))
