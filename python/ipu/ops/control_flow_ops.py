# SPDX-License-Identifier: MIT
"""Hints about the order of execution: ``ipu.control_flow_ops``."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._text.exports import export
from ipu.tf import nest

__all__ = ["barrier"]


def barrier(
    tensors: Any, insert_barrier_for_gradients: bool = False, name: str | None = None
) -> Any:
    """Hand tensors on; on hardware all of them are there before one is used.

    Args:
        tensors: A tensor or a nest of them.
        insert_barrier_for_gradients: Accepted and not used.

    Returns:
        The same tensors, in the same nest.

    Example:
        >>> a, b = barrier((1.0, 2.0))
        >>> float(a + b)
        3.0
    """
    return nest.map_structure(tf.convert_to_tensor, tensors)


export(__name__)
