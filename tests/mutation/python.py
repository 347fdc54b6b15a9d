# SPDX-License-Identifier: MIT
"""A plugin of pytest that puts mutants into the Python files that are named to it.

It comes before the server's, which then tries them as it does those of C.
"""

from __future__ import annotations

import builtins
import json
import mmap
import os
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

from .build import FOLDER
from .py_mutants import mutate

_FILES: dict[str, int] = json.loads(os.environ["IPU_MUTATED"])  # and first numbers


def _open(count: int) -> None:
    with (FOLDER / "switch").open("wb+") as file:
        file.truncate(4 + count)
        page = memoryview(mmap.mmap(file.fileno(), 4 + count))
    on, reached = page[:4].cast("i"), page[4:]

    def is_on(number: int) -> bool:
        reached[number] = 1
        return on[0] == number

    builtins._mutant = is_on  # type: ignore[attr-defined]


_get_code = SourceFileLoader.get_code


def _get_mutated(loader: SourceFileLoader, fullname: str) -> CodeType | None:
    """Compile a file with its mutants, if it is to have some."""
    path = loader.get_filename(fullname)
    if path not in _FILES:
        return _get_code(loader, fullname)
    tree, _ = mutate(Path(path).read_text(), path, _FILES[path])
    code: CodeType = compile(tree, path, "exec")
    return code


_open(len(json.loads((FOLDER / "names.json").read_text())))
SourceFileLoader.get_code = _get_mutated  # type: ignore[assignment,method-assign]
