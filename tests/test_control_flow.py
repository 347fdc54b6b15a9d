# SPDX-License-Identifier: MIT
"""Loops, branches and functions over rows: values, effects, gradients, errors.

Each program is traced and run fused, unfused and with the reference kernels, which must
agree to the bit; gradients are compared with central differences in float64, on host
graphs, where that dtype exists.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import _core, tf
from ipu.tf import TensorArray

Array = np.ndarray[Any, Any]
Point = namedtuple("Point", "x y")


def trace(
    function: Callable[..., Any], args: tuple[Any, ...], host: bool = False
) -> Any:
    """The trace of a function, and the structure that it gave."""
    opened = _core.Trace(host=host)
    with opened:
        arrays = [np.asarray(a) for a in args]
        values = [opened.parameter((a.dtype.name, a.shape)) for a in arrays]
        result = function(*values)
        for leaf in tf.nest.flatten(result):
            opened.result(leaf)
    return opened, result


def run(function: Callable[..., Any], *args: Any, host: bool = False) -> list[Array]:
    """The results of a program, which are the same in every form of it."""
    found: list[list[Array]] = []
    for options in ({}, {"fuse": False}, {"fuse": False, "reference": True}):
        opened, _ = trace(function, args, host)
        program = opened.compile(verify=True, **options)
        outputs = program.run([np.asarray(a) for a in args])
        found.append([np.asarray(t) for t in outputs])
    fused, unfused, reference = found
    for a, b, c in zip(fused, unfused, reference, strict=True):
        np.testing.assert_array_equal(a, b)
        # reference kernels add one element after the other, the fast ones in a tree
        rounding = 1e-12 if a.dtype == np.float64 else 1e-5
        np.testing.assert_allclose(a, c, rtol=rounding, atol=rounding)
    return fused


def text(function: Callable[..., Any], *args: Any) -> str:
    opened, _ = trace(function, args)
    return str(opened.compile(verify=True).text)


def check_gradient(function: Callable[..., Any], *args: Any) -> list[Array]:
    """d sum(function) / d each float argument is what central differences give."""
    values = [np.asarray(a) for a in args]
    values = [v.astype(np.float64) if v.dtype.kind == "f" else v for v in values]
    floats = [i for i, v in enumerate(values) if v.dtype.kind == "f"]

    def gradient(*tensors: Any) -> Any:
        y = function(*tensors)
        return tf.gradients(y, [tensors[i] for i in floats])

    opened, _ = trace(lambda *t: tf.reduce_sum(function(*t)), tuple(values), True)
    program = opened.compile()
    found = run(gradient, *values, host=True)
    step = 1e-5
    for i, mine in zip(floats, found, strict=True):
        for at in np.ndindex(values[i].shape):
            slopes = []
            for sign in (1, -1):
                moved = [v.copy() for v in values]
                moved[i][at] += sign * step
                slopes.append(float(np.asarray(program.run(moved)[0])))
            slope = (slopes[0] - slopes[1]) / (2 * step)
            assert mine[at] == pytest.approx(slope, rel=1e-6, abs=1e-7), (i, at)
    return found


rng = np.random.default_rng(7)
X = rng.standard_normal((5, 3))
W = rng.standard_normal((3, 3)) * 0.5
V = rng.standard_normal(3)


# --- while_loop -----------------------------------------------------------------------


def power(n: Any, x: Any) -> Any:
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), (0, x))[1]


@pytest.mark.parametrize("n", [-1, 0, 1, 5])
def test_while_loop(n: int) -> None:
    got = run(power, np.int32(n), np.float32(1.5))
    assert got[0] == np.float32(1.5) ** (max(n, 0) + 1)
    assert float(power(n, tf.constant(1.5))) == got[0]


def test_loop_variables_are_a_nest() -> None:
    def loop(x: Any) -> Any:
        start = {"p": Point(x, [x * 2.0]), "i": tf.constant(0)}

        def body(s: Any) -> Any:
            p = s["p"]
            return [{"p": Point(p.x + p.y[0], [p.y[0]]), "i": s["i"] + 1}]

        return tf.while_loop(lambda s: s["i"] < 3, body, [start])

    _, result = trace(loop, (np.float32(1),))
    assert type(result) is list
    assert isinstance(result[0]["p"], Point)
    assert [float(v) for v in run(loop, np.float32(1))] == [3.0, 7.0, 2.0]
    eager = loop(tf.constant(1.0))
    assert float(eager[0]["p"].x) == 7.0
    assert isinstance(eager[0]["p"], Point)


@pytest.mark.parametrize("maximum", [0, 2, 9])
def test_maximum_iterations(maximum: int) -> None:
    def loop(limit: Any) -> Any:
        return tf.while_loop(
            lambda i: i < 5, lambda i: [i + 1], [0], maximum_iterations=limit
        )[0]

    assert run(lambda: loop(maximum))[0] == min(maximum, 5)
    assert run(loop, np.int32(maximum))[0] == min(maximum, 5)
    assert int(loop(maximum)) == min(maximum, 5)


def test_a_loop_may_use_values_around_it_in_condition_and_body() -> None:
    def loop(x: Any, limit: Any) -> Any:
        double = x + x
        return tf.while_loop(lambda y: y < limit * 2.0, lambda y: [y + double], [x])[0]

    assert run(loop, np.float32(1), np.float32(4))[0] == 9.0


def test_carried_values_change_places() -> None:
    def loop(n: Any, a: Any, b: Any, c: Any) -> Any:
        return tf.while_loop(
            lambda i, a, b, c: i < n, lambda i, a, b, c: (i + 1, b, c, a), (0, a, b, c)
        )[1:]

    for n in range(5):
        a, b, c = np.arange(3, dtype=np.float32)[(np.arange(3) + n) % 3]
        got = run(loop, np.int32(n), *np.arange(3, dtype=np.float32))
        assert [float(v) for v in got] == [a, b, c]


def test_collatz_needs_a_branch_in_a_loop() -> None:
    def steps(n: Any) -> Any:
        def body(n: Any, count: Any) -> Any:
            even = tf.equal(n % 2, 0)
            return tf.cond(even, lambda: n // 2, lambda: 3 * n + 1), count + 1

        return tf.while_loop(lambda n, _: tf.not_equal(n, 1), body, (n, 0))[1]

    assert run(steps, np.int32(27))[0] == 111
    assert int(steps(tf.constant(27))) == 111


@pytest.mark.parametrize(
    ("error", "fragments", "loop"),
    [
        (
            TypeError,
            ["'total'", "int32 before the loop", "float32 after one iteration"],
            lambda x: tf.while_loop(
                lambda i, t: i < 3,
                lambda i, t: (i + 1, x),
                (0, 0),
                _names=["i", "total"],
            ),
        ),
        (
            ValueError,
            ["loop_vars[1]['a']", "shape () before", "shape (2,) after"],
            lambda x: tf.while_loop(
                lambda i, d: i < 3,
                lambda i, d: (i + 1, {"a": tf.stack([x, x])}),
                (0, {"a": x}),
            ),
        ),
        (ValueError, ["No loop variables"], lambda x: tf.while_loop(bool, bool, [])),
        (
            TypeError,
            ["result of cond", "scalar bool", "float32"],
            lambda x: tf.while_loop(lambda y: y, lambda y: [y], [x]),
        ),
        (
            ValueError,
            ["structure of loop_vars", "number of elements"],
            lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: [i], (0, x)),
        ),
        (
            TypeError,
            ["'body' must be callable"],
            lambda x: tf.while_loop(lambda y: y < 1.0, None, [x]),
        ),
        (
            TypeError,
            ["'loop_vars' must be a list or a tuple"],
            lambda x: tf.while_loop(lambda y: y < 1.0, lambda y: [y], x),
        ),
    ],
)
def test_what_a_loop_refuses(
    error: type[Exception], fragments: list[str], loop: Callable[..., Any]
) -> None:
    with pytest.raises(error) as info:
        trace(loop, (np.float32(1),))
    for fragment in fragments:
        assert fragment in str(info.value)


# --- cond, switch_case, case ----------------------------------------------------------


def test_cond() -> None:
    def choose(x: Any) -> Any:
        return tf.cond(
            x > 0.0, lambda: {"a": x * 2.0, "b": (x,)}, lambda: {"a": x, "b": (-x,)}
        )

    assert [float(v) for v in run(choose, np.float32(3))] == [6.0, 3.0]
    assert [float(v) for v in run(choose, np.float32(-3))] == [-3.0, 3.0]
    assert float(choose(tf.constant(3.0))["a"]) == 6.0


def test_cond_with_a_known_predicate_calls_one_function() -> None:
    called: list[str] = []
    trace(
        lambda x: tf.cond(tf.constant(True), lambda: x, lambda: called.append("no")),
        (np.float32(1),),
    )
    assert not called


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 7])
def test_switch_case(index: int) -> None:
    def choose(i: Any) -> Any:
        return tf.switch_case(i, {1: lambda: 20, 0: lambda: 10}, default=lambda: 30)

    want = {0: 10, 1: 20}.get(index, 30)
    assert run(choose, np.int32(index))[0] == want
    assert int(choose(tf.constant(index))) == want
    last = run(lambda i: tf.switch_case(i, [lambda: 10, lambda: 20]), np.int32(index))
    assert last[0] == (10 if index == 0 else 20)


@pytest.mark.parametrize(("x", "want"), [(1, 1), (5, 2), (50, 3)])
def test_case(x: int, want: int) -> None:
    def choose(x: Any) -> Any:
        pairs = [(x < 3, lambda: 1), (x < 9, lambda: 2)]
        return tf.case(pairs, default=lambda: 3)

    assert run(choose, np.int32(x))[0] == want
    assert int(choose(tf.constant(x))) == want


@pytest.mark.parametrize(
    ("error", "fragments", "branches"),
    [
        (
            TypeError,
            ["same number, type", "float32[]", "int32[]", "tf.cast"],
            (lambda x: x, lambda x: tf.constant(1)),
        ),
        (TypeError, ["number of elements"], (lambda x: (x, x), lambda x: (x,))),
        (
            ValueError,
            ["float32[]", "float32[2]", "equal shapes"],
            (lambda x: x, lambda x: tf.stack([x, x])),
        ),
        (TypeError, ["returns None"], (lambda x: x, lambda x: None)),
    ],
)
def test_what_branches_refuse(
    error: type[Exception], fragments: list[str], branches: Any
) -> None:
    first, second = branches

    def choose(x: Any) -> Any:
        return tf.cond(x > 0.0, lambda: first(x), lambda: second(x))

    with pytest.raises(error) as info:
        trace(choose, (np.float32(1),))
    for fragment in fragments:
        assert fragment in str(info.value)


def test_branches_may_give_nothing() -> None:
    _, result = trace(
        lambda x: [x, tf.cond(x > 0.0, lambda: None, lambda: None) is None],
        (np.float32(1),),
    )
    assert result[1]


def test_a_switch_of_a_constant_becomes_its_branch() -> None:
    graph = """block b0(%0: float32[]) {
  %1 = constant() {dtype=int32, shape=[], value=0x01000000} : int32[]
  block b1() {
    %2 = exp(%0) : float32[]
  } -> (%2)
  block b2() {
    block b3(%3: float32[]) {
      %4 = add(%3, %0) : float32[]
    } -> (%4)
    %5 = repeat(%1, %0) {body=b3} : float32[]
  } -> (%5)
  %6 = switch(%1) {branches=[b1,b2]} : float32[]
  %7 = mul(%6, %6) : float32[]
} -> (%7)
"""
    folded = _core.graph_pass(graph, "fold")
    assert "switch" not in folded
    assert "exp" not in folded
    assert "repeat" in folded
    (got,) = _core.graph_compile(graph).run([np.float32(3)])
    assert float(got) == 36.0


# --- passes and memory ----------------------------------------------------------------


def test_what_nobody_needs_is_not_carried() -> None:
    def loop(n: Any, x: Any) -> Any:
        def body(i: Any, used: Any, unused: Any, same: Any) -> Any:
            return i + 1, used + same, tf.exp(unused), same

        return tf.while_loop(lambda i, *_: i < n, body, (0, x, x * 2.0, x * 3.0))[1]

    opened, _ = trace(loop, (np.int32(3), np.float32(1)))
    opened.compile()
    node = re.search(r"= while\((.*)\) \{", opened.text)
    assert node is not None
    assert node[1].count("%") == 2  # the counter and what is used
    assert "exp" not in opened.text
    assert run(loop, np.int32(3), np.float32(1))[0] == 10.0


@pytest.mark.parametrize("in_branch", [False, True])
def test_a_row_is_written_in_place(in_branch: bool) -> None:
    """A loop that fills a tensor touches one row in each iteration."""

    def loop(x: Any) -> Any:
        def body(i: Any, rows: Any) -> Any:
            wide = tf.reshape(x * tf.cast(i, tf.float32), (1, 64))

            def write() -> Any:
                return _core.apply("dynamic_update_slice", (rows, wide, i))

            if not in_branch:
                return i + 1, write()
            return i + 1, tf.cond(i > 2, write, lambda: rows)

        return tf.while_loop(lambda i, _: i < 9, body, (0, tf.zeros((9, 64))))[1]

    x = np.ones(64, np.float32)
    shown = text(loop, x)
    inside = shown[shown.index(" while ") : shown.index(" next ")]
    places = re.search(r"dynamic_update_slice\.\w+\((\S+),.*\) -> (\S+)", inside)
    assert places is not None
    assert places[1] == places[2]
    assert "2304 bytes" not in inside
    want = np.arange(9, dtype=np.float32)[:, None] * x
    if in_branch:
        want[:3] = 0
    np.testing.assert_array_equal(run(loop, x)[0], want)


def test_nothing_is_allocated_in_loops() -> None:
    def loop(n: Any, x: Any) -> Any:
        def body(i: Any, rows: Any) -> Any:
            row = tf.cond(i > 3, lambda: tf.tanh(x), lambda: x)
            wide = tf.reshape(row, (1, 3))
            return i + 1, _core.apply("dynamic_update_slice", (rows, wide, i))

        return tf.while_loop(lambda i, _: i < n, body, (0, tf.zeros((8, 3))))[1]

    args = (np.int32(8), np.ones(3, np.float32))
    opened, _ = trace(loop, args)
    program = opened.compile()
    for _ in range(2):
        program.run(list(args))
    assert program.stats["allocations"] == 0
    assert program.stats["steps"] == 8


def test_any_number_of_threads_gives_the_same_bits() -> None:
    def gradient(x: Any, w: Any) -> Any:
        def body(i: Any, h: Any) -> Any:
            h = tf.tanh(tf.matmul(h, w))
            return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: h * h, lambda: h + x)

        y = tf.while_loop(lambda i, _: i < 4, body, (0, x))[1]
        return tf.gradients(y, [x, w])

    made = np.random.default_rng(3)
    x = made.standard_normal((130, 70)).astype(np.float32)
    w = (made.standard_normal((70, 70)) * 0.1).astype(np.float32)
    before = _core.num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            ipu.set_num_threads(threads)
            for fuse in (False, True):
                opened, _ = trace(gradient, (x, w))
                program = opened.compile(fuse=fuse)
                found.append([np.asarray(t) for t in program.run([x, w])])
    finally:
        ipu.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


# --- gradients ------------------------------------------------------------------------


def test_gradient_of_a_counted_while() -> None:
    def loop(x: Any) -> Any:
        return tf.while_loop(
            lambda i, y: i < 4, lambda i, y: (i + 1, tf.tanh(y * x) + y), (0, x)
        )[1]

    check_gradient(loop, V)


@pytest.mark.parametrize("n", [0, 3, 6, 20])
def test_gradient_where_the_number_of_turns_is_known_on_entry_alone(n: int) -> None:
    def loop(n: Any, x: Any) -> Any:
        return tf.while_loop(
            lambda i, y: i < n,
            lambda i, y: (i + 1, tf.tanh(y * x) + x),
            (0, x),
            maximum_iterations=6,
        )[1]

    check_gradient(loop, np.int32(n), V * 0.5)


def test_gradient_of_a_loop_that_stops_by_its_values() -> None:
    def loop(x: Any) -> Any:
        return tf.while_loop(
            lambda y: tf.reduce_sum(y) < 50.0,
            lambda y: [y * y + 1.5],
            [x],
            maximum_iterations=30,
        )[0]

    check_gradient(loop, np.abs(V))


@pytest.mark.parametrize("start", [(7, -2), (1, 1), (0, 3)])
def test_a_loop_that_counts_bounds_itself(start: tuple[int, int]) -> None:
    first, step = start

    def loop(x: Any) -> Any:
        def more(i: Any, y: Any) -> Any:
            return i > 0 if step < 0 else i <= 9

        return tf.while_loop(
            more, lambda i, y: (i + step, tf.tanh(y * x) + x), (first, x)
        )[1]

    check_gradient(loop, np.array([0.9, 1.01, -0.7]))


def test_a_loop_without_a_bound_needs_one_for_its_gradient() -> None:
    def loop(n: Any, x: Any) -> Any:
        y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * y), (0, x))[1]
        return tf.gradients(y, [x])

    with pytest.raises(tf.errors.InvalidArgumentError) as info:
        trace(loop, (np.int32(2), np.float32(3)))
    assert "maximum_iterations" in str(info.value)
    assert os.path.basename(__file__) in str(info.value)


def test_a_loop_whose_gradient_keeps_nothing_needs_no_bound() -> None:
    def loop(n: Any, x: Any, w: Any) -> Any:
        return tf.while_loop(
            lambda i, y: i < n, lambda i, y: (i + 1, y * 2.0 + w), (0, x)
        )[1]

    found = check_gradient(loop, np.int32(3), V, V)
    np.testing.assert_array_equal(found[0], np.full(3, 8.0))
    np.testing.assert_array_equal(found[1], np.full(3, 7.0))


def test_gradient_of_a_branch_is_that_of_the_one_that_was_taken() -> None:
    def choose(x: Any, w: Any) -> Any:
        return tf.cond(
            x[0] > 0.0, lambda: tf.exp(x) * w, lambda: tf.tanh(x) + tf.square(w) * x
        )

    check_gradient(choose, np.array([0.5, 1.0, -2.0]), V)
    check_gradient(choose, np.array([-0.5, 1.0, -2.0]), V)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_gradient_where_a_branch_does_not_use_a_value(index: int) -> None:
    def choose(i: Any, x: Any, w: Any) -> Any:
        return tf.switch_case(i, [lambda: x * x, lambda: x * w, lambda: w * w * w])

    check_gradient(choose, np.int32(index), V, V + 1.0)


def test_gradient_of_a_branch_in_a_loop_in_a_loop() -> None:
    def network(x: Any, w: Any, h: Any) -> Any:
        def body(i: Any, h: Any) -> Any:
            h = tf.tanh(tf.matmul(h, w) + x[i])

            def inner() -> Any:
                return tf.while_loop(
                    lambda j, a: j < 3,
                    lambda j, a: (j + 1, a * tf.sigmoid(a + w[1])),
                    (0, h),
                )[1]

            return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: h * h + w[0, 0], inner)

        return tf.while_loop(lambda i, h: i < 4, body, (0, h))[1]

    check_gradient(network, X, W, rng.standard_normal((2, 3)))


def test_second_gradient_of_a_loop() -> None:
    def slope(x: Any) -> Any:
        y = tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y) * x), (0, x)
        )[1]
        return tf.gradients(y, [x])[0]

    check_gradient(slope, V)


def test_two_gradients_of_one_loop() -> None:
    def both(x: Any, w: Any) -> Any:
        y = tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y * w)), (0, x)
        )[1]
        return tf.gradients(y, [x])[0] * 2.0, tf.gradients(y, [w])[0] + y

    def once(x: Any, w: Any) -> Any:
        y = tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y * w)), (0, x)
        )[1]
        gx, gw = tf.gradients(y, [x, w])
        return gx * 2.0, gw + y

    for a, b in zip(
        run(both, V, V, host=True), run(once, V, V, host=True), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_what_a_loop_does_not_depend_on_has_no_gradient() -> None:
    def loop(x: Any, other: Any) -> Any:
        y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * y), (0, x))[1]
        gx, none = tf.gradients(y, [x, other])
        assert none is None
        return gx

    assert run(loop, np.float32(1.5), np.float32(2))[0] == pytest.approx(8 * 1.5**7)


@pytest.mark.parametrize("written", [False, True])
def test_gradient_of_a_variable_that_a_loop_reads(written: bool) -> None:
    """Each turn's read counts, whether or not a turn writes the variable."""
    device = _core.Device()
    kind = ("float32", ())
    number = device.variable_add(*kind)
    device.variable_write(number, kind, np.float32(0.5))
    resource = (("variable", number, [kind], "w"),)
    opened = _core.Trace()
    with opened:
        x = opened.parameter(kind)

        def body(i: Any, y: Any) -> Any:
            w = opened.node("variable_read", (), None, resource)
            if written:
                opened.node("variable_add", [tf.constant(1.0)], None, resource)
            return i + 1, y * w

        y = tf.while_loop(lambda i, y: i < 3, body, (0, x))[1]
        for gradient in opened.gradients([y], [], [x, number]):
            opened.result(gradient)
    program = opened.compile(device=device, verify=True)
    dx, dw = (float(np.asarray(t)) for t in program.run([np.float32(2)]))
    values = [0.5, 1.5, 2.5] if written else [0.5] * 3
    product = np.prod(values)
    assert dx == pytest.approx(product)
    assert dw == pytest.approx(sum(2 * product / v for v in values))
    if not written:  # the weight is not kept for each turn
        assert "variable[0]" in program.text
        assert "dynamic_update_slice" in program.text
        assert program.text.count("dynamic_update_slice") == 1


def test_a_training_step_in_a_loop_keeps_nothing() -> None:
    """A tape inside a body differentiates that body alone."""
    device = _core.Device()
    kind = ("float32", (3,))
    number = device.variable_add(*kind)
    resource = (("variable", number, [kind], "w"),)
    opened = _core.Trace()
    with opened:
        x = opened.parameter(kind)

        def body() -> None:
            w = opened.node("variable_read", (), None, resource)
            loss = tf.reduce_sum(tf.square(w - x))
            (gradient,) = opened.gradients([loss], [], [number])
            opened.node(
                "sgd_update", [gradient, tf.constant(0.1)], {"momentum": 0.0}, resource
            )

        ipu.loops.repeat(5, body)
    shown = opened.compile(device=device, verify=True).text
    assert "dynamic" not in shown


# --- rows -----------------------------------------------------------------------------


def test_map_fn() -> None:
    def mapped(x: Any, w: Any) -> Any:
        return tf.map_fn(
            lambda pair: (tf.square(pair[0]) * w, pair[1][0]),
            (x, x),
            fn_output_signature=(x.dtype, x.dtype),
        )

    got = run(mapped, X.astype(np.float32), V.astype(np.float32))
    np.testing.assert_allclose(got[0], np.square(X) * V, rtol=1e-5)
    np.testing.assert_array_equal(got[1], X[:, 0].astype(np.float32))
    eager = mapped(tf.constant(X.astype("f4")), tf.constant(V.astype("f4")))
    np.testing.assert_array_equal(np.asarray(eager[0]), got[0])
    check_gradient(lambda x, w: mapped(x, w)[0], X, V)


def test_map_fn_over_no_rows_has_the_types_of_its_results() -> None:
    result = tf.map_fn(
        lambda row: tf.reduce_sum(tf.cast(row, tf.int32)),
        tf.zeros((0, 3)),
        fn_output_signature=tf.int32,
    )
    assert (result.dtype, result.shape) == (tf.int32, (0,))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("initial", [None, 1.0])
def test_scan_and_fold(reverse: bool, initial: float | None) -> None:
    x = X[:, 0].astype(np.float32)
    order = list(x[::-1] if reverse else x)
    want = []
    total = order.pop(0) if initial is None else np.float32(initial)
    want += [total] if initial is None else []
    for row in order:
        total = np.float32(total * np.float32(2) + row)
        want.append(total)
    want = want[::-1] if reverse else want

    def step(a: Any, b: Any) -> Any:
        return a * 2.0 + b

    def scanned(x: Any) -> Any:
        return tf.scan(step, x, initializer=initial, reverse=reverse)

    def folded(x: Any) -> Any:
        fold = tf.foldr if reverse else tf.foldl
        return fold(step, x, initializer=initial)

    np.testing.assert_array_equal(run(scanned, x)[0], np.array(want))
    np.testing.assert_array_equal(np.asarray(scanned(tf.constant(x))), np.array(want))
    np.testing.assert_array_equal(run(folded, x)[0], total)
    np.testing.assert_array_equal(np.asarray(folded(tf.constant(x))), total)
    check_gradient(lambda v: tf.scan(lambda a, b: tf.tanh(a) * b, v), X)


@pytest.mark.parametrize("name", ["scan", "foldl", "foldr"])
def test_functions_over_no_rows_give_what_they_start_from(name: str) -> None:
    """In a function as at once; the gradient of what is passed on is the identity."""
    over = getattr(tf, name)

    def nothing(x: Any) -> Any:
        return over(lambda a, row: a * row, x[:0], x[0])

    def the_first(x: Any) -> Any:
        return over(lambda a, row: a * row, x[:1])

    x = X.astype(np.float32)
    want = np.zeros((0, *x[0].shape), np.float32) if name == "scan" else x[0]
    np.testing.assert_array_equal(run(nothing, x)[0], want)
    np.testing.assert_array_equal(np.asarray(nothing(tf.constant(x))), want)
    want = x[:1] if name == "scan" else x[0]
    np.testing.assert_array_equal(run(the_first, x)[0], want)
    np.testing.assert_array_equal(np.asarray(the_first(tf.constant(x))), want)
    check_gradient(lambda v: v[1] * tf.reduce_sum(nothing(v)), X)


@pytest.mark.parametrize(
    ("error", "fragment", "call"),
    [
        (ValueError, "number of rows", lambda x: tf.map_fn(lambda p: p[0], (x, x[:2]))),
        (ValueError, "not scalars", lambda x: tf.map_fn(lambda r: r, x[0, 0])),
        (TypeError, "callable", lambda x: tf.map_fn(3, x)),
        (
            TypeError,
            "fn_output_signature says int32",
            lambda x: tf.map_fn(lambda r: r, x, fn_output_signature=tf.int32),
        ),
        (TypeError, "first argument", lambda x: tf.scan(lambda a, r: a[0], x)),
        (ValueError, "nothing to start from", lambda x: tf.foldl(max, x[:0])),
    ],
)
def test_what_functions_over_rows_refuse(
    error: type[Exception], fragment: str, call: Callable[..., Any]
) -> None:
    for attempt in (
        lambda: trace(call, (X.astype(np.float32),)),
        lambda: call(tf.constant(X.astype(np.float32))),
    ):
        with pytest.raises(error, match=fragment):
            attempt()


# --- TensorArray ----------------------------------------------------------------------


def filled(x: Any) -> Any:
    array = TensorArray(x.dtype, size=4)

    def body(i: Any, array: Any) -> Any:
        value = x * tf.cast(i, x.dtype)
        return i + 1, tf.cond(i > 1, lambda: array.write(i, value), lambda: array)

    return tf.while_loop(lambda i, _: i < 4, body, (0, array))[1].stack()


def test_a_tensor_array_is_carried_through_loops_and_branches() -> None:
    want = V.astype(np.float32) * np.array([0, 0, 2, 3], np.float32)[:, None]
    np.testing.assert_array_equal(run(filled, V.astype(np.float32))[0], want)
    np.testing.assert_array_equal(np.asarray(filled(tf.constant(V.astype("f4")))), want)
    check_gradient(filled, V)


def test_a_tensor_array_is_carried_through_loops_in_loops() -> None:
    def nested(x: Any) -> Any:
        array = TensorArray(x.dtype, size=2)

        def outer(i: Any, array: Any) -> Any:
            def inner(j: Any, array: Any) -> Any:
                return j + 1, array.write(j, x * tf.cast(i + j, x.dtype))

            return i + 1, tf.while_loop(lambda j, _: j < 2, inner, (0, array))[1]

        return tf.while_loop(lambda i, _: i < 4, outer, (0, array))[1].stack()

    want = V.astype(np.float32) * np.array([3, 4], np.float32)[:, None]
    np.testing.assert_array_equal(run(nested, V.astype(np.float32))[0], want)


def test_tensor_array_members() -> None:
    def use(x: Any) -> Any:
        array = TensorArray(tf.float32, size=5).unstack(x)
        array = array.write(0, x[1]).scatter([3, 4], x[:2])
        more = TensorArray(tf.float32, size=0, dynamic_size=True).write(1, x[0])
        return (
            array.read(3),
            array.gather([4, 0]),
            array.concat(),
            array.size(),
            more.stack(),
        )

    x = X.astype(np.float32)
    whole = np.stack([x[1], x[1], x[2], x[0], x[1]])
    want = [x[0], whole[[4, 0]], whole.reshape(-1), 5, np.stack([x[0] * 0, x[0]])]
    for got in (run(use, x), [np.asarray(v) for v in use(tf.constant(x))]):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("error", "fragment", "call"),
    [
        (IndexError, "out of range", lambda a, x: a.write(2, x)),
        (
            ValueError,
            "one shape",
            lambda a, x: a.write(0, x).write(1, tf.stack([x, x])),
        ),
        (TypeError, "int32", lambda a, x: a.write(0, tf.constant(1))),
        (ValueError, "element shape|not\\s+been written", lambda a, x: a.read(0)),
        (ValueError, "cannot hold", lambda a, x: a.unstack(tf.zeros((3,)))),
    ],
)
def test_what_a_tensor_array_refuses(
    error: type[Exception], fragment: str, call: Callable[..., Any]
) -> None:
    for attempt in (
        lambda: trace(lambda x: call(TensorArray("float32", 2), x), (np.float32(1),)),
        lambda: call(TensorArray("float32", 2), tf.constant(1.0)),
    ):
        with pytest.raises(error, match=fragment):
            attempt()


def test_the_size_of_a_tensor_array_is_known_when_it_is_traced() -> None:
    with pytest.raises(ValueError, match="must be known"):
        trace(lambda n: TensorArray("float32", size=n), (np.int32(3),))


# --- interrupting ---------------------------------------------------------------------


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("inside", [False, True])
def test_an_endless_loop_can_be_interrupted(inside: bool) -> None:
    def endless(x: Any) -> Any:
        return tf.while_loop(lambda y: y >= 0.0, lambda y: [y + 1.0], [x])[0]

    def loop(x: Any) -> Any:
        return ipu.loops.repeat(3, endless, [x]) if inside else endless(x)

    opened, _ = trace(loop, (np.float32(0),))
    program = opened.compile()
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        program.run([np.float32(0)])
    assert time.monotonic() - began < 20
    timer.join()


@pytest.mark.parametrize(
    "body",
    [
        lambda c, y: tf.sqrt(1.5 + c * 2.0 + 1.0),
        lambda c, y: tf.sqrt(1.5 + y * 2.0 + c),
        lambda c, y: y - c,
        lambda c, y: tf.where(y > 0.0, c, y),
        lambda c, y: tf.where(y > 0.0, tf.sqrt(1.5 + c), c * 2.0),
    ],
)
def test_a_carried_update_is_done_in_place(body: Callable[..., Any]) -> None:
    def program(c: Any, y: Any) -> Any:
        return tf.while_loop(
            lambda i, _: i < 5, lambda i, c: (i + 1, body(c, y)), [tf.constant(0), c]
        )[1]

    ones = np.ones(300, np.float32)
    lines = text(program, ones, ones).splitlines()
    first = next(i for i, line in enumerate(lines) if " while " in line)
    last = next(i for i, line in enumerate(lines) if " next " in line)
    assert not [line for line in lines[first:last] if " copy " in line]
    run(program, ones, np.linspace(-1.0, 1.0, 300, dtype=np.float32))
