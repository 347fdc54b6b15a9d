# SPDX-License-Identifier: MIT
"""``PipelineRecorder``: the timetable of what the IPUs of a pipeline really did."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ipu.keras.callbacks.callback import Callback, Logs

if TYPE_CHECKING:
    from ipu._reports.timetable import Timetable

__all__ = ["PipelineRecorder"]


class PipelineRecorder(Callback):
    """Records when the IPUs of a pipelined model run which stage.

    Attributes:
        timetable: An ``ipu.Timetable`` with the times that were measured; None before.
            The last run of the pipeline in each execution is recorded, and the fastest
            of them kept: the one that the computer's other work disturbed least.
        streams: A dict for each stream of the program: ``ipu`` (-1: what surrounds the
            pipeline), ``slab_bytes``, ``peak_live_bytes``, ``ring_bytes`` (what is kept
            of one pass for a later one), ``message_bytes``, ``remote_bytes``.

    Raises:
        ValueError: At the start of a run, where the model is not pipelined.

    Example:
        >>> model = keras.SequentialPipelineModel(
        ...     [[keras.layers.Dense(4)], [keras.layers.Dense(2)]], 4,
        ...     device_mapping=[0, 0])
        >>> model.compile("sgd", "mse")
        >>> recorder = keras.callbacks.PipelineRecorder()
        >>> x, y = np.zeros((8, 3)), np.zeros((8, 2))
        >>> history = model.fit(x, y, 2, callbacks=[recorder], verbose=0)
        >>> len(recorder.timetable.recorded)  # 2 stages, forward and backward
        16
    """

    def __init__(self) -> None:
        super().__init__()
        self.timetable: Timetable | None = None
        self.streams: list[dict[str, int]] = []
        self._in_fit = False

    def _begin(self) -> None:
        self.timetable = None
        self._least = math.inf  # nanoseconds of the run that is kept
        if not self.model._is_pipelined():
            raise ValueError(
                f"PipelineRecorder needs a model in stages, but model "
                f"{self.model.name!r} has none. Take the callback away, or call "
                "set_pipeline_stage_assignment()."
            )

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Forget what was recorded."""
        self._begin()
        self._in_fit = True

    def _abandon(self) -> None:
        """Note that a run is over, also after an error."""
        self._in_fit = False

    def on_test_begin(self, logs: Logs | None = None) -> None:
        """Do the same for ``evaluate``; validation in ``fit`` is not recorded."""
        if not self._in_fit:
            self._begin()

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        """Do the same for ``predict``."""
        self._begin()

    def _on_recorded(self, training: bool, count: int, actions: list[Any]) -> None:
        """Take what an execution recorded, of pipelines of so many batches."""
        if not actions or (self._in_fit and not training):
            return
        taken = max(row[5] for row in actions) - min(row[4] for row in actions)
        if taken < self._least:
            self._least = taken
            self.timetable = self.model._timetable(training, count, actions)
