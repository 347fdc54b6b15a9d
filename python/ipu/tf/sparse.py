# SPDX-License-Identifier: MIT
"""``tf.sparse``: what features of any length are parsed to, until they are dense."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import _core
from ipu._text.exports import export
from ipu.tf._string_ops.tensors import StringTensor, is_text
from ipu.tf._tensor import varying_sizes
from ipu.tf.dtypes import DType
from ipu.tf.tensor_shape import TensorShape

__all__ = ["SparseTensor", "to_dense"]


class SparseTensor:
    """A tensor given by its values and their places, on the host.

    Args:
        indices: [n, rank], the place of each value.
        values: [n].
        dense_shape: [rank].

    Example:
        >>> to_dense(SparseTensor([[0, 1]], [5], [2, 2])).numpy().tolist()
        [[0, 5], [0, 0]]
    """

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        places = np.asarray(indices, np.int64).reshape(-1, len(dense_shape))
        self.indices = _core.Tensor(places)
        self.values = StringTensor(values) if is_text(values) else _core.Tensor(values)
        self.dense_shape = _core.Tensor(np.asarray(dense_shape, np.int64))

    @property
    def dtype(self) -> DType:
        """dtype of the values."""
        return self.values.dtype

    @property
    def shape(self) -> TensorShape:
        """The shape of the dense tensor."""
        return TensorShape(self.dense_shape.numpy().tolist())

    def __repr__(self) -> str:
        return (
            f"SparseTensor(indices={self.indices!r}, values={self.values!r}, "
            f"dense_shape={self.dense_shape!r})"
        )


def to_dense(
    sp_input: Any,
    default_value: Any = None,
    validate_indices: bool = True,
    name: Any = None,
) -> Any:
    """Return the dense tensor.

    Args:
        sp_input: A :class:`SparseTensor`.
        default_value: The value of the other places; None: 0, or "".
        validate_indices: Accepted and not used.

    Raises:
        TypeError: It is not a sparse tensor.

    Example:
        >>> one = tf.sparse.SparseTensor([[0, 1]], [5.0], [1, 3])
        >>> tf.sparse.to_dense(one).numpy().tolist()
        [[0.0, 5.0, 0.0]]
    """
    if not isinstance(sp_input, SparseTensor):
        raise TypeError(f"Input must be a SparseTensor. Received: {sp_input!r}.")
    values = np.asarray(sp_input.values)
    shape = tuple(sp_input.shape)
    if values.dtype.kind == "O":
        fill = StringTensor(b"" if default_value is None else default_value).numpy()
    else:
        fill = np.asarray(0 if default_value is None else default_value)
    whole = np.full(shape, fill, values.dtype)
    whole[tuple(np.asarray(sp_input.indices).T)] = values
    whole = varying_sizes.varying(whole, whole.ndim - 1)
    return StringTensor(whole) if values.dtype.kind == "O" else _core.Tensor(whole)


export(__name__)
