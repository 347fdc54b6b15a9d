# SPDX-License-Identifier: MIT
"""Variables written at some rows and points; ``tf.IndexedSlices``.

The numbers are TensorFlow 2.21's: the slow tier runs the same programs on it
(``scattered_rows``, ``indexed_slices`` of tests/differential/function_programs.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import tf

DELTA = ([[1.0, 5.0], [3.0, 4.0]], [2, 0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("update", [[3.0, 4.0], [3.0, 4.0], [1.0, 5.0]]),
        ("add", [[4.0, 6.0], [3.0, 4.0], [6.0, 11.0]]),
        ("sub", [[-2.0, -2.0], [3.0, 4.0], [4.0, 1.0]]),
        ("max", [[3.0, 4.0], [3.0, 4.0], [5.0, 6.0]]),
        ("min", [[1.0, 2.0], [3.0, 4.0], [1.0, 5.0]]),
    ],
)
@pytest.mark.parametrize("traced", [False, True])
def test_rows(name: str, expected: list[list[float]], traced: bool) -> None:
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    def write() -> None:
        assert getattr(v, f"scatter_{name}")(tf.IndexedSlices(*DELTA)) is v

    (tf.function(write) if traced else write)()
    assert v.numpy().tolist() == expected


def test_points_that_are_named_twice() -> None:
    v = tf.Variable([1, 2, 3])
    v.scatter_nd_add([[1], [1]], [10, 20])
    v.scatter_nd_sub([[0]], [5])
    assert v.numpy().tolist() == [-4, 32, 3]
    v.scatter_nd_update([[2], [2]], [7, 8])
    assert v.numpy().tolist() == [-4, 32, 8]


@pytest.mark.parametrize("inner", [3, 70, 300, 5000])
@pytest.mark.parametrize("slices", [2, 19, 700])
def test_sums_of_halves_are_rounded_once(slices: int, inner: int) -> None:
    rng = np.random.default_rng(inner)
    index = rng.integers(0, slices, 23)[:, None]
    x: Any = rng.standard_normal((slices, inner)).astype("f2")
    updates = rng.standard_normal((23, inner)).astype("f2")
    want: Any = x.astype("f4")
    np.add.at(want, index[:, 0], updates.astype("f4"))
    got = tf.tensor_scatter_nd_add(x, index, updates)
    np.testing.assert_array_equal(got, want.astype("f2"))


def test_rows_as_a_tensor() -> None:
    rows = tf.IndexedSlices([[1.0], [3.0], [5.0]], [2, 0, 2], [4, 1])
    assert tf.convert_to_tensor(rows).numpy().tolist() == [[3.0], [0.0], [6.0], [0.0]]
    assert (rows.shape.as_list(), rows.dtype) == ([4, 1], tf.float32)
    assert tf.IndexedSlices([[1.0]], [2]).shape.as_list() == [None, 1]


def test_what_is_wrong_says_so() -> None:
    with pytest.raises(ValueError, match=r"one index for each row.*\(1, 1\).*\(2,\)"):
        tf.IndexedSlices([[1.0]], [2, 3])
    with pytest.raises(ValueError, match="without `dense_shape`"):
        tf.convert_to_tensor(tf.IndexedSlices([[1.0]], [2]))
    v = tf.Variable([1.0, 2.0])
    with pytest.raises(TypeError, match=r"Write tf\.IndexedSlices"):
        v.scatter_add([3.0])  # type: ignore[arg-type]
    with pytest.raises((ValueError, IndexError, tf.errors.InvalidArgumentError)):
        v.scatter_nd_update([[2]], [9.0])
    assert v.numpy().tolist() == [1.0, 2.0]
