# SPDX-License-Identifier: MIT
"""Which TensorFlow, IPU and Keras names a program uses, found without running it.

The imports say which names of the program stand for modules of TensorFlow's tree, also
through plain assignments (``layers = tf.keras.layers``). Every chain of attributes that
starts at one of them is a use; it is there when the drop-in modules can resolve it.
``_check_objects`` follows objects once they have been made.
"""

from __future__ import annotations

import ast
import os
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ipu import drop_in
from ipu._text import unimplemented as _later
from ipu._text.missing import MissingModuleError
from ipu.drop_in import (
    _check_objects,
    _facade,
    _first_tensorflow,
    _notebooks,
)
from ipu.drop_in._check_scopes import Reader
from ipu.drop_in._program_names import Finder, place, star

# of a program: the number of the cell, the text, what to call it
_Part = tuple[int | None, str | bytes, str]
_SKIPPED = frozenset({"__pycache__", "node_modules", "build", "dist"})


@dataclass
class Use:
    """One name, or one argument of a call that cannot work.

    Attributes:
        name: The full TensorFlow name; of an object's attribute ``Class.name``; of an
            argument ``name(argument=)``.
        there: Whether ``ipu`` has it.
        guarded: Whether every use is in a ``try`` that expects it to fail.
        unused: Whether a stand-in will do, since the program imports it and no more.
        lines: Where it is used: lines of the file, or of a notebook's cells.
        instead: Why it is missing or refused and what to use, or "".
        refused: Whether it is an argument that the call refuses.
    """

    name: str
    there: bool
    guarded: bool = True
    unused: bool = True
    lines: list[Any] = field(default_factory=list)
    instead: str = ""
    refused: bool = False

    @property
    def state(self) -> str:
        """One word: "ok", "guarded", "unused", "missing" or "refused"."""
        if self.refused:
            return "guarded" if self.guarded else "refused"
        if self.there:
            return "ok"
        if self.guarded:
            return "guarded"
        return "unused" if self.unused else "missing"


@dataclass
class Report:
    """The names that a file uses.

    Attributes:
        path: The file.
        uses: Its names, those that are missing first.
    """

    path: str
    uses: list[Use]

    def text(self, missing_only: bool = False) -> str:
        """Return the report for people: one line for each name, then a count."""
        missing = [use for use in self.uses if not use.there]
        shown = missing if missing_only else self.uses
        width = max((len(use.name) for use in shown), default=0)
        lines = [f"{self.path}:"]
        for use in shown:
            where = ", ".join(map(str, use.lines))
            line = f"  {use.state:<8}{use.name:<{width}}  line {where}"
            lines.append(f"{line}  {use.instead}".rstrip())
        refused = [use for use in self.uses if use.refused]
        absent = len(missing) - len(refused)
        count = f"  {len(self.uses) - len(refused)} names, {absent} missing"
        lines.append(count + f", {len(refused)} refused" * bool(refused))
        return "\n".join(lines)


def program_files(paths: Iterable[str]) -> Iterator[str]:
    """Yield the programs that paths name: files as they are, folders with all below."""
    for path in paths:
        if not os.path.isdir(path):
            if not os.path.exists(path):
                raise FileNotFoundError(f"there is no file {path!r}")
            yield path
            continue
        for folder, names, files in os.walk(path):
            names[:] = sorted(
                n for n in names if n not in _SKIPPED and not n.startswith(".")
            )
            yield from (
                os.path.join(folder, one)
                for one in sorted(files)
                if one.endswith((".py", _notebooks.SUFFIX))
            )


def check_file(path: str) -> Report:
    """Read a file, or a notebook, and list what it uses."""
    if path.endswith(_notebooks.SUFFIX):
        cells = _notebooks.cells_of(path)
        parts: list[_Part] = [(cell.number, cell.source, cell.name) for cell in cells]
        return Report(path, _uses_in(parts, os.path.dirname(path)))
    with open(path, "rb") as file:
        parts = [(None, file.read(), path)]
    return Report(path, _uses_in(parts, os.path.dirname(path)))


def check_source(source: str | bytes, path: str = "<source>") -> list[Use]:
    """List the TensorFlow names that a program's text uses.

    Args:
        source: The text.
        path: What to call it in a SyntaxError.

    Returns:
        One :class:`Use` for each name, those that are missing first, then by name.

    Example:
        >>> [use.there for use in check_source("import tensorflow as tf\\ntf.zeros(3)")]
        [True, True]
    """
    return _uses_in([(None, source, path)])


def _uses_in(parts: Sequence[_Part], folder: str | None = None) -> list[Use]:
    """Return the names of a program in parts; `folder` is where it finds modules."""
    trees = [(cell, ast.parse(source, path)) for cell, source, path in parts]
    finder = Finder()
    reader = Reader(lambda module: {one: f"{module}.{one}" for one in star(module)})
    for cell, tree in trees:
        finder.cell = reader.part = cell
        finder.visit(tree)
        reader.visit(tree)
    is_first = _first_tensorflow.uses_it([tree for _, tree in trees], folder)
    was_installed = drop_in.installed()
    drop_in.install(is_first)
    try:
        uses: dict[str, Use] = {}
        for name, found in finder.found.items():
            known, missing = _resolve(name)
            use = uses.setdefault(known, Use(known, not missing))
            use.lines = sorted({*use.lines, *(one.line for one in found)})
            use.guarded &= all(one.guarded for one in found)
            if missing:
                use.unused &= known == name and all(one.imports for one in found)
                use.unused &= _facade.stands_in(known)
                later = _later.lookup(known)
                use.instead = f"{later.topic} {later.instead}".strip()
        for one in _check_objects.objections(reader):
            use = uses.setdefault(one.name, Use(one.name, False, unused=False))
            line = place(one.touch.node.lineno, one.touch.part)
            use.lines = sorted({*use.lines, line})
            use.guarded &= one.touch.guarded
            use.instead, use.refused = one.why, one.refused
    finally:
        if not was_installed:
            drop_in.uninstall()
    return sorted(uses.values(), key=lambda use: (use.there, use.name))


def _resolve(name: str) -> tuple[str, bool]:
    """Return (the part of a chain that names something fixed, whether it is
    missing)."""
    import importlib

    parts = name.split(".")
    try:
        value: object = importlib.import_module(parts[0])
    except MissingModuleError:
        return parts[0], True
    for n in range(1, len(parts)):
        path = ".".join(parts[: n + 1])
        # of a function or an object only running the program could tell more
        if not isinstance(value, (types.ModuleType, type)):
            return ".".join(parts[:n]), False
        try:
            value = getattr(value, parts[n])
        except AttributeError:
            if not isinstance(value, types.ModuleType):
                return path, True
            try:
                value = importlib.import_module(path)
            except ImportError:
                return path, True
    return name, False
