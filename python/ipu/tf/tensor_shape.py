# SPDX-License-Identifier: MIT
"""Shapes with TensorFlow's methods: ``tf.TensorShape``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
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
            return dims._plain()
        sizes: Iterable[Any]
        if dims is None:
            sizes = ()
        elif isinstance(dims, Iterable):
            sizes = dims
        else:
            sizes = (dims,)
        known = [
            None if size is None or size is _UNKNOWN else _size(size) for size in sizes
        ]
        shape = super().__new__(cls, known)
        shape._unknown = dims is None
        return shape

    def _plain(self) -> TensorShape:
        return self

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
        """Return the sizes as a list.

        Returns:
            One entry for each dimension, None for a size that is not known.

        Raises:
            ValueError: The rank is not known.
        """
        self._require_rank("as_list()")
        return list(self)

    def is_fully_defined(self) -> bool:
        """Return whether every size is known."""
        return not self._unknown and None not in self

    def assert_is_fully_defined(self) -> None:
        """Raise ValueError where a size is not known."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined.")

    def num_elements(self) -> int | None:
        """Return the number of elements; None where a size is not known."""
        return math.prod(self) if self.is_fully_defined() else None

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether some shape is described by both.

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
        """Return the shape with this rank; ValueError where it has another."""
        self.assert_has_rank(rank)
        return TensorShape([None] * rank) if self._unknown else self

    def merge_with(self, other: Any) -> TensorShape:
        """Return what is known from both.

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
        """Return this shape's sizes, then the other's."""
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
                f"The shape {self} has {len(self)} axes: there is no axis {key}."
            ) from None
        return TensorShape(found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(other).concatenate(self)

    def __eq__(self, other: object) -> bool:
        """Return whether the sizes are the same, those that are not known among them.

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


class Dimension(int):
    """A size with TensorFlow 1's ``value``: an int, where it is known.

    Args:
        value: The size, or None: what is made then has ``value`` None, and arithmetic
            with it gives another such size.

    Example:
        >>> v1.Dimension(3).value, v1.Dimension(3) + 1, v1.Dimension(None).value
        (3, Dimension(4), None)
    """

    def __new__(cls, value: Any) -> Any:
        known = getattr(value, "value", value)
        return _UNKNOWN if known is None else super().__new__(cls, known)

    @property
    def value(self) -> int | None:
        """The size as a plain int; None where it is not known."""
        return int(self)

    def __repr__(self) -> str:
        return f"Dimension({int(self)})"

    def __str__(self) -> str:
        return str(int(self))


class _UnknownDimension:
    """What ``Dimension(None)`` is."""

    value = None

    def __eq__(self, other: object) -> Any:
        return None

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__

    def __hash__(self) -> int:
        return hash(None)

    def __repr__(self) -> str:
        return "Dimension(None)"

    def __str__(self) -> str:
        return "?"


_UNKNOWN = _UnknownDimension()


def _add_arithmetic() -> None:
    for name in ("add", "sub", "mul", "floordiv", "mod"):
        for method in (f"__{name}__", f"__r{name}__"):
            plain = getattr(int, method)

            def known(self: Any, other: Any, plain: Any = plain) -> Any:
                if other is None or other is _UNKNOWN:
                    return _UNKNOWN
                found = plain(int(self), other)
                return found if found is NotImplemented else Dimension(found)

            setattr(Dimension, method, known)
            setattr(_UnknownDimension, method, lambda self, other: self)


_add_arithmetic()


class DimensionedShape(TensorShape):
    """A shape whose entries are of :class:`Dimension`, as TensorFlow 1 has them.

    Args:
        dims: As for :class:`TensorShape`.

    Example:
        >>> with v1.Graph().as_default():
        ...     x = v1.placeholder(v1.float32, [None, 4])
        >>> x.get_shape()[1].value, x.get_shape()[0].value, x.get_shape().as_list()
        (4, None, [None, 4])
    """

    def __new__(cls, dims: Any = None) -> DimensionedShape:
        plain = TensorShape(dims)
        shape = tuple.__new__(cls, tuple.__iter__(plain))
        shape._unknown = plain._unknown
        return shape

    def _plain(self) -> TensorShape:
        if self._unknown:
            return TensorShape(None)
        return TensorShape(tuple.__iter__(self))

    @property
    def dims(self) -> Any:
        """The sizes as a list; None where their number is not known."""
        return None if self._unknown else list(self)

    def as_list(self) -> list[int | None]:
        """Return the sizes as a list of plain ints and None."""
        return self._plain().as_list()

    def num_elements(self) -> int | None:
        """Return the number of elements; None where a size is not known."""
        return self._plain().num_elements()

    def is_fully_defined(self) -> bool:
        """Return whether every size is known."""
        return self._plain().is_fully_defined()

    def with_rank(self, rank: int) -> TensorShape:
        """Return the shape with this rank; ValueError where it has another."""
        return DimensionedShape(super().with_rank(rank))

    def merge_with(self, other: Any) -> TensorShape:
        """Return what is known from both, as :meth:`TensorShape.merge_with` does."""
        return DimensionedShape(self._plain().merge_with(other))

    def concatenate(self, other: Any) -> TensorShape:
        """Return this shape's sizes, then the other's."""
        return DimensionedShape(self._plain().concatenate(other))

    def __iter__(self) -> Iterator[Any]:
        return map(Dimension, tuple.__iter__(self))

    def __getitem__(self, key: Any) -> Any:
        found = self._plain()[key]
        return DimensionedShape(found) if isinstance(key, slice) else Dimension(found)

    def __eq__(self, other: object) -> bool:
        return self._plain() == other

    __hash__ = tuple.__hash__

    def __str__(self) -> str:
        return str(self._plain())


def _size(size: Any) -> int:
    value = size.__index__() if hasattr(size, "__index__") else None
    if value is None:
        raise TypeError(f"A size must be an int or None. Received: {size!r}.")
    if value < 0:
        raise ValueError(f"A size must not be negative. Received: {value}.")
    return int(value)
