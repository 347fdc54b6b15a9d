# SPDX-License-Identifier: MIT
"""``ipu.ops``: operations that only IPU programs have. Modules load at first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipu.ops import cross_replica_ops, pipelining_ops, replication_ops

__all__ = ["cross_replica_ops", "pipelining_ops", "replication_ops"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return importlib.import_module(f"ipu.ops.{name}")
    raise AttributeError(f"module 'ipu.ops' has no attribute '{name}'")
