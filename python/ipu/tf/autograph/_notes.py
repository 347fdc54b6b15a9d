# SPDX-License-Identifier: MIT
"""Explains, once for each line, what a trace does differently from Python."""

from __future__ import annotations

import sys

from ipu._text.user_warnings import warn_user

_told: set[tuple[str, str]] = set()


def user_line(depth: int = 1) -> str:
    """Return "file:line" of the caller ``depth`` frames up."""
    frame = sys._getframe(depth + 1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def explain_once(where: str, text: str) -> None:
    """Warn, if this was not said of this line before."""
    if (where, text) in _told:
        return
    _told.add((where, text))
    warn_user(text, RuntimeWarning)
