# SPDX-License-Identifier: MIT
"""Which calls of a program cannot work: their arguments, found without running it."""

from __future__ import annotations

import ast
import contextlib
import difflib
import functools
import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ipu._text import refusals

_PLACED = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


class Fault(NamedTuple):
    """An argument that a call does not take.

    Attributes:
        argument: Its name; "" for the call as a whole.
        why: What is wrong.
    """

    argument: str
    why: str


def faults(
    function: Any, method: str, node: ast.Call, has_self: bool = False
) -> Iterator[Fault]:
    """Find the arguments that a call does not take."""
    given = {word.arg: word.value for word in node.keywords if word.arg is not None}
    rows = refusals.rows_of(f".{method}")
    if function is not None:
        where = getattr(function, "__module__", "")
        rows += refusals.rows_of(f"{where}.{getattr(function, '__qualname__', '')}")
        parameters = _parameters(function)[has_self:]
        given = {**_positional(parameters, node), **given}
        yield from _unknown(function, parameters, node)
        yield from _miscounted(function, parameters, node)
    for row in rows:
        if row.argument is None:
            yield Fault("", row.text(""))
        elif row.argument in given:
            value = _literal(given[row.argument])
            if row.refuses(value):
                yield Fault(row.argument, row.text(_shown(value)))


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        is_several = isinstance(node, (ast.List, ast.Tuple))
        return [...] if is_several else refusals.UNKNOWN


def _shown(value: Any) -> str:
    return "..." if value is refusals.UNKNOWN else repr(value)


def _parameters(function: Any) -> list[inspect.Parameter]:
    """Return parameters of a function; of a class, those that its objects are made
    with."""
    with contextlib.suppress(TypeError, ValueError):
        found = list(inspect.signature(function).parameters.values())
        if isinstance(function, type) and not any(map(_is_named, found)):
            # `__new__` takes anything, and `__init__` says what it may be
            own = inspect.signature(function.__init__)  # type: ignore[misc]
            found = list(own.parameters.values())[1:]
        return found
    return []


def _is_named(parameter: inspect.Parameter) -> bool:
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return parameter.kind not in kinds


def _positional(
    parameters: list[inspect.Parameter], node: ast.Call
) -> dict[str, ast.expr]:
    names = [one.name for one in parameters if one.kind in _PLACED]
    if any(isinstance(value, ast.Starred) for value in node.args):
        return {}
    return dict(zip(names, node.args, strict=False))


def _unknown(
    function: Any, parameters: list[inspect.Parameter], node: ast.Call
) -> Iterator[Fault]:
    """Yield keywords that a function does not have; of one that takes any, none."""
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    names = {one.name for one in parameters if _is_named(one)}
    known = names | (_passed_on(function) or set() if takes_any else set())
    if not parameters or (takes_any and known == names):
        return
    for word in node.keywords:
        if word.arg is not None and word.arg not in known:
            near = difflib.get_close_matches(word.arg, names, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            text = f"{_name(function)}() got an unexpected keyword argument"
            yield Fault(word.arg, f"{text} {word.arg!r}.{hint}")


@functools.lru_cache(maxsize=256)
def _passed_on(function: Any) -> set[str] | None:
    """Return what a class of layers or optimizers takes as ``**kwargs``: the parameters
    of its base classes, and the words in their sources, or listed there. Both refuse
    all other keywords.
    """
    from ipu.keras.layers import Layer
    from ipu.keras.optimizers import Optimizer

    if not isinstance(function, type) or not issubclass(function, (Layer, Optimizer)):
        return None
    known: set[str] = set()
    for base in function.__mro__[:-1]:
        with contextlib.suppress(OSError, TypeError):
            known.update(inspect.signature(base.__init__).parameters)  # type: ignore[misc]
            module = inspect.getmodule(base)
            known.update(getattr(module, "_KEYWORDS", ()))
            source = inspect.getsource(module or base)
            known.update(re.findall(r"[\"'](\w+)[\"']", source))
    return known


def _name(function: Any) -> str:
    """Return what Python calls a function in the message about its arguments."""
    name = getattr(function, "__qualname__", "")
    return f"{name}.__init__" if isinstance(function, type) else name


def _miscounted(
    function: Any, parameters: list[inspect.Parameter], node: ast.Call
) -> Iterator[Fault]:
    """Yield arguments that are not there, and those that are too many."""
    starred = any(isinstance(value, ast.Starred) for value in node.args)
    if starred or not parameters or any(word.arg is None for word in node.keywords):
        return
    name = _name(function)
    places = [one for one in parameters if one.kind in _PLACED]
    many = len(node.args) - len(places)
    takes_any = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters)
    if many > 0 and not takes_any:
        text = f"{name}() takes {len(places)} positional arguments"
        yield Fault("", f"{text}, and {len(node.args)} are given.")
    given = {word.arg for word in node.keywords}
    given.update(one.name for one in places[: len(node.args)])
    for one in parameters:
        is_needed = one.default is inspect.Parameter.empty and _is_named(one)
        if is_needed and one.name not in given:
            yield Fault(one.name, f"{name}() misses the argument {one.name!r}.")
