# SPDX-License-Identifier: MIT
"""Whether the program is a notebook's, and which of its cells runs."""

from __future__ import annotations

import sys


def cell() -> int | None:
    """Return the number of the cell that runs, or None outside of a notebook's
    kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    is_kernel = type(shell).__name__ == "ZMQInteractiveShell"
    return int(shell.execution_count) if is_kernel and shell is not None else None


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    return cell() is not None
