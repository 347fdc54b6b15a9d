# SPDX-License-Identifier: MIT
"""The functions of rows of ``keras.ops`` that are more than one call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ipu import tf
from ipu.keras import backend
from ipu.keras.ops._table import (
    dtype_of,
    float_pair,
    floats,
    pair,
    result_type,
    sums,
    tensor,
)


def whole_axis(x: Any, axis: Any) -> tuple[Any, int]:
    """Return a tensor and its axis; None lays it flat."""
    found = tensor(x)
    return (tf.reshape(found, [-1]), 0) if axis is None else (found, axis)


def places(x: tf.Tensor, axis: Any) -> list[int]:
    """Return axes, one or several or None for all, counted from the front."""
    axes = range(x.ndim) if axis is None else np.atleast_1d(axis)
    return [int(one) % x.ndim for one in axes]


def extreme(function: Any) -> Any:
    """Make a maximum or minimum that also takes truth values and ``initial``."""

    def call(x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None):  # type: ignore[no-untyped-def]
        found = tensor(x)
        is_bool = found.dtype.is_bool
        made = function(tf.cast(found, "int32") if is_bool else found, axis, keepdims)
        if initial is not None:
            both = tf.stack([made, tf.cast(tf.fill(made.shape, initial), made.dtype)])
            made = function(both, 0)
        return tf.cast(made, "bool") if is_bool else made

    return call


def place_of(function: Any) -> Any:
    """Make ``argmax`` or ``argmin``."""

    def call(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        found = tensor(x)
        flat, along = whole_axis(found, axis)
        made = tf.cast(function(flat, along), "int32")
        if not keepdims:
            return made
        sizes = [1] * found.ndim
        return tf.reshape(made, sizes) if axis is None else tf.expand_dims(made, axis)

    return call


def running(function: Any) -> Any:
    """Make ``cumsum`` or ``cumprod``."""

    def call(x: Any, axis: Any = None, dtype: Any = None) -> Any:
        flat, along = whole_axis(sums(x) if dtype is None else tensor(x, dtype), axis)
        return function(flat, along)

    return call


def average(x: Any, axis: Any = None, weights: Any = None) -> Any:
    if weights is None:
        return tf.reduce_mean(floats(x), axis)
    values, shares = float_pair(x, weights)
    if shares.ndim != values.ndim:
        sizes = [1] * values.ndim
        sizes[places(values, axis)[0]] = -1
        shares = tf.reshape(shares, sizes)
    shares = tf.broadcast_to(shares, values.shape)
    return tf.reduce_sum(values * shares, axis) / tf.reduce_sum(shares, axis)


def quantile(
    x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
) -> Any:
    values = floats(x)
    axes = places(values, axis)
    kept = [one for one in range(values.ndim) if one not in axes]
    moved = tf.transpose(values, [*kept, *axes])
    sizes = [values.shape[one] for one in kept]
    ordered = tf.sort(tf.reshape(moved, [*sizes, -1]))
    # in float64, which no function of a device has: `q` is known
    place = np.asarray(q, np.float64) * (ordered.shape[-1] - 1)
    below, above = np.floor(place), np.ceil(place)
    ways = {
        "linear": place - below,
        "lower": 0 * place,
        "higher": (place > below) * 1.0,
        "nearest": np.round(place) - below,
        "midpoint": (place > below) * 0.5,
    }
    if method not in ways:
        raise ValueError(f"`method` is one of {[*ways]}. Received: method={method!r}.")

    def at(found: Any) -> Any:
        return tf.gather(ordered, np.int32(found), axis=-1)

    made = at(below) + (at(above) - at(below)) * tensor(ways[method], values.dtype)
    if keepdims:
        ones = [1 if one in axes else size for one, size in enumerate(values.shape)]
        made = tf.reshape(made, [*ones, *place.shape])
    return (
        tf.transpose(made, [made.ndim - 1, *range(made.ndim - 1)])
        if place.ndim
        else made
    )


def take(x: Any, indices: Any, axis: Any = None) -> Any:
    values, along = whole_axis(x, axis)
    wanted = tensor(indices, "int32")
    size = values.shape[along]
    return tf.gather(values, tf.where(wanted < 0, wanted + size, wanted), axis=along)


def take_along_axis(x: Any, indices: Any, axis: Any = None) -> Any:
    values, along = whole_axis(x, axis)
    wanted = tensor(indices, "int32")
    last = places(values, along)[0]
    rest = [n for n in range(values.ndim) if n != last]
    sizes = np.broadcast_shapes(
        *(tuple(one.shape[n] for n in rest) for one in (values, wanted))
    )
    order = [*rest, last]

    def rows(one: Any) -> Any:
        turned = tf.transpose(one, order)
        return tf.broadcast_to(turned, [*sizes, turned.shape[-1]])

    wanted = tf.where(wanted < 0, wanted + values.shape[last], wanted)
    found = tf.gather(rows(values), rows(wanted), batch_dims=len(sizes))
    return tf.transpose(found, np.argsort(order).tolist())


def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    values = tensor(x)
    fro, to = places(values, source), places(values, destination)
    rest = [n for n in range(values.ndim) if n not in fro]
    for place, axis in sorted(zip(to, fro, strict=True)):
        rest.insert(place, axis)
    return tf.transpose(values, rest)


def flip(x: Any, axis: Any = None) -> Any:
    values = tensor(x)
    return tf.reverse(values, places(values, axis))


def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = None):  # type: ignore[no-untyped-def]
    values = tensor(x)
    widths = np.broadcast_to(np.asarray(pad_width, np.int32), (values.ndim, 2))
    fill = 0 if constant_values is None else constant_values
    return tf.pad(values, widths.tolist(), mode.upper(), tensor(fill, values.dtype))


def diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    values = tensor(a)
    size = values.shape[axis]
    for step in range(n):
        parts = [np.arange(size - step - 1, dtype=np.int32) + k for k in (1, 0)]
        after, before = (tf.gather(values, p, axis=axis) for p in parts)
        values = after != before if values.dtype.is_bool else after - before
    return values


def dot(x1: Any, x2: Any) -> Any:
    a, b = pair(x1, x2)
    if not (a.ndim and b.ndim):
        return a * b
    return tf.tensordot(a, b, [[a.ndim - 1], [max(b.ndim - 2, 0)]])


def matmul(x1: Any, x2: Any) -> Any:
    a, b = pair(x1, x2)
    if not (a.ndim and b.ndim):
        raise ValueError("matmul takes no scalars. Multiply them.")
    made = tf.matmul(a[None] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b)
    lost = [place for place, one in ((-2, a), (-1, b)) if one.ndim == 1]
    return tf.squeeze(made, lost) if lost else made


def split(x: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    values = tensor(x)
    if isinstance(indices_or_sections, int):
        return tf.split(values, indices_or_sections, axis)
    bounds = [0, *(int(one) for one in indices_or_sections), values.shape[axis]]
    return tf.split(values, np.diff(bounds).tolist(), axis)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    bounds = (0, start) if stop is None else (start, stop)
    kind = result_type(*bounds, step) if dtype is None else dtype
    return tensor(np.arange(bounds[0], bounds[1], step), kind)


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    first, last = float_pair(start, stop)
    step = (last - first) / max(num - endpoint, 1)
    made = tf.stack([first + step * k for k in range(num)], axis)
    made = made if dtype is None else tf.cast(made, dtype)
    return (made, step) if retstep else made


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return tf.reduce_sum(sums(diagonal(x, offset, axis1, axis2)), -1)


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    values = moveaxis(x, (axis1, axis2), (-2, -1))
    high, wide = values.shape[-2:]
    rows = np.arange(max(-offset, 0), min(high, wide - offset), dtype=np.int32)
    flat = tf.reshape(values, [*values.shape[:-2], high * wide])
    return tf.gather(flat, rows * wide + rows + offset, axis=-1)


def diag(x: Any, k: int = 0) -> Any:
    values = tensor(x)
    if values.ndim == 2:
        return diagonal(values, k)
    size = values.shape[0] + abs(k)
    rows = np.arange(values.shape[0]) + max(-k, 0)
    points = np.stack([rows, rows + k], 1).astype(np.int32)
    return tf.scatter_nd(points, values, [size, size])


def triangle(x: Any, k: int, upper: bool) -> Any:
    values = tensor(x)
    mask = np.tri(values.shape[-2], values.shape[-1], k - upper, dtype=bool)
    return tf.where(mask != upper, values, tf.zeros_like(values))


def isclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    a, b = float_pair(x1, x2)
    near = tf.logical_and(
        tf.abs(a - b) <= atol + rtol * tf.abs(b), tf.math.is_finite(b)
    )
    found = tf.logical_or(near, tf.equal(a, b))
    both = tf.logical_and(tf.math.is_nan(a), tf.math.is_nan(b))
    return tf.logical_or(found, both) if equal_nan else found


def nan_to_num(x: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    values = tensor(x)
    if not values.dtype.is_floating:
        return values
    ends = np.finfo(values.dtype.as_numpy_dtype)
    for where, new in (
        (tf.math.is_nan(values), nan),
        (values == float("inf"), float(ends.max) if posinf is None else posinf),
        (values == -float("inf"), float(ends.min) if neginf is None else neginf),
    ):
        values = tf.where(where, tensor(new, values.dtype), values)
    return values


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    values = floats(x)
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else axis
    if ord is None or (ord == "fro" and values.ndim == 2):
        return tf.sqrt(tf.reduce_sum(tf.square(values), axes, keepdims))
    if axes is None:
        axes = tuple(range(values.ndim)) if values.ndim == 2 else 0
    return tf.norm(values, ord, axes if isinstance(axes, int) else list(axes), keepdims)


# --- nets


def layout(x: tf.Tensor, data_format: Any) -> tuple[Any, Any]:
    """Return images with their channels last, and what puts results back."""
    found = backend.image_data_format() if data_format is None else data_format
    if found not in ("channels_first", "channels_last"):
        raise ValueError(f"Unknown data_format: {found!r}.")
    if found == "channels_last":
        return x, lambda made: made
    axes = range(2, x.ndim)
    back = [0, x.ndim - 1, *range(1, x.ndim - 1)]
    return tf.transpose(x, [0, *axes, 1]), lambda made: tf.transpose(made, back)


def several(value: Any, rank: int) -> list[int]:
    """Return a number for each axis of images."""
    return [value] * rank if isinstance(value, int) else list(value)


def pool(kind: str) -> Any:
    """Make ``max_pool`` or ``average_pool``."""

    def call(  # type: ignore[no-untyped-def]
        inputs: Any,
        pool_size: Any,
        strides: Any = None,
        padding: str = "valid",
        data_format: Any = None,
    ):
        images, back = layout(floats(inputs), data_format)
        rank = images.ndim - 2
        steps = several(pool_size if strides is None else strides, rank)
        sizes = several(pool_size, rank)
        return back(tf.nn.pool(images, sizes, kind, steps, padding.upper()))

    return call


def conv(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: Any = None,
    dilation_rate: Any = 1,
) -> Any:
    x, w = float_pair(inputs, kernel)
    images, back = layout(x, data_format)
    rank = images.ndim - 2
    steps, gaps = several(strides, rank), several(dilation_rate, rank)
    return back(tf.nn.convolution(images, w, steps, padding.upper(), None, gaps))


def depthwise_conv(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: Any = None,
    dilation_rate: Any = 1,
) -> Any:
    x, w = float_pair(inputs, kernel)
    images, back = layout(x, data_format)
    is_line = images.ndim == 3
    if is_line:
        images, w = images[:, None], w[None]
    steps = several(strides, images.ndim - 2)
    gaps = several(dilation_rate, images.ndim - 2)
    if is_line:
        steps, gaps = [steps[-1]] * 2, [1, gaps[-1]]
    made = tf.nn.depthwise_conv2d(
        images, w, [1, *steps, 1], padding.upper(), None, gaps
    )
    return back(made[:, 0] if is_line else made)


def separable_conv(
    inputs: Any,
    depthwise_kernel: Any,
    pointwise_kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: Any = None,
    dilation_rate: Any = 1,
) -> Any:
    options = (padding, data_format)
    x = depthwise_conv(inputs, depthwise_kernel, strides, *options, dilation_rate)
    return conv(x, pointwise_kernel, 1, *options)


def conv_transpose(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    output_padding: Any = None,
    data_format: Any = None,
    dilation_rate: Any = 1,
) -> Any:
    if output_padding is not None:
        raise ValueError(
            "output_padding is not there: pad or crop the result. Received: "
            f"output_padding={output_padding!r}."
        )
    x, w = float_pair(inputs, kernel)
    images, back = layout(x, data_format)
    rank = images.ndim - 2
    steps, gaps = several(strides, rank), several(dilation_rate, rank)
    reach = [(size - 1) * gap + 1 for size, gap in zip(w.shape, gaps, strict=False)]
    more = [
        max(r - s, 0) * (padding == "valid") for r, s in zip(reach, steps, strict=True)
    ]
    sizes = [n * s + m for n, s, m in zip(images.shape[1:-1], steps, more, strict=True)]
    whole = [images.shape[0], *sizes, w.shape[-2]]
    made = tf.nn.conv_transpose(images, w, whole, steps, padding.upper(), None, gaps)
    return back(made)


def normalize(x: Any, axis: int = -1, order: int = 2, epsilon: Any = None) -> Any:
    values = floats(x)
    least = backend.epsilon() if epsilon is None else epsilon
    return values / tf.maximum(norm(values, order, axis, True), least)


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    axis: int,
    offset: Any = None,
    scale: Any = None,
    epsilon: float = 1e-3,
) -> Any:
    values = floats(x)
    sizes = [1] * values.ndim
    sizes[axis] = -1

    center, spread, more, factor = (
        None if one is None else tf.reshape(tensor(one, values.dtype), sizes)
        for one in (mean, variance, offset, scale)
    )
    return tf.nn.batch_normalization(values, center, spread, more, factor, epsilon)


def layer_normalization(
    x: Any, gamma: Any = None, beta: Any = None, axis: Any = -1, epsilon: Any = None
) -> Any:
    values = floats(x)
    axes = places(values, axis)
    mean, variance = tf.nn.moments(values, axes, keepdims=True)
    sizes = [n if k in axes else 1 for k, n in enumerate(values.shape)]
    scale, offset = (
        None if one is None else tf.reshape(tensor(one, values.dtype), sizes)
        for one in (gamma, beta)
    )
    least = backend.epsilon() if epsilon is None else epsilon
    return tf.nn.batch_normalization(values, mean, variance, offset, scale, least)


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    scale: Any = None,
    is_causal: bool = False,
) -> Any:
    q, k, v = float_pair(query, key, value)
    scores = tf.einsum("btnh,bsnh->bnts", q, k)
    scores = scores * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if bias is not None:
        scores = scores + tensor(bias, q.dtype)
    masks = [] if mask is None else [tensor(mask, "bool")]
    if is_causal:
        masks.append(tf.constant(np.tri(q.shape[1], k.shape[1], dtype=bool)))
    for one in masks:
        scores = tf.where(one, scores, float(np.finfo(q.dtype.as_numpy_dtype).min) / 2)
    return tf.einsum("bnts,bsnh->btnh", tf.nn.softmax(scores), v)


def one_hot(x: Any, num_classes: int, axis: int = -1, dtype: Any = None) -> Any:
    return tf.one_hot(tensor(x, "int32"), num_classes, axis=axis, dtype=dtype_of(dtype))


def multi_hot(
    inputs: Any, num_classes: Any = None, axis: int = -1, dtype: Any = None
) -> Any:
    rows = one_hot(inputs, num_classes, axis, dtype)
    return tf.reduce_max(rows, 1 if rows.ndim > 2 else 0)
