# SPDX-License-Identifier: MIT
"""Programs in children of one Python that has imported the package.

The import takes longer than most programs run. A child is a process of its own
otherwise: arguments, output, the exit of the interpreter.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

_SERVER = """
import gc, json, os, runpy, sys, types
from ipu import keras, tf
keras.Sequential, keras.layers.Dense, keras.optimizers.Adam, tf.data.Dataset
gc.collect()
gc.freeze()  # a child copies no page for that
for line in sys.stdin:
    words, folder, variables = json.loads(line)
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
os.environ.update(variables)
os.chdir(folder)
for name in ("stdin", "stdout", "stderr"):
    kind = os.O_RDONLY if name == "stdin" else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    path = os.devnull if name == "stdin" else name
    os.dup2(os.open(path, kind), getattr(sys, name).fileno())
if words[0] == "-m":
    sys.argv = words[1:]
    runpy.run_module(words[1], run_name="__main__", alter_sys=True)
elif words[0] == "-c":
    sys.argv = [words[0], *words[2:]]
    sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(words[1], "<string>", "exec"), vars(sys.modules["__main__"]))
else:
    sys.argv, sys.path[0] = words, os.path.dirname(words[0])
    runpy.run_path(words[0], run_name="__main__")
"""


class Programs:
    """A Python that has imported the package."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={k: v for k, v in os.environ.items() if k != "TF_POPLAR_FLAGS"},
            start_new_session=True,
        )

    def run(
        self,
        words: Sequence[str],
        folder: Path,
        variables: Mapping[str, str] = MappingProxyType({}),
        timeout: float = 120.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as ``python`` runs it with these words after it.

        Args:
            words: The path of the program, ``-m`` and a module, or ``-c`` and a text;
                then its arguments.
            folder: Where it runs, and where its output is kept.
            variables: Its environment, besides what there is.
            timeout: Seconds.
        """
        asked, answered = self._server.stdin, self._server.stdout
        assert asked is not None and answered is not None
        line = json.dumps([list(words), str(folder), dict(variables)])
        asked.write(line.encode() + b"\n")
        asked.flush()
        if not select.select([answered], [], [], timeout)[0]:
            self.close()
            raise subprocess.TimeoutExpired(list(words), timeout)
        status = int(answered.readline())
        out, err = ((folder / name).read_text() for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(list(words), status, out, err)

    def close(self) -> None:
        """End it, and what it runs."""
        if self._server.poll() is None:
            os.killpg(self._server.pid, 9)
        self._server.communicate()
