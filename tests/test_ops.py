# SPDX-License-Identifier: MIT
"""Every op of the table, forward and backward, against NumPy and central differences.

The cases are data (op_cases/); this file is what is done with each: the reference and
the fast kernel against the oracle; fused and unfused, held and not, in a loop, in a
pipeline and on 1, 2 and 3 threads, all equal to the bit; gradients in each float dtype.
A new row of ops.def without a case fails here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from grouped import in_groups
from op_cases import CASES, SCENARIOS, harness
from op_cases.coverage import (
    FLAGS,
    GRADIENTS_ELSEWHERE,
    RULES,
    TABLE,
    dtypes_with_a_case,
    serves,
)
from op_cases.model import (
    ALL,
    FLOATS,
    SMALL,
    Array,
    Case,
    Graph,
    is_float,
)
from op_cases.resources import Scenario, play

import ipu
from ipu import _core


def of_each_op(cases: Iterable[Case]) -> Any:
    """Make a check of one case a test of all cases of an op."""
    return in_groups(
        cases,
        name=lambda case: case.id,
        group=lambda case: case.op,
        is_slow=lambda case: case.slow,
        before=lambda: ipu.set_num_threads(1),
    )


pytestmark = pytest.mark.usefixtures("one_thread")


# --- the table is covered -------------------------------------------------------------


@pytest.mark.parametrize("op", TABLE)
def test_every_op_has_a_case_in_each_dtype_it_takes(op: str) -> None:
    missing = set(serves(op)) - dtypes_with_a_case(op)
    assert not missing, f"add a case of {op} for {sorted(missing)} to tests/op_cases"


@pytest.mark.parametrize("op", TABLE)
def test_every_gradient_has_a_case(op: str) -> None:
    if TABLE[op] & FLAGS["gradient"] and op not in GRADIENTS_ELSEWHERE:
        missing = set(FLOATS) & set(serves(op))
        missing -= {c.out_float() for c in GRADIENTS if c.op == op}
        assert not missing, f"{op} has a gradient, but no case in {sorted(missing)}"


def test_no_case_is_there_twice() -> None:
    names = [c.id for c in CASES] + [s.id for s in SCENARIOS]
    assert len(names) == len(set(names))
    assert {c.op for c in CASES} | {s.op for s in SCENARIOS} <= set(TABLE)


# --- forward --------------------------------------------------------------------------


@of_each_op(CASES)
def test_forward(case: Case) -> None:
    values = case.values()
    want = case.expect(values)
    text = harness.plain(case)
    fast = harness.run(text, values)
    harness.close(case, fast, want, "fast kernel")
    if case.slow and "matmul" in case.op:
        return  # minutes of scalar loops
    reference = harness.run(text, values, reference=True)
    harness.close(case, reference, want, "reference kernel")


@of_each_op([c for c in CASES if not c.slow])
def test_all_forms_give_the_same_bits(case: Case) -> None:
    values = case.values()
    base = harness.run(harness.plain(case), values, fuse=False)
    count = len(base)
    every = list(range(len(values)))
    forms = [[], every]
    if (
        len(every) > 1 and TABLE[case.op] & FLAGS["elementwise"]
    ):  # any may be taken over
        forms += [[i for i in every if i != k] for k in every]
    for held in forms:
        text, more = harness.chained(case, held)
        for fuse in (False, True):
            what = f"held={held} fuse={fuse}"
            compiled = harness.verified if fuse else _core.graph_compile
            got = harness.results(compiled(text, fuse=fuse), values + more)
            harness.same_bits(got[:count], base, f"chained, {what}")
            harness.same_bits(got[count:], [values[i] for i in held], f"inputs, {what}")
    text, zeros = harness.looped(case)
    program = harness.verified(text)
    for trips in (3, 0):  # the first run of a program draws from step 0 on
        last = zeros if trips == 0 else base
        if case.random and trips:
            last = case.expect(values, step=trips - 1)
        inputs = [*values, np.array(trips, np.int32), *zeros]
        got = harness.results(program, inputs)
        harness.same_bits(got[: len(values)], values, f"carried through {trips} trips")
        if case.random and trips:
            harness.close(case, got[len(values) :], last, "last trip")
        else:
            harness.same_bits(got[len(values) :], last, f"after {trips} trips")
    text, more = harness.pipelined(case)
    got = harness.run(text, values + more)
    harness.same_bits(got[count:], got[:count], "on the second IPU")
    if case.random:
        last = case.expect(values, step=harness.MICRO_BATCHES - 1)
        harness.close(case, got[:count], last, "last micro-batch")
    else:
        harness.same_bits(got[:count], base, "in a pipeline")


@pytest.mark.parametrize("op", sorted(TABLE))
def test_a_dtype_that_an_op_does_not_take_is_refused(op: str) -> None:
    """Before it runs, not by a wrong result."""
    for dtype in set(ALL) - dtypes_with_a_case(op):
        for case in [c for c in CASES if c.op == op and not c.slow][:1]:
            inputs = tuple(replace(i, dtype=dtype) for i in case.inputs)
            if not inputs or op in ("one_hot", "fused_elementwise"):
                continue
            graph = Graph(host=True)
            names = [graph.param(i.type) for i in inputs]
            kinds = [(dtype, s) for _, s in case.output_types()]
            text = graph.finish(graph.node(op, names, case.attrs, kinds))
            with pytest.raises((TypeError, ValueError, ipu.tf.errors.OpError)):
                _core.graph_compile(text)


def many_tasks(case: Case) -> bool:
    # inputs first: the outputs' types are found by running the oracle
    return any(int(np.prod(i.shape)) > SMALL for i in case.inputs) or (
        sum(int(np.prod(s)) for _, s in case.output_types()) > SMALL
    )


@of_each_op([c for c in CASES if many_tasks(c)])
def test_any_number_of_threads_gives_the_same_bits(case: Case) -> None:
    values = case.values()
    base = harness.run(harness.plain(case), values)
    chain, more = harness.chained(case, held=())
    for count in (2, 3):
        ipu.set_num_threads(count)
        what = f"{count} threads"
        harness.same_bits(harness.run(harness.plain(case), values), base, what)
        harness.same_bits(harness.run(chain, values + more), base, f"{what}, fused")


FUSIBLE = [
    c
    for c in CASES
    if c.label == "threads" and c.op in ("exp", "relu", "tanh", "neg", "square")
]


@of_each_op(FUSIBLE)
def test_chains_are_really_fused(case: Case) -> None:
    text, _ = harness.chained(case, held=())
    fused = _core.graph_compile(text).text
    plain = _core.graph_compile(text, fuse=False).text
    assert "fused_elementwise." in fused and f"{case.op}." not in fused
    assert "fused_elementwise." not in plain and f"{case.op}." in plain


@pytest.mark.parametrize("activation", ["", "relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_products_with_what_follows_fused_into_them(
    dtype: str, bias: bool, activation: str
) -> None:
    """matmul, bias and activation as one node: the bits of the three one by one."""
    rng = np.random.default_rng(2)
    for m, k, n in ((3, 5, 7), (32, 784, 256), (1, 64, 10), (65, 33, 129)):
        graph = Graph(dtype == "float64")
        shapes = [(m, k), (k, n), (n,)][: 3 if bias else 2]
        names = [graph.param((dtype, s)) for s in shapes]
        kind = (dtype, (m, n))
        out = graph.one("matmul", names[:2], kind)
        if bias:
            out = graph.one("add", [out, names[2]], kind)
        if activation:
            out = graph.one(activation, [out], kind)
        text = graph.finish([out])
        values = [np.asarray(rng.normal(size=s), dtype) for s in shapes]
        base = harness.run(text, values, fuse=False)
        program = _core.graph_compile(text)
        assert ("fused_matmul" in program.text) == (bias or bool(activation))
        for count in (1, 2, 3):
            ipu.set_num_threads(count)
            got = [np.asarray(t.numpy()) for t in program.run(values)]
            harness.same_bits(got, base, f"{(m, k, n)} on {count} threads")


def accumulating_loop(
    m: int, k: int, n: int, turned: tuple[bool, bool], accumulator_first: bool
) -> str:
    """a, b, accumulator, trips -> the accumulator after as many additions of a b."""
    graph = Graph()
    a = graph.param(("float32", (k, m) if turned[0] else (m, k)))
    b = graph.param(("float32", (n, k) if turned[1] else (k, n)))
    kind = ("float32", (m, n))
    start = graph.param(kind)
    trips = graph.param(("int32", ()))
    body = graph.open_block()
    total = graph.param(kind)
    flags = zip(("transpose_a", "transpose_b"), turned, strict=True)
    attrs = ", ".join(f"{name}={str(turn).lower()}" for name, turn in flags)
    product = graph.one("matmul", [a, b], kind, attrs)
    operands = [total, product] if accumulator_first else [product, total]
    graph.close_block([graph.one("add", operands, kind)])
    return graph.finish(graph.node("repeat", [trips, start], f"body=b{body}", [kind]))


@pytest.mark.parametrize("cpu_class", ["generic", "avx2", "avx512"])
@pytest.mark.parametrize(
    "turned", [(False, False), (True, False), (False, True), (True, True)]
)
def test_a_product_added_to_what_a_loop_carries(
    turned: tuple[bool, bool], cpu_class: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One kernel in place, with the bits of the product and then the sum."""
    monkeypatch.setenv("IPU_CPU_CLASS", cpu_class)
    if _core.cpu_class() != cpu_class:
        pytest.skip(f"this processor is of class {_core.cpu_class()}")
    rng = np.random.default_rng(3)
    in_place = r"matmul_accumulate\.\w+\((\S+), .*\) -> \1\n"
    sizes = [(3, 5, 7), (256, 32, 128), (1, 64, 10), (65, 1100, 33), (4, 0, 3)]
    if turned == (True, False):
        sizes.append((769, 768, 770))  # BLIS's, for every class
    for m, k, n in sizes:
        shapes = [(k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n)]
        values = [rng.normal(size=s).astype("f4") for s in (*shapes, (m, n))]
        inputs = [*values, np.array(3, np.int32)]
        base = harness.run(accumulating_loop(m, k, n, turned, True), inputs, fuse=False)
        for first in (True, False):
            text = accumulating_loop(m, k, n, turned, first)
            program = _core.graph_compile(text)
            assert re.search(in_place, program.text), program.text
            for count in (1, 2, 3):
                ipu.set_num_threads(count)
                got = [np.asarray(t.numpy()) for t in program.run(inputs)]
                harness.same_bits(got, base, f"{(m, k, n)} on {count} threads")


# --- backward -------------------------------------------------------------------------

GRADIENTS = [c for c in CASES if c.smooth and not many_tasks(c)]


@of_each_op(GRADIENTS)
def test_gradient(case: Case) -> None:
    values = case.values()
    text, weights = harness.weighted(case)
    if TABLE[case.op] & FLAGS["opaque"]:
        with pytest.raises(ipu.tf.errors.UnimplementedError, match=case.op):
            _core.graph_gradients(text)
        return
    floats = sum(v.dtype.kind == "f" for v in values)
    found = harness.numeric_gradient(case, values, weights)
    graph = _core.graph_gradients(text)
    dtype = case.out_float()
    narrow = {dtype, *(i.dtype for i in case.inputs if is_float(i.dtype))}
    rank = ("float64", "float32", "float16")
    coarse = max(narrow, key=rank.index)
    inputs = values + weights
    got = harness.run(graph, inputs)
    harness.check_gradient(got[1 : 1 + floats], found, coarse, f"{case.id}, fast")
    same = harness.run(graph, inputs, fuse=False)
    harness.same_bits(got, same, "fused and unfused gradient")
    reference = harness.run(graph, inputs, reference=True)
    what = f"{case.id}, reference"
    harness.check_gradient(reference[1 : 1 + floats], found, coarse, what)


TWICE = [c for c in GRADIENTS if c.twice and c.out_float() == "float64"]


@of_each_op(TWICE)
def test_second_gradient(case: Case) -> None:
    """The gradient's own gradient, against central differences of the gradient."""
    values = case.values()
    text, weights = harness.weighted(case)
    first = harness.only_result(_core.graph_gradients(text), 1)
    program = _core.graph_compile(first)
    places = [k for k, v in enumerate(values) if v.dtype.kind == "f"]

    def total(xs: list[Array]) -> float:
        args = list(values)
        for k, x in zip(places, xs, strict=True):
            args[k] = x
        return float(program.run([*args, *weights])[0].numpy().sum())

    rng = np.random.default_rng(6)
    found = harness.differences(total, [values[k] for k in places], rng)
    second = harness.run(_core.graph_gradients(first), values + weights)
    harness.check_gradient(second[1 : 1 + len(places)], found, "float64", case.id)


# --- the checkers have teeth ----------------------------------------------------------


def first_case(op: str, **want: object) -> Case:
    return next(
        c
        for c in CASES
        if c.op == op
        and c.label != "special"
        and sum(int(np.prod(i.shape)) for i in c.inputs) > 3
        and all(getattr(c, k) == v for k, v in want.items())
    )


WRONG_GRADIENTS = (
    ("sigmoid", "sigmoid_grad(", "tanh_grad("),
    ("tanh", "tanh_grad(", "sigmoid_grad("),
    ("relu", "relu_grad(", "mul("),
    ("log", "div(", "mul("),
    ("mul", "mul(", "sub("),
    ("softmax", "sub(", "add("),
)


def spoil(graph: str, text: str, old: str, new: str) -> str:
    """The graph with one op of the gradient's part exchanged."""
    kept = len(text.splitlines()) - 1
    lines = graph.splitlines()
    for i in range(len(lines) - 1, kept - 1, -1):
        if old in lines[i]:
            lines[i] = lines[i].replace(old, new)
            return "\n".join(lines) + "\n"
    raise AssertionError(f"no {old} in the gradient:\n{graph}")


@pytest.mark.parametrize(("op", "old", "new"), WRONG_GRADIENTS)
def test_a_wrong_gradient_is_caught(op: str, old: str, new: str) -> None:
    case = first_case(op, smooth=True)
    values = case.values()
    text, weights = harness.weighted(case)
    found = harness.numeric_gradient(case, values, weights)
    graph = _core.graph_gradients(text)
    floats = sum(v.dtype.kind == "f" for v in values)
    right = harness.run(graph, values + weights)[1 : 1 + floats]
    harness.check_gradient(right, found, case.out_float(), "right")
    wrong = harness.run(spoil(graph, text, old, new), values + weights)
    with pytest.raises(AssertionError, match="central differences give"):
        harness.check_gradient(wrong[1 : 1 + floats], found, case.out_float(), "wrong")


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_gradient_that_is_slightly_off_is_caught(dtype: str) -> None:
    case = next(
        c
        for c in GRADIENTS
        if c.op == "exp" and c.out_float() == dtype and c.inputs[0].shape
    )
    values = case.values()
    text, weights = harness.weighted(case)
    found = harness.numeric_gradient(case, values, weights)
    right = harness.run(_core.graph_gradients(text), values + weights)[1:2]
    off = [g * (1 + 8 * harness.TOLERANCE[dtype]) for g in right if g.size]
    if off:
        with pytest.raises(AssertionError, match="central differences give"):
            harness.check_gradient(off, found, dtype, "off")


WRONG_KERNELS = (
    ("add", "sub"),
    ("tanh", "sigmoid"),
    ("maximum", "minimum"),
    ("less", "less_equal"),
    ("sum", "mean"),
    ("max", "min"),
    ("floor_div", "floor_mod"),
    ("softmax", "log_softmax"),
    ("random_uniform", "random_normal"),
)


@pytest.mark.parametrize(("op", "other"), WRONG_KERNELS)
def test_a_wrong_kernel_is_caught(op: str, other: str) -> None:
    if op.startswith("random"):
        case = next(c for c in CASES if c.op == op and c.label.startswith("5_"))
    else:
        case = first_case(op)
    if op == "less":  # where there are equal elements
        case = next(c for c in CASES if c.op == op and c.inputs[0].dtype == "int8")
        inputs = tuple(replace(i, shape=(40,)) for i in case.inputs)
        case = replace(case, label="40", inputs=inputs)
    values = case.values()
    want = case.expect(values)
    text = harness.plain(case)
    harness.close(case, harness.run(text, values), want, "right")
    wrong = harness.run(text.replace(f" {op}(", f" {other}("), values)
    with pytest.raises(AssertionError, match=r"differs|is wrong"):
        harness.close(case, wrong, want, "wrong")


@pytest.mark.parametrize("op", ["exp", "matmul", "sum", "softmax", "log", "tanh"])
def test_an_error_of_a_few_units_in_the_last_place_is_caught(op: str) -> None:
    case = first_case(op, float_dtype="", exact=False)
    values = case.values()
    want = case.expect(values)
    room = 3 * case.ulps * np.finfo(case.out_float()).eps
    off = [(w * (1 + room)).astype(case.out_float()) for w in want]
    if case.bound is not None:
        size = case.bound(*map(np.abs, harness.floats_of(case)))
        off = [(w + 3 * room * size).astype(case.out_float()) for w in want]
    with pytest.raises(AssertionError, match="is wrong"):
        harness.close(case, off, want, "off")


def test_a_new_op_without_a_case_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "new_op", "F:F")
    with pytest.raises(AssertionError, match="add a case of new_op"):
        test_every_op_has_a_case_in_each_dtype_it_takes("new_op")


def test_a_form_with_other_bits_is_caught() -> None:
    a = np.array([0.0, 1.0], np.float32)
    with pytest.raises(AssertionError, match="differs in 1 of 2"):
        harness.same_bits([a], [np.array([-0.0, 1.0], np.float32)], "sign of zero")
    with pytest.raises(AssertionError, match="differs in 1 of 2"):
        harness.same_bits(
            [a], [np.nextafter(a, a + np.array([0, 1], "f4"))], "last place"
        )


# --- resources ------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.id)
def test_resources(scenario: Scenario) -> None:
    for trips in (0, 1, 5):
        state = [v.copy() for v in scenario.variables]
        inputs = list(scenario.inputs)
        fed = list(scenario.infeed)
        variables, elements = scenario.oracle(state, inputs, fed, trips)
        forms: tuple[dict[str, bool], ...] = ({}, {"fuse": False}, {"reference": True})
        for options in forms:
            for count in (1, 2, 3):
                ipu.set_num_threads(count)
                got = play(scenario, trips, **options)
                what = f"{trips} trips, {options}, {count} threads"
                harness.same_bits(got.variables, variables, what)
                if trips:
                    harness.same_bits(got.elements, elements, what)
