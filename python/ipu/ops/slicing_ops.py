# SPDX-License-Identifier: MIT
"""Copies of runs of rows: ``ipu.slicing_ops``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import tf
from ipu._core import Tensor
from ipu._text.exports import export
from ipu.tf._tensor.dispatch import op

__all__ = ["sequence_slice", "sequence_slice_pack", "sequence_slice_unpack"]


def _vectors(**values: Any) -> list[Tensor]:
    """Return the values as vectors of one length."""
    tensors = [tf.convert_to_tensor(value, tf.int32) for value in values.values()]
    if any(t.ndim != 1 or t.shape != tensors[0].shape for t in tensors) or (
        tensors[0].shape[0] == 0
    ):
        words = list(values)
        raise ValueError(
            f"{', '.join(words[:-1])} and {words[-1]} must have matching, nonzero "
            f"shapes of rank 1. Received: {[tuple(t.shape) for t in tensors]}."
        )
    return tensors


def _check_runs(offsets: Tensor, lengths: Tensor, rows: int, what: str) -> None:
    if offsets.is_symbolic or lengths.is_symbolic:
        return
    begins, counts = offsets.numpy(), lengths.numpy()
    wrong = (begins < 0) | (counts < 0) | (begins + counts > rows)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"Slice {at} takes {counts[at]} rows from row {begins[at]} on of {what}, "
            f"which has {rows}."
        )


def _begins_of(lengths: Tensor) -> Tensor:
    """Return where runs begin that follow each other."""
    return tf.cumsum(lengths, exclusive=True)


def _copied(
    dst: Tensor, src: Tensor, lengths: Tensor, src_offsets: Tensor, dst_offsets: Tensor
) -> Tensor:
    """Return each row of dst asks which runs cover it: the last one counts."""
    _check_runs(src_offsets, lengths, src.shape[0], "src")
    _check_runs(dst_offsets, lengths, dst.shape[0], "dst")
    within = tf.range(dst.shape[0])[None, :] - dst_offsets[:, None]
    covers = (within >= 0) & (within < lengths[:, None])
    numbers = tf.range(1, lengths.shape[0] + 1)[:, None]
    last = tf.reduce_max(tf.where(covers, numbers, 0), axis=0)
    is_covered = last > 0
    run = tf.maximum(last - 1, 0)
    first = tf.gather(src_offsets - dst_offsets, run)
    rows = tf.where(is_covered, first + tf.range(dst.shape[0]), 0)
    wide = tf.reshape(is_covered, [dst.shape[0]] + [1] * (dst.ndim - 1))
    return tf.where(wide, tf.gather(src, rows), dst)


def _check_inner(dst: Tensor, src: Tensor) -> None:
    if dst.ndim < 2 or src.ndim < 2:
        raise ValueError(
            "src and dst must have at least two axes. Received shapes "
            f"{tuple(src.shape)} and {tuple(dst.shape)}."
        )
    if src.shape[1:] != dst.shape[1:]:
        raise ValueError(
            "src and dst inner shapes must match. Received: "
            f"{tuple(src.shape)} and {tuple(dst.shape)}."
        )


@op
def sequence_slice(
    dst: Any,
    src: Any,
    num_elems: Any,
    src_offsets: Any,
    dst_offsets: Any,
    zero_unused: bool,
) -> Tensor:
    """Copy runs of rows from one tensor into another.

    Args:
        dst: ``[rows, ...]``: what is copied into.
        src: ``[other rows, ...]``: what is copied from.
        num_elems: How many rows each run has.
        src_offsets: The first row of each run in ``src``.
        dst_offsets: The first row of each run in ``dst``. Where runs overlap, the last
            one counts.
        zero_unused: Rows of ``dst`` that no run covers become 0; they stay otherwise.

    Returns:
        A tensor like ``dst``.

    Raises:
        ValueError: Lists of different lengths, none at all, inner shapes that differ,
            or a run that is known to leave ``src`` or ``dst``.
        InvalidArgumentError: A run leaves ``src``, when it runs.

    Example:
        >>> src = [[0.0], [1.0], [2.0], [3.0]]
        >>> dst = sequence_slice([[9.0]] * 4, src, [2, 1], [2, 1], [0, 3], False)
        >>> dst.numpy().ravel().tolist()
        [2.0, 3.0, 9.0, 1.0]
    """
    into, source = tf.convert_to_tensor(dst), tf.convert_to_tensor(src)
    lengths, begins, places = _vectors(
        num_elems=num_elems, src_offsets=src_offsets, dst_offsets=dst_offsets
    )
    _check_inner(into, source)
    start = tf.zeros_like(into) if zero_unused else into
    return _copied(start, source, lengths, begins, places)


@op
def sequence_slice_unpack(
    src: Any, num_elems: Any, src_offsets: Any, total_elements: int
) -> Tensor:
    """Take runs of rows out of a tensor, one after the other.

    Args:
        src: ``[rows, ...]``.
        num_elems: How many rows each run has.
        src_offsets: The first row of each run.
        total_elements: How many rows the result has.

    Returns:
        ``[total_elements, ...]``; 0 after the last run.

    Raises:
        ValueError: Lists of different lengths, none at all, or runs that are known to
            leave ``src`` or to be longer than ``total_elements``.

    Example:
        >>> src = [[0.0], [1.0], [2.0], [3.0]]
        >>> sequence_slice_unpack(src, [2, 1], [2, 1], 3).numpy().ravel().tolist()
        [2.0, 3.0, 1.0]
    """
    source = tf.convert_to_tensor(src)
    lengths, begins = _vectors(num_elems=num_elems, src_offsets=src_offsets)
    into = tf.zeros([total_elements, *source.shape[1:]], source.dtype)
    _check_inner(into, source)
    return _copied(into, source, lengths, begins, _begins_of(lengths))


@op
def sequence_slice_pack(
    dst: Any, src: Any, num_elems: Any, dst_offsets: Any, zero_unused: bool
) -> Tensor:
    """Copy runs that follow each other in ``src`` to where they belong in ``dst``.

    Args:
        dst: ``[rows, ...]``: what is copied into.
        src: ``[other rows, ...]``: as :func:`sequence_slice_unpack` gives it.
        num_elems: How many rows each run has.
        dst_offsets: The first row of each run in ``dst``.
        zero_unused: Rows of ``dst`` that no run covers become 0; they stay otherwise.

    Returns:
        A tensor like ``dst``.

    Raises:
        ValueError: As for :func:`sequence_slice`.

    Example:
        >>> src = [[2.0], [3.0], [1.0]]
        >>> dst = sequence_slice_pack([[0.0]] * 4, src, [2, 1], [2, 1], False)
        >>> dst.numpy().ravel().tolist()
        [0.0, 1.0, 2.0, 3.0]
    """
    into, source = tf.convert_to_tensor(dst), tf.convert_to_tensor(src)
    lengths, places = _vectors(num_elems=num_elems, dst_offsets=dst_offsets)
    _check_inner(into, source)
    start = tf.zeros_like(into) if zero_unused else into
    return _copied(start, source, lengths, _begins_of(lengths), places)


export(__name__)
