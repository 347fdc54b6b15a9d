# SPDX-License-Identifier: MIT
"""Names of ``tensorflow`` and ``keras`` themselves that only old programs need."""

from __future__ import annotations

import logging

from ipu._text.exports import defined

# the last release of TensorFlow 1, which its programs are served as
FIRST_VERSION = "1.15.5"


def executing_eagerly_outside_functions() -> bool:
    """Return whether code outside of functions runs at once: always.

    Example:
        >>> executing_eagerly_outside_functions()
        True
    """
    return True


def get_logger() -> logging.Logger:
    """Return the logger that programs for TensorFlow configure.

    Example:
        >>> get_logger().name
        'tensorflow'
    """
    return logging.getLogger("tensorflow")


__all__ = defined(__name__, ["FIRST_VERSION"])
