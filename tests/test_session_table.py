# SPDX-License-Identifier: MIT
"""Small programs of TensorFlow 1, and what TensorFlow gave for each.

`differential/session_programs.py` has the programs; `tests/differential/run.py` wrote
their results. `test_differential.py` runs them on TensorFlow again, where there is one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from grouped import in_groups

from ipu import tf

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "differential"))
import compare  # noqa: E402
import known  # noqa: E402
import run  # noqa: E402
import session_programs  # noqa: E402

RESULTS = json.loads((HERE / "session_results.json").read_text(encoding="utf-8"))
DIFFER = {*known.OPEN, *(n for names in known.ON_PURPOSE.values() for n in names)}


@pytest.fixture(autouse=True)
def first_behaviour() -> Iterator[None]:
    tf.compat.v1.disable_v2_behavior()
    yield
    tf.compat.v1.enable_v2_behavior()
    tf.compat.v1.reset_default_graph()


def test_each_program_has_a_result() -> None:
    assert list(RESULTS) == list(session_programs.sources())


@in_groups(RESULTS, before=tf.compat.v1.reset_default_graph)
def test_program(name: str) -> None:
    mine = run.evaluate(lambda: session_programs.cases()[name](tf))
    differs = compare.difference(mine, run.outcome_of(RESULTS[name]))
    assert bool(differs) == (name in DIFFER), differs
