# SPDX-License-Identifier: MIT
"""``tf.compat.v1.app``: run a program's ``main`` after its flags are read.

Flags are those of absl where that is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ipu._text.exports import export

__all__ = ["flags", "run"]

_OURS = "ipu.tf.compat.v1._flags"

if TYPE_CHECKING:  # found when it is used
    flags: Any


def run(
    main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None
) -> NoReturn:
    """Read the command line, call ``main`` with what is left, end the process.

    Args:
        main: The function; None is ``main`` of the program.
        argv: The command line; None is that of the process.

    Raises:
        SystemExit: Always, with what ``main`` returned.
    """
    words = list(sys.argv if argv is None else argv)
    function = main or sys.modules["__main__"].main
    if "absl.flags" in sys.modules:
        importlib.import_module("absl.app").run(function, words)
    ours = sys.modules.get(_OURS)
    sys.exit(function(words if ours is None else ours.FLAGS(words)))


def _flags() -> Any:
    is_there = importlib.util.find_spec("absl") is not None
    return importlib.import_module("absl.flags" if is_there else _OURS)


export(__name__, None, {"flags": _flags})
