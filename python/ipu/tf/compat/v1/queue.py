# SPDX-License-Identifier: MIT
"""``tf.compat.v1.queue``: the queues by another place.

Example:
    >>> v1.queue.FIFOQueue is v1.FIFOQueue
    True
"""

from __future__ import annotations

from ipu._text.exports import export, offered
from ipu.tf.compat.v1._queues import (
    FIFOQueue as FIFOQueue,
    QueueBase as QueueBase,
    RandomShuffleQueue as RandomShuffleQueue,
)

export(__name__, offered(__name__))
