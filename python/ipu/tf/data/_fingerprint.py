# SPDX-License-Identifier: MIT
"""The definition of a data set as a short text: equal for equal programs, in this
process and in the next one.

It covers the transformations and their arguments, the contents of arrays and tensors,
and the code of functions with what that names: constants, defaults, captured and global
values, and functions of the user's that it calls. Of other objects it covers the
attributes that the code names. Files are covered by name, libraries not at all; and
nothing that changes no element (`prefetch`, parallel calls).
"""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
from collections.abc import Mapping
from pathlib import PurePath
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ipu._device import seed
from ipu._text.missing import PACKAGE, is_library
from ipu.tf.data._made_by import RECORD

# what changes no element
_NEUTRAL = frozenset(("cache", "options", "prefetch", "snapshot", "with_options"))
_NEUTRAL_ARGUMENTS = ("buffer_size", "deterministic", "name", "num_parallel_calls")
# that draw, where they have no seed
_DRAWING = frozenset(
    (
        "list_files",
        "make_csv_dataset",
        "random",
        "rejection_resample",
        "sample_from_datasets",
        "shuffle",
    )
)

# methods that are called without being named
_CALLED_LATER = frozenset(
    ("__call__", "__getitem__", "__iter__", "__len__", "__next__")
)
_CALLED = _CALLED_LATER | {"__init__"}


def fingerprint(dataset: Any) -> str:
    """Return the text for a data set, of 32 hexadecimal digits."""
    walk = _Walk()
    walk.add(dataset, frozenset())
    return walk.digest.hexdigest()


class _Walk:
    """A hash of values.

    Args of methods: ``names`` are those that the code around uses, whose attributes
    count.
    """

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=16)
        # values that were met, and held: ids are theirs
        self._met: dict[tuple[int, frozenset[str]], tuple[int, Any]] = {}

    def _text(self, *parts: Any) -> None:
        for part in parts:
            text = str(part).encode("utf-8", "surrogatepass")
            self.digest.update(b"%d:" % len(text) + text)

    def add(self, value: Any, names: frozenset[str]) -> None:
        """Add a value."""
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self._text(type(value).__name__, repr(value))
            return
        key = (id(value), names)
        if key in self._met:
            self._text("again", self._met[key][0])
            return
        self._met[key] = (len(self._met), value)
        if hasattr(value, "_impl") and hasattr(value, "_structure"):
            self._dataset(value)
        elif isinstance(value, (list, tuple, set, frozenset, Mapping)):
            self._container(value, names)
        elif isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "numpy"):
            self._array(value)
        elif isinstance(value, MethodType):
            self._code(value.__func__)
            self.add(value.__self__, self._names(value.__func__))
        elif isinstance(value, functools.partial):
            self._text("partial")
            for part in (value.func, value.args, value.keywords):
                self.add(part, names)
        elif isinstance(value, FunctionType):
            self._code(value)
        elif isinstance(value, PurePath):
            self._text("path", value)
        else:
            self._object(value, names)

    def _container(self, value: Any, names: frozenset[str]) -> None:
        self._text(type(value).__name__, len(value))
        if isinstance(value, Mapping):
            for key, item in value.items():
                self.add(key, names)
                self.add(item, names)
        elif isinstance(value, (set, frozenset)):
            self._text(*sorted(map(repr, value)))
        else:
            for item in value:
                self.add(item, names)

    def _array(self, value: Any) -> None:
        try:
            array = np.asarray(value)
        except Exception:  # a tensor of a graph, whose value nobody knows
            self._text(type(value).__name__, value)
            return
        self._text("array", array.dtype, array.shape)
        if array.dtype.hasobject:
            self._text(*map(repr, array.ravel().tolist()))
        else:
            self.digest.update(np.ascontiguousarray(array).view(np.uint8).data)

    def _dataset(self, dataset: Any) -> None:
        made_by = vars(dataset).get(RECORD)
        if made_by is None:
            self._text("dataset", dataset._structure, dataset._impl.cardinality)
            return
        function, args, kwargs = made_by
        if isinstance(function, str):  # a source, with what it holds
            self._text(function)
            self.add(args, frozenset())
            return
        given = inspect.signature(function).bind(*args, **kwargs)
        given.apply_defaults()
        arguments = dict(given.arguments)
        name = function.__name__
        if name in _NEUTRAL:
            self.add(arguments["self"], frozenset())
            return
        self._text(name)
        if name in _DRAWING and not any("seed" in key and arguments[key] is not None
                                        for key in arguments):  # fmt: skip
            self._text(seed.current()[0])
        size = "buffer_size" if name == "shuffle" else None
        for key, argument in arguments.items():
            if key == size or key not in _NEUTRAL_ARGUMENTS:
                self._text(key)
                self.add(argument, frozenset())

    # --- code -------------------------------------------------------------------------

    def _code(self, function: Any) -> None:
        code = getattr(function, "__code__", None)
        if code is None or _is_of_library(code.co_filename):
            self._text(getattr(function, "__module__", ""), function.__qualname__)
            return
        names = self._names(function)
        self._text("function")
        self._bytecode(code)
        if any("random" in name for name in names):
            self._text(seed.current()[0])
        self.add(function.__defaults__, names)
        self.add(function.__kwdefaults__, names)
        own = _written(code)
        for name, cell in zip(
            code.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                self.add(None if name in own else cell.cell_contents, names)
            except ValueError:  # it is empty
                self._text("empty")
        for name in sorted(names - own):
            if name in function.__globals__:
                self._text(name)
                self.add(function.__globals__[name], names)

    def _bytecode(self, code: CodeType) -> None:
        self._text(code.co_code.hex(), code.co_varnames, code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._bytecode(constant)
            elif isinstance(constant, frozenset):
                self._container(constant, frozenset())
            else:
                self._text(type(constant).__name__, repr(constant))

    @staticmethod
    def _names(function: Any) -> frozenset[str]:
        """Return all names that the code of a function, and of those in it, uses."""
        found: set[str] = set()
        open_codes = [getattr(function, "__code__", None)]
        while open_codes:
            code = open_codes.pop()
            if code is not None:
                found.update(code.co_names)
                open_codes += [c for c in code.co_consts if isinstance(c, CodeType)]
        return frozenset(found)

    def _object(self, value: Any, names: frozenset[str]) -> None:
        """Write a module, a class or another object."""
        if isinstance(value, ModuleType):
            self._text("module", value.__name__)
            if not _is_of_library(getattr(value, "__file__", None) or ""):
                self._attributes(vars(value), names)
            return
        kind = value if isinstance(value, type) else type(value)
        self._text(kind.__module__, kind.__qualname__)
        if callable(getattr(value, "get_weights", None)):
            self.add(value.get_weights(), names)
        open_names = [*sorted(names | (_CALLED if value is kind else _CALLED_LATER))]
        for name in open_names:  # which grows with what methods name
            method = _plain(inspect.getattr_static(kind, name, None))
            is_function = isinstance(method, FunctionType)
            if is_function and not _is_of_library(method.__code__.co_filename):
                self._text(name)
                self.add(method, frozenset())
                more = self._names(method)
                open_names += sorted(more.difference(open_names))
                names |= more
        self._attributes(getattr(value, "__dict__", {}), names)

    def _attributes(self, found: Mapping[str, Any], names: frozenset[str]) -> None:
        for name in sorted(names & found.keys()):
            if not isinstance(_plain(found[name]), FunctionType):
                self._text(name)
            self.add(_plain(found[name]), names)


def _written(code: CodeType) -> set[str]:
    """Return the captured and global variables that code writes: counters of its
    own."""
    found = {
        str(one.argval)
        for one in dis.get_instructions(code)
        if one.opname in ("STORE_DEREF", "STORE_GLOBAL")
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _written(constant)
    return found


def _plain(value: Any) -> Any:
    """Return the function of a static or class method, or of a property."""
    if isinstance(value, (staticmethod, classmethod)):
        return value.__func__
    return value.fget if isinstance(value, property) else value


def _is_of_library(file: str) -> bool:
    installed = "site-packages" in file or "dist-packages" in file
    return not file or installed or file.startswith(PACKAGE) or is_library(file)
