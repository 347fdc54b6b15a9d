# SPDX-License-Identifier: MIT
"""Printing from programs, and hints about layout and memory: ``ipu.internal_ops``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._core import Tensor
from ipu._faces import face

__all__ = [
    "block_recompute",
    "print_tensor",
    "recompute",
    "remap",
    "remap_deduce",
]


def print_tensor(input: Any, name: str = "") -> Any:
    """Print a tensor to standard error each time that a program passes here.

    Args:
        input: What is printed.
        name: Stands in front of it.

    Returns:
        What ``tf.print`` returns.

    Source: ``ipu.internal_ops.print_tensor``.

    Example:
        >>> import contextlib, io, sys
        >>> with contextlib.redirect_stderr(sys.stdout):
        ...     _ = print_tensor([1.0, 2.0], "x")
        x: [1 2]
    """
    head = (f"{name}:",) if name else ()
    return tf.print(*head, tf.convert_to_tensor(input), output_stream=sys.stderr)


def remap(x: Any, name: str | None = None) -> Tensor:
    """``x``; on hardware its elements are laid out anew over the tiles.

    Source: ``ipu.internal_ops.remap``.

    Example:
        >>> remap([1.0, 2.0]).numpy().tolist()
        [1.0, 2.0]
    """
    del name
    return tf.identity(x)


def remap_deduce(x: Any, name: str | None = None) -> Tensor:
    """``x``; on hardware it is laid out as its users like best.

    Source: ``ipu.internal_ops.remap_deduce``.

    Example:
        >>> remap_deduce([1.0, 2.0]).numpy().tolist()
        [1.0, 2.0]
    """
    del name
    return tf.identity(x)


def recompute(x: Any, name: str | None = None) -> Tensor:
    """``x``; a hint of SDK 1 that its inputs need not be kept for the gradient.

    ``tf.recompute_grad`` and ``pipelining_ops.recomputation_checkpoint`` save memory.

    Source: ``ipu.internal_ops.recompute``.

    Example:
        >>> recompute([1.0, 2.0]).numpy().tolist()
        [1.0, 2.0]
    """
    del name
    return tf.identity(x)


def block_recompute(x: Any, name: str | None = None) -> Tensor:
    """``x``; a hint of SDK 1 that it is kept for the gradient.

    Source: ``ipu.internal_ops.block_recompute``.

    Example:
        >>> block_recompute([1.0, 2.0]).numpy().tolist()
        [1.0, 2.0]
    """
    del name
    return tf.identity(x)


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
