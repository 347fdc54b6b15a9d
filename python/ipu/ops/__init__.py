# SPDX-License-Identifier: MIT
"""``ipu.ops``: operations that only IPU programs have. Modules load at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.exports import export

if TYPE_CHECKING:
    from ipu.ops import (
        all_to_all_op as all_to_all_op,
        control_flow_ops as control_flow_ops,
        cross_replica_ops as cross_replica_ops,
        custom_ops as custom_ops,
        embedding_ops as embedding_ops,
        functional_ops as functional_ops,
        grad_util_ops as grad_util_ops,
        image_ops as image_ops,
        internal_ops as internal_ops,
        math_ops as math_ops,
        nn_ops as nn_ops,
        normalization_ops as normalization_ops,
        pipelining_ops as pipelining_ops,
        rand_ops as rand_ops,
        reduce_scatter_op as reduce_scatter_op,
        replication_ops as replication_ops,
        rnn_ops as rnn_ops,
        slicing_ops as slicing_ops,
        statistics_ops as statistics_ops,
        summary_ops as summary_ops,
        within_replica_ops as within_replica_ops,
    )

if not TYPE_CHECKING:
    __all__ = """
    all_to_all_op control_flow_ops cross_replica_ops custom_ops embedding_ops
    functional_ops grad_util_ops image_ops internal_ops math_ops nn_ops
    normalization_ops pipelining_ops rand_ops reduce_scatter_op replication_ops rnn_ops
    slicing_ops statistics_ops summary_ops within_replica_ops
    """.split()
    _LAZY = {name: f"ipu.ops.{name}" for name in __all__}
    export(__name__, None, _LAZY)
