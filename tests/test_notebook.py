# SPDX-License-Identifier: MIT
"""What a notebook shows, run in a real kernel: what the saved file has in it."""

from __future__ import annotations

import re
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient", reason="needs pip install '.[test]'")
nbformat = pytest.importorskip("nbformat", reason="needs pip install '.[test]'")
pytest.importorskip("ipykernel", reason="needs pip install '.[test]'")

SETUP = """
import numpy as np
import ipu
from ipu import keras, tf
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
x = np.linspace(0, 1, 512, dtype="float32").reshape(64, 8)
y = x.sum(axis=1)
strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(1)])
    names = ["mae", "mape", "msle", "cosine_similarity", "logcosh", "mse"]
    model.compile("sgd", "mse", metrics=names, steps_per_execution=4)
"""
FIT = """
with strategy.scope():
    history = model.fit(x, y, batch_size=8, epochs=20, validation_data=(x, y))
"""
STOP = """
class Stop(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise KeyboardInterrupt
with strategy.scope():
    model.fit(x, y, batch_size=8, epochs=5, callbacks=[Stop()])
"""
KEPT = "print(len(model.history.history['loss']), len(model.history.steps['loss']))"
LONG = "model.fit(x, y, batch_size=8, epochs=300, validation_data=(x, y))"
LATER = ["model.history", "model.fit(x, y, 8, epochs=2, verbose=0)"]
SHOW = ["tf.constant([1.0])", "tf.Variable([1.0])", "tf.data.Dataset.range(3)"]


@pytest.fixture(scope="module")
def cells() -> list[Any]:
    """The outputs of each cell, as a saved notebook has them."""
    code = [
        SETUP,
        FIT,
        "model.evaluate(x, y, batch_size=8);",
        STOP,
        KEPT,
        *SHOW,
        LONG,
        *LATER,
    ]
    cells = [nbformat.v4.new_code_cell(source) for source in code]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = nbclient.NotebookClient(notebook, timeout=120, allow_errors=True)
    client.execute()
    return [cell.outputs for cell in notebook.cells]


def rows_of(output: Any) -> list[list[str]]:
    """The cells of the table that a display left, the same in both of its forms."""
    plain = [line.split() for line in output.data["text/plain"].splitlines()]
    page = output.data["text/html"]
    html = [re.findall(r"<t[hd][^>]*>([^<]*)<", row) for row in page.split("<tr>")[1:]]
    assert [" ".join(row).split() for row in html] == plain
    return html


def test_no_notice_in_an_ordinary_run(cells: list[Any]) -> None:
    for outputs in cells:
        assert not [one for one in outputs if one.get("name") == "stderr"]


def test_a_fit_leaves_one_table_of_all_epochs(cells: list[Any]) -> None:
    (output,) = cells[1]
    assert output.output_type == "display_data"
    head, *rows = rows_of(output)
    assert head[:5] == ["epoch", "steps", "time", "loss", "mae"]
    assert len(head) == 3 + 2 * 7
    assert [row[0] for row in rows] == [f"{epoch}/20" for epoch in range(1, 21)]
    assert all(row[1] == "8/8" and len(row) == len(head) for row in rows)
    assert "monospace" in output.data["text/html"]


def test_an_evaluation_leaves_a_row(cells: list[Any]) -> None:
    head, row = rows_of(cells[2][0])
    assert head[:3] == ["steps", "time", "loss"] and row[0] == "8/8"


def test_what_is_interrupted_keeps_its_results(cells: list[Any]) -> None:
    table = rows_of(cells[3][0])
    assert [row[0] for row in table[1:]] == ["1/5", "2/5"]
    assert cells[3][-1].ename == "KeyboardInterrupt"
    assert cells[4][0].text == "2 16\n"


def test_values_have_a_form_for_notebooks(cells: list[Any]) -> None:
    for (output,) in cells[5:8]:
        assert output.data["text/html"].startswith("<pre>")


def test_a_cell_that_ends_in_fit_shows_one_table_folded_with_curves(
    cells: list[Any],
) -> None:
    (output,) = cells[8]
    assert output.output_type == "display_data"
    table, _, curves = output.data["text/plain"].partition("\n\n")
    rows = [line.split() for line in table.splitlines()]
    shown = [row[0] for row in rows]
    assert shown[1:7] == ["1/300", "2/300", "3/300", "4/300", "5/300", "..."]
    assert shown[7:] == [f"{epoch}/300" for epoch in range(291, 301)]
    assert "\nval_mae " in curves
    # a picture of each metric, the validation's curve in it, in the page's colours
    html = output.data["text/html"]
    assert html.count("<svg") == 7 and html.count("<polyline") == 14
    assert "currentColor" in html and html.count("<tr>") == 17


def test_a_history_is_shown_where_its_table_was_not(cells: list[Any]) -> None:
    for outputs, rows, pictures in ((cells[9], 16, 7), (cells[10], 2, 0)):
        (output,) = outputs
        assert output.output_type == "execute_result"
        html = output.data["text/html"]
        assert html.count("<tr>") == rows + 1 and html.count("<svg") == pictures
