# SPDX-License-Identifier: MIT
"""Shapes with TensorFlow's methods: ``tf.TensorShape``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, SupportsIndex, overload

__all__ = ["TensorShape"]


class TensorShape(tuple[Any, ...]):
    """A shape: a tuple of sizes, with None for a size that is not known.

    Args:
        dims: The sizes, or one size, or None for a shape of unknown rank.

    Raises:
        ValueError: A size is negative.
        TypeError: A size is not an integer.

    Example:
        >>> shape = tf.TensorShape([None, 28, 28])
        >>> shape.as_list(), shape.rank, shape[1:].num_elements()
        ([None, 28, 28], 3, 784)
    """

    _unknown = False

    def __new__(cls, dims: Any = None) -> TensorShape:
        if isinstance(dims, TensorShape):
            return dims
        sizes: Iterable[Any]
        if dims is None:
            sizes = ()
        elif isinstance(dims, Iterable):
            sizes = dims
        else:
            sizes = (dims,)
        known = [None if size is None else _size(size) for size in sizes]
        shape = super().__new__(cls, known)
        shape._unknown = dims is None
        return shape

    @property
    def rank(self) -> int | None:
        """How many dimensions there are; None where that is not known."""
        return None if self._unknown else len(self)

    @property
    def ndims(self) -> int | None:
        """The same as ``rank``."""
        return self.rank

    @property
    def dims(self) -> list[int | None] | None:
        """The sizes as a list; None where their number is not known."""
        return None if self._unknown else list(self)

    def as_list(self) -> list[int | None]:
        """Give the sizes as a list.

        Returns:
            One entry for each dimension, None for a size that is not known.

        Raises:
            ValueError: The rank is not known.
        """
        self._require_rank("as_list()")
        return list(self)

    def is_fully_defined(self) -> bool:
        """Whether every size is known."""
        return not self._unknown and None not in self

    def assert_is_fully_defined(self) -> None:
        """Raise ValueError where a size is not known."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined.")

    def num_elements(self) -> int | None:
        """Return the number of elements; None where a size is not known."""
        return math.prod(self) if self.is_fully_defined() else None

    def is_compatible_with(self, other: Any) -> bool:
        """Whether some shape is described by both.

        Args:
            other: A shape, or what makes one.

        Returns:
            True where each size is equal or not known in one of them.
        """
        other = TensorShape(other)
        if self._unknown or other._unknown:
            return True
        return len(self) == len(other) and all(
            mine is None or theirs is None or mine == theirs
            for mine, theirs in zip(self, other, strict=True)
        )

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError where no shape is described by both."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {TensorShape(other)} are incompatible")

    def assert_has_rank(self, rank: int) -> None:
        """Raise ValueError where the number of dimensions is another."""
        if self.rank not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def with_rank(self, rank: int) -> TensorShape:
        """Give the shape with this rank; ValueError where it has another."""
        self.assert_has_rank(rank)
        return TensorShape([None] * rank) if self._unknown else self

    def merge_with(self, other: Any) -> TensorShape:
        """Give what is known from both.

        Args:
            other: A shape, or what makes one.

        Returns:
            Each size from whichever knows it.

        Raises:
            ValueError: They are not compatible.
        """
        theirs = TensorShape(other)
        self.assert_is_compatible_with(theirs)
        if self._unknown:
            return theirs
        if theirs._unknown:
            return self
        return TensorShape(
            [b if a is None else a for a, b in zip(self, theirs, strict=True)]
        )

    def concatenate(self, other: Any) -> TensorShape:
        """Give this shape's sizes, then the other's."""
        other = TensorShape(other)
        if self._unknown or other._unknown:
            return TensorShape(None)
        return TensorShape((*self, *other))

    @overload
    def __getitem__(self, key: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> TensorShape: ...
    def __getitem__(self, key: Any) -> Any:
        self._require_rank("an index")
        try:
            found = super().__getitem__(key)
        except IndexError:
            raise IndexError(
                f"The shape {self} has {len(self)} axes, and none of number {key}."
            ) from None
        return TensorShape(found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(other).concatenate(self)

    def __eq__(self, other: object) -> bool:
        """Whether the sizes are the same, those that are not known among them.

        Args:
            other: A shape, or what makes one: a list, a tuple, a size, None.
        """
        if type(other) is tuple:
            return not self._unknown and tuple.__eq__(self, other)
        if not isinstance(other, TensorShape):
            if not (other is None or isinstance(other, (list, tuple, int))):
                return False
            try:
                other = TensorShape(other)
            except (TypeError, ValueError):
                return False
        return self._unknown == other._unknown and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return "<unknown>" if self._unknown else super().__repr__()

    def __reduce__(self) -> Any:
        return TensorShape, (None if self._unknown else tuple(self),)

    def _require_rank(self, what: str) -> None:
        if self._unknown:
            raise ValueError(f"{what} needs a shape whose rank is known.")


def _size(size: Any) -> int:
    value = size.__index__() if hasattr(size, "__index__") else None
    if value is None:
        raise TypeError(f"A size must be an int or None. Received: {size!r}.")
    if value < 0:
        raise ValueError(f"A size must not be negative. Received: {value}.")
    return int(value)
