# SPDX-License-Identifier: MIT
"""Queues of TensorFlow 1 on the host, what fills them, and batches of it."""

from __future__ import annotations

import _thread
import threading
from typing import Any

import numpy as np
import pytest

from ipu.tf import errors
from ipu.tf.compat import v1 as tf

pytestmark = pytest.mark.usefixtures("graph")

ROWS = np.arange(20, dtype="f4").reshape(10, 2)


def test_first_in_first_out() -> None:
    queue = tf.FIFOQueue(5, [tf.float32, tf.int32], shapes=[[2], []])
    x, n = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.int32, [])
    one = queue.enqueue([x, n])
    many = queue.enqueue_many([ROWS[:2], [7, 8]])
    taken, count = queue.dequeue(), queue.size()
    pair = queue.dequeue_many(2)
    assert taken[0].shape == (2,) and pair[0].shape == (2, 2)
    assert queue.dtypes == [tf.float32, tf.int32] and queue.shapes[0] == (2,)
    # of a thread that Python did not start, something stays in its list of threads
    asked = threading.Event()
    _thread.start_new_thread(lambda: (threading.current_thread(), asked.set()), ())
    assert asked.wait(10)
    with tf.Session() as session:
        session.run(one, {x: [5, 6], n: 3})
        session.run(many)
        assert session.run(count) == 3
        values, number = session.run(taken)
        np.testing.assert_array_equal(values, [5, 6])
        assert number == 3
        rows, numbers = session.run(pair)
        np.testing.assert_array_equal(rows, ROWS[:2])
        np.testing.assert_array_equal(numbers, [7, 8])
        with pytest.raises(errors.FailedPreconditionError, match="is empty"):
            session.run(taken)
        session.run(queue.close())
        assert session.run(queue.is_closed())
        with pytest.raises(errors.OutOfRangeError, match="insufficient elements"):
            session.run(taken)
        with pytest.raises(errors.OutOfRangeError, match="is closed"):
            session.run(many)
    with tf.Session() as session:  # another one has elements of its own
        assert session.run(count) == 0


def test_a_full_queue_waits_for_another_thread() -> None:
    queue = tf.FIFOQueue(2, tf.float32, shapes=[])
    x = tf.placeholder(tf.float32, [])
    put, take = queue.enqueue(x), queue.dequeue_many(6)
    with tf.Session() as session:

        def fill() -> None:
            for i in range(6):
                session.run(put, {x: i})

        thread = threading.Thread(target=fill)
        thread.start()
        one = queue.dequeue()
        found = [float(session.run(one)) for _ in range(6)]
        thread.join(20)
        assert found == [0, 1, 2, 3, 4, 5] and not thread.is_alive()
        session.run(put, {x: 1.0})
        session.run(put, {x: 2.0})
        with pytest.raises(errors.FailedPreconditionError, match="is full"):
            session.run(put, {x: 3.0})
        session.run(queue.close())
        up_to = queue.dequeue_up_to(5)
        np.testing.assert_array_equal(session.run(up_to), [1.0, 2.0])
        with pytest.raises(errors.OutOfRangeError):
            session.run(take)


def test_a_shuffled_queue_keeps_some() -> None:
    queue = tf.RandomShuffleQueue(50, 5, tf.int32, shapes=[[]], seed=3)
    put, take = queue.enqueue_many([np.arange(20)]), queue.dequeue_many(15)
    one = queue.dequeue()
    drawn = []
    for _ in range(2):
        with tf.Session() as session:
            session.run(put)
            drawn.append(session.run(take).tolist())
            with pytest.raises(errors.FailedPreconditionError):
                session.run(one)
            session.run(queue.close())
            rest = [int(session.run(one)) for _ in range(5)]
        assert sorted(drawn[-1] + rest) == list(range(20))
    assert drawn[0] == drawn[1] != sorted(drawn[0])


def test_batches_of_rows() -> None:
    x, y = tf.train.slice_input_producer([ROWS, np.arange(10)], shuffle=False)
    twice = x * 2.0  # run for each element
    rows, numbers = tf.train.batch([twice, y], 4)
    assert rows.shape == (4, 2) and numbers.shape == (4,)
    with tf.Session() as session:
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        for i in range(4):
            order = np.arange(4 * i, 4 * i + 4) % 10
            found = session.run([rows, numbers])
            np.testing.assert_array_equal(found[0], 2 * ROWS[order])
            np.testing.assert_array_equal(found[1], order)
        coord.request_stop()
        coord.join(threads)
    assert len(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)) == 2


@pytest.mark.parametrize("smaller", [False, True])
def test_the_end_of_the_epochs(smaller: bool) -> None:
    (x,) = tf.train.slice_input_producer([np.arange(5)], num_epochs=2, shuffle=True)
    batch = tf.train.batch({"x": x}, 4, allow_smaller_final_batch=smaller)["x"]
    found: list[Any] = []
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        with pytest.raises(errors.OutOfRangeError):
            while True:
                found.append(session.run(batch))
    assert [len(one) for one in found] == [4, 4, 2][: 2 + smaller]
    whole = np.concatenate(found)
    assert sorted(whole[:5]) == [0, 1, 2, 3, 4] and list(whole[:5]) != [0, 1, 2, 3, 4]
    if smaller:
        assert sorted(whole[5:]) == [0, 1, 2, 3, 4]


def test_shuffled_batches_train() -> None:
    features = np.random.RandomState(1).normal(size=(10, 2)).astype("f4")
    labels = features @ np.float32([1.0, -2.0])
    x, y = tf.train.slice_input_producer([features, labels])
    xs, ys = tf.train.shuffle_batch([x, y], 5, 50, 10, seed=2)
    w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(xs * w, 1) - ys))
    train = tf.train.AdamOptimizer(0.1).minimize(loss)
    with tf.train.MonitoredTrainingSession() as session:
        for _ in range(300):
            session.run(train)
        np.testing.assert_allclose(session.run(w), [1.0, -2.0], atol=0.05)


def test_a_runner_of_ones_own() -> None:
    queue = tf.FIFOQueue(9, [tf.float32], shapes=[[]])
    count = tf.get_variable("count", [], initializer=tf.zeros_initializer())
    ops = [queue.enqueue([count.assign_add(1.0)])]
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, ops))
    rows = tf.train.batch([queue.dequeue()], 2, enqueue_many=False)
    many = tf.train.batch(
        tf.train.input_producer(ROWS, shuffle=False).dequeue(), 3, enqueue_many=True
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(rows), [1, 2])
        np.testing.assert_array_equal(session.run(rows), [3, 4])
        np.testing.assert_array_equal(session.run(many), [0, 1, 2])
        np.testing.assert_array_equal(session.run(many), [3, 4, 5])


def test_texts() -> None:
    queue = tf.FIFOQueue(9, tf.string, shapes=[[]])
    put, take = queue.enqueue_many([["a", "bc"]]), queue.dequeue_many(2)
    with tf.Session() as session:
        session.run(put)
        assert session.run(take).tolist() == [b"a", b"bc"]


def test_bad_arguments() -> None:
    queue = tf.FIFOQueue(2, [tf.float32, tf.int32])
    with pytest.raises(ValueError, match=r"has 2 components\. Received: 1 values"):
        queue.enqueue([1.0])
    with pytest.raises(ValueError, match="Give `shapes`"):
        queue.dequeue_many(3)
    with pytest.raises(ValueError, match="same length as dtypes, 2"):
        tf.FIFOQueue(2, [tf.float32, tf.int32], shapes=[[1]])
    with pytest.raises(ValueError, match=r"has the shape \(2,\). Received: \(3,\)"):
        tf.FIFOQueue(2, [tf.float32], shapes=[[2]]).enqueue([[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="All shapes must be fully defined"):
        tf.train.batch([tf.placeholder(tf.float32, [None])], 2)
    with pytest.raises(NotImplementedError, match="padded_batch"):
        tf.train.batch([tf.zeros([2])], 2, dynamic_pad=True)
    with pytest.raises(NotImplementedError, match="no names here"):
        tf.FIFOQueue(2, [tf.float32], names=["x"])
    with pytest.raises(ValueError, match="at least one tensor"):
        tf.train.slice_input_producer([])
    with pytest.raises(AttributeError, match="TextLineDataset"):
        _ = tf.TextLineReader
