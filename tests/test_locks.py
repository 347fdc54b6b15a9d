# SPDX-License-Identifier: MIT
"""Locks of the package after os.fork: free, unless the thread that forked has them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from looks import interrupted_everywhere

from ipu._device import locks as _locks
from ipu._device.locks import Condition, Event, Lock

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def in_child(check: Callable[[], object]) -> None:
    """Run the check in a forked child, which has ten seconds."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        code = 1
        try:
            check()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0, "the child hung or failed"


@contextmanager
def elsewhere(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run ``work(end)`` in another thread, from the moment when it sets ``there``."""
    there, end = threading.Event(), threading.Event()

    def run() -> None:
        there.set()
        work(end)

    thread = threading.Thread(target=run)
    thread.start()
    there.wait()
    try:
        yield
    finally:
        end.set()
        thread.join()


def test_what_another_thread_holds_is_free_in_a_child() -> None:
    locks = [Lock(), Condition()]
    there = threading.Event()

    def hold(end: threading.Event) -> None:
        with locks[0], locks[1]:
            there.set()
            end.wait()

    def check() -> None:
        for lock in locks:
            with lock, lock:
                pass

    with elsewhere(hold):
        there.wait()
        in_child(check)
        in_child(lambda: in_child(check))
        assert not locks[0].acquire(blocking=False)
    check()


def test_every_lock_of_the_package_is_free_in_a_child() -> None:
    known = list(_locks._all)
    assert len(known) > 3
    there = threading.Event()

    def hold(end: threading.Event) -> None:
        for lock in known:
            lock.acquire()
        there.set()
        end.wait()
        for lock in known:
            lock.release()

    with elsewhere(hold):
        there.wait()
        in_child(lambda: [lock.acquire() for lock in known])


def test_what_the_forking_thread_holds_it_holds_in_the_child() -> None:
    lock, condition = Lock(), Condition()
    with lock, condition:
        child = os.fork()
    if child == 0:  # both have been released, once
        code = 1
        try:
            threads = [
                threading.Thread(target=lambda one=one: one.acquire(timeout=5))
                for one in (lock, condition)
            ]
            for thread in threads:
                thread.start()
                thread.join()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_nobody_waits_in_a_child() -> None:
    condition, event, turns = Condition(), Event(), [0]

    def wait(end: threading.Event) -> None:
        with condition:
            condition.wait_for(lambda: turns[0] > 0 or end.is_set())

    def check() -> None:
        def answer() -> None:
            with condition:
                turns[0] = 1
                condition.notify_all()
            event.set()

        thread = threading.Thread(target=answer)
        with condition:
            thread.start()
            condition.wait_for(lambda: turns[0] == 1, timeout=5)
        assert turns[0] == 1 and event.wait(5)
        event.clear()
        assert not event.is_set() and not event.wait(0.01)

    with elsewhere(wait):
        in_child(check)
        with condition:
            turns[0] = 2
            condition.notify_all()


def test_what_other_threads_left_is_forgotten_once_locks_are_there() -> None:
    class Runs:
        def __init__(self) -> None:
            self.lock = Lock(self.forget)
            self.runs = [1]

        def forget(self) -> None:
            with self.lock:
                self.runs.clear()

    runs, gone = Runs(), Runs()
    del gone  # a lock keeps nobody alive

    def check() -> None:
        assert not runs.runs

    in_child(check)
    assert runs.runs == [1]


def test_ctrl_c_leaves_no_lock_taken() -> None:
    """Wherever it comes, between taking a lock and giving it back too."""
    lock, condition, event = Lock(), Condition(), Event()

    def act() -> None:
        with lock, condition:
            condition.wait(1e-3)
            condition.notify_all()
        event.set()
        event.is_set()
        event.clear()

    def check() -> None:
        found: list[bool] = []
        locks = (lock, condition, event._changed)

        def take() -> None:
            for one in locks:
                found.append(one.acquire(blocking=False))
                if found[-1]:
                    one.release()

        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
        assert found == [True] * 3

    assert interrupted_everywhere(act, check) > 10
