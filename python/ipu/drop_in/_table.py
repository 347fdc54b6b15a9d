# SPDX-License-Identifier: MIT
"""Which module of TensorFlow's tree takes its names from where.

A path is first turned into its canonical one (``tensorflow.keras`` and
``tensorflow.python.keras`` are ``keras``), then looked up here. Other names are
served where ``ipu`` has a module in the same place: ``tensorflow.x`` is ``ipu.tf.x``,
``keras.x`` is ``ipu.keras.x``, ``tensorflow.python.ipu.x`` is ``ipu.x``.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ipu.drop_in._entries import Entry
from ipu.drop_in._entries_ipu import IPU
from ipu.drop_in._entries_keras import KERAS
from ipu.drop_in._entries_python import PYTHON
from ipu.drop_in._entries_tf import FIRST_VERSION, TF

__all__ = [
    "Entry",
    "below",
    "canonical",
    "entry_of",
    "is_listed",
    "serve_first",
    "serves_first",
]

_TABLE: Mapping[str, Entry] = {**TF, **KERAS, **IPU, **PYTHON}


class _Alias(NamedTuple):
    prefix: str
    stands_for: str


_ALIASES = (
    _Alias("tensorflow_core", "tensorflow"),
    _Alias("tensorflow._api.v2", "tensorflow"),
    _Alias("tensorflow.compat.v2", "tensorflow"),
    _Alias("tensorflow.contrib.ipu", "tensorflow.python.ipu"),
    _Alias("tensorflow.python.keras", "keras"),
    _Alias("tensorflow.compat.v1.keras", "keras"),
    _Alias("tensorflow.keras", "keras"),
    _Alias("keras.api._v2.keras", "keras"),
    _Alias("keras.api", "keras"),
)
# what is below ``tensorflow`` in both versions
_SHARED = frozenset({"compat", "compiler", "contrib", "core", "keras", "python"})
_NATIVE = (
    _Alias("tensorflow.python.ipu", "ipu"),
    _Alias("tensorflow.compat.v1", "ipu.tf"),
    _Alias("tensorflow", "ipu.tf"),
    _Alias("keras", "ipu.keras"),
)


class _Version:
    """Which TensorFlow the name ``tensorflow`` itself stands for."""

    is_first = False


def serve_first(is_first: bool) -> None:
    """Let ``tensorflow`` have the names of TensorFlow 1, or those of TensorFlow 2.

    Modules that have been imported keep what they have.
    """
    _Version.is_first = is_first
    entry_of.cache_clear()


def serves_first() -> bool:
    """Return whether ``tensorflow`` has the names of TensorFlow 1.

    Example:
        >>> serves_first()
        False
    """
    return _Version.is_first


def _in_first(path: str) -> Entry | None:
    """Return a module as TensorFlow 1 has it; None where both versions have the
    same."""
    root, _, rest = path.partition(".")
    if root != "tensorflow" or rest.partition(".")[0] in _SHARED:
        return None
    if rest:
        return _entry_of(f"tensorflow.compat.v1.{rest}")
    both, first = _TABLE["tensorflow"], _TABLE["tensorflow.compat.v1"]
    return Entry(first.sources, {**both.names, **first.names, **FIRST_VERSION})


def _replaced(name: str, alias: _Alias) -> str | None:
    if name == alias.prefix or name.startswith(alias.prefix + "."):
        return alias.stands_for + name[len(alias.prefix) :]
    return None


def canonical(name: str) -> str:
    """Return the path under which the table knows a module.

    Example:
        >>> canonical("tensorflow.python.keras.layers")
        'keras.layers'
    """
    for alias in _ALIASES:
        replaced = _replaced(name, alias)
        if replaced is not None:
            return canonical(replaced)
    return name


@functools.cache
def _parents() -> frozenset[str]:
    """Return the packages that the table's paths imply."""
    found: set[str] = set()
    for path in _TABLE:
        parts = path.split(".")
        found.update(".".join(parts[:n]) for n in range(1, len(parts)))
    return frozenset(found)


def _native_module(path: str) -> str | None:
    """Return the ``ipu`` module in the same place, where there is one."""
    if any(part.startswith("_") for part in path.split(".")):
        return None
    for alias in _NATIVE:
        module = _replaced(path, alias)
        if module is None:
            continue
        if module.startswith("ipu.drop_in"):
            return None
        return module if _is_there(module) else None
    return None


@functools.cache
def _is_there(module: str) -> bool:
    """Return whether a module can be imported; its parents are."""
    parent = module.rpartition(".")[0]
    if parent and not _is_there(parent):
        return False
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent is a module without others below it
        return False


@functools.cache
def entry_of(name: str) -> Entry | None:
    """Return where the names of a module come from.

    Returns:
        The entry, or None where there is no such module.
    """
    path = canonical(name)
    first = _in_first(path) if _Version.is_first else None
    return _entry_of(path) if first is None else first


def is_listed(path: str) -> bool:
    """Return whether the table itself has a module, or one below it.

    Example:
        >>> is_listed("keras.ipu"), is_listed("keras.none")
        (True, False)
    """
    return path in _TABLE or path in _parents()


def _entry_of(path: str) -> Entry | None:
    """Return the entry of a canonical path in TensorFlow 2."""
    if path in _TABLE:
        return _TABLE[path]
    if path.startswith("tensorflow.compat.v1."):
        return _entry_of(path.replace(".compat.v1", "", 1))
    module = _native_module(path)
    if module is not None:
        return Entry((module,))
    return Entry() if path in _parents() else None


def below(name: str) -> Iterator[str]:
    """Yield the last parts of the listed modules right below a module."""
    prefix = canonical(name) + "."
    for path in (*_TABLE, *_parents()):
        if path.startswith(prefix) and "." not in path[len(prefix) :]:
            yield path[len(prefix) :]
