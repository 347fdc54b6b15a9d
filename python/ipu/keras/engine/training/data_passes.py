# SPDX-License-Identifier: MIT
"""Where in the passes over its training data a run begins, and where it ends."""

from __future__ import annotations

from typing import Any

from ipu.keras._random_state import Order
from ipu.keras.engine.training.batches import Batches


class Passes:
    """The passes of a run over its data.

    An epoch is a whole pass, or the epochs go on in a stream of passes.

    Args:
        order: The order of the model's training data.
        batches: The data.
        of_epoch: Batches of an epoch; None: all that there are.
        resumed: Epochs that were run before the run was stopped.

    Attributes:
        first: The number of the first pass.
        behind: Batches of the stream that were used before the run was stopped.
    """

    def __init__(
        self, order: Order, batches: Batches, of_epoch: int | None, resumed: int
    ) -> None:
        self._order = order
        self._has_whole = of_epoch in (None, batches.cardinality)
        self._of_pass = batches.cardinality if batches.is_endless else 0
        self.first = order.passes
        self.behind = 0 if self._has_whole else resumed * (of_epoch or 0)
        self._taken = self.behind

    def read(self, dataset: Any, count: int) -> Any:
        """Give the data from where the run begins.

        Args:
            dataset: The data set of one pass.
            count: How many passes; -1: for ever.
        """
        dataset = dataset._repeat_from(count, self.first)
        return dataset.skip(self.behind) if self.behind else dataset

    def took(self, batches: int) -> None:
        """Count batches that were trained on."""
        self._taken += batches

    def end_epoch(self) -> None:
        """Count the pass of an epoch that has ended."""
        if self._has_whole:
            self._order.passes += 1

    def end(self) -> None:
        """Count the passes of a stream: the run has ended, the next one begins a new
        pass."""
        if not self._has_whole and self._taken:
            # a data set that repeats by itself is one pass
            passes = -(-self._taken // self._of_pass) if self._of_pass > 0 else 1
            self._order.passes = self.first + passes
