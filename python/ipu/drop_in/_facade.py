# SPDX-License-Identifier: MIT
"""The modules that old programs import, and the finder that makes them.

A facade is an empty module under one of TensorFlow's names. A name is looked up when it
is first asked for: in the names that the table renames, among the modules below it,
then in the ``ipu`` modules that the table lists. So importing ``tensorflow`` costs
nothing, and every class and function is ``ipu``'s own object.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

from ipu._text.missing import PACKAGE, MissingModuleError, MissingNameError
from ipu.drop_in import _absent, _table

__all__ = [
    "Facade",
    "Finder",
    "find",
    "loaded",
    "other_module",
    "other_name",
    "stands_in",
]

_ABSENT = object()
# packages that stand-ins are built on; without them their names are missing
_OPTIONAL = ("absl",)


def _native(module: str) -> Any:
    """Return an ``ipu`` module, or None where it is not there."""
    try:
        is_ours = module.startswith("ipu.")
        if is_ours and not (module in sys.modules or importlib.util.find_spec(module)):
            return None
        found = importlib.import_module(module)
        return None if is_ours and isinstance(found, Facade) else found
    except MissingModuleError:
        return None
    except ModuleNotFoundError as error:
        absent = error.name or ""
        if absent.partition(".")[0] in _OPTIONAL or f"{module}.".startswith(
            f"{absent}."
        ):
            return None
        raise


def _is_public(module: Any, name: str) -> bool:
    """Return whether a module offers a name: ``__all__``, and what ``ipu`` defines in
    it."""
    listed = getattr(module, "__all__", ())
    foreign = not module.__name__.startswith("ipu.")
    if name in listed or (foreign and listed):
        return name in listed
    if name.startswith("_") or name == "TYPE_CHECKING" or name not in vars(module):
        return False
    value = vars(module)[name]
    origin = getattr(value, "__module__", "ipu")
    ours = not isinstance(value, types.ModuleType) and origin.startswith("ipu")
    return ours or foreign


def _public(module: Any) -> set[str]:
    """Return the names that a module offers."""
    names = {*getattr(module, "__all__", ()), *vars(module)}
    return {name for name in names if _is_public(module, name)}


def _take(module: str, name: str) -> Any:
    """Return ``name`` of a native module, or ``_ABSENT``."""
    source = _native(module)
    if source is None or not _is_public(source, name):
        return _ABSENT
    return getattr(source, name)


def find(target: str) -> Any:
    """Return the object that a table entry such as "ipu.tf.random:uniform" names.

    Returns:
        The object, or None where it is not there yet.
    """
    module, _, attribute = target.partition(":")
    found = _native(module)
    for part in attribute.split(".") if attribute else ():
        found = getattr(found, part, None)
    return found


class Facade(types.ModuleType):
    """A module of TensorFlow's or Keras's tree.

    Args:
        name: Its full name.
        entry: Where its names come from.
    """

    def __init__(self, name: str, entry: _table.Entry) -> None:
        super().__init__(name, f"{name}, as ipu provides it.")
        self.__dict__["_entry"] = entry
        self.__dict__["_stand_ins"] = {}

    def __getattr__(self, name: str) -> Any:
        # introspection asks every module for names such as __file__
        entry: _table.Entry = self.__dict__["_entry"]
        if name.startswith("__") and name not in entry.names:
            raise AttributeError(name)
        value = self._find(name)
        if value is _ABSENT:
            return self._missing(name, sys._getframe().f_back)
        self.__dict__[name] = value
        return value

    def _missing(self, name: str, asking: types.FrameType | None) -> _absent.AbsentName:
        """Return a stand-in for a name, where an import statement asks for it."""
        full = f"{self.__name__}.{name}"
        known = () if name.startswith("_") else self.__all__
        made: dict[str, _absent.AbsentName] = self.__dict__["_stand_ins"]
        found = _absent.stand_in(full, known, asking, made.get(name))
        if found is None:
            raise MissingNameError(full, known)
        made[name] = found
        return found

    def _find(self, name: str) -> Any:
        entry: _table.Entry = self.__dict__["_entry"]
        target = entry.names.get(name)
        if target is not None:
            found = find(target)
            return _ABSENT if found is None else found
        below = f"{self.__name__}.{name}"
        if not name.startswith("_") and _table.entry_of(below) is not None:
            return importlib.import_module(below)
        for source in entry.sources:
            value = _take(source, name)
            if value is not _ABSENT:
                return value
        listed = [path for path in _others(below) if _table.is_listed(path)]
        return _loaded(below, listed[0]) if listed else _ABSENT

    @property
    def __all__(self) -> list[str]:
        """The public names, for ``import *`` and completion."""
        entry: _table.Entry = self.__dict__["_entry"]
        names = {name for name, target in entry.names.items() if find(target)}
        for source in entry.sources:
            native = _native(source)
            if native is not None:
                names.update(_public(native))
        names.update(_table.below(self.__name__))
        return sorted(name for name in names if not name.startswith("_"))

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self.__all__})

    def __repr__(self) -> str:
        return f"<module {self.__name__!r} (from ipu.drop_in)>"


def _loaded(name: str, path: str) -> Any:
    """Return the module below ``ipu`` that stands for one of TensorFlow's tree."""
    if name not in sys.modules:
        spec = importlib.machinery.ModuleSpec(name, _Loader(path), is_package=True)
        spec.submodule_search_locations = []
        sys.modules[name] = importlib.util.module_from_spec(spec)
    return sys.modules[name]


def stands_in(name: str) -> bool:
    """Return whether ``from module import name`` gives a stand-in for a missing
    name."""
    path, _, last = name.rpartition(".")
    entry = _table.entry_of(path)
    return entry is not None and not _absent.is_slip(last, Facade(path, entry).__all__)


class _Loader(importlib.abc.Loader):
    def __init__(self, path: str = "") -> None:
        self._path = path

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        entry = _table.entry_of(self._path or spec.name)
        assert entry is not None
        return Facade(spec.name, entry)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class _There(importlib.abc.Loader):
    """Gives a module that has another name, too, such as ``ipu.ops.nn_ops``."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Let Python make one, which is replaced."""

    def exec_module(self, module: types.ModuleType) -> None:
        sys.modules[module.__name__] = self._module  # where Python looks for it then


class _Below(importlib.abc.MetaPathFinder):
    """Finds the modules of packages that have two names: each is loaded once."""

    def __init__(self) -> None:
        self._packages: dict[str, str] = {}

    def spec(
        self, name: str, module: types.ModuleType
    ) -> importlib.machinery.ModuleSpec:
        """Make the spec of a second name."""
        if hasattr(module, "__path__"):
            self._packages[name] = module.__name__
            if self not in sys.meta_path:
                sys.meta_path.insert(0, self)  # Python's own would load it again
        return importlib.machinery.ModuleSpec(name, _There(module))

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        parent, _, last = fullname.rpartition(".")
        if parent not in self._packages:
            return None
        module = importlib.import_module(f"{self._packages[parent]}.{last}")
        return self.spec(fullname, module)


_BELOW = _Below()


# whose names a module of ``ipu`` has in TensorFlow's tree
_OTHER = (
    ("ipu.tf", ("tensorflow",)),
    ("ipu.keras", ("tensorflow.python.ipu.keras", "keras")),
    ("ipu", ("tensorflow.python.ipu",)),
)


def _others(module: str) -> list[str]:
    """Return the paths that a module of ``ipu`` has in TensorFlow's tree."""
    for prefix, roots in _OTHER:
        if f"{module}.".startswith(f"{prefix}."):
            return [root + module[len(prefix) :] for root in roots]
    return []


def other_name(module: str, name: str) -> Any:
    """Return a name that TensorFlow's tree alone has in the place of a module of
    ``ipu``.

    Args:
        module: The module, such as "ipu.keras.layers".
        name: A name that it does not have itself.

    Returns:
        The object, or None.
    """
    entries = [one for path in _others(module) if (one := _table.entry_of(path))]
    for entry in entries:
        target = entry.names.get(name)
        found = find(target) if target else None
        if found is not None:
            return found
    below = f"{module}.{name}"
    if any(_table.is_listed(path) for path in _others(below)):
        return importlib.import_module(below)
    for source in (one for entry in entries for one in entry.sources if one != module):
        found = _take(source, name)
        if found is not _ABSENT:
            return found
    return None


def other_module(name: str) -> importlib.machinery.ModuleSpec | None:
    """Return the spec of a module that TensorFlow's tree alone has, in the place of
    ``ipu``'s.

    Args:
        name: The module's name below ``ipu``.
    """
    listed = [path for path in _others(name) if _table.is_listed(path)]
    if not listed or not is_importing():
        return None
    parent, _, last = name.rpartition(".")
    if last in getattr(sys.modules[parent], "__all__", ()):
        there = getattr(sys.modules[parent], last)
        if inspect.ismodule(there) and there.__name__ != name:
            return _BELOW.spec(name, there)
    spec = importlib.machinery.ModuleSpec(name, _Loader(listed[0]), is_package=True)
    spec.submodule_search_locations = []
    return spec


def is_importing() -> bool:
    """Return whether an ``import`` asks, and not ``importlib.util.find_spec``."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename.startswith("<frozen imp"):
        if frame.f_code.co_name == "_find_and_load_unlocked":
            return True
        frame = frame.f_back
    return False


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of the table.

    Args:
        roots: The top-level names that it serves.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self.roots = frozenset(roots)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in self.roots:
            return None
        if _table.entry_of(fullname) is None:
            if is_importing():
                raise MissingModuleError(fullname, _siblings(fullname))
            return None
        spec = importlib.machinery.ModuleSpec(fullname, _Loader(), is_package=True)
        spec.submodule_search_locations = []
        return spec


def _siblings(fullname: str) -> list[str]:
    parent = sys.modules.get(fullname.rpartition(".")[0])
    return parent.__all__ if isinstance(parent, Facade) else []


def loaded(roots: frozenset[str]) -> Iterator[str]:
    """Yield the names in ``sys.modules`` that belong to these roots."""
    for name in list(sys.modules):
        if name.partition(".")[0] in roots:
            yield name
