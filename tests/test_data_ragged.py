# SPDX-License-Identifier: MIT
"""Elements of data sets that are ragged or sparse, that fail, that have one key.

What is expected was printed by TensorFlow 2.21.
"""

import numpy as np
import pytest

import ipu.tf as tf
from ipu.ipu_infeed_queue import IPUInfeedQueue

Dataset = tf.data.Dataset
ROWS = tf.ragged.constant([[1, 2], [3], [4, 5, 6]])


def lists(dataset):
    return [
        leaf.to_list() if hasattr(leaf, "to_list") else np.asarray(leaf).tolist()
        for leaf in dataset
    ]


def counts(n=4):
    """Tensors of the lengths 0, 1, 2, ..."""
    return Dataset.range(n).map(lambda k: tf.range(k))


def test_rows_of_a_ragged_tensor():
    rows = Dataset.from_tensor_slices(ROWS)
    assert rows.element_spec == tf.RaggedTensorSpec((None,), tf.int32, 0)
    assert lists(rows) == [[1, 2], [3], [4, 5, 6]]
    batches = rows.batch(2)
    assert batches.element_spec == tf.RaggedTensorSpec((None, None), tf.int32, 1)
    assert lists(batches) == [[[1, 2], [3]], [[4, 5, 6]]]
    assert lists(rows.shuffle(3, seed=1).batch(3).map(lambda x: x.to_tensor()))
    assert lists(batches.unbatch()) == [[1, 2], [3], [4, 5, 6]]
    assert batches.unbatch().element_spec == rows.element_spec


def test_rows_that_are_ragged_themselves():
    deep = tf.ragged.constant([[[1], [2, 3]], [[4]]])
    rows = Dataset.from_tensor_slices(deep)
    assert rows.element_spec == tf.RaggedTensorSpec((None, None), tf.int32, 1)
    assert lists(rows) == [[[1], [2, 3]], [[4]]]
    batches = rows.batch(2)
    assert batches.element_spec == tf.RaggedTensorSpec((None,) * 3, tf.int32, 2)
    assert lists(batches) == [[[[1], [2, 3]], [[4]]]]
    whole = Dataset.from_tensors(ROWS)
    assert whole.element_spec == tf.RaggedTensorSpec((3, None), tf.int32, 1)
    assert lists(whole.repeat(2)) == [ROWS.to_list()] * 2
    words = Dataset.from_tensor_slices(tf.strings.split(["a b", "c"])).batch(2)
    assert lists(words) == [[[b"a", b"b"], [b"c"]]]


def test_ragged_batches():
    batches = counts().ragged_batch(2)
    assert batches.element_spec == tf.RaggedTensorSpec((None, None), tf.int64, 1)
    assert lists(batches) == [[[], [0]], [[0, 1], [0, 1, 2]]]
    dense = Dataset.range(4).ragged_batch(3)
    assert dense.element_spec == tf.TensorSpec((None,), tf.int64)
    columns = Dataset.range(3).map(lambda n: tf.stack([tf.range(n)] * 2, 1))
    pairs = columns.ragged_batch(2)
    assert pairs.element_spec == tf.RaggedTensorSpec((None, None, 2), tf.int64, 1)
    assert lists(pairs) == [[[], [[0, 0]]], [[[0, 0], [1, 1]]]]
    inner = Dataset.range(1, 3).map(lambda n: tf.stack([tf.range(n)] * 2))
    deep = inner.ragged_batch(2, drop_remainder=True)
    assert deep.element_spec == tf.RaggedTensorSpec((2, 2, None), tf.int64, 2)
    assert lists(deep) == [[[[0], [0]], [[0, 1], [0, 1]]]]
    older = tf.data.experimental.dense_to_ragged_batch(3)
    assert lists(counts().apply(older)) == [[[], [0], [0, 1]], [[0, 1, 2]]]


def test_functions_take_and_give_ragged_tensors():
    batches = counts().ragged_batch(2)
    dense = batches.map(lambda rows: rows.to_tensor(-1))
    assert dense.element_spec == tf.TensorSpec((None, None), tf.int64)
    assert lists(dense) == [[[-1], [0]], [[0, 1, -1], [0, 1, 2]]]
    same = batches.map(lambda rows: rows)
    assert same.element_spec == batches.element_spec and lists(same) == lists(batches)
    pairs = batches.map(lambda rows: (rows, rows.row_lengths()))
    assert [lengths.numpy().tolist() for _, lengths in pairs] == [[0, 1], [2, 3]]
    cut = Dataset.from_tensor_slices(["a b", "c"]).batch(2).map(tf.strings.split)
    assert cut.element_spec == tf.RaggedTensorSpec((None, None), tf.string, 1)
    assert lists(cut) == [[[b"a", b"b"], [b"c"]]]
    long = batches.filter(lambda rows: rows.nrows() == 2)
    assert lists(long) == lists(batches)


def test_generators_of_ragged_tensors():
    spec = tf.RaggedTensorSpec((None, None), tf.int32)
    made = Dataset.from_generator(lambda: iter([ROWS]), output_signature=spec)
    assert lists(made) == [ROWS.to_list()]
    wrong = tf.RaggedTensorSpec((None, None), tf.float32)
    made = Dataset.from_generator(lambda: iter([ROWS]), output_signature=wrong)
    with pytest.raises(TypeError, match="RaggedTensorSpec"):
        list(made)


def test_where_ragged_tensors_cannot_go(tmp_path):
    batches = counts().ragged_batch(2)
    with pytest.raises(TypeError, match="to_tensor"):
        batches.padded_batch(2)
    with pytest.raises(TypeError, match="cannot be stored"):
        batches.save(str(tmp_path / "saved"))
    with pytest.raises(tf.errors.FailedPreconditionError, match="Ragged and sparse"):
        IPUInfeedQueue(batches)
    with pytest.raises(ValueError, match="ragged_rank must be less than rank"):
        tf.RaggedTensorSpec((None,), tf.int32, 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="greater than zero"):
        counts().ragged_batch(0)


def test_rows_of_dense_tensors():
    whole = np.array([[1, 0, 2], [3, 0, 0]])
    made = tf.RaggedTensor.from_tensor
    assert made(whole).to_list() == whole.tolist()
    assert made(whole, padding=0).to_list() == [[1, 0, 2], [3]]
    assert made(whole, lengths=[1, 2]).to_list() == [[1], [3, 0]]
    assert made(np.ones((1, 2, 3)), ragged_rank=2).ragged_rank == 2
    with pytest.raises(ValueError, match="not both"):
        made(whole, lengths=[1, 2], padding=0)
    with pytest.raises(ValueError, match="ragged_rank must be from 1 to 1"):
        made(whole, ragged_rank=2)


# --- sparse ---------------------------------------------------------------------------


def test_sparse_batches():
    batches = counts().sparse_batch(3, [5])
    assert batches.element_spec == tf.SparseTensorSpec((None, 5), tf.int64)
    first, second = batches
    assert first.indices.numpy().tolist() == [[1, 0], [2, 0], [2, 1]]
    assert first.values.numpy().tolist() == [0, 0, 1] and first.shape == (3, 5)
    assert second.indices.numpy().tolist() == [[0, 0], [0, 1], [0, 2]]
    (joined,) = batches.take(1).batch(1)
    assert tf.sparse.to_dense(joined, -1).shape == (1, 3, 5)
    dense = batches.map(lambda batch: tf.sparse.to_dense(batch, -1))
    assert dense.element_spec.shape == (None, None)
    assert lists(dense)[1] == [[0, 1, 2, -1, -1]]
    with pytest.raises(tf.errors.DataLossError, match=r"row_shape=\[5\]"):
        list(counts(9).sparse_batch(9, [5]))
    with pytest.raises(TypeError, match="one dense tensor"):
        batches.sparse_batch(2, [5])


# --- errors ---------------------------------------------------------------------------


@pytest.mark.parametrize("calls", [None, 1, 2, tf.data.AUTOTUNE])
def test_errors_are_left_out(calls):
    numbers = Dataset.from_tensor_slices(["1", "one", "3", "", "5"])
    made = numbers.map(tf.strings.to_number, calls).ignore_errors()
    assert [float(x) for x in made] == [1.0, 3.0, 5.0]
    assert int(made.cardinality()) == tf.data.UNKNOWN_CARDINALITY
    assert [float(x) for x in made] == [1.0, 3.0, 5.0]


def test_errors_are_left_out_behind_other_transformations():
    numbers = Dataset.from_tensor_slices(["1", "one", "3", "5", "6"])
    made = numbers.map(tf.strings.to_number)
    kept = numbers.filter(lambda x: tf.strings.to_number(x) > 2.0).ignore_errors()
    assert lists(kept) == [b"3", b"5", b"6"]
    assert [float(x) for x in made.prefetch(1).ignore_errors()] == [1.0, 3.0, 5.0, 6.0]
    assert lists(made.ignore_errors().batch(2)) == [[1.0, 3.0], [5.0, 6.0]]


def test_what_fails_for_ever_ends():
    words = Dataset.from_tensor_slices(["1"])
    words = words.concatenate(Dataset.from_tensor_slices(["x"]).repeat())
    numbers = iter(words.map(tf.strings.to_number).ignore_errors())
    assert float(next(numbers)) == 1.0
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(numbers)


def test_elements_of_a_key_are_joined():
    values = np.array([5, 1, 4, 3, 7, 2], np.int64)
    reducer = tf.data.experimental.Reducer(
        lambda key: (np.int64(0), key),
        lambda state, x: (state[0] + x, state[1]),
        lambda total, key: (key, total),
    )
    join = tf.data.experimental.group_by_reducer(lambda x: (x * 7) % 3, reducer)
    made = Dataset.from_tensor_slices(values).apply(join)
    assert [tuple(map(int, pair)) for pair in made] == [(0, 3), (1, 12), (2, 7)]
    assert int(made.cardinality()) == tf.data.UNKNOWN_CARDINALITY
    with pytest.raises(TypeError, match="Reducer"):
        Dataset.range(3).group_by_reducer(lambda x: x, 3)
    floats = Dataset.from_tensor_slices([0.5])
    with pytest.raises(ValueError, match="scalar integer"):
        floats.group_by_reducer(lambda x: x, reducer)


# --- characters -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, encoding, errors, points, offsets",
    [
        ("añ".encode(), "UTF-8", "replace", [97, 241], [0, 1]),
        (b"a\xffb", "UTF-8", "replace", [97, 65533, 98], [0, 1, 2]),
        (b"a\xffb", "UTF-8", "ignore", [97, 98], [0, 2]),
        ("aé".encode("utf-16-be"), "UTF-16-BE", "replace", [97, 233], [0, 2]),
        (b"a\xe2\x28b", "UTF-8", "replace", [97, 65533, 40, 98], [0, 1, 2, 3]),
        (b"", "UTF-8", "replace", [], []),
    ],
)
def test_offsets_of_characters(text, encoding, errors, points, offsets):
    found, places = tf.strings.unicode_decode_with_offsets(text, encoding, errors)
    assert found.numpy().tolist() == points and places.numpy().tolist() == offsets
    parts, places = tf.strings.unicode_split_with_offsets(text, encoding, errors)
    assert len(parts) == len(points) and places.numpy().tolist() == offsets


def test_offsets_in_several_strings():
    parts, places = tf.strings.unicode_split_with_offsets(["añ", "b"], "UTF-8")
    assert parts.to_list() == [[b"a", "ñ".encode()], [b"b"]]
    assert places.to_list() == [[0, 1], [0]]
