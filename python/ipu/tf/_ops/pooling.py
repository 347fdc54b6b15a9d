# SPDX-License-Identifier: MIT
"""Maxima and averages of windows: ``tf.nn.max_pool``, ``avg_pool`` and their kin.

The core pools ``[images, axes..., channels]``. With the channels in front each channel
is pooled as an image of one: that needs no transposition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ipu.tf._tensor.convert import Tensor, apply, cast, on_device
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import as_dtype

_AXES = "DHW"


def _is_channels_first(data_format: Any, axes: int) -> bool:
    last = f"N{_AXES[3 - axes :]}C"
    first = f"NC{_AXES[3 - axes :]}"
    if data_format not in (None, last, first):
        raise ValueError(
            f"`data_format` must be {last!r} or {first!r}. "
            f"Received: data_format={data_format!r}."
        )
    return bool(data_format == first)


def _per_axis(name: str, value: Any, axes: int, first: bool) -> list[int]:
    """Return one number for each pooled axis, of one, that many, or one for every
    axis."""
    numbers = [int(v) for v in np.ravel(value)]
    if len(numbers) == axes + 2:
        at = 1 if first else axes + 1
        if numbers[0] != 1 or numbers[at] != 1:
            raise ValueError(
                f"`{name}` must be 1 for batch and channels. Received: {name}={value}."
            )
        numbers = numbers[2:] if first else numbers[1:-1]
    if len(numbers) == 1:
        numbers *= axes
    if len(numbers) != axes:
        raise ValueError(
            f"`{name}` must have 1, {axes} or {axes + 2} entries. "
            f"Received: {name}={value}."
        )
    if min(numbers) < 1:
        raise ValueError(
            f"`{name}` must be at least 1 on each axis. Received: {name}={value}."
        )
    return numbers


def _pads(
    padding: Any,
    sizes: Sequence[int],
    reach: Sequence[int],
    strides: Sequence[int],
    first: bool,
) -> list[int]:
    """Return what is added before and after each axis."""
    if isinstance(padding, str) and padding.upper() in ("SAME", "VALID"):
        pads: list[int] = []
        for size, window, stride in zip(sizes, reach, strides, strict=True):
            needed = (-(-size // stride) - 1) * stride + window - size
            total = max(needed, 0) if padding.upper() == "SAME" else 0
            pads += [total // 2, total - total // 2]
        return pads
    if isinstance(padding, (list, tuple)):
        pairs = [[int(n) for n in np.ravel(pair)] for pair in padding]
        around = [pairs[0], pairs[1 if first else -1]] if len(pairs) > 2 else []
        inner = pairs[2:] if first else pairs[1:-1]
        if len(inner) == len(sizes) and all(p == [0, 0] for p in around):
            return [n for pair in inner for n in pair]
    raise ValueError(
        "`padding` must be 'SAME', 'VALID', or a pair for each axis, [0, 0] for batch "
        f"and channels. Received: padding={padding!r}."
    )


def _pooled(
    row: str,
    value: Any,
    window: Any,
    strides: Any,
    padding: Any,
    data_format: Any,
    dilations: Any = 1,
    axes: int | None = None,
    names: tuple[str, str] = ("ksize", "strides"),
    further: Callable[[Tensor, Tensor, dict[str, list[int]]], Tensor] | None = None,
) -> Tensor:
    """Return ``row`` of the core; or what ``further`` makes of x, y and the
    attributes."""
    x = Tensor(value)
    if (axes is None and not 3 <= x.ndim <= 5) or (axes and x.ndim != axes + 2):
        wanted = "3 to 5" if axes is None else str(axes + 2)
        raise ValueError(
            f"The input must have {wanted} axes: batch, pooled axes, channels. "
            f"Received: input.shape={tuple(x.shape)}."
        )
    axes = x.ndim - 2
    first = _is_channels_first(data_format, axes)
    whole = tuple(x.shape)
    sizes = whole[2:] if first else whole[1:-1]
    lengths = _per_axis(names[0], window, axes, first)
    steps = _per_axis("dilations", dilations, axes, first)
    strides = _per_axis(names[1], strides, axes, first)
    reach = [(k - 1) * step + 1 for k, step in zip(lengths, steps, strict=True)]
    attrs = {
        "window": lengths,
        "strides": strides,
        "dilations": steps,
        "padding": _pads(padding, sizes, reach, strides, first),
    }
    if first:
        x = apply("reshape", (x,), {"shape": [whole[0] * whole[1], *sizes, 1]})
    y = apply(row, (x,), attrs)
    y = y if further is None else further(x, y, attrs)
    if first:
        y = apply("reshape", (y,), {"shape": [*whole[:2], *y.shape[1:-1]]})
    return y


_TEXT = """Give the {what} of each window{axes}.

    Args:
        input: {shape}.
        ksize: The size of the windows: a number, one for each pooled axis, or one for
            every axis, 1 for batch and channels.
        strides: From one window to the next, likewise.
        padding: ``"VALID"``: windows lie inside of the input; ``"SAME"``: there are
            ``ceil(size / stride)`` of them; or a pair of numbers for each axis. Padding
            does not count.
        data_format: {formats}

    Raises:
        ValueError: An argument does not fit the input.
        InvalidArgumentError: A window is larger than the input.

    Example:
        >>> x = tf.reshape(tf.range({count}), {sizes})
        >>> tf.nn.{name}(x, 2, 2, "VALID").numpy().ravel().tolist()
        {result}
    """
_FORMATS = {
    None: '``"N...C"`` (the default) or ``"NC..."``.',
    1: '``"NWC"`` (the default) or ``"NCW"``.',
    2: '``"NHWC"`` (the default) or ``"NCHW"``.',
    3: '``"NDHWC"`` (the default) or ``"NCDHW"``.',
}


# of one channel: what each gives for 0.0, 1.0, ...
_EXAMPLES: dict[tuple[str, int], dict[str, Any]] = {
    ("max_pool", 1): {"sizes": (1, 4, 1), "count": 4.0, "result": [1.0, 3.0]},
    ("max_pool", 2): {"sizes": (1, 2, 2, 1), "count": 4.0, "result": [3.0]},
    ("max_pool", 3): {"sizes": (1, 2, 2, 2, 1), "count": 8.0, "result": [7.0]},
    ("average_pool", 1): {"sizes": (1, 4, 1), "count": 4.0, "result": [0.5, 2.5]},
    ("average_pool", 2): {"sizes": (1, 2, 2, 1), "count": 4.0, "result": [1.5]},
    ("average_pool", 3): {"sizes": (1, 2, 2, 2, 1), "count": 8.0, "result": [3.5]},
}


def _family(row: str, name: str, axes: int | None) -> Callable[..., Tensor]:
    def pool(
        input: Any,
        ksize: Any,
        strides: Any,
        padding: Any,
        data_format: Any = None,
        name: str | None = None,
    ) -> Tensor:
        return _pooled(row, input, ksize, strides, padding, data_format, axes=axes)

    shape = "``[batch, {}channels]``".format(
        {None: "1 to 3 axes, ", 1: "width, ", 2: "height, width, "}.get(
            axes, "depth, height, width, "
        )
    )
    pool.__doc__ = _TEXT.format(
        what="largest element" if row == "max_pool" else "average",
        axes="" if axes is None else f", over {axes} of the axes",
        shape=shape,
        formats=_FORMATS[axes],
        name=name,
        **_EXAMPLES[row, axes or 2],
    )
    pool.__name__ = pool.__qualname__ = name
    return op(pool)


max_pool = _family("max_pool", "max_pool", None)
max_pool1d = _family("max_pool", "max_pool1d", 1)
max_pool2d = _family("max_pool", "max_pool2d", 2)
max_pool3d = _family("max_pool", "max_pool3d", 3)
avg_pool = _family("average_pool", "avg_pool", None)
avg_pool1d = _family("average_pool", "avg_pool1d", 1)
avg_pool2d = _family("average_pool", "avg_pool2d", 2)
avg_pool3d = _family("average_pool", "avg_pool3d", 3)


@op
def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return the largest element, or the average, of windows whose elements may lie
    apart.

    Args:
        input: ``[batch, 1 to 3 axes, channels]``.
        window_shape: The size of the windows on each axis.
        pooling_type: ``"MAX"`` or ``"AVG"``.
        strides: From one window to the next, on each axis; None for 1.
        padding: ``"VALID"``, ``"SAME"``, or pairs of numbers.
        data_format: ``"N...C"`` (the default) or ``"NC..."``.
        dilations: From one element of a window to the next, on each axis; None for 1.

    Raises:
        ValueError: An argument does not fit the input; strides and dilations are both
            above 1.

    Example:
        >>> x = tf.reshape(tf.range(5.0), [1, 5, 1])
        >>> tf.nn.pool(x, [2], "MAX", dilations=[3]).numpy().ravel().tolist()
        [3.0, 4.0]
    """
    rows = {"MAX": "max_pool", "AVG": "average_pool"}
    if pooling_type not in rows:
        raise ValueError(
            f"`pooling_type` must be 'MAX' or 'AVG'. Received: {pooling_type!r}."
        )
    strides = 1 if strides is None else strides
    dilations = 1 if dilations is None else dilations
    if np.max(strides) > 1 and np.max(dilations) > 1:
        raise ValueError(
            "strides > 1 not supported in conjunction with dilations > 1. "
            f"Received: strides={strides}, dilations={dilations}."
        )
    return _pooled(
        rows[pooling_type],
        input,
        window_shape,
        strides,
        padding,
        data_format,
        dilations,
        names=("window_shape", "strides"),
    )


@op
def max_pool_with_argmax(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    output_dtype: Any = "int64",
    include_batch_in_index: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window, and where it stands.

    Args:
        input: ``[batch, height, width, channels]``.
        ksize: The size of the windows, as for ``max_pool``.
        strides: From one window to the next, likewise.
        padding: ``"VALID"`` or ``"SAME"``.
        data_format: ``"NHWC"``.
        output_dtype: int64 (int32 on a device, which has no wider one) or int32.
        include_batch_in_index: Whether places count from the first image on, and not
            from the first element of their own.

    Returns:
        ``(maxima, places)``: a place is ``(row * width + column) * channels +
        channel``. Of equal elements the first counts.

    Raises:
        ValueError: An argument does not fit the input.

    Example:
        >>> x = tf.reshape([1.0, 5.0, 2.0, 3.0], [1, 2, 2, 1])
        >>> maxima, places = tf.nn.max_pool_with_argmax(x, 2, 2, "VALID")
        >>> float(maxima), int(places)
        (5.0, 1)
    """
    if data_format != "NHWC":
        raise ValueError(
            f"`data_format` must be 'NHWC'. Received: data_format={data_format!r}."
        )
    x = Tensor(input)
    elements = int(np.prod(x.shape[1:], dtype=np.int64))
    count = elements * (x.shape[0] if include_batch_in_index else 1)
    if count > np.iinfo(np.int32).max:
        raise ValueError(
            f"Places of {count} elements do not fit int32; leave "
            f"include_batch_in_index out. Received: input.shape={tuple(x.shape)}."
        )
    numbers = np.arange(count, dtype=np.int32)
    spread = apply(
        "broadcast",
        (Tensor(numbers.reshape(-1 if include_batch_in_index else 1, *x.shape[1:])),),
        {"shape": list(x.shape)},
    )
    found: list[Tensor] = []

    def places(x: Tensor, y: Tensor, attrs: dict[str, list[int]]) -> Tensor:
        found.append(apply("max_pool_pick", (x, y, spread), attrs))
        return y

    maxima = _pooled(
        "max_pool", x, ksize, strides, padding, data_format, axes=2, further=places
    )
    kind = "int32" if on_device() else as_dtype(output_dtype).name
    return maxima, cast(found[0], kind)
