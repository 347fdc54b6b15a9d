# SPDX-License-Identifier: MIT
"""Converts a function object: its source, rewritten, compiled at the same lines.

The new function has the old one's globals and closure cells, so that both see the same
variables; tracebacks, ``pdb`` and ``inspect`` show the user's own lines.
"""

from __future__ import annotations

import ast
import copy
import functools
import types
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from ipu._device.locks import Lock
from ipu._text.user_warnings import warn_user
from ipu.tf.autograph import _source
from ipu.tf.autograph._build import RUNTIME, statements
from ipu.tf.autograph._calls import CONVERTED
from ipu.tf.autograph._transform import transform

_FACTORY = "ag__factory"
_UNKNOWN = "not known while a function is traced"  # of errors of the core
_lock = Lock()  # CPython 3.11's parser fails where two threads are in it


def _class_of(function: types.FunctionType) -> str:
    """Return the class that a method was defined in, for names that start with
    ``__``."""
    parts = function.__qualname__.split(".")
    # what is no identifier is a function's inside, or a comprehension
    inside = len(parts) > 1 and parts[-2].isidentifier()
    return parts[-2] if inside else "AgFunction"


def _rewritten(function: types.FunctionType) -> ast.FunctionDef | ast.Lambda:
    node = copy.deepcopy(_source.find(function))
    if isinstance(node, ast.FunctionDef):
        node.decorator_list = []
        node.returns = None
        args = node.args
        for argument in (*args.posonlyargs, *args.args, *args.kwonlyargs):
            argument.annotation = None
        for extra in (args.vararg, args.kwarg):
            if extra is not None:
                extra.annotation = None
    return transform(node)


def _code_named(code: types.CodeType, name: str) -> types.CodeType:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and constant.co_name == name:
            return constant
    raise _source.SourceError(f"the code of {name} was lost")  # cannot happen


def _compile(function: types.FunctionType) -> types.CodeType:
    """Return the converted code, with free variables in place of the closure's."""
    node = _rewritten(function)
    code = function.__code__
    name = code.co_name
    owner = _class_of(function)
    definition: ast.stmt
    if isinstance(node, ast.Lambda):
        definition = ast.copy_location(ast.Expr(node), node)
    else:
        definition = node
    free = [RUNTIME, *(n for n in code.co_freevars if n != "__class__")]
    # the class of this name that the function reads is its module's, or one of `free`
    outside = "" if owner in free else f"    global {owner}\n"
    made = ast.Module(
        statements(
            f"def {_FACTORY}():\n{outside}    {' = '.join(free)} = None\n"
            f"    class {owner}:\n        body_",
            definition,
            body_=[definition],
        ),
        type_ignores=[],
    )
    ast.fix_missing_locations(made)
    try:
        whole = compile(made, code.co_filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise _source.SourceError(f"{function.__qualname__}: {error}") from error
    factory = _code_named(whole, _FACTORY)
    return _code_named(_code_named(factory, owner), name)


_compiled: WeakKeyDictionary[types.CodeType, types.CodeType] = WeakKeyDictionary()


def convert(function: types.FunctionType) -> types.FunctionType:
    """Convert a Python function.

    Raises:
        SourceError: Its source cannot be had.
    """
    if hasattr(function, CONVERTED):
        return function
    from ipu.tf.autograph import _runtime

    code = _compiled.get(function.__code__)
    if code is None:
        try:
            with _lock:
                code = _compile(function)
        except _source.NothingToConvert:
            return function
        _compiled[function.__code__] = code
    cells = dict(
        zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    )
    cells[RUNTIME] = types.CellType(_runtime)
    made = types.FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in code.co_freevars),
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    made.__module__ = function.__module__
    made.__doc__ = function.__doc__
    made.__dict__.update(function.__dict__)
    setattr(made, CONVERTED, True)
    return made


_unavailable: dict[types.CodeType, str] = {}  # why there is no source


def convert_quietly(function: types.FunctionType) -> Callable[..., Any]:
    """Convert a function; where its source cannot be had, say so once and give it."""
    reason = _unavailable.get(function.__code__)
    if reason is not None:
        return _unconverted(function, reason)
    try:
        return convert(function)
    except _source.SourceError as error:
        reason = _unavailable[function.__code__] = str(error)
        warn_user(
            f"AutoGraph could not convert {function.__qualname__}: {error}. It is "
            "traced as plain Python: `if`, `while` and `for` on tensors are errors in "
            "it. Put the function in a file or a notebook, or decorate it with "
            "tf.autograph.experimental.do_not_convert.",
            RuntimeWarning,
        )
        return _unconverted(function, reason)


def _unconverted(function: types.FunctionType, reason: str) -> Callable[..., Any]:
    """Return the function, with the reason in errors that come of not being
    converted."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            text = str(error)
            if _UNKNOWN in text and reason not in text:
                error.args = (
                    f"{text}. If it is needed for an `if`, `while` or `for` on a "
                    f"tensor: AutoGraph could not convert {function.__qualname__}, "
                    f"since {reason}. Put the function in a file or a notebook.",
                )
            raise

    return call


def converted_source(function: Any) -> str:
    """Return the converted source text."""
    function = getattr(function, "python_function", function)
    function = getattr(function, "__func__", function)
    return ast.unparse(_rewritten(function))
