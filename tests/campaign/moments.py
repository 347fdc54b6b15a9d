# SPDX-License-Identifier: MIT
"""One event at one moment of a small program, and what becomes of it.

The moment is a time, which the C core spends at all of its waits; a place where Python
looks for signals, between any two of its instructions; or a call of the user's code.
The program ends, or with the error of the event; its variables are those of a step's
end; the next run of the same objects has the bits that it would have had; threads and
descriptors go.
"""

from __future__ import annotations

import ctypes
import gc
import inspect
import itertools
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import numpy as np
from looks import Looks
from simulated_ipus import attach

from ipu import tf

from . import programs
from .programs import PROGRAMS, Program

MOST = 3  # steps of a run
KNOWN = 24  # steps whose states are known
BLOCK = 8  # seeds that share a program
PATIENCE = 20  # seconds of a child
# two processes cannot both go on with a file that is half written
WRITERS = ("files", "checkpoints", "fit_with_files", "data_file")


class Boom(Exception):
    """What the user's code raises."""


# --- what programs do when nothing happens --------------------------------------------


def _make(name: str) -> Program:
    """A program, on as many IPUs as it needs."""
    made = PROGRAMS[name]()
    if made.ipus != _ipus[0]:
        _attach(made.ipus)
        made = PROGRAMS[name]()
    return made


_ipus = [0]


def _attach(count: int) -> None:
    attach(count)
    _ipus[0] = count


@cache
def _states(name: str) -> list[list[Any]]:
    """The variables after each step."""
    made = _make(name)
    found = [made.state()]
    for _ in range(KNOWN):
        made.run(1)
        found.append(made.state())
    return found


@cache
def _result(name: str, steps: int) -> Any:
    return _make(name).run(steps)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(np.array_equal(one, other))


# --- moments --------------------------------------------------------------------------

SENDER = """
import os, sys, time
for line in sys.stdin:
    pid, number, *pauses = line.split()
    for pause in pauses:
        end = time.perf_counter() + float(pause)
        while time.perf_counter() < end:
            pass
        os.kill(int(pid), int(number))
    print(flush=True)
"""


@cache
def _sender(pid: int) -> subprocess.Popen[str]:
    """A process that sends signals on time, whatever this one is at."""
    command = [sys.executable, "-S", "-c", SENDER]
    pipe = subprocess.PIPE
    made = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    weakref.finalize(programs.here, made.kill)
    return made


def _send(number: int, *pauses: float) -> Callable[[], None]:
    """Have signals sent after pauses; what is given waits until they are."""
    sender = _sender(os.getpid())
    assert sender.stdin is not None and sender.stdout is not None
    words = [os.getpid(), number, *pauses]
    sender.stdin.write(" ".join(map(str, words)) + "\n")
    sender.stdin.flush()
    return sender.stdout.readline  # type: ignore[return-value]


def _later(seconds: float, act: Callable[[], None]) -> Callable[[], None]:
    """Act in a thread of its own; what is given waits until it is done."""

    def work() -> None:
        time.sleep(seconds)
        act()

    thread = threading.Thread(target=work)
    thread.start()
    return thread.join


# --- events ---------------------------------------------------------------------------


class Trial:
    """What happens to a run.

    Attributes:
        fired: Whether it has happened.
        raised: Where a signal's handler has raised something.
        is_on: Whether the run is under way; what comes before or after changes nothing.
        wrong: What went wrong elsewhere than in the run.
    """

    def __init__(self, name: str, live: Program, rng: random.Random) -> None:
        self.name, self.live, self.rng = name, live, rng
        self.way = rng.random()  # of a child, or to forget
        self.fired = False
        self.raised = ""
        self.is_on = False
        self.is_child = False
        self.children: list[int] = []
        self.wrong: list[str] = []
        self.lost: list[Any] = []  # exceptions that nobody could take

    def on_signal(self, number: int, frame: Any) -> None:
        """Raise what Python's own handler raises, or what a program's own does."""
        if not self.is_on:
            return
        self.raised = "".join(traceback.format_stack(frame)[-6:])
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(143)

    def handles(self, number: int, frame: Any) -> None:
        """Compute in a handler, and go on."""
        self.fired = True
        self.guarded(lambda: _check_small(False))

    def guarded(self, act: Callable[[], Any]) -> None:
        """Note what goes wrong in another thread, or in a handler."""
        try:
            act()
        except Exception:
            self.wrong.append(traceback.format_exc())

    # what happens, wherever it does

    def interrupt(self) -> None:
        """The user presses Ctrl-C."""
        self.fired = True
        os.kill(os.getpid(), signal.SIGINT)

    def terminate(self) -> None:
        """A scheduler wants the program to end."""
        self.fired = True
        os.kill(os.getpid(), signal.SIGTERM)

    def handle(self) -> None:
        """A signal comes whose handler computes."""
        os.kill(os.getpid(), signal.SIGUSR2)

    def boom(self) -> None:
        """The user's code fails."""
        self.fired = True
        raise Boom("boom")

    def collect(self) -> None:
        """Garbage is collected that holds all kinds of things."""
        self.fired = True
        gc.collect()

    def spoil(self) -> None:
        """What the program uses goes."""
        self.fired = True
        self.guarded(self.live.spoil)

    def forget(self) -> None:
        """Some of what the program uses loses its name."""
        self.fired = True
        for cell in _cells(self.live)[:: 1 + int(4 * self.way)]:
            with suppress(ValueError):  # it is empty
                del cell.cell_contents

    def fork(self) -> None:
        """A child ends, computes, or goes on with what the process is at."""
        self.fired = True
        is_main = threading.current_thread() is threading.main_thread()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads and fork()
            child = os.fork()
        if child:
            self.children.append(child)
            return
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(PATIENCE)
        if self.way < 0.3 or self.name in WRITERS:
            os._exit(0)
        if is_main:
            self.is_child = True
            return
        self.end_child(lambda: _check_small(True))

    def end_child(self, act: Callable[[], Any]) -> None:
        """End a child, which does something more."""
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def reap(self) -> None:
        """Wait for the children."""
        for child in self.children:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert status == 0, f"a child ended with {status}"


def _check_small(with_data: bool) -> None:
    """Something else works meanwhile."""
    with tf.init_scope():
        if not tf.executing_eagerly():  # while a graph of version 1 is written
            return
        twice = tf.function(lambda x: x * 2.0 + 1.0)
        assert float(twice(tf.constant(4.0))) == 9.0
        if with_data:
            rows = tf.data.Dataset.from_tensor_slices(np.arange(5, dtype=np.int32))
            rows = rows.map(lambda x: x + 1).prefetch(1)
            assert [int(x) for x in rows] == [1, 2, 3, 4, 5]


def _cells(made: Program) -> list[types.CellType]:
    """Where the program's functions, and those that they use, have their objects."""
    found: dict[int, types.CellType] = {}
    left: list[Any] = [*made]
    while left:
        one = left.pop()
        for cell in getattr(inspect.unwrap(one), "__closure__", None) or ():
            if id(cell) not in found:
                found[id(cell)] = cell
                left.append(cell.cell_contents)
    return [*found.values()]


def _garbage() -> None:
    """Leave cycles that only a collection finds."""
    circle: list[Any] = [tf.Variable(1.0), iter(tf.data.Dataset.range(9).prefetch(1))]
    circle.append(programs.queues_of_generators())
    next(circle[1])
    circle.append(circle)


# by the names of Trial's methods: the errors that a run may end with
EVENTS: dict[str, tuple[type[BaseException], ...]] = {
    "interrupt": (KeyboardInterrupt,),
    "interrupts": (KeyboardInterrupt,),
    "terminate": (SystemExit,),
    "handle": (),
    "boom": (Boom, tf.errors.OpError, RuntimeError, ValueError),
    "collect": (),
    "fork": (),
    "spoil": (tf.errors.OpError, RuntimeError, ValueError, StopIteration, LookupError),
    "forget": (NameError, tf.errors.OpError, OSError),
    "strike": (Boom,),
    "storm": (),
}
SIGNALS = {
    "interrupt": signal.SIGINT,
    "terminate": signal.SIGTERM,
    "handle": signal.SIGUSR2,
}
# how long runs take, and how often Python looks for signals in them
_seconds: dict[tuple[str, bool], float] = {}
_counts: dict[tuple[str, bool], int] = {}


@contextmanager
def _happening(trial: Trial, event: str, key: tuple[str, bool]) -> Iterator[None]:
    """Let the event happen at a moment of the run inside."""
    rng = trial.rng
    kinds = {"boom": ("call",), "storm": ("time",), "strike": ("time",)}.get(
        event, ("call", "look", "time", "time")
    )
    kind = rng.choice(kinds)
    if event == "interrupts":
        kind = "time"
    act = getattr(trial, event, None)
    pause = rng.uniform(0, 1.2 * _seconds.get(key, 0.05))
    wait: Callable[[], Any] = int  # there is nothing to wait for
    looks = None
    if event == "collect":
        _garbage()
    if event == "storm":
        signal.signal(signal.SIGALRM, lambda number, frame: None)
        signal.setitimer(signal.ITIMER_REAL, 1e-4, rng.choice([5e-5, 3e-4, 1e-3]))
    elif event == "strike":
        main = threading.main_thread().ident or 0

        def strike() -> None:
            if trial.is_on:
                trial.fired = True
                _set_error(ctypes.c_ulong(main), ctypes.py_object(Boom))

        wait = _later(pause, strike)
    elif kind == "call":
        number, count = rng.randint(1, 12), itertools.count(1)

        def hook() -> None:
            if next(count) == number:
                act()

        programs._hook[:] = [hook]
    elif kind == "look":
        most = _counts.get(key, 3000)
        number = rng.choice([rng.randint(1, most), rng.randint(1, min(most, 300))])
        trial.fired |= event in ("interrupt", "terminate")
        looks = Looks(number, SIGNALS.get(event, act))
        sys.settrace(looks.enter)
    elif event in ("interrupt", "interrupts", "terminate", "handle"):
        trial.fired = event != "handle"
        number = SIGNALS[event.removesuffix("s")]
        pauses = [pause, rng.uniform(0, 0.003)][: 1 + (event == "interrupts")]
        wait = _send(number, *pauses)
    else:
        wait = _later(pause, lambda: trial.guarded(act))

    def end() -> None:
        sys.settrace(None)
        programs._hook.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
        if looks is not None:
            _counts[key] = max(_counts.get(key, 1), looks.count)
            looks.act = 0
        if not trial.is_child:
            wait()

    try:
        yield
    finally:
        try:
            end()
        except Boom:  # it came late
            end()


# --- a trial --------------------------------------------------------------------------


class _Live:
    """The program of this block of seeds, and how many steps it has made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.program = _make(name)
        self.at = 0
        self.is_fresh = True


_live: list[_Live] = []


def _run(trial: Trial, event: str, steps: int, key: tuple[str, bool]) -> Any:
    """Run with the event; the result or the error."""
    result: Any = None
    begin = time.perf_counter()
    with suppress(Boom), _happening(trial, event, key):  # where it comes late
        try:
            trial.is_on = True
            result = trial.live.run(steps)
            trial.is_on = False
        except BaseException as error:
            trial.is_on = False
            result = error
    if not isinstance(result, BaseException):
        _seconds[key] = time.perf_counter() - begin
    return result


@contextmanager
def _handlers(trial: Trial) -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, trial.on_signal) for number in numbers}
    before[signal.SIGUSR2] = signal.signal(signal.SIGUSR2, trial.handles)
    before[signal.SIGALRM] = signal.getsignal(signal.SIGALRM)
    hook = sys.unraisablehook
    sys.unraisablehook = lambda what: trial.lost.append(what.exc_type)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def check(seed: int) -> None:
    """Let one event happen at one moment of one program."""
    log = logging.getLogger("ipu")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        what = _check(seed)
        if seed % 40 == 39:
            _check_left(what)
    finally:
        log.setLevel(level)


def _check(seed: int) -> str:
    """What has been tried; nothing is kept of it, nor of its error's frames."""
    rng = random.Random(seed)
    name = [*PROGRAMS][seed // BLOCK % len(PROGRAMS)]
    _states(name)
    if not _first_counts:
        _make("replicas").run(1)  # starts the threads of the pool
        _check_left("before")
    if not _live or _live[0].name != name or rng.random() < 0.25:
        _live[:] = []
        _live[:] = [_Live(name)]
    live = _live[0]
    if live.at + 2 * MOST > KNOWN:
        live = _Live(name)
    _live.clear()  # unless this seed holds
    event = rng.choice([*EVENTS])
    steps = rng.randint(1, MOST)
    trial = Trial(name, live.program, rng)
    what = f"{name}, {event}, {steps} steps from {live.at}"
    with _handlers(trial):
        got = _run(trial, event, steps, (name, live.is_fresh))
    live.is_fresh = False
    if trial.is_child:
        trial.end_child(lambda: _goes_on(name, got))
    _judge(trial, live, event, steps, got, what)
    _next_run(live, steps, got, what)
    return what


def _judge(
    trial: Trial, live: _Live, event: str, steps: int, got: Any, what: str
) -> None:
    """What the run ended with is the event's."""
    trial.reap()
    assert not trial.wrong, f"{what}: {trial.wrong[0]}"
    if isinstance(got, BaseException):
        if not trial.fired or not isinstance(got, EVENTS[event]):
            raise AssertionError(what) from got
        assert event != "boom" or "boom" in str(got), (what, got)
    else:
        is_lost = any(one in trial.lost for one in EVENTS[event])
        assert not trial.raised or is_lost, f"{what}: swallowed at {trial.raised}"
        assert _same(got, _result(live.name, steps)), f"{what}: another result"


def _next_run(live: _Live, steps: int, got: Any, what: str) -> None:
    """The variables are those of a step's end; a run more has its bits."""
    states = _states(live.name)
    is_whole = not isinstance(got, BaseException)
    if "spoil" in what or "forget" in what:
        return
    found = live.program.state()
    made = [k for k in range(steps + 1) if _same(found, states[live.at + k])]
    assert made, f"{what}: variables of no step's end"
    assert steps in made or not is_whole, f"{what}: {made} steps"
    live.at += steps if is_whole else made[-1]
    result = live.program.run(MOST)
    live.at += MOST
    assert _same(result, _result(live.name, MOST)), f"{what}: the next result"
    assert _same(live.program.state(), states[live.at]), f"{what}: the next run"
    _live[:] = [live]


def _goes_on(name: str, got: Any) -> None:
    """In a child whose parent had other threads: a clean error, and a new run."""
    if isinstance(got, BaseException):
        assert isinstance(got, (tf.errors.OpError, RuntimeError)), repr(got)
    made = PROGRAMS[name]()
    made.run(1)
    assert _same(made.state(), _states(name)[1])


_set_error = ctypes.pythonapi.PyThreadState_SetAsyncExc
_first_counts: dict[str, int] = {}


def _check_left(what: str) -> None:
    """Threads and descriptors are as many as they were."""
    _live.clear()
    end = time.monotonic() + 10
    while True:
        gc.collect()
        now = {one: len(os.listdir(f"/proc/self/{one}")) for one in ("fd", "task")}
        over = {k: n for k, n in now.items() if n > _first_counts.setdefault(k, n) + 2}
        if not over:
            return
        assert time.monotonic() < end, f"{what}: left {over} of {_first_counts}"
        time.sleep(0.05)
