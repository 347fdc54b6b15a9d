# SPDX-License-Identifier: MIT
"""``tf.compat.v1``: what TensorFlow-2 programs still take from it."""

from __future__ import annotations

from typing import Any

from ipu.tf import _convert
from ipu.tf.dtypes import bool as bool_type
from ipu.tf.dtypes import float32, int32

__all__ = [
    "assign",
    "assign_add",
    "assign_sub",
    "control_flow_v2_enabled",
    "disable_resource_variables",
    "enable_control_flow_v2",
    "enable_eager_execution",
    "enable_resource_variables",
    "enable_v2_behavior",
    "enable_v2_dtype_behavior",
    "enable_v2_tensorshape",
    "executing_eagerly_outside_functions",
    "resource_variables_enabled",
    "to_bool",
    "to_float",
    "to_int32",
]


def enable_v2_behavior() -> None:
    """Behave as TensorFlow 2: always so."""


def enable_v2_dtype_behavior() -> None:
    """Layers cast their inputs to their own dtype: always so."""


def enable_eager_execution(*args: Any, **kwargs: Any) -> None:
    """Run ops at once: always so."""
    del args, kwargs


def enable_control_flow_v2() -> None:
    """Loops and conditionals are structured: always so."""


def enable_v2_tensorshape() -> None:
    """Sizes are plain ints: always so."""


def enable_resource_variables() -> None:
    """Variables are resources: always so."""


def disable_resource_variables() -> None:
    """Not there: reference variables.

    Raises:
        NotThereYetError: Always.
    """
    from ipu._missing import refuse

    refuse("tensorflow.compat.v1.disable_resource_variables")


def resource_variables_enabled() -> bool:
    """Whether variables are resources: True."""
    return True


def control_flow_v2_enabled() -> bool:
    """Whether loops and conditionals are structured: True."""
    return True


def executing_eagerly_outside_functions() -> bool:
    """Whether code outside of functions runs at once: True."""
    return True


def to_float(x: Any, name: str = "ToFloat") -> Any:
    """``x`` as float32."""
    del name
    return _convert.cast(x, float32)


def to_int32(x: Any, name: str = "ToInt32") -> Any:
    """``x`` as int32."""
    del name
    return _convert.cast(x, int32)


def to_bool(x: Any, name: str = "ToBool") -> Any:
    """``x`` as bool."""
    del name
    return _convert.cast(x, bool_type)


def _assigning(method: str) -> Any:
    def function(
        ref: Any, value: Any, *unused: Any, name: str | None = None, **options: Any
    ) -> Any:
        del unused, name, options
        return getattr(ref, method)(value)

    function.__name__ = function.__qualname__ = method
    function.__doc__ = f"``ref.{method}(value)`` of a variable."
    return function


assign = _assigning("assign")
assign_add = _assigning("assign_add")
assign_sub = _assigning("assign_sub")
