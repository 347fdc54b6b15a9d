# SPDX-License-Identifier: MIT
"""Which dtypes each op of the table takes, and which of them have a case."""

from __future__ import annotations

from ipu import _core

from . import CASES, SCENARIOS
from .model import ALL, DEVICE, FLOATS, INTS, NUMBERS

FLAGS = {"gradient": 1 << 1, "elementwise": 1 << 2, "opaque": 1 << 10}
TABLE = dict(_core.op_table())
OF_FLOATS = """
acos acosh asin asinh atan atan2 atanh average_pool average_pool_grad bessel_i0e
bessel_i1e ceil conv
conv_grad_filter conv_grad_input cos cosh cross_entropy digamma div dropout
erf erfc erfinv exp expm1 fused_conv floor fused_elementwise
gelu gelu_grad igamma igamma_slope igammac is_finite is_inf is_nan
lgamma log log1p log2 log_softmax max_pool_grad mean
ndtri normalize normalize_grad polygamma random_binomial random_gamma random_normal
random_poisson
random_uniform reciprocal reciprocal_grad rsqrt
rsqrt_grad sigmoid sigmoid_grad sin sinh softmax softplus sparse_cross_entropy sqrt
sqrt_grad tan tanh tanh_grad trunc truncated_normal zeta
"""
OF_ANY = """equal not_equal select cast identity checkpoint stop_gradient
custom_gradient reshape transpose broadcast concat slice slice_grad dynamic_slice
dynamic_update_slice gather gather_nd tensor_scatter constant"""
OF_INTS = """bitwise_not bitwise_and bitwise_or bitwise_xor left_shift right_shift
random_integer"""
LINEAR = "cholesky triangular_solve solve det slogdet qr eigh svd lu"
UPDATES = "sgd_update adam_update adam_rate gather_sgd_update"
FUSED = "matmul_accumulate matmul_sgd_update fused_conv_grad_input"
ON_DEVICE = """variable_read variable_assign fused_update infeed_dequeue
outfeed_enqueue"""
SERVES: dict[str, tuple[str, ...]] = {  # all others take every number
    **dict.fromkeys(OF_FLOATS.split(), FLOATS),
    **dict.fromkeys(OF_ANY.split(), ALL),
    **dict.fromkeys(ON_DEVICE.split(), DEVICE),
    **dict.fromkeys(OF_INTS.split(), INTS),
    **dict.fromkeys(
        "recurrence lstm lstm_grad gru gru_grad attention attention_grad".split(),
        FLOATS,
    ),
    **dict.fromkeys(LINEAR.split(), ("float32", "float64")),
    **dict.fromkeys("logical_not logical_and logical_or any all".split(), ("bool",)),
    **dict.fromkeys(UPDATES.split(), ("float32", "float16")),
    **dict.fromkeys(FUSED.split(), ("float32",)),  # what the fuse pass makes
    "round_stochastic": ("float32", "float16"),
    "variable_add": tuple(d for d in DEVICE if d != "bool"),
    "one_hot": INTS,
    **dict.fromkeys(("repeat", "while", "switch"), ("float32",)),
    "pipeline": (),  # tests/test_pipelining.py
    "bitcast": NUMBERS,
    "replica_index": ("int32",),
    "host_call": (),  # tests/test_host_calls.py
    "empty": (),  # of loops that keep rows: test_control_flow_gradients
    "held": (),  # of tensors that the front end captures: tests/test_function.py
}


# by one operand alone: calls.py; of numbers drawn: tests/test_distributions.py
GRADIENTS_ELSEWHERE = {"polygamma", "random_gamma", "zeta"}


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
