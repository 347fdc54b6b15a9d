# SPDX-License-Identifier: MIT
"""``tensorflow.python.framework.ops`` and ``tensor_util``: questions about tensors."""

from __future__ import annotations

from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu._text.exports import defined
from ipu.tf.variable import Variable


def is_tensor(x: Any) -> bool:
    """Return whether ``x`` is a tensor or a variable."""
    return isinstance(x, (Tensor, Variable))


def constant_value(tensor: Any, partial: bool = False) -> Any:
    """Return the value as an array where it is known now, else None."""
    del partial
    if isinstance(tensor, Tensor):
        return None if tensor.is_symbolic else tensor.numpy()
    return tensor


def inside_function() -> bool:
    """Return whether a function is being traced."""
    return _core.open_trace() is not None


def enable_eager_execution(*args: Any, **kwargs: Any) -> None:
    """Run ops at once: always so."""
    del args, kwargs


__all__ = defined(__name__)
