# SPDX-License-Identifier: MIT
"""Pipeline schedules: the worked numbers, golden files, and schedules that are run.

IPU_UPDATE_GOLDEN=1 writes the golden files anew.
"""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import pytest
from schedule_oracle import plain_loop, rows, run

from ipu import _core
from ipu.tf import errors

GOLDEN = Path(__file__).parent / "golden" / "schedules"
NAMES = "Grouped Interleaved Sequential GPipe 1F1B Interleaved1F1B ZeroBubble".split()


def grid(schedule: _core.Schedule) -> list[list[set[str]]]:
    """Per IPU and time step what runs there, as in 'F0(1)'."""
    table: list[list[set[str]]] = []
    for ipu in range(schedule.ipu_count):
        table.append([set() for _ in range(schedule.time_steps)])
        for kind, stage, m, time in rows(schedule, ipu):
            table[-1][time].add(f"{'FBIW'[kind]}{stage}({m})")
    return table


# --- the worked numbers ---------------------------------------------------------------


def steps(text: str) -> list[set[str]]:
    return [set(cell.split()) for cell in text.split("|")]


WORKED = {
    "Grouped": (
        "F0(0)|F0(1)|F0(2)|F0(3) B0(0)|B0(1)|B0(2)|B0(3)",
        "|F1(0)|F1(1) B1(0)|F1(2) B1(1)|F1(3) B1(2)|B1(3)|",
    ),
    "Interleaved": (
        "F0(0)||F0(1)|B0(0)|F0(2)|B0(1)|F0(3)|B0(2)||B0(3)",
        "|F1(0)|B1(0)|F1(1)|B1(1)|F1(2)|B1(2)|F1(3)|B1(3)|",
    ),
    "Sequential": (
        "F0(0)|||B0(0)|F0(1)|||B0(1)|F0(2)|||B0(2)|F0(3)|||B0(3)",
        "|F1(0)|B1(0)|||F1(1)|B1(1)|||F1(2)|B1(2)|||F1(3)|B1(3)|",
    ),
}


@pytest.mark.parametrize("name", WORKED)
def test_the_worked_time_steps(name: str) -> None:
    schedule = _core.Schedule(name, [0, 1], 4)
    assert grid(schedule) == [steps(row) for row in WORKED[name]]


@pytest.mark.parametrize(
    ("name", "stages", "training", "legal"),
    [
        ("Grouped", 2, True, [4, 8, 12]),
        ("Grouped", 3, True, [6, 12, 18]),
        ("Grouped", 4, True, [8, 16, 24]),
        ("Interleaved", 2, True, [2, 4, 6]),
        ("Interleaved", 3, True, [3, 6, 9]),
        ("Grouped", 3, False, [3, 6, 9]),
        ("Sequential", 3, True, [1, 2, 3]),
    ],
)
def test_the_worked_legal_counts(
    name: str, stages: int, training: bool, legal: list[int]
) -> None:
    ipus = list(range(stages))
    found = []
    for count in range(legal[-1] + 1):
        try:
            _core.Schedule(name, ipus, count, training)
        except errors.FailedPreconditionError:
            continue
        found.append(count)
    assert found == legal
    assert _core.Schedule.overlap(name, ipus, training) == legal[0]


def test_the_worked_fifo_depths() -> None:
    ipus = [0, 1, 2, 3]
    assert _core.Schedule("Grouped", ipus, 8).fifo_depths == [6, 4, 2, 0]
    assert _core.Schedule("Interleaved", ipus, 8).fifo_depths == [3, 2, 1, 0]
    assert _core.Schedule("Sequential", ipus, 8).fifo_depths == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("name", "training", "in_flight"),
    [
        ("Grouped", True, 8),
        ("Grouped", False, 4),
        ("Interleaved", True, 4),
        ("Interleaved", False, 4),
        ("Sequential", True, 1),
        ("Sequential", False, 1),
    ],
)
def test_micro_batches_in_flight(name: str, training: bool, in_flight: int) -> None:
    assert _core.Schedule(name, range(4), 16, training).in_flight == in_flight


def test_idle_shares_are_those_of_the_formulas() -> None:
    for n in (2, 3, 4, 8):
        for m in (2 * n, 6 * n):
            ipus = range(n)
            shares = {
                "Grouped": (2 * n - 1) / (m + 2 * n - 1),
                "Interleaved": (n - 1) / (m + n - 1),
                "Sequential": 1 - 1 / n,
                "GPipe": (n - 1) / (m + n - 1),
                "1F1B": (n - 1) / (m + n - 1),
                "ZeroBubble": (n - 1) / (3 * m + n - 1),
            }
            for name, share in shares.items():
                assert _core.Schedule(name, ipus, m).idle_share == pytest.approx(share)
    dealt = _core.Schedule("Interleaved1F1B", [0, 1, 2, 3] * 3, 8)
    assert dealt.idle_share == pytest.approx(3 / (3 * 8 + 3))


def test_concurrent_stages_count_as_one() -> None:
    mapping, positions = [0, 1, 2, 2, 3], [0, 1, 1, 2, 3]
    schedule = _core.Schedule("Grouped", mapping, 8, positions=positions)
    assert schedule.time_steps == 8 + 7
    assert schedule.fifo_depths == [6, 4, 4, 2, 0]
    table = grid(schedule)
    assert "F1(0)" in table[1][1] and "F2(0)" in table[2][1]
    assert "B1(0)" in table[1][6] and "B2(0)" in table[2][6]
    assert _core.Schedule.overlap("Interleaved", mapping, False, positions) == 2


def test_with_io_overlap_any_number_from_two_more_on_is_legal() -> None:
    for count in range(20):
        if count >= 4 + 2:
            schedule = _core.Schedule("Grouped", [0, 1], count, overlaps_io=True)
            assert schedule.time_steps == count + 3
            assert run(schedule, count) == plain_loop(schedule)
        else:
            with pytest.raises(
                errors.FailedPreconditionError,
                match=f"must be at least 6, but it is {count}.* legal number is 6",
            ):
                _core.Schedule("Grouped", [0, 1], count, overlaps_io=True)
    with pytest.raises(errors.FailedPreconditionError, match="a multiple of 2"):
        _core.Schedule("Interleaved", [0, 1], 7, overlaps_io=True)


def test_a_skip_needs_a_slot_for_each_stage_it_passes() -> None:
    """Of depth (gap - 1), beside the micro-batches that its two ends are at."""
    grouped = _core.Schedule("Grouped", range(8), 32)
    for a, b in itertools.combinations(range(8), 2):
        assert grouped.slots(("F", a), ("F", b)) == 2 + (b - a - 1)


def test_errors_name_the_rule_and_what_would_be_legal() -> None:
    with pytest.raises(
        errors.FailedPreconditionError,
        match=r"The number of iterations of the pipeline must be a multiple of 4, but "
        r"it is 10\. This number might be called `gradient_accumulation_count`, .* the "
        r"nearest legal numbers are 8 and 12\.",
    ):
        _core.Schedule("Grouped", [0, 1], 10)
    with pytest.raises(
        errors.UnimplementedError, match="The pipelining schedule 'Interleaved'"
    ):
        _core.Schedule("Interleaved", [0, 1, 0], 3)
    with pytest.raises(
        errors.FailedPreconditionError, match="stage 1 belongs on IPU 1"
    ):
        _core.Schedule("Interleaved1F1B", [0, 0, 1, 1], 4)
    with pytest.raises(errors.FailedPreconditionError, match="3 stages for 2 IPUs"):
        _core.Schedule("Interleaved1F1B", [0, 1, 0], 4)
    with pytest.raises(ValueError, match="no pipelining schedule 'Diagonal'"):
        _core.Schedule("Diagonal", [0, 1], 4)
    with pytest.raises(ValueError, match="but got -1"):
        _core.Schedule("GPipe", [0, -1], 4)
    with pytest.raises(ValueError, match="2 stages have 1 positions"):
        _core.Schedule("GPipe", [0, 1], 4, positions=[0])
    with pytest.raises(ValueError, match="no stage stands at position 1"):
        _core.Schedule("GPipe", [0, 1, 2], 4, positions=[0, 2, 2])
    with pytest.raises(errors.ResourceExhaustedError, match="actions"):
        _core.Schedule("GPipe", [0, 1], 2**31)
    with pytest.raises(TypeError):
        _core.Schedule("GPipe", [0.5], 4)  # type: ignore[list-item]
    with pytest.raises(IndexError):
        _core.Schedule("GPipe", [0, 1], 4).actions(2)


# --- text -----------------------------------------------------------------------------


def mapping_of(name: str, stages: int) -> list[int]:
    """Each stage on an IPU of its own, but two on each where they may be dealt out."""
    shares = name == "Interleaved1F1B" and stages >= 4
    return [k % (stages // 2 if shares else stages) for k in range(stages)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stages", [2, 3, 4, 8])
@pytest.mark.parametrize("form", ["training", "inference"])
def test_golden_files(name: str, stages: int, form: str) -> None:
    path = GOLDEN / f"{name}-{stages}-{form}.txt"
    schedule = _core.Schedule(
        name, mapping_of(name, stages), 2 * stages, form == "training"
    )
    if os.environ.get("IPU_UPDATE_GOLDEN") == "1":
        path.write_text(str(schedule))
    assert str(schedule) == path.read_text()
    read = _core.Schedule.parse(path.read_text())
    assert str(read) == str(schedule)
    assert [rows(read, ipu) for ipu in range(read.ipu_count)] == [
        rows(schedule, ipu) for ipu in range(schedule.ipu_count)
    ]


def test_a_schedule_written_by_hand() -> None:
    """Half of the micro-batches there and back, then the other half."""
    text = """
    schedule: two-waves
    training: yes
    one micro-batch at a time: yes
    micro-batches: 4
    time steps: 12
    stage:    0 1
    position: 0 1
    ipu:      0 1
    stash:    2 2

    step  |
    ipu 0 | F0(0) | F0(1) | | | B0(0) | B0(1) | F0(2) | F0(3) | | | B0(2) | B0(3) |
    ipu 1 | | F1(0) | F1(1) | B1(0) | B1(1) | | | F1(2) | F1(3) | B1(2) | B1(3) | |
    """
    schedule = _core.Schedule.parse(text)
    assert schedule.name == "two-waves"
    assert schedule.slots(("F", 0), ("B", 0)) == 2
    assert run(schedule, 1) == plain_loop(schedule)


# --- schedules that are run -----------------------------------------------------------


def random_schedule(seed: int) -> _core.Schedule:
    chance = random.Random(seed)
    while True:
        name = chance.choice(NAMES)
        stages = chance.randint(1, 8)
        ipus = chance.randint(1, stages)
        mapping = [k % ipus for k in range(stages)]
        if chance.random() < 0.5:
            mapping = [chance.randrange(ipus) for _ in range(stages)]
        positions = None
        if chance.random() < 0.3:
            positions = [0]
            for _ in range(stages - 1):
                positions.append(positions[-1] + (chance.random() < 0.7))
        training = chance.random() < 0.75
        try:
            length = _core.Schedule.overlap(name, mapping, training, positions)
        except (errors.UnimplementedError, errors.FailedPreconditionError):
            continue
        count = length * chance.randint(1, 4)
        return _core.Schedule(name, mapping, count, training, positions)


def check_seed(seed: int) -> None:
    schedule = random_schedule(seed)
    assert str(_core.Schedule.parse(str(schedule))) == str(schedule)
    assert run(schedule, seed) == plain_loop(schedule), schedule


def test_random_schedules_give_what_a_loop_gives() -> None:
    for seed in range(300):
        check_seed(seed)


@pytest.mark.slow
def test_many_random_schedules_give_what_a_loop_gives() -> None:
    for seed in range(1000, 21000):
        check_seed(seed)


def test_a_ring_that_is_too_small_is_found() -> None:
    """The oracle's teeth: with one slot less somewhere it stands still."""

    class Narrow:
        def __init__(self, schedule: _core.Schedule) -> None:
            self.schedule = schedule

        def __getattr__(self, name: str) -> object:
            return getattr(self.schedule, name)

        def slots(self, writer: tuple[str, int], reader: tuple[str, int]) -> int:
            less = writer == ("F", 0) and reader == ("B", 0)
            return self.schedule.slots(writer, reader) - less

    narrow = Narrow(_core.Schedule("1F1B", [0, 1, 2], 6))
    with pytest.raises(AssertionError, match="no IPU can go on"):
        run(narrow, 3)  # type: ignore[arg-type]
