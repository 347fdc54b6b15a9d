# SPDX-License-Identifier: MIT
"""The notebooks of docs/examples: they run on little data, and show what they did."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ipu
from ipu import keras

nbformat = pytest.importorskip("nbformat", reason="needs pip install '.[test]'")
pytest.importorskip("IPython", reason="needs pip install '.[test]'")
plt = pytest.importorskip("matplotlib.pyplot", reason="needs '.[examples]'")

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"
LONGEST = 120  # lines of code
SMALL: dict[str, dict[str, int]] = {
    "first_model": {"samples": 640, "epochs": 1},
    "training_loop": {"steps": 10, "runs": 2},
    "pipelines": {"epochs": 1, "width": 16},
    "text_transformer": {"letters_read": 2000, "epochs": 1, "width": 8},
    "pictures_and_checkpoints": {"samples": 192, "epochs": 2},
    "mixed_precision": {"samples": 256, "epochs": 1, "timed_steps": 1},
    "old_program": {"EPOCHS": 1, "STEPS_PER_EPOCH": 20},
    "digits_kfold": {"folds": 2, "epochs": 1},
    "regression_pandas": {"houses": 200, "epochs": 1},
    "two_optimizers": {"samples": 512, "epochs": 1},
}
NEEDS = {
    "digits_kfold": ["sklearn", "h5py"],
    "pictures_and_checkpoints": ["h5py"],
    "regression_pandas": ["sklearn", "pandas"],
}


def cells_of(name: str) -> list[Any]:
    cells: list[Any] = nbformat.read(EXAMPLES / f"{name}.ipynb", 4).cells
    return cells


def code_of(name: str) -> list[Any]:
    return [cell for cell in cells_of(name) if cell.cell_type == "code"]


def with_numbers(cell: Any, numbers: dict[str, int]) -> str:
    """The source of a cell; in that of the parameters, with other numbers."""
    source: str = cell.source
    if "parameters" in cell.metadata.get("tags", ()):
        for key, value in numbers.items():
            source, count = re.subn(rf"(?m)^{key} = \d+", f"{key} = {value}", source)
            assert count == 1, key
    return source


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """IPython in this process."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    plt.switch_backend("agg")
    main = sys.modules["__main__"]
    made = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    try:
        yield made
    finally:
        made.restore_sys_module_state()
        sys.modules["__main__"] = main
        InteractiveShell.clear_instance()
        ipu.drop_in.uninstall()
        keras.mixed_precision.set_global_policy(None)
        ipu.config.reset_ipu_configuration()


def test_all_of_them_are_here_and_in_the_lists() -> None:
    found = {path.stem for path in EXAMPLES.glob("*.ipynb")}
    assert found == set(SMALL)
    for page in ("README.md", "docs/examples.md"):
        text = (EXAMPLES.parent.parent / page).read_text()
        assert all(f"examples/{name}.ipynb)" in text for name in found), page


@pytest.mark.parametrize("name", SMALL)
def test_they_run(name: str, shell: Any, small_data: None) -> None:
    for module in NEEDS.get(name, ()):
        pytest.importorskip(module, reason="needs pip install '.[examples]'")
    for cell in code_of(name):
        result = shell.run_cell(with_numbers(cell, SMALL[name]))
        result.raise_error()


@pytest.mark.parametrize("name", SMALL)
def test_they_are_short_and_tell(name: str) -> None:
    code = code_of(name)
    assert sum(len(cell.source.splitlines()) for cell in code) < LONGEST
    texts = [cell for cell in cells_of(name) if cell.cell_type == "markdown"]
    assert texts[0].source.startswith("# ") and len(texts) >= 3
    for target in re.findall(r"\]\(([^)#]+)\)", "".join(t.source for t in texts)):
        assert target.startswith("https://") or (EXAMPLES / target).exists(), target


def tables_of(name: str) -> list[dict[str, str]]:
    """What each fit of a saved notebook left, in its forms."""
    outputs = [output for cell in code_of(name) for output in cell.outputs]
    shown = [output.data for output in outputs if "data" in output]
    tables: list[dict[str, str]] = [
        data for data in shown if data.get("text/plain", "").startswith("epoch ")
    ]
    return tables


@pytest.mark.parametrize("name", SMALL)
def test_they_have_their_outputs(name: str) -> None:
    code = code_of(name)
    counts = [cell.execution_count for cell in code]
    assert counts == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert len(outputs) >= 2
    assert not [one for one in outputs if one.output_type == "error"]
    assert not [one for one in outputs if one.get("name") == "stderr"]
    text = "".join(str(one) for one in outputs)
    assert "/root/" not in text and "/home/" not in text
    whole = 0
    for table in tables_of(name):
        head, *rows = table["text/plain"].splitlines()
        assert head.split()[:3] == ["epoch", "steps", "time"]
        epochs = [row.split()[0] for row in rows]
        first, last = map(int, epochs[0].split("/"))
        end = first + len(rows) - 1  # where a run is stopped, and goes on
        assert epochs == [f"{epoch}/{last}" for epoch in range(first, end + 1)]
        whole += first == 1 and end == last
    assert whole or name == "training_loop"  # which has no fit


def test_what_opens_them_elsewhere_shows_every_epoch() -> None:
    nbconvert = pytest.importorskip("nbconvert", reason="needs '.[examples]'")
    page, _ = nbconvert.HTMLExporter().from_filename(
        str(EXAMPLES / "regression_pandas.ipynb")
    )
    (table,) = tables_of("regression_pandas")
    rows = [row.split() for row in table["text/plain"].splitlines()]
    assert len(rows) > 10
    for row in rows:
        assert all(f">{word}<" in page for word in row), row


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_they_run_in_a_kernel(name: str) -> None:
    nbclient = pytest.importorskip("nbclient", reason="needs pip install '.[test]'")
    pytest.importorskip("ipykernel", reason="needs pip install '.[test]'")
    for module in NEEDS.get(name, ()):
        pytest.importorskip(module, reason="needs pip install '.[examples]'")
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", 4)
    nbclient.NotebookClient(notebook, timeout=900).execute()
