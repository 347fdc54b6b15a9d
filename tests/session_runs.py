# SPDX-License-Identifier: MIT
"""Running something of the default graph once."""

from __future__ import annotations

from typing import Any

from ipu.tf.compat import v1 as tf


def run(fetches: Any, feed: Any = None) -> Any:
    """What a new session gives, whose variables have their first values."""
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feed)
