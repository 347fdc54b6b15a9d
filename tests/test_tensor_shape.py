# SPDX-License-Identifier: MIT
"""Shapes of tensors: tuples with TensorFlow's methods; and how tensors print."""

import copy
import pickle

import numpy as np
import pytest

import ipu.tf as tf
from ipu import keras


def test_a_shape_is_a_tuple_with_methods():
    shape = tf.constant(np.zeros((2, 3))).shape
    assert isinstance(shape, tf.TensorShape) and isinstance(shape, tuple)
    assert shape == (2, 3) and hash(shape) == hash((2, 3))
    assert (shape.rank, shape.ndims, shape.as_list()) == (2, 2, [2, 3])
    assert shape.num_elements() == 6 and shape.is_fully_defined()
    assert isinstance(shape[1:], tf.TensorShape) and shape[-1] == 3
    assert [7] + shape == (7, 2, 3)  # noqa: RUF005
    assert shape + [7] == (2, 3, 7)  # noqa: RUF005
    assert repr(shape) == str(shape) == "(2, 3)"


def test_what_is_not_known():
    part, none = tf.TensorShape([None, 3]), tf.TensorShape(None)
    assert part.num_elements() is None and not part.is_fully_defined()
    assert part.is_compatible_with([2, 3]) and not part.is_compatible_with([2, 4])
    assert part.merge_with([2, None]) == (2, 3)
    assert none.rank is None and none.is_compatible_with([1, 2])
    assert none.merge_with(part) == part and none.with_rank(2) == (None, None)
    with pytest.raises(ValueError, match="rank is known"):
        none.as_list()
    with pytest.raises(ValueError, match="fully defined"):
        part.assert_is_fully_defined()
    with pytest.raises(ValueError, match="incompatible"):
        part.merge_with([2, 4])
    with pytest.raises(ValueError, match="must have rank 3"):
        part.with_rank(3)


def test_wrong_sizes():
    with pytest.raises(ValueError, match="negative"):
        tf.TensorShape([-1])
    with pytest.raises(TypeError, match="'a'"):
        tf.TensorShape(["a"])


def test_copies_keep_what_is_not_known():
    for shape in (tf.TensorShape([None, 3]), tf.TensorShape(None)):
        for other in (copy.deepcopy(shape), pickle.loads(pickle.dumps(shape))):
            assert other.rank == shape.rank and tuple(other) == tuple(shape)


def test_everything_with_a_shape_has_one():
    variable = tf.Variable([[1.0, 2.0]])
    assert variable.shape.as_list() == variable.get_shape().as_list() == [1, 2]
    symbolic = keras.Input((4,))
    assert symbolic.shape.as_list() == [None, 4]
    assert keras.layers.Dense(3)(symbolic).get_shape().as_list() == [None, 3]
    seen = []
    tf.function(lambda x: seen.append(x.get_shape().as_list()))(tf.zeros((5, 1)))
    assert seen == [[5, 1]]


def test_set_shape_checks():
    tensor = tf.zeros((2, 3))
    tensor.set_shape((None, 3))
    with pytest.raises(ValueError, match="not compatible"):
        tensor.set_shape((3, 3))


def test_how_tensors_print():
    scalar, matrix = tf.constant(1.5), tf.constant([[1, 2], [3, 4]])
    assert str(scalar) == "tf.Tensor(1.5, shape=(), dtype=float32)"
    assert repr(scalar) == "<tf.Tensor: shape=(), dtype=float32, numpy=1.5>"
    assert f"{scalar} {scalar:.3f}" == "1.5 1.500"
    assert str(matrix) == "tf.Tensor(\n[[1 2]\n [3 4]], shape=(2, 2), dtype=int32)"
    assert repr(matrix).startswith("<tf.Tensor: shape=(2, 2), dtype=int32, numpy=\narr")
    assert f"{matrix}" == "[[1 2]\n [3 4]]"
    with pytest.raises(TypeError):
        f"{matrix:.3f}"
    assert repr(tf.Variable(1.5)).endswith("numpy=1.5>")
