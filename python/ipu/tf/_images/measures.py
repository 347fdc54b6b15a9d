# SPDX-License-Identifier: MIT
"""Measures of images: edges, patches, and how much two of them are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu.tf._images.colors import convert_image_dtype
from ipu.tf._images.size import height_axis
from ipu.tf._ops.convolutions import depthwise_conv2d
from ipu.tf._ops.elementwise import relu
from ipu.tf._ops.pooling import avg_pool2d
from ipu.tf._ops.rearrange import pad
from ipu.tf._ops.reductions import reduce_mean, reduce_prod, reduce_sum
from ipu.tf._ops.shapes import concat, reshape, stack, transpose
from ipu.tf._ops.window import windows_along
from ipu.tf._tensor.convert import Tensor, apply, cast, like
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import float32

Array = np.ndarray[Any, Any]


# --- neighbours -----------------------------------------------------------------------


def _steps(value: Tensor) -> tuple[Tensor, Tensor]:
    """Return the differences between rows that are neighbours, and between columns."""
    whole = slice(None)
    later, sooner = slice(1, None), slice(None, -1)
    down = value[(..., later, whole, whole)] - value[(..., sooner, whole, whole)]
    across = value[(..., later, whole)] - value[(..., sooner, whole)]
    return down, across


@op
def total_variation(images: Any, name: str | None = None) -> Tensor:
    """Return the sum of the distances between neighbouring pixels of each image.

    Example:
        >>> float(tf.image.total_variation([[[1.0], [3.0]]]))
        2.0
    """
    value = Tensor(images)
    axis = height_axis(value)
    axes = [axis, axis + 1, axis + 2]
    down, across = _steps(value)
    return reduce_sum(abs(down), axes) + reduce_sum(abs(across), axes)


@op
def image_gradients(image: Any) -> tuple[Tensor, Tensor]:
    """Return the differences of each pixel from the one below and from the one to its
    right.

    Args:
        image: [batch, height, width, channels].

    Returns:
        ``(dy, dx)``, both of the image's shape; 0 in the last row, or column.

    Raises:
        ValueError: The images do not have four axes.

    Example:
        >>> dy, dx = tf.image.image_gradients([[[[1.0], [3.0]]]])
        >>> dx.numpy().ravel().tolist(), dy.numpy().ravel().tolist()
        ([2.0, 0.0], [0.0, 0.0])
    """
    value = Tensor(image)
    if value.ndim != 4:
        raise ValueError(
            "image_gradients expects a 4D tensor [batch_size, h, w, d], not "
            f"{value.shape}."
        )
    down, across = _steps(value)
    return (
        concat([down, like(0, value) * value[:, :1]], 1),
        concat([across, like(0, value) * value[:, :, :1]], 2),
    )


_SOBEL = [
    [[-1, -2, -1], [0, 0, 0], [1, 2, 1]],
    [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]],
]


def _spread(kernel: Array, value: Tensor) -> Tensor:
    """Return a kernel [height, width, multiplier] for each channel of images."""
    shape = (*kernel.shape[:2], value.shape[-1], kernel.shape[2])
    return Tensor(np.broadcast_to(kernel[:, :, None], shape).copy(), value.dtype_name)


@op
def sobel_edges(image: Any) -> Tensor:
    """Return how steep each image is at each pixel, downwards and to the right.

    Args:
        image: [batch, height, width, channels] of floats, at least 2 by 2 pixels.

    Returns:
        [batch, height, width, channels, 2]: dy and dx by Sobel's kernels.

    Raises:
        ValueError: The images do not have four axes.

    Example:
        >>> ramp = tf.reshape(tf.range(9.0), (1, 3, 3, 1))
        >>> tf.image.sobel_edges(ramp)[0, 1, 1, 0].numpy().tolist()
        [24.0, 8.0]
    """
    value = Tensor(image)
    if value.ndim != 4:
        raise ValueError(
            f"sobel_edges expects [batch, height, width, channels], not {value.shape}."
        )
    around = pad(value, [(0, 0), (1, 1), (1, 1), (0, 0)], "REFLECT")
    kernels = _spread(np.transpose(np.array(_SOBEL), (1, 2, 0)), value)
    edges = depthwise_conv2d(around, kernels, [1, 1, 1, 1], "VALID")
    return reshape(edges, [*value.shape, len(_SOBEL)])


# --- patches --------------------------------------------------------------------------


@op
def extract_patches(
    images: Any,
    sizes: Sequence[int],
    strides: Sequence[int],
    rates: Sequence[int],
    padding: str,
    name: str | None = None,
) -> Tensor:
    """Return the windows of images, each as one row of channels.

    Args:
        images: [batch, height, width, channels].
        sizes: [1, height, width, 1] of a window.
        strides: [1, down, right, 1]: from one window to the next.
        rates: [1, down, right, 1]: from one pixel of a window to the next.
        padding: "VALID", or "SAME", which adds zeros around the images.

    Returns:
        [batch, rows, columns, height * width * channels], in the order of the pixels.

    Raises:
        ValueError: An argument is not as said.

    Example:
        >>> image = tf.reshape(tf.range(9), (1, 3, 3, 1))
        >>> ones = [1, 1, 1, 1]
        >>> patches = tf.image.extract_patches(image, [1, 2, 2, 1], ones, ones, "VALID")
        >>> patches[0, 0].numpy().tolist()
        [[0, 1, 3, 4], [1, 2, 4, 5]]
    """
    value = Tensor(images)
    if value.ndim != 4:
        raise ValueError(
            "extract_patches expects [batch, height, width, channels]. Received shape "
            f"{value.shape}."
        )
    for what, given in (("sizes", sizes), ("strides", strides), ("rates", rates)):
        if len(given) != 4 or given[0] != 1 or given[3] != 1 or min(given) < 1:
            raise ValueError(
                f"`{what}` must be [1, rows, columns, 1] of positive numbers. "
                f"Received: {what}={list(given)}."
            )
    if padding not in ("SAME", "VALID"):
        raise ValueError(
            f"`padding` must be 'SAME' or 'VALID'. Received: padding={padding!r}."
        )
    # the second one comes after the rows' windows
    for axis, turned in ((1, 1), (2, 3)):
        window, stride, rate = (int(n[axis]) for n in (sizes, strides, rates))
        size = value.shape[turned]
        count, low, high = windows_along(size, window, stride, rate, padding)
        ends = [(0, 0)] * value.ndim
        ends[turned] = (low, high)
        places = np.arange(count)[:, None] * stride + np.arange(window) * rate
        indices = Tensor(places.astype(np.int32))
        value = apply("gather", (pad(value, ends), indices), {"axis": turned})
    patches = transpose(value, [0, 1, 3, 2, 4, 5])
    batch, rows, columns, *rest = patches.shape
    return reshape(patches, [batch, rows, columns, int(np.prod(rest))])


# --- two images -----------------------------------------------------------------------


def _two(a: Any, b: Any, max_val: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return both images, and the largest value, as floats."""
    first = Tensor(a)
    second = like(b, first)
    shapes = first.shape, second.shape
    if min(map(len, shapes)) < 3 or shapes[0][-3:] != shapes[1][-3:]:
        raise ValueError(
            f"Two images are not compatible: {shapes[0]} and {shapes[1]}. They need at "
            "least three axes, and the last three of them alike."
        )
    largest = cast(Tensor(max_val), first.dtype)
    third, fourth, fifth = (
        convert_image_dtype(x, float32) for x in (first, second, largest)
    )
    return third, fourth, fifth


@op
def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Tensor:
    """Return the peak signal-to-noise ratio of images, in decibels.

    Args:
        a: [..., height, width, channels].
        b: The same.
        max_val: The largest value less the least one that pixels may have.

    Returns:
        [...] of float32.

    Raises:
        ValueError: The shapes do not fit.

    Example:
        >>> float(tf.image.psnr([[[0.0]]], [[[0.1]]], 1.0))
        20.0
    """
    first, second, largest = _two(a, b, max_val)
    error = reduce_mean(apply("square", (first - second,)), [-3, -2, -1])
    decibel = 10.0 / np.log(10.0)
    loudest = apply("log", (largest,)) * (2.0 * decibel)
    ratio: Tensor = loudest - apply("log", (error,)) * decibel
    return ratio


def _gauss(size: int, sigma: float) -> Array:
    """Return the weights [size, size, 1] of the normal distribution; their sum is 1."""
    away = np.arange(size) - (size - 1) / 2.0
    line = np.exp(-0.5 * (away / sigma) ** 2)
    line /= line.sum()
    return np.asarray(np.outer(line, line)[:, :, None])


def _likeness(
    x: Tensor, y: Tensor, largest: Tensor, size: int, sigma: float, k1: Any, k2: Any
) -> tuple[Tensor, Tensor]:
    """Return the likeness as a whole, and that of contrast and structure, at each
    place."""
    if min(x.shape[-3:-1]) < size:
        raise ValueError(
            f"Images of {x.shape[-3]} by {x.shape[-2]} pixels are smaller than the "
            f"window of {size}. Choose a smaller filter_size."
        )
    kernel = _spread(_gauss(size, sigma), x)

    def mean(z: Tensor) -> Tensor:
        flat = reshape(z, [-1, *z.shape[-3:]])
        made = depthwise_conv2d(flat, kernel, [1, 1, 1, 1], "VALID")
        return reshape(made, [*z.shape[:-3], *made.shape[1:]])

    c1 = apply("square", (largest * k1,))
    c2 = apply("square", (largest * k2,))
    mean_x, mean_y = mean(x), mean(y)
    both = mean_x * mean_y * 2.0
    squares = apply("square", (mean_x,)) + apply("square", (mean_y,))
    luminance = (both + c1) / (squares + c1)
    covariance = mean(x * y) * 2.0 - both
    variances = mean(apply("square", (x,)) + apply("square", (y,))) - squares
    structure = (covariance + c2) / (variances + c2)
    return luminance * structure, structure


@op
def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Tensor:
    """Return the structural similarity of images; 1 where they are equal.

    Args:
        img1: [..., height, width, channels].
        img2: The same.
        max_val: The largest value less the least one that pixels may have.
        filter_size: The edge of the window.
        filter_sigma: The width of the normal distribution in it.
        k1: How much small means count.
        k2: How much small variances count.
        return_index_map: Give the similarity at each place of the window.

    Returns:
        [...] of float32, or [..., rows, columns] with ``return_index_map``.

    Raises:
        ValueError: The shapes do not fit, or images are smaller than the window.

    Source: Wang, Bovik, Sheikh and Simoncelli, "Image quality assessment: from error
    visibility to structural similarity", 2004.

    Example:
        >>> image = tf.ones((16, 16, 1))
        >>> float(tf.image.ssim(image, image, 1.0))
        1.0
    """
    first, second, largest = _two(img1, img2, max_val)
    whole, _ = _likeness(first, second, largest, filter_size, filter_sigma, k1, k2)
    return reduce_mean(whole, [-1] if return_index_map else [-3, -2, -1])


@op
def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: Any,
    power_factors: Sequence[float] = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333),
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """Return the structural similarity of images at several sizes, each half of the
    last.

    Args:
        img1: [..., height, width, channels].
        img2: The same.
        max_val: The largest value less the least one that pixels may have.
        power_factors: How much each size counts, from the largest on.
        filter_size, filter_sigma, k1, k2: As for :func:`ssim`.

    Returns:
        [...] of float32.

    Raises:
        ValueError: The shapes do not fit, or the smallest images are smaller than the
            window.

    Source: Wang, Simoncelli and Bovik, "Multiscale structural similarity for image
    quality assessment", 2003.

    Example:
        >>> image = tf.ones((32, 32, 1))
        >>> float(tf.image.ssim_multiscale(image, image, 1.0, (0.5, 0.5)))
        1.0
    """
    first, second, largest = _two(img1, img2, max_val)
    images = [first, second]
    parts = []
    for scale in range(len(power_factors)):
        if scale > 0:
            images = [_halved(x) for x in images]
        one, other = images
        whole, structure = _likeness(
            one, other, largest, filter_size, filter_sigma, k1, k2
        )
        is_last = scale == len(power_factors) - 1
        parts.append(relu(reduce_mean(whole if is_last else structure, [-3, -2])))
    factors = Tensor(list(power_factors), "float32")
    powers = apply("pow", (stack(parts, -1), factors))
    return reduce_mean(reduce_prod(powers, -1), -1)


def _halved(x: Tensor) -> Tensor:
    """Make one pixel of two by two; the last row or column is doubled if it is odd."""
    flat = reshape(x, [-1, *x.shape[-3:]])
    odd = [(0, n % 2) for n in x.shape[-3:-1]]
    even = pad(flat, [(0, 0), *odd, (0, 0)], "SYMMETRIC")
    made = avg_pool2d(even, [2, 2], [2, 2], "VALID")
    return reshape(made, [*x.shape[:-3], *made.shape[1:]])
