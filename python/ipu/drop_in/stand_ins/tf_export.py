# SPDX-License-Identifier: MIT
"""Decorators that mark names for TensorFlow's documentation: they change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = [
    "deprecated",
    "deprecated_arg_values",
    "deprecated_args",
    "keras_export",
    "tf_export",
]

T = TypeVar("T")


def tf_export(*names: str, **options: Any) -> Callable[[T], T]:
    """Return a decorator without effect."""
    del names, options
    return lambda decorated: decorated


keras_export = tf_export


def deprecated(*words: Any, **options: Any) -> Callable[[T], T]:
    """Return a decorator without effect."""
    del words, options
    return lambda decorated: decorated


deprecated_args = deprecated_arg_values = deprecated
