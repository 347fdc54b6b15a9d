# SPDX-License-Identifier: MIT
"""The programs of docs/examples, on little data: they train, and say so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from forked import Programs

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"
LONGEST = 120  # lines

# the arguments, and the largest loss in the end
RUNS = {
    "mnist_cnn": ("--samples 256 --epochs 2", 2.6),
    "char_lstm": ("--units 32 --epochs 2 --write 3", 3.0),
    "transformer": ("--samples 1024 --length 6 --width 32 --epochs 3", 2.2),
    "resnet_cifar10": ("--random --samples 256 -n 1 --epochs 2", 2.2),
    "mixed_precision": ("--samples 2048 --epochs 8 --width 64", 0.5),
}
CASES = [
    *((name, arguments, loss) for name, (arguments, loss) in RUNS.items()),
    *(
        (name, f"{RUNS[name][0]} --pipeline", RUNS[name][1] + 0.7)
        for name in ("mnist_cnn", "char_lstm", "transformer", "resnet_cifar10")
    ),
    *(
        ("mixed_precision", f"{RUNS['mixed_precision'][0]} --scaling {kind}", 0.5)
        for kind in ("fixed", "als")
    ),
]


def test_all_of_them_are_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_they_are_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < LONGEST


@pytest.mark.parametrize(("name", "arguments", "largest"), CASES)
def test_examples_train(
    name: str, arguments: str, largest: float, programs: Programs, tmp_path: Path
) -> None:
    words = [str(EXAMPLES / f"{name}.py"), *arguments.split()]
    no_data = {"KERAS_HOME": str(tmp_path)}
    done = programs.run(words, tmp_path, no_data, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    losses = [float(loss) for loss in re.findall(r"loss: ([\d.]+)", done.stdout)]
    assert len(losses) >= 2, done.stdout
    assert losses[-1] < min(losses[0], largest), losses
