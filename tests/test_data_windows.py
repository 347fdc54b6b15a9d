# SPDX-License-Identifier: MIT
"""`Dataset`: windows, groups, buckets; oracles are a few lines of Python."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ipu import keras, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.tf import errors

Dataset = tf.data.Dataset


def lists(dataset: Dataset) -> list:
    return [x.numpy().tolist() for x in dataset]


def ragged(lengths: list[int]) -> Dataset:
    return Dataset.from_generator(
        lambda: (np.arange(1, n + 1) for n in lengths),
        output_signature=tf.TensorSpec((None,), tf.int64),
    )


# --- window ------------------------------------------------------------------------


@given(
    count=st.integers(0, 12),
    size=st.integers(1, 5),
    shift=st.none() | st.integers(1, 5),
    stride=st.integers(1, 3),
    drop=st.booleans(),
)
def test_windows_are_slices(count, size, shift, stride, drop) -> None:
    made = Dataset.range(count).window(size, shift, stride, drop)
    starts = range(0, count, shift or size)
    wanted = [
        list(range(count))[at : at + (size - 1) * stride + 1 : stride] for at in starts
    ]
    wanted = [one for one in wanted if len(one) == size or not drop]
    assert [lists(window) for window in made] == wanted
    assert len(made) == len(wanted)


def test_windows_of_nests_are_nests_of_data_sets() -> None:
    pairs = Dataset.zip({"a": Dataset.range(4), "b": ragged([0, 1, 2, 3])})
    first, second = pairs.window(2)
    assert lists(first["a"]) == [0, 1] and lists(second["b"]) == [[1, 2], [1, 2, 3]]
    spec = pairs.window(2).element_spec
    assert spec["a"] == tf.data.DatasetSpec(tf.TensorSpec((), tf.int64))
    rows = pairs.window(2).flat_map(
        lambda w: Dataset.zip((w["a"].batch(2), w["b"].padded_batch(2)))
    )
    assert [(a.numpy().tolist(), b.shape[1]) for a, b in rows] == [
        ([0, 1], 1),
        ([2, 3], 3),
    ]


def test_windows_are_handed_on_and_mapped() -> None:
    windows = Dataset.range(7).window(2)
    kept = windows.filter(lambda w: len(w) == 2)
    assert [lists(w) for w in kept] == [[0, 1], [2, 3], [4, 5]]
    sums = windows.map(lambda w: w.reduce(np.int64(0), lambda s, x: s + x))
    assert lists(sums) == [1, 5, 9, 6] and sums.element_spec.shape == ()
    shuffled = windows.shuffle(9, seed=1).repeat(2).skip(1)
    assert sorted(map(lists, shuffled.take(7)))[-1] == [6]
    doubled = windows.map(lambda w: w.map(lambda x: 2 * x))
    assert [lists(w) for w in doubled.cache()] == [[0, 2], [4, 6], [8, 10], [12]]
    nested = [[lists(w) for w in outer] for outer in windows.window(3)]
    assert nested == [[[0, 1], [2, 3], [4, 5]], [[6]]]
    assert next(list(w) for w in windows.as_numpy_iterator()) == [0, 1]
    one = windows.take(1).get_single_element()
    assert lists(one) == [0, 1]
    endless = Dataset.range(3).repeat().window(2)
    assert int(endless.cardinality()) == tf.data.INFINITE_CARDINALITY
    assert lists(next(iter(endless.skip(1)))) == [2, 0]


def test_windows_refuse() -> None:
    for words in ({"size": 0}, {"size": 2, "shift": 0}, {"size": 2, "stride": 0}):
        what = [*words][-1]
        with pytest.raises(errors.InvalidArgumentError, match=f"Window {what} must"):
            Dataset.range(3).window(**words)
    windows = Dataset.range(4).window(2)
    with pytest.raises(TypeError, match="batch of data sets"):
        windows.batch(2)
    with pytest.raises(ValueError, match="scalar"):
        windows.unbatch()
    with pytest.raises(errors.FailedPreconditionError, match="stay on the host"):
        IPUInfeedQueue(windows)


# --- groups and buckets ------------------------------------------------------------


@given(
    keys=st.lists(st.integers(-2, 2), min_size=1, max_size=20), size=st.integers(1, 4)
)
def test_groups_come_when_they_are_full(keys, size) -> None:
    values = np.array(keys)
    made = Dataset.from_tensor_slices((values, np.arange(len(keys)))).group_by_window(
        lambda key, at: key, lambda key, rows: rows.map(lambda k, at: at), size
    )
    groups, wanted = defaultdict(list), []
    for at, key in enumerate(keys):
        groups[key].append(at)
        if len(groups[key]) == size:
            wanted += groups.pop(key)
    wanted += [at for key in sorted(groups) for at in groups[key]]
    assert lists(made) == wanted


def test_groups_have_sizes_of_their_own() -> None:
    made = Dataset.range(7).group_by_window(
        lambda x: x % 2, lambda k, w: w.batch(9), window_size_func=lambda k: k + 1
    )
    assert lists(made) == [[0], [2], [1, 3], [4], [6], [5]]
    old = tf.data.experimental.group_by_window(
        lambda x: x % 3, lambda k, w: w.batch(2), 2
    )
    assert lists(Dataset.range(7).apply(old)) == [[0, 3], [1, 4], [2, 5], [6]]


def test_groups_refuse() -> None:
    data, batch = Dataset.range(3), lambda k, w: w.batch(2)
    with pytest.raises(ValueError, match="`window_size_func`"):
        data.group_by_window(lambda x: x, batch)
    with pytest.raises(errors.InvalidArgumentError, match="greater than zero"):
        lists(data.group_by_window(lambda x: x, batch, 0))
    with pytest.raises(TypeError, match="`reduce_func` must return"):
        data.group_by_window(lambda x: x, lambda k, w: 1, 2)
    with pytest.raises(ValueError, match="integer scalar"):
        data.group_by_window(lambda x: tf.cast(x, tf.float32), batch, 2)
    with pytest.raises(ValueError, match="none to make a group"):
        Dataset.range(0).group_by_window(lambda x: x, batch, 2)


# what TensorFlow 2.21 gives for the same lines
LENGTHS = [1, 5, 2, 3, 5, 4, 2]


def test_buckets() -> None:
    made = ragged(LENGTHS).bucket_by_sequence_length(
        lambda x: tf.shape(x)[0], [3, 6], [2, 2, 2], padding_values=np.int64(-1)
    )
    assert lists(made) == [
        [[1, -1], [1, 2]],
        [[1, 2, 3, 4, 5], [1, 2, 3, -1, -1]],
        [[1, 2, 3, 4, 5], [1, 2, 3, 4, -1]],
        [[1, 2]],
    ]
    assert made.element_spec.shape == (None, None)


def test_buckets_of_few_shapes() -> None:
    words = {"pad_to_bucket_boundary": True, "drop_remainder": True}
    made = ragged(LENGTHS).bucket_by_sequence_length(len, [4, 8], [2, 2, 1], **words)
    assert [x.shape for x in made] == [(2, 3), (2, 7), (2, 3)]
    long = ragged([1, 9]).bucket_by_sequence_length(len, [4], [1, 1], **words)
    with pytest.raises(errors.InvalidArgumentError, match=r"must have length < max"):
        lists(long)
    with pytest.raises(ValueError, match="2 sizes and 2 boundaries"):
        ragged([1]).bucket_by_sequence_length(len, [3, 6], [2, 2])
    same = ragged([2, 1, 2]).bucket_by_sequence_length(
        len, [2], [2, 2], no_padding=True
    )
    assert lists(same) == [[[1, 2], [1, 2]], [[1]]]


def test_what_does_not_fit_its_padding() -> None:
    pairs = Dataset.zip((Dataset.range(2), ragged([1, 5])))
    made = pairs.padded_batch(2, ((), (3,)))
    with pytest.raises(
        errors.InvalidArgumentError,
        match=r"component 1 of an element has shape \(5,\).*padded shape \(3,\)",
    ):
        list(made)


def test_padded_batches_train_outside_of_strategies() -> None:
    data = Dataset.zip((ragged([1, 3, 2, 4]), Dataset.range(4)))
    data = data.map(lambda x, y: (tf.cast(x, tf.int32), tf.cast(y, tf.float32)))
    data = data.padded_batch(2)
    model = keras.Sequential(
        [keras.layers.Embedding(5, 2), keras.layers.GlobalAveragePooling1D()]
    )
    model.add(keras.layers.Dense(1))
    model.compile(loss="mse", optimizer="sgd")
    assert len(model.fit(data, epochs=2, verbose=0).history["loss"]) == 2
    with pytest.raises(ValueError, match="not fully"):
        IPUInfeedQueue(data)
