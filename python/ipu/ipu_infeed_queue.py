# SPDX-License-Identifier: MIT
"""Infeeds: data sets that a device program takes elements from while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, overload

from ipu import _core
from ipu._config.flags import is_synthetic
from ipu._device import devices
from ipu._device.locks import Lock
from ipu._device.placement import current_ordinal
from ipu._text import feed_arguments
from ipu._text.arguments import as_int
from ipu._text.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from ipu._text.exports import export
from ipu._text.refusals import refuse_call
from ipu.tf import nest
from ipu.tf._functions.tracing import current_build
from ipu.tf._graph import mode
from ipu.tf._tensor.composite_specs import CompositeSpec
from ipu.tf.data._live import start_feeder
from ipu.tf.dtypes import DEVICE_DTYPES

__all__ = ["IPUInfeedQueue", "IPUIterator", "IPUOwnedIterator"]

_DEFAULT_DEPTH = 3
_MAX_DEPTH = 255
_ORDER = ("device_ordinal", "prefetch_depth", "optimise_latency")
_FIRST_ORDER = (
    "feed_name",
    "device_ordinal",
    "replication_factor",
    "data_to_prefetch",
    "prefetch_depth",
)

_Type = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class _InfeedSpec:
    """An infeed as programs know it: what is left of a queue without its data set."""

    source: IPUInfeedQueue
    types: list[_Type]


class IPUInfeedQueue:
    """A queue from a data set to the device.

    Elements come in the order of the data set, one for each iteration of the loop that
    takes them, of a replicated program one for each replica in turn; the place is kept
    from one run to the next. The queue is started by reading `initializer`; reading
    `deleter` and then `initializer` starts another pass over the data.

    Args:
        dataset: The elements; every size must be known (``drop_remainder=True``). In a
            graph of TensorFlow 1 it may be made of placeholders, which are then fed
            where ``initializer`` is run.
        device_ordinal: Which device; None is the current strategy's, else number 0.
        prefetch_depth: How many elements are made that no program has asked for yet,
            from 1 to 255; None is 3.
        optimise_latency: A hint to the hardware: accepted and not used.
        feed_name: The first release's name of the queue, not used.
        replication_factor: The first release's; how a program is replicated follows
            from its device.
        data_to_prefetch: The first release's, at least 1; not used.

    Raises:
        ValueError: A size is not known, or an argument is out of range.
        TypeError: ``dataset`` is not a data set, or an argument is unknown.

    Source: ``ipu.ipu_infeed_queue.IPUInfeedQueue``.

    Example:
        >>> from ipu import tf, ipu_infeed_queue
        >>> ds = tf.data.Dataset.from_tensors(tf.ones((4,))).repeat()
        >>> ipu_infeed_queue.IPUInfeedQueue(ds).number_of_tuple_elements
        1
    """

    @overload
    def __init__(
        self,
        dataset: Any,
        device_ordinal: int | None = None,
        prefetch_depth: int | None = None,
        optimise_latency: bool = False,
        **kwargs: Any,
    ) -> None: ...

    @overload
    def __init__(
        self,
        dataset: Any,
        feed_name: str,
        device_ordinal: int | None = 0,
        replication_factor: int = 1,
        data_to_prefetch: int = 1,
        prefetch_depth: int | None = None,
    ) -> None: ...

    def __init__(self, dataset: Any, *args: Any, **kwargs: Any) -> None:
        given = feed_arguments.named(
            "IPUInfeedQueue", args, kwargs, _ORDER, _FIRST_ORDER
        )
        self._is_fed = _is_of_placeholders(dataset)
        is_dataset = hasattr(dataset, "element_spec") and hasattr(dataset, "_impl")
        if not is_dataset and not self._is_fed:
            raise TypeError(
                "An IPUInfeedQueue takes a tf.data.Dataset. "
                f"Received: dataset={dataset!r}."
            )
        ahead = as_int(given.get("data_to_prefetch", 1))
        if not isinstance(ahead, int) or ahead < 1:
            raise ValueError(f"data_to_prefetch must be at least 1. Received: {ahead}.")
        self._depth = _checked_depth(given.get("prefetch_depth"))
        ordinal = feed_arguments.checked_ordinal(given.get("device_ordinal"))
        self._source: IPUInfeedQueue | None = None
        self._dataset = dataset
        self._structure = dataset.element_spec
        specs = nest.flatten(self._structure)
        self._types = [_known_type(i, spec) for i, spec in enumerate(specs)]
        # a number: programs make queues first and configure their devices then
        self._ordinal = current_ordinal() if ordinal is None else ordinal
        self._device: devices.Device | None = None
        self._queue: _core.Infeed | None = None
        self._feeder: Any = None
        self._making = Lock()
        self._ever_dequeued = False
        self._is_initializer_taken = False

    @classmethod
    def _from_spec(cls, spec: _InfeedSpec, structure: Any) -> IPUInfeedQueue:
        """Return a queue that programs can take from, and that somebody else feeds."""
        queue = cls.__new__(cls)
        queue._dataset = None
        queue._structure = structure
        queue._types = spec.types
        queue._source = spec.source
        queue._queue = None
        queue._feeder = None
        queue._ever_dequeued = False
        return queue

    def _spec(self) -> _InfeedSpec:
        self._made()
        return _InfeedSpec(self._source or self, self._types)

    def _made(self) -> _core.Infeed:
        """Return the core's queue, made when first needed. Where the devices are
        configured anew, it goes on with the new one."""
        if self._source is not None:
            self._queue = self._source._made()
            return self._queue
        device = devices.get_device(self._ordinal)
        with self._making:
            if self._queue is None or device is not self._device:
                for index, (dtype, shape) in enumerate(self._types):
                    _check_on_device(index, dtype, shape)
                make = partial(_core.Infeed, device.core, self._types, self._depth)
                if self._feeder is None or self._queue is None:
                    queue = make()
                else:
                    queue = make(after=self._queue)
                    self._feeder.move(queue)
                self._queue, self._device = queue, device
            return self._queue

    def _end_feeder(self) -> None:
        if self._feeder is not None:
            self._feeder.stop()
            self._feeder = None

    def _refuse_spec(self, what: str) -> None:
        if self._dataset is None:
            raise RuntimeError(
                f"`{what}` cannot be used on an IPUInfeedQueue created from a spec: "
                "the queue that has the data set is started and deleted, not this one."
            )

    @property
    def initializer(self) -> Any:
        """Reading it starts the thread that fills the queue.

        In a graph of TensorFlow 1 it is an operation that does so when a session runs
        it.

        Raises:
            AlreadyExistsError: It has been started already.
            FailedPreconditionError: A dtype that no device has.
            InvalidArgumentError: A component with a dimension of size 0.
            RuntimeError: The queue has no data set of its own.
            ValueError: It is read a second time in graph mode.
        """
        self._refuse_spec("initializer")
        graph = mode.building()
        if graph is None:
            return self._start()
        if self._is_initializer_taken:
            raise ValueError(
                "The IPUInfeedQueue `initializer` function can only be accessed once. "
                "Keep the operation: init = queue.initializer; session.run(init)."
            )
        self._is_initializer_taken = True
        inputs = self._dataset.inputs if self._is_fed else ()
        name = "IPUCreateDatasetIterator"
        return graph.python(name, self._start, args=tuple(inputs))

    def _start(self, *fed: Any) -> None:
        if self._device is not None and self._device.is_retired:
            self._end_feeder()  # on the new devices it may be started again
        queue = self._made()
        if self._feeder is not None:
            raise AlreadyExistsError(
                f"Infeed with id='{queue.id}' already exists: it has been initialized. "
                "Read `deleter` first to start another pass over the data set."
            )
        if is_synthetic("infeed"):
            from ipu.tf.data._synthetic import synthetic_dataset

            impl = synthetic_dataset(self._types)
        else:
            dataset = self._dataset.fed(*fed) if self._is_fed else self._dataset
            impl = dataset._impl
        self._feeder = start_feeder(impl, queue)

    @property
    def deleter(self) -> Any:
        """Reading it stops the thread and drops what it has read ahead.

        In a graph of TensorFlow 1 it is an operation that does so when a session runs
        it. Programs that take from the queue can run again once it is initialized
        again.

        Raises:
            NotFoundError: It was never initialised, or is deleted already.
            FailedPreconditionError: A running program uses it.
            RuntimeError: The queue has no data set of its own.
        """
        self._refuse_spec("deleter")
        graph = mode.building()
        if graph is None:
            return self._delete()
        return graph.python("IPUDeleteDatasetIterator", self._delete)

    def _delete(self) -> None:
        if self._feeder is None:
            identity = "" if self._queue is None else self._queue.id
            raise NotFoundError(
                f"Infeed with id='{identity}' does not exist: it was not initialized, "
                "or it has been deleted."
            )
        if self._queue is not None:
            self._queue.delete()
        self._end_feeder()

    @property
    def dequeued(self) -> bool:
        """Whether the program being traced takes from it; outside, whether any does."""
        trace = _core.open_trace()
        if trace is None or self._queue is None:
            return self._ever_dequeued
        return trace.uses("infeed_dequeue", self._queue.id)

    @property
    def number_of_tuple_elements(self) -> int:
        """How many tensors an element has."""
        return len(self._types)

    def get_next(self) -> Any:
        """Raise: only a device program can take elements.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "An IPUInfeedQueue cannot be read on the host. Pass it to a loop of a "
            "device program, such as loops.repeat(n, body, infeed_queue=queue)."
        )

    def _dequeue(self) -> Any:
        """Return one element, in the data set's structure, in the program being
        traced."""
        trace = _core.open_trace()
        if trace is None:
            return self.get_next()
        if current_build().is_scratch:
            return self._dequeue_nothing(trace)
        queue = self._made()
        if trace.uses("infeed_dequeue", queue.id):
            raise _dequeued_twice()
        resource = ("infeed", queue.id, self._types, None)
        result = trace.node("infeed_dequeue", (), None, (resource,))
        self._ever_dequeued = True
        values = list(result) if isinstance(result, tuple) else [result]
        return nest.pack_sequence_as(self._structure, values)

    def _dequeue_nothing(self, trace: _core.Trace) -> Any:
        """Return an element in a trace that finds shapes or costs: nothing is taken,
        and no device is asked for."""
        used = current_build().notes.setdefault("infeeds", set())
        if id(self) in used:
            raise _dequeued_twice()
        used.add(id(self))
        self._ever_dequeued = True
        if current_build().is_account:
            resource = ("infeed", -len(used), self._types, None)
            result = trace.node("infeed_dequeue", (), None, (resource,))
            values = list(result) if isinstance(result, tuple) else [result]
        else:
            values = [trace.zeros(type) for type in self._types]
        return nest.pack_sequence_as(self._structure, values)

    def _dequeue_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return one element as the arguments of a loop's body."""
        element = self._dequeue()
        if isinstance(element, tuple) and len(element) == 1 and _is_keyword(element[0]):
            element = element[0]
        if _is_keyword(element):
            return (), dict(element)
        if isinstance(element, (tuple, list)):
            return tuple(element), {}
        return (element,), {}


class IPUIterator:
    """An iterator whose elements are taken by the device.

    ``next(iterator)`` inside a function that is compiled for the device takes one
    element each time the program comes there. Its queue is started and deleted through
    :attr:`initializer` and :attr:`deleter`; ``iter(dataset)`` in the scope of an
    ``IPUStrategy`` gives one that is started already.

    Args:
        dataset: The elements, as for :class:`IPUInfeedQueue`.
        infeed_spec: Instead of ``dataset``: the queue of another iterator.
        element_spec: With ``infeed_spec``: the structure of its elements.
        **kwargs: Arguments of :class:`IPUInfeedQueue`.

    Raises:
        ValueError: Not exactly one of the two ways was chosen.

    Source: ``ipu.ipu_infeed_queue.IPUIterator``.

    Example:
        >>> it = IPUIterator(tf.data.Dataset.from_tensors(1.0).repeat())
        >>> it.element_spec.dtype
        tf.float32
    """

    def __init__(
        self,
        dataset: Any = None,
        infeed_spec: Any = None,
        element_spec: Any = None,
        **kwargs: Any,
    ) -> None:
        has_spec = infeed_spec is not None and element_spec is not None
        has_part = infeed_spec is not None or element_spec is not None
        if has_part if dataset is not None else not has_spec:
            raise ValueError(
                "An IPUIterator takes either `dataset`, or both `infeed_spec` and "
                f"`element_spec`. Received: dataset={dataset!r}, "
                f"infeed_spec={infeed_spec!r}, element_spec={element_spec!r}."
            )
        if dataset is not None:
            self._infeed_queue = IPUInfeedQueue(dataset, **kwargs)
        else:
            self._infeed_queue = IPUInfeedQueue._from_spec(infeed_spec, element_spec)

    @property
    def element_spec(self) -> Any:
        """Nest of ``TensorSpec`` of an element."""
        return self._infeed_queue._structure

    @property
    def _infeed_spec(self) -> _InfeedSpec:
        return self._infeed_queue._spec()

    @property
    def initializer(self) -> Any:
        """Reading it starts the queue, as :attr:`IPUInfeedQueue.initializer`."""
        return self._infeed_queue.initializer

    @property
    def deleter(self) -> Any:
        """Reading it ends the queue, as :attr:`IPUInfeedQueue.deleter`."""
        return self._infeed_queue.deleter

    def __iter__(self) -> IPUIterator:
        return self

    def __next__(self) -> Any:
        return self.get_next()

    def get_next(self) -> Any:
        """Return the next element, inside a function that is compiled for the device.

        Returns:
            A nest of tensors in the data set's structure.

        Raises:
            RuntimeError: No function is being compiled.
            ValueError: The program takes from this iterator at another place already.
        """
        if _core.open_trace() is None:
            raise RuntimeError(
                "Accessing dataset elements can not be accessed in eager mode: the "
                "device takes them. Call next(iterator) inside a tf.function that "
                "strategy.run runs, or iterate over the data set outside of "
                "strategy.scope(), or make the strategy with "
                "enable_dataset_iterators=False."
            )
        return self._infeed_queue._dequeue()

    def get_next_as_optional(self) -> Any:
        """Raise: a device program cannot ask whether there is a next element.

        Raises:
            NotImplementedError: Always.
        """
        refuse_call(f"{__name__}.IPUIterator.get_next_as_optional")


class IPUOwnedIterator(IPUIterator):
    """The iterator of ``iter(dataset)`` in the scope of an ``IPUStrategy``.

    It starts its queue when it is made, and the queue goes with it.

    Source: ``ipu.ipu_infeed_queue.IPUOwnedIterator``.

    Example:
        >>> dataset = tf.data.Dataset.range(4).map(lambda i: tf.cast(i, tf.float32))
        >>> strategy = ipu.ipu_strategy.IPUStrategy()
        >>> with strategy.scope():
        ...     iterator = iter(dataset)
        ...     step = tf.function(lambda iterator: next(iterator) * 2.0)
        ...     result = strategy.run(step, args=(iterator,))
        >>> isinstance(iterator, IPUOwnedIterator), float(result)
        (True, 0.0)
    """

    def __init__(
        self,
        dataset: Any = None,
        infeed_spec: Any = None,
        element_spec: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dataset, infeed_spec, element_spec, **kwargs)
        if dataset is not None:
            _ = self.initializer


def _dequeued_twice() -> ValueError:
    return ValueError(
        "An infeed can only be dequeued once in a program: two places would share its "
        "elements in an undefined order. Make a second queue, or take one element "
        "and use it twice."
    )


def _is_keyword(element: Any) -> bool:
    return isinstance(element, dict) and all(isinstance(k, str) for k in element)


def _checked_depth(depth: Any) -> int:
    if depth is None:
        return _DEFAULT_DEPTH
    depth = as_int(depth)
    if (
        isinstance(depth, bool)
        or not isinstance(depth, int)
        or not 1 <= depth <= _MAX_DEPTH
    ):
        raise ValueError(
            f"prefetch_depth must be from 1 to {_MAX_DEPTH}, or None for "
            f"{_DEFAULT_DEPTH}. Received: prefetch_depth={depth!r}."
        )
    return depth


def _is_of_placeholders(dataset: Any) -> bool:
    """Return whether it is a data set of TensorFlow 1 that a run of the initializer
    feeds."""
    return mode.has_graph() and hasattr(type(dataset), "is_pending")


def _known_type(index: int, spec: Any) -> _Type:
    if isinstance(spec, CompositeSpec):
        raise FailedPreconditionError(
            f"Unsupported tensor on index {index} of feed operation: {spec!r}. Ragged "
            "and sparse tensors stay on the host. Map the data set with to_tensor() or "
            "tf.sparse.to_dense."
        )
    if spec.dtype == "string":
        raise FailedPreconditionError(
            f"Unsupported datatype string on index {index} of feed operation: strings "
            "and data sets stay on the host. Map the data set to what the device needs."
        )
    shape = None if spec.shape is None else tuple(spec.shape)
    if shape is None or any(size is None for size in shape):
        text = "<unknown>" if shape is None else shape
        raise ValueError(
            f"Output shape {text} of component {index} of the data set is not fully "
            "defined. If using tf.Dataset.batch, set `drop_remainder=True`."
        )
    return (spec.dtype.name, tuple(int(size) for size in shape))


def _check_on_device(index: int, dtype: str, shape: tuple[int, ...]) -> None:
    if dtype not in DEVICE_DTYPES:
        raise FailedPreconditionError(
            f"Unsupported datatype {dtype} on index {index} of feed operation. "
            f"Supported are {', '.join(DEVICE_DTYPES)}: map the data set with tf.cast."
        )
    if 0 in shape:
        raise InvalidArgumentError(
            "Detected an input tensor to an infeed queue with a dimension of size 0: "
            f"component {index} has shape {shape}."
        )


export(__name__)
