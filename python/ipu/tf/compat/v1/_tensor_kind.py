# SPDX-License-Identifier: MIT
"""``tf.Tensor`` as programs of TensorFlow 1 ask for it: tensors of graphs are some."""

from __future__ import annotations

from typing import Any

from ipu import _core
from ipu.tf._graph.operation import GraphTensor


class _OfBothKinds(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, (_core.Tensor, GraphTensor))

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, (_core.Tensor, GraphTensor))


class Tensor(metaclass=_OfBothKinds):
    """A tensor: of a graph, or one with numbers.

    Example:
        >>> with v1.Graph().as_default():
        ...     x = v1.placeholder(v1.float32, [2])
        >>> isinstance(x, v1.Tensor), isinstance(v1.float32, v1.Tensor)
        (True, False)
    """

    def __new__(cls, *args: Any) -> Any:
        """Make a tensor with numbers."""
        return _core.Tensor(*args)
