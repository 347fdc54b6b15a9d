# SPDX-License-Identifier: MIT
"""``tf.nn.ctc_greedy_decoder`` and ``ctc_beam_search_decoder``, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._core import Tensor

if TYPE_CHECKING:
    from ipu.tf.sparse import SparseTensor


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
    """The label of each sample's most probable path.

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
    """The most probable labels of each sample; the last class stands for no label.

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
