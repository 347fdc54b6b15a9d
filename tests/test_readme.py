# SPDX-License-Identifier: MIT
"""The Python of README.md and of docs/, cell after cell as in a notebook."""

import logging
import re
from pathlib import Path

import numpy as np
import pytest

import ipu

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PIPELINES = ROOT / "docs" / "pipelines.md"
PAGES = sorted(
    page
    for page in (ROOT / "docs").glob("*.md")
    if page != PIPELINES and "```python" in page.read_text()
)
CELL = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.S | re.M)


def run_cells(page, tmp_path, capsys):
    """What each cell printed; where the page shows it, that is what it shows."""
    printed, names = [], {"__name__": "__main__"}
    for number, (cell, shown) in enumerate(CELL.findall(page.read_text())):
        file = tmp_path / f"cell_{number}.py"
        file.write_text(cell)
        exec(compile(cell, str(file), "exec"), names)
        printed.append(capsys.readouterr().out)
        if shown:
            assert printed[-1] == shown
    return printed, names


def test_cells_run_in_order(small_data, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a trace is written there
    printed, names = run_cells(README, tmp_path, capsys)
    ipu.config.reset_ipu_configuration()
    shown, first, loop, profile, function, tape, thread, speed, pipeline, switch = (
        printed
    )
    assert switch == "" and shown.count("Epoch") == 2
    assert first.count("Epoch") == 2 and names["history"].history["loss"][-1] < 1
    losses = [float(line.removeprefix("loss ")) for line in loop.splitlines()]
    assert len(losses) == 5 and losses[-1] < losses[0] / 2
    assert "where a step's time goes" in profile
    assert (tmp_path / "trace.json").exists()
    assert function.startswith("tf.Tensor(111, shape=(), dtype=int32)\n")
    assert "collatz has been traced once." in function
    assert float(tape) == pytest.approx(6 + np.cos(3.0), rel=1e-6)
    assert thread.startswith("1000 losses, the last ")
    assert float(speed) > 0
    assert "The slowest stage costs" in pipeline and "Epoch 1/1" in pipeline
    assert "Interleaved: training of 2 stages on 2 IPUs, 8 micro-batches" in pipeline


def test_the_first_screen_shows_what_it_is():
    page = README.read_text()
    first = page[: page.index("## ")]
    assert (ROOT / re.search(r"!\[.*?\]\((.*?)\)", first)[1]).exists()
    commands, code = (first.index(text) for text in ("apt-get", "```python"))
    assert first.index("![") < commands < code
    assert len(first[:code].splitlines()) < 25
    assert len(CELL.findall(first)[0][0].splitlines()) <= 15
    grid = re.search(r"^ +-+ ramp-up.*?(?=^\.\.\.$)", page, re.S | re.M)[0]
    assert grid in str(ipu.Timetable("Interleaved", 4))
    for target in re.findall(r"\]\(([^)]*)\)", page):
        assert target.startswith("https://") or (ROOT / target).exists()


def test_cells_of_the_page_about_pipelines(tmp_path, capsys):
    printed, names = run_cells(PIPELINES, tmp_path, capsys)
    ipu.config.reset_ipu_configuration()
    train, summary, change, plan, ran, compared, again, split, own, memory = printed
    assert train.count("Epoch") == 4
    losses = names["history"].history["loss"]
    assert losses[-1] < losses[0] / 2
    assert "Pipeline Stage" in summary and change == again == ""
    assert "Grouped: training of 2 stages" in plan and ran.startswith("32 passes")
    assert "7 schedules from the same start: the same weights" in compared
    assert "The slowest stage costs" in split
    at_first, last = map(float, re.findall(r"\d\.\d+", own))
    assert last < at_first / 1.2
    assert memory.count("KiB kept") == 3
    page = PIPELINES.read_text()
    anchors = {
        title.lower().replace(" ", "-")
        for title in re.findall(r"^## (.*)$", page, re.M)
    }
    assert set(re.findall(r"\]\(#(.*?)\)", page)) == anchors


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_cells_of_a_page(page, small_data, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    level = logging.getLogger("ipu").level
    try:
        run_cells(page, tmp_path, capsys)
    finally:
        ipu.drop_in.uninstall()
        logging.getLogger("ipu").setLevel(level)
        ipu.config.reset_ipu_configuration()
