# SPDX-License-Identifier: MIT
"""Which calls of a program cannot work: their arguments, found without running it."""

from __future__ import annotations

import ast
import difflib
import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

from ipu import _refusals

__all__ = ["Fault", "faults"]


class Fault(NamedTuple):
    """An argument that a call does not take.

    Attributes:
        argument: Its name.
        why: What is wrong.
    """

    argument: str
    why: str


def faults(function: Any, method: str, node: ast.Call) -> Iterator[Fault]:
    """Find the arguments that a call does not take.

    Args:
        function: What is called, where that is known; else None.
        method: The last part of its name.
        node: The call.
    """
    given = {word.arg: word.value for word in node.keywords if word.arg is not None}
    if function is None:
        rows = _refusals.rows_of(f".{method}")
    else:
        where = getattr(function, "__module__", "")
        rows = _refusals.rows_of(f"{where}.{getattr(function, '__qualname__', '')}")
        parameters = _parameters(function)
        given = {**_positional(parameters, node), **given}
        yield from _unknown(parameters, node)
    for row in rows:
        if row.argument in given:
            value = _literal(given[row.argument])
            if row.refuses(value):
                yield Fault(row.argument, row.why.format(value=_shown(value)))


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        is_several = isinstance(node, (ast.List, ast.Tuple))
        return [...] if is_several else _refusals.UNKNOWN


def _shown(value: Any) -> str:
    return "..." if value is _refusals.UNKNOWN else repr(value)


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _positional(
    parameters: list[inspect.Parameter], node: ast.Call
) -> dict[str, ast.expr]:
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    names = [one.name for one in parameters if one.kind in kinds]
    if any(isinstance(value, ast.Starred) for value in node.args):
        return {}
    return dict(zip(names, node.args, strict=False))


def _unknown(parameters: list[inspect.Parameter], node: ast.Call) -> Iterator[Fault]:
    """Keywords that a function does not have; of one that takes any, none."""
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    if takes_any or not parameters:
        return
    names = [one.name for one in parameters]
    for word in node.keywords:
        if word.arg is not None and word.arg not in names:
            near = difflib.get_close_matches(word.arg, names, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            yield Fault(word.arg, f"There is no such argument here.{hint}")
