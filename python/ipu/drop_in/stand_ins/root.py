# SPDX-License-Identifier: MIT
"""Names of ``tensorflow`` itself that only old programs need."""

from __future__ import annotations

import logging

__all__ = ["executing_eagerly_outside_functions", "get_logger"]


def executing_eagerly_outside_functions() -> bool:
    """Whether code outside of functions runs at once: always.

    Example:
        >>> executing_eagerly_outside_functions()
        True
    """
    return True


def get_logger() -> logging.Logger:
    """The logger that programs for TensorFlow configure.

    Example:
        >>> get_logger().name
        'tensorflow'
    """
    return logging.getLogger("tensorflow")
