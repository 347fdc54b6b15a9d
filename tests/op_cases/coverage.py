# SPDX-License-Identifier: MIT
"""Which dtypes each op of the table takes, and which of them have a case."""

from __future__ import annotations

from ipu import _core

from . import CASES, SCENARIOS
from .model import ALL, DEVICE, FLOATS, INTS

FLAGS = {"gradient": 1 << 1, "opaque": 1 << 10}
TABLE = dict(_core.op_table())
OF_FLOATS = """exp log sqrt rsqrt tanh sigmoid floor div mean tanh_grad sigmoid_grad
softmax log_softmax sparse_cross_entropy cross_entropy dropout random_uniform
random_normal truncated_normal fused_elementwise"""
OF_ANY = """equal not_equal select cast identity stop_gradient reshape transpose
broadcast concat slice slice_grad gather constant"""
UPDATES = "sgd_update adam_update matmul_sgd_update"
ON_DEVICE = "variable_read variable_assign infeed_dequeue outfeed_enqueue"
SERVES: dict[str, tuple[str, ...]] = {  # all others take every number
    **dict.fromkeys(OF_FLOATS.split(), FLOATS),
    **dict.fromkeys(OF_ANY.split(), ALL),
    **dict.fromkeys(ON_DEVICE.split(), DEVICE),
    **dict.fromkeys(["logical_not", "logical_and", "logical_or"], ("bool",)),
    **dict.fromkeys(UPDATES.split(), ("float32", "float16")),
    "variable_add": tuple(d for d in DEVICE if d != "bool"),
    "one_hot": INTS,
    "repeat": ("float32",),
}


def dtypes_with_a_case(op: str) -> set[str]:
    found = set()
    for case in CASES:
        if case.op == op:
            found |= {i.dtype for i in case.inputs}
            found |= {kind for kind, _ in case.output_types()}
    for scenario in SCENARIOS:
        if op == scenario.op or op in scenario.covers:
            arrays = (*scenario.variables, *scenario.inputs, *scenario.infeed)
            found |= {a.dtype.name for a in arrays}
    return found
