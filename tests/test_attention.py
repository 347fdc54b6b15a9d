# SPDX-License-Identifier: MIT
"""Attention as one op: the bits of single ops, dropout, memory, layers, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ipu
from ipu import _core, keras, tf
from ipu.tf._ops.attention import attention

L = keras.layers


def wave(*shape: int, phase: float = 0.0) -> np.ndarray[Any, Any]:
    numbers = np.sin(1.7 * np.arange(np.prod(shape)) + phase)
    return np.asarray(numbers.reshape(shape), np.float32)


def by_single_ops(
    q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False, scale: float = 1.0
) -> Any:
    scores = tf.matmul(q, k, transpose_b=True)
    if scale != 1.0:
        scores = scores * scale
    if mask is not None:
        scores = scores + (1.0 - tf.cast(mask, tf.float32)) * -1e9
    if causal:
        seen = tf.range(q.shape[2])[:, None] >= tf.range(k.shape[2])[None, :]
        scores = scores + (1.0 - tf.cast(seen, tf.float32)) * -1e9
    return tf.matmul(tf.nn.softmax(scores), v)


SHAPES = (
    (2, 3, 7, 9, 4, 5),
    (16, 4, 128, 128, 32, 32),
    (1, 1, 50, 1300, 16, 24),  # sums in chunks, several blocks of rows
    (1, 2, 300, 270, 8, 40),
    (1, 2, 2100, 60, 8, 5),  # gradients of keys are sums of three blocks
)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", ["plain", "scaled", "causal", "masked"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_are_those_of_single_ops(
    shape: tuple[int, ...], form: str, threads: int
) -> None:
    """The result, and all three gradients."""
    b, h, t, s, d, e = shape
    q, k, v = wave(b, h, t, d), wave(b, h, s, d, phase=1), wave(b, h, s, e, phase=2)
    dy = wave(b, h, t, e, phase=3)
    mask = wave(b, 1, t, s, phase=4) > -0.5
    more: dict[str, Any] = {
        "plain": {},
        "scaled": {"scale": 0.3},
        "causal": {"causal": True, "scale": 0.7},
        "masked": {"mask": tf.constant(mask)},
    }[form]
    found = []
    before = ipu.num_threads()
    ipu.set_num_threads(threads)
    try:
        for one in (attention, by_single_ops):
            x = [tf.constant(a) for a in (q, k, v)]
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = one(*x, **more)
            grads = tape.gradient(y, x, output_gradients=tf.constant(dy))
            found.append([r.numpy().tobytes() for r in (y, *grads)])
    finally:
        ipu.set_num_threads(before)
    assert found[0] == found[1]


def test_dropped_weights_are_the_same_on_the_way_back() -> None:
    """Of a result that is linear in the values: y = <dv, v>."""
    q, k, v = (tf.constant(wave(2, 2, 40, 8, phase=p)) for p in range(3))
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = tf.reduce_sum(attention(q, k, v, dropout=0.4))
    dv = tape.gradient(y, v)
    np.testing.assert_allclose(float(tf.reduce_sum(dv * v)), float(y), rtol=1e-4)


def test_dropout_in_a_layer_is_new_in_each_call_and_keeps_the_mean() -> None:
    layer = L.Attention(dropout=0.5)
    x = tf.constant(np.ones((1, 64, 4), np.float32))
    once, again = (layer([x, x], training=True).numpy() for _ in range(2))
    assert not np.array_equal(once, again)
    assert abs(once.mean() - 1.0) < 0.1
    np.testing.assert_allclose(layer([x, x]).numpy(), 1.0, rtol=1e-6)


def test_layers_use_the_op_where_no_scores_are_asked_for() -> None:
    x = tf.constant(wave(2, 5, 6))
    layer = L.MultiHeadAttention(2, 3)
    plain = layer(x, x).numpy()
    result, weights = layer(x, x, return_attention_scores=True)
    assert weights.shape == (2, 2, 5, 5)
    assert plain.tobytes() == result.numpy().tobytes()
    mask = np.tril(np.ones((1, 5, 5), bool))
    plain = layer(x, x, attention_mask=tf.constant(mask)).numpy()
    result, _ = layer(
        x, x, attention_mask=tf.constant(mask), return_attention_scores=True
    )
    assert plain.tobytes() == result.numpy().tobytes()
    one = L.Attention(causal=True)
    value_mask = tf.constant([[True] * 4 + [False], [True] * 5])
    plain = one([x, x], mask=[None, value_mask]).numpy()
    result, _ = one([x, x], mask=[None, value_mask], return_attention_scores=True)
    assert plain.tobytes() == result.numpy().tobytes()


def test_memory_does_not_hold_the_scores() -> None:
    """Of 2,048 steps: 16 MiB for each head and each direction otherwise."""
    text = """
block b0(%0: float32[2,2,2048,16]) {
  %1 = attention(%0, %0, %0) {scale=0.25} : float32[2,2,2048,16]
} -> (%1)
"""
    both = _core.graph_gradients(text)
    program = _core.graph_compile(both)
    assert "attention_grad" in program.text
    assert program.memory_report["slab_bytes"] < 16 << 20


@pytest.mark.parametrize(
    ("shapes", "more", "words"),
    [
        (((1, 2, 3), (1, 1, 2, 3), (1, 1, 2, 3)), {}, "batch, heads, steps, size"),
        (((1, 1, 2, 3), (1, 1, 2, 4), (1, 1, 2, 3)), {}, "the key has shape"),
        (((1, 1, 2, 3), (1, 1, 4, 3), (1, 1, 5, 3)), {}, "the value has shape"),
        (((1, 1, 2, 0), (1, 1, 2, 0), (1, 1, 2, 3)), {}, "size is 0"),
        (((1, 1, 2, 3),) * 3, {"dropout": 1.5}, "rate must be in"),
        (((1, 1, 2, 3),) * 3, {"mask": np.ones((1, 1, 2, 3), bool)}, "the mask must"),
    ],
)
def test_what_does_not_fit(shapes: Any, more: Any, words: str) -> None:
    operands = [tf.constant(np.zeros(s, np.float32)) for s in shapes]
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        attention(*operands, **more)


def test_a_mask_of_numbers() -> None:
    x = tf.constant(np.zeros((1, 1, 2, 3), np.float32))
    with pytest.raises(TypeError, match="the mask must be bool"):
        attention(x, x, x, mask=tf.constant(np.ones((1, 1, 2, 2), np.float32)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("wrap", [lambda f: f, tf.function])
def test_second_derivatives_of_halves_with_a_row_that_sees_nothing(
    wrap: Any, causal: bool
) -> None:
    def second(q: Any, k: Any, v: Any) -> Any:
        mask = tf.constant([[[[True, False, True], [False, False, False]]]])
        with tf.GradientTape() as outer:
            outer.watch([q, k, v])
            with tf.GradientTape() as inner:
                inner.watch(q)
                y = attention(q, k, v, mask, causal, scale=0.5)
                y = tf.reduce_sum(y * y)
            slope = inner.gradient(y, q)
        return outer.gradient(slope, [q, k, v])

    arrays = [wave(1, 1, n, 4, phase=n) for n in (2, 3, 3)]
    exact = second(*[tf.constant(a, tf.float32) for a in arrays])
    found = wrap(second)(*[tf.constant(a, tf.float16) for a in arrays])
    for half, single in zip(found, exact, strict=True):
        assert half.dtype == tf.float16
        np.testing.assert_allclose(half, single, rtol=2e-2, atol=2e-2)
