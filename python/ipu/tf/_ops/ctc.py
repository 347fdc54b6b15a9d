# SPDX-License-Identifier: MIT
"""Losses and decoders of labels without alignment (CTC), dense and sparse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._core import Tensor
from ipu.tf._ops.selection import where
from ipu.tf._ops.shapes import transpose
from ipu.tf._tensor.convert import convert_to_tensor
from ipu.tf._tensor.dispatch import op

if TYPE_CHECKING:
    from ipu.tf.sparse import SparseTensor

_UNFIT = 1e29  # losses above are those of labels that do not fit into their time


@op
def ctc_loss(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    logits_time_major: bool = True,
    unique: Any = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the CTC loss of each sample: minus the logarithm of its label's
    probability.

    Args:
        labels: Classes ``[batch, longest label]``; after a label's end anything. Or a
            ``tf.sparse.SparseTensor`` of them.
        logits: ``[time, batch, classes]``, or ``[batch, time, classes]``.
        label_length: How long each label is, ``[batch]``; None for sparse labels.
        logit_length: How many times of each sample count, ``[batch]``.
        logits_time_major: Whether the first axis of the logits is time. Default True.
        unique: Accepted and not used: it makes TensorFlow faster.
        blank_index: The class that stands for no label; a negative one counts from the
            end. None for 0; sparse labels need one.

    Returns:
        ``[batch]``; infinite where a label does not fit into its time.

    Raises:
        ValueError: Shapes that do not fit each other; a ``blank_index`` that is not a
            class; sparse labels without one.

    Example:
        >>> loss = ctc_loss([[1]], [[[0.0, 0.0]]], [1], [1])
        >>> [round(float(x), 4) for x in loss]
        [0.6931]
    """
    from ipu.ops.nn_ops import ctc_loss_v2
    from ipu.tf import sparse

    del unique, name
    if isinstance(labels, sparse.SparseTensor):
        if blank_index is None:
            raise ValueError(
                "Argument `blank_index` must be provided when labels is a "
                "SparseTensor. Give -1 for the last class."
            )
        labels, label_length = _dense(labels)
    elif label_length is None:
        raise ValueError(
            "Argument `label_length` must be given where labels are dense. "
            "Received: label_length=None."
        )
    scores = convert_to_tensor(logits)
    if scores.ndim != 3:
        raise ValueError(
            "`logits` must be [time, batch, classes]. Received a shape of "
            f"{tuple(scores.shape)}."
        )
    if not logits_time_major:
        scores = transpose(scores, [1, 0, 2])
    blank = 0 if blank_index is None else int(blank_index)
    classes = scores.shape[2]
    if not -classes <= blank < classes:
        raise ValueError(
            f"`blank_index` must be one of {classes} classes. Received: {blank}."
        )
    loss = ctc_loss_v2(labels, scores, label_length, logit_length, blank)
    return where(loss > _UNFIT, float("inf"), loss)


def _dense(labels: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return sparse labels as dense ones, and how long each is."""
    from ipu.tf import sparse

    whole = sparse.to_dense(labels).numpy().astype(np.int32)
    rows = np.asarray(labels.indices)[:, 0]
    lengths = np.bincount(rows, minlength=whole.shape[0]).astype(np.int32)
    return whole, lengths


def _sparse(labels: list[list[int]]) -> SparseTensor:
    from ipu.tf.sparse import SparseTensor

    places = [(i, j) for i, row in enumerate(labels) for j in range(len(row))]
    values = np.array([label for row in labels for label in row], np.int64)
    longest = max(map(len, labels), default=0)
    return SparseTensor(places, values, [len(labels), longest])


def _checked(inputs: Any, sequence_length: Any) -> tuple[Any, Any]:
    data = Tensor(inputs).numpy()
    lengths = Tensor(sequence_length).numpy()
    if data.ndim != 3 or lengths.shape != data.shape[1:2]:
        raise ValueError(
            "CTC decoders need inputs [time, batch, classes] and a length for each "
            f"sample. Received shapes {data.shape} and {lengths.shape}."
        )
    if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= len(data):
        raise ValueError(
            f"sequence_length must be from 0 to the {len(data)} times of the inputs. "
            f"Received: {lengths.tolist()}."
        )
    return data, lengths


def ctc_greedy_decoder(
    inputs: Any,
    sequence_length: Any,
    merge_repeated: bool = True,
    blank_index: int | None = None,
) -> tuple[list[SparseTensor], Tensor]:
    """Return the label of each sample's most probable path.

    Args:
        inputs: Logits ``[time, batch, classes]``; known numbers, not those of a trace.
        sequence_length: How many times of each sample count, ``[batch]``.
        merge_repeated: Whether a class that is said several times in a row counts once.
        blank_index: The class that stands for no label; None for the last one.

    Returns:
        A list of one sparse tensor, int64, ``[batch, longest label]``; and the negative
        sum of the path's logits, ``[batch, 1]``.

    Raises:
        ValueError: Shapes that do not fit each other, or a length that is out of range.

    Example:
        >>> x = [[[0.0, 2.0, 1.0]], [[0.0, 3.0, 1.0]], [[0.0, 0.0, 5.0]]]
        >>> (labels,), score = ctc_greedy_decoder(x, [3])
        >>> labels.values.numpy().tolist(), score.numpy().tolist()
        ([1], [[-10.0]])
    """
    data, lengths = _checked(inputs, sequence_length)
    count = data.shape[2]
    blank = count - 1 if blank_index is None else blank_index % count
    labels: list[list[int]] = []
    scores = np.zeros((data.shape[1], 1), data.dtype)
    for sample, length in enumerate(lengths):
        path = data[:length, sample].argmax(-1)
        scores[sample] = -data[:length, sample].max(-1, initial=-np.inf).sum()
        before = np.concatenate([[blank], path[:-1]])
        kept = path != blank
        if merge_repeated:
            kept &= path != before
        labels.append(path[kept].tolist())
    return [_sparse(labels)], Tensor(scores)


def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """Return the most probable labels of each sample; the last class stands for no
    label.

    Args:
        inputs: Logits ``[time, batch, classes]``; known numbers, not those of a trace.
        sequence_length: How many times of each sample count, ``[batch]``.
        beam_width: How many labels are kept from one time to the next.
        top_paths: How many are given.

    Returns:
        A list of ``top_paths`` sparse tensors, int64, ``[batch, longest label]``, the
        best first; and the logarithms of their probabilities, ``[batch, top_paths]``.

    Raises:
        ValueError: Shapes that do not fit each other, a length that is out of range, or
            more paths than beams.

    Example:
        >>> x = np.log([[[0.2, 0.8]], [[0.7, 0.3]]])
        >>> (labels,), score = ctc_beam_search_decoder(x, [2], beam_width=4)
        >>> labels.values.numpy().tolist(), round(float(np.exp(score)[0, 0]), 2)
        ([0], 0.76)
    """
    from ipu.ops.nn_ops import ctc_beam_search_decoder as search

    data, lengths = _checked(inputs, sequence_length)
    scores, sizes, labels = search(data, lengths, beam_width, top_paths)
    found = labels.numpy()
    ends = sizes.numpy()
    samples = range(data.shape[1])
    return [
        _sparse([found[b, path, : ends[b, path]].tolist() for b in samples])
        for path in range(top_paths)
    ], -scores
