# SPDX-License-Identifier: MIT
"""``tf.compat``: bytes and text."""

from __future__ import annotations

import os
from typing import Any

from ipu._text.exports import defined


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Return text as bytes; bytes as they are.

    Args:
        bytes_or_text: A str, bytes or bytearray.
        encoding: How text is encoded.

    Raises:
        TypeError: It is anything else.

    Example:
        >>> as_bytes("a")
        b'a'
    """
    if isinstance(bytes_or_text, (bytes, bytearray)):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}.")


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Return bytes as text; text as it is.

    Args:
        bytes_or_text: A str, bytes or bytearray.
        encoding: How bytes are decoded.

    Raises:
        TypeError: It is anything else.

    Example:
        >>> as_text(b"a")
        'a'
    """
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, (bytes, bytearray)):
        return bytes(bytes_or_text).decode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}.")


as_str = as_text


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Return bytes decoded, anything else by ``str``.

    Example:
        >>> as_str_any(3)
        '3'
    """
    return as_text(value, encoding) if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    """Return a path object as text; anything else as it is."""
    return os.fspath(path) if hasattr(path, "__fspath__") else path


def forward_compatible(year: int, month: int, day: int) -> bool:
    """Return whether consumers of that date's programs are expected: always."""
    del year, month, day
    return True


__all__ = defined(__name__)
