# SPDX-License-Identifier: MIT
"""``tf.compat.v1.app``: run a program's ``main`` after its flags are read."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

__all__ = ["run"]


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
    # A program that defines flags has imported absl; without it there are none.
    if "absl.flags" in sys.modules:
        importlib.import_module("absl.app").run(function, words)
    sys.exit(function(words))
