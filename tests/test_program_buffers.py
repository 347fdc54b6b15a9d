"""Programs read inputs, and write outputs, where they are: nobody's data change."""

from __future__ import annotations

import numpy as np
import pytest

from ipu import tf

SHAPES = [(), (3,), (64, 33), (300, 257)]


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
def test_inputs_stay_as_they_are(shape: tuple[int, ...]) -> None:
    @tf.function
    def f(x, y):
        z = -x
        for _ in tf.range(3):
            z = z * 0.5 + y
            y = y - 1.0
        return z, x, y, x, z + x

    a, b = numbers(shape), numbers(shape, 1)
    x, y = tf.constant(a), tf.constant(b)
    for _ in range(2):
        out = [t.numpy() for t in f(x, y)]
        z, w = -a, b
        for _ in range(3):
            z, w = z * np.float32(0.5) + w, w - np.float32(1)
        for got, wanted in zip(out, (z, a, w, a, z + a), strict=True):
            np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(x.numpy(), a)
        np.testing.assert_array_equal(y.numpy(), b)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_tensor_as_several_inputs_and_outputs(shape: tuple[int, ...]) -> None:
    @tf.function
    def f(x, y):
        z = tf.exp(x) * y
        return z, z, x, y

    a = numbers(shape)
    x = tf.constant(a)
    first = f(x, x)
    second = f(first[0], first[1])  # outputs are the next run's inputs
    np.testing.assert_array_equal(first[0].numpy(), first[1].numpy())
    np.testing.assert_array_equal(first[2].numpy(), a)
    np.testing.assert_array_equal(first[3].numpy(), a)
    np.testing.assert_array_equal(second[2].numpy(), first[0].numpy())
    np.testing.assert_allclose(first[0].numpy(), np.exp(a) * a, rtol=1e-5, atol=1e-6)


def test_results_do_not_change_when_arrays_do() -> None:
    @tf.function
    def f(x):
        return x, x + 1.0

    a = numbers((257, 65))
    same, more = f(a)
    kept = a.copy()
    a[:] = 0
    np.testing.assert_array_equal(same.numpy(), kept)
    np.testing.assert_array_equal(more.numpy(), kept + np.float32(1))
    again, _ = f(a)
    np.testing.assert_array_equal(again.numpy(), a)
    np.testing.assert_array_equal(same.numpy(), kept)


def test_arrays_at_any_address() -> None:
    """Memory that is not aligned, or ends where a page ends, is copied first."""

    @tf.function
    def f(x, w):
        return tf.matmul(x, w)

    w = numbers((40, 24), 1)
    memory = np.zeros(40 * 40 * 4 + 64, np.uint8)
    for offset in (0, 4, 20, 60):
        x = memory[offset : offset + 40 * 40 * 4].view(np.float32).reshape(40, 40)
        x[:] = numbers((40, 40), offset)
        np.testing.assert_allclose(f(x, w).numpy(), x @ w, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(f(x.T, w).numpy(), x.T @ w, rtol=1e-4, atol=1e-4)


def test_nothing_is_copied() -> None:
    f = tf.function(lambda x: x + 1.0)
    x = tf.constant(numbers((64, 64)))
    program = f.traced(x).program
    assert "copy" not in program.text
    assert "input[0]" in program.text and "output[0]" in program.text
    np.testing.assert_array_equal(f(x).numpy(), x.numpy() + np.float32(1))
