# SPDX-License-Identifier: MIT
"""Mutants: each is one change, behind a switch, in a program that is right."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from core_builds import COMPILER, run
from mutation import c_mutants, py_mutants

SOURCE = """
#define TWICE(x) ((x) * 2)

int sum(int most, int given);

static void add(int *to, int more) { *to += more; }

int
sum(int most, int given)
{
    int all = 0;
    for (signed char i = 1; i < most; i++) {
        if (i == 3 && given > 6) {
            continue;
        }
        add(&all, TWICE(i + 1));
    }
    switch (all & 3) {
    case 2:
        all -= 4;
        break;
    default:
        all += 10 * all + !given;
    }
    return all;
}
"""
MAIN = """
#include <stdio.h>
#include "switch.h"
static union { ipu_switch_page page; char bytes[100]; } given;
ipu_switch_page *ipu_switch = &given.page;
int sum(int most, int given);
int main(void)
{
    for (int i = 0; i <= COUNT; i++) {
        ipu_switch->on = i;
        for (int most = 0; most < 9; most++) {
            printf("%d %d %d ", sum(most, 0), sum(most, 6), sum(most, 7));
        }
        puts("");
    }
}
"""
# `change #2` is a second one of that text in its function
WANTED = """
add: *to += more left out
sum: 0 + 1 in int all = 0;
sum: 1 + 1 in for (signed char i = 1; i < most; i++) {
sum: 1 -> 0 in for (signed char i = 1; i < most; i++) {
sum: i < most: < -> <=
sum: i < most: < -> >=
sum: i == 3 && given > 6: && -> ||
sum: i == 3 && given > 6: i == 3 left out
sum: i == 3 && given > 6: given > 6 left out
sum: i == 3: == -> !=
sum: 3 + 1 in if (i == 3 && given > 6) {
sum: 3 -> 0 in if (i == 3 && given > 6) {
sum: given > 6: > -> >=
sum: given > 6: > -> <=
sum: 6 + 1 in if (i == 3 && given > 6) {
sum: 6 -> 0 in if (i == 3 && given > 6) {
sum: continue -> break
sum: add(&all, TWICE(i + 1)) left out
sum: i + 1: + -> -
sum: 1 + 1 in add(&all, TWICE(i + 1));
sum: 1 -> 0 in add(&all, TWICE(i + 1));
sum: all & 3: & -> |
sum: 3 + 1 in switch (all & 3) {
sum: 3 -> 0 in switch (all & 3) {
sum: all -= 4 left out
sum: 4 + 1 in all -= 4;
sum: 4 -> 0 in all -= 4;
sum: break -> nothing
sum: all += 10 * all + !given left out
sum: 10 * all + !given: + -> -
sum: 10 * all: * -> +
sum: 10 + 1 in all += 10 * all + !given;
sum: 10 -> 0 in all += 10 * all + !given;
sum: !given negated
sum: all returned as 0
""".strip().split("\n")


@pytest.mark.compiles
def test_every_mutant_is_one_change_behind_a_switch(tmp_path: Path) -> None:
    if shutil.which("clang") is None:
        pytest.skip("needs clang")
    source, target = tmp_path / "sum.c", tmp_path / "mutants" / "sum.c"
    source.write_text(SOURCE)
    made = c_mutants.mutate(source, ["-std=c11"], COMPILER, target, 1)
    names = c_mutants.named("sum.c", made)
    assert [name.removeprefix("sum.c ") for name in names] == WANTED
    assert [mutant.line for mutant in made] == sorted(mutant.line for mutant in made)
    program = tmp_path / "program"
    (tmp_path / "main.c").write_text(MAIN.replace("COUNT", str(len(made))))
    search = f"-I{Path(c_mutants.__file__).parent}"
    files = [str(target), str(tmp_path / "main.c")]
    run([*COMPILER, "-w", search, *files, "-o", str(program)])
    none, *changed = run([str(program)], timeout=60).splitlines()
    run([*COMPILER, "-w", search, str(source), files[1], "-o", str(program)])
    assert none == run([str(program)], timeout=60).splitlines()[0]
    same = {name for name, text in zip(WANTED, changed, strict=True) if text == none}
    assert same == set()


PYTHON = '''
LIMIT = 3


def total(given, most=4):
    """Add some."""
    result = 0
    for one in given:
        if one is None or one > most:
            continue
        result += 2 * one
    if not result:
        raise ValueError(f"{given + 1}")
    return [result, given.count(1) == 1]
'''
WANTED_OF_PYTHON = """
0 + 1 in result = 0
one is None -> IsNot
one > most -> GtE
one is None or one > most -> And
one is None or one > most without one is None
one is None or one > most without one > most
continue left out
one is None or one > most negated
2 + 1 in result += 2 * one
2 * one -> Add
result += 2 * one left out
not result negated
raise ValueError(f'{given + 1}') left out
1 + 1 in return [result, given.count(1) == 1]
1 + 1 in return [result, given.count(1) == 1] #2
given.count(1) == 1 -> NotEq
return [result, given.count(1) == 1] as None
""".strip().split("\n")


def test_mutants_of_python_are_changes_of_functions() -> None:
    tree, names = py_mutants.mutate(PYTHON, "sum.py", 1)
    assert [name.removeprefix("sum.py total: ") for name in names] == WANTED_OF_PYTHON

    reached = set()

    def told(code: Any, on: int = 0) -> list[str]:
        def is_on(number: int) -> bool:
            reached.add(number)
            return number == on

        space: dict[str, Any] = {"_mutant": is_on}
        exec(code, space)
        found = []
        for given in ([1, None, 4, 5], [2, 2, 1, 1], [7], []):
            try:
                found.append(str(space["total"](given)))
            except Exception as error:
                found.append(type(error).__name__)
        return found

    code = compile(tree, "sum.py", "exec")
    right = told(PYTHON)
    assert told(code) == right and reached == {*range(1, len(names) + 1)}
    assert [name for n, name in enumerate(names, 1) if told(code, n) == right] == []
