# SPDX-License-Identifier: MIT
"""`python -m ipu check` and `run` of notebooks: cells, magics, lines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ipu import __main__ as command
from ipu.drop_in import _check, _notebooks

CELLS = [
    "%matplotlib inline\n%load_ext ipu\n!pip install -q nothing\n"
    "import tensorflow as tf",
    "%%time\n# a loss\nx = tf.constant([1.0, 2.0])\n%time y = x * 2.0\ny.shape",
    "%%bash\nls -la",
    "@tf.function\ndef total(n):\n    s = 0\n    for i in tf.range(n):\n"
    '        s += i\n    return s\n\nprint("total", int(total(tf.constant(4))))\n'
    'text = """\n!not a command\n%nor a magic\n"""\nprint(text.split()[0])\n'
    "files = !ls\nprint(files)\nx?\nprint(5\n% 3);",
]


def notebook(folder: Path, cells: list[str], **about: Any) -> str:
    code = [
        {"cell_type": "code", "source": text.splitlines(True), "metadata": {}}
        for text in cells
    ]
    words = {"cell_type": "markdown", "source": ["# !title"], "metadata": {}}
    path = folder / "train.ipynb"
    whole = {"cells": [words, *code], "nbformat": 4, "metadata": about}
    path.write_text(json.dumps(whole))
    return str(path)


def run(path: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ipu", "run", path, *words],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_cells_keep_their_lines(tmp_path: Path) -> None:
    cells = _notebooks.cells_of(notebook(tmp_path, CELLS))
    assert [cell.number for cell in cells] == [1, 2, 3, 4]
    for cell, text in zip(cells, CELLS, strict=True):
        assert cell.source.count("\n") == text.count("\n")
        compile(cell.source, cell.name, "exec")
    assert cells[0].source.splitlines()[:3] == ["pass"] * 3
    assert cells[1].source.splitlines()[:1] == [""]
    assert "y = x * 2.0" in cells[1].source.splitlines()
    assert not cells[2].source.strip()
    assert '"""\n!not a command\n%nor a magic\n"""' in cells[3].source
    assert "files = None" in cells[3].source
    left = [line for cell in cells for line in cell.left_out]
    assert left == ["!pip install -q nothing", "%%bash", "files = !ls"]


def test_a_notebook_runs_as_a_program(tmp_path: Path) -> None:
    path = notebook(tmp_path, CELLS)
    done = run(path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["(2,)", "total 6", "!not", "None", "2"]
    assert f"{path}, cell 1: left out, as it is not Python: !pip" in done.stderr


def test_an_error_names_the_cell_and_its_line(tmp_path: Path) -> None:
    path = notebook(tmp_path, ["import tensorflow as tf", "\n\ntf.reduce_men(1)"])
    done = run(path)
    assert done.returncode == 1
    assert f'File "{path}, cell 2", line 3' in done.stderr
    assert "tf.reduce_men(1)" in done.stderr
    assert f"line 3 of {path}, cell 2" in done.stderr


def test_check_tells_lines_by_cell(tmp_path: Path, capsys: Any) -> None:
    cells = ["%pip install x\nimport tensorflow as tf\ntf.zeros(3)", "tf.no_such()"]
    path = notebook(tmp_path, cells)
    uses = {use.name: use for use in _check.check_file(path).uses}
    assert [str(line) for line in uses["tensorflow.zeros"].lines] == ["3 of cell 1"]
    assert not uses["tensorflow.no_such"].there
    assert command.main(["check", str(tmp_path)]) == 1
    assert "tensorflow.no_such  line 1 of cell 2" in capsys.readouterr().out
    path = notebook(tmp_path, ["x = 1", "def f(:\n"])
    assert command.main(["check", path]) == 1
    assert f"{path}, cell 2:1: cannot be read" in capsys.readouterr().err


def test_what_is_no_notebook_of_python_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").write_text("{}")
    with pytest.raises(ValueError, match="it has no cells"):
        _notebooks.cells_of(str(tmp_path / "train.ipynb"))
    (tmp_path / "train.ipynb").write_text("nothing")
    with pytest.raises(ValueError, match="is not a notebook"):
        _notebooks.cells_of(str(tmp_path / "train.ipynb"))
    path = notebook(tmp_path, [], language_info={"name": "julia"})
    with pytest.raises(ValueError, match="of julia"):
        _notebooks.cells_of(path)
    assert command.main(["run", path]) == 1
