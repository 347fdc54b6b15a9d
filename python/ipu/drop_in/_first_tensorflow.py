# SPDX-License-Identifier: MIT
"""Whether a program was written for TensorFlow 1, whose names ``tensorflow`` has then.

In TensorFlow 2 graphs and sessions are below ``tensorflow.compat.v1``. So a program
that takes one of their names from ``tensorflow`` itself, as in ``import tensorflow as
tf; tf.Session()``, can have run with TensorFlow 1 only, where ops go to a graph from
the first line on.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator

from ipu.drop_in._entries_tf import GRAPHS, TRAIN
from ipu.drop_in._program_names import Finder

# of these TensorFlow 2 has a namesake
_KEPT = frozenset({"Graph", "latest_checkpoint"})
_SIGNS = frozenset(
    {
        *(f"tensorflow.{name}" for name in GRAPHS if name not in _KEPT),
        *(f"tensorflow.train.{name}" for name in TRAIN if name not in _KEPT),
        "tensorflow.app.run",
        "tensorflow.logging.set_verbosity",
        "tensorflow.train.MonitoredTrainingSession",
        "tensorflow.train.AdagradOptimizer",
    }
)
_SIGN_MODULES = ("tensorflow.layers.", "tensorflow.nn.rnn_cell.")


def uses_it(trees: Iterable[ast.AST], folder: str | None = None) -> bool:
    """Return whether a program takes names of TensorFlow 1 from ``tensorflow`` itself.

    Args:
        trees: The program, parsed.
        folder: Where modules of its own are that it imports; None: they are not read.

    Example:
        >>> uses_it([ast.parse("import tensorflow as tf; tf.Session()")])
        True
        >>> uses_it([ast.parse("import tensorflow.compat.v1 as tf; tf.Session()")])
        False
    """
    waiting, read = list(trees), set[str]()
    while waiting:
        tree = waiting.pop()
        if _has_sign(tree):
            return True
        if folder is None:
            continue
        for file in _imported(tree, folder):
            if file not in read:
                read.add(file)
                waiting += _parsed(file)
    return False


def _has_sign(tree: ast.AST) -> bool:
    finder = Finder()
    finder.visit(tree)
    return any(
        (name in _SIGNS or name.startswith(_SIGN_MODULES))
        and not all(one.guarded for one in uses)
        for name, uses in finder.found.items()
    )


def _imported(tree: ast.AST, folder: str) -> Iterator[str]:
    """Yield the files that import statements of a program may read."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [
                node.module,
                *(f"{node.module}.{alias.name}" for alias in node.names),
            ]
        for name in names:
            path = os.path.join(folder, *name.split("."))
            yield from (f"{path}.py", os.path.join(path, "__init__.py"))


def _parsed(file: str) -> list[ast.AST]:
    """Return a module of the program; nothing where there is none, or it is not
    Python."""
    try:
        with open(file, "rb") as opened:
            return [ast.parse(opened.read(), file)]
    except (OSError, SyntaxError, ValueError):
        return []
