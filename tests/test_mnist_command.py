"""``python -m ipu``: the mnist command on a small data set, and wrong usage."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ipu.__main__ import main
from ipu.config import reset_ipu_configuration


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of ten images, one for each class, with noise."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 200, (10, 28, 28))

    def some(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.integers(0, 10, count)
        noise = rng.integers(0, 55, (count, 28, 28))
        return (patterns[labels] + noise).astype(np.uint8), labels.astype(np.uint8)

    x_train, y_train = some(640)
    x_test, y_test = some(200)
    np.savez(
        folder / "mnist.npz",
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
    )
    return folder


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ipu", *words],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_mnist_trains_and_reports(images: Path) -> None:
    done = run(
        "mnist", "--data", str(images), "--epochs", "5", "--steps-per-epoch", "60",
        "--batch-size", "16", "--steps-per-execution", "20", "--threads", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Data set: ") and str(images) in lines[0]
    assert "Total params: 244,522" in lines
    assert any(line.startswith("Epoch 5/5 - 60/60 - ") for line in lines)
    last = re.fullmatch(
        r"test accuracy (\d\.\d{4})  samples/s ([\d.]+)  dataset (\S+)", lines[-1]
    )
    assert last is not None, lines[-1]
    assert float(last[1]) > 0.95 and float(last[2]) > 0


def test_an_epoch_shorter_than_an_execution_needs_no_option(images: Path) -> None:
    done = run(
        "mnist", "--data", str(images), "--epochs", "1", "--steps-per-epoch", "7"
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr


def losses(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The loss of each epoch, in the table at the end."""
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    rows = lines[lines.index(next(la for la in lines if "epoch  " in la)) + 1 : -1]
    return [row.split()[1] for row in rows]


def test_mnist_in_a_pipeline(images: Path) -> None:
    words = ["mnist", "--data", str(images), "--epochs", "2", "--batch-size", "16"]
    words += ["--steps-per-epoch", "16"]
    found = []
    for more, grid in [
        (["--accumulate", "4"], ""),
        (["--pipeline", "2"], "IPU 1    F0 F1 F2 F3"),
        (
            ["--pipeline", "2", "--schedule", "interleaved"],
            "IPU 1    F0 B0 F1 B1 F2 B2 F3 B3",
        ),
        (
            ["--pipeline", "4", "--schedule", "Interleaved1F1B", "--accumulate", "4"],
            "Interleaved1F1B: training of 4 stages on 2 IPUs",
        ),
        (
            ["--pipeline", "3", "--schedule", "Interleaved1F1B", "--accumulate", "4"],
            "Interleaved1F1B: training of 3 stages on 3 IPUs",
        ),
    ]:
        done = run(*words, *more)
        found.append(losses(done))
        assert grid in done.stdout
        if grid:
            assert "The slowest stage costs" in done.stdout
    assert len(found[0]) == 2 and all(other == found[0] for other in found)


def test_wrong_usage(capsys: pytest.CaptureFixture[str], images: Path) -> None:
    assert main([]) == 0
    assert "mnist" in capsys.readouterr().out
    for words, message in [
        (["mnits"], "Did you mean 'mnist'"),
        (["mnist", "--epochs", "0"], "expected a positive integer"),
        (["mnist", "--batch"], "expected one argument"),
        (["mnist", "--nothing"], "unrecognized arguments"),
    ]:
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 2
        assert message in capsys.readouterr().err
    assert main(["mnist", "--data", str(images / "none")]) == 1
    assert "python -m ipu mnist: error: " in capsys.readouterr().err
    words = ["mnist", "--data", str(images), "--steps-per-epoch", "10"]
    assert main([*words, "--steps-per-execution", "3"]) == 1
    assert "must be a divisor" in capsys.readouterr().err
    for more, message in [
        (["--pipeline", "9", "--steps-per-epoch", "18"], "into 6 stages at most"),
        (["--pipeline", "2", "--schedule", "none"], "no pipeline schedule 'none'"),
        (["--pipeline", "2", "--accumulate", "3"], "must be a multiple of 4"),
        (["--pipeline", "2"], "must be a multiple of the 4 batches of an update"),
    ]:
        assert main([*words, *more]) == 1
        assert message in capsys.readouterr().err
    reset_ipu_configuration()
    assert main([*words, "--batch-size", "1000"]) == 1
    assert "--batch-size must be at most" in capsys.readouterr().err
