# SPDX-License-Identifier: MIT
"""Boxes of images, and images at random: what tests/op_cases/calls.py cannot ask.

The indices that non-maximum suppression chooses are those of TensorFlow 2.21 in
calls.json; here a loop in NumPy is the oracle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ipu
from ipu import tf

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)
COLORS = RNG.uniform(size=(2, 5, 6, 3)).astype(np.float32)


def boxes_of(count: int) -> tuple[Array, Array]:
    corners = RNG.uniform(0.0, 0.6, (count, 2))
    sizes = RNG.uniform(0.1, 0.4, (count, 2))
    boxes = np.concatenate([corners, corners + sizes], 1).astype(np.float32)
    return boxes, RNG.permutation(count).astype(np.float32) / count


def overlap(a: Array, b: Array) -> float:
    high = min(a[2], b[2]) - max(a[0], b[0])
    wide = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(high, 0.0) * max(wide, 0.0)
    areas = [(x[2] - x[0]) * (x[3] - x[1]) for x in (a, b)]
    return float(shared / (sum(areas) - shared))


def best(
    boxes: Array, scores: Array, most: int, share: float, least: float, sigma: float = 0
) -> tuple[list[int], list[float]]:
    rest = {k: float(s) for k, s in enumerate(scores) if s > least}
    chosen: list[int] = []
    points: list[float] = []
    while rest and len(chosen) < most:
        one = max(rest, key=lambda k: rest[k])
        chosen.append(one)
        points.append(rest.pop(one))
        for k in list(rest):
            s = overlap(boxes[one], boxes[k])
            if sigma:
                rest[k] *= np.exp(-s * s / (2 * sigma))
                if rest[k] <= least:
                    del rest[k]
            elif s > share:
                del rest[k]
    return chosen, points


@pytest.mark.parametrize("most", [0, 3, 40])
@pytest.mark.parametrize(("share", "least"), [(0.1, -np.inf), (0.4, 0.3), (1.0, 0.5)])
def test_the_best_boxes_are_chosen(most: int, share: float, least: float) -> None:
    boxes, scores = boxes_of(24)
    want, points = best(boxes, scores, most, share, least)
    got = tf.image.non_max_suppression(boxes, scores, most, share, least)
    assert got.numpy().tolist() == want
    turned = boxes[:, [2, 1, 0, 3]]
    indices, found = tf.image.non_max_suppression_with_scores(
        turned, scores, most, share, least
    )
    assert indices.numpy().tolist() == want
    np.testing.assert_allclose(found, points)


def test_overlapping_boxes_lose_score() -> None:
    boxes, scores = boxes_of(24)
    want, points = best(boxes, scores, 24, 0.5, 0.2, sigma=0.1)
    indices, found = tf.image.non_max_suppression_with_scores(
        boxes, scores, 24, 0.5, 0.2, soft_nms_sigma=0.1
    )
    assert indices.numpy().tolist() == want
    np.testing.assert_allclose(found, points, 1e-5)


def test_boxes_are_chosen_on_the_device() -> None:
    boxes, scores = boxes_of(24)
    want = best(boxes, scores, 5, 0.2, -np.inf)[0]

    @tf.function
    def chosen(boxes: Any, scores: Any) -> Any:
        return tf.image.non_max_suppression_padded(
            boxes, scores, 30, 0.2, pad_to_max_output_size=True
        )

    with ipu.ipu_strategy.IPUStrategy().scope() as _:
        strategy = tf.distribute.get_strategy()
        indices, count = strategy.run(chosen, (boxes, scores))
    assert indices.numpy()[:5].tolist() == want
    assert not indices.numpy()[int(count) :].any()


def test_a_batch_is_chosen_row_by_row() -> None:
    rows = [boxes_of(9) for _ in range(4)]
    boxes = np.stack([r[0] for r in rows]).reshape(2, 2, 9, 4)
    scores = np.stack([r[1] for r in rows]).reshape(2, 2, 9)
    indices, counts = tf.image.non_max_suppression_padded(
        boxes, scores, 6, 0.2, pad_to_max_output_size=True
    )
    assert indices.shape == (2, 2, 6) and counts.shape == (2, 2)
    for k, (own, points) in enumerate(rows):
        want = best(own, points, 6, 0.2, -np.inf)[0]
        assert int(counts.numpy().ravel()[k]) == len(want)
        assert indices.numpy().reshape(4, 6)[k, : len(want)].tolist() == want


def test_overlaps_may_be_given() -> None:
    boxes, scores = boxes_of(12)
    overlaps = [[overlap(a, b) for b in boxes] for a in boxes]
    want = best(boxes, scores, 12, 0.2, 0.1)[0]
    got = tf.image.non_max_suppression_overlaps(overlaps, scores, 12, 0.2, 0.1)
    assert got.numpy().tolist() == want


WRONG = {
    "scores": lambda: tf.image.non_max_suppression(np.ones((3, 4), "f4"), [1.0], 2),
    "size": lambda: tf.image.non_max_suppression(np.ones((1, 4), "f4"), [1.0], -1),
    "share": lambda: tf.image.non_max_suppression(
        np.ones((1, 4), "f4"), [1.0], 1, iou_threshold=1.5
    ),
    "boxes": lambda: tf.image.crop_and_resize(COLORS, [[0.0] * 3], [0], (2, 2)),
    "indices": lambda: tf.image.crop_and_resize(COLORS, [[0.0] * 4], [0, 1], (2, 2)),
    "method": lambda: tf.image.crop_and_resize(
        COLORS, [[0.0] * 4], [0], (2, 2), "cubic"
    ),
    "crop": lambda: tf.image.crop_and_resize(COLORS, [[0.0] * 4], [0], (0, 2)),
    "channels": lambda: tf.image.rgb_to_hsv(COLORS[..., :2]),
    "hue": lambda: tf.image.adjust_hue(COLORS, 1.5),
    "random hue": lambda: tf.image.random_hue(COLORS, 0.6),
    "saturation": lambda: tf.image.random_saturation(COLORS, 2.0, 1.0),
    "small": lambda: tf.image.ssim(COLORS, COLORS, 1.0),
    "shapes": lambda: tf.image.psnr(COLORS, COLORS[:, :2], 1.0),
    "patches": lambda: tf.image.extract_patches(
        COLORS, [2, 2], [1, 1, 1, 1], [1, 1, 1, 1], "SAME"
    ),
    "padding": lambda: tf.image.extract_patches(
        COLORS, [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], "FULL"
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_said(what: str) -> None:
    with pytest.raises(ValueError, match=r"Received|not compatible|smaller|must"):
        WRONG[what]()


def test_an_image_that_is_not_there() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="indices"):
        tf.image.crop_and_resize(COLORS, [[0.0, 0.0, 1.0, 1.0]], [2], (2, 2))


def test_integers_have_no_hue() -> None:
    with pytest.raises(TypeError, match="convert_image_dtype"):
        tf.image.rgb_to_hsv(np.ones((2, 2, 3), np.uint8))


# --- at random ------------------------------------------------------------------------

STATELESS = {
    "brightness": lambda x, s: tf.image.stateless_random_brightness(x, 0.3, s),
    "contrast": lambda x, s: tf.image.stateless_random_contrast(x, 0.3, 0.9, s),
    "crop": lambda x, s: tf.image.stateless_random_crop(x, (2, 3, 3, 3), s),
    "hue": lambda x, s: tf.image.stateless_random_hue(x, 0.4, s),
    "saturation": lambda x, s: tf.image.stateless_random_saturation(x, 0.1, 0.9, s),
    "left_right": lambda x, s: tf.image.stateless_random_flip_left_right(x, s),
    "up_down": lambda x, s: tf.image.stateless_random_flip_up_down(x, s),
    "jpeg": lambda x, s: tf.image.stateless_random_jpeg_quality(x[0], 5, 90, s),
}


@pytest.mark.parametrize("what", STATELESS)
def test_a_seed_alone_decides(what: str) -> None:
    if what == "jpeg":
        pytest.importorskip("PIL")
    change = STATELESS[what]
    first = change(COLORS, (1, 2)).numpy()
    np.testing.assert_array_equal(change(COLORS, tf.constant([1, 2])), first)
    others = [change(COLORS, (k, 3)).numpy() for k in range(9)]
    assert any((other != first).any() for other in others)


def test_a_crop_is_a_part_of_the_image() -> None:
    image = np.arange(7 * 9 * 2, dtype=np.float32).reshape(7, 9, 2)
    found = set()
    for k in range(20):
        part = tf.image.stateless_random_crop(image, (3, 4, 2), (k, 1)).numpy()
        y, x = divmod(int(part[0, 0, 0]) // 2, 9)
        np.testing.assert_array_equal(part, image[y : y + 3, x : x + 4])
        found.add((y, x))
    assert len({y for y, _ in found}) > 2 and len({x for _, x in found}) > 2


def test_colours_go_there_and_back() -> None:
    for there, back in (
        (tf.image.rgb_to_hsv, tf.image.hsv_to_rgb),
        (tf.image.rgb_to_yiq, tf.image.yiq_to_rgb),
        (tf.image.rgb_to_yuv, tf.image.yuv_to_rgb),
    ):
        np.testing.assert_allclose(back(there(COLORS)), COLORS, atol=2e-4)
    turned = tf.image.adjust_hue(tf.image.adjust_hue(COLORS, 0.3), -0.3)
    np.testing.assert_allclose(turned, COLORS, atol=2e-4)


def test_random_changes_work_in_a_data_set() -> None:
    def change(x: Any) -> Any:
        x = tf.image.random_hue(x, 0.2)
        x = tf.image.random_saturation(x, 0.5, 1.5)
        return tf.image.random_flip_left_right(x)

    data = tf.data.Dataset.from_tensor_slices(COLORS).map(change).batch(2)
    (made,) = list(data)
    assert made.shape == COLORS.shape and not np.allclose(made, COLORS)
