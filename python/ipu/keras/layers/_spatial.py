# SPDX-License-Identifier: MIT
"""Families of layers that differ in how many axes they go over, of steps or pixels."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any

from ipu.keras._backend_state import state
from ipu.keras.engine.base_layer import InputSpec, Layer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions

_FORMATS = {1: "NWC NCW", 2: "NHWC NCHW", 3: "NDHWC NCDHW"}


class SpatialLayer(Layer):
    """A layer over the axes between batch and channels.

    Args:
        data_format: ``"channels_last"`` or ``"channels_first"``; None for that of
            ``keras.backend``.

    Raises:
        ValueError: ``data_format`` is neither.
    """

    rank = 0  # how many such axes

    def __init__(
        self, data_format: str | None = None, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.data_format = format_argument(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    @property
    def _channels_first(self) -> bool:
        return self.data_format == "channels_first"

    @property
    def _format(self) -> str:
        return _FORMATS[self.rank].split()[self._channels_first]

    def _sizes(self, name: str, value: Any, least: int = 1) -> tuple[int, ...]:
        return sizes_argument(type(self).__name__, name, value, self.rank, least)


def format_argument(data_format: str | None) -> str:
    """Return where the channels are: what is given, or Keras's own default.

    Raises:
        ValueError: It is neither of the two names.
    """
    if data_format not in (None, "channels_last", "channels_first"):
        raise ValueError(
            "`data_format` must be 'channels_last' or 'channels_first'. "
            f"Received: data_format={data_format!r}."
        )
    return data_format or state.image_data_format


def sizes_argument(
    layer: str, name: str, value: Any, rank: int, least: int = 1
) -> tuple[int, ...]:
    """Return a whole number for each spatial axis, of one for all or of a sequence.

    Raises:
        ValueError: It is neither, or a number is less than ``least``.
    """
    items = (value,) * rank if isinstance(value, numbers.Integral) else value
    try:
        sizes = tuple(int(n) for n in items)
    except (TypeError, ValueError):
        sizes = ()
    if len(sizes) != rank:
        raise ValueError(
            f"The `{name}` argument of {layer} must be an integer or a tuple of {rank} "
            f"integers. Received: {name}={value!r}."
        )
    if min(sizes) < least:
        raise ValueError(
            f"The `{name}` argument of {layer} must have no entry below {least}. "
            f"Received: {name}={value!r}."
        )
    return sizes
