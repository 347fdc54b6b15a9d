# SPDX-License-Identifier: MIT
"""Connectionist temporal classification: the loss.

Source: Graves, Fernandez, Gomez, Schmidhuber, "Connectionist Temporal Classification",
ICML 2006, section 4.1, in logarithms.
"""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu.tf._functions.parts import part_of_step

# the logarithm of 0; no infinity, whose gradient would be no number
NEVER = -1e30


def log_sum(*logs: Tensor) -> Tensor:
    """The logarithm of the sum of what these are the logarithms of."""
    top = logs[0]
    for log in logs[1:]:
        top = tf.maximum(top, log)
    top = tf.stop_gradient(top)
    total = sum(tf.exp(log - top) for log in logs)
    return top + tf.math.log(total)


def _shifted(alpha: Tensor, places: int) -> Tensor:
    first = tf.fill([alpha.shape[0], places], NEVER)
    return tf.concat([first, alpha[:, :-places]], 1)


def _at(alpha: Tensor, place: Tensor) -> Tensor:
    return tf.gather(alpha, place[:, None], batch_dims=1)[:, 0]


def _check(labels: Tensor, data: Tensor, lengths: dict[str, Tensor]) -> None:
    if data.ndim != 3 or labels.ndim != 2 or labels.shape[0] != data.shape[1]:
        raise ValueError(
            "labels must be [batch, longest label], data [time, batch, classes]. "
            f"Received shapes {tuple(labels.shape)} and {tuple(data.shape)}."
        )
    for what, length in lengths.items():
        if tuple(length.shape) != (data.shape[1],):
            raise ValueError(
                f"{what} must have a number for each sample: [{data.shape[1]}]. "
                f"Received a shape of {tuple(length.shape)}."
            )


@part_of_step()
def ctc_loss(
    labels: Any,
    log_probabilities: Any,
    label_length: Any,
    data_length: Any,
    blank_index: int,
) -> Tensor:
    """The negative logarithm of the probability of each label, float32 ``[batch]``.

    A label's states are a blank, its first class, a blank, its second class, ...:
    alpha[t, s] is the probability of all paths that are in state s at time t. From one
    time to the next a path stays, moves by one state, or skips a blank between two
    classes that differ.
    """
    data = tf.cast(tf.convert_to_tensor(log_probabilities), tf.float32)
    classes = tf.cast(tf.convert_to_tensor(labels), tf.int32)
    steps, sizes = (
        tf.cast(tf.convert_to_tensor(value), tf.int32)
        for value in (data_length, label_length)
    )
    _check(classes, data, {"label_length": sizes, "data_length": steps})
    time, batch, count = data.shape
    longest = classes.shape[1]
    blank = blank_index % count
    # padding may hold anything
    is_label = tf.range(longest)[None, :] < sizes[:, None]
    classes = tf.where(is_label, classes, blank)
    blanks = tf.fill([batch, longest, 1], blank)
    pairs = tf.concat([blanks, classes[:, :, None]], 2)
    states = tf.concat(
        [tf.reshape(pairs, [batch, 2 * longest]), tf.fill([batch, 1], blank)], 1
    )
    before = tf.concat([tf.fill([batch, 2], blank), states[:, :-2]], 1)
    skips = tf.where((states != blank) & (states != before), 0.0, NEVER)
    logs = tf.gather(tf.transpose(data, [1, 0, 2]), states, axis=2, batch_dims=1)
    logs = tf.transpose(logs, [1, 0, 2])
    starts = tf.where(tf.range(2 * longest + 1) < 2, 0.0, NEVER)
    alpha = tf.maximum(logs[0] + starts, NEVER)

    def advance(t: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        moved = log_sum(alpha, _shifted(alpha, 1), _shifted(alpha, 2) + skips)
        moved = tf.maximum(moved + tf.gather(logs, t), NEVER)
        return t + 1, tf.where((t < steps)[:, None], moved, alpha)

    if time > 1:
        _, alpha = tf.while_loop(
            lambda t, _: t < time,
            advance,
            (tf.constant(1), alpha),
            maximum_iterations=time - 1,
        )
    last = 2 * sizes
    in_class = tf.where(sizes > 0, _at(alpha, tf.maximum(last - 1, 0)), NEVER)
    return -log_sum(_at(alpha, last), in_class)
