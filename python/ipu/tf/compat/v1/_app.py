# SPDX-License-Identifier: MIT
"""``tf.compat.v1.app``: run a program's ``main`` after its flags are read.

Flags are those of absl where that is installed.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import types
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


class _ReadWhenAsked:
    """Flags of absl that read the command line when the first one is asked for."""

    def __init__(self, flags: Any) -> None:
        self.__dict__["_flags"] = flags

    def __getattr__(self, name: str) -> Any:
        flags = self.__dict__["_flags"]
        if not name.startswith("_") and name in flags and not flags.is_parsed():
            flags(sys.argv)
        return getattr(flags, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_flags"], name, value)

    def __call__(self, argv: Sequence[str], known_only: bool = False) -> Any:
        return self.__dict__["_flags"](argv, known_only)

    def __contains__(self, name: str) -> bool:
        return name in self.__dict__["_flags"]

    def __getitem__(self, name: str) -> Any:
        return self.__dict__["_flags"][name]

    def __iter__(self) -> Any:
        return iter(self.__dict__["_flags"])


@functools.cache
def _flags() -> Any:
    if importlib.util.find_spec("absl") is None:
        return importlib.import_module(_OURS)
    absl = importlib.import_module("absl.flags")
    found = types.ModuleType("flags", absl.__doc__)
    found.__dict__.update(vars(absl))
    found.__dict__["FLAGS"] = _ReadWhenAsked(absl.FLAGS)
    return found


export(__name__, None, {"flags": _flags})
