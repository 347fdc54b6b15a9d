# SPDX-License-Identifier: MIT
"""``python -m ipu``: the commands of the package."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from ipu._commands import account, check, mnist, profile, run
from ipu._version import __version__

__all__ = ["main"]

_COMMANDS = {
    "run": run,
    "check": check,
    "profile": profile,
    "account": account,
    "mnist": mnist,
}


class _Parser(argparse.ArgumentParser):
    """A parser that offers the nearest command for an unknown one."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m ipu",
        description="The IPU programming model for TensorFlow 2, on this computer.",
    )
    parser.add_argument("--version", action="version", version=f"ipu {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, module in _COMMANDS.items():
        one = commands.add_parser(name, help=module.HELP, description=module.__doc__)
        module.add_arguments(one)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: The words after ``python -m ipu``; None for those of this process.

    Returns:
        The exit status: 0 where all went well, 1 for an error, 2 for wrong usage, 130
        after Ctrl-C, 141 where nobody reads the output any more.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    if not words:
        parser.print_help()
        return 0
    if not words[0].startswith("-") and words[0] not in _COMMANDS:
        near = difflib.get_close_matches(words[0], _COMMANDS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        parser.error(
            f"unknown command {words[0]!r}.{hint} Commands: {', '.join(_COMMANDS)}."
        )
    options = parser.parse_args(words)
    try:
        status = int(_COMMANDS[options.command].run(options))
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Python flushes once more when it ends, and would complain then
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except (OSError, ValueError, RuntimeError) as error:
        print(f"{parser.prog} {options.command}: error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
