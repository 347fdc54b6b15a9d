# SPDX-License-Identifier: MIT
"""Notebooks as programs: their cells of code, as Python.

What IPython adds to Python is understood where that is possible, and left out where it
is not. Lines keep their numbers: ``train.ipynb, cell 3`` is the file name of the third
cell of code, in tracebacks and in what ``ipu`` says.
"""

from __future__ import annotations

import ast
import io
import json
import linecache
import re
import sys
import tokenize
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

SUFFIX = ".ipynb"
# magics whose argument, or whose cell, is Python
_WRAPPERS = frozenset({"capture", "prun", "time", "timeit"})
# magics that say how a notebook shows things; a program needs none of them
_SETTINGS = frozenset(
    "alias_magic autoreload autosave colors config load_ext matplotlib pylab "
    "reload_ext unload_ext".split()
)
_ASSIGNED = re.compile(r"^(\s*)([\w.,\[\]'\" ]+?)\s*=\s*([%!].*)$")
_HELP = re.compile(r"^\s*(\?{1,2}[\w.]+|[\w.]+\?{1,2})\s*$")


class Cell(NamedTuple):
    """A cell of code.

    Attributes:
        number: Which one of the notebook, from 1.
        name: What its code calls its file.
        source: Python, with as many lines as the cell.
        left_out: Its lines that are not Python, and have an effect in a notebook.
    """

    number: int
    name: str
    source: str
    left_out: list[str]


def cells_of(path: str) -> list[Cell]:
    """Read a notebook."""
    with open(path, encoding="utf-8") as file:
        try:
            notebook = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path} is not a notebook: {error}") from error
    cells = _listed(notebook)
    if cells is None:
        raise ValueError(f"{path} is not a notebook: it has no cells.")
    about = notebook.get("metadata") or {}
    language = (about.get("language_info") or {}).get("name", "python")
    if language != "python":
        raise ValueError(f"{path} is a notebook of {language}, not of Python.")
    texts = [_text(cell) for cell in cells if cell.get("cell_type") == "code"]
    return [
        Cell(number, f"{path}, cell {number}", *_as_python(text))
        for number, text in enumerate(texts, 1)
    ]


def _listed(notebook: Any) -> list[Mapping[str, Any]] | None:
    if not isinstance(notebook, dict):
        return None
    sheets = notebook.get("worksheets")  # before version 4
    holder = sheets[0] if sheets else notebook
    cells = holder.get("cells")
    return cells if isinstance(cells, list) else None


def _text(cell: Mapping[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))
    return source if isinstance(source, str) else "".join(source)


# --- what is not Python ---------------------------------------------------------------


def _as_python(text: str) -> tuple[str, list[str]]:
    """Return a cell's text as Python, and the lines that were left out."""
    lines = text.split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        if _magic(lines[first][1:]) not in _WRAPPERS:
            return "\n" * (len(lines) - 1), [lines[first]]
        lines[first] = ""
    left_out: list[str] = []
    done: list[str] = []
    goes_on = False  # a line that is left out, in the next one
    for line in lines:
        if goes_on:
            goes_on = line.rstrip().endswith("\\")
            done.append("")
            continue
        python = _line(line) if _is_special(line) and _begins(done) else line
        if python != line and not _is_understood(line):
            left_out.append(line.strip())
        goes_on = python != line and line.rstrip().endswith("\\")
        done.append(python)
    return "\n".join(done), left_out


def _is_special(line: str) -> bool:
    starts = line.lstrip().startswith(("%", "!"))
    return starts or bool(_ASSIGNED.match(line) or _HELP.match(line))


def _begins(before: Iterable[str]) -> bool:
    """Return whether a statement may begin after these lines: all is closed."""
    text = "\n".join(before) + "\n"
    try:
        for _ in tokenize.generate_tokens(io.StringIO(text).readline):
            pass
    except tokenize.TokenError:
        return False
    except IndentationError:
        return True
    return not text.rstrip(" \n").endswith("\\")


def _magic(line: str) -> str:
    """Return the name of ``%name ...``."""
    words = line.strip().lstrip("%").split()
    return words[0] if words else ""


def _wrapped(line: str) -> str:
    """Return the Python in ``%time ...``; "" where there is none."""
    stripped = line.strip()
    if not stripped.startswith("%") or _magic(stripped) not in _WRAPPERS:
        return ""
    words = stripped.split(maxsplit=1)
    rest = words[1] if len(words) > 1 else ""
    while rest.startswith("-"):
        rest = rest.partition(" ")[2].lstrip()
    return rest


def _is_understood(line: str) -> bool:
    """Return whether nothing is lost of a line."""
    wrapped = _wrapped(line) or _HELP.match(line)
    return bool(wrapped) or (
        line.lstrip().startswith("%") and _magic(line) in _SETTINGS
    )


def _line(line: str) -> str:
    """Return a line that is not Python, as Python with the same names."""
    indent = line[: len(line) - len(line.lstrip())]
    assigned = _ASSIGNED.match(line)
    if assigned:
        return f"{indent}{assigned[2]} = {_wrapped(assigned[3]) or None}"
    return indent + (_wrapped(line) or "pass")


# --- running --------------------------------------------------------------------------


def _display(*values: object, **_: object) -> None:
    """Show values as notebooks do: here their text."""
    for value in values:
        print(repr(value))


def run_cells(cells: Iterable[Cell], names: dict[str, Any]) -> None:
    """Run cells one after another; the value of a cell's last line is printed."""
    names.setdefault("display", _display)
    for cell in cells:
        for line in cell.left_out:
            print(
                f"{cell.name}: left out, as it is not Python: {line}", file=sys.stderr
            )
        lines = [f"{line}\n" for line in cell.source.split("\n")]
        # where tracebacks and the conversion of control flow look for the text
        linecache.cache[cell.name] = (len(cell.source), None, lines, cell.name)
        tree = ast.parse(cell.source, cell.name)
        last = tree.body[-1] if tree.body else None
        shows = isinstance(last, ast.Expr) and not _is_hushed(cell.source)
        body = tree.body[:-1] if shows else tree.body
        exec(compile(ast.Module(body, []), cell.name, "exec", dont_inherit=True), names)
        if shows and isinstance(last, ast.Expr):
            expression = ast.Expression(last.value)
            code = compile(expression, cell.name, "eval", dont_inherit=True)
            sys.displayhook(eval(code, names))


def _is_hushed(source: str) -> bool:
    """Return whether the last statement ends with ``;``."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    blank = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER)
    said = [token.string for token in tokens if token.type not in blank]
    return bool(said) and said[-1] == ";"
