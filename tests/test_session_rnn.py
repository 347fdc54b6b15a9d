# SPDX-License-Identifier: MIT
"""Cells of TensorFlow 1 over sequences; expected values are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from session_runs import run

from ipu import ipu_compiler, scopes
from ipu.tf.compat import v1 as tf

pytestmark = pytest.mark.usefixtures("graph")

cells = tf.nn.rnn_cell
ROWS = np.random.RandomState(0).normal(size=(2, 5, 3)).astype(np.float32)


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def stepped(kind: str, weights: Any, x: Any, states: Any, most: Any = None) -> Any:
    """Outputs and last states by the formulas of TensorFlow's documentation."""
    outputs = np.zeros(
        (*x.shape[:2], weights[-1].shape[0] // (4 if "LSTM" in kind else 1))
    )
    states = [np.array(state, np.float64) for state in states]
    for k in range(x.shape[1]):
        if "LSTM" in kind:
            c, h = states
            gates = np.concatenate([x[:, k], h], 1) @ weights[0] + weights[1]
            i, j, f, o = np.split(gates, 4, 1)
            c = c * sigmoid(f + 1.0) + sigmoid(i) * np.tanh(j)
            new = [c, sigmoid(o) * np.tanh(c)]
        elif kind == "GRUCell":
            (h,) = states
            gates = np.concatenate([x[:, k], h], 1) @ weights[0] + weights[1]
            r, u = np.split(sigmoid(gates), 2, 1)
            made = np.concatenate([x[:, k], r * h], 1) @ weights[2] + weights[3]
            new = [u * h + (1 - u) * np.tanh(made)]
        else:
            (h,) = states
            made = np.concatenate([x[:, k], h], 1) @ weights[0] + weights[1]
            new = [np.tanh(made)]
        live = np.ones((len(x), 1)) if most is None else (k < np.array(most))[:, None]
        states = [np.where(live, a, b) for a, b in zip(new, states, strict=True)]
        outputs[:, k] = np.where(live, new[-1], 0.0)
    return outputs, states


@pytest.mark.parametrize(
    "kind", ["BasicLSTMCell", "LSTMCell", "GRUCell", "BasicRNNCell"]
)
@pytest.mark.parametrize("most", [None, [2, 5]])
def test_dynamic_rnn(kind: str, most: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 5, 3])
    cell = getattr(cells, kind)(4)
    lengths = None if most is None else tf.placeholder(tf.int32, [None])
    outputs, state = tf.nn.dynamic_rnn(cell, x, lengths, dtype=tf.float32)
    assert outputs.shape.as_list() == [None, 5, 4]
    assert cell.variables[0].name.startswith("rnn/") and len(cell.variables) in (2, 4)
    slopes = tf.gradients(tf.reduce_sum(outputs * outputs), cell.variables)
    feed = {x: ROWS} if lengths is None else {x: ROWS, lengths: most}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found, last, weights, slope = session.run(
            [outputs, state, cell.variables, slopes[0]], feed
        )
    states = last if isinstance(last, tuple) else [last]
    first = [np.zeros((2, 4))] * len(states)
    wanted, ends = stepped(kind, weights, ROWS, first, most)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)
    for one, other in zip(states, ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)
    # the slope of one weight, by differences
    moved = []
    for change in (1e-4, -1e-4):
        weights[0] = np.array(weights[0], np.float64)
        weights[0][1, 2] += change
        moved.append(np.sum(stepped(kind, weights, ROWS, first, most)[0] ** 2))
        weights[0][1, 2] -= change
    assert slope[1, 2] == pytest.approx((moved[0] - moved[1]) / 2e-4, rel=1e-3)


def test_static_rnn_is_dynamic_rnn() -> None:
    x = tf.placeholder(tf.float32, [None, 5, 3])
    cell = cells.BasicLSTMCell(4, forget_bias=0.5)
    whole, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    listed, last = tf.nn.static_rnn(cell, tf.unstack(x, 5, 1), dtype=tf.float32)
    first = cell.zero_state(tf.shape(x)[0], tf.float32)
    one, after = cell(x[:, 0], first)
    assert len(tf.trainable_variables()) == 2 and len(listed) == 5
    assert type(state).__name__ == type(last).__name__ == "LSTMStateTuple"
    got = run([whole, tf.stack(listed, 1), state, last, one, after.c], {x: ROWS})
    np.testing.assert_array_equal(got[0], got[1])
    np.testing.assert_array_equal(got[2].c, got[3].c)
    np.testing.assert_allclose(got[4], got[0][:, 0], rtol=1e-5, atol=1e-6)


def test_layers_of_cells_from_both_ends() -> None:
    x = tf.placeholder(tf.float32, [None, 5, 3])
    lengths = tf.constant([2, 5])
    kept = tf.placeholder(tf.float32)

    def made() -> Any:
        layers = [cells.DropoutWrapper(cells.GRUCell(4), kept) for _ in range(2)]
        return cells.MultiRNNCell(layers)

    (there, back), (_, state) = tf.nn.bidirectional_dynamic_rnn(
        made(), made(), x, lengths, dtype=tf.float32
    )
    names = [v.name for v in tf.trainable_variables()]
    assert len(names) == 16
    assert names[0] == (
        "bidirectional_rnn/fw/multi_rnn_cell/cell_0/gru_cell/gates/kernel:0"
    )
    assert there.shape.as_list() == [2, 5, 4] and len(state) == 2
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, second, last = session.run(
            [there, back, state[-1]], {x: ROWS, kept: 1.0}
        )
        assert (first[0, 2:] == 0).all() and (second[0, 2:] == 0).all()
        assert (first[:, 1] != 0).all()
        # from the end of each row to its start
        np.testing.assert_array_equal(second[:, 0], last)
        dropped = session.run(there, {x: ROWS, kept: 0.5})
        assert not np.allclose(dropped, first)


@pytest.mark.parametrize("place", ["cpu", "/device:IPU:0"])
def test_a_model_of_steps_learns(place: str) -> None:
    x = tf.placeholder(tf.float32, [8, 5, 3])
    y = tf.placeholder(tf.float32, [8, 2])

    def model(x: Any, y: Any) -> Any:
        cell = cells.LSTMCell(6, num_proj=4, use_peepholes=True, cell_clip=3.0)
        outputs, _ = tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)
        logits = tf.layers.dense(outputs[-1], 2)
        loss = tf.reduce_mean(
            tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits)
        )
        return loss, tf.train.AdamOptimizer(0.05).minimize(loss)

    with scopes.ipu_scope(place):
        is_host = place == "cpu"
        fetches = model(x, y) if is_host else ipu_compiler.compile(model, [x, y])
    rng = np.random.RandomState(0)
    rows = rng.normal(size=(8, 5, 3))
    feed = {x: rows, y: np.eye(2)[(rows.sum((1, 2)) > 0).astype(int)]}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run(fetches, feed)[0] for _ in range(10)]
    assert losses[-1] < 0.6 * losses[0]


def test_errors_of_cells() -> None:
    x = tf.placeholder(tf.float32, [2, 5, 3])
    with pytest.raises(ValueError, match="you must give a dtype"):
        tf.nn.dynamic_rnn(cells.GRUCell(4), x)
    with pytest.raises(ValueError, match="to be known, saw shape"):
        tf.nn.dynamic_rnn(cells.GRUCell(4), tf.placeholder("float"), dtype="float32")
    with pytest.raises(TypeError, match="must be a list"):
        tf.nn.static_rnn(cells.GRUCell(4), x, dtype=tf.float32)
    with pytest.raises(ValueError, match="same cell object"):
        cells.MultiRNNCell([cells.GRUCell(4)] * 2)
    tf.nn.dynamic_rnn(cells.GRUCell(4), x, dtype=tf.float32)
    with pytest.raises(ValueError, match="already exists, disallowed"):
        tf.nn.dynamic_rnn(cells.GRUCell(4), x, dtype=tf.float32, scope="rnn")
    for function in ("softmax", "sigmoid", "sparse_softmax"):
        loss = getattr(tf.nn, f"{function}_cross_entropy_with_logits")
        with pytest.raises(ValueError, match=r"named arguments \(labels="):
            loss(x, x)
        with pytest.raises(ValueError, match="Both labels and logits"):
            loss(labels=x)
