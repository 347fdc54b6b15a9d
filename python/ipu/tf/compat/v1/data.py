# SPDX-License-Identifier: MIT
"""``tf.compat.v1.data``: data sets, and iterators that sessions read.

Example:
    >>> from ipu.tf.compat import v1
    >>> with v1.Graph().as_default(), v1.Session() as session:
    ...     dataset = v1.data.Dataset.from_tensor_slices([1, 2, 3])
    ...     following = v1.data.make_one_shot_iterator(dataset).get_next()
    ...     print(session.run(following), session.run(following))
    1 2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._text.errors import FailedPreconditionError, InvalidArgumentError
from ipu._text.exports import export
from ipu.tf import data as _data, nest
from ipu.tf._graph import mode, running
from ipu.tf._string_ops.tensors import StringTensor
from ipu.tf.compat.v1._datasets import Dataset, PendingDataset, kept
from ipu.tf.data._generator import declared
from ipu.tf.tensor_spec import TensorSpec

_HANDLES = "iterators by handle"

TFRecordDataset = kept(_data.TFRecordDataset)
TextLineDataset = kept(_data.TextLineDataset)
FixedLengthRecordDataset = kept(_data.FixedLengthRecordDataset)

__all__ = [
    "Dataset",
    "FixedLengthRecordDataset",
    "Iterator",
    "TFRecordDataset",
    "TextLineDataset",
    "get_output_shapes",
    "get_output_types",
    "make_initializable_iterator",
    "make_one_shot_iterator",
]


class Iterator:
    """A pass over a data set that a session makes.

    Args:
        dataset: The data set; None: each initializer has its own.
        starts: Whether it begins by itself; else an initializer is to be run.
        spec: The nest of ``TensorSpec`` of an element; None: that of the data set.

    Example:
        >>> with v1.Graph().as_default():
        ...     iterator = Iterator(v1.data.Dataset.range(3), starts=True)
        ...     iterator.get_next().dtype
        tf.int64
    """

    def __init__(self, dataset: Any, starts: bool, spec: Any = None) -> None:
        self._starts = dataset if starts else None
        self._spec = dataset.element_spec if spec is None else spec
        self._graph = mode.current() or mode.default()
        self._initializer = None
        self._handle: Any = None
        if not starts and dataset is not None:
            self._initializer = self.make_initializer(dataset)

    @staticmethod
    def from_structure(
        output_types: Any,
        output_shapes: Any = None,
        shared_name: str | None = None,
        output_classes: Any = None,
    ) -> Iterator:
        """Return an iterator for any data set with such elements.

        Args:
            output_types: The nest of dtypes of an element.
            output_shapes: The nest of shapes; None: nothing is known of them.
            shared_name, output_classes: Accepted and not used.

        Example:
            >>> with v1.Graph().as_default(), v1.Session() as session:
            ...     numbers = v1.data.Dataset.range(3)
            ...     iterator = v1.data.Iterator.from_structure(
            ...         numbers.output_types, numbers.output_shapes)
            ...     following = iterator.get_next()
            ...     session.run(iterator.make_initializer(numbers.skip(2)))
            ...     print(session.run(following))
            2
        """
        spec = declared(output_types, output_shapes, None)
        return Iterator(None, starts=False, spec=spec)

    @staticmethod
    def from_string_handle(
        string_handle: Any,
        output_types: Any,
        output_shapes: Any = None,
        output_classes: Any = None,
    ) -> Iterator:
        """Return an iterator that is another one in each run: the one whose handle is
        fed.

        Args:
            string_handle: A string tensor: what ``string_handle`` of an iterator gave.
            output_types, output_shapes, output_classes: As for :meth:`from_structure`.

        Example:
            >>> with v1.Graph().as_default(), v1.Session() as session:
            ...     numbers = v1.data.Dataset.range(3)
            ...     handle = v1.placeholder(v1.string, [])
            ...     following = v1.data.Iterator.from_string_handle(
            ...         handle, numbers.output_types, numbers.output_shapes).get_next()
            ...     own = session.run(numbers.make_one_shot_iterator().string_handle())
            ...     print(session.run(following, {handle: own}))
            0
        """
        spec = declared(output_types, output_shapes, None)
        made = Iterator(None, starts=False, spec=spec)
        made._handle = string_handle
        return made

    def string_handle(self, name: str | None = None) -> Any:
        """Return a string tensor that stands for the iterator in the run's session."""
        number = self._graph.unique_name("iterator").encode()

        def handle() -> Any:
            running.session().state.setdefault(_HANDLES, {})[number] = self
            return StringTensor(np.asarray(number, dtype=object))

        spec = TensorSpec((), "string")
        return self._graph.python("IteratorToStringHandle", handle, spec, name=name)

    def _of_handle(self, handle: Any) -> Any:
        number = np.asarray(handle).item()
        handles = running.session().state.get(_HANDLES, {})
        if number not in handles:
            raise InvalidArgumentError(
                f"{number!r} is not a handle of an iterator of this session: feed what "
                "session.run(iterator.string_handle()) gave."
            )
        return handles[number]._next()

    def make_initializer(self, dataset: Any, name: str | None = None) -> Any:
        """Return the operation that begins a pass over a data set.

        Args:
            dataset: The data set, with elements as the iterator was told.
        """
        if not isinstance(dataset, PendingDataset):

            def start() -> None:
                running.state_of(self)["iterator"] = iter(dataset)

            return self._graph.python("MakeIterator", start, name=name)

        def start_with(*values: Any) -> None:
            running.state_of(self)["iterator"] = iter(dataset.fed(*values))

        return self._graph.python(
            "MakeIterator", start_with, None, tuple(dataset.inputs), name=name
        )

    def _next(self) -> Any:
        state = running.state_of(self)
        if "iterator" not in state:
            if self._starts is None:
                raise FailedPreconditionError(
                    "GetNext() failed because the iterator has not been initialized. "
                    "Ensure that you have run the initializer operation for this "
                    "iterator before getting the next element."
                )
            state["iterator"] = iter(self._starts)
        return state["iterator"].get_next()

    @property
    def initializer(self) -> Any:
        """The operation that begins a pass.

        Raises:
            ValueError: The iterator has none of its own.
        """
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer.")
        return self._initializer

    @property
    def element_spec(self) -> Any:
        """The nest of ``TensorSpec`` of an element."""
        return self._spec

    @property
    def output_types(self) -> Any:
        """The nest of dtypes of an element."""
        return nest.map_structure(lambda spec: spec.dtype, self._spec)

    @property
    def output_shapes(self) -> Any:
        """The nest of shapes of an element."""
        return nest.map_structure(lambda spec: spec.shape, self._spec)

    def get_next(self, name: str | None = None) -> Any:
        """Return the next element: each run that needs it takes one.

        Returns:
            A nest of tensors of the graph. A run at the end of the data set raises
            OutOfRangeError.
        """
        given = () if self._handle is None else (self._handle,)
        function = self._next if self._handle is None else self._of_handle
        return self._graph.python(
            "IteratorGetNext", function, self._spec, given, name=name
        )


def make_one_shot_iterator(dataset: Any) -> Any:
    """Return an iterator that begins by itself.

    Args:
        dataset: The data set.

    Raises:
        ValueError: The data set takes tensors of the graph.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     iterator = v1.data.make_one_shot_iterator(v1.data.Dataset.range(3))
        ...     print(session.run(iterator.get_next()))
        0
    """
    if isinstance(dataset, PendingDataset):
        raise ValueError(
            "A one-shot iterator cannot be made of a data set that takes tensors of "
            "the graph. Use make_initializable_iterator, and feed them to its "
            "initializer."
        )
    if mode.current() is None:
        return iter(dataset)
    return Iterator(dataset, starts=True)


def make_initializable_iterator(dataset: Any, shared_name: str | None = None) -> Any:
    """Return an iterator that begins a pass when its initializer is run.

    Args:
        dataset: The data set; what it takes of the graph is fed to the initializer.
        shared_name: Accepted and not used.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     iterator = v1.data.make_initializable_iterator(v1.data.Dataset.range(3))
        ...     following = iterator.get_next()
        ...     session.run(iterator.initializer)
        ...     print(session.run(following))
        0
    """
    return Iterator(dataset, starts=False)


def get_output_types(dataset_or_iterator: Any) -> Any:
    """Return the nest of dtypes of an element.

    Args:
        dataset_or_iterator: A data set or an iterator.

    Example:
        >>> get_output_types(v1.data.Dataset.range(3))
        tf.int64
    """
    return nest.map_structure(lambda spec: spec.dtype, dataset_or_iterator.element_spec)


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """Return the nest of shapes of an element.

    Args:
        dataset_or_iterator: A data set or an iterator.

    Example:
        >>> get_output_shapes(v1.data.Dataset.range(4).batch(2, True))
        (2,)
    """
    return nest.map_structure(lambda spec: spec.shape, dataset_or_iterator.element_spec)


if TYPE_CHECKING:
    from ipu.tf.data import *  # type: ignore[assignment]  # noqa: F403
else:
    _LAZY = {
        name: f"ipu.tf.data:{name}" for name in _data.__all__ if name not in __all__
    }
    export(__name__, [*__all__, *_LAZY], _LAZY)
