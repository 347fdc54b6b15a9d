# SPDX-License-Identifier: MIT
"""Which lambda of a line a function is, with and without columns in its code."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from ipu import tf
from ipu.tf.autograph import _source

outer = 10.0


def lines(x: float) -> list[tuple[Callable[..., Any], str]]:
    """Lambdas of equal parameters that share lines, and their bodies."""
    local = 2.0
    # fmt: off
    a, b = (lambda v: v if v > 0 else -v), (lambda v: v if v > 1 else -v)
    c, d = (lambda v: v + local), (lambda v: v + outer)
    e = lambda v: (lambda v: v * 3)(v) + 1; f = e(0) and e.__code__  # noqa: E702, E731
    h, i = (lambda v: v * 4.0 if v else None), (lambda v: {"k": v and 4.0}["k"])
    # fmt: on
    assert f is not None
    return [
        (a, "v if v > 0 else -v"),
        (b, "v if v > 1 else -v"),
        (c, "v + local"),
        (d, "v + outer"),
        (e, "(lambda v: v * 3)(v) + 1"),
        (h, "v * 4.0 if v else None"),
        (i, "{'k': v and 4.0}['k']"),
    ]


def inner_lambda() -> Callable[..., Any]:
    made = lambda: (1, lambda: 2)  # noqa: E731
    return made()[1]


@pytest.mark.parametrize("columns", [True, False])
def test_the_right_one_is_found(columns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not columns:  # as Python 3.10 has it, or -X no_debug_ranges
        monkeypatch.setattr(_source, "_places", lambda code: [])
    for function, body in [*lines(1.0), (inner_lambda(), "2")]:
        node = _source.find(function)
        assert isinstance(node, ast.Lambda)
        assert ast.unparse(node.body) == body


def test_programs_with_several_on_a_line_work_without_a_warning() -> None:
    @tf.function
    def program(x: Any) -> Any:
        a, b = (lambda v: v if v > 1.0 else -v), (lambda v: v if v > 3.0 else -v)
        return a(x), b(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [float(y) for y in program(tf.constant(2.0))] == [2.0, -2.0]


def test_lambdas_of_comprehensions_and_generators() -> None:
    made = [lambda v, more=k: v if v > more else -v for k in (1.0, 3.0)]
    lazy = (lambda v, more=k: v if v > more else -v for k in (1.0, 3.0))
    named = {k: lambda v, more=k: v if v > more else -v for k in (1.0, 3.0)}
    for each in (made, list(lazy), list(named.values())):
        program = tf.function(lambda x, each=each: [one(x) for one in each])
        assert [float(y) for y in program(tf.constant(2.0))] == [2.0, -2.0]


def test_a_warning_only_where_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_source, "_places", lambda code: [])
    monkeypatch.setattr(_source, "_by_content", lambda found, code: found)
    plain, other = (lambda v: v + 1.0), (lambda v: v + 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert float(tf.function(plain)(tf.constant(1.0))) == 2.0
        assert float(tf.function(other)(tf.constant(1.0))) == 3.0
    first, second = (lambda v: abs(v) or v), (lambda v: v and abs(v))
    with pytest.warns(RuntimeWarning, match="2 lambdas with the same arguments"):
        tf.autograph.tf_convert(first)
    assert second is not first
