# SPDX-License-Identifier: MIT
"""The steps of a GRU whose update gate an attention score weakens.

Source: Zhou and others, "Deep Interest Evolution Network for Click-Through Rate
Prediction", AAAI 2019, section 4.3.2 (AUGRU).
"""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu.tf._functions.blocks import part_of_step
from ipu.tf._ops.recurrent import GRUResult


@part_of_step()
def attention_gru(
    x: Tensor, kernel: Tensor, h: Tensor, score: Tensor, bias: Any, mask: Any
) -> GRUResult:
    """``h' = z h + (1 - z) candidate`` with ``z = (1 - score) sigmoid(...)``.

    Args:
        x: What the input gives to the gates z, r, h: [steps, batch, 3 * units].
        kernel: The recurrent kernel, [units, 3 * units].
        h: The first h, [batch, units].
        score: [steps, batch].
        bias: A bias of the recurrent product, [3 * units]: then the reset gate is
            applied to the product; None: to h before it.
        mask: Bool, [steps, batch]: where it is false the state stays. None:
            everywhere true.

    Returns:
        h of all steps, and the last one.
    """
    count, batch, _ = x.shape
    n = h.shape[1]
    of_gates, of_candidate = kernel[:, : 2 * n], kernel[:, 2 * n :]

    def step(now: Tensor, weight: Tensor, h: Tensor) -> Tensor:
        if bias is None:
            gates = tf.sigmoid(now[:, : 2 * n] + tf.matmul(h, of_gates))
            inner = tf.matmul(gates[:, n:] * h, of_candidate)
        else:
            product = tf.nn.bias_add(tf.matmul(h, kernel), bias)
            gates = tf.sigmoid(now[:, : 2 * n] + product[:, : 2 * n])
            inner = gates[:, n:] * product[:, 2 * n :]
        z = (1.0 - weight[:, None]) * gates[:, :n]
        return z * h + (1.0 - z) * tf.tanh(now[:, 2 * n :] + inner)

    def turn(k: Tensor, rows: Tensor, h: Tensor) -> Any:
        after = step(x[k], score[k], h)
        if mask is not None:
            after = tf.where(mask[k][:, None], after, h)
        place = tf.reshape(k, (1, 1))
        rows = tf.tensor_scatter_nd_update(rows, place, tf.expand_dims(after, 0))
        return k + 1, rows, after

    rows = tf.zeros((count, batch, n), h.dtype)
    _, rows, h = tf.while_loop(
        lambda k, *_: k < count,
        turn,
        (tf.constant(0), rows, h),
        maximum_iterations=count,
    )
    return GRUResult(rows, h)
