# SPDX-License-Identifier: MIT
"""Connectionist temporal classification: the loss, and the search for labels.

Source: Graves, Fernandez, Gomez, Schmidhuber, "Connectionist Temporal Classification",
ICML 2006, section 4.1, in logarithms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ipu import tf
from ipu._core import Tensor
from ipu.tf._functions.blocks import part_of_step

# the logarithm of 0; not infinity, whose gradient would be NaN
NEVER = -1e30


def log_sum(*logs: Tensor) -> Tensor:
    """Return the logarithm of the sum of what these are the logarithms of."""
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
    """Return the negative logarithm of the probability of each label, float32
    ``[batch]``.

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


class _Beams(NamedTuple):
    """The best labels of each sample so far.

    Attributes:
        blank: The logarithm of the probability that the label was said and a blank
            ended it, ``[batch, beams]``.
        said: The same where its last class was the last that was said.
        labels: ``[batch, beams, time]``; after a label's end the blank.
        lengths: ``[batch, beams]``.
    """

    blank: Tensor
    said: Tensor
    labels: Tensor
    lengths: Tensor


def _check_beams(
    data: Tensor, lengths: Tensor, beam_width: int, top_paths: int
) -> None:
    if data.ndim != 3 or tuple(lengths.shape) != (data.shape[1],):
        raise ValueError(
            "A beam search needs data [time, batch, classes], and a length for each "
            f"sample. Received shapes {tuple(data.shape)} and {tuple(lengths.shape)}."
        )
    if not 1 <= top_paths <= beam_width:
        raise ValueError(
            "top_paths must be from 1 to beam_width. Received: "
            f"top_paths={top_paths}, beam_width={beam_width}."
        )


def _last_class(beams: _Beams, blank: int) -> Tensor:
    """Return the blank where a label has no class yet."""
    place = tf.maximum(beams.lengths - 1, 0)
    last = tf.gather(beams.labels, place[:, :, None], batch_dims=2)[:, :, 0]
    return tf.where(beams.lengths > 0, last, blank)


def _parents(beams: _Beams) -> Tensor:
    """Return ``[batch, i, j]``: whether beam j is beam i and one class more."""
    longer = tf.equal(beams.lengths[:, None, :], beams.lengths[:, :, None] + 1)
    same = tf.equal(beams.labels[:, :, None, :], beams.labels[:, None, :, :])
    time = beams.labels.shape[2]
    behind = tf.range(time)[None, None, :] >= beams.lengths[:, :, None]
    return longer & tf.reduce_all(same | behind[:, :, None, :], axis=-1)


def _extended(beams: _Beams, logs: Tensor, blank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return what a step makes of the beams.

    Args:
        logs: Of the step, ``[batch, classes]``.

    Returns:
        The logarithms of the beams that stay, by a blank and by their last class, and
        of each beam with each class after it, ``[batch, beams, classes]``.
    """
    count = logs.shape[1]
    last = _last_class(beams, blank)
    total = log_sum(beams.blank, beams.said)
    of_last = tf.gather(logs, last, batch_dims=1)
    stays = total + logs[:, blank : blank + 1]
    repeats = tf.where(beams.lengths > 0, beams.said + of_last, NEVER)
    classes = tf.range(count)[None, None, :]
    again = tf.equal(classes, last[:, :, None])
    base = tf.where(again, beams.blank[:, :, None], total[:, :, None])
    more = tf.where(tf.equal(classes, blank), NEVER, base + logs[:, None, :])
    # what makes a label that is a beam already belongs to that beam
    parents = _parents(beams)
    batch, width = last.shape
    of_target = tf.broadcast_to(last[:, None, :], (batch, width, width))
    found = tf.gather(more, of_target, axis=2, batch_dims=2)
    joined = tf.reduce_max(tf.where(parents, found, NEVER), axis=1)
    targets = tf.cast(again, tf.float32)
    moved = tf.matmul(tf.cast(parents, tf.float32), targets) > 0.0
    return stays, log_sum(repeats, joined), tf.where(moved, NEVER, more)


def _step(beams: _Beams, logs: Tensor, blank: int) -> _Beams:
    """Return the best of all labels that a step makes."""
    batch, width, time = beams.labels.shape
    count = logs.shape[1]
    stays, repeats, more = _extended(beams, logs, blank)
    scores = tf.concat(
        [log_sum(stays, repeats), tf.reshape(more, (batch, width * count))], 1
    )
    best, places = tf.math.top_k(scores, width)
    is_new = places >= width
    source = tf.where(is_new, (places - width) // count, places)
    added = (places - width) % count
    lengths = tf.gather(beams.lengths, source, batch_dims=1)
    labels = tf.gather(beams.labels, source, batch_dims=1)
    here = tf.equal(tf.range(time)[None, None, :], lengths[:, :, None])
    here = here & is_new[:, :, None]
    return _Beams(
        tf.where(is_new, NEVER, tf.gather(stays, source, batch_dims=1)),
        tf.where(is_new, best, tf.gather(repeats, source, batch_dims=1)),
        tf.where(here, added[:, :, None], labels),
        lengths + tf.cast(is_new, tf.int32),
    )


@part_of_step()
def beam_search(
    log_probabilities: Any,
    data_length: Any,
    beam_width: int,
    top_paths: int,
    blank_index: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the most probable labels of each sample.

    Args:
        log_probabilities: ``[time, batch, classes]``.
        data_length: How many times of each sample count, ``[batch]``.
        beam_width: How many labels are kept from one time to the next.
        blank_index: The class that stands for no label; may be negative.

    Returns:
        The negative logarithms of their probabilities ``[batch, top_paths]``, the best
        first; their lengths; and the labels ``[batch, top_paths, time]``, after their
        end the blank. Where there are fewer labels, the logarithm is above 1e29.

    Raises:
        ValueError: Shapes that do not fit, or more paths than beams.
    """
    data = tf.cast(tf.convert_to_tensor(log_probabilities), tf.float32)
    steps = tf.cast(tf.convert_to_tensor(data_length), tf.int32)
    _check_beams(data, steps, beam_width, top_paths)
    time, batch, count = data.shape
    blank = blank_index % count
    first = tf.where(tf.equal(tf.range(beam_width), 0), 0.0, NEVER)
    beams = _Beams(
        tf.broadcast_to(first[None, :], (batch, beam_width)),
        tf.fill([batch, beam_width], NEVER),
        tf.fill([batch, beam_width, time], blank),
        tf.zeros((batch, beam_width), tf.int32),
    )

    def advance(t: Tensor, *before: Tensor) -> Any:
        made = _step(_Beams(*before), tf.gather(data, t), blank)
        live = t < steps
        axes = ((batch, 1),) * 2 + ((batch, 1, 1), (batch, 1))
        kept = [
            tf.where(tf.reshape(live, shape), new, old)
            for shape, new, old in zip(axes, made, before, strict=True)
        ]
        return (t + 1, *kept)

    found = tf.while_loop(
        lambda t, *_: t < time,
        advance,
        (tf.constant(0), *beams),
        maximum_iterations=time,
    )
    beams = _Beams(*found[1:])
    order = tf.math.top_k(log_sum(beams.blank, beams.said), top_paths)
    lengths = tf.gather(beams.lengths, order.indices, batch_dims=1)
    labels = tf.gather(beams.labels, order.indices, batch_dims=1)
    return -order.values, lengths, labels
