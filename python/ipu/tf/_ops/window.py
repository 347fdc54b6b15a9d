# SPDX-License-Identifier: MIT
"""Arguments of windows that slide over tensors: formats, strides, paddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ipu.tf._tensor.convert import Tensor, known_value, like

_FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


class Format(NamedTuple):
    """Where a tensor has its channels and its spatial axes.

    Attributes:
        spatial: How many spatial axes there are: 1 to 3.
        channels_first: Whether the channels are axis 1; else they are the last axis.
    """

    spatial: int
    channels_first: bool

    @property
    def channels(self) -> int:
        """The axis of the channels."""
        return 1 if self.channels_first else self.spatial + 1

    @property
    def first(self) -> int:
        """The first spatial axis."""
        return 2 if self.channels_first else 1

    def inner(self, sizes: Sequence[int]) -> list[int]:
        """Return the spatial ones of entries for all axes."""
        return list(sizes[self.first : self.first + self.spatial])


def format_of(function: str, data_format: Any, spatial: int) -> Format:
    """Return what a format such as "NHWC" says.

    Raises:
        ValueError: There is no such format for so many spatial axes.
    """
    last, first = _FORMATS[spatial]
    if data_format is None or data_format == last:
        return Format(spatial, False)
    if data_format == first:
        return Format(spatial, True)
    raise ValueError(
        f"`data_format` of {function} must be '{last}' or '{first}' for {spatial} "
        f"spatial dimensions. Received: data_format={data_format!r}."
    )


def sizes_of_window(function: str, name: str, value: Any, layout: Format) -> list[int]:
    """Return one number for each spatial axis.

    Args:
        value: A number, one for each spatial axis, or one for each axis of the tensor,
            of which those of batch and channels are 1; None counts as 1.

    Raises:
        ValueError: There are too few or too many, one is not positive, or those of
            batch or channels are not 1.
    """
    if value is None:
        return [1] * layout.spatial
    given = [int(n) for n in np.atleast_1d(known_value(value, name)).tolist()]
    sizes = given * layout.spatial if len(given) == 1 else given
    if len(sizes) == layout.spatial + 2:
        sizes = layout.inner(given)
        if (given[0], given[layout.channels]) != (1, 1):
            raise ValueError(
                f"`{name}` of {function} must be 1 for the batch and the channels. "
                f"Received: {name}={value!r}."
            )
    if len(sizes) != layout.spatial or min(sizes) < 1:
        raise ValueError(
            f"`{name}` of {function} must be a positive integer, or {layout.spatial} "
            f"or {layout.spatial + 2} of them. Received: {name}={value!r}."
        )
    return sizes


def _explicit(function: str, padding: Any, layout: Format) -> list[int]:
    try:
        pairs = [(int(low), int(high)) for low, high in padding]
    except (TypeError, ValueError):
        pairs = []
    if len(pairs) != layout.spatial + 2 or any(min(pair) < 0 for pair in pairs):
        raise ValueError(
            f"`padding` of {function} must be 'SAME', 'VALID', or {layout.spatial + 2} "
            "pairs of numbers that are not negative, the zeros before and after each "
            f"axis. Received: padding={padding!r}."
        )
    if pairs[0] != (0, 0) or pairs[layout.channels] != (0, 0):
        raise ValueError(
            f"`padding` of {function} must be (0, 0) for the batch and the channels. "
            f"Received: padding={padding!r}."
        )
    inner = pairs[layout.first : layout.first + layout.spatial]
    return [n for pair in inner for n in pair]


def border_of(
    function: str,
    padding: Any,
    layout: Format,
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """Return the zeros before and after each spatial axis, one pair after the other.

    "SAME" gives results of ceil(size / stride), with the odd zero at the end.

    Raises:
        ValueError: The padding is neither a name nor pairs.
    """
    if not isinstance(padding, str):
        return _explicit(function, padding, layout)
    if padding.upper() not in ("SAME", "VALID"):
        raise ValueError(
            f"`padding` of {function} must be 'SAME', 'VALID', or pairs of numbers. "
            f"Received: padding={padding!r}."
        )
    if padding.upper() == "VALID":
        return [0] * (2 * layout.spatial)
    border = []
    for size, side, step, spread in zip(sizes, window, strides, dilations, strict=True):
        reach = (side - 1) * spread + 1
        total = max((-(-size // step) - 1) * step + reach - size, 0)
        border += [total // 2, total - total // 2]
    return border


def attrs_of(
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: Sequence[int],
    groups: int,
    layout: Format,
) -> dict[str, Any]:
    """Return the attributes of a convolution; those that say nothing are left out."""
    return {
        "strides": None if set(strides) == {1} else strides,
        "dilations": None if set(dilations) == {1} else dilations,
        "padding": padding if any(padding) else None,
        "groups": None if groups == 1 else groups,
        "channels_first": layout.channels_first or None,
    }


def operands_of(
    function: str, value: Any, filters: Any, spatial: int
) -> tuple[Tensor, Tensor]:
    """Return input and filters of a convolution as tensors.

    Raises:
        ValueError: One has too few axes.
    """
    x = Tensor(value)
    w = like(filters, x)
    if w.ndim != spatial + 2:
        raise ValueError(
            f"`filters` of {function} must have {spatial + 2} dimensions: the window, "
            f"channels, results. Received: shape {tuple(w.shape)}."
        )
    if x.ndim < spatial + 2:
        raise ValueError(
            f"`input` of {function} must have {spatial + 2} dimensions: the batch, "
            f"{spatial} spatial ones and channels. Received: shape {tuple(x.shape)}."
        )
    return x, w


def windows_along(
    size: int, window: int, stride: int, rate: int, padding: str
) -> tuple[int, int, int]:
    """Return how many windows an axis has, and how much "SAME" adds before and after
    it."""
    covered = (window - 1) * rate + 1
    if padding == "VALID":
        return max((size - covered) // stride + 1, 0), 0, 0
    count = -(-size // stride)
    missing = max((count - 1) * stride + covered - size, 0)
    return count, missing // 2, missing - missing // 2
