# SPDX-License-Identifier: MIT
"""The descriptions of tensors that are made of several: ragged and sparse ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu.tf.dtypes import as_dtype, float32, int64
from ipu.tf.tensor_spec import TensorSpec


class CompositeSpec(TensorSpec):
    """The description of a tensor that is made of several."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name)
            for name in ("shape", "dtype", *self.__slots__)
        )

    __hash__ = TensorSpec.__hash__


class RaggedTensorSpec(CompositeSpec):
    """The type of a ragged tensor.

    Args:
        shape: Sizes; None where rows differ, or where a size is not known.
        dtype: dtype of the values.
        ragged_rank: How many axes have rows of different lengths; None: all but the
            first. With 0 it is a tensor whose batches are ragged.
        row_splits_dtype: Accepted; splits are int64.

    Raises:
        ValueError: There are too few axes.

    Example:
        >>> RaggedTensorSpec((2, None), "int32").ragged_rank
        1
    """

    __slots__ = ("ragged_rank", "row_splits_dtype")

    def __init__(
        self,
        shape: Sequence[int | None] | None = None,
        dtype: Any = float32,
        ragged_rank: int | None = None,
        row_splits_dtype: Any = int64,
    ) -> None:
        super().__init__(shape, dtype)
        rank = None if self.shape is None else len(self.shape)
        if ragged_rank is None:
            if rank is None:
                raise ValueError("Must specify ragged_rank or a shape with known rank.")
            ragged_rank = rank - 1
        if rank is not None and not 0 <= ragged_rank < max(rank, 1):
            raise ValueError(
                f"ragged_rank must be less than rank, {rank}, and not negative. "
                f"Received: ragged_rank={ragged_rank}."
            )
        self.ragged_rank = int(ragged_rank)
        self.row_splits_dtype = as_dtype(row_splits_dtype)

    def __repr__(self) -> str:
        return (
            f"RaggedTensorSpec({self.shape}, {self.dtype!r}, {self.ragged_rank}, "
            f"{self.row_splits_dtype!r})"
        )


class SparseTensorSpec(CompositeSpec):
    """The type of a sparse tensor.

    Args:
        shape: The sizes of the dense tensor; None for one that is not known.
        dtype: dtype of the values.

    Example:
        >>> SparseTensorSpec((None, 3), "int32").shape
        (None, 3)
    """

    __slots__ = ()

    def __init__(
        self, shape: Sequence[int | None] | None = None, dtype: Any = float32
    ) -> None:
        super().__init__(shape, dtype)

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self.shape}, {self.dtype!r})"
