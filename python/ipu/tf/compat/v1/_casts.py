# SPDX-License-Identifier: MIT
"""Casts by name, and switches of behaviours that are always as in TensorFlow 2."""

from __future__ import annotations

from typing import Any

from ipu.tf._tensor import convert
from ipu.tf.dtypes import bool as bool_type, float32, int32


def enable_v2_dtype_behavior() -> None:
    """Layers cast their inputs to their own dtype: always so.

    Example:
        >>> enable_v2_dtype_behavior()
    """


def enable_control_flow_v2() -> None:
    """Loops and conditionals are structured: always so.

    Example:
        >>> enable_control_flow_v2()
    """


def enable_v2_tensorshape() -> None:
    """Sizes are plain ints: always so.

    Example:
        >>> enable_v2_tensorshape()
    """


def control_flow_v2_enabled() -> bool:
    """Whether loops and conditionals are structured: True.

    Example:
        >>> control_flow_v2_enabled()
        True
    """
    return True


def to_float(x: Any, name: str = "ToFloat") -> Any:
    """``x`` as float32.

    Args:
        x: Anything that converts to a tensor.

    Example:
        >>> float(to_float(2))
        2.0
    """
    return convert.cast(x, float32)


def to_int32(x: Any, name: str = "ToInt32") -> Any:
    """``x`` as int32.

    Args:
        x: Anything that converts to a tensor.

    Example:
        >>> int(to_int32(2.5))
        2
    """
    return convert.cast(x, int32)


def to_bool(x: Any, name: str = "ToBool") -> Any:
    """``x`` as bool.

    Args:
        x: Anything that converts to a tensor.

    Example:
        >>> bool(to_bool(2))
        True
    """
    return convert.cast(x, bool_type)
