# SPDX-License-Identifier: MIT
"""The same programs here and on TensorFlow, which runs in a process of its own.

`IPU_TEST_TENSORFLOW` names a Python that imports TensorFlow 2.21 and `tf_keras`;
without it the current one is tried. Where there is none, the comparison is skipped.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent / "differential"
sys.path.insert(0, str(HERE))
import compare  # noqa: E402
import expressions  # noqa: E402
import known  # noqa: E402
import programs  # noqa: E402
import session_programs  # noqa: E402

TABLE = HERE.parent.parent / "docs" / "differences.md"
NAMES = [*expressions.lines(), *programs.cases(), *session_programs.sources()]
AREAS = sorted({name.split(":")[0] for name in NAMES})
# rows that `compare` applies to all cases
RULES = {"eager-exceptions"}


def evaluated(python: str, side: str, file: Path) -> dict[str, Any]:
    done = subprocess.run(
        [python, str(HERE / "run.py"), side, str(file)],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = pickle.loads(file.read_bytes())
    return found


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The results of all cases, here and there."""
    python = os.environ.get("IPU_TEST_TENSORFLOW", sys.executable)
    probe = subprocess.run(
        [python, "-c", "import tensorflow, tf_keras"], capture_output=True, text=True
    )
    if probe.returncode != 0:
        why = probe.stderr.strip().splitlines()[-1:]
        pytest.skip(f"{python} does not import tensorflow and tf_keras: {why}")
    folder = tmp_path_factory.mktemp("differential")
    return [
        evaluated(sys.executable, "ipu", folder / "ipu"),
        evaluated(python, "tensorflow", folder / "tensorflow"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("area", AREAS)
def test_area(area: str, both: list[dict[str, Any]]) -> None:
    mine, theirs = both
    purposes = {name for names in known.ON_PURPOSE.values() for name in names}
    found = []
    for name in NAMES:
        if name.split(":")[0] != area:
            continue
        differs = compare.difference(mine[name], theirs[name])
        if name in purposes or name in known.OPEN:
            if not differs:
                found.append(f"{name}: agrees, but is named as a difference")
        elif differs:
            found.append(f"{name}: {differs}")
    assert not found, "\n".join(found)


# --- the table, and the comparison's own teeth ----------------------------------------


def test_the_table_has_a_row_for_each_difference() -> None:
    # test_differences.py has those of names
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|", TABLE.read_text(encoding="utf-8"), re.M)
    assert sorted(rows) == sorted([*known.ON_PURPOSE, *RULES])


def test_all_differences_are_cases() -> None:
    named = [*known.OPEN, *(n for names in known.ON_PURPOSE.values() for n in names)]
    assert len(named) == len(set(named))
    assert set(named) <= set(NAMES)
    assert len(NAMES) > 1000


def gives(value: Any) -> tuple[str, Any]:
    return ("gives", value)


ARRAY = np.array([1.0, 2.0], np.float32)


@pytest.mark.parametrize(
    "change",
    [
        lambda: ARRAY.astype(np.float64),
        lambda: ARRAY.reshape(2, 1),
        lambda: ARRAY + np.float32(1e-3),
        lambda: np.array([1.0, np.nan], np.float32),
        lambda: [1.0, 2.0],
        lambda: None,
    ],
)
def test_arrays_that_differ(change: Callable[[], Any]) -> None:
    assert compare.difference(gives(change()), gives(ARRAY))
    inside = {"a": [ARRAY, "x"]}, {"a": [change(), "x"]}
    assert compare.difference(gives(inside[0]), gives(inside[1]))
    assert not compare.difference(gives([ARRAY + np.float32(1e-7)]), gives([ARRAY]))


def test_other_things_that_differ() -> None:
    for mine, theirs in (
        ({"loss": 1.0}, {"loss": 1.0, "mae": 1.0}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([1, 2], [1, 2, 3]),
        (1, 1.0),
        ("a", "b"),
        (True, False),
    ):
        assert compare.difference(gives(mine), gives(theirs))
        assert not compare.difference(gives(mine), gives(mine))


def test_exceptions_that_differ() -> None:
    def raises(*names: str) -> tuple[str, list[str], str]:
        return ("raises", list(names), "why")

    assert compare.difference(raises("TypeError"), raises("ValueError"))
    assert compare.difference(raises("TypeError"), gives(1))
    assert not compare.difference(raises("A", "ValueError"), raises("B", "ValueError"))
    # the row `eager-exceptions`
    assert not compare.difference(raises("ValueError"), raises("InvalidArgumentError"))
    assert compare.difference(raises("InvalidArgumentError"), raises("ValueError"))
