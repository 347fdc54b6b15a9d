# SPDX-License-Identifier: MIT
"""``ipu.ops.pipelining_ops``, also ``ipu.pipelining_ops``: pipelines over several IPUs.

Pipelines come with a later version. The names are here because programs import them at
the top and name schedules in options; calling :func:`pipeline` says that it is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn

from ipu._missing import refuse

__all__ = [
    "OptimizerFunctionOutput",
    "PipelineSchedule",
    "PipelineStageOptions",
    "RecomputationMode",
    "pipeline",
    "recomputation_checkpoint",
]


class PipelineSchedule(Enum):
    """In which order the stages of a pipeline run.

    ``Grouped``: all forward stages together, then all backward ones. ``Interleaved``:
    forward and backward in turn. ``Sequential``: one stage at a time.
    """

    Grouped = 0
    Interleaved = 1
    Sequential = 2


class RecomputationMode(Enum):
    """How a pipeline recomputes activations instead of keeping them."""

    Auto = 0
    RecomputeThenBackpropagate = 1
    RecomputeAndBackpropagateInterleaved = 2


class OptimizerFunctionOutput:
    """What the optimizer function of a pipeline returns.

    Raises:
        NotThereYetError: Always: pipelines come with a later version.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        refuse("ipu.pipelining_ops.OptimizerFunctionOutput")


class PipelineStageOptions:
    """Options of one stage of a pipeline.

    Raises:
        NotThereYetError: Always: pipelines come with a later version.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        refuse("ipu.pipelining_ops.PipelineStageOptions")


def pipeline(
    computational_stages: list[Callable[..., Any]], *args: Any, **kwargs: Any
) -> NoReturn:
    """Run stages on several IPUs at the same time.

    Raises:
        NotThereYetError: Always: pipelines come with a later version.
    """
    del computational_stages, args, kwargs
    refuse("ipu.pipelining_ops.pipeline")


def recomputation_checkpoint(tensors: Any, name: str | None = None) -> NoReturn:
    """Mark values that a recomputing pipeline keeps.

    Raises:
        NotThereYetError: Always: pipelines come with a later version.
    """
    del tensors, name
    refuse("ipu.pipelining_ops.recomputation_checkpoint")
