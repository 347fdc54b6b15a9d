# SPDX-License-Identifier: MIT
"""``tf.ragged``: rows of different lengths, on the host, until they are dense."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu._text.errors import InvalidArgumentError
from ipu._text.exports import export
from ipu.tf._string_ops.tensors import StringTensor, is_text
from ipu.tf._tensor import varying_sizes
from ipu.tf.dtypes import DType, as_dtype
from ipu.tf.tensor_shape import TensorShape

__all__ = ["RaggedTensor", "constant"]


class RaggedTensor:
    """Rows of different lengths: what cutting up several strings gives.

    Args:
        values: The elements of all rows: a tensor, or a ragged one of more axes.
        row_splits: Where each row begins, and after them where the last one ends.

    Raises:
        InvalidArgumentError: The splits are not those of the values.

    Example:
        >>> words = constant([["a", "b"], ["c"]])
        >>> words.to_list()
        [[b'a', b'b'], [b'c']]
        >>> words.to_tensor("-").numpy().tolist()
        [[b'a', b'b'], [b'c', b'-']]
    """

    def __init__(self, values: Any, row_splits: Any) -> None:
        splits = np.asarray(row_splits, np.int64)
        if not isinstance(values, (RaggedTensor, StringTensor)):
            values = StringTensor(values) if is_text(values) else _core.Tensor(values)
        is_whole = splits.ndim == 1 and splits.size and splits[0] == 0
        if not is_whole or (np.diff(splits) < 0).any() or splits[-1] != len(values):
            raise InvalidArgumentError(
                "`row_splits` must begin with 0, never fall and end with the number of "
                f"values, {len(values)}. Received: row_splits={splits.tolist()}."
            )
        self._values, self._splits = values, splits

    @classmethod
    def from_row_splits(cls, values: Any, row_splits: Any) -> RaggedTensor:
        """Return rows that begin at ``row_splits``, which has one number more than
        rows."""
        return cls(values, row_splits)

    @classmethod
    def from_row_lengths(cls, values: Any, row_lengths: Any) -> RaggedTensor:
        """Return rows of these lengths.

        Example:
            >>> RaggedTensor.from_row_lengths([1, 2, 3], [1, 2]).to_list()
            [[1], [2, 3]]
        """
        return cls(values, np.concatenate([[0], np.cumsum(np.asarray(row_lengths))]))

    @classmethod
    def from_tensor(
        cls,
        tensor: Any,
        lengths: Any = None,
        padding: Any = None,
        ragged_rank: int = 1,
        name: Any = None,
    ) -> RaggedTensor:
        """Return the rows of a dense tensor.

        Args:
            tensor: Of more than ``ragged_rank`` axes.
            lengths: How much of each row there is, a vector; None for all.
            padding: What is left out at the ends of rows; None: nothing is.
            ragged_rank: How many axes have no size of their own afterwards.

        Raises:
            ValueError: Both ``lengths`` and ``padding``, or too few axes.

        Example:
            >>> RaggedTensor.from_tensor([[1, 0], [2, 3]], padding=0).to_list()
            [[1], [2, 3]]
        """
        if lengths is not None and padding is not None:
            raise ValueError("Specify argument `lengths` or `padding`, but not both.")
        whole = np.asarray(StringTensor(tensor) if is_text(tensor) else tensor)
        if not 0 < ragged_rank < whole.ndim:
            raise ValueError(
                f"ragged_rank must be from 1 to {whole.ndim - 1}, one less than the "
                f"number of axes. Received: ragged_rank={ragged_rank}."
            )
        sizes = whole.shape
        if lengths is None and padding is None:
            flat = whole.reshape(-1, *sizes[ragged_rank + 1 :])
            made: Any = StringTensor(flat) if is_text(flat) else _core.Tensor(flat)
            for axis in range(ragged_rank, 0, -1):
                rows = int(np.prod(sizes[:axis]))
                made = cls(made, np.arange(rows + 1) * sizes[axis])
            return made  # type: ignore[no-any-return]
        if ragged_rank > 1:
            raise ValueError("`lengths` and `padding` are for ragged_rank=1.")
        if lengths is None:
            kept = (whole != padding).reshape(*sizes[:2], -1).any(axis=2)
            lengths = [max(np.flatnonzero(row), default=-1) + 1 for row in kept]
        counts = [int(n) for n in np.asarray(lengths)]
        return stacked([row[:n] for row, n in zip(whole, counts, strict=True)])  # type: ignore[no-any-return]

    # --- what it is -------------------------------------------------------------------

    @property
    def values(self) -> Any:
        """The elements of all rows, one after the other."""
        return self._values

    @property
    def flat_values(self) -> Any:
        """The innermost values."""
        inner = self._values
        return inner.flat_values if isinstance(inner, RaggedTensor) else inner

    @property
    def row_splits(self) -> Any:
        """Where each row begins, and where the last one ends; int64."""
        return _core.Tensor(self._splits)

    @property
    def dtype(self) -> DType:
        """dtype of the values."""
        found: DType = self.flat_values.dtype
        return found

    @property
    def ragged_rank(self) -> int:
        """How many axes have no size of their own."""
        inner = self._values
        return 1 + (inner.ragged_rank if isinstance(inner, RaggedTensor) else 0)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def shape(self) -> TensorShape:
        """Sizes; None where rows differ."""
        return TensorShape((len(self), None, *tuple(self._values.shape)[1:]))

    def nrows(self) -> Any:
        """Return the number of rows, int64."""
        return _core.Tensor(np.int64(len(self)))

    def row_lengths(self) -> Any:
        """Return the length of each row, int64."""
        return _core.Tensor(np.diff(self._splits))

    def bounding_shape(self) -> Any:
        """Return the least sizes that hold all rows, int64."""
        return _core.Tensor(np.asarray(self._bounds(), np.int64))

    def _bounds(self) -> list[int]:
        inner = self._values
        is_ragged = isinstance(inner, RaggedTensor)
        rest = inner._bounds() if is_ragged else list(inner.shape)
        return [len(self), int(max(np.diff(self._splits), default=0)), *rest[1:]]

    # --- parts ------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._splits) - 1

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple):
            first, *rest = index
            return self[first][tuple(rest) if len(rest) > 1 else rest[0]]
        if isinstance(index, slice):
            return stacked([self[row] for row in range(*index.indices(len(self)))])
        row = range(len(self))[int(index)]
        return self._values[int(self._splits[row]) : int(self._splits[row + 1])]

    def to_list(self) -> list[Any]:
        """Return the rows as nested lists."""
        return [
            row.to_list() if isinstance(row, RaggedTensor) else row.numpy().tolist()
            for row in self
        ]

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the rows as an array of arrays."""
        made = np.empty(len(self), object)
        for number, row in enumerate(self):
            made[number] = row.numpy()
        return made

    def to_tensor(
        self, default_value: Any = None, name: Any = None, shape: Any = None
    ) -> Any:
        """Return the rows filled up to one length.

        Args:
            default_value: The value after the ends; None: 0, or "".
            shape: The sizes of the result; None in it for the size that holds all
                rows. Longer ones are cut off.

        Returns:
            A dense tensor.
        """
        sizes = self._bounds()
        wanted = [None] * len(sizes) if shape is None else list(shape)
        known = [
            old if new is None else new for old, new in zip(sizes, wanted, strict=True)
        ]
        is_string = self.dtype.name == "string"
        if is_string:
            fill = StringTensor(b"" if default_value is None else default_value).numpy()
        else:
            fill = 0 if default_value is None else np.asarray(default_value)
        whole = np.full(known, fill, object if is_string else self.dtype.name)
        _fill(whole, self)
        axes = [at for at, size in enumerate(wanted) if size is None and at]
        whole = varying_sizes.varying(whole, *axes[: self.ragged_rank])
        return StringTensor(whole) if is_string else _core.Tensor(whole)

    def __repr__(self) -> str:
        return f"<tf.RaggedTensor {self.to_list()!r}>"


def _fill(whole: np.ndarray[Any, Any], rows: RaggedTensor) -> None:
    for into, row in zip(whole, rows, strict=False):
        if isinstance(row, RaggedTensor):
            _fill(into, row)
        else:
            values = np.asarray(row)[: len(into)]
            into[: len(values)] = values


def stacked(rows: Sequence[Any]) -> Any:
    """Return rows, dense or ragged, as a ragged tensor.

    Example:
        >>> stacked([[1, 2], [3]]).to_list()
        [[1, 2], [3]]
    """
    lengths = [len(row) for row in rows]
    if any(isinstance(row, RaggedTensor) for row in rows):
        return RaggedTensor.from_row_lengths(
            stacked([one for row in rows for one in row]), lengths
        )
    parts = [np.asarray(row) for row in rows]
    values = np.concatenate(parts) if parts else np.zeros(0, np.float32)
    if values.dtype == object:
        return RaggedTensor.from_row_lengths(StringTensor(values), lengths)
    return RaggedTensor.from_row_lengths(values, lengths)


def constant(
    pylist: Any, dtype: Any = None, ragged_rank: int | None = None, name: Any = None
) -> Any:
    """Return a ragged tensor of nested lists.

    Args:
        pylist: Numbers or strings in lists of lists of any length.
        dtype: dtype of the values; None: int32, float32 or string.
        ragged_rank: How many axes are ragged; None: all but the first.

    Returns:
        A :class:`RaggedTensor`; of a plain list a tensor.

    Example:
        >>> constant([[1, 2], [3]]).row_lengths().numpy().tolist()
        [2, 1]
    """
    depth = _depth(pylist) - 1 if ragged_rank is None else int(ragged_rank)
    if depth < 1:
        return _values(pylist, dtype)
    lengths = [len(row) for row in pylist]
    rows = [one for row in pylist for one in row]
    inner = constant(rows, dtype, depth - 1) if depth > 1 else _values(rows, dtype)
    return RaggedTensor.from_row_lengths(inner, lengths)


def _depth(value: Any) -> int:
    is_list = isinstance(value, (list, tuple, np.ndarray))
    return 1 + max(map(_depth, value), default=0) if is_list else 0


def _values(values: Any, dtype: Any) -> Any:
    kind = None if dtype is None else as_dtype(dtype)
    if is_text(values) or (kind is not None and kind.name == "string"):
        return StringTensor(values)
    return _core.Tensor(values) if kind is None else _core.Tensor(values, kind.name)


export(__name__)
