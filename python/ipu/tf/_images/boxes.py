# SPDX-License-Identifier: MIT
"""Boxes in images: cut out, drawn, and the best of those that overlap each other.

A box is [y1, x1, y2, x2]: two corners that lie opposite to each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ipu.tf._ops.clip import clip_by_value
from ipu.tf._ops.rearrange import pad
from ipu.tf._ops.selection import top_k
from ipu.tf._ops.shapes import reshape, transpose
from ipu.tf._tensor import open_sizes
from ipu.tf._tensor.convert import Tensor, apply, cast, known_count, like, sizes_of
from ipu.tf._tensor.dispatch import op
from ipu.tf.control_flow import while_loop
from ipu.tf.dtypes import float32, int32

# --- cut out --------------------------------------------------------------------------


def _centres(low: Tensor, high: Tensor, pixels: int, size: int) -> Tensor:
    """Return where the pixels of an axis come from, [boxes, pixels]."""
    last = float(size - 1)
    if pixels == 1:
        return ((low + high) * (0.5 * last))[:, None]
    steps = Tensor(np.arange(pixels, dtype=np.float32))
    step = (high - low) * (last / (pixels - 1))
    return (low * last)[:, None] + step[:, None] * steps


@op
def crop_and_resize(
    image: Any,
    boxes: Any,
    box_indices: Any,
    crop_size: Any,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Cut boxes out of images and bring all of them to one size.

    Args:
        image: [batch, height, width, channels], of any dtype of numbers.
        boxes: [boxes, 4] of float32, in shares of the image: [0, 0, 1, 1] is all of it.
            A box with y1 > y2 is turned over.
        box_indices: Integers [boxes]: the image of each box.
        crop_size: (height, width) of the results.
        method: "bilinear" or "nearest".
        extrapolation_value: The value of pixels outside of an image.

    Returns:
        [boxes, height, width, channels] of float32.

    Raises:
        ValueError: A shape, a size or the method is not as said.
        InvalidArgumentError: There is no such image.

    Example:
        >>> image = tf.reshape(tf.range(9.0), (1, 3, 3, 1))
        >>> part = tf.image.crop_and_resize(image, [[0.0, 0.0, 1.0, 0.5]], [0], (3, 2))
        >>> part[0, ..., 0].numpy().tolist()
        [[0.0, 1.0], [3.0, 4.0], [6.0, 7.0]]
    """
    source = cast(Tensor(image), float32)
    places, own = Tensor(boxes, "float32"), Tensor(box_indices)
    rows, columns = sizes_of(crop_size)
    if source.ndim != 4 or places.ndim != 2 or places.shape[1:] != (4,):
        raise ValueError(
            "crop_and_resize takes images [batch, height, width, channels] and boxes "
            f"[boxes, 4]. Received shapes {source.shape} and {places.shape}."
        )
    if own.shape != places.shape[:1]:
        raise ValueError(
            f"box_indices must have the shape {places.shape[:1]}. Received shape "
            f"{own.shape}."
        )
    if method not in ("bilinear", "nearest"):
        raise ValueError(
            f"`method` must be 'bilinear' or 'nearest'. Received: method={method!r}."
        )
    if min(rows, columns) < 1:
        raise ValueError(f"crop dimensions must be positive. Received: {crop_size}.")
    height, width = source.shape[1:3]
    y1, x1, y2, x2 = (places[:, k] for k in range(4))
    y, x = _centres(y1, y2, rows, height), _centres(x1, x2, columns, width)
    pixels = _Pixels(source, own)
    if method == "nearest":
        result = pixels.at(_away(y), _away(x))
    else:
        top, left = apply("floor", (y,)), apply("floor", (x,))
        down = (y - top)[:, :, None, None]
        right = (x - left)[:, None, :, None]
        above, below = (
            pixels.at(r, left) * (1.0 - right) + pixels.at(r, left + 1.0) * right
            for r in (top, top + 1.0)
        )
        result = above * (1.0 - down) + below * down
    inside_y = _within(y, height)[:, :, None, None]
    inside_x = _within(x, width)[:, None, :, None]
    inside = apply("logical_and", (inside_y, inside_x))
    return apply("select", (inside, result, like(extrapolation_value, result)))


def _within(place: Tensor, size: int) -> Tensor:
    return apply("logical_and", (place >= 0.0, place <= float(size - 1)))


def _away(place: Tensor) -> Tensor:
    """Return the nearest whole number; halves go away from 0, as C's `round` has
    them."""
    size = apply("floor", (abs(place) + 0.5,))
    return size * apply("sign", (place,))


class _Pixels:
    """Reads rows and columns of the image of each box."""

    def __init__(self, source: Tensor, own: Tensor) -> None:
        batch, self._height, self._width, channels = source.shape
        rows = reshape(source, [batch, self._height * self._width, channels])
        self._rows = apply("gather", (rows, own), {"axis": 0})

    def at(self, y: Tensor, x: Tensor) -> Tensor:
        """Return [boxes, rows, columns, channels]; the nearest pixel where there is
        none."""
        row = cast(clip_by_value(y, 0.0, self._height - 1.0), int32)
        column = cast(clip_by_value(x, 0.0, self._width - 1.0), int32)
        flat = row[:, :, None] * self._width + column[:, None, :]
        return apply("gather", (self._rows, flat), {"axis": 1, "batch_dims": 1})


# --- drawn ----------------------------------------------------------------------------

# the colours of TensorFlow, one after the other
_COLORS = [
    [1, 1, 0, 1],
    [0, 0, 1, 1],
    [1, 0, 0, 1],
    [0, 1, 0, 1],
    [0.5, 0, 0.5, 1],
    [0.5, 0.5, 0, 1],
    [0.5, 0, 0, 1],
    [0, 0, 0.5, 1],
    [0, 1, 1, 1],
    [1, 0, 1, 1],
]


@op
def draw_bounding_boxes(
    images: Any, boxes: Any, colors: Any, name: str | None = None
) -> Tensor:
    """Return images with the edges of boxes, one pixel wide.

    Args:
        images: [batch, height, width, channels] of floats, of 1, 3 or 4 channels.
        boxes: [batch, boxes, 4], in shares of the image.
        colors: [colours, channels], of which boxes take one after the other; None: ten
            of them.

    Raises:
        ValueError: A shape is not as said.

    Example:
        >>> image = tf.zeros((1, 3, 3, 1))
        >>> box = [[[0.0, 0.0, 1.0, 1.0]]]
        >>> made = tf.image.draw_bounding_boxes(image, box, [[1.0]])
        >>> made[0, ..., 0].numpy().tolist()
        [[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    """
    picture = Tensor(images)
    places = Tensor(boxes, "float32")
    if picture.ndim != 4 or places.ndim != 3 or places.shape[2] != 4:
        raise ValueError(
            "draw_bounding_boxes takes images [batch, height, width, channels] and "
            f"boxes [batch, boxes, 4]. Received shapes {picture.shape} and "
            f"{places.shape}."
        )
    _, height, width, channels = picture.shape
    if colors is None:
        table = np.array(_COLORS)[:, :channels]
        colors = np.ones_like(table) if channels == 1 else table
    palette = like(colors, picture)
    scale = Tensor(np.array([height - 1, width - 1] * 2, np.float32))
    edges = cast(places * scale, int32)
    row = Tensor(np.arange(height, dtype=np.int32)[None, :, None])
    column = Tensor(np.arange(width, dtype=np.int32)[None, None, :])
    for k in range(places.shape[1]):
        y1, x1, y2, x2 = (edges[:, k, i][:, None, None] for i in range(4))
        rows = apply("logical_and", (row >= y1, row <= y2))
        columns = apply("logical_and", (column >= x1, column <= x2))
        level = apply("logical_or", (row == y1, row == y2))
        upright = apply("logical_or", (column == x1, column == x2))
        border = apply(
            "logical_or",
            (
                apply("logical_and", (level, columns)),
                apply("logical_and", (upright, rows)),
            ),
        )
        border = apply("logical_and", (border, y1 <= y2))
        border = apply("logical_and", (border, x1 <= x2))
        color = palette[k % palette.shape[0]]
        picture = apply("select", (border[..., None], color, picture))
    return picture


class _Chosen(NamedTuple):
    """Which boxes of each row were chosen, the best first."""

    indices: Tensor  # int32 [rows, count]; 0 after those that are valid
    scores: Tensor  # [rows, count]; 0 likewise
    valid: Tensor  # bool [rows, count]


def _edges(boxes: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    y1, x1, y2, x2 = (boxes[..., k] for k in range(4))
    return (
        apply("minimum", (y1, y2)),
        apply("minimum", (x1, x2)),
        apply("maximum", (y1, y2)),
        apply("maximum", (x1, x2)),
    )


def _overlap(boxes: Tensor, one: Tensor) -> Tensor:
    """Return how much of its union with one [rows, 1, 4] each box [rows, n, 4]
    shares."""
    top, left, bottom, right = _edges(boxes)
    top_1, left_1, bottom_1, right_1 = _edges(one)
    zero = like(0, top)
    high = apply("minimum", (bottom, bottom_1)) - apply("maximum", (top, top_1))
    wide = apply("minimum", (right, right_1)) - apply("maximum", (left, left_1))
    shared = apply("maximum", (high, zero)) * apply("maximum", (wide, zero))
    area = (bottom - top) * (right - left)
    area_1 = (bottom_1 - top_1) * (right_1 - left_1)
    empty = apply("logical_or", (area <= zero, area_1 <= zero))
    union = apply("select", (empty, like(1, area), area + area_1 - shared))
    return apply("select", (empty, zero, shared / union))


def _check(boxes: Tensor, scores: Tensor, count: int) -> None:
    if boxes.ndim < 2 or boxes.shape[-1] != 4 or scores.shape != boxes.shape[:-1]:
        raise ValueError(
            "Boxes are [boxes, 4] with as many scores. Received shapes "
            f"{boxes.shape} and {scores.shape}."
        )
    if count < 0:
        raise ValueError(f"max_output_size must be non-negative. Received: {count}.")


def check_share(iou_threshold: Any) -> None:
    share = Tensor(iou_threshold)
    if not share.is_symbolic and not 0.0 <= float(share) <= 1.0:
        raise ValueError(f"iou_threshold must be in [0, 1]. Received: {iou_threshold}.")


def choose_boxes(
    boxes: Tensor,
    scores: Tensor,
    count: int,
    iou_threshold: Any,
    score_threshold: Any,
    sigma: Any = None,
    given: Tensor | None = None,
) -> _Chosen:
    """Return the best box, then the best of those that do not overlap it too much, ...

    Args:
        boxes: [rows, n, 4].
        scores: [rows, n].
        iou_threshold: Boxes that overlap by more are left out.
        score_threshold: Boxes that do not have a higher score are left out.
        sigma: Where it is more than 0, overlapping boxes lose score in place of being
            left out (Bodla and others 2017).
        given: [rows, n, n]: overlaps to use in place of those of the boxes.
    """
    rows, n = scores.shape
    least, most = like(score_threshold, scores), like(iou_threshold, scores)
    never = like(-np.inf, scores)
    places = Tensor(np.arange(n, dtype=np.int32))
    turns = min(count, n)

    def next_one(turn: Tensor, rest: Tensor, which: Tensor, best: Tensor) -> Any:
        index = apply("argmax", (rest,), {"axis": 1, "dtype": "int32"})
        at = {"axis": 1, "batch_dims": 1}
        score = apply("gather", (rest, index[:, None]), at)
        if given is None:
            one = apply("gather", (boxes, index[:, None]), at)
            shared = _overlap(boxes, one)
        else:
            shared = apply("gather", (given, index[:, None]), at)[:, 0]
        if sigma is None:
            rest = apply("select", (shared > most, never, rest))
        else:
            fade = apply("exp", (apply("square", (shared,)) * (-0.5 / sigma),))
            lower = apply("select", (rest > never, rest * fade, never))
            rest = apply("select", (lower > least, lower, never))
        rest = apply("select", (places == index[:, None], never, rest))
        here = Tensor(np.arange(turns, dtype=np.int32)) == turn
        which = apply("select", (here, index[:, None], which))
        best = apply("select", (here, score, best))
        return turn + 1, rest, which, best

    start = apply("select", (scores > least, scores, never))
    which = Tensor(np.zeros((rows, turns), np.int32))
    best = apply("broadcast", (never,), {"shape": [rows, turns]})
    if turns:
        _, _, which, best = while_loop(
            lambda turn, *_: turn < turns,
            next_one,
            (Tensor(0), start, which, best),
            maximum_iterations=turns,
        )
    valid = best > never
    which = apply("select", (valid, which, like(0, which)))
    best = apply("select", (valid, best, like(0, best)))
    more = count - turns
    if more:
        ends = {"shape": [rows, count], "begin": [0, 0], "size": [rows, turns]}
        which, best = (apply("slice_grad", (t,), ends) for t in (which, best))
        flags = apply("slice_grad", (cast(valid, int32),), ends)
        valid = flags > 0
    return _Chosen(which, best, valid)


def _guessed(what: str) -> tuple[Tensor, Tensor]:
    error = TypeError(
        f"tf.image.{what} gives a shape that depends on values, which are not "
        "known when a function is compiled: shapes on the device are static. Use "
        "tf.image.non_max_suppression_padded with pad_to_max_output_size=True."
    )
    found: tuple[Tensor, Tensor] = open_sizes.guessed_or(
        error, ("int32", (None,)), ("float32", (None,))
    )
    return found


def _one_image(
    what: str,
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any,
    score_threshold: Any,
    sigma: float | None = None,
) -> tuple[Tensor, Tensor]:
    places = Tensor(boxes)
    points = like(scores, places)
    count = known_count(max_output_size, "max_output_size")
    _check(places, points, count)
    check_share(iou_threshold)
    if places.is_symbolic or points.is_symbolic:
        return _guessed(what)
    if places.ndim != 2:
        raise ValueError(f"boxes must be [boxes, 4]. Received shape {places.shape}.")
    found = choose_boxes(
        places[None], points[None], count, iou_threshold, score_threshold, sigma
    )
    number = int(np.count_nonzero(found.valid.numpy()))
    return found.indices[0, :number], found.scores[0, :number]


@op
def non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Return the best boxes that do not overlap each other too much, the best first.

    Works on values that are known, not on those of a function that is being traced:
    there :func:`non_max_suppression_padded` serves.

    Args:
        boxes: [boxes, 4]; any two opposite corners.
        scores: [boxes].
        max_output_size: How many at the most.
        iou_threshold: Boxes whose intersection is more than this share of their union
            exclude each other.
        score_threshold: Boxes that do not have a higher score are left out.

    Returns:
        int32: the indices of the boxes that are chosen.

    Raises:
        TypeError: A function is being traced.
        ValueError: A shape or number is not as said.

    Example:
        >>> boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.1], [0.0, 2.0, 1.0, 3.0]]
        >>> tf.image.non_max_suppression(boxes, [0.9, 0.8, 0.7], 3).numpy().tolist()
        [0, 2]
    """
    return _one_image(
        "non_max_suppression",
        boxes,
        scores,
        max_output_size,
        iou_threshold,
        score_threshold,
    )[0]


@op
def non_max_suppression_with_scores(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    soft_nms_sigma: float = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Work like :func:`non_max_suppression`, with the scores of what is chosen.

    Args:
        boxes, scores, max_output_size: As for :func:`non_max_suppression`.
        iou_threshold: As there; of no use where ``soft_nms_sigma`` is more than 0.
        score_threshold: Boxes that do not have a higher score are left out.
        soft_nms_sigma: Where it is more than 0, a box that overlaps a better one by a
            share s is not left out; its score is multiplied by exp(-s^2 / (2 sigma)).

    Returns:
        ``(indices, scores)``.

    Raises:
        TypeError: A function is being traced.
        ValueError: A shape or number is not as said.

    Source: Bodla, Singh, Chellappa and Davis, "Soft-NMS", 2017.

    Example:
        >>> boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]]
        >>> found = tf.image.non_max_suppression_with_scores(
        ...     boxes, [0.9, 0.8], 2, soft_nms_sigma=0.5
        ... )
        >>> found[1].numpy().tolist()
        [0.9, 0.294]
    """
    if soft_nms_sigma < 0.0:
        raise ValueError(
            f"soft_nms_sigma must be non-negative. Received: {soft_nms_sigma}."
        )
    return _one_image(
        "non_max_suppression_with_scores",
        boxes,
        scores,
        max_output_size,
        iou_threshold,
        score_threshold,
        float(soft_nms_sigma) or None,
    )


@op
def non_max_suppression_padded(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
    sorted_input: bool = False,
    canonicalized_coordinates: bool = False,
    tile_size: int = 512,
) -> tuple[Tensor, Tensor]:
    """Work like :func:`non_max_suppression`, with a shape that is known: also on
    the device.

    Args:
        boxes: [boxes, 4], or [..., boxes, 4] where the result is padded.
        scores: [boxes], or [..., boxes].
        max_output_size: How many at the most.
        iou_threshold, score_threshold: As there.
        pad_to_max_output_size: Give ``max_output_size`` indices, the last of them 0.
        sorted_input, canonicalized_coordinates, tile_size: Accepted and not used.

    Returns:
        ``(indices, count)``: int32, and how many of them are valid.

    Raises:
        TypeError: A function is being traced, and the result is not padded.
        ValueError: A shape or number is not as said.

    Example:
        >>> boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.1], [0.0, 2.0, 1.0, 3.0]]
        >>> indices, count = tf.image.non_max_suppression_padded(
        ...     boxes, [0.9, 0.8, 0.7], 3, pad_to_max_output_size=True
        ... )
        >>> indices.numpy().tolist(), int(count)
        ([0, 2, 0], 2)
    """
    places = Tensor(boxes)
    points = like(scores, places)
    count = known_count(max_output_size, "max_output_size")
    _check(places, points, count)
    check_share(iou_threshold)
    lead, n = list(places.shape[:-2]), places.shape[-2]
    if not pad_to_max_output_size:
        if lead:
            raise ValueError(
                "'pad_to_max_output_size' (value False) must be True for batched input"
            )
        if places.is_symbolic or points.is_symbolic:
            chosen = _guessed("non_max_suppression_padded")[0]
            return chosen, open_sizes.guessed(("int32", ()))
    found = choose_boxes(
        reshape(places, [-1, n, 4]),
        reshape(points, [-1, n]),
        count,
        iou_threshold,
        score_threshold,
    )
    valid = apply("sum", (cast(found.valid, int32),), {"axes": [1], "keep_dims": False})
    number = reshape(valid, lead)
    if pad_to_max_output_size:
        return reshape(found.indices, [*lead, count]), number
    return found.indices[0, : int(number)], number


@op
def non_max_suppression_overlaps(
    overlaps: Any,
    scores: Any,
    max_output_size: Any,
    overlap_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Work like :func:`non_max_suppression`, given how much any two boxes
    overlap.

    Args:
        overlaps: [boxes, boxes].
        scores: [boxes].
        max_output_size: How many at the most.
        overlap_threshold: Boxes that overlap by more exclude each other.
        score_threshold: Boxes that do not have a higher score are left out.

    Returns:
        int32: the indices of the boxes that are chosen.

    Raises:
        TypeError: A function is being traced.
        ValueError: A shape is not as said.

    Example:
        >>> same = [[1.0, 0.7], [0.7, 1.0]]
        >>> tf.image.non_max_suppression_overlaps(same, [0.8, 0.9], 2).numpy().tolist()
        [1]
    """
    shared = Tensor(overlaps)
    points = like(scores, shared)
    count = known_count(max_output_size, "max_output_size")
    if points.ndim != 1 or shared.shape != points.shape * 2:
        raise ValueError(
            "overlaps must be [boxes, boxes] with as many scores. Received shapes "
            f"{shared.shape} and {points.shape}."
        )
    if shared.is_symbolic or points.is_symbolic:
        return _guessed("non_max_suppression_overlaps")[0]
    found = choose_boxes(
        shared[None],
        points[None],
        count,
        overlap_threshold,
        score_threshold,
        given=shared[None],
    )
    return found.indices[0, : int(np.count_nonzero(found.valid.numpy()))]


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
    """Return the best boxes of each class, and the best of those.

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
    """Return zeros after the second axis."""
    return pad(value, [(0, more if axis == 1 else 0) for axis in range(value.ndim)])
