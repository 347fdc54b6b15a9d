# SPDX-License-Identifier: MIT
"""``tf.nn.ctc_loss``: dense and sparse labels, one loss of the core's ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu._core import Tensor
from ipu.tf._ops.selection import where
from ipu.tf._ops.shapes import transpose
from ipu.tf._tensor.convert import convert_to_tensor
from ipu.tf._tensor.dispatch import op

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
    """The CTC loss of each sample: minus the logarithm of its label's probability.

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
        ValueError: Shapes that do not fit each other; a ``blank_index`` that is no
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
    """Sparse labels as dense ones, and how long each is."""
    from ipu.tf import sparse

    whole = sparse.to_dense(labels).numpy().astype(np.int32)
    rows = np.asarray(labels.indices)[:, 0]
    lengths = np.bincount(rows, minlength=whole.shape[0]).astype(np.int32)
    return whole, lengths
