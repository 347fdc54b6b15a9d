# SPDX-License-Identifier: MIT
"""Data sets of TensorFlow 1 in graphs: made of what is fed, read by sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from session_runs import run

from ipu import ipu_compiler, loops, scopes
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.tf import data as new_data, errors
from ipu.tf.compat import v1 as tf

pytestmark = pytest.mark.usefixtures("graph")


def test_a_data_set_of_what_is_fed() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.placeholder(tf.int32, [None])
    size = tf.placeholder(tf.int64, [])
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    dataset = dataset.map(lambda row, label: (row * 2.0, label)).batch(size).repeat()
    assert [s.as_list() for s in dataset.output_shapes] == [[None, 3], [None]]
    assert dataset.output_types == (tf.float32, tf.int32)
    iterator = dataset.make_initializable_iterator()
    rows, labels = iterator.get_next()
    total = tf.reduce_sum(rows)
    with tf.Session() as session:
        with pytest.raises(errors.FailedPreconditionError, match="not been init"):
            session.run(total)
        for count, size_now in ((4, 2), (6, 3)):
            feed = {x: np.ones([count, 3]), y: range(count), size: size_now}
            session.run(iterator.initializer, feed)
            assert session.run(labels).tolist() == list(range(size_now))
            assert session.run(total) == 6.0 * size_now
        with pytest.raises(errors.InvalidArgumentError, match="must feed a value"):
            session.run(iterator.initializer)


def test_a_queue_of_what_is_fed() -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    rows = tf.data.Dataset.from_tensor_slices(x)
    with pytest.raises(ValueError, match="drop_remainder"):
        IPUInfeedQueue(rows.batch(3))
    queue = IPUInfeedQueue(rows.batch(3, drop_remainder=True).repeat())
    out = IPUOutfeedQueue()
    with scopes.ipu_scope("/device:IPU:0"):
        loop = ipu_compiler.compile(
            lambda: loops.repeat(2, lambda x: out.enqueue(tf.reduce_sum(x)), [], queue)
        )
    dequeue, begin, end = out.dequeue(), queue.initializer, queue.deleter
    with tf.Session() as session:
        with pytest.raises(errors.InvalidArgumentError, match="must feed a value"):
            session.run(begin)
        for start in (0.0, 100.0):
            session.run(begin, {x: start + np.arange(12).reshape(6, 2)})
            session.run(loop)
            sums = [start * 6 + 15, start * 6 + 51]
            assert session.run(dequeue).tolist() == sums
            session.run(end)


def test_methods_of_data_sets_make_iterators() -> None:
    dataset = tf.data.Dataset.range(4).map(lambda i: i * 2).batch(2)
    assert isinstance(dataset, new_data.Dataset)
    assert isinstance(dataset, tf.data.Dataset)
    assert dataset.output_types == tf.int64
    following = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert session.run(following).tolist() == [0, 2]
        assert session.run(following).tolist() == [4, 6]
        with pytest.raises(errors.OutOfRangeError):
            session.run(following)
    assert IPUInfeedQueue(dataset.unbatch().repeat())
    for fixed in (tf.constant([1, 2]), tf.zeros([2]) + 1.0):
        made = tf.data.Dataset.from_tensor_slices(fixed)
        assert isinstance(made, tf.data.Dataset)


def test_one_iterator_for_several_data_sets() -> None:
    x = tf.placeholder(tf.float32, [None])
    train = tf.data.Dataset.from_tensor_slices(np.array([1.0, 2.0], np.float32))
    test = tf.data.Dataset.from_tensor_slices(x)
    iterator = tf.data.Iterator.from_structure(train.output_types, train.output_shapes)
    following = iterator.get_next()
    begin_train, begin_test = (iterator.make_initializer(one) for one in (train, test))
    with pytest.raises(ValueError, match="does not have an initializer"):
        _ = iterator.initializer
    with tf.Session() as session:
        session.run(begin_train)
        assert session.run(following) == 1.0
        session.run(begin_test, {x: [7.0]})
        assert session.run(following) == 7.0
        session.run(begin_train)
        assert session.run(following) == 1.0


def test_lines_of_files_that_are_fed(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.txt" for name in "ab"]
    for file in files:
        file.write_text(f"{file.stem}1\n{file.stem}2\n")
    names = tf.placeholder(tf.string, [None])
    iterator = tf.data.TextLineDataset(names).batch(4).make_initializable_iterator()
    lines = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer, {names: [str(file) for file in files]})
        assert session.run(lines).tolist() == [b"a1", b"a2", b"b1", b"b2"]


def test_errors_of_pending_data_sets() -> None:
    x = tf.placeholder(tf.float32, [None])
    pending = tf.data.Dataset.from_tensor_slices(x)
    with pytest.raises(ValueError, match="one-shot iterator cannot be made"):
        pending.make_one_shot_iterator()
    with pytest.raises(AttributeError, match="bach"):
        pending.bach(2)
    unknown = tf.data.Dataset.from_tensor_slices(tf.placeholder(tf.float32))
    with pytest.raises(ValueError, match="whose shape is not known"):
        unknown.make_initializable_iterator()


@pytest.mark.parametrize("kind", ["static", "vocabulary"])
def test_tables_in_graphs(kind: str) -> None:
    keys, numbers = tf.constant(["a", "b"]), tf.constant([1, 0], tf.int64)
    words = tf.placeholder(tf.string, [None])
    rows = tf.lookup.KeyValueTensorInitializer(keys, numbers)
    table: Any
    if kind == "static":
        table = tf.lookup.StaticHashTable(rows, -1)
    else:
        table = tf.lookup.StaticVocabularyTable(rows, 1)
    found = table.lookup(words)
    assert found.dtype == tf.int64 and found.shape.as_list() == [None]
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        got = session.run(found * 2, {words: ["b", "z", "a"]})
    assert got.tolist() == [0, -2 if kind == "static" else 4, 2]
    assert run(table.size()) == (2 if kind == "static" else 3)
