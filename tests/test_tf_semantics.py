"""What TensorFlow 2 gives, where another answer would pass unseen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import keras, tf


def test_variables_compare_their_elements() -> None:
    v, w = tf.Variable(3.0), tf.Variable([3.0, 4.0])
    assert bool(v == 3.0) and not bool(v != 3.0) and bool(v != 4.0)
    assert (
        bool(v == 3.0) and bool(v == tf.constant(3.0)) and bool(v == tf.Variable(3.0))
    )
    assert (w == 3.0).numpy().tolist() == [True, False]
    assert (w != v).numpy().tolist() == [False, True]
    assert (w == np.array([3.0, 5.0], np.float32)).numpy().tolist() == [True, False]
    none: Any = None
    assert (v == none) is False
    assert (v != none) is True
    assert (v == "3.0") is False


@pytest.mark.parametrize("kind", ["if", "while", "for"])
def test_variables_compared_in_autograph(kind: str) -> None:
    v = tf.Variable(0)

    @tf.function
    def branch() -> Any:
        if v == 0:
            return tf.constant(10)
        return tf.constant(20)

    @tf.function
    def loop() -> Any:
        n = tf.constant(0)
        if kind == "while":
            while v != 5:
                v.assign_add(1)
                n += 1
        else:
            for _ in tf.range(9):
                if v == 5:
                    break
                v.assign_add(1)
                n += 1
        return n

    if kind == "if":
        assert int(branch()) == 10
        v.assign(1)
        assert int(branch()) == 20
    else:
        assert int(loop()) == 5


def test_references() -> None:
    v, w = tf.Variable(1.0), tf.Variable(1.0)
    x = tf.constant(1.0)
    for thing in (v, x):
        with pytest.raises(TypeError, match="unhashable"):
            hash(thing)
        assert thing.ref() == thing.ref()
        assert thing.ref().deref() is thing
        assert hash(thing.ref()) == hash(thing.ref())
        assert thing.ref() != thing
    assert {v.ref(), w.ref(), v.ref(), x.ref()} == {x.ref(), w.ref(), v.ref()}
    assert v.ref() != w.ref()
    names = {v.ref(): "v", w.ref(): "w"}
    assert names[w.ref()] == "w"


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
def test_means_of_integers(dtype: str, traced: bool) -> None:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(1)
    rows = [
        [info.max] * 7,
        [info.min] * 7,
        [info.max, info.max - 1] + [info.max] * 5,
        [info.min, info.min + 1] + [info.min] * 5,
        [info.min, info.max, 1, 0, 0, 0, 1],
        *rng.integers(info.min, info.max, (40, 7), np.int64).tolist(),
        *rng.integers(max(info.min, -9), 9, (40, 7)).tolist(),
    ]
    array = np.array(rows, dtype)

    def mean(x: Any) -> Any:
        return tf.reduce_mean(x, 1)

    found = (tf.function(mean) if traced else mean)(tf.constant(array))
    exact = [abs(sum(row)) // 7 * (1 if sum(row) >= 0 else -1) for row in rows]
    assert found.numpy().tolist() == exact
    assert found.dtype.name == dtype


def test_true_division_of_integers() -> None:
    for dtype in ("int32", "int64", "uint32"):
        x = tf.constant([16777217, 3], dtype)
        for quotient in (x / 1, tf.divide(x, 1), tf.math.truediv(x, 1)):
            assert quotient.dtype == tf.float64
            assert quotient.numpy().tolist() == [16777217.0, 3.0]
        assert (1 / x).dtype == tf.float64
    for dtype in ("int8", "uint8", "int16", "uint16"):
        assert (tf.constant([1], dtype) / 2).dtype == tf.float32
    on_device = tf.function(lambda x: x / 2)(tf.constant([3]))
    assert on_device.dtype == tf.float32  # a device has no float64
    assert on_device.numpy().tolist() == [1.5]


def test_linspace_of_integers() -> None:
    steps = tf.linspace(0, 10, 5)
    assert steps.dtype == tf.float64
    assert steps.numpy().tolist() == [0.0, 2.5, 5.0, 7.5, 10.0]
    assert tf.linspace(0, 10, 1).numpy().tolist() == [0.0]
    on_device = tf.function(lambda: tf.linspace(0, 10, 5))()
    assert on_device.numpy().tolist() == [0.0, 2.5, 5.0, 7.5, 10.0]


@pytest.mark.parametrize("shape", [(2, 3, 4), (5, 2, 3, 4)])
def test_transposed_images(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(np.int32)
    found = tf.image.transpose(array).numpy()
    np.testing.assert_array_equal(found, np.swapaxes(array, -3, -2))
    with pytest.raises(ValueError, match="3 or 4 dimensions"):
        tf.image.transpose([[1, 2]])


def test_dtypes_of_places_and_counts() -> None:
    x = tf.constant([[1.0, 0.0], [3.0, 5.0]])
    for op in (tf.argmax, tf.argmin, tf.math.argmax, tf.math.count_nonzero):
        assert op(x).dtype == tf.int64
        assert tf.function(op)(x).dtype == tf.int32  # a device has no int64
    assert tf.argmax(x, output_type=tf.int32).dtype == tf.int32
    assert tf.math.count_nonzero(x, dtype=tf.int32).dtype == tf.int32
    assert tf.math.count_nonzero(x, 0).numpy().tolist() == [2, 1]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_places_pass_over_nan(dtype: str) -> None:
    nan = np.nan
    rows = tf.constant([[1, nan, 3], [nan, 1, 2], [nan] * 3, [2, nan, 1]], dtype)
    assert tf.argmax(rows, 1).numpy().tolist() == [2, 2, 0, 0]
    assert tf.argmin(rows, 1).numpy().tolist() == [0, 1, 0, 2]
    turned = tf.transpose(rows)
    assert tf.argmax(turned, 0).numpy().tolist() == [2, 2, 0, 0]


def test_constants_of_the_backend() -> None:
    assert keras.backend.constant([1, 2]).dtype == tf.float32
    assert keras.backend.constant([1, 2], dtype="int32").dtype == tf.int32
    assert keras.backend.constant(1, shape=(2,)).numpy().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "function"])
def test_gradients_at_corners(traced: bool) -> None:
    x = tf.constant([-2.0, 0.0, 3.0])

    def gradient(f: Any) -> Any:
        def run() -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            return tape.gradient(y, x)

        found = (tf.function(run) if traced else run)()
        return None if found is None else found.numpy().tolist()

    assert gradient(tf.sign) == [0.0, 0.0, 0.0]
    assert gradient(tf.floor) is None
    assert gradient(tf.nn.elu)[1:] == [1.0, 1.0]
    np.testing.assert_allclose(gradient(tf.nn.selu)[1:], [1.050701, 1.050701], 1e-6)


def test_shapes_equal_what_makes_them() -> None:
    x = tf.zeros((2, 3))
    for sizes in ([2, 3], (2, 3), tf.TensorShape([2, 3])):
        assert x.shape == sizes and sizes == x.shape
        assert (x.shape != sizes) is False and (sizes != x.shape) is False
    assert x.shape != [3, 2] and x.shape != [2]
    assert tf.zeros(4).shape == 4 and x.shape != 6
    assert x.shape != "23" and x.shape != [2, "a"] and x.shape != [-2, 3]
    assert tf.TensorShape([None, 3]) == [None, 3]
    assert tf.TensorShape(None) == tf.TensorShape(None)
    assert tf.TensorShape(None) != [] and tf.TensorShape(None) != []
    assert tf.TensorShape([]) != tf.TensorShape(None)
    assert {x.shape: 1}[tf.TensorShape([2, 3])] == 1
    assert {(2, 3): 1}[x.shape] == 1


def test_parts_of_captured_tensors_carry_gradients() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])

    @tf.function
    def gradient() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(x[:, None, 0] ** 2)
        return tape.gradient(y, x)

    assert gradient().numpy().tolist() == [[2.0, 0.0], [6.0, 0.0]]


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "function"])
def test_operators_on_bits(traced: bool) -> None:
    p, q = np.array([True, True, False]), np.array([True, False, False])
    i, j = np.array([6, 5, -1], np.int32), np.array([3, 1, 7], np.int32)

    def operators(a: Any, b: Any) -> Any:
        return a & b, a | b, a ^ b, ~a

    run = tf.function(operators) if traced else operators
    for a, b in ((p, q), (i, j)):
        wanted = [x.tolist() for x in operators(a, b)]
        found = run(tf.constant(a), tf.constant(b))
        assert [x.numpy().tolist() for x in found] == wanted
    v = tf.Variable(i)
    assert (v & 3).numpy().tolist() == (i & 3).tolist()
    assert (3 ^ v).numpy().tolist() == (i ^ 3).tolist()
    with pytest.raises(TypeError):
        tf.constant(1.0) & tf.constant(2.0)


def test_errors_of_ranges_and_truth() -> None:
    with pytest.raises(ValueError, match="a step that is not 0"):
        tf.range(0, 10, 0)
    with pytest.raises(ValueError, match="num >= 0"):
        tf.linspace(0.0, 1.0, -1)
    with pytest.raises(ValueError, match="one element"):
        bool(tf.constant([1, 2]))
    with pytest.raises(TypeError, match="one element"):
        int(tf.constant([1, 2]))
