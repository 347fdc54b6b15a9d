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
from control_flow_programs import run, trace

import ipu
from ipu import _core, tf

Point = namedtuple("Point", "x y")


def text(function: Callable[..., Any], *args: Any) -> str:
    opened, _ = trace(function, args)
    return str(opened.compile(verify=True).text)


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


@pytest.mark.parametrize(
    ("kept", "made", "gone"), [("%9", "exp", "sin"), ("%10", "sin", "exp")]
)
def test_what_is_carried_in_vain_is_not_made(kept: str, made: str, gone: str) -> None:
    graph = f"""block b0(%0: int32[], %1: float32[]) {{
  %2 = exp(%1) : float32[]
  %3 = sin(%1) : float32[]
  block b1(%4: float32[], %5: float32[]) {{
    %6 = neg(%4) : float32[]
    %7 = cos(%5) : float32[]
  }} -> (%6, %7)
  %9, %10 = repeat(%0, %2, %3) {{body=b1}} : float32[], float32[]
}} -> ({kept})
"""
    pruned = _core.graph_pass(graph, "prune")
    assert f"= {made}(" in pruned and f"= {gone}(" not in pruned
    assert re.search(r"%\d+ = repeat\(%0, %\d+\)", pruned)


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
