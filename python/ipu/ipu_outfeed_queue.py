# SPDX-License-Identifier: MIT
"""Outfeeds: results that a device program hands to the host while it runs."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from enum import Enum
from typing import Any, overload

import numpy as np

from ipu import _core
from ipu._config.flags import is_synthetic
from ipu._core import Tensor
from ipu._device import devices
from ipu._device.placement import current_ordinal
from ipu._text import feed_arguments
from ipu._text.arguments import as_int
from ipu._text.errors import FailedPreconditionError, InvalidArgumentError
from ipu._text.exports import export
from ipu.tf import nest
from ipu.tf._functions.tracing import current_build
from ipu.tf._graph import mode as _graph_mode
from ipu.tf._graph.reached import operation
from ipu.tf._tensor.operation import Operation
from ipu.tf.tensor_spec import TensorSpec

_DEFAULT_DEPTH = 3
# Slots on the device beyond the user's depth: the thread that empties them is woken for
# many small results at a time.
_RING_SLOTS = 4096
_RING_BYTES = 1 << 18
_POLL_S = 0.1  # how often a waiting thread looks for Ctrl-C
_ORDER = ("outfeed_mode", "device_ordinal", "buffer_depth", "optimise_latency")
_FIRST_ORDER = (
    "feed_name",
    "outfeed_mode",
    "outfeed_all",
    "device_ordinal",
    "replication_factor",
    "io_batch_size",
)


class IPUOutfeedMode(Enum):
    """The results that ``dequeue`` returns: all since the last one, or the newest.

    Example:
        >>> from ipu.ipu_outfeed_queue import IPUOutfeedQueue
        >>> queue = IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST)
    """

    ALL = "all"
    LAST = "get_last"


class IPUOutfeedQueue:
    """A queue from the device to the host.

    Results can be taken while the program that makes them is still running, from
    another thread. A program never waits for a reader.

    Args:
        outfeed_mode: An ``IPUOutfeedMode``; None is ALL.
        device_ordinal: Which device; None is the current strategy's, else number 0.
        buffer_depth: Results on the device before they are moved to the host, at least
            1. It never changes what is dequeued.
        optimise_latency: A hint to the hardware: accepted and not used.
        feed_name: The first release's name of the queue, not used.
        outfeed_all: The first release's: True is ALL, False is LAST.
        replication_factor: The first release's, at least 1; not used.
        io_batch_size: The first release's; not used.

    Raises:
        ValueError: An argument is of the wrong kind or out of range.
        TypeError: An unknown argument.

    Source: ``ipu.ipu_outfeed_queue.IPUOutfeedQueue``.

    Example:
        >>> from ipu import loops, tf
        >>> from ipu.ipu_strategy import IPUStrategy
        >>> queue = IPUOutfeedQueue()
        >>> @tf.function
        ... def count():
        ...     def body(i):
        ...         queue.enqueue(i)
        ...         return i + 1
        ...     return loops.repeat(3, body, [0])
        >>> _ = IPUStrategy().run(count)
        >>> queue.dequeue().numpy().tolist()
        [0, 1, 2]
    """

    @overload
    def __init__(
        self,
        outfeed_mode: IPUOutfeedMode | None = None,
        device_ordinal: int | None = None,
        buffer_depth: int = 3,
        optimise_latency: bool = False,
        **kwargs: Any,
    ) -> None: ...

    @overload
    def __init__(
        self,
        feed_name: str,
        outfeed_mode: IPUOutfeedMode | None = None,
        outfeed_all: bool | None = None,
        device_ordinal: int | None = 0,
        replication_factor: int = 1,
        io_batch_size: int = 1,
    ) -> None: ...

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = feed_arguments.named(
            type(self).__name__, args, kwargs, _ORDER, _FIRST_ORDER
        )
        self._mode = _checked_mode(given)
        self._depth = _at_least_one("buffer_depth", given, _DEFAULT_DEPTH)
        _at_least_one("replication_factor", given, 1)
        ordinal = feed_arguments.checked_ordinal(given.get("device_ordinal"))
        # a number: programs make queues first and configure their devices then
        self._ordinal = current_ordinal() if ordinal is None else ordinal
        self._device: devices.Device | None = None
        self._owner = threading.get_ident()
        self._queue: _core.Outfeed | None = None
        self._structure: Any = None
        self._types: list[tuple[str, tuple[int, ...]]] = []
        # where the queue stood when it was deleted; -1 while it is not
        self._deleted_at = -1
        # the graph of TensorFlow 1 in which a program enqueues to it
        self._graph: Any = None
        # results of zeros where nothing is run: how many, and of how many replicas
        self._zeros = (0, 1)

    @property
    def enqueued(self) -> bool:
        """Whether the program being traced enqueues to it; outside, whether any has."""
        trace = _core.open_trace()
        graph = _graph_mode.building()
        if graph is not None:
            return self._graph is graph
        if trace is None or self._queue is None:
            return self._is_alive()
        return trace.uses("outfeed_enqueue", self._queue.id)

    def _is_alive(self) -> bool:
        """Return whether there is something to dequeue from: not deleted, or used
        again."""
        return self._queue is not None and self._queue.ends != self._deleted_at

    def enqueue(self, tensors: Any) -> Operation | None:
        """Hand ``tensors`` to the host, in the program being traced.

        Args:
            tensors: A tensor or number, or a nest of them (the keys of a dict may be of
                any kind that can be sorted). The first call fixes structure, shapes and
                dtypes.

        Returns:
            An operation. A function that is compiled in a graph of TensorFlow 1, or a
            loop in it, has to return it: else nothing is enqueued.

        Raises:
            ValueError: Enqueued twice in one program, or what is enqueued has changed.
            InvalidArgumentError: A tensor with a dimension of size 0.
            RuntimeError: No function is being compiled.
        """
        trace = _core.open_trace()
        if trace is None:
            raise RuntimeError(
                "An outfeed can only be enqueued inside a function that is compiled "
                "for the device: call it from a tf.function."
            )
        is_scratch = current_build().is_scratch
        if is_scratch:
            used = current_build().notes.setdefault("outfeeds", set())
            is_used = id(self) in used
            used.add(id(self))
        else:
            queue = self._queue
            is_used = queue is not None and trace.uses("outfeed_enqueue", queue.id)
        if is_used:
            raise ValueError(
                "An outfeed can only be enqueued once. Enqueue a tuple or a dict of "
                "all results at one place of the program, or make another queue."
            )
        leaves = [Tensor(leaf) for leaf in nest.flatten(tensors)]
        if not leaves:
            raise ValueError("There is nothing to enqueue: the nest has no tensors.")
        types: list[tuple[str, tuple[int, ...]]] = [
            (leaf.dtype.name, leaf.shape) for leaf in leaves
        ]
        structure = nest.map_structure(lambda _: 0, tensors)
        if is_scratch:
            # nothing runs: what will be enqueued is noted for `dequeue` of a graph
            self._structure = structure
            self._types = types
            self._graph = _graph_mode.current()
            if current_build().is_account:
                resource = ("outfeed", -len(used), types, None)
                trace.node("outfeed_enqueue", tuple(leaves), None, (resource,))
            return operation("PopDatastreamOutfeedEnqueue", trace.node_count)
        device = devices.get_device(self._ordinal)
        if self._queue is not None and device is not self._device:
            self._queue.move(device.core)  # with the results that nobody has taken
            self._device = device
        if self._queue is None or (not self._is_alive() and types != self._types):
            self._queue = self._make(types, device)
            self._device = device
            self._deleted_at = -1
        elif types != self._types or structure != self._structure:
            raise ValueError(
                "All elements of an outfeed must agree in structure, shape and dtype: "
                f"expected {self._types}, but got {types}. Make another queue, "
                "or read `deleter` first."
            )
        self._structure = structure
        self._types = types
        resource = ("outfeed", self._queue.id, types, None)
        begin = trace.node_count
        trace.node("outfeed_enqueue", leaves, None, (resource,))
        current_build().pretends.append(self._pretend)
        return operation("PopDatastreamOutfeedEnqueue", begin)

    def _make(
        self, types: list[tuple[str, tuple[int, ...]]], device: devices.Device
    ) -> _core.Outfeed:
        for dtype, shape in types:
            if 0 in shape:
                raise InvalidArgumentError(
                    "Detected an input tensor to an outfeed queue with a dimension of "
                    f"size 0: {dtype} of shape {shape}."
                )
        # no dtype of the device is wider than four bytes; a part for each replica
        element = device.num_ipus * sum(4 * math.prod(shape) for _, shape in types)
        slots = max(self._depth, min(_RING_SLOTS, _RING_BYTES // max(element, 1)))
        last = self._mode is IPUOutfeedMode.LAST
        return _core.Outfeed(device.core, types, last, slots)

    def dequeue(self, wait_for_completion: bool = False) -> Any:
        """Take what has arrived.

        A run returns when its results are here. While one is on its way, another
        thread gets those that have been made so far.

        Args:
            wait_for_completion: Wait for the end of the programs that are running on
                the device now.

        Returns:
            The structure that was enqueued: in ALL mode each leaf is [n, ...] for the n
            results since the last dequeue, in LAST mode the newest result, which is
            removed; of a program of R > 1 replicas a result is [R, ...]. ``[]`` in a
            thread that did not make the queue, as long as no program enqueues to it.

        Raises:
            ValueError: Nothing enqueues to it.
            FailedPreconditionError: LAST mode, and nothing has arrived.
        """
        graph = _graph_mode.building()
        if graph is not None:
            return self._dequeue_operation(graph, wait_for_completion)
        if wait_for_completion and self._device is not None:
            self._device.wait_for_runs()
        if self._alive() is None:
            return []
        return nest.pack_sequence_as(self._structure, self._take())

    def _take(self) -> list[Tensor]:
        """Take the leaves of what has arrived, where a program has enqueued."""
        assert self._queue is not None
        is_last = self._mode is IPUOutfeedMode.LAST
        if self._device is not None and self._device.only_compiles:
            return self._take_zeros(is_last)
        if is_synthetic("outfeed"):
            self._drop_results()
            rows = () if is_last else (0,)
            return [Tensor(np.zeros((*rows, *s), kind)) for kind, s in self._types]
        taken = self._queue.take(-1, is_last)
        if taken is None:
            raise _nothing_enqueued()
        return taken

    def _pretend(self, replicas: int) -> None:
        """Give one result of zeros, for a run that does not take place."""
        self._zeros = (self._zeros[0] + 1, replicas)

    def _take_zeros(self, is_last: bool) -> list[Tensor]:
        count, replicas = self._zeros
        if is_last and not count:
            raise _nothing_enqueued()
        self._zeros = (0, replicas)
        rows = [] if is_last else [count]
        rows += [] if replicas == 1 else [replicas]
        return [Tensor(np.zeros((*rows, *s), kind)) for kind, s in self._types]

    def _dequeue_operation(self, graph: Any, wait_for_completion: bool) -> Any:
        """Return what dequeues when a session runs it."""
        if self._graph is not graph:
            raise ValueError(
                "Trying to dequeue an outfeed which has not been enqueued. Build the "
                "program that enqueues to it first, in the same graph."
            )
        is_last = self._mode is IPUOutfeedMode.LAST
        specs = [
            TensorSpec(shape if is_last else (None, *shape), dtype)
            for dtype, shape in self._types
        ]
        return graph.python(
            "PopDatastreamOutfeedDequeue",
            lambda: self._dequeue_in_session(wait_for_completion),
            nest.pack_sequence_as(self._structure, specs),
        )

    def _dequeue_in_session(self, wait_for_completion: bool) -> Any:
        if self._queue is not None:
            return self.dequeue(wait_for_completion)
        if self._mode is IPUOutfeedMode.LAST:
            raise _nothing_enqueued()
        empty = [Tensor(np.zeros((0, *shape), dtype)) for dtype, shape in self._types]
        return nest.pack_sequence_as(self._structure, empty)

    def _alive(self) -> _core.Outfeed | None:
        """Return the core's queue, or None in a thread that may come too early."""
        queue = self._queue
        if queue is not None and self._is_alive():
            return queue
        if threading.get_ident() != self._owner:
            return None
        raise ValueError(
            "Trying to dequeue an outfeed which has not been enqueued. Run a program "
            "that calls `enqueue` on it first."
        )

    def _elements(self) -> Iterator[Any]:
        """Return what has arrived, one nest for each result."""
        queue = self._alive()
        if is_synthetic("outfeed"):
            self._drop_results()
            queue = None
        taken = [] if queue is None else queue.take_each()
        structure = self._structure
        if self._device is not None and self._device.only_compiles:
            leaves = [leaf.numpy() for leaf in self._take_zeros(False)]
            taken = [tuple(map(Tensor, each)) for each in zip(*leaves, strict=True)]
        if not nest.is_nested(structure):
            return (element[0] for element in taken)
        return (nest.pack_sequence_as(structure, element) for element in taken)

    def __iter__(self) -> IPUOutfeedQueueIterator:
        return IPUOutfeedQueueIterator(self)

    @property
    def deleter(self) -> Any:
        """Reading it drops what has arrived; a program can use the queue again.

        In a graph of TensorFlow 1 it is an operation that does so when a session runs
        it.

        Raises:
            FailedPreconditionError: A running program uses it.
        """
        graph = _graph_mode.building()
        if graph is None:
            return self._delete()
        return graph.python("IPUDeleteOutfeed", self._delete)

    def _delete(self) -> None:
        if self._queue is not None and self._is_alive():
            self._queue.delete()
            self._deleted_at = self._queue.ends

    def _drop_results(self) -> None:
        """Drop what has arrived, where something enqueues to it."""
        if self._queue is not None:
            self._queue.take(-1, self._mode is IPUOutfeedMode.LAST)

    def _wait(self, at_least: int, timeout_s: float) -> int:
        """Wait for so many results, or till the time is over; how many there are."""
        return 0 if self._queue is None else self._queue.wait(at_least, timeout_s)


class ScopedIPUOutfeedQueue(IPUOutfeedQueue):
    """An outfeed that is deleted together with its object; for use in eager code.

    Args:
        outfeed_mode: An ``IPUOutfeedMode``; None is ALL.
        device_ordinal: Which device; None is the current strategy's, else number 0.

    Raises:
        RuntimeError: It is made inside a function that is being traced.

    Source: ``ipu.ipu_outfeed_queue.ScopedIPUOutfeedQueue``.

    Example:
        >>> from ipu import loops, tf
        >>> queue = ScopedIPUOutfeedQueue()
        >>> @tf.function
        ... def program():
        ...     loops.repeat(3, lambda: queue.enqueue(tf.constant(2.0)), [])
        ...
        >>> program()
        >>> queue.dequeue().numpy().tolist()
        [2.0, 2.0, 2.0]
    """

    def __init__(
        self,
        outfeed_mode: IPUOutfeedMode | None = None,
        device_ordinal: int | None = None,
    ) -> None:
        if _core.open_trace() is not None:
            raise RuntimeError(
                "ScopedIPUOutfeedQueue can only be used in eager mode. Make it outside "
                "of the function that enqueues to it."
            )
        # the core's queue leaves the device with the last reference to it
        super().__init__(outfeed_mode, device_ordinal)


class IPUOutfeedQueueIterator:
    """The results of an outfeed one by one; ``iter(queue)`` makes it.

    It takes what has arrived when it is made. With ``wait`` it goes on: results are
    given as the device makes them, up to the end of the run that is on its way, or
    else of the next one. Use that from another thread than the one that runs.

    Args:
        outfeed_queue: A queue in ALL mode.
        wait: Whether it waits for results that are still to come.

    Raises:
        RuntimeError: The queue is in LAST mode, or a function is being traced.
        ValueError: Nothing enqueues to the queue.

    Source: ``ipu.ipu_outfeed_queue.IPUOutfeedQueueIterator``; ``wait`` is an addition.

    Example:
        >>> from ipu import loops, tf
        >>> from ipu.ipu_outfeed_queue import IPUOutfeedQueue
        >>> queue = IPUOutfeedQueue()
        >>> @tf.function
        ... def program():
        ...     loops.repeat(3, lambda: queue.enqueue(tf.constant(2.0)), [])
        ...
        >>> program()
        >>> [float(x) for x in queue]
        [2.0, 2.0, 2.0]
    """

    def __init__(self, outfeed_queue: IPUOutfeedQueue, wait: bool = False) -> None:
        if (
            outfeed_queue._mode is not IPUOutfeedMode.ALL
            or _core.open_trace() is not None
        ):
            raise RuntimeError(
                "IPUOutfeedQueue can only be iterated in eager mode, and if its "
                "outfeed_mode is IPUOutfeedMode.ALL. Call dequeue() instead."
            )
        self._queue = outfeed_queue
        self._ends = outfeed_queue._queue.ends if wait and outfeed_queue._queue else 0
        self._elements = iter(()) if wait else outfeed_queue._elements()
        self._waits = wait

    def __iter__(self) -> IPUOutfeedQueueIterator:
        return self

    def __next__(self) -> Any:
        while True:
            for element in self._elements:
                return element
            if not self._waits:
                raise StopIteration
            self._wait()

    def _wait(self) -> None:
        """Wait for results, or for the end of the run, with which waiting ends."""
        queue = self._queue._queue
        if queue is None:
            raise ValueError(
                "Trying to wait for an outfeed which has not been enqueued. Run the "
                "program once before, or trace it."
            )
        while not queue.wait(1, _POLL_S, self._ends):
            if queue.ends != self._ends:
                self._waits = False
                break
        self._elements = self._queue._elements()


def _nothing_enqueued() -> FailedPreconditionError:
    return FailedPreconditionError(
        "Trying to get the last value from an outfeed queue that has none: nothing was "
        "enqueued since it was dequeued."
    )


def _checked_mode(given: dict[str, Any]) -> IPUOutfeedMode:
    mode = given.get("outfeed_mode")
    every = given.get("outfeed_all")
    if every is not None and not isinstance(every, bool):
        raise ValueError(
            f"Expected `outfeed_all` to be a bool. Received: outfeed_all={every!r}."
        )
    if mode is None:
        return IPUOutfeedMode.LAST if every is False else IPUOutfeedMode.ALL
    if not isinstance(mode, IPUOutfeedMode):
        raise ValueError(
            f"Expected `outfeed_mode` to be an IPUOutfeedMode. Received: {mode!r}."
        )
    return mode


def _at_least_one(name: str, given: dict[str, Any], default: int) -> int:
    value = as_int(given.get(name, default))
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected `{name}` to be at least 1. Received: {value!r}.")
    return value


export(__name__)
