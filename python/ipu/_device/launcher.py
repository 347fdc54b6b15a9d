# SPDX-License-Identifier: MIT
"""Start a Python program in several processes, by MPI's own launcher."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ipu._device.processes import INSTALL
from ipu._text.errors import FailedPreconditionError


def _mpiexec() -> str:
    """Return the launcher: of this Python's environment, else the first in the path."""
    own = Path(sys.executable).parent / "mpiexec"
    found = str(own) if own.is_file() else shutil.which("mpiexec")
    missing = "mpiexec" if found is None else ""
    if importlib.util.find_spec("mpi4py") is None:
        missing = "mpi4py"
    if found is None or missing:
        raise FailedPreconditionError(
            f"Several processes need MPI, and {missing} is not here. Install it: "
            f"{INSTALL}."
        )
    return found


def launch(
    count: int, words: Sequence[str], told: Mapping[str, int | None] | None = None
) -> int:
    """Run ``python words...`` in so many processes of this machine.

    Args:
        count: How many.
        words: The arguments of Python.
        told: Numbers for the environment of the processes; None is left out.

    Returns:
        The exit status of the launcher: 0 where all processes ended well.

    Raises:
        FailedPreconditionError: There is no ``mpi4py``, or no launcher.
    """
    environment = dict(os.environ)
    for name, value in (told or {}).items():
        if value is not None:
            environment[name] = str(value)
    if os.geteuid() == 0:  # Open MPI asks whether that is meant
        environment.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
        environment.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    command = [_mpiexec(), "-n", str(count), sys.executable, *words]
    with subprocess.Popen(command, env=environment) as started:
        while True:
            try:
                return started.wait()
            except KeyboardInterrupt:
                continue  # the processes have had it from the terminal, and end
