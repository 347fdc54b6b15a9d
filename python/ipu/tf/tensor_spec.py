# SPDX-License-Identifier: MIT
"""The description of a tensor: shape, dtype, name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu.tf.dtypes import DType, as_dtype, float32
from ipu.tf.tensor_shape import TensorShape

__all__ = ["TensorSpec"]


class TensorSpec:
    """The shape, dtype and name of a tensor.

    Args:
        shape: Sequence of sizes, None for a size that is not known; or None where not
            even their number is known.
        dtype: Its element type.
        name: A name, or None.

    Example:
        >>> tf.TensorSpec((None, 784)).shape
        (None, 784)
    """

    __slots__ = ("dtype", "name", "shape")

    def __init__(
        self,
        shape: Sequence[int | None] | None = None,
        dtype: Any = float32,
        name: str | None = None,
    ) -> None:
        # Any: most readers deal with specs of tensors, which have a shape
        self.shape: Any = None if shape is None else TensorShape(shape)
        self.dtype: DType = as_dtype(dtype)
        self.name = name

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """Return the description of ``tensor``."""
        return cls(tensor.shape, tensor.dtype, name)

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether ``other`` (a tensor or a spec) could be described by this
        one."""
        if self.dtype != other.dtype:
            return False
        if self.shape is None or other.shape is None:
            return True
        return len(self.shape) == len(other.shape) and all(
            mine is None or theirs is None or mine == theirs
            for mine, theirs in zip(self.shape, other.shape, strict=True)
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorSpec)
            and self.shape == other.shape
            and self.dtype == other.dtype
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return (
            f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"
        )
