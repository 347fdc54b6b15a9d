# SPDX-License-Identifier: MIT
"""Makes a failing program small: leaves out what it fails without."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator

from .check import Failure, check_program
from .program import Block, Program, Statement, renamer

MOST_TRIALS = 600
FIXED = ("tape", "watch")  # without them, a gradient of one's own is a wrong one


def failure_of(program: Program) -> Failure | None:
    """In what way a program fails."""
    try:
        check_program(program, "smaller")
    except Failure as failure:
        return failure
    except Exception as error:  # of a program that is none any more
        return Failure(f"{type(error).__name__}", str(error))
    return None


def places(statements: list[Statement]) -> Iterator[tuple[list[Statement], int]]:
    """Each statement's list and place in it, the last ones first, inner ones later."""
    for k in reversed(range(len(statements))):
        yield statements, k
        for block in statements[k].blocks():
            yield from places(block.statements)


def without(statement: Statement, program: Program) -> Iterator[dict[str, str]]:
    """What its outputs may be replaced by."""
    if statement.kind == "index":
        yield dict.fromkeys(statement.outputs, "tf.constant(0)")
        return
    words = re.findall(r"\b\w+\b", "\n".join(statement.lines()))
    first: dict[str, str] = {}
    second: dict[str, str] = {}
    for name, shape in statement.outputs.items():
        number = f"tf.fill({list(shape)}, tf.constant(0.5, tf.float64))"
        fitting = [
            w
            for w in dict.fromkeys(words)
            if program.shapes.get(w) == shape and w not in statement.outputs
        ]
        first[name] = fitting[0] if fitting else number
        second[name] = number
    yield first
    if second != first:
        yield second


def smaller(program: Program) -> Iterator[Program]:
    """Programs with one thing less."""
    for k in range(len(program.terms)):
        if len(program.terms) > 1:
            less = copy.deepcopy(program)
            del less.terms[k]
            yield less
    count = len(list(places(program.statements)))
    for n in range(count):
        statements, k = list(places(program.statements))[n]
        if statements[k].kind in FIXED:
            continue
        for names in without(statements[k], program):
            less = copy.deepcopy(program)
            inside, at = list(places(less.statements))[n]
            del inside[at]
            if names:
                less.replace(renamer(names))
            yield less
    for pattern, simpler in (
        (r"0\.5 \* \(([^()]*)\)", r"\1"),
        (r"tf\.(?:tanh|sin)\(([^()]*)\)", r"\1"),
        (r"\b[23]\b(?=\s*[,:)])", "1"),
    ):
        text = program.source()
        for n in range(len(re.findall(pattern, text))):
            less = copy.deepcopy(program)
            less.replace(_nth(pattern, simpler, n))
            if less.source() != text:
                yield less


def _nth(pattern: str, simpler: str, n: int) -> Callable[[str], str]:
    """Replaces the n-th match of all lines together."""
    left = [n]

    def one(match: re.Match[str]) -> str:
        left[0] -= 1
        return match.expand(simpler) if left[0] == -1 else match[0]

    return lambda line: re.sub(pattern, one, line)


def minimise(program: Program, failure: Failure) -> tuple[Program, Failure]:
    """The smallest program found that fails in the same way."""
    trials = MOST_TRIALS
    again = True
    while again and trials > 0:
        again = False
        for less in smaller(program):
            trials -= 1
            found = failure_of(less)
            if found is not None and found.category == failure.category:
                program, failure, again = less, found, True
                break
            if trials == 0:
                break
    return program, failure


__all__ = ["Block", "failure_of", "minimise"]
