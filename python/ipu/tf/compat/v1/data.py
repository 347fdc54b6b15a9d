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

from ipu._errors import FailedPreconditionError
from ipu._faces import face
from ipu.tf import _graph_mode
from ipu.tf import data as _data

__all__ = ["GraphIterator", "make_initializable_iterator", "make_one_shot_iterator"]


class GraphIterator:
    """A pass over a data set that a session makes.

    Args:
        dataset: The data set.
        starts: Whether it begins by itself; else :attr:`initializer` is to be run.

    Example:
        >>> from ipu.tf.compat import v1
        >>> with v1.Graph().as_default():
        ...     iterator = GraphIterator(v1.data.Dataset.range(3), starts=True)
        ...     iterator.get_next().dtype
        tf.int64
    """

    def __init__(self, dataset: Any, starts: bool) -> None:
        self._dataset = dataset
        self._starts = starts
        self._iterator: Any = None
        graph = _graph_mode.current() or _graph_mode.default()
        self._graph = graph
        self._initializer = (
            None if starts else graph.python("MakeIterator", self._start)
        )

    def _start(self) -> None:
        self._iterator = iter(self._dataset)

    def _next(self) -> Any:
        if self._iterator is None:
            if not self._starts:
                raise FailedPreconditionError(
                    "GetNext() failed because the iterator has not been initialized. "
                    "Ensure that you have run the initializer operation for this "
                    "iterator before getting the next element."
                )
            self._start()
        return self._iterator.get_next()

    @property
    def initializer(self) -> Any:
        """The operation that begins a pass.

        Raises:
            ValueError: The iterator begins by itself.
        """
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer.")
        return self._initializer

    @property
    def element_spec(self) -> Any:
        """The nest of ``TensorSpec`` of an element."""
        return self._dataset.element_spec

    def get_next(self, name: str | None = None) -> Any:
        """The next element: each run that needs it takes one.

        Args:
            name: A name.

        Returns:
            A nest of tensors of the graph. A run at the end of the data set raises
            OutOfRangeError.
        """
        return self._graph.python(
            "IteratorGetNext", self._next, self._dataset.element_spec, name=name
        )


def make_one_shot_iterator(dataset: Any) -> Any:
    """An iterator that begins by itself.

    Args:
        dataset: The data set.

    Source: ``tf.compat.v1.data.make_one_shot_iterator``.

    Example:
        >>> from ipu.tf.compat import v1
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     iterator = v1.data.make_one_shot_iterator(v1.data.Dataset.range(3))
        ...     print(session.run(iterator.get_next()))
        0
    """
    if _graph_mode.current() is None:
        return iter(dataset)
    return GraphIterator(dataset, starts=True)


def make_initializable_iterator(dataset: Any, shared_name: str | None = None) -> Any:
    """An iterator that begins a pass when its initializer is run.

    Args:
        dataset: The data set.
        shared_name: Accepted and not used.

    Source: ``tf.compat.v1.data.make_initializable_iterator``.

    Example:
        >>> from ipu.tf.compat import v1
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     iterator = v1.data.make_initializable_iterator(v1.data.Dataset.range(3))
        ...     following = iterator.get_next()
        ...     session.run(iterator.initializer)
        ...     print(session.run(following))
        0
    """
    del shared_name
    return GraphIterator(dataset, starts=False)


if TYPE_CHECKING:
    from ipu.tf.data import *  # noqa: F403
else:
    _LAZY = {
        name: f"ipu.tf.data:{name}" for name in _data.__all__ if name not in __all__
    }
    __getattr__, __dir__ = face(__name__, [*__all__, *_LAZY], _LAZY)
