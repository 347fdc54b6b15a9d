# SPDX-License-Identifier: MIT
"""The README's Python, cell after cell as in a notebook, on small data."""

import re
from pathlib import Path

import numpy as np
import pytest

import ipu
from ipu import keras

README = Path(__file__).resolve().parents[1] / "README.md"
CELLS = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.S | re.M)


@pytest.fixture
def small_data(monkeypatch):
    def load_data():
        rng = np.random.default_rng(0)
        labels = np.arange(6400, dtype=np.uint8) % 10
        images = rng.integers(0, 128, (6400, 28, 28), dtype=np.uint8)
        images[np.arange(6400), labels * 2] += 127  # a bright row for each class
        return (images, labels), (images[:64], labels[:64])

    monkeypatch.setattr(keras.datasets.fashion_mnist, "load_data", load_data)
    yield
    ipu.config.reset_ipu_configuration()


def test_cells_run_in_order(small_data, tmp_path, capsys):
    assert len(CELLS) == 7
    printed, names = [], {"__name__": "__main__"}
    for number, cell in enumerate(CELLS):
        file = tmp_path / f"cell_{number}.py"
        file.write_text(cell)
        exec(compile(cell, str(file), "exec"), names)
        printed.append(capsys.readouterr().out)
    first, loop, function, tape, thread, speed, pipeline = printed
    assert first.count("Epoch") == 2 and names["history"].history["loss"][-1] < 1
    losses = [float(line.removeprefix("loss ")) for line in loop.splitlines()]
    assert len(losses) == 5 and losses[-1] < losses[0] / 2
    assert function.startswith("tf.Tensor(111, shape=(), dtype=int32)\n")
    assert "collatz has been traced once." in function
    assert float(tape) == pytest.approx(6 + np.cos(3.0), rel=1e-6)
    assert thread.startswith("1000 losses, the last ")
    assert float(speed) > 0
    assert "The slowest stage costs" in pipeline and "Epoch 1/1" in pipeline
    assert "Interleaved: training of 2 stages on 2 IPUs, 8 micro-batches" in pipeline
