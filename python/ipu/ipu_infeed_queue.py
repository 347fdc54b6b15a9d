# SPDX-License-Identifier: MIT
"""Infeeds: data sets that a device program takes elements from while it runs."""

from __future__ import annotations

from typing import Any

from ipu import _core, _devices
from ipu._errors import FailedPreconditionError, NotFoundError
from ipu.tf import nest
from ipu.tf.data._live import start_feeder
from ipu.tf.variable import current_device

__all__ = ["IPUInfeedQueue"]

_DEFAULT_DEPTH = 3
_MAX_DEPTH = 255
_DEVICE_DTYPES = ("float32", "float16", "int32", "int8", "uint8", "bool")


class IPUInfeedQueue:
    """A queue from a data set to the device.

    Args:
        dataset: The elements; every size must be known (``drop_remainder=True``).
        device_ordinal: Which device; None is the current strategy's, else number 0.
        prefetch_depth: How many elements are read ahead, from 1 to 255; None is 3.
        **kwargs: Options of older releases (``feed_name``, ``replication_factor``,
            ``data_to_prefetch``) and ``optimise_latency``: accepted and not used.

    Raises:
        ValueError: A size is not known, or an argument is out of range.
        FailedPreconditionError: A dtype that no device has.

    Example:
        >>> from ipu import tf, ipu_infeed_queue
        >>> ds = tf.data.Dataset.from_tensors(tf.ones((4,))).repeat()
        >>> ipu_infeed_queue.IPUInfeedQueue(ds).number_of_tuple_elements
        1
    """

    def __init__(
        self,
        dataset: Any,
        device_ordinal: int | None = None,
        prefetch_depth: int | None = None,
        **kwargs: Any,
    ) -> None:
        depth = _DEFAULT_DEPTH if prefetch_depth is None else prefetch_depth
        if not isinstance(depth, int) or not 1 <= depth <= _MAX_DEPTH:
            raise ValueError(
                f"prefetch_depth must be from 1 to {_MAX_DEPTH}. Received: {depth!r}."
            )
        if device_ordinal is not None and (
            not isinstance(device_ordinal, int) or device_ordinal < 0
        ):
            raise ValueError(
                f"Device ordinal must be an integer >= 0. Received: {device_ordinal!r}."
            )
        self._dataset = dataset
        self._structure = dataset.element_spec
        self._types = [
            _component_type(i, spec)
            for i, spec in enumerate(nest.flatten(self._structure))
        ]
        self._device = (
            current_device()
            if device_ordinal is None
            else _devices.get_device(device_ordinal)
        )
        self._queue = _core.Infeed(self._device.core, self._types, depth)
        self._feeder: Any = None
        self._deleted = False
        self._dequeued = False

    @property
    def initializer(self) -> None:
        """Reading it starts the thread that fills the queue.

        Raises:
            FailedPreconditionError: It has been started already.
        """
        if self._deleted:
            raise FailedPreconditionError(
                "The infeed queue has been deleted. Create a new IPUInfeedQueue."
            )
        if self._feeder is not None:
            raise FailedPreconditionError(
                "The infeed queue has been initialised already. Read `deleter` first."
            )
        self._feeder = start_feeder(self._dataset._impl, self._queue)

    @property
    def deleter(self) -> None:
        """Reading it stops the thread and takes the queue off the device.

        Raises:
            NotFoundError: It was never initialised, or is deleted already.
            FailedPreconditionError: A running program uses it.
        """
        if self._feeder is None:
            raise NotFoundError(
                f"Infeed with id='{self._queue.id}' does not exist: it was not "
                "initialised, or it has been deleted."
            )
        self._queue.remove()
        self._feeder.stop()
        self._feeder = None
        self._deleted = True

    @property
    def dequeued(self) -> bool:
        """Whether a traced program takes from it."""
        return self._dequeued

    @property
    def number_of_tuple_elements(self) -> int:
        """How many tensors an element has."""
        return len(self._types)

    def get_next(self) -> Any:
        """Not on the host: only a device program can take elements.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "An IPUInfeedQueue can only be dequeued inside a device program."
        )

    def _dequeue(self) -> Any:
        """One element, in the data set's structure, in the program being traced."""
        trace = _core.open_trace()
        if trace is None:
            return self.get_next()
        self._dequeued = True
        resource = ("infeed", self._queue.id, self._types, None)
        result = trace.node("infeed_dequeue", (), None, (resource,))
        values = list(result) if isinstance(result, tuple) else [result]
        return nest.pack_sequence_as(self._structure, values)

    def _dequeue_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """One element as the arguments of a loop's body."""
        element = self._dequeue()
        if isinstance(element, tuple) and len(element) == 1 and _is_keyword(element[0]):
            element = element[0]
        if _is_keyword(element):
            return (), dict(element)
        if isinstance(element, (tuple, list)):
            return tuple(element), {}
        return (element,), {}


def _is_keyword(element: Any) -> bool:
    return isinstance(element, dict) and all(isinstance(k, str) for k in element)


def _component_type(index: int, spec: Any) -> tuple[str, tuple[int, ...]]:
    shape = tuple(spec.shape)
    if any(size is None for size in shape):
        raise ValueError(
            f"Output shape {shape} of component {index} of the data set is not fully "
            "defined. If using tf.Dataset.batch, set `drop_remainder=True`."
        )
    if spec.dtype.name not in _DEVICE_DTYPES:
        raise FailedPreconditionError(
            f"Unsupported datatype {spec.dtype.name} on index {index} of feed "
            f"operation. Supported are {', '.join(_DEVICE_DTYPES)}: map the data set "
            "with tf.cast."
        )
    return (spec.dtype.name, tuple(int(s) for s in shape))
