# SPDX-License-Identifier: MIT
"""Which replica of a program computes: ``ipu.replication_ops``."""

from __future__ import annotations

from typing import Any

from ipu._core import Tensor
from ipu._text.exports import export
from ipu.tf._tensor.convert import apply
from ipu.tf._tensor.dispatch import graph_op

__all__ = ["replication_index"]


@graph_op
def replication_index(name: Any = None) -> Tensor:
    """Return the number of the replica that computes it, from 0 on.

    Returns:
        An int32 scalar; 0 where nothing is replicated.

    Example:
        >>> int(replication_index())
        0
    """
    return apply("replica_index", ())


export(__name__)
