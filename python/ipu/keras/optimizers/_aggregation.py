# SPDX-License-Identifier: MIT
"""Who sums the gradients of the replicas of a program."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ipu._device.thread_state import here


def aggregated(is_done: bool = True) -> AbstractContextManager[None]:
    """Say that gradients inside are reduced over the replicas already."""
    return here.setting(is_aggregated=is_done)


def is_aggregated() -> bool:
    """Return whether an optimizer has to take gradients as they are."""
    return here.is_aggregated
