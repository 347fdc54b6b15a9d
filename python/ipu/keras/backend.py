# SPDX-License-Identifier: MIT
"""``ipu.keras.backend``: the few functions of it that programs call."""

from __future__ import annotations

from typing import Any

from ipu.keras import _names

__all__ = ["clear_session", "epsilon", "floatx", "get_value", "set_value"]


def clear_session() -> None:
    """Start the automatic names of layers again."""
    _names.reset_uids()


def epsilon() -> float:
    """Give the small number of Keras, 1e-7."""
    return 1e-7


def floatx() -> str:
    """Give the default dtype of layers, ``"float32"``."""
    return "float32"


def get_value(x: Any) -> Any:
    """Give a variable or tensor as a NumPy array or number."""
    return x.numpy() if hasattr(x, "numpy") else x


def set_value(x: Any, value: Any) -> None:
    """Assign a value to a variable."""
    x.assign(value)
