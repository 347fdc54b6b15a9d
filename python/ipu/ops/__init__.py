# SPDX-License-Identifier: MIT
"""``ipu.ops``: operations that only IPU programs have. Modules load at first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipu.ops import (
        control_flow_ops,
        cross_replica_ops,
        embedding_ops,
        functional_ops,
        grad_util_ops,
        image_ops,
        internal_ops,
        math_ops,
        nn_ops,
        pipelining_ops,
        rand_ops,
        replication_ops,
        rnn_ops,
        slicing_ops,
        statistics_ops,
    )

__all__ = [
    "control_flow_ops",
    "cross_replica_ops",
    "embedding_ops",
    "functional_ops",
    "grad_util_ops",
    "image_ops",
    "internal_ops",
    "math_ops",
    "nn_ops",
    "pipelining_ops",
    "rand_ops",
    "replication_ops",
    "rnn_ops",
    "slicing_ops",
    "statistics_ops",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        return importlib.import_module(f"ipu.ops.{name}")
    raise AttributeError(f"module 'ipu.ops' has no attribute '{name}'")
