# SPDX-License-Identifier: MIT
"""What a run of a model settles before its first step, and says of it."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

from ipu import keras, tf
from ipu._device import processes
from ipu.ipu_strategy import IPUStrategy
from ipu.keras.engine.training import accounting, fit_loops
from ipu.keras.engine.training.batches import Batches
from ipu.keras.engine.training.data_adapter import Given
from ipu.keras.engine.training.execution import Execution
from ipu.keras.engine.training.fit_loops import Run
from ipu.keras.engine.training.step_plan import INFINITE, UNKNOWN, StepPlan

X, Y = np.ones((24, 2), np.float32), np.zeros((24, 1), np.float32)


def small(rate: float = 0.1, **how: Any) -> Any:
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    model.compile(keras.optimizers.SGD(rate), "mse", **how)
    return model


@pytest.fixture
def two_ipus() -> Iterator[None]:
    attach(2)
    with IPUStrategy().scope():
        yield
    attach(1)


def data_set(batches: int = 4) -> Any:
    rows = tf.data.Dataset.from_tensor_slices((X, Y)).repeat()
    return rows.batch(6, drop_remainder=True).take(batches)


class Shared(SimpleNamespace):
    index = 1
    count = 2


@pytest.mark.parametrize(
    ("mode", "is_pipelined", "has_sums", "is_set", "replicas", "wanted"),
    [
        ("train", False, False, True, 1, (True, False)),
        ("train", False, False, False, 1, (False, False)),
        ("train", False, False, True, 2, (True, True)),
        ("train", False, True, True, 2, (True, True)),
        ("train", True, False, True, 2, (True, True)),
        ("train", True, True, True, 2, (False, False)),
        ("predict", True, True, True, 2, (True, False)),
        ("predict", False, False, False, 1, (False, False)),
        ("test", True, True, True, 1, (False, False)),
    ],
)
def test_which_runs_call_back_for_each_step(
    mode: str,
    is_pipelined: bool,
    has_sums: bool,
    is_set: bool,
    replicas: int,
    wanted: tuple[bool, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = small()
    model._pipelining_accumulate_outfeed = has_sums
    model._asynchronous_callbacks = is_set
    execution = Execution(is_pipelined, 1, replicas)
    monkeypatch.setattr(fit_loops, "settle", lambda *_: execution)
    monkeypatch.setattr(Run, "_make_loop", lambda *_: None)

    def found() -> tuple[bool, bool]:
        run = Run(model, mode, Given(data_set()), None)
        return run._is_asynchronous, run._has_calls_of_replicas

    assert found() == wanted
    monkeypatch.setattr(processes, "shared", Shared)
    assert found() == (False, False)


@pytest.mark.usefixtures("two_ipus")
def test_replicas_and_processes_share_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(small(), "train", Given(data_set()), None)
    assert (run._sharers, run.plan.steps, run.passes._has_whole) == (2, 2, True)
    run.loop.stop()
    run = Run(small(), "train", Given(data_set()), 2)
    assert run.plan.steps == 1 and not run.passes._has_whole
    run.loop.stop()
    # each process has a part of its own
    monkeypatch.setattr(fit_loops, "_of_this_process", lambda given: (given, 2))
    run = Run(small(), "train", Given(data_set()), None)
    assert (run._sharers, run.plan.steps, run.passes._has_whole) == (1, 4, True)
    run.loop.stop()
    monkeypatch.undo()
    for cardinality, wanted in ((INFINITE, -1), (UNKNOWN, -2), (0, 0), (3, 6)):
        assert fit_loops._of_all(cardinality, 2) == wanted


def test_data_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    part, given = data_set(2), Given(data_set())
    for shared, own, data, wanted in (
        *((None, part, given, (given, 1)), (Shared(), None, given, (given, 1))),
        (Shared(), part, given, (given._replace(x=part), 2)),
        (Shared(), part, Given(X), (Given(X), 1)),
    ):
        monkeypatch.setattr(processes, "shared", lambda shared=shared: shared)
        monkeypatch.setattr(fit_loops, "own_part", lambda data, own=own: own)
        found, parts = fit_loops._of_this_process(data)
        assert (found.x is wanted[0].x, parts) == (True, wanted[1])


@pytest.mark.usefixtures("two_ipus")
def test_every_validation_begins_with_the_first_batch() -> None:
    """Also where it takes a part of the data."""
    attach(1)
    model = small(0.0)
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(
        2, drop_remainder=True
    )
    for validation in ((x, x[:, :1]), data):
        history = model.fit(
            *(x, x[:, :1], 2, 3, 0),
            validation_data=validation,
            validation_steps=2,
        ).history["val_loss"]
        assert history[0] == history[1] == history[2]
        wanted = model.evaluate(x[:4], x[:4, :1], 2, verbose=0)
        assert history[0] == pytest.approx(wanted)


def test_numbers_of_batches() -> None:
    for given, wanted in (
        *(((None, 3, 2), (3, 2)), ((2, 3, 0), (3, 0)), ((3, 3, 2), (3, 2))),
        *(((2, 3, 2), (2, 0)), ((4, 3, 2), (3, 2))),
    ):
        assert fit_loops._of_first(*given) == wanted
    assert fit_loops._batch_size(Batches(None, 3)) is None
    assert fit_loops._batch_size(Batches(data_set(), 3)) == 6
    unknown = tf.data.Dataset.from_generator(lambda: iter([]), tf.float32)
    assert fit_loops._batch_size(Batches(unknown, 3)) is None
    for epoch, freq, is_due in (
        *((3, 2, False), (4, 2, True), (4, np.int64(2), True)),
        *((3, [1, 3], True), (2, [1, 3], False)),
    ):
        assert fit_loops.is_due(epoch, freq) is is_due
    shapes = {"a": (2, 3, 1), "b": (2,), "c": (2, 3)}
    parts = [{name: np.zeros(s) for name, s in shapes.items()} for _ in range(2)]
    joined = fit_loops._join(parts)
    assert joined["c"].shape == (12,)
    assert joined["a"].shape == (12, 1) and joined["b"].shape == (4,)
    assert np.shares_memory(fit_loops._join(parts[:1])["a"], parts[0]["a"])


def test_callbacks_of_a_run(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made, model = keras.callbacks, small()
    plain, log = made.Callback(), made.CSVLogger(tmp_path / "a.csv")
    save = made.ModelCheckpoint(tmp_path / "m.keras")
    bar, history = made.ProgbarLogger(), made.History()

    def kinds(given: Any, verbose: Any) -> list[str]:
        found = fit_loops.make_callbacks(model, given, verbose, 7, 3)
        assert all(one.model is model for one in found.callbacks)
        wanted = {"verbose": verbose, "epochs": 3, "steps": 7}
        assert processes.shared() is not None or found.params == wanted
        return [type(one).__name__ for one in found.callbacks]

    assert kinds(None, 0) == ["History"]
    assert kinds([None, plain], 1) == ["Callback", "ProgbarLogger", "History"]
    assert kinds((history, bar), 2) == ["History", "ProgbarLogger"]
    assert kinds(log, 0) == ["CSVLogger", "History"]
    for wrong, words in (
        (made.Callback, "Received: the class Callback"),
        (3, "must be objects with hooks"),
    ):
        with pytest.raises(TypeError, match=words):
            kinds([wrong], 0)
    found: list[Any] = [log, plain, save, made.BackupAndRestore(tmp_path)]
    monkeypatch.setattr(processes, "shared", lambda: Shared(index=0))
    assert len(kinds(found, 1)) == 6
    monkeypatch.setattr(processes, "shared", Shared)
    others = fit_loops.make_callbacks(model, found, 1, 7, 3).callbacks
    names = [type(one).__name__ for one in others]
    assert names == ["Callback", "ModelCheckpoint", "_HandOver", "History"]
    assert others[1] is not save and others[1]._is_elsewhere


def test_what_is_said_of_a_run(caplog: pytest.LogCaptureFixture) -> None:
    plan = StepPlan(12, 6, True, None)
    run: Any = SimpleNamespace(
        execution=Execution(False, 3, 2), plan=plan, batch_size=5
    )
    with caplog.at_level(logging.DEBUG, "ipu"):
        fit_loops._log_counts(run)
        run.plan = plan._replace(steps=None)
        fit_loops._log_counts(run)
    first, second = caplog.messages
    assert first == (
        "Training: 12 steps of an epoch on each of 2 replica(s), 6 of them in one "
        "execution. The effective batch size is 5 x 3 accumulated x 2 replica(s). "
        "Weight updates in an execution: 2, in an epoch: 4."
    )
    assert second.startswith("Training: not yet known how many steps of an epoch")
    assert second.endswith(
        "Weight updates in an execution: 2, in an epoch: not yet known."
    )
    caplog.clear()
    words = "steps_per_execution is 1: Python runs between any two steps"
    with caplog.at_level(logging.INFO, "ipu"):
        small().fit(X, Y, 6, verbose=0)
        with IPUStrategy().scope():
            small().fit(X, Y, 24, verbose=0)
            small(steps_per_execution=2).fit(X, Y, 6, verbose=0)
            assert words not in caplog.text
            small().fit(X, Y, 12, verbose=0)
    assert words in caplog.text


def test_accounts_of_programs_that_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "account_of_step", lambda *given: given)
    model = small()
    wanted = (model, "train", "spec", None, {})
    assert fit_loops._diagnose(model, "train", "spec") == wanted
    reference = weakref.ref(model)
    wanted = (model, "test", "spec", "bow", {"a": 1})
    assert fit_loops._account(reference, "test", "spec", "bow", a=1) == wanted
    del model, wanted
    gc.collect()
    with pytest.raises(RuntimeError, match="last program is no longer there"):
        fit_loops._account(reference, "test", "spec")


class Calls:
    """Callbacks that look after so many steps."""

    def __init__(self, look: int | None = None) -> None:
        self.look = look

    def steps_to_look(self, mode: str) -> int | None:
        return self.look


@pytest.mark.parametrize(
    ("per_execution", "pace", "look", "is_asynchronous", "steps", "left", "wanted"),
    [
        (5, None, 2, False, None, None, 5),
        (5, None, None, False, 7, None, 4),
        (5, None, None, False, 7, 2, 2),
        (5, None, None, False, None, 9, 5),
        (1, 8, None, False, None, None, 8),
        (1, 8, 3, False, None, None, 3),
        (1, 8, 3, True, None, None, 8),
        (1, 8, 9, False, 10, None, 7),
    ],
)
def test_how_many_steps_come_next(
    per_execution: int,
    pace: int | None,
    look: int | None,
    is_asynchronous: bool,
    steps: int | None,
    left: int | None,
    wanted: int,
) -> None:
    run: Any = SimpleNamespace(
        plan=StepPlan(steps, per_execution, True, None),
        _pace=pace and SimpleNamespace(count=pace),
        _is_asynchronous=is_asynchronous,
        _left=left,
        mode="train",
    )
    callbacks: Any = Calls(look)
    assert Run._count(run, 3, callbacks) == wanted


def test_data_that_end_early() -> None:
    run: Any = SimpleNamespace(
        plan=StepPlan(None, 5, True, None), mode="test", is_out_of_data=False
    )
    Run.end_early(run, 3)
    assert run.plan.steps == 3 and not run.is_out_of_data
    with pytest.warns(UserWarning, match="after 2 of 3 steps .* with them the evaluat"):
        Run.end_early(run, 2)
    assert run.is_out_of_data


def test_recorders_are_told() -> None:
    told: list[Any] = []
    recorder = SimpleNamespace(_on_recorded=lambda *given: told.append(given))
    loop: Any = SimpleNamespace(recorded=lambda: (["actions"], ["streams"]))
    for mode, wanted in (("train", (True, 3)), ("test", (False, 6))):
        run: Any = SimpleNamespace(
            plan=StepPlan(6, 6, True, None), execution=Execution(True, 3, 1), mode=mode
        )
        Run._tell_recorded(run, [recorder], loop)
        assert told.pop() == (*wanted, ["actions"])
        assert recorder.streams == ["streams"]


# --- which loop a run has -------------------------------------------------------------


class Fake(SimpleNamespace):
    """A namespace that weak references know."""


def run_of(mode: str = "train", **attributes: Any) -> Any:
    """A run as it makes its loop, of a model that notes what is asked of it."""
    run: Any = object.__new__(Run)
    programs = SimpleNamespace(take=lambda *given, make: make())
    model = Fake(
        **{"run_eagerly": False, "_programs": programs, "name": "m"},
        **{"_infeed_options": {"a": 1}, "_outfeed_options": {"b": 2}},
        _device_step=lambda mode, weights: (mode, weights),
        _own_function=lambda mode: None,
        _prepare=lambda *given: run.prepared.append(given),
    )
    vars(model).update(attributes.pop("model", {}))
    given = {
        **{"mode": mode, "model": model, "is_strict": False, "prepared": []},
        "plan": StepPlan(3, 2, True, None),
        "passes": SimpleNamespace(first=3, behind=2, read=lambda *given: Data(given)),
        **{"_epochs": 5, "_pace": None, "_sharers": 2, "_program": None},
        **{"execution": Execution(False, 1, 4), "_has_calls_of_replicas": False},
        "_reduced": "reduced",
    }
    vars(run).update({**given, **attributes})
    return run


class Data:
    """A data set that notes what becomes of it."""

    element_spec = tf.TensorSpec([6, 2])

    def __init__(self, *done: Any) -> None:
        self.done = done

    def take(self, count: int) -> Any:
        return Data(*self.done, ("take", count))

    def repeat(self) -> Any:
        return Data(*self.done, "repeat")


class Loop:
    spec: Any = tf.TensorSpec([6, 2])

    def __init__(self, source: Any) -> None:
        self.source = source
        self.calls: list[Any] = []

    def pass_over(self, count: int) -> None:
        self.calls.append(count)

    def first_spec(self) -> Any:
        return self.spec

    def set_step(self, *given: Any) -> None:
        self.calls.append(given)


def batches_of(**how: Any) -> Any:
    """Batches whose source is what they were asked for."""
    starts_again = how.pop("starts_again", True)
    given = {"dataset": Data(), "cardinality": 4, "of_pass": 7, "tail": 1}
    return SimpleNamespace(
        **{**given, "is_endless": False, "is_open": False, **how},
        as_read=lambda first: SimpleNamespace(first=first, starts_again=starts_again),
    )


def test_loops_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_loops, "HostLoop", Loop)
    monkeypatch.setattr(fit_loops, "BatchProgram", lambda name: name)
    stream = StepPlan(3, 2, False, None)

    def made(mode: str = "train", again: bool = False, **how: Any) -> tuple[Any, Any]:
        of_batches = {
            name: how.pop(name)
            for name in ("is_endless", "starts_again")
            if name in how
        }
        run = run_of(mode, **how)
        return run, run._make_host_loop(batches_of(**of_batches), again, {0: 2.0})

    run, loop = made()
    program = "a model's step"
    assert loop.calls == [2, (("train", {0: 2.0}), program)]
    assert run._program == program and run.prepared == [("train", Loop.spec)]
    source = loop.source
    assert (source.first, source.is_endless, source.most) == (3, False, 15)
    run, loop = made("test", starts_again=False)
    assert loop.source.first is None and len(loop.calls) == 1
    for mode, plan, is_endless, wanted in (
        *(("train", stream, True, True), ("train", stream, False, False)),
        *(("train", stream._replace(restarts=True), True, False),),
        ("test", stream, True, False),
    ):
        _, loop = made(mode, plan=plan, is_endless=is_endless)
        assert loop.source.is_endless is wanted
    for again, steps in ((True, 3), (False, None)):
        _, loop = made("test", again, plan=stream._replace(steps=steps))
        assert not hasattr(loop.source, "most")
    run, loop = made(model={"run_eagerly": True})
    assert loop.calls == [2, (("train", {0: 2.0}),)] and run._program is None
    with pytest.raises(RuntimeError, match="or several IPUs cannot run eagerly"):
        made(model={"run_eagerly": True}, is_strict=True)
    made(is_strict=True)
    monkeypatch.setattr(Loop, "spec", None)
    with pytest.raises(ValueError, match="it is empty"):
        made()


def test_where_batches_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "_make_host_loop", lambda *given: "host")
    monkeypatch.setattr(fit_loops, "FunctionLoop", lambda *given: given)
    monkeypatch.setattr(fit_loops, "auto_shard", lambda *given: ("shard", *given))
    own = {"_own_function": lambda mode: "own"}

    def made(again: bool = False, mode: str = "test", **how: Any) -> Any:
        of_batches = {
            name: how.pop(name)
            for name in ("is_endless", "is_open", "cardinality")
            if name in how
        }
        run = run_of(mode, model=own | how.pop("model", {}), **how)
        return run._make_loop(batches_of(**of_batches), again, None)

    for on_host in (
        made(is_open=True),
        made(model={"run_eagerly": True}),
        made(True, cardinality=UNKNOWN),
    ):
        assert on_host == "host"
    for loop in (
        *(made(), made(True), made(cardinality=UNKNOWN)),
        made(True, cardinality=UNKNOWN, is_strict=True),
    ):
        assert loop[0] == "own" and loop[2:] == (2, {"a": 1})
    stream = StepPlan(3, 2, False, None)
    for how, done in (
        ({"mode": "train"}, -1),
        ({"mode": "train", "plan": stream}, 1),
        ({"mode": "train", "plan": stream, "is_endless": True}, -1),
    ):
        ((dataset, count),) = made(**how)[1].done
        assert isinstance(dataset, Data) and count == done
    assert made()[1].done == ()
    assert made(True)[1].done == ("repeat",)
    assert made(True, plan=stream)[1].done == (("take", 6), "repeat")
    shard, data, sharers = made(_sharers=4)[1]
    assert (shard, data.done, sharers) == ("shard", (), 4)


def test_programs_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Program:
        pace = "pace"

        def __init__(self, *given: Any) -> None:
            made.append(given)

        def begin(self, *given: Any, **how: Any) -> None:
            made.append((*given, how))

    monkeypatch.setattr(fit_loops, "Program", Program)
    monkeypatch.setattr(fit_loops, "_diagnose", lambda *given: given)
    steps = SimpleNamespace()
    asked: list[Any] = []

    def make_steps(*given: Any) -> Any:
        asked.append(given)
        return steps

    monkeypatch.setattr(fit_loops, "make_steps", make_steps)
    run = run_of("test")
    batches = batches_of()
    assert run._make_loop(batches, False, {0: 2.0}) is run._program
    data = batches.dataset
    options = {"a": 1}, {"b": 2}
    assert made == [
        (data, 2, *options, "m.evaluate"),
        (steps, data, "reduced", 7, 1, {"may_end": True}),
    ]
    assert run.prepared == [("test", Data.element_spec)] and run._pace is None
    assert asked == [(run.model, "test", run.execution, 2, {0: 2.0})]
    assert steps.diagnose("spec") == (run.model, "test", "spec")
    assert steps.account.args == (weakref.ref(run.model), "test")
    made.clear()
    run = run_of("test", is_strict=True, _pace="any", _has_calls_of_replicas=True)
    run._make_loop(batches, False, None)
    assert made[0][1] is None and run._pace == "pace"
    assert made[1][2:] == (None, 7, 1, {"may_end": False})
    given: list[Any] = []
    run.model._programs.give_back = given.append
    run.end_well()
    assert given == [run._program]
    run._program = None
    run.end_well()
    assert len(given) == 1


def test_where_an_epoch_begins() -> None:
    calls: list[str] = []
    loop = SimpleNamespace(rewind=lambda: calls.append("r"), has_more=lambda: True)
    for mode, restarts, rewinds, left in (
        *(("train", True, 1, 9), ("train", False, 0, 2), ("test", False, 1, 9)),
    ):
        calls.clear()
        run = run_of(mode, plan=StepPlan(3, 2, restarts, 9), loop=loop, _left=2)
        assert run.begin_epoch() is True
        assert (len(calls), run._left) == (rewinds, left)
    run = run_of(plan=StepPlan(3, 2, False, 9), loop=loop, _left=0)
    assert run.begin_epoch() is False
    run._left = None
    assert run.begin_epoch() is True


def test_which_models_are_prepared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a strategy whose stages show in their calls."""
    monkeypatch.setattr(fit_loops, "settle", lambda *_: Execution(False, 1, 1))
    monkeypatch.setattr(Run, "_make_loop", lambda *_: None)

    class Own(keras.Sequential):
        def make_train_function(self, force: bool = False) -> Any:
            return None

    def prepared(kind: Any, is_built: bool = False, **how: Any) -> tuple[Any, bool]:
        found: list[Any] = []
        model = kind([keras.layers.Dense(1)])
        model.compile("sgd", "mse", **how)
        if is_built:
            model.build((None, 2))
        model._prepare = lambda *given: found.append(given)
        run = Run(model, "train", Given(data_set()), 2)
        assert run.plan.restarts is False and run.batch_size == 6
        return found, run._pace is not None

    assert prepared(keras.Sequential) == ([], True)
    assert prepared(keras.Sequential, steps_per_execution=1) == ([], False)
    with IPUStrategy().scope():
        ((mode, spec),), is_paced = prepared(keras.Sequential)
        assert mode == "train" and spec[0].shape == [6, 2] and not is_paced
        assert prepared(keras.Sequential, True) == ([], False) == prepared(Own)


def test_which_data_have_a_partial_batch() -> None:
    with IPUStrategy().scope():
        model = small()
        with pytest.raises(ValueError, match="Received: 5 samples of validation_data"):
            model.fit(X, Y, 6, validation_data=(X[:5], Y[:5]), verbose=0)
        with pytest.raises(ValueError, match="Received: 5 samples and batch_size=2"):
            model.evaluate(X[:5], Y[:5], 2, verbose=0)


# --- executions of an epoch -----------------------------------------------------------


class Executed:
    """A loop that gives so many steps in each execution."""

    def __init__(self, *done: int) -> None:
        self.left = list(done)
        self.calls: list[Any] = []

    def has_more(self) -> bool:
        return bool(self.left)

    def run(self, count: int, on_part: Any = None) -> Any:
        done = self.left.pop(0)
        self.calls.append((count, on_part))
        values = np.arange(float(done))
        part = {"logs": {"a": values, "b": values + 1}, "loss": {"loss": -values}}
        return [part] * (done > 0), done

    def record(self) -> None:
        self.calls.append("record")


class Noted:
    """Callbacks, a watcher, passes and a pace that note what they are told."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.kept: list[Any] = []

    def call(self, *given: Any) -> None:
        self.calls.append(given)

    def keep_steps(self, results: Any) -> None:
        self.kept.append(results)

    def recorders(self) -> list[str]:
        return ["recorder"]

    def steps_to_look(self, mode: str) -> None:
        return None

    def begin(self, *given: Any) -> None:
        self.calls.append(("begin", *given[1:]))

    def pause(self) -> None:
        self.calls.append("pause")

    def took(self, *given: Any) -> None:
        self.calls.append(given)


def executed(mode: str, *done: int, **how: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Run an epoch; what it gave, its run, and what callbacks and watcher were told."""
    callbacks, watcher, passes = Noted(), Noted(), Noted()
    model = {"stop_training": False, "_resets_what_it_lists": True, "metrics": ["m"]}
    given = {
        **{"loop": Executed(*done), "plan": StepPlan(5, 2, True, None)},
        **{"passes": passes, "_left": None, "_is_asynchronous": False},
        **{"_metrics": None, "is_out_of_data": False, **how},
        "model": model | how.get("model", {}),
    }
    run = run_of(mode, **given)
    found = run.execute(callbacks, watcher)
    return found, run, callbacks, watcher, passes


def test_the_executions_of_an_epoch() -> None:
    (logs, results), run, callbacks, watcher, passes = executed("train", 2, 2, 1)
    assert logs == {"a": 0.0, "b": 1.0} and results == []
    hook = "on_train_batch"
    ends = [{"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0}, {"a": 0.0, "b": 1.0}]
    assert callbacks.calls == [
        call
        for first, last, logs in zip((0, 2, 4), (1, 3, 4), ends, strict=True)
        for call in ((f"{hook}_begin", first, {}), (f"{hook}_end", last, logs))
    ]
    assert [one["loss"].tolist() for one in callbacks.kept] == [[0, -1], [0, -1], [0]]
    assert callbacks.kept[0]["b"].tolist() == [1, 2]
    assert passes.calls == [(4,), (4,), (2,)]
    assert run.loop.calls == [(2, None), (2, None), (1, None)]
    begins = [one for one in watcher.calls if one != "pause"]
    assert begins == [("begin", 0, 2), ("begin", 2, 2), ("begin", 4, 1)]
    assert watcher.calls[1::2] == ["pause"] * 3 and run._metrics == ["m"]


def test_an_epoch_that_ends_early() -> None:
    _, run, callbacks, _, _ = executed("train", 2, 2, 1, model={"stop_training": True})
    assert len(callbacks.calls) == 2 and len(run.loop.calls) == 1
    _, run, callbacks, _, _ = executed("test", 2, 2, 1, model={"stop_training": True})
    assert len(callbacks.calls) == 6 and not callbacks.kept
    with pytest.warns(UserWarning, match="after 2 of 5 steps"):
        _, run, callbacks, _, passes = executed("train", 2, 0)
    assert run.is_out_of_data and callbacks.calls[-1][0] == "on_train_batch_begin"
    assert passes.calls == [(4,), (0,)] and len(callbacks.kept) == 1
    plan = StepPlan(None, 2, True, None)
    _, run, _, _, _ = executed("train", 2, 2, plan=plan, _left=9)
    assert run.plan.steps == 4 and run._left == 5 and not run.is_out_of_data
    _, run, callbacks, _, _ = executed("train", plan=plan)
    assert run.plan.steps == 0 and callbacks.calls == [] and run._metrics is None
    for how in ({"_resets_what_it_lists": False}, {"metrics": ["other"]}):
        _, run, _, _, _ = executed("train", 2, 2, 1, model=how)
        assert run._metrics == how.get("metrics")
    _, run, _, _, _ = executed("train", 2, 2, 1, _metrics=["old"])
    assert run._metrics == ["old"]

    class Fails(Executed):
        def run(self, count: int, on_part: Any = None) -> Any:
            raise RuntimeError("no device")

    callbacks, watcher = Noted(), Noted()
    run = run_of(loop=Fails(1), _is_asynchronous=False, _left=None)
    with pytest.raises(RuntimeError, match="no device"):
        run.execute(callbacks, watcher)
    assert watcher.calls[-1] == "pause"


def test_the_executions_of_a_prediction() -> None:
    class Rows(Executed):
        def run(self, count: int, on_part: Any = None) -> Any:
            done = self.left.pop(0)
            return [np.full((done, 3, 1), done)], done

    found, _, callbacks, _, _ = executed("predict", loop=Rows(2, 2, 1))
    logs, results = found
    assert logs["outputs"].shape == (3, 1) and len(results) == 3
    assert [one[2]["outputs"].shape for one in callbacks.calls[1::2]] == [
        *((6, 1), (6, 1), (3, 1))
    ]
    assert callbacks.kept == []


def test_calls_for_each_step_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_loops, "StepCalls", lambda *given: given[1:])
    how = {"_is_asynchronous": True, "_reduced": lambda leaf: leaf * 2}
    for has_calls, wanted in (
        (False, {"a": 0.0, "b": 1.0}),
        (True, {"a": 0, "b": 2.0}),
    ):
        (logs, _), run, callbacks, watcher, _ = executed(
            *("train", 2, 2, 1), _has_calls_of_replicas=has_calls, **how
        )
        assert logs == wanted and callbacks.calls == [] == watcher.calls
        assert run.loop.calls == [
            (count, ("on_train_batch", step, 4))
            for count, step in ((2, 0), (2, 2), (1, 4))
        ]
    how["_reduced"] = None
    executed("train", 2, 2, 1, _has_calls_of_replicas=True, **how)


def test_executions_are_timed_and_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1.0, 1.5, 7.0, 9.0])
    now = SimpleNamespace(perf_counter=lambda: next(times))
    monkeypatch.setattr(fit_loops, "time", now)
    pace: Any = Noted()
    pace.count = 3
    _, run, _, _, _ = executed("train", 3, 2, _pace=pace)
    assert pace.calls == [(3, 0.5), (2, 2.0)]
    assert run.loop.calls == [(3, None), (2, None)]
    monkeypatch.undo()
    told: list[Any] = []
    monkeypatch.setattr(Run, "_tell_recorded", lambda self, *given: told.append(given))
    staged = Execution(True, 1, 1)
    _, run, _, _, _ = executed("train", 5, execution=staged)
    assert told == [] and run.loop.calls == [(2, None)]  # a loop on the host
    monkeypatch.setattr(fit_loops, "Program", Executed)
    _, run, _, _, _ = executed("train", 5, execution=staged)
    assert run.loop.calls[0] == "record" and told == [(["recorder"], run.loop)]
    _, run, _, _, _ = executed("train", 5)
    assert run.loop.calls == [(2, None)] and len(told) == 1
    monkeypatch.setattr(Noted, "recorders", lambda self: [])
    _, run, _, _, _ = executed("train", 5, execution=staged)
    assert run.loop.calls == [(2, None)] and len(told) == 1


# --- a whole run ----------------------------------------------------------------------


class Fit:
    """A run that notes what is done with it, and has so many epochs of data."""

    batch_size = 4
    is_strict = False
    is_out_of_data = False
    execution = Execution(False, 1, 1)

    def __init__(self, calls: list[Any], name: str, epochs: int = 9) -> None:
        self.calls, self.name, self.epochs = calls, name, epochs
        self.plan = StepPlan(2, 1, True, None)
        self.passes = self.loop = self
        self.fails = False

    def __getattr__(self, call: str) -> Any:
        return lambda *given: self.calls.append((self.name, call, *given))

    def begin_epoch(self) -> bool:
        self.calls.append((self.name, "begin_epoch"))
        self.epochs -= 1
        return self.epochs >= 0

    def execute(self, callbacks: Any, watcher: Any) -> Any:
        if self.fails:
            raise RuntimeError("no device")
        self.calls.append((self.name, "execute", bool(watcher._watchers)))
        self.plan = self.plan._replace(steps=7)
        return {"loss": float(self.epochs)}, [{"rows": np.zeros((1, 2))}]


class Hooked(keras.callbacks.Callback):
    def __init__(self, calls: list[Any]) -> None:
        super().__init__()
        self.calls = calls

    def __getattribute__(self, name: str) -> Any:
        calls = object.__getattribute__(self, "__dict__").get("calls", [])
        if name.startswith("on_") or name == "_abandon":
            return lambda *given: calls.append((name, *map(str, given)))
        return object.__getattribute__(self, name)

    def _on_steps_executed(self, done: int) -> None:
        pass


def fitted(
    epochs: int = 2, initial: int = 0, data: int = 9, **how: Any
) -> tuple[Any, list[Any], Any]:
    """Fit; the history, what was done, and the model."""
    calls: list[Any] = []
    train, test = Fit(calls, "train", data), Fit(calls, "test")
    vars(train).update(how.pop("train", {}))
    model: Any = SimpleNamespace(
        _data_order=SimpleNamespace(resume=lambda: calls.append("resume")),
        optimizer=SimpleNamespace(
            finalize_variable_values=lambda given: calls.append(("finalize", given))
        ),
        **{"trainable_variables": "w", "stop_training": True, "history": None},
    )
    vars(model).update(how.pop("model", {}))
    hooked = Hooked(calls)
    listed = fit_loops.make_callbacks(model, [hooked], 0, 2, epochs)
    validate = how.pop("validate", lambda epoch: None)
    if how.pop("stops", False):
        stop = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda *_: setattr(model, "stop_training", True)
        )
        listed.append(stop)
    history = fit_loops.run_fit(
        *(model, train, listed, epochs, initial),
        validate=lambda epoch: test if validate(epoch) else None,
    )
    assert history.model is model and model.history is history
    assert not [one for one in threading.enumerate() if one.name == "ipu-progress"]
    return history, calls, model


def epoch_of(number: int, loss: float, *tested: Any) -> list[Any]:
    logs = {"loss": loss, **({"val_loss": tested[-1]} if tested else {})}
    return [
        *(("train", "begin_epoch"), ("train", "reset_metrics")),
        ("on_epoch_begin", str(number), "{}"),
        ("train", "execute", True),
        *tested[:-1],
        ("train", "end_epoch"),
        ("on_epoch_end", str(number), str(logs)),
    ]


def test_the_course_of_a_fit() -> None:
    history, calls, model = fitted(validate=lambda epoch: epoch == 1)
    tested = [
        *(("test", "start"), ("test", "begin_epoch"), ("test", "reset_metrics")),
        *(("on_test_begin", "{}"), ("test", "execute", False)),
        ("on_test_end", "{'loss': 8.0}"),
    ]
    last = "{'loss': 7.0, 'val_loss': 8.0}"
    assert calls == [
        *("resume", ("train", "start"), ("on_train_begin", "{}")),
        *epoch_of(0, 8.0),
        *epoch_of(1, 7.0, *tested, 8.0),
        *(("finalize", "w"), ("on_train_end", last), ("test", "stop")),
        *(("test", "end_well"), ("_abandon",), ("train", "stop")),
        *(("train", "end_well"), ("train", "end")),
    ]
    assert history.history == {"loss": [8.0, 7.0], "val_loss": [8.0]}
    assert model.stop_training is False  # it was set by an earlier run
    assert history.params["steps"] == 7


def test_where_a_fit_ends() -> None:
    history, calls, _ = fitted(5, 3)
    assert history.epoch == [3, 4]
    history, _, model = fitted(5, stops=True)
    assert history.epoch == [0] and model.stop_training
    history, calls, _ = fitted(5, train={"is_out_of_data": True})
    assert history.epoch == [0]
    history, calls, _ = fitted(5, data=2)
    assert history.epoch == [0, 1] and ("train", "end_early", 0) in calls
    fitted(model={"optimizer": None})
    fitted(0)
    calls = []
    with pytest.raises(RuntimeError, match="no device"):
        fitted(train={"fails": True, "calls": calls})
    assert [one[1] for one in calls] == [
        *("start", "begin_epoch", "reset_metrics", "stop", "end")
    ]


def test_processes_meet_at_the_end_of_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[str] = []
    shared = Shared(index=0, meet=met.append)
    monkeypatch.setattr(processes, "shared", lambda: shared)
    fitted()
    assert met == ["the end of fit"]


def test_the_course_of_an_evaluation_and_a_prediction() -> None:
    for run, wanted in (
        (fit_loops.run_test, ["test_begin", "{}", "test_end", "{'loss': 8.0}"]),
        (fit_loops.run_predict, ["predict_begin", "{}", "predict_end", "{}"]),
    ):
        calls: list[Any] = []
        listed = fit_loops.make_callbacks(None, [Hooked(calls)], 0, 2)
        made: Any = Fit(calls, "run", 9)
        found = run(made, listed)
        hooks = [word for one in calls if one[0].startswith("on_") for word in one]
        assert [word.removeprefix("on_") for word in hooks] == wanted
        names = [one[1] for one in calls if one[0] == "run"]
        begun = ["begin_epoch", "reset_metrics"] * (run is fit_loops.run_test)
        assert names == ["start", *begun, "execute", "stop", "end_well"]
        if run is fit_loops.run_predict:
            assert found["rows"].shape == (2,)
        else:
            assert found == {"loss": 8.0}
