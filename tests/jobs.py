# SPDX-License-Identifier: MIT
"""Programs in several processes, each job a session of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from ipu._device import launcher

RESUMED = str(Path(__file__).parent / "resumed_processes.py")
ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if not k.startswith("POPDIST_")},
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def start(folder: Path, count: int, *words: str) -> subprocess.Popen[str]:
    command = [launcher._mpiexec(), "-n", str(count), sys.executable, *words]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def run(folder: Path, count: int, *words: str) -> tuple[int, str, str]:
    """Status, output and errors of a program in so many processes."""
    started = start(folder, count, *words)
    try:
        out, err = started.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        raise
    return started.returncode, out, err


def results(folder: Path, count: int) -> list[Any]:
    """What each process wrote: launchers mix what they print."""
    return [json.loads((folder / f"{i}.json").read_text()) for i in range(count)]
