# SPDX-License-Identifier: MIT
"""A fixed share of what the campaign tries, and whether it finds what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from campaign import endings, failures, guided, inputs, kills, moments, soak, spellings
from campaign.kinds import KINDS, Kind
from campaign.watch import Record, State, run, try_again


@pytest.mark.parametrize(
    "trial, seeds",
    [
        (inputs.check_graph_text, range(400)),
        (inputs.check_schedule_text, range(1000)),
        (inputs.check_file, range(150)),
        (spellings.check, range(6)),
        (soak.check, range(60)),
        (failures.check, range(90)),
        (endings.check, range(0, 111, 14)),
        (kills.check, range(3, 21, 4)),
        (moments.check, range(0, 296, 24)),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_seeds(trial: object, seeds: range) -> None:
    assert callable(trial)
    for seed in seeds:
        trial(seed)


def test_the_small_corpora() -> None:
    for text in guided.corpus("graph_texts"):
        inputs.try_graph_text(text.partition("\0")[0])
    for text in guided.corpus("schedule_texts"):
        inputs.try_schedule_text(text)


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("check", [guided.check_graph_text, guided.check_schedule_text])
def test_texts_by_coverage(check: Callable[[int], int]) -> None:
    assert check(0) > 0


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_there(name: str) -> None:
    assert callable(KINDS[name].load())


def test_what_goes_wrong_is_found(tmp_path: Path) -> None:
    """An error, a hang and a crash; seeds after them are tried."""
    record = Record()
    kind = Kind("campaign_teeth", "trial", "", seconds=1.5)
    run(kind, record, 300.0, last=10)
    assert [(one["how"], one["seed"]) for one in record.found] == [
        ("error", 3),
        ("hang", 5),
        ("ended with -6", 7),
    ]
    error, hang, crash = (one["error"] for one in record.found)
    assert "AssertionError: the third is wrong" in error
    assert "in trial" in hang and "Aborted" in crash
    assert record.next == record.tried == 11
    assert record.trials == 3 * 1 + 2 * 5 + 3 * 1  # seeds 0, 4, 8; 1, 9; 2, 6, 10
    record.found = [{"how": "error", "seed": seed, "error": ""} for seed in (2, 3)]
    try_again(kind, record)
    assert [one["seed"] for one in record.found] == [3]
    state = State(tmp_path / "state" / "campaign.json")
    state.records["files"] = record
    state.save()
    assert State(state.path).records["files"] == record
