# SPDX-License-Identifier: MIT
"""Random programs: their derivatives against differences, their forms to each other.

What fails is printed as a small program that fails in the same way.
"""

from __future__ import annotations

import pytest
from fuzz.check import Failure, check_program, load
from fuzz.generate import Generator, generate
from fuzz.minimise import minimise
from fuzz.ops import makers
from fuzz.program import Program, Statement

# of all programs: differences of the others disagree, near kinks, or are not finite
COMPARED = 0.9


def check_seed(seed: int) -> bool:
    """Whether the seed's program was compared with differences."""
    program = generate(seed)
    try:
        return check_program(program, str(seed))
    except Failure as failure:
        program, failure = minimise(program, failure)
        pytest.fail(program.text(seed, str(failure)), pytrace=False)


def check_seeds(first: int, count: int) -> None:
    compared = sum(map(check_seed, range(first, first + count)))
    assert compared >= COMPARED * count


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_random_programs(first: int) -> None:
    check_seeds(first, 50)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 21_000, 250))
def test_many_random_programs(first: int) -> None:
    check_seeds(first, 250)


# --- the test's own teeth -------------------------------------------------------------


def program_of(*lines: str) -> Program:
    """A program of a vector x0 whose loss is that of its last line."""
    statements = [
        Statement("line", [line], {line.split()[0]: (2,)} if " = " in line else {})
        for line in lines
    ]
    shapes = {name: (2,) for s in statements for name in s.outputs} | {"x0": (2,)}
    last = next(iter(statements[-1].outputs))
    term = f"tf.reduce_sum({last})"
    return Program({"x0": [0.5, -1.25]}, {}, statements, [term], shapes)


def wrong(factor: str) -> list[str]:
    return [
        "v1 = tf.sin(x0)",
        "v2 = v1 * v1",
        "@tf.custom_gradient",
        "def inner(p): return p * p, lambda dy: " + factor,
        "v3 = inner(v1)",
        "v4 = v3 + v2",
    ]


def test_a_right_program_is_compared() -> None:
    assert check_program(program_of(*wrong("2.0 * dy * p")))


@pytest.mark.parametrize(
    ("factor", "category"),
    [
        ("2.002 * dy * p", "first"),
        ("dy * tf.stop_gradient(2.0 * p)", "second"),
        ("None", "first"),
        ("dy * tf.constant(float('nan'), tf.float64)", "first"),
    ],
)
def test_wrong_gradients_are_caught(factor: str, category: str) -> None:
    with pytest.raises(Failure) as caught:
        check_program(program_of(*wrong(factor)))
    assert caught.value.category == category


@pytest.mark.parametrize(("factor", "is_right"), [("2.0", True), ("2.01", False)])
def test_wrong_gradients_by_variables_are_caught(factor: str, is_right: bool) -> None:
    program = program_of(
        "v1 = tf.cast(state1, tf.float64)",
        "@tf.custom_gradient",
        f"def inner(p): return p * p, lambda dy: {factor} * dy * p",
        "v2 = inner(v1)",
        "v3 = v2 * x0",
    )
    program.states = {"state1": [0.75, 1.5]}
    if is_right:
        assert check_program(program)
    else:
        with pytest.raises(Failure, match="by variables"):
            check_program(program)


def test_what_variables_hold_is_compared() -> None:
    program = program_of(
        "v1 = tf.cast(state1, tf.float64) * x0",
        "state1.assign(state1 + float(len(made)))",
        "made[len(made)] = 1",
    )
    program.states = {"state1": [0.75, 1.5]}
    program.terms = ["tf.reduce_sum(v1)"]
    with pytest.raises(Failure, match="unfused: variables"):
        check_program(program)


def test_forms_that_differ_are_caught() -> None:
    """What the second trace computes otherwise."""
    program = program_of("v1 = x0 * (2.0 + len(made))", "made[len(made)] = 1")
    program.terms = ["tf.reduce_sum(v1)"]
    with pytest.raises(Failure, match="unfused"):
        check_program(program)


def test_what_is_left_out_leaves_the_failure() -> None:
    program = program_of("v0 = tf.cos(x0)", *wrong("2.1 * dy * p"))
    with pytest.raises(Failure) as caught:
        check_program(program)
    small, failure = minimise(program, caught.value)
    assert failure.category == "first"
    assert len(small.statements) == 3  # the decorator, the function, its call
    with pytest.raises(Failure, match="first"):
        load(small.text(0, str(failure)), "small")


def test_a_seed_gives_one_program() -> None:
    texts = [generate(seed).source() for seed in (5, 6, 5)]
    assert texts[0] == texts[2] != texts[1]


def test_what_is_avoided_does_not_occur() -> None:
    avoided = {"while_loop", "matmul", "recompute"}
    assert avoided <= set().union(*(generate(seed).kinds() for seed in range(100)))
    for seed in range(100):
        assert not generate(seed, avoided).kinds() & avoided


def test_all_constructions_occur() -> None:
    names = {name for name, _ in [*makers(), *Generator(0).controls]} - {"state"}
    found = set().union(*(generate(seed).kinds() for seed in range(1500)))
    assert names <= found
