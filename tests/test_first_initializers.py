# SPDX-License-Identifier: MIT
"""Initializers of TensorFlow 1, against what TensorFlow 2.21's ``compat.v1`` draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import keras
from ipu.tf.compat import v1 as tf

SHAPE = (300, 400)
# lowest, highest and standard deviation of 120,000 numbers of TensorFlow's, seed 1
DRAWN = {
    "random_uniform": (0.0, 1.0, 0.28879),
    "random_normal": (-4.99, 4.47, 0.99937),
    "truncated_normal": (-2.0, 2.0, 0.87964),
    "variance_scaling": (-0.13127, 0.13127, 0.05774),
    "glorot_uniform": (-0.09258, 0.09258, 0.05347),
}


@pytest.mark.parametrize("name", DRAWN)
def test_the_defaults_are_those_of_tensorflow_1(name: str) -> None:
    low, high, deviation = DRAWN[name]
    drawn = getattr(tf, f"{name}_initializer")(seed=1)(SHAPE).numpy()
    assert drawn.dtype == np.float32
    np.testing.assert_allclose(drawn.std(), deviation, rtol=0.01)
    # the ends of a normal distribution are where chance has them
    tolerance = 0.9 if name == "random_normal" else 0.02
    np.testing.assert_allclose([drawn.min(), drawn.max()], [low, high], atol=tolerance)


def test_unit_scaling() -> None:
    drawn = tf.uniform_unit_scaling_initializer(1.43, seed=1)(SHAPE).numpy()
    np.testing.assert_allclose([drawn.min(), drawn.max()], [-0.143, 0.143], atol=1e-4)
    made = tf.uniform_unit_scaling_initializer(1.43, seed=1)
    assert made.get_config() == {"factor": 1.43, "seed": 1, "dtype": "float32"}


@pytest.mark.parametrize("value", [np.arange(3.0), [0.0, 1.0, 2.0]])
def test_constants_do_not_change_with_what_they_were_given(value: Any) -> None:
    made = [keras.initializers.Constant(value), tf.constant_initializer(value)]
    value[:] = [9, 9, 9]
    for one in made:
        assert np.asarray(one((3,))).tolist() == [0, 1, 2]


def test_constants_fill_a_shape() -> None:
    made = tf.constant_initializer([1, 2, 3])
    assert made((2, 2)).numpy().tolist() == [[1, 2], [3, 3]]
    assert tf.constant_initializer(7.0)((2,)).numpy().tolist() == [7, 7]
    with pytest.raises(TypeError, match="3 numbers do not fit"):
        made((2,))
    with pytest.raises(TypeError, match="Expected Tensor's shape"):
        tf.constant_initializer([1, 2], verify_shape=True)((2, 1))


def test_dtypes() -> None:
    for initializer in (
        tf.zeros_initializer(tf.float16),
        tf.ones_initializer(dtype=tf.float16),
        tf.glorot_normal_initializer(None, tf.float16),
        tf.orthogonal_initializer(1.0, None, tf.float16),
    ):
        assert initializer((2, 2)).dtype == tf.float16
        # what a call asks for comes first
        assert initializer((2, 2), tf.float32).dtype == tf.float32
        again = type(initializer).from_config(initializer.get_config())
        assert again((2, 2)).dtype == tf.float16
