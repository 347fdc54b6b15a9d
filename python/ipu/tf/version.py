# SPDX-License-Identifier: MIT
"""``tf.version``: the release of TensorFlow whose names and semantics these are."""

from __future__ import annotations

from ipu._text.exports import export, offered

VERSION = "2.6.3"
GIT_VERSION = "v2.6.3-ipu"
COMPILER_VERSION = "none"
GRAPH_DEF_VERSION = 808
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0


export(__name__, offered(__name__))
