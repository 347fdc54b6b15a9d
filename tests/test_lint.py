"""The linter as tests; it is in the extra ``test``. mypy runs in test_editors.py."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    "words",
    [
        "ruff check .",
        "ruff format --check setup.py python tests benchmarks",
    ],
)
def test_is_clean(words: str) -> None:
    tool, *arguments = words.split()
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed; it is in the extra 'test'")
    done = subprocess.run(
        [sys.executable, "-m", tool, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
