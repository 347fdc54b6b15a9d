# SPDX-License-Identifier: MIT
"""Non-maximum suppression of a batch of images, class by class."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ipu.tf._images.non_max_suppression import check_share, choose_boxes
from ipu.tf._ops.clip import clip_by_value
from ipu.tf._ops.rearrange import pad
from ipu.tf._ops.selection import top_k
from ipu.tf._ops.shapes import reshape, transpose
from ipu.tf._tensor.convert import Tensor, apply, cast, known_count, like
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import int32


class CombinedNonMaxSuppression(NamedTuple):
    """The result of :func:`combined_non_max_suppression`."""

    nmsed_boxes: Tensor
    nmsed_scores: Tensor
    nmsed_classes: Tensor
    valid_detections: Tensor


@op
def combined_non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> CombinedNonMaxSuppression:
    """The best boxes of each class, and the best of those.

    Args:
        boxes: [batch, boxes, q, 4]: q is 1, or the number of classes.
        scores: [batch, boxes, classes].
        max_output_size_per_class: How many of a class at the most.
        max_total_size: How many at the most.
        iou_threshold: Boxes of a class that overlap by more exclude each other.
        score_threshold: Boxes that do not have a higher score are left out.
        pad_per_class: Give no more than ``max_output_size_per_class`` times the number
            of classes.
        clip_boxes: Bring the boxes into [0, 1].

    Returns:
        ``(nmsed_boxes, nmsed_scores, nmsed_classes, valid_detections)``: [batch, count,
        4], twice [batch, count], and [batch] of int32: how many of them are valid; the
        others are 0.

    Raises:
        ValueError: A shape or number is not as said.

    Example:
        >>> boxes = tf.constant([[[[0.0, 0.0, 1.0, 1.0]], [[0.0, 0.0, 1.0, 0.9]]]])
        >>> scores = tf.constant([[[0.9, 0.2], [0.8, 0.3]]])
        >>> found = tf.image.combined_non_max_suppression(boxes, scores, 2, 3)
        >>> found.nmsed_scores.numpy().tolist(), found.valid_detections.numpy().tolist()
        ([[0.9, 0.3, 0.0]], [2])
    """
    places = Tensor(boxes)
    points = like(scores, places)
    each = known_count(max_output_size_per_class, "max_output_size_per_class")
    total = known_count(max_total_size, "max_total_size")
    fits = places.ndim == 4 and points.ndim == 3 and places.shape[3] == 4
    if (
        not fits
        or places.shape[:2] != points.shape[:2]
        or places.shape[2] not in (1, points.shape[2])
    ):
        raise ValueError(
            "combined_non_max_suppression takes boxes [batch, boxes, 1 or classes, 4] "
            "and scores [batch, boxes, classes]. Received shapes "
            f"{places.shape} and {points.shape}."
        )
    if each < 1 or total < 1:
        raise ValueError(
            "max_output_size_per_class and max_total_size must be positive. Received: "
            f"{each}, {total}."
        )
    check_share(iou_threshold)
    batch, n, classes = points.shape
    by_class = apply(
        "broadcast",
        (transpose(places, [0, 2, 1, 3]),),
        {"shape": [batch, classes, n, 4]},
    )
    rows = reshape(by_class, [batch * classes, n, 4])
    row_scores = reshape(transpose(points, [0, 2, 1]), [batch * classes, n])
    found = choose_boxes(rows, row_scores, min(each, n), iou_threshold, score_threshold)
    each = found.indices.shape[1]
    at = {"axis": 1, "batch_dims": 1}
    chosen = apply("gather", (rows, found.indices), at)
    chosen = reshape(chosen, [batch, classes * each, 4])
    never = like(-np.inf, points)
    ranked = reshape(
        apply("select", (found.valid, found.scores, never)), [batch, classes * each]
    )
    limit = classes * known_count(max_output_size_per_class, "a size")
    count = min(total, limit) if pad_per_class else total
    best, which = top_k(ranked, min(count, classes * each))
    valid = best > never
    chosen = apply("gather", (chosen, which), at)
    if clip_boxes:
        chosen = clip_by_value(chosen, 0.0, 1.0)
    number = cast(which // each, points.dtype)
    zero = like(0, points)
    missing = count - which.shape[1]
    best_boxes, best_scores, best_classes = (
        _longer(apply("select", (mask, value, zero)), missing)
        for mask, value in (
            (valid[..., None], chosen),
            (valid, best),
            (valid, number),
        )
    )
    counts = apply("sum", (cast(valid, int32),), {"axes": [1], "keep_dims": False})
    return CombinedNonMaxSuppression(best_boxes, best_scores, best_classes, counts)


def _longer(value: Tensor, more: int) -> Tensor:
    """Zeros behind the second axis."""
    return pad(value, [(0, more if axis == 1 else 0) for axis in range(value.ndim)])
