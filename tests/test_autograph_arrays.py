# SPDX-License-Identifier: MIT
"""TensorArrays without an element_shape in loops that AutoGraph converts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import tf


@tf.function
def written_in_for(n: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=4)
    for i in tf.range(n):
        array = array.write(i, tf.cast(i, tf.float32) * [1.0, 2.0])
    return array.stack()


@tf.function
def written_in_a_branch_of_while(n: Any) -> Any:
    array = tf.TensorArray(tf.int32, size=5)
    i = tf.constant(0)
    while i < n:
        if i > 1:
            array = array.write(i, i * 10)
        i += 1
    return array.stack()


@tf.function
def written_in_nested_loops_with_break(n: Any) -> Any:
    array, other = tf.TensorArray(tf.int32, size=6), tf.TensorArray(tf.int32, size=2)
    for i in tf.range(2):
        for j in tf.range(3):
            array = array.write(i * 3 + j, i * 10 + j)
            if j > n:
                break
        other = other.write(i, array.read(i * 3) + 1)
    return array.stack(), other.stack()


@tf.function
def returned_from_the_loop(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=3)
    i = 0
    while x < 100.0:
        array = array.write(i, x)
        x = x * 3.0
        i += 1
        if i > 2:
            return array.stack()
    return array.stack() * 0.0


@tf.function
def a_new_one_in_each_turn(n: Any) -> Any:
    array = tf.TensorArray(tf.int32, size=2)
    for i in tf.range(n):
        array = tf.TensorArray(tf.int32, size=2)
        array = array.write(0, i)
    return array.stack()


@tf.function
def never_written(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=3)
    for _ in tf.range(3):
        x = x * 3.0
        array = array.identity()
    return x, array.write(0, x).stack()


def test_values() -> None:
    want = np.array([[0, 0], [1, 2], [2, 4], [0, 0]])
    np.testing.assert_array_equal(written_in_for(tf.constant(3)), want)
    np.testing.assert_array_equal(written_in_for(tf.constant(0)), 0 * want)
    got = written_in_a_branch_of_while(tf.constant(4))
    assert got.numpy().tolist() == [0, 0, 20, 30, 0]
    rows, other = written_in_nested_loops_with_break(tf.constant(0))
    assert rows.numpy().tolist() == [0, 1, 0, 10, 11, 0]
    assert other.numpy().tolist() == [1, 11]
    got = returned_from_the_loop(tf.constant(1.0))
    assert got.numpy().tolist() == [1.0, 3.0, 9.0]
    assert a_new_one_in_each_turn(tf.constant(3)).numpy().tolist() == [2, 0]
    x, rows = never_written(tf.constant(1.0))
    assert (float(x), rows.numpy().tolist()) == (27.0, [27.0, 0.0, 0.0])


def test_gradient() -> None:
    @tf.function
    def program(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            array = tf.TensorArray(tf.float32, size=3)
            y = x
            for i in tf.range(3):
                y = y * x
                array = array.write(i, y)
            total = tf.reduce_sum(array.stack())
        return tape.gradient(total, x)

    assert float(program(tf.constant(2.0))) == 4.0 + 12.0 + 32.0


def test_it_stays_an_array() -> None:
    @tf.function
    def program(n: Any) -> Any:
        array: Any = tf.TensorArray(tf.int32, size=3)
        for i in tf.range(n):
            array = i
        return array

    with pytest.raises(TypeError, match="'array' is another kind of value"):
        program(tf.constant(2))
