# SPDX-License-Identifier: MIT
"""Tokenizers, series and folders of texts, and parts of data: the values of Keras 2."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf

text = keras.preprocessing.text
sequence = keras.preprocessing.sequence
utils = keras.utils
TEXTS = ["the cat sat", "the dog ran to the cat", "a bird"]


def fitted(**options: Any) -> Any:
    tokenizer = text.Tokenizer(**options)
    tokenizer.fit_on_texts(TEXTS)
    return tokenizer


def test_tokenizers() -> None:
    tokenizer = fitted(num_words=4, oov_token="?")
    assert dict(tokenizer.word_docs)["cat"] == 2
    assert tokenizer.texts_to_sequences(["the dog ran", "zoo"]) == [[2, 1, 1], [1]]
    assert tokenizer.sequences_to_texts([[2, 3, 7]]) == ["the cat ?"]
    plain = fitted()
    assert plain.word_index["the"] == 1 and plain.index_docs[1] == 2
    assert plain.sequences_to_texts([[1, 99, 2]]) == ["the cat"]
    matrix = plain.texts_to_matrix(["the the cat"], "tfidf")
    expected = [(1 + np.log(2)) * np.log(1 + 3 / 3), np.log(1 + 3 / 3)]
    assert np.allclose(matrix[0, 1:3], expected) and not matrix[0, 3:].any()
    assert plain.texts_to_matrix(["the zoo cat"], "freq")[0, 1] == 0.5
    counted = text.Tokenizer(num_words=5)
    counted.fit_on_sequences([[1, 1, 2], [2]])
    assert counted.document_count == 2 and counted.index_docs[2] == 2
    with pytest.raises(ValueError, match="before using mode='tfidf'"):
        text.Tokenizer(num_words=3).sequences_to_matrix([[1]], "tfidf")
    with pytest.raises(ValueError, match="Did you mean 'tfidf'"):
        plain.texts_to_matrix(["a"], "tf_idf")


def test_tokenizers_as_json() -> None:
    tokenizer = fitted(num_words=5, oov_token="?", char_level=False)
    described = json.loads(tokenizer.to_json())
    assert described["class_name"] == "Tokenizer"
    assert json.loads(described["config"]["word_index"])["the"] == 2
    again = text.tokenizer_from_json(tokenizer.to_json())
    assert again.get_config() == tokenizer.get_config()
    assert again.texts_to_sequences(TEXTS) == tokenizer.texts_to_sequences(TEXTS)
    with pytest.raises(ValueError, match="not a description"):
        text.tokenizer_from_json("[]")


def test_hashed_words() -> None:
    assert text.hashing_trick("the cat and the dog", 10, "md5") == [6, 3, 6, 6, 6]
    assert text.hashing_trick("a bb ccc", 5, len) == [2, 3, 4]
    assert all(0 < number < 7 for number in text.one_hot("a b c d e", 7))
    with pytest.raises(ValueError, match="n=1"):
        text.hashing_trick("a", 1)


def test_pieces_of_a_series() -> None:
    data = np.arange(50)[:, None]
    targets = np.arange(50)[:, None]
    batches = sequence.TimeseriesGenerator(
        data, targets, 10, sampling_rate=2, batch_size=2
    )
    assert len(batches) == 20
    x, y = batches[0]
    assert x[:, :, 0].tolist() == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    assert y.ravel().tolist() == [10, 11]
    turned = sequence.TimeseriesGenerator(
        data, targets, 3, stride=4, start_index=5, end_index=20, reverse=True
    )
    x, y = turned[0]
    assert y.ravel().tolist() == [8, 12, 16, 20] and x[0].ravel().tolist() == [7, 6, 5]
    assert json.loads(turned.to_json())["config"]["stride"] == 4
    shuffled = sequence.TimeseriesGenerator(data, targets, 3, shuffle=True)
    x, y = shuffled[0]
    assert (x[:, -1] == y - 1).all()
    with pytest.raises(ValueError, match="target length is 2"):
        sequence.TimeseriesGenerator([1], [1, 2], 1)
    with pytest.raises(ValueError, match="is disallowed"):
        sequence.TimeseriesGenerator([1, 2], [1, 2], 3)
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    generator = sequence.TimeseriesGenerator(data / 50.0, targets / 50.0, 5)
    assert len(model.fit(generator, verbose=0).history["loss"]) == 1


@pytest.mark.usefixtures("no_seed")
def test_skipgrams() -> None:
    pairs, labels = sequence.skipgrams(np.arange(3), vocabulary_size=3)
    assert len(pairs) == len(labels) == 4 and sorted(labels) == [0, 0, 1, 1]
    assert all(0 < a < 3 and 0 < b < 3 for a, b in pairs)
    random.seed(2)
    first = sequence.skipgrams([1, 2, 3, 4], 5, seed=1, categorical=True)
    random.seed(2)
    assert first == sequence.skipgrams([1, 2, 3, 4], 5, seed=1, categorical=True)
    assert sorted(first[1])[0] == [0, 1]
    none = sequence.skipgrams([1, 2], 3, sampling_table=np.zeros(3))
    assert none == ([], [])
    table = sequence.make_sampling_table(10)
    assert np.allclose(
        table[[0, 1, 5, 9]], [3.15225e-3, 3.15225e-3, 0.01068435, 0.0159558]
    )


def series(*args: Any, **options: Any) -> list[Any]:
    data = utils.timeseries_dataset_from_array(*args, **options)
    return [
        tuple(part.numpy().tolist() for part in element)
        if isinstance(element, tuple)
        else element.numpy().tolist()
        for element in data
    ]


def test_series_as_data_sets() -> None:
    data = np.arange(10)
    assert series(data, None, 3, sequence_stride=3) == [
        [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    ]
    assert series(data, data[4:], 4, batch_size=4, sampling_rate=2)[0] == (
        [[0, 2, 4, 6], [1, 3, 5, 7], [2, 4, 6, 8], [3, 5, 7, 9]],
        [4, 5, 6, 7],
    )
    assert series(data, data * 10, 2, batch_size=None, start_index=2, end_index=5) == [
        ([2, 3], 20),
        ([3, 4], 30),
    ]
    shuffled = series(data, data, 2, shuffle=True, seed=3)
    assert sorted(shuffled[0][1]) == list(range(9))
    assert all(row == [at, at + 1] for row, at in zip(*shuffled[0], strict=True))
    assert shuffled == series(data, data, 2, shuffle=True, seed=3)
    wide = utils.timeseries_dataset_from_array(np.ones((6, 2)), None, 3)
    assert wide.element_spec.shape == (None, 3, 2)
    for options, name in (
        ({"sequence_length": 0}, "sequence_length=0"),
        ({"sequence_length": 2, "sampling_rate": 20}, "sampling_rate=20"),
        ({"sequence_length": 2, "start_index": 10}, "start_index=10"),
        ({"sequence_length": 2, "start_index": 4, "end_index": 3}, "end_index=3"),
        ({"sequence_length": 6, "sampling_rate": 2}, "no piece"),
    ):
        with pytest.raises(ValueError, match=name):
            utils.timeseries_dataset_from_array(data, None, **options)


def test_folders_of_texts(tmp_path: Any) -> None:
    for name, count in (("neg", 3), ("pos", 2)):
        (tmp_path / name).mkdir()
        for number in range(count):
            (tmp_path / name / f"{number}.txt").write_text(f"{name} text {number}")
    (tmp_path / "neg" / "picture.png").write_bytes(b"")
    data = utils.text_dataset_from_directory(tmp_path, batch_size=2, max_length=3)
    assert data.class_names == ["neg", "pos"] and len(data.file_paths) == 5
    pairs = [(x.numpy().tolist(), y.numpy().tolist()) for x, y in data]
    found = [pair for xs, ys in pairs for pair in zip(xs, ys, strict=True)]
    assert sorted(found) == [(b"neg", 0)] * 3 + [(b"pos", 1)] * 2
    train, rest = utils.text_dataset_from_directory(
        tmp_path, validation_split=0.4, subset="both", seed=1, label_mode=None
    )
    assert len(train.file_paths) == 3 and len(rest.file_paths) == 2
    layer = keras.layers.TextVectorization()
    layer.adapt(train)
    assert "text" in layer.get_vocabulary()
    (tmp_path / "empty" / "a").mkdir(parents=True)
    with pytest.raises(ValueError, match="No text files found"):
        utils.text_dataset_from_directory(tmp_path / "empty")


# --- parts of data --------------------------------------------------------------------


def test_split_data() -> None:
    x, y = np.arange(10), np.arange(10) * 2
    left, right = utils.split_dataset((x, y), right_size=3)
    assert len(left) == 7 and [(int(a), int(b)) for a, b in right] == [
        (7, 14),
        (8, 16),
        (9, 18),
    ]
    odd = tf.data.Dataset.range(10).filter(lambda n: n % 2 == 1)
    left, right = utils.split_dataset(odd, left_size=0.4, shuffle=True, seed=1)
    parts = [[int(n) for n in part] for part in (left, right)]
    assert [len(part) for part in parts] == [2, 3]
    assert sorted(parts[0] + parts[1]) == [1, 3, 5, 7, 9]
    assert [int(n) for n in left] == parts[0]
    for options, kind, words in (
        ({}, ValueError, "must be specified"),
        ({"left_size": 11}, ValueError, "left_size=11"),
        ({"left_size": 1.5}, ValueError, "left_size=1.5"),
        ({"left_size": "a"}, TypeError, "left_size='a'"),
        ({"left_size": 0.8, "right_size": 0.8}, ValueError, "right_size=0.8"),
        ({"left_size": 10}, ValueError, "is empty"),
    ):
        with pytest.raises(kind, match=words):
            utils.split_dataset(x, **options)
    with pytest.raises(TypeError, match="without an end"):
        utils.split_dataset(tf.data.Dataset.range(3).repeat(), 0.5)


def test_elements() -> None:
    assert utils.pack_x_y_sample_weight(1) == 1
    assert utils.pack_x_y_sample_weight([1]) == ([1],)
    assert utils.pack_x_y_sample_weight(1, 2, 3) == (1, 2, 3)
    assert utils.unpack_x_y_sample_weight(([1], 2)) == ([1], 2, None)
    assert utils.unpack_x_y_sample_weight(5) == (5, None, None)
    with pytest.raises(ValueError, match="a tuple of 4"):
        utils.unpack_x_y_sample_weight((1, 2, 3, 4))


class Numbers(utils.Sequence):
    ended = 0

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return index

    def on_epoch_end(self) -> None:
        self.ended += 1


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_enqueuers(workers: int) -> None:
    numbers = Numbers()
    before = threading.active_count()
    enqueuer = utils.OrderedEnqueuer(numbers)
    with pytest.raises(RuntimeError, match="not running"):
        enqueuer.get()
    enqueuer.start(workers, max_queue_size=2)
    assert enqueuer.is_running()
    batches = enqueuer.get()
    assert [next(batches) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    with pytest.raises(RuntimeError, match="is running"):
        enqueuer.start()
    enqueuer.stop()
    enqueuer.stop()
    assert not enqueuer.is_running() and numbers.ended == 2
    shuffled = utils.OrderedEnqueuer(numbers, shuffle=True)
    shuffled.start(workers)
    order = shuffled.get()
    assert sorted(next(order) for _ in range(3)) == [0, 1, 2]
    shuffled.stop()
    generator = utils.GeneratorEnqueuer(iter([1, 2, 3]))
    generator.start(workers)
    assert list(generator.get()) == [1, 2, 3]
    generator.stop()
    assert threading.active_count() <= before


def test_errors_in_enqueuers() -> None:
    def broken() -> Any:
        yield 1
        raise KeyError("here")

    enqueuer = utils.GeneratorEnqueuer(broken())
    enqueuer.start()
    batches = enqueuer.get()
    assert next(batches) == 1
    with pytest.raises(KeyError, match="here"):
        next(batches)
    enqueuer.stop()


def test_small_helpers(tmp_path: Any) -> None:
    x, y = keras.Input((2,)), keras.Input((3,))
    z = keras.layers.Dense(2)(keras.layers.concatenate([x, y, x]))
    assert [id(one) for one in utils.get_source_inputs(z)] == [id(x), id(y)]
    assert utils.is_keras_tensor(z) and not utils.is_keras_tensor(tf.ones(1))
    assert utils.standardize_dtype(tf.float16) == "float16"
    table = utils.warmstart_embedding_matrix(
        ["a", "b"], ["b", "c", "a"], np.array([[1.0, 2.0], [3.0, 4.0]]), "ones"
    )
    assert table.numpy().tolist() == [[3.0, 4.0], [1.0, 1.0], [1.0, 2.0]]
    source = tmp_path / "there.txt"
    source.write_text("one")
    options = {"origin": source.as_uri(), "cache_dir": tmp_path / "cache"}
    path = utils.get_file("kept.txt", **options)
    source.write_text("two")
    assert Path(utils.get_file("kept.txt", **options)).read_text() == "one"
    path = utils.get_file("kept.txt", force_download=True, **options)
    assert Path(path).read_text() == "two"
