# SPDX-License-Identifier: MIT
"""The machine's own peak of fused multiply-adds, by `peak.c`."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

WIDTHS = (16, 32, 64)
FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno")


class Peak:
    """Compiles `peak.c` once; `measure` runs it on some cores at the same time."""

    def __init__(self, folder: Path) -> None:
        self.programs: list[Path] = []
        self.problem = ""
        source = Path(__file__).with_name("peak.c")
        compiler = os.environ.get("CC", "cc").split()
        for width in WIDTHS:
            program = folder / f"peak{width}"
            command = [*compiler, *FLAGS, f"-DWIDTH={width}", str(source)]
            try:
                subprocess.run(
                    [*command, "-o", str(program)],
                    check=True,
                    capture_output=True,
                    timeout=60,
                )
            except (OSError, subprocess.SubprocessError) as error:
                self.problem = f"{error}"
            else:
                self.programs.append(program)

    def measure(self, cpus: list[int], seconds: float = 0.15) -> float:
        """GFLOP/s of all these cores together; 0.0 without a C compiler.

        The best vector width counts: the widest is not always the fastest.
        """
        best = 0.0
        for program in self.programs:
            running = [
                subprocess.Popen(
                    [str(program), str(seconds)],
                    stdout=subprocess.PIPE,
                    text=True,
                    preexec_fn=functools.partial(os.sched_setaffinity, 0, {cpu}),
                )
                for cpu in cpus
            ]
            rates = [process.communicate()[0] for process in running]
            if all(process.returncode == 0 for process in running):
                best = max(best, sum(float(rate) for rate in rates))
        return best
