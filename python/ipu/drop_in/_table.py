# SPDX-License-Identifier: MIT
"""Which module of TensorFlow's tree takes its names from where.

A path is first turned into its canonical one (``tensorflow.keras`` and
``tensorflow.python.keras`` are ``keras``), then looked up here. What is not listed is
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
from ipu.drop_in._entries_tf import TF

__all__ = ["Entry", "below", "canonical", "entry_of"]

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
_NATIVE = (
    _Alias("tensorflow.python.ipu", "ipu"),
    _Alias("tensorflow.compat.v1", "ipu.tf"),
    _Alias("tensorflow", "ipu.tf"),
    _Alias("keras", "ipu.keras"),
)


def _replaced(name: str, alias: _Alias) -> str | None:
    if name == alias.prefix or name.startswith(alias.prefix + "."):
        return alias.stands_for + name[len(alias.prefix) :]
    return None


def canonical(name: str) -> str:
    """The path under which the table knows a module.

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
    """The packages that the table's paths imply."""
    found: set[str] = set()
    for path in _TABLE:
        parts = path.split(".")
        found.update(".".join(parts[:n]) for n in range(1, len(parts)))
    return frozenset(found)


def _native_module(path: str) -> str | None:
    """The ``ipu`` module in the same place, where there is one."""
    if any(part.startswith("_") for part in path.split(".")):
        return None
    for alias in _NATIVE:
        module = _replaced(path, alias)
        if module is None:
            continue
        if module.startswith("ipu.drop_in"):
            return None
        try:
            return module if importlib.util.find_spec(module) else None
        except ModuleNotFoundError:
            return None
    return None


@functools.cache
def entry_of(name: str) -> Entry | None:
    """Where the names of a module come from.

    Args:
        name: Full path of the module, as a program spells it.

    Returns:
        The entry, or None where there is no such module.
    """
    path = canonical(name)
    if path in _TABLE:
        return _TABLE[path]
    if path.startswith("tensorflow.compat.v1."):
        return entry_of(path.replace(".compat.v1", "", 1))
    module = _native_module(path)
    if module is not None:
        return Entry((module,))
    return Entry() if path in _parents() else None


def below(name: str) -> Iterator[str]:
    """The last parts of the listed modules right below a module."""
    prefix = canonical(name) + "."
    for path in (*_TABLE, *_parents()):
        if path.startswith(prefix) and "." not in path[len(prefix) :]:
            yield path[len(prefix) :]
