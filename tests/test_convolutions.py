# SPDX-License-Identifier: MIT
"""``tf.nn`` convolutions: formats, paddings, transposed forms, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import tf

nn = tf.nn


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("f4")


def moved(x: Any) -> Any:
    """Channels last to channels first."""
    return np.moveaxis(np.asarray(x), -1, 1)


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)


def test_same_puts_the_odd_zero_behind() -> None:
    x = tf.constant(np.arange(1.0, 5.0, dtype="f4").reshape(1, 4, 1))
    w = tf.constant(np.array([10.0, 1.0], "f4").reshape(2, 1, 1))
    assert nn.conv1d(x, w, 1, "SAME")[0, :, 0].numpy().tolist() == [12, 23, 34, 40]
    assert nn.conv1d(x, w, 2, "SAME")[0, :, 0].numpy().tolist() == [12, 34]
    assert nn.conv1d(x, w, 1, "VALID")[0, :, 0].numpy().tolist() == [12, 23, 34]
    around = [[0, 0], [2, 1], [0, 0]]
    got = nn.conv1d(x, w, 1, around)[0, :, 0].numpy().tolist()
    assert got == [0, 1, 12, 23, 34, 40]


@pytest.mark.parametrize(
    "function, sizes, formats",
    [
        (nn.conv1d, (9,), ("NWC", "NCW")),
        (nn.conv2d, (7, 6), ("NHWC", "NCHW")),
        (nn.conv3d, (4, 5, 4), ("NDHWC", "NCDHW")),
    ],
)
def test_both_formats_and_the_general_form_agree(
    function: Any, sizes: tuple[int, ...], formats: tuple[str, str]
) -> None:
    x, w = numbers(2, *sizes, 3), numbers(*(2,) * len(sizes), 3, 5)
    for strides, dilations in ((2, 1), (1, 2)):
        last = function(x, w, strides, "SAME", formats[0], dilations)
        first = function(moved(x), w, strides, "SAME", formats[1], dilations)
        close(moved(last), first)
        general = nn.convolution(x, w, strides, "SAME", formats[0], dilations)
        assert general.numpy().tobytes() == last.numpy().tobytes()
        every = [1, *[strides] * len(sizes), 1]
        again = function(x, w, every, "SAME", dilations=dilations)
        assert again.numpy().tobytes() == last.numpy().tobytes()


def test_more_leading_axes_are_one_batch() -> None:
    x, w = numbers(2, 3, 6, 6, 2), numbers(3, 3, 2, 4)
    got = nn.conv2d(x, w, 1, "SAME")
    assert got.shape == (2, 3, 6, 6, 4)
    close(got[1], nn.conv2d(x[1], w, 1, "SAME"))


def test_channels_in_groups() -> None:
    x, w = numbers(2, 6, 6, 4), numbers(3, 3, 2, 6)
    parts = [
        nn.conv2d(x[..., 2 * g : 2 * g + 2], w[..., 3 * g : 3 * g + 3], 1, "SAME")
        for g in range(2)
    ]
    close(nn.conv2d(x, w, 1, "SAME"), np.concatenate(parts, -1))


def test_depthwise_and_separable() -> None:
    x, depth, point = numbers(2, 6, 6, 3), numbers(3, 3, 3, 2), numbers(1, 1, 6, 5)
    whole = nn.depthwise_conv2d(x, depth, [1, 2, 2, 1], "SAME")
    for c in range(3):
        one = nn.conv2d(x[..., c : c + 1], depth[:, :, c : c + 1], 2, "SAME")
        close(whole[..., 2 * c : 2 * c + 2], one)
    first = nn.depthwise_conv2d(moved(x), depth, 2, "SAME", data_format="NCHW")
    close(first, moved(whole))
    mixed = nn.separable_conv2d(x, depth, point, [1, 2, 2, 1], "SAME")
    close(mixed, whole.numpy() @ point[0, 0])


@pytest.mark.parametrize("padding", ["SAME", "VALID", [[0, 0], [1, 0], [0, 2], [0, 0]]])
@pytest.mark.parametrize("strides, dilations", [((1, 1), 1), ((3, 2), 1), ((1, 1), 2)])
def test_the_transposed_form_is_the_adjoint(
    padding: Any, strides: tuple[int, int], dilations: int
) -> None:
    """<conv(x), y> = <x, conv_transpose(y)>"""
    x, w = numbers(2, 9, 8, 3), numbers(3, 2, 3, 4)
    forward = nn.conv2d(x, w, strides, padding, "NHWC", dilations)
    y = numbers(*forward.shape)
    back = nn.conv2d_transpose(y, w, x.shape, strides, padding, "NHWC", dilations)
    left, right = float((forward.numpy() * y).sum()), float((x * back.numpy()).sum())
    assert abs(left - right) < 1e-3 * (1 + abs(left))
    if padding in ("SAME", "VALID"):
        sizes = x.shape[1:3]
        general = nn.conv_transpose(y, w, sizes, strides, padding, dilations=dilations)
        assert general.numpy().tobytes() == back.numpy().tobytes()
        first = nn.conv2d_transpose(
            moved(y), w, moved(x).shape, strides, padding, "NCHW", dilations
        )
        close(first, moved(back))


def test_transposed_in_one_and_three_dimensions() -> None:
    y, w = numbers(2, 4, 5), numbers(3, 2, 5)
    flat = nn.conv1d_transpose(y, w, (2, 8, 2), 2)
    image = nn.conv2d_transpose(y[:, None], w[None], (2, 1, 8, 2), (1, 2))
    close(flat, image[:, 0])
    volume = nn.conv3d_transpose(
        y[:, None, None], w[None, None], (2, 1, 1, 8, 2), (1, 1, 2)
    )
    close(flat, volume[:, 0, 0])


def test_atrous() -> None:
    x, w = numbers(1, 9, 9, 2), numbers(3, 3, 2, 3)
    y = nn.atrous_conv2d(x, w, 2, "VALID")
    close(y, nn.conv2d(x, w, 1, "VALID", dilations=2))
    back = nn.atrous_conv2d_transpose(y, w, x.shape, 2, "VALID")
    close(back, nn.conv2d_transpose(y, w, x.shape, 1, "VALID", dilations=2))


def test_second_derivatives() -> None:
    x, w = (tf.constant(numbers(*s).astype("f8")) for s in ((1, 5, 5, 2), (3, 3, 2, 3)))
    with tf.GradientTape() as outer:
        outer.watch([x, w])
        with tf.GradientTape() as inner:
            inner.watch(x)
            loss = tf.reduce_sum(tf.nn.conv2d(x, w, 1, "SAME") ** 2)
        slope = inner.gradient(loss, x)
        total = tf.reduce_sum(slope * slope)
    dx, dw = outer.gradient(total, [x, w])
    step = 1e-5
    for value, gradient in ((x, dx), (w, dw)):
        way = np.ones(value.shape)
        ends = []
        for sign in (1, -1):
            moved_x = x + sign * step * way if value is x else x
            moved_w = w + sign * step * way if value is w else w
            with tf.GradientTape() as tape:
                tape.watch(moved_x)
                loss = tf.reduce_sum(tf.nn.conv2d(moved_x, moved_w, 1, "SAME") ** 2)
            slope = tape.gradient(loss, moved_x)
            ends.append(float(tf.reduce_sum(slope * slope)))
        want = (ends[0] - ends[1]) / (2 * step)
        got = float(tf.reduce_sum(gradient))
        assert abs(got - want) < 1e-6 * (1 + abs(want))


# --- errors ---------------------------------------------------------------------------

X, W = np.zeros((1, 5, 5, 4), "f4"), np.zeros((3, 3, 4, 6), "f4")


@pytest.mark.parametrize(
    "call, words",
    [
        (
            lambda: nn.conv2d(X, W, 1, "FULL"),
            "`padding` of conv2d must be 'SAME', 'VALID'",
        ),
        (lambda: nn.conv2d(X, W, 1, 3), "`padding` of conv2d must be"),
        (lambda: nn.conv2d(X, W, 1, [[0, 0], [-1, 0], [0, 0], [0, 0]]), "not negative"),
        (lambda: nn.conv2d(X, W, 1, [[1, 0], [1, 0], [0, 0], [0, 0]]), "for the batch"),
        (lambda: nn.conv2d(X, W, 0, "SAME"), "`strides` of conv2d must be a positive"),
        (lambda: nn.conv2d(X, W, [1, 2, 3], "SAME"), "or 2 or 4 of them"),
        (lambda: nn.conv2d(X, W, [2, 1, 1, 1], "SAME"), "must be 1 for the batch"),
        (lambda: nn.conv2d(X, W, 1, "SAME", "NWC"), "must be 'NHWC' or 'NCHW'"),
        (lambda: nn.conv2d(X, W, 1, "SAME", dilations=0), "`dilations` of conv2d"),
        (lambda: nn.conv2d(X[0], W, 1, "SAME"), "`input` of conv2d must have 4 dim"),
        (lambda: nn.conv2d(X, W[0], 1, "SAME"), "`filters` of conv2d must have 4 dim"),
        (
            lambda: nn.conv2d(X, W[:, :, :3], 1, "SAME"),
            "an input of 4 channels and fil",
        ),
        (
            lambda: nn.conv2d(X, W[:, :, :0], 1, "SAME"),
            "an input of 4 channels and fil",
        ),
        (
            lambda: nn.depthwise_conv2d(X, W[:, :, :2], 1, "SAME"),
            "for as many channels as the input has: 4",
        ),
        (
            lambda: nn.conv2d_transpose(X, W, (1, 9, 9, 4), 2),
            "make 4 channels of 6",
        ),
        (
            lambda: nn.conv2d_transpose(
                X, np.zeros((3, 3, 2, 4), "f4"), (1, 9, 8, 2), 2
            ),
            "belongs to an input of batch 1 and spatial sizes \\[5, 4\\]",
        ),
        (
            lambda: nn.conv2d_transpose(X, np.zeros((3, 3, 2, 4), "f4"), (1, 9, 2), 2),
            "`output_shape` of conv2d_transpose must have 4 entries",
        ),
        (lambda: nn.convolution(X, np.zeros((3, 4), "f4")), "must have 3 to 5 dim"),
    ],
)
def test_arguments_that_do_not_fit(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_what_the_core_refuses() -> None:
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="output size would be negative: in spatial dimension 0 the window "
        "reaches over 3 elements, but the input of shape \\(1, 2, 5, 4\\) has 2",
    ):
        nn.conv2d(X[:, :2], W, 1, "VALID")
    with pytest.raises(tf.errors.InvalidArgumentError, match="2 groups do not divide"):
        nn.conv2d(X, W[:, :, :2, :5], 1, "SAME")
    with pytest.raises(TypeError, match="one dtype, but got float32 and float16"):
        nn.conv2d(X, tf.constant(W, tf.float16), 1, "SAME")
    with pytest.raises(TypeError, match="floating-point dtype, but got int32"):
        nn.conv2d(tf.constant(X, tf.int32), tf.constant(W, tf.int32), 1, "SAME")


@pytest.mark.parametrize(
    "attrs, words",
    [
        ("strides=[1]", "strides has 1 entries, but there should be 2"),
        ("strides=[0,1]", "strides must be at least 1, but entry 0 is 0"),
        ("dilations=[1,-2]", "dilations must be at least 1"),
        ("padding=[0,0,0,-1]", "padding must be at least 0"),
        ("padding=[0,0]", "padding has 2 entries, but there should be 4"),
        ("padding=[4294967296,0,0,0]", "padding must be"),
        ("groups=0", "groups must be at least 1"),
        ("groups=3", "3 groups do not divide the 4 channels"),
        ("groups=2", "for 4 channels in each group, but the input"),
        ("channels_first=true", "for 4 channels in each group, but the input"),
    ],
)
def test_a_graph_that_breaks_a_rule_is_refused(attrs: str, words: str) -> None:
    from ipu import _core

    text = (
        "block b0(%0: float32[1,5,5,4], %1: float32[3,3,4,6]) {\n"
        f"  %2 = conv(%0, %1) {{{attrs}}} : float32[1,3,3,6]\n}} -> (%2)\n"
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        _core.graph_compile(text)
