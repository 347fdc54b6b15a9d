# SPDX-License-Identifier: MIT
"""Some rows of a tensor: ``tf.IndexedSlices``."""

from __future__ import annotations

from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu._text.tracebacks import boundaries
from ipu.tf._ops import selection
from ipu.tf.dtypes import DType
from ipu.tf.tensor_shape import TensorShape

__all__ = ["IndexedSlices"]


@boundaries("__init__")
class IndexedSlices:
    """Some rows of a larger tensor: ``values[i]`` is row ``indices[i]`` of it.

    Gradients here are whole tensors, also where TensorFlow's tape gives rows, so that
    ``isinstance(gradient, tf.IndexedSlices)`` is False. Converted to a tensor, rows
    that are named twice are added, and the others are zeros.

    Args:
        values: A tensor of shape [n, ...].
        indices: n integers.
        dense_shape: The shape of the larger tensor, or None if it is not known.

    Raises:
        ValueError: There is not one index for each row.

    Example:
        >>> rows = tf.IndexedSlices([[1.0, 2.0], [3.0, 4.0]], [2, 0], [3, 2])
        >>> tf.convert_to_tensor(rows).numpy().tolist()
        [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]]
    """

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        self.values = Tensor(values)
        self.indices = Tensor(indices)
        if self.values.shape[:1] != self.indices.shape:
            raise ValueError(
                "tf.IndexedSlices needs one index for each row of `values`. Received: "
                f"values of shape {self.values.shape}, indices of shape "
                f"{self.indices.shape}."
            )
        self.dense_shape = None if dense_shape is None else Tensor(dense_shape)

    @property
    def shape(self) -> TensorShape:
        """The shape of the larger tensor; the number of rows may be None."""
        if self.dense_shape is None:
            return TensorShape([None, *self.values.shape[1:]])
        return TensorShape(self.dense_shape.numpy().tolist())

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.values.dtype

    def __ipu_tensor__(self) -> Tensor:
        if self.dense_shape is None:
            raise ValueError(
                "tf.IndexedSlices without `dense_shape` has no known number of rows: "
                "give it, to make a tensor of it."
            )
        zeros = _core.apply(
            "broadcast",
            (Tensor(0, self.values.dtype_name),),
            {"shape": tuple(self.shape)},
        )
        return selection.tensor_scatter_nd_add(zeros, self._points(), self.values)

    def _points(self) -> Tensor:
        """Return the indices as points of one coordinate each, of shape [n, 1]."""
        shape = (*self.indices.shape, 1)
        return _core.apply("reshape", (self.indices,), {"shape": shape})

    def __repr__(self) -> str:
        return f"IndexedSlices(indices={self.indices}, values={self.values})"
