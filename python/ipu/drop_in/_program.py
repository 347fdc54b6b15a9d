# SPDX-License-Identifier: MIT
"""Runs a program as ``python program.py`` would, with the drop-in names installed."""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import importlib.util
import io
import os
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from typing import Any

from ipu import drop_in
from ipu._text import tracebacks
from ipu._text.missing import PACKAGE
from ipu.drop_in import _first_tensorflow, _notebooks
from ipu.tf._graph import mode

INTERRUPTED = 130


def run_file(path: str, arguments: Sequence[str], full_traceback: bool = False) -> int:
    """Run a file, a notebook, or a folder with a ``__main__.py``.

    Returns:
        The exit status: 0, 1 after an exception, 130 after Ctrl-C.
    """
    if os.path.isdir(path):
        sys.path[0] = path
        return run_module("__main__", arguments, full_traceback, argv0=path)
    # absolute, so that the source is found after the program changes its folder
    file = os.path.abspath(path)
    cells, source = [], b""
    is_notebook = path.endswith(_notebooks.SUFFIX)
    if is_notebook:
        cells = _notebooks.cells_of(file)
    else:
        with io.open_code(file) as opened:
            source = opened.read()
    sys.argv[:] = [path, *arguments]
    sys.path[0] = os.path.dirname(file)
    main = _main_module(__file__=file)
    texts: list[str | bytes] = [cell.source for cell in cells] or [source]

    def run() -> None:
        if is_notebook:
            _notebooks.run_cells(cells, main.__dict__)
        else:
            exec(compile(source, file, "exec", dont_inherit=True), main.__dict__)

    return _execute(run, full_traceback, _is_first(texts, sys.path[0]))


def run_module(
    name: str,
    arguments: Sequence[str],
    full_traceback: bool = False,
    argv0: str | None = None,
) -> int:
    """Run a module, as ``python -m name``.

    Returns:
        As :func:`run_file`.
    """
    if argv0 is None:
        sys.path[0] = os.getcwd()
    # the package that the module is in is imported to find it
    drop_in.install()
    # "__main__" itself is in sys.modules already, without a spec
    spec = (
        importlib.machinery.PathFinder.find_spec(name, sys.path[:1])
        if name == "__main__"
        else _spec_of(name)
    )
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _spec_of(f"{name}.__main__")
    loader: Any = None if spec is None else spec.loader
    if spec is None or not hasattr(loader, "get_code"):
        raise ValueError(f"no module named {name!r} that can be run")
    code = loader.get_code(spec.name)
    if code is None:
        raise ValueError(f"the module {name!r} has no Python code to run")
    sys.argv[:] = [argv0 or spec.origin or name, *arguments]
    main = _main_module(
        __file__=spec.origin,
        __package__=spec.parent,
        __loader__=loader,
        __spec__=spec,
        __cached__=spec.cached,
    )
    text = loader.get_source(spec.name) or ""
    is_first = _is_first([text], sys.path[0])
    return _execute(lambda: exec(code, main.__dict__), full_traceback, is_first)


def _spec_of(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        raise


def _main_module(**names: object) -> types.ModuleType:
    """Return a new ``__main__``: it stays, since threads and pickles may look it up."""
    main = types.ModuleType("__main__")
    main.__dict__.update(
        {"__builtins__": builtins, "__package__": None, "__cached__": None, **names}
    )
    sys.modules["__main__"] = main
    return main


def _is_first(texts: Sequence[str | bytes], folder: str) -> bool:
    """Return whether a program is for TensorFlow 1; text that is not Python says so
    later."""
    try:
        trees = [ast.parse(text) for text in texts]
    except (SyntaxError, ValueError):
        return False
    return _first_tensorflow.uses_it(trees, folder)


def _execute(run: Callable[[], None], full_traceback: bool, is_first: bool) -> int:
    if is_first:
        drop_in.uninstall()
    drop_in.install(is_first)
    if is_first:
        mode.default_to_graphs(True)
    if full_traceback:
        tracebacks.set_enabled(False)
    try:
        run()
    except SystemExit:
        raise
    except BaseException as error:
        sys.stdout.flush()
        _show(error, full_traceback)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _show(error: BaseException, full: bool) -> None:
    """Print the traceback from the program's first frame on."""
    trace = error.__traceback__
    own = (__file__, _notebooks.__file__)
    while trace is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    if sys.excepthook is not sys.__excepthook__:
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return
    shown = traceback.TracebackException(type(error), error, trace)
    if not full:
        _hide_own_frames(shown)
    print("".join(shown.format()), file=sys.stderr, end="")


def _hide_own_frames(shown: traceback.TracebackException | None) -> None:
    while shown is not None:
        kept = [
            frame
            for frame in shown.stack
            if not frame.filename.startswith((PACKAGE, "<frozen "))
        ]
        shown.stack = traceback.StackSummary.from_list(kept)
        _hide_own_frames(shown.__context__)
        shown = shown.__cause__
