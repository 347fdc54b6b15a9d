# SPDX-License-Identifier: MIT
"""The schedules of pipelines."""

from __future__ import annotations

from enum import Enum

__all__ = ["PipelineSchedule"]


class PipelineSchedule(Enum):
    """In which order the IPUs of a pipeline run its stages.

    ``Grouped``: all forward stages together, then all backward ones. ``Interleaved``:
    forward and backward in turn. ``Sequential``: one stage at a time. The others are of
    this package alone: ``GPipe``, ``OneForwardOneBackward``,
    ``InterleavedOneForwardOneBackward`` for several stages an IPU, and ``ZeroBubble``,
    which splits the backward pass of a stage in two.
    """

    Grouped = 0
    Interleaved = 1
    Sequential = 2
    GPipe = 3
    OneForwardOneBackward = 4
    InterleavedOneForwardOneBackward = 5
    ZeroBubble = 6

    @property
    def core_name(self) -> str:
        """What the core calls it."""
        return {
            PipelineSchedule.OneForwardOneBackward: "1F1B",
            PipelineSchedule.InterleavedOneForwardOneBackward: "Interleaved1F1B",
        }.get(self, self.name)
