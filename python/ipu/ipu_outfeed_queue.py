# SPDX-License-Identifier: MIT
"""Outfeeds: results that a device program hands to the host while it runs."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ipu import _core, _devices
from ipu._errors import FailedPreconditionError
from ipu.tf import nest
from ipu.tf.ops import Tensor
from ipu.tf.variable import current_device

__all__ = ["IPUOutfeedMode", "IPUOutfeedQueue"]


class IPUOutfeedMode(Enum):
    """What ``dequeue`` gives: all results since the last one, or the newest."""

    ALL = "all"
    LAST = "get_last"


class IPUOutfeedQueue:
    """A queue from the device to the host.

    Args:
        outfeed_mode: An ``IPUOutfeedMode``; None is ALL.
        device_ordinal: Which device; None is the current strategy's, else number 0.
        buffer_depth: Slots on the device, at least 1. It never changes the results.
        **kwargs: Options of older releases (``feed_name``, ``io_batch_size``, ...) and
            ``optimise_latency``: accepted and not used.

    Raises:
        ValueError: An argument is of the wrong kind or out of range.
    """

    def __init__(
        self,
        outfeed_mode: IPUOutfeedMode | None = None,
        device_ordinal: int | None = None,
        buffer_depth: int = 3,
        **kwargs: Any,
    ) -> None:
        mode = IPUOutfeedMode.ALL if outfeed_mode is None else outfeed_mode
        if not isinstance(mode, IPUOutfeedMode):
            raise ValueError(
                f"Expected `outfeed_mode` to be an IPUOutfeedMode. Received: {mode!r}."
            )
        if not isinstance(buffer_depth, int) or buffer_depth <= 0:
            raise ValueError(
                f"Expected `buffer_depth` to be at least 1. Received: {buffer_depth!r}."
            )
        if device_ordinal is not None and (
            not isinstance(device_ordinal, int) or device_ordinal < 0
        ):
            raise ValueError(
                f"Device ordinal must be an integer >= 0. Received: {device_ordinal!r}."
            )
        self._mode = mode
        self._depth = buffer_depth
        self._device = (
            current_device()
            if device_ordinal is None
            else _devices.get_device(device_ordinal)
        )
        self._queue: _core.Outfeed | None = None
        self._structure: Any = None
        self._types: list[tuple[str, tuple[int, ...]]] = []
        self._trace: Any = None

    @property
    def enqueued(self) -> bool:
        """Whether a traced program enqueues to it."""
        return self._queue is not None

    def enqueue(self, tensors: Any) -> None:
        """Hand ``tensors`` to the host, in the program being traced.

        Args:
            tensors: A tensor or number, or a nest of them. The first call fixes
                structure, shapes and dtypes.

        Raises:
            ValueError: Enqueued twice in one program, or what is enqueued has changed.
            RuntimeError: No function is being compiled.
        """
        trace = _core.open_trace()
        if trace is None:
            raise RuntimeError(
                "An outfeed can only be enqueued inside a function that is compiled "
                "for the device."
            )
        if self._trace is trace:
            raise ValueError("An outfeed can only be enqueued once.")
        leaves = [Tensor(leaf) for leaf in nest.flatten(tensors)]
        types = [(leaf.dtype.name, leaf.shape) for leaf in leaves]
        if self._queue is None:
            last = self._mode is IPUOutfeedMode.LAST
            self._queue = _core.Outfeed(self._device.core, types, last, self._depth)
            self._structure = nest.map_structure(lambda _: 0, tensors)
            self._types = types
        elif types != self._types:
            raise ValueError(
                "What is enqueued to an outfeed must keep its structure, shapes and "
                f"dtypes: expected {self._types}, but got {types}."
            )
        self._trace = trace
        resource = ("outfeed", self._queue.id, self._types, None)
        trace.node("outfeed_enqueue", leaves, None, (resource,))

    def dequeue(self, wait_for_completion: bool = False) -> Any:
        """Take what has arrived.

        Args:
            wait_for_completion: Accepted and not used: runs return when their results
                are all here.

        Returns:
            The structure that was enqueued: in ALL mode each leaf is [n, ...] for the n
            results since the last dequeue, in LAST mode the newest result.

        Raises:
            ValueError: Nothing enqueues to it.
            FailedPreconditionError: LAST mode, and nothing has arrived.
        """
        if self._queue is None:
            raise ValueError(
                "Trying to dequeue an outfeed which has not been enqueued."
            )
        last = self._mode is IPUOutfeedMode.LAST
        if last and self._queue.wait(0, 0.0) == 0:
            raise FailedPreconditionError(
                "Trying to get the last value from an outfeed queue before any value "
                "has been enqueued."
            )
        return nest.pack_sequence_as(self._structure, self._queue.take(-1, last))

    @property
    def deleter(self) -> None:
        """Reading it frees the queue.

        Raises:
            FailedPreconditionError: A running program uses it.
        """
        if self._queue is not None:
            self._queue.remove()
            self._queue.close()
            self._queue = None
            self._trace = None

    def _wait(self, at_least: int, timeout_s: float) -> int:
        """Wait for so many results, or till the time is over; how many there are."""
        return 0 if self._queue is None else self._queue.wait(at_least, timeout_s)
