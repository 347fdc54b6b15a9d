# SPDX-License-Identifier: MIT
"""``tf.version``: the release whose names and behaviour programs find here."""

from __future__ import annotations

__all__ = [
    "COMPILER_VERSION",
    "GIT_VERSION",
    "GRAPH_DEF_VERSION",
    "GRAPH_DEF_VERSION_MIN_CONSUMER",
    "GRAPH_DEF_VERSION_MIN_PRODUCER",
    "KERAS_VERSION",
    "VERSION",
]

VERSION = "2.6.3"
KERAS_VERSION = "2.6.0"
GIT_VERSION = "ipu"
COMPILER_VERSION = "ipu"
GRAPH_DEF_VERSION = 808
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0
