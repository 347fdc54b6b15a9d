# SPDX-License-Identifier: MIT
"""``tensorflow.python.util.tf_inspect``: Python's own ``inspect``."""

from __future__ import annotations

from inspect import (
    getfile,
    getfullargspec,
    getmodule,
    getsource,
    isclass,
    isfunction,
    ismethod,
    signature,
)

__all__ = [
    "getfile",
    "getfullargspec",
    "getmodule",
    "getsource",
    "isclass",
    "isfunction",
    "ismethod",
    "signature",
]
