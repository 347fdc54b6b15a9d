# SPDX-License-Identifier: MIT
"""Programs of a model's runs: which of them run how many steps, and which are kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ipu import tf
from ipu._device.remembered import Remembered
from ipu.keras.engine.training import program as programs
from ipu.keras.engine.training.program import BatchProgram, Program, ProgramCache

OutOfRange = tf.errors.OutOfRangeError


def test_a_cache_keeps_what_was_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "key_of_model", lambda *given: given)
    cache = ProgramCache()
    assert isinstance(cache.accounts, Remembered)
    made: list[Any] = []

    def make() -> Any:
        made.append(SimpleNamespace())
        return made[-1]

    def take(kind: Any) -> Any:
        return cache.take("model", "train", kind, make=make)

    first = take(0)
    assert first.key == ("model", "train", 0) and made == [first]
    assert take(0) is not first  # it is out: no two runs have the same one
    cache.give_back(first)
    assert take(0) is first
    kept = [first, *map(take, range(1, 9))]
    for one in kept:
        cache.give_back(one)
    assert list(cache._waiting.values()) == kept[1:]
    cache.give_back(kept[1])
    cache.give_back(first)
    assert list(cache._waiting.values()) == [*kept[3:], kept[1], first]


def test_a_step_for_each_shape() -> None:
    seen: list[Any] = []

    def step(batch: Any) -> Any:
        seen.append(batch.shape[0])
        return batch * 2.0

    program = BatchProgram("name")
    program.rest()  # it has not begun
    program.begin(step)
    for size in (2, 3, 2):
        assert program(np.ones(size, np.float32)).numpy().tolist() == [2.0] * size
    assert seen == [2, 3]
    program.end()
    assert program._step is None
    function = program._function
    program.begin(step)
    program.rest()
    assert program._step is None and program._function is function
    count = programs._MOST_SHAPES
    program._function = SimpleNamespace(
        experimental_get_tracing_count=lambda: count, rest=lambda: seen.append("rest")
    )
    program.rest()
    assert seen.pop() == "rest"
    program.begin(step)
    program.end()
    assert program._function is not None
    count += 1
    program.begin(step)
    program.end()
    assert program._function is None  # so many shapes are not kept
    program.begin(step)
    assert program(np.ones(2, np.float32)).shape == (2,)
    program.rest()


class Body:
    """Notes how many steps it is to run, and gives results of so many."""

    def __init__(self, calls: list[Any], *given: Any) -> None:
        self.calls = calls
        self.given = given
        self.ends_after: int | None = None
        self.arrived = 0
        self.waits: list[Any] = []

    def begin(self, *given: Any) -> None:
        self.calls.append(("begin", *self.given, *given))

    def run(self, count: int) -> None:
        self.calls.append((*self.given, count))
        if self.ends_after is not None:
            self.arrived = self.ends_after
            raise OutOfRange("the end")
        self.arrived = count

    def take(self) -> Any:
        taken, self.arrived = self.arrived, 0
        return taken

    def wait(self, steps: int, timeout_s: float) -> int:
        self.waits.append((steps, timeout_s))
        return min(self.arrived, steps) if timeout_s == 0.5 else self.arrived

    def usual(self) -> Any:
        return SimpleNamespace(records=False, recorded=["row"], streams=["stream"])

    def rest(self) -> None:
        self.calls.append(("rest", *self.given))


def program_of(calls: list[Any]) -> Program:
    data = tf.data.Dataset.range(4)
    made = Program(data, 5, {}, {}, "name")
    made._full = Body(calls, "full")  # type: ignore[assignment]
    made._new_body = lambda *given: Body(calls, *given)  # type: ignore[assignment]
    return made


def test_the_last_batch_of_a_pass_has_a_program_of_its_own() -> None:
    calls: list[Any] = []
    program = program_of(calls)
    steps: Any = "steps"
    program.begin(steps, "data", "over", of_pass=3, tail=2)  # type: ignore[arg-type]
    assert calls == [("begin", "full", steps, "over"), ("begin", 1, 2, steps, "over")]
    calls.clear()
    assert program.run(7) == ([2, 1, 2, 1, 1], 7)
    wanted = [("full", 2), (1, 2, 1)]
    assert calls == [*wanted, *wanted, ("full", 1)]
    calls.clear()
    assert program.run(2) == ([1, 1], 2)
    assert calls == [("full", 1), (1, 2, 1)]
    calls.clear()
    program.begin(steps, "data", of_pass=1, tail=2)
    calls.clear()
    assert program.run(2) == ([1, 1], 2) and calls == [(1, 2, 1)] * 2
    program.begin(steps, "data", of_pass=3)  # no batch is partial
    calls.clear()
    assert program.run(7) == ([7], 7) and calls == [("full", 7)]
    tails = [program._tail_of(rows) for rows in (2, 3, 4, 5)]
    assert program._tail_of(2) is tails[0]
    assert list(program._tails) == [3, 4, 5, 2]
    program._tail_of(6)
    assert list(program._tails) == [4, 5, 2, 6]


def test_data_that_end() -> None:
    calls: list[Any] = []
    program = program_of(calls)
    body: Any = program._full
    steps: Any = "steps"
    for may_end in (False, True):
        for count in (0, 3):
            program.begin(steps, "data", may_end=may_end)
            body.ends_after = count
            assert program.has_more()
            if not may_end:
                with pytest.raises(OutOfRange):
                    program.run(5)
                continue
            assert program.run(5) == ([3] * (count > 0), count)
            assert body.waits == [(1, 0.0)]
            body.waits.clear()
            assert not program.has_more() and program.run(5) == ([], 0)
    body.ends_after = None
    program.begin(steps, "data")
    found: list[Any] = []
    parts, done = program.run(4, found.append)
    assert done == 4 and parts == found == [4]
    assert {steps for steps, _ in body.waits} == {1}


def test_how_far_an_execution_is() -> None:
    calls: list[Any] = []
    program = program_of(calls)
    steps: Any = "steps"
    program.begin(steps, "data", of_pass=3, tail=2)
    body: Any = program._full
    body.arrived = 3
    assert program.steps_done(0.5) == 0  # none was asked for
    seen: list[int] = []
    run = body.run

    def looked_at(count: int) -> None:
        run(count)
        seen.append(program.steps_done(0.5))
        body.arrived -= 1
        seen.append(program.steps_done(0.5))
        body.arrived += 1

    body.run = looked_at
    program.run(5)
    assert seen == [2, 1, 5, 4]
    program.run(1)
    assert program._done == 1


def test_what_ran_is_recorded_in_one_run() -> None:
    calls: list[Any] = []
    program = program_of(calls)
    steps: Any = "steps"
    program.begin(steps, "data", of_pass=3, tail=2)
    program.run(1)
    assert program._recorded is None
    program.record()
    program.run(1)
    recorded = program._recorded
    assert recorded.records is True
    program.run(1)
    assert program._recorded is recorded
    assert program.recorded() == (["row"], ["stream"])
    calls.clear()
    program.stop()
    assert recorded.records is False and program._recorded is None
    assert program._records is False and program._infeed._dataset is None
    assert calls == [("rest", "full"), ("rest", 1, 2)]
    deleted: list[int] = []

    class Queue:
        initializer = None

        @property
        def deleter(self) -> None:
            deleted.append(1)

    program._infeed = Queue()  # type: ignore[assignment]
    program.stop()
    assert not deleted  # it was not started
    program.start()
    program.stop()
    program.stop()
    assert deleted == [1]


class Function:
    """What runs a program, and notes how."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def prepared(self, given: Any) -> Any:
        self.calls.append((given, type(given)))
        return self.calls.append

    def traced(self, count: Any) -> Any:
        return SimpleNamespace(program=f"program of {count}")

    def rest(self) -> None:
        self.calls.append("rest")


class Outfeed:
    _structure = {"a": 0, "b": [1, 2]}  # noqa: RUF012

    def __init__(self) -> None:
        self.waits: list[Any] = []

    def _take(self) -> list[Any]:
        return [tf.constant([one]) for one in (1.0, 2.0, 3.0)]

    def _wait(self, entries: int, timeout_s: float) -> int:
        self.waits.append((entries, timeout_s))
        return entries

    def _drop_results(self) -> None:
        self.waits.append("drop")


def test_a_body_and_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tf.data.Dataset.range(4)
    made = Program(data, 5, {}, {}, "name")
    body: Any = made._full
    assert body._infeed is made._infeed and body._rows == 0 and body._count == 5
    body._function = function = Function()
    for count in (5, 3, 5, 2):
        body.run(count)
    assert function.calls == [
        *((5, int), (), (3, np.int32), (np.int32(3),)),
        *((), (np.int32(2),)),
    ]
    assert body.usual() == "program of 5"
    body.outfeed = outfeed = Outfeed()
    built: list[Any] = []
    steps: Any = SimpleNamespace(
        steps_of=lambda results: 4 * results,
        build=lambda *given: built.append(given),
        arrangement=lambda: lambda results: ("arranged", results),
        diagnose=None,
    )
    body.begin(steps, None)
    build = SimpleNamespace()
    monkeypatch.setattr(programs, "current_build", lambda: build)
    body._trace("count")
    assert built == [("count", made._infeed, outfeed, 0)] and not vars(build)
    assert body.take() == ("arranged", {"a": 1.0, "b": [2.0, 3.0]})
    assert [body.wait(n, 0.5) for n in (0, 1, 4, 5)] == [0, 4, 4, 8]
    assert outfeed.waits == [(0, 0.5), (1, 0.5), (1, 0.5), (2, 0.5)]
    steps.diagnose = steps.account = lambda *given: given
    body.begin(steps, lambda leaf: leaf * 2.0)
    body._trace("count")
    spec = made._infeed._structure
    assert build.diagnose() == (spec,) and build.account("bow") == (spec, "bow")
    assert body.take()[1] == {"a": 2.0, "b": [4.0, 6.0]}
    function.calls.clear()
    body.rest()
    assert function.calls == ["rest"] and outfeed.waits[-1] == "drop"
    assert body._steps is None is body._over_replicas and not body._runs
    assert programs._filled([0, {"a": 1}], [np.ones(1), np.zeros(1)])[1]["a"] == 0.0
