# SPDX-License-Identifier: MIT
"""``ipu.keras.PipelineStage``: which stage of a pipeline a layer or a call is on."""

from __future__ import annotations

from ipu._device import strategy_state
from ipu._device.thread_state import here
from ipu._text.arguments import as_int


def current_stage() -> int | None:
    """Return the stage of the open ``PipelineStage``, or None outside of one."""
    return here.stage


def count_entries() -> int:
    """Return how often this thread has opened a ``PipelineStage``."""
    return here.stage_entries


class PipelineStage:
    """Puts the layers that are made or called inside on one stage of a pipeline.

    Args:
        stage: The number of the stage, 0 for the first.

    Raises:
        ValueError: ``stage`` is negative or no integer.
        RuntimeError: On entry, inside another ``PipelineStage`` or outside of
            ``IPUStrategy.scope()``.

    Source: ``ipu.keras.PipelineStage`` of SDK 2.2 to 3.4.

    Example:
        >>> from ipu.ipu_strategy import IPUStrategy
        >>> with IPUStrategy().scope():
        ...     x = inputs = keras.Input((8,))
        ...     with keras.PipelineStage(0):
        ...         x = keras.layers.Dense(4)(x)
        ...     with keras.PipelineStage(1):
        ...         x = keras.layers.Dense(2)(x)
    """

    def __init__(self, stage: int) -> None:
        stage = as_int(stage)
        if isinstance(stage, bool) or not isinstance(stage, int) or stage < 0:
            raise ValueError(
                "`stage` of PipelineStage must be an integer of 0 or more. "
                f"Received: {stage!r}. Number the stages 0, 1, 2, ..."
            )
        self._stage = stage

    def __enter__(self) -> PipelineStage:
        if not strategy_state.has_strategy():
            raise RuntimeError(
                "PipelineStage may only be used from within an IPUStrategy context. "
                "Put `with strategy.scope():` around the model."
            )
        if here.stage is not None:
            raise RuntimeError(
                f"Pipeline stages must not be nested. Received: stage {self._stage} "
                f"inside stage {here.stage}. Close the outer one first."
            )
        here.stage = self._stage
        here.stage_entries += 1
        return self

    def __exit__(self, *error: object) -> None:
        here.stage = None
