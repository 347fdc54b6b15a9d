# SPDX-License-Identifier: MIT
"""Iterators over data sets."""

from __future__ import annotations

from typing import Any

from ipu._text.tracebacks import boundaries
from ipu.tf import nest
from ipu.tf.data import _live, _packed
from ipu.tf.errors import OutOfRangeError


@boundaries("__next__", "get_next")
class Iterator:
    """One pass over a data set; ``iter(dataset)`` makes it.

    It may be used by one thread at a time. Its threads (of ``prefetch``) end with the
    pass, with :meth:`close`, or with the object.

    Example:
        >>> elements = iter(tf.data.Dataset.range(3))
        >>> int(next(elements)), int(elements.get_next())
        (0, 1)
    """

    def __init__(self, impl: Any, structure: Any) -> None:
        self._structure = structure
        self._unpack = _packed.unpacker(structure)
        self._iterator = _live.start_iterator(impl)

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        return self._unpack(next(self._iterator))

    def get_next(self) -> Any:
        """Return the next element.

        Returns:
            A nest of eager tensors of the form of :attr:`element_spec`.

        Raises:
            OutOfRangeError: At the end of the data set, where ``next`` raises
                StopIteration.
        """
        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError("End of sequence.") from None

    def close(self) -> None:
        """End the pass and its threads; a further ``next`` raises StopIteration."""
        self._iterator.close()

    @property
    def element_spec(self) -> Any:
        """The nest of ``TensorSpec`` of an element."""
        return self._structure


class NumpyIterator:
    """One pass over a data set whose tensors are handed out as NumPy arrays.

    Example:
        >>> dataset = tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4]])
        >>> [row.tolist() for row in dataset.as_numpy_iterator()]
        [[1, 2], [3, 4]]
    """

    def __init__(self, impl: Any, structure: Any) -> None:
        self._iterator = Iterator(impl, structure)

    def __iter__(self) -> NumpyIterator:
        return self

    def __next__(self) -> Any:
        return nest.map_structure(_as_numpy, next(self._iterator))


def _as_numpy(leaf: Any) -> Any:
    return leaf.numpy() if hasattr(leaf, "numpy") else leaf.as_numpy_iterator()
