# SPDX-License-Identifier: MIT
"""The recurrent layers and ops of the IPU alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from op_cases import harness
from op_cases.model import Array
from recurrent_values import MASK, C, H, L, X, wave

import ipu
from ipu import tf


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_the_layers_of_the_ipu_give_what_those_of_keras_give(kind: str) -> None:
    own, of_keras = getattr(ipu.layers, kind), getattr(L, kind)
    assert getattr(ipu.layers, f"Popnn{kind}") is own
    one = own(5, recurrent_activation="hard_sigmoid", return_state=True, seed=3)
    twin = own(5, return_state=True, seed=3)
    other = of_keras(5, return_state=True)
    one(X), twin(X), other(X)
    harness.same_bits(one.get_weights(), twin.get_weights(), "seed")
    other.set_weights(one.get_weights())
    for got, wanted in zip(one(X), other(X), strict=True):
        harness.same_bits([got.numpy()], [wanted.numpy()], kind)
    again = own.from_config(one.get_config())
    assert again.get_config() == one.get_config()


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"activation": "relu"},
        {"recurrent_activation": "relu"},
        {"use_bias": False},
        {"kernel_regularizer": "l2"},
        {"activity_regularizer": "l2"},
        {"recurrent_constraint": "non_neg"},
        {"recurrent_dropout": 0.5},
        {"implementation": 0},
        {"go_backwards": True},
        {"unroll": True},
    ],
)
def test_the_layers_of_the_ipu_refuse(kind: str, arguments: dict[str, Any]) -> None:
    (name,) = arguments
    with pytest.raises(ValueError, match=f"{name}.*keras.layers.{kind}"):
        getattr(ipu.layers, kind)(3, **arguments)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_the_layers_of_the_ipu_refuse_masks_and_other_ranks(kind: str) -> None:
    layer = getattr(ipu.layers, kind)(3)
    with pytest.raises(NotImplementedError, match="masking"):
        layer(X, mask=tf.constant(MASK))
    with pytest.raises(ValueError, match="three axes"):
        getattr(ipu.layers, kind)(3)(X[0])


def columns(x: Array, order: Sequence[int]) -> Array:
    return np.concatenate([np.split(x, len(order), -1)[k] for k in order], -1)


@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_popnn_lstm(lengths: Any) -> None:
    order = (1, 0, 2, 3)  # forget, input, candidate, output
    op: Any = ipu.rnn_ops.PopnnLSTM(2) if lengths is None else None
    op = op or ipu.rnn_ops.PopnnDynamicLSTM(2)
    turned = np.ascontiguousarray(X.swapaxes(0, 1))
    more = () if lengths is None else (lengths,)
    op(turned, *more)
    assert op.kernel.shape == (5, 8) and op.biases.shape == (4, 2)
    op.biases.assign(wave(4, 2))
    state = ipu.rnn_ops.LSTMStateTuple(C, H)
    steps, last = op(turned, *more, initial_state=state)
    layer = L.LSTM(2, return_sequences=True, return_state=True)
    layer(X)
    kernel = columns(op.kernel.numpy(), order)
    bias = columns(op.biases.numpy().reshape(-1), order)
    layer.set_weights([kernel[:3], kernel[3:], bias])
    mask = np.arange(4) < np.array(lengths or [4, 4])[:, None]
    expected, h, c = layer(X, mask=tf.constant(mask), initial_state=[H, C])
    wanted = np.where(mask[..., None], expected.numpy(), 0).swapaxes(0, 1)
    harness.same_bits(
        [steps.numpy(), last.h.numpy(), last.c.numpy()],
        [wanted, h.numpy(), c.numpy()],
        "PopnnLSTM",
    )
    plain = op(turned, *more, initial_state=(H, C))[1]
    assert not hasattr(plain, "c")
    harness.same_bits([plain[0].numpy()], [h.numpy()], "a tuple is (h, c)")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("lengths", [None, [1, 4]])
def test_popnn_gru(after: bool, lengths: Any) -> None:
    order = (1, 0, 2)  # reset, update, candidate
    kind: Any = ipu.rnn_ops.PopnnGRU
    if lengths is not None:
        kind = ipu.rnn_ops.PopnnDynamicGRU
    op = kind(2, reset_after=after)
    turned = np.ascontiguousarray(X.swapaxes(0, 1))
    more = () if lengths is None else (lengths,)
    op(turned, *more)
    shape = (3, 2, 2) if after else (3, 2)
    assert op.kernel.shape == (5, 6) and op.biases.shape == shape
    op.biases.assign(wave(*shape))
    steps, last = op(turned, *more, initial_state=H)
    layer = L.GRU(2, reset_after=after, return_sequences=True, return_state=True)
    layer(X)
    kernel = columns(op.kernel.numpy(), order)
    biases = op.biases.numpy()
    rows = biases.swapaxes(0, 1).reshape(2, -1) if after else biases.reshape(-1)
    layer.set_weights([kernel[:3], kernel[3:], columns(rows, order)])
    mask = np.arange(4) < np.array(lengths or [4, 4])[:, None]
    expected, h = layer(X, mask=tf.constant(mask), initial_state=[H])
    wanted = np.where(mask[..., None], expected.numpy(), 0).swapaxes(0, 1)
    harness.same_bits([steps.numpy(), last.numpy()], [wanted, h.numpy()], "PopnnGRU")


@pytest.mark.parametrize(
    ("call", "error", "fragment"),
    [
        (lambda: ipu.rnn_ops.PopnnLSTM(2, "int32"), ValueError, "float16, float32"),
        (lambda: ipu.rnn_ops.PopnnGRU(2)(X[0]), ValueError, "3 dims"),
        (lambda: ipu.rnn_ops.PopnnGRU(2, "float16")(X), TypeError, "float16"),
        (lambda: ipu.rnn_ops.PopnnGRU(2)(X, H[:1]), ValueError, "The state .*units"),
        (
            lambda: ipu.rnn_ops.PopnnLSTM(2)(X, (H[:1], C[:1])),
            ValueError,
            "State c .*units",
        ),
        (
            lambda: ipu.rnn_ops.PopnnDynamicLSTM(2)(X, [1]),
            ValueError,
            "seq_len .*sequences",
        ),
    ],
)
def test_popnn_names_bad_arguments(
    call: Callable[[], Any], error: type[Exception], fragment: str
) -> None:
    with pytest.raises(error, match=fragment):
        call()


@pytest.mark.parametrize("after", [False, True])
def test_a_gru_with_attention(after: bool) -> None:
    """Step by step in NumPy; without attention it is the plain one."""
    kind: Any = ipu.rnn_ops.PopnnAUGRU
    op = kind(2, reset_after=after)
    plain: Any = ipu.rnn_ops.PopnnDynamicGRU(2, reset_after=after)
    x, lengths = wave(4, 3, 5), np.int32([4, 2, 3])
    score = (wave(4, 3, phase=2.0) + 1) / 2
    op.build(x.shape)
    plain.build(x.shape)
    op.kernel.assign(wave(7, 6, phase=1.0))
    shape = tuple(op.biases.shape)
    op.biases.assign(wave(*shape, phase=3.0))
    plain.kernel.assign(op.kernel)
    plain.biases.assign(op.biases)
    want = plain(x, lengths)
    got = op(x, lengths, np.zeros((4, 3), np.float32))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-6)
    kernel, biases = (np.float64(v.numpy()) for v in (op.kernel, op.biases))
    of_input = biases[:, 0] if after else biases
    h, steps = np.zeros((3, 2)), []
    for k in range(4):
        r, u, c = (x[k] @ kernel[:5, 2 * g : 2 * g + 2] + of_input[g] for g in range(3))
        hr, hu, hc = (kernel[5:, 2 * g : 2 * g + 2] for g in range(3))
        own = biases[:, 1] if after else np.zeros((3, 2))
        r = 1 / (1 + np.exp(-(r + h @ hr + own[0])))
        u = 1 / (1 + np.exp(-(u + h @ hu + own[1])))
        c = np.tanh(c + (r * (h @ hc + own[2]) if after else (r * h) @ hc))
        u = (1 - score[k][:, None]) * u
        live = (k < lengths)[:, None]
        h = np.where(live, u * h + (1 - u) * c, h)
        steps.append(np.where(live, h, 0))
    output, state = op(x, lengths, score)
    np.testing.assert_allclose(output.numpy(), steps, atol=1e-6)
    np.testing.assert_allclose(state.numpy(), h, atol=1e-6)
    turned = op(x.swapaxes(0, 1), lengths, score.T, time_major=False)[0]
    np.testing.assert_array_equal(turned.numpy(), output.numpy().swapaxes(0, 1))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(op(x, lengths, score)[0])
    assert all(np.any(g.numpy()) for g in tape.gradient(loss, op.trainable_weights))
    with pytest.raises(ValueError, match="a number for each step and sequence"):
        op(x, lengths, score.T)
