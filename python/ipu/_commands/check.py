# SPDX-License-Identifier: MIT
"""List the TensorFlow, IPU and Keras names that programs use, and which are missing;
methods, attributes and options that objects do not have; arguments that are refused.

Nothing is run: the files are read. The exit status is 1 when something is missing that
a program uses, and does more than import.
"""

from __future__ import annotations

import argparse
import sys

HELP = "say which names of a TensorFlow program are missing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "paths", nargs="+", help="programs, notebooks, or folders with them"
    )
    parser.add_argument(
        "--missing", action="store_true", help="list the missing names only"
    )


def run(options: argparse.Namespace) -> int:
    """Print a list for each file; 1 when a name is missing or a file is not Python."""
    from ipu.drop_in import _check

    status = 0
    for path in _check.program_files(options.paths):
        try:
            report = _check.check_file(path)
        except SyntaxError as error:
            print(
                f"{error.filename or path}:{error.lineno}: cannot be read: {error.msg}",
                file=sys.stderr,
            )
            status = 1
            continue
        print(report.text(missing_only=options.missing))
        if any(use.state in ("missing", "refused") for use in report.uses):
            status = 1
    return status
