# SPDX-License-Identifier: MIT
"""Activations, losses over many classes, and CTC: ``ipu.nn_ops``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu._text.exports import export
from ipu.ops import _ctc, _sampled_losses
from ipu.ops.functional_ops import outlined_function
from ipu.tf._tensor.dispatch import op


@op
def gelu(x: Any, approximate: bool = True, name: str | None = None) -> Tensor:
    """Return ``tf.nn.gelu``, approximated by tanh unless it is said otherwise.

    Example:
        >>> round(float(gelu(1.0)), 4)
        0.8412
    """
    return tf.nn.gelu(x, approximate)


@op
def hard_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """Return ``0.2 x + 0.5``, cut off at 0 and 1.

    Example:
        >>> hard_sigmoid([0.0, 9.0]).numpy().tolist()
        [0.5, 1.0]
    """
    return tf.nn.hard_sigmoid(x)


@op
def swish(x: Any, name: str | None = None) -> Tensor:
    """Return ``x * sigmoid(x)``.

    Example:
        >>> float(swish(0.0))
        0.0
    """
    return tf.nn.swish(x)


@op
def softmax(x: Any, stable: bool = False, name: str | None = None) -> Tensor:
    """Return the softmax over the last axis.

    Args:
        x: A floating-point tensor.
        stable: Accepted: it always is.

    Example:
        >>> softmax([1.0, 1.0]).numpy().tolist()
        [0.5, 0.5]
    """
    return tf.nn.softmax(x)


def multi_conv(func: Callable[..., Any] | None = None, options: Any = None) -> Any:
    """Mark a function whose convolutions the hardware makes at the same time.

    Args:
        func: A function of tensors, given by position; or None, to be used as
            ``@multi_conv(options=...)``.
        options: A dict of options of the hardware's library, or a list of dicts with
            ``option`` and ``value``; accepted and not used.

    Returns:
        The function, with the same results; a decorator where ``func`` is None.

    Raises:
        TypeError: ``options`` is something else.

    Example:
        >>> @multi_conv
        ... def both(x, y):
        ...     return x, y
        >>> [float(value) for value in both(1.0, 2.0)]
        [1.0, 2.0]
    """
    if options is not None and not isinstance(options, (dict, list, tuple)):
        raise TypeError(
            "Expected the multi_conv `options` to be a `dict`, but got "
            f"{options!r} instead."
        )
    return outlined_function(func)


def _loss_dtype(data: Tensor, out_dtype: Any, what: str) -> Any:
    dtype = data.dtype if out_dtype is None else tf.as_dtype(out_dtype)
    if data.dtype == tf.float32 and dtype == tf.float16:
        raise ValueError(
            f"out_dtype cannot be float16 when dtype of {what} is float32."
        )
    return dtype


@op
def ctc_loss_v2(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    blank_index: int,
    out_dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return the CTC loss of each sample.

    Args:
        labels: Classes ``[batch, longest label]``; after a label's end anything.
        logits: ``[time, batch, classes]``.
        label_length: How long each label is, ``[batch]``.
        logit_length: How many times of each sample count, ``[batch]``.
        blank_index: The class that stands for no label.
        out_dtype: dtype of the result; None for that of the logits.

    Returns:
        ``[batch]``; above 1e29 where a label does not fit into its time.

    Raises:
        ValueError: Shapes that do not fit each other, or float16 wanted for float32.

    Example:
        >>> loss = ctc_loss_v2([[1]], [[[0.0, 0.0]]], [1], [1], blank_index=0)
        >>> [round(float(x), 4) for x in loss]
        [0.6931]
    """
    scores = tf.convert_to_tensor(logits)
    dtype = _loss_dtype(scores, out_dtype, "logits")
    data = tf.nn.log_softmax(tf.cast(scores, tf.float32))
    loss = _ctc.ctc_loss(labels, data, label_length, logit_length, blank_index)
    return tf.cast(loss, dtype)


@op
def ctc_loss_with_log_probs(
    labels: Any,
    data: Any,
    label_length: Any,
    data_length: Any,
    blank_index: int,
    out_dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return the CTC loss of each sample, of logarithms of probabilities.

    Args:
        labels: Classes ``[batch, longest label]``; after a label's end anything.
        data: The log-softmax of logits, ``[time, batch, classes]``.
        label_length: How long each label is, ``[batch]``.
        data_length: How many times of each sample count, ``[batch]``.
        blank_index: The class that stands for no label.
        out_dtype: dtype of the result; None for that of the data.

    Returns:
        ``[batch]``; above 1e29 where a label does not fit into its time.

    Raises:
        ValueError: Shapes that do not fit each other, or float16 wanted for float32.

    Example:
        >>> logs = tf.nn.log_softmax([[[0.0, 0.0]]])
        >>> loss = ctc_loss_with_log_probs([[1]], logs, [1], [1], blank_index=0)
        >>> float(loss[0])
        0.693
    """
    logs = tf.convert_to_tensor(data)
    dtype = _loss_dtype(logs, out_dtype, "data")
    loss = _ctc.ctc_loss(labels, logs, label_length, data_length, blank_index)
    return tf.cast(loss, dtype)


ctc_loss = ctc_loss_with_log_probs
ctc_loss_with_logits = ctc_loss_v2


@op
def ctc_beam_search_decoder(
    logits: Any,
    logits_lengths: Any,
    beam_width: int = 100,
    top_paths: int = 1,
    blank_index: int = -1,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the most probable labels of each sample.

    Args:
        logits: ``[time, batch, classes]``.
        logits_lengths: How many times of each sample count, ``[batch]``.
        beam_width: How many labels are kept from one time to the next.
        top_paths: How many are given.
        blank_index: The class that stands for no label; negative: from the last one.

    Returns:
        The negative logarithms of their probabilities ``[batch, top_paths]``, the best
        first; their lengths; and the labels ``[batch, top_paths, time]``, after their
        end the blank. Where there are fewer labels, the logarithm is above 1e29.

    Raises:
        ValueError: Shapes that do not fit each other, or more paths than beams.

    Example:
        >>> _, lengths, labels = ctc_beam_search_decoder([[[0.0, 3.0, 0.0]]], [1], 4)
        >>> lengths.numpy().tolist(), labels.numpy().tolist()
        ([[1]], [[[1]]])
    """
    data = tf.nn.log_softmax(tf.cast(tf.convert_to_tensor(logits), tf.float32))
    return _ctc.beam_search(data, logits_lengths, beam_width, top_paths, blank_index)


@op
def ctc_beam_search_decoder_with_log_probs(
    log_probs: Any,
    input_lengths: Any,
    beam_width: int = 100,
    top_paths: int = 1,
    blank_index: int = -1,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the most probable labels of each sample, of logarithms of probabilities.

    Args:
        log_probs: The log-softmax of logits, ``[time, batch, classes]``.
        input_lengths: How many times of each sample count, ``[batch]``.
        beam_width, top_paths, blank_index: As for :func:`ctc_beam_search_decoder`.

    Returns:
        As :func:`ctc_beam_search_decoder`.

    Raises:
        ValueError: Shapes that do not fit each other, or more paths than beams.

    Example:
        >>> data = np.log([[[0.2, 0.8]], [[0.7, 0.3]]])
        >>> best, _, labels = ctc_beam_search_decoder_with_log_probs(data, [2], 4)
        >>> round(float(np.exp(-best)[0, 0]), 2), labels.numpy().tolist()
        (0.76, [[[0, 1]]])
    """
    return _ctc.beam_search(
        log_probs, input_lengths, beam_width, top_paths, blank_index
    )


ctc_beam_search_decoder_with_logits = ctc_beam_search_decoder


@op
def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    name: str | None = None,
    seed: int | None = None,
) -> Tensor:
    """Return the softmax cross entropy over the true classes and a few that are drawn.

    It makes training with very many classes cheap; it does not estimate the whole loss.

    Args:
        weights: The classes' vectors, ``[num_classes, dim]``.
        biases: ``[num_classes]``.
        labels: True classes, ``[batch, num_true]``.
        inputs: ``[batch, dim]``.
        num_sampled: How many classes are drawn for a batch.
        num_classes: How many there are.
        num_true: How many true classes a sample has.
        sampled_values: The drawn classes, and how often true and drawn ones are
            expected among them; None draws without repetition, class c in proportion to
            ``log((c + 2) / (c + 1))``.
        seed: The draw's own seed, or None.

    Returns:
        The loss of each sample, ``[batch]``.

    Raises:
        ValueError: More classes drawn than there are, or labels that are not
            ``[batch, num_true]``.

    Source: ``ipu.nn_ops.sampled_softmax_loss``; Jean et al., "On Using Very Large
    Target Vocabulary for Neural Machine Translation", 2015.

    Example:
        >>> weights, biases = tf.ones((20, 8)), tf.zeros((20,))
        >>> labels, inputs = tf.constant([[3], [5]]), tf.ones((2, 8))
        >>> sampled_softmax_loss(weights, biases, labels, inputs, 4, 20).shape
        (2,)
    """
    logits, targets = _sampled_losses.logits_and_targets(
        weights,
        biases,
        labels,
        inputs,
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        seed,
    )
    return tf.nn.softmax_cross_entropy_with_logits(tf.stop_gradient(targets), logits)


@op
def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return the loss of noise-contrastive estimation: the true classes against a few
    that are drawn.

    Args:
        weights, biases, labels, inputs, num_sampled, num_classes, num_true: As for
            :func:`sampled_softmax_loss`.
        sampled_values: As for :func:`sampled_softmax_loss`.

    Returns:
        The loss of each sample, ``[batch]``.

    Raises:
        ValueError: As for :func:`sampled_softmax_loss`.

    Source: ``ipu.nn_ops.nce_loss``; Gutmann, Hyvarinen, "Noise-contrastive estimation",
    2010.

    Example:
        >>> weights, biases = tf.ones((20, 8)), tf.zeros((20,))
        >>> labels, inputs = tf.constant([[3], [5]]), tf.ones((2, 8))
        >>> nce_loss(weights, biases, labels, inputs, 4, 20).shape
        (2,)
    """
    logits, targets = _sampled_losses.logits_and_targets(
        weights,
        biases,
        labels,
        inputs,
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        None,
    )
    losses = tf.nn.sigmoid_cross_entropy_with_logits(targets, logits)
    return tf.reduce_sum(losses, axis=1)


export(__name__)
