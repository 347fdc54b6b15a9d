# SPDX-License-Identifier: MIT
"""Calls in converted code: what is called is converted too, where it is the user's."""

from __future__ import annotations

import builtins
import functools
import os
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ipu import _core
from ipu.tf._ops import creation
from ipu.tf._tensor import convert
from ipu.tf.autograph import _iterate
from ipu.tf.autograph._iterate import RangeItems, is_tensor
from ipu.tf.autograph._notes import explain_once, user_line

F = TypeVar("F", bound=Callable[..., Any])

CONVERTED = "__ipu_converted__"
PLAIN = "__ipu_do_not_convert__"


def converted(function: F) -> F:
    """Mark a function whose code has been converted."""
    setattr(function, CONVERTED, True)
    return function


def do_not_convert(func: F | None = None) -> Any:
    """Leave a function, and what it calls, to Python.

    Args:
        func: The function, or None where it is used with parentheses.

    Example:
        >>> @tf.autograph.experimental.do_not_convert
        ... def f(x):
        ...     return x
    """
    if func is None:
        return do_not_convert

    @functools.wraps(func)
    def plain(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    setattr(plain, PLAIN, True)
    return plain


# --- whose code it is ----------------------------------------------------------------


def _standard_folders() -> tuple[str, ...]:
    """Return where Python's own modules are."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    return tuple(f"{path}/" for path in paths if path)


def _package_folder() -> str:
    package = os.path.abspath(__file__)  # as code objects have it, links and all
    for _ in range(3):
        package = os.path.dirname(package)
    return f"{package}/"


_STANDARD = _standard_folders()
_PACKAGE = _package_folder()
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/([^/.]+)")
# installed packages that do nothing with tensors; all others may have control flow on
# them, as a package of layers has
_WITHOUT_TENSORS = frozenset(
    """
    IPython PIL _pytest absl attr attrs cloudpickle coverage debugpy google h5py
    hypothesis ipdb ipykernel jax keras matplotlib mock numpy packaging pandas
    pkg_resources pluggy psutil pytest safetensors scipy setuptools six sklearn
    tensorflow tensorflow_datasets tensorflow_probability tf_keras torch tqdm
    traitlets typing_extensions wrapt
    """.split()
)


@functools.cache
def _is_library(filename: str) -> bool:
    """Return whether code is left to Python."""
    if filename.startswith(("<frozen", "<__array_function__", _PACKAGE)):
        return True
    installed = _INSTALLED.match(filename)  # they may lie in Python's own folder
    if installed is not None:
        return installed[1] in _WITHOUT_TENSORS
    return filename.startswith(_STANDARD)


def _is_users(function: types.FunctionType) -> bool:
    if hasattr(function, CONVERTED) or hasattr(function, PLAIN):
        return False
    code = function.__code__
    generator = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR
    return not code.co_flags & generator and not _is_library(code.co_filename)


def vars_of(kind: type) -> dict[str, Any]:
    """Return what instances of a class find on it."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        found.update(vars(base))
    return found


def convert_call(function: Any) -> Any:
    """Return ``function``, converted where it is the user's Python code.

    Example:
        >>> convert_call(abs)(-3)
        3
    """
    if isinstance(function, types.FunctionType):
        if not _is_users(function):
            return function
        from ipu.tf.autograph._convert import convert_quietly

        return convert_quietly(function)
    if isinstance(function, types.MethodType):
        inner = function.__func__
        if isinstance(inner, types.FunctionType) and _is_users(inner):
            return types.MethodType(convert_call(inner), function.__self__)
        return function
    if isinstance(function, functools.partial):
        return functools.partial(
            convert_call(function.func), *function.args, **function.keywords
        )
    if hasattr(type(function), "__ipu_convert__"):
        return function.__ipu_convert__(convert_call)
    if isinstance(function, type) or hasattr(function, "_is_ipu_function"):
        return function
    method = vars_of(type(function)).get("__call__")
    if isinstance(method, types.FunctionType) and _is_users(method):
        return types.MethodType(convert_call(method), function)
    return function


# --- built-in functions of tensors ---------------------------------------------------


def _traced(values: Iterable[Any]) -> bool:
    return _core.open_trace() is not None and any(is_tensor(v) for v in values)


def _print(*args: Any, **kwargs: Any) -> None:
    if _traced(args):
        from ipu.tf import logging_ops

        kwargs.setdefault("file", sys.stdout)
        logging_ops.print_values(*args, **kwargs)
        return
    if _core.open_trace() is not None:
        where = user_line()
        explain_once(
            where,
            f"print at {where} runs while the function is traced, not each time it is "
            "called. Use tf.print for a value of each run.",
        )
    builtins.print(*args, **kwargs)


def _len(value: Any) -> Any:
    if isinstance(value, _iterate.Items):
        return value.length
    return len(value)


def _range(*args: Any) -> Any:
    return RangeItems(*args) if _traced(args) else builtins.range(*args)


def _tf_range(*args: Any, **kwargs: Any) -> Any:
    symbolic = any(
        (isinstance(v, _core.Tensor) and v.is_symbolic) or hasattr(v, "assign_add")
        for v in (*args, *kwargs.values())
    )
    if symbolic and _core.open_trace() is not None:
        return _range_items(*args, **kwargs)
    return creation.range(*args, **kwargs)


def _range_items(
    start: Any,
    limit: Any = None,
    delta: Any = 1,
    dtype: Any = None,
    name: str | None = None,
) -> RangeItems:
    return RangeItems(start, limit, delta)


def _int(*args: Any) -> Any:
    if len(args) == 1 and _traced(args) and getattr(args[0], "is_symbolic", True):
        return convert.cast(args[0], "int32")
    return builtins.int(*args)


def _float(*args: Any) -> Any:
    if len(args) == 1 and _traced(args) and getattr(args[0], "is_symbolic", True):
        return convert.cast(args[0], "float32")
    return builtins.float(*args)


_REPLACED: dict[Any, Callable[..., Any]] = {
    builtins.print: _print,
    builtins.len: _len,
    builtins.range: _range,
    builtins.enumerate: _iterate.lazy_enumerate,
    builtins.zip: _iterate.lazy_zip,
    builtins.iter: _iterate.lazy_iter,
    builtins.int: _int,
    builtins.float: _float,
    creation.range: _tf_range,
}

_FROZEN_MODULES = ("time", "random", "datetime", "secrets", "numpy.random.mtrand")
_FROZEN_NAMES = ("time", "random", "perf_counter", "monotonic", "now", "today",
                 "randint", "uniform", "normal", "choice", "rand", "randn", "gauss",
                 "randrange", "shuffle", "sample")  # fmt: skip


def _explain_frozen(function: Any) -> None:
    """Warn that a clock or a random number of Python's is one value for all runs."""
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or type(owner).__module__
    name = getattr(function, "__name__", "")
    if module in _FROZEN_MODULES and name in _FROZEN_NAMES:
        where = user_line(2)
        explain_once(
            where,
            f"{module}.{name}() at {where} runs once, while the function is traced: "
            "all runs of the program use the same value. Pass it as an argument, or "
            "use an op such as tf.random.uniform.",
        )


def call(function: Any) -> Any:
    """Return what to call where converted code says ``function(...)``."""
    if (
        isinstance(function, (types.BuiltinFunctionType, type))
        or function is creation.range
    ):
        try:
            replaced = _REPLACED.get(function)
        except TypeError:
            replaced = None
        if replaced is not None:
            return replaced
    if _core.open_trace() is not None and isinstance(
        function, (types.BuiltinFunctionType, types.BuiltinMethodType, types.MethodType)
    ):
        _explain_frozen(function)
    return convert_call(function)


def call_iterated(function: Any) -> Any:
    """Work like :func:`call`, for what a ``for`` runs over: a range stays
    unmade."""
    if function is creation.range and _core.open_trace() is not None:
        return _range_items
    return call(function)


def note_update(text: str, value: Any) -> None:
    """Note ``text += ...`` of something that outlives the function."""
    if _core.open_trace() is None or not isinstance(value, (int, float)):
        return
    where = user_line()
    explain_once(
        where,
        f"'{text}' is changed at {where} while the function is traced, not each time "
        "it is called. Use a tf.Variable for what changes with each run.",
    )
