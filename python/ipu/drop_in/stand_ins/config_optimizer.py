# SPDX-License-Identifier: MIT
"""``tf.config.optimizer``: switches of another compiler, accepted without effect."""

from __future__ import annotations

from typing import Any

__all__ = ["get_experimental_options", "set_experimental_options", "set_jit"]


def set_jit(enabled: Any) -> None:
    """Accepted: functions are always compiled."""
    del enabled


def set_experimental_options(options: Any) -> None:
    """Accepted without effect."""
    del options


def get_experimental_options() -> dict[str, Any]:
    """No options."""
    return {}
