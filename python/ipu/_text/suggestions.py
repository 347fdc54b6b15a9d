# SPDX-License-Identifier: MIT
"""Which name somebody meant who wrote one that is not there."""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Iterable


def nearest_name(name: str, known: Iterable[str], cutoff: float = 0.7) -> str | None:
    """Return the known name that a name is a misspelling of, or None.

    Case does not count: ``Conv2d`` is ``Conv2D``.

    Args:
        name: The name that is not known.
        known: The names there are.
        cutoff: How near a name must be, from 0 to 1.

    Example:
        >>> nearest_name("Conv2d", ["Conv1D", "Conv2D"])
        'Conv2D'
    """
    import difflib

    lowered = {candidate.lower(): candidate for candidate in known}
    same = lowered.get(name.lower())
    if same is not None:
        return same
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=cutoff)
    return lowered[near[0]] if near else None


def hint(name: str, known: Iterable[str], cutoff: float = 0.7) -> str:
    """Return `` Did you mean 'Conv2D'?``, or "" where no name is near.

    Example:
        >>> hint("trainabel", ["name", "trainable"])
        " Did you mean 'trainable'?"
    """
    near = nearest_name(name, known, cutoff)
    return "" if near is None else f" Did you mean {near!r}?"


def refuse_unknown(
    function: str, given: Iterable[str], known: Iterable[str] = ()
) -> None:
    """Refuse keyword arguments that a function does not have.

    Args:
        function: The function that is called, for the message.
        given: The names of the arguments.
        known: Those that it has.

    Example:
        >>> refuse_unknown("Variable", {}, ["trainable"])
    """
    names = set(known)
    for name in given:
        if name not in names:
            raise TypeError(
                f"{function}() got an unexpected keyword argument {name!r}."
                f"{hint(name, names)}"
            )


@functools.cache
def ignored_keywords(function: types.FunctionType) -> frozenset[str] | None:
    """Return the parameters of a function that takes any keyword and looks at none of
    those that are not parameters; None for any other function.

    Example:
        >>> def ignores(x, **kwargs):
        ...     return x
        >>> ignored_keywords(ignores)
        frozenset({'x'})
        >>> ignored_keywords(nearest_name) is None
        True
    """
    parameters = inspect.signature(function).parameters.values()
    kinds = {one.name: one.kind for one in parameters}
    rest = [n for n, kind in kinds.items() if kind is inspect.Parameter.VAR_KEYWORD]
    code = function.__code__
    if not rest or rest[0] in code.co_cellvars:
        return None
    for step in dis.get_instructions(code):
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if step.opname.startswith("LOAD") and rest[0] in names:
            return None
    return frozenset(kinds) - {"self", rest[0]}
