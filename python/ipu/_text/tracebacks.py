# SPDX-License-Identifier: MIT
"""Tracebacks that end at the user's line.

Functions for users are marked with :func:`boundary`. An exception that leaves such a
function loses the package's frames, and those of libraries that the package called; the
user's own, between them, stay. ``tf.debugging.disable_traceback_filtering()`` and
``IPU_TRACEBACK_FILTERING=off`` keep them all.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any, TypeVar, cast

from ipu._text.missing import PACKAGE, is_library
from ipu._text.suggestions import hint

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

_VARIABLE = "IPU_TRACEBACK_FILTERING"
_UNEXPECTED = re.compile("got an unexpected keyword argument '([^']*)'")


class _Settings:
    is_enabled = os.environ.get(_VARIABLE, "").lower() not in ("off", "0", "false")


def is_enabled() -> bool:
    """Return whether frames of the package are taken out of tracebacks."""
    return _Settings.is_enabled


def set_enabled(value: bool) -> None:
    """Choose whether frames of the package are taken out of tracebacks."""
    _Settings.is_enabled = value


def _without_own(trace: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    is_inside = False
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        is_inside = file.startswith(PACKAGE) or (is_inside and is_library(file))
        if not is_inside:
            kept.append(trace)
        trace = trace.tb_next
    rest: TracebackType | None = None
    for entry in reversed(kept):
        entry.tb_next = rest
        rest = entry
    return rest


def drop_own_frames(error: BaseException) -> None:
    """Take the package's frames out of what an exception, and its reasons, show.

    Args:
        error: The exception; nothing happens to it where filtering is off.
    """
    if not _Settings.is_enabled:
        return
    trace = error.__traceback__
    if sys.version_info >= (3, 11):
        error.__traceback__ = _without_own(trace)
    elif trace is not None:  # there `raise` goes back to the first entry: ours stays
        trace.tb_next = _without_own(trace.tb_next)
    context = error.__context__
    if context is None or error.__suppress_context__:
        context = error.__cause__
    if context is not None and context.__traceback__ is not None:
        context.__traceback__ = _without_own(context.__traceback__)
        if context.__traceback__ is None and error.__cause__ is None:
            # it was ours alone, and says nothing to the user
            error.__suppress_context__ = True


def boundary(
    function: F,
    convert: Callable[[Any], Any] | None = None,
    after: Callable[..., None] | None = None,
) -> F:
    """Let what ``function`` raises show frames of the user's program alone.

    Args:
        function: The function that is called.
        convert: Applied to each argument before; None: nothing is.
        after: Gets the result, the function, its arguments and its keywords, or None.

    Example:
        >>> import traceback
        >>> try:
        ...     tf.matmul(tf.ones((2, 3)), tf.ones((2, 3)))
        ... except tf.errors.InvalidArgumentError as error:
        ...     names = {one.name for one in traceback.extract_tb(error.__traceback__)}
        >>> "matmul" in names
        False
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if convert is not None:
                args = tuple(map(convert, args))
                kwargs = {name: convert(value) for name, value in kwargs.items()}
            result = function(*args, **kwargs)
            if after is not None:
                after(result, function, args, kwargs)
            return result
        except BaseException as error:
            if type(error) is TypeError:
                explain_arguments(error, function, args)
            drop_own_frames(error)
            raise

    return cast(F, call)


def explain_arguments(
    error: TypeError, function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    """Put a call that Python refuses in the terms of the user's program.

    A method is named with the class that the user knows, not with ours that defines it.
    In place of a keyword that is none the nearest parameter is offered.

    Args:
        error: What the call raised; changed where it is about the arguments.
        function: The function that was called.
        args: Its positional arguments.
    """
    trace = error.__traceback__
    text, method = str(error), function.__qualname__
    if trace is None or trace.tb_next is not None or not text.startswith(f"{method}()"):
        return
    if args and "." in method and not isinstance(args[0], type):
        own = f"{type(args[0]).__name__}.{function.__name__}"
        text = own + text.removeprefix(method)
    found = _UNEXPECTED.search(text)
    if found is not None:
        import inspect

        parameters = inspect.signature(function).parameters
        known = [name for name in parameters if name != "self"]
        # Python 3.13 has a hint of its own, which knows no upper case
        text = text[: found.end()] + hint(found[1], known, 0.6).replace(" ", ". ", 1)
    error.args = (text,)


def boundaries(
    *names: str,
    convert: Callable[[Any], Any] | None = None,
    after: Callable[..., None] | None = None,
) -> Callable[[C], C]:
    """Mark methods that a class defines.

    Args:
        *names: Their names; none: all public methods.
        convert, after: As for :func:`boundary`.
    """

    def mark(cls: C) -> C:
        for name, value in list(vars(cls).items()):
            if name not in names and (names or name.startswith("_")):
                continue
            if isinstance(value, (staticmethod, classmethod)):
                setattr(
                    cls, name, type(value)(boundary(value.__func__, convert, after))
                )
            elif isinstance(value, FunctionType):
                setattr(cls, name, boundary(value, convert, after))
        return cls

    return mark
