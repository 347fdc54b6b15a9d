# SPDX-License-Identifier: MIT
"""Which dtypes each op of the table takes, and which of them have a case."""

from __future__ import annotations

from functools import cache

from ipu import _core

from . import CASES, SCENARIOS
from .model import ALL, DEVICE, FLOATS, INTS, NUMBERS

FLAGS = {"gradient": 1 << 1, "elementwise": 1 << 2, "opaque": 1 << 10}
TABLE = {name: flags for name, flags, _ in _core.op_table()}
RULES = {name: dtypes for name, _, dtypes in _core.op_table()}
# by the letters of ops.def
LETTERS = {
    "a": ALL,
    "n": NUMBERS,
    "f": FLOATS,
    "w": ("float32", "float64"),
    "i": INTS,
    "b": ("bool",),
    "s": ("int32",),
}
UPDATES = "sgd_update adam_update adam_rate gather_sgd_update round_stochastic"
FUSED = "matmul_accumulate matmul_sgd_update fused_conv_grad_input"
ON_DEVICE = """variable_read variable_assign fused_update infeed_dequeue
outfeed_enqueue"""
# ops that get fewer dtypes than their rule allows
FEWER: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(ON_DEVICE.split(), DEVICE),
    **dict.fromkeys(UPDATES.split(), ("float32", "float16")),
    **dict.fromkeys(FUSED.split(), ("float32",)),  # what the fuse pass makes
    **dict.fromkeys(("fused_elementwise", "mean"), FLOATS),
    "variable_add": tuple(d for d in DEVICE if d != "bool"),
    **dict.fromkeys(("repeat", "while", "switch"), ("float32",)),
    "pipeline": (),  # tests/test_pipelining.py
    "host_call": (),  # tests/test_host_calls.py
    "empty": (),  # of loops that keep rows: test_control_flow_gradients
    "held": (),  # of tensors that the front end captures: tests/test_function.py
}


def serves(op: str) -> tuple[str, ...]:
    """Return the dtypes of an op: of its own letter, a capital, or of the first one."""
    letters = RULES[op].replace(":", "")
    letter = next(filter(str.isupper, letters), letters[:1])
    return FEWER[op] if op in FEWER else LETTERS[letter.lower()]


# by one operand alone: calls.py; of numbers drawn: tests/test_distributions.py
GRADIENTS_ELSEWHERE = {"polygamma", "random_gamma", "zeta"}


@cache
def dtypes_with_a_case(op: str) -> frozenset[str]:
    found = set()
    for case in CASES:
        if case.op == op and not case.slow:
            found |= {i.dtype for i in case.inputs}
            found |= {kind for kind, _ in case.output_types()}
    for scenario in SCENARIOS:
        if op == scenario.op or op in scenario.covers:
            arrays = (*scenario.variables, *scenario.inputs, *scenario.infeed)
            found |= {a.dtype.name for a in arrays}
    return frozenset(found)
