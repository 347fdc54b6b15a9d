# SPDX-License-Identifier: MIT
"""Calls of a Python function for several elements at once, results in their order.

Threads of Python gain where the function lets go of the interpreter: while it reads
files, in Pillow's decoders and in larger pieces of NumPy.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ipu._text.arguments import as_int

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")
_AUTOTUNE = -1
_WORTH_A_THREAD = 5e-4  # seconds of a call; handing it over and back takes a tenth
_MEASURED = 3  # calls: the first one imports, opens and fills caches


def calls_of(num_parallel_calls: Any) -> int:
    """Return how many calls of a function run at once, for :func:`in_order`.

    Args:
        num_parallel_calls: A number; AUTOTUNE; None for 1.

    Raises:
        ValueError: It is not a positive number, nor one of these.
    """
    if num_parallel_calls is None:
        return 1
    num_parallel_calls = as_int(num_parallel_calls)
    is_number = isinstance(num_parallel_calls, int)
    if is_number and num_parallel_calls == _AUTOTUNE:
        return _AUTOTUNE
    if not is_number or isinstance(num_parallel_calls, bool) or num_parallel_calls < 1:
        raise ValueError(
            "`num_parallel_calls` must be a positive integer, tf.data.AUTOTUNE or "
            f"None. Received: {num_parallel_calls!r}."
        )
    return int(num_parallel_calls)


def in_order(
    function: Callable[[int, Any], T], elements: Iterable[Any], calls: int
) -> Iterator[T]:
    """Return ``function(number, element)`` of all elements, in their order.

    Elements are taken by the thread that asks for results, one for each call that may
    run ahead. An error comes where its element's result would; one of ``elements``
    itself, after the results of those before. When the iterator is closed, no further
    call begins, and those that run are waited for.

    Args:
        function: The function, called in its own threads where ``calls`` is above 1.
        elements: Its arguments, numbered from 0.
        calls: How many calls run at once; AUTOTUNE for one by processor, where the
            first calls show that they are long enough.
    """
    return _InOrder(function, elements, calls)


class _InOrder(Iterator[T]):
    """See :func:`in_order`. No generator: one would end with its first error."""

    def __init__(
        self, function: Callable[[int, Any], T], elements: Iterable[Any], calls: int
    ) -> None:
        self._function, self._calls = function, calls
        self._numbered = enumerate(elements)
        self._owner = os.getpid()
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: deque[tuple[Future[T], int, Any]] = deque()
        self._failed: Exception | None = None  # of the elements, after those waiting
        self._seconds: list[float] = []  # of calls that are measured

    def __next__(self) -> T:
        if self._calls == _AUTOTUNE:
            return self._measured()
        if self._calls == 1:
            return self._function(*next(self._numbered))
        while self._failed is None and len(self._waiting) <= self._calls:
            try:
                number, element = next(self._numbered)
            except StopIteration:
                break
            except Exception as error:
                self._failed = error
                break
            begun = _begun(self._threads(), self._function, number, element)
            self._waiting.append((begun, number, element))
        if self._waiting:
            return self._result()
        if self._failed is None:
            raise StopIteration
        failed, self._failed = self._failed, None
        raise failed

    def _measured(self) -> T:
        """Return the result of a first call, whose time says how many run at once."""
        number, element = next(self._numbered)
        begin = time.perf_counter()
        try:
            return self._function(number, element)
        finally:
            self._seconds.append(time.perf_counter() - begin)
            if len(self._seconds) == _MEASURED:
                is_long = min(self._seconds) > _WORTH_A_THREAD
                self._calls = len(os.sched_getaffinity(0)) if is_long else 1

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # slow to import

            self._pool = ThreadPoolExecutor(self._calls, thread_name_prefix="ipu-map")
        return self._pool

    def _result(self) -> T:
        future: Future[T] | None
        future, number, element = self._waiting[0]
        # in a child made by fork the threads are gone
        if os.getpid() != self._owner:
            self._waiting.popleft()
            return self._function(number, element)
        try:
            return future.result()
        finally:
            if future.done():  # else the wait was interrupted
                self._waiting.popleft()
            future = None  # its error would hold this frame, and this frame it

    def close(self) -> None:
        """Begin no further call, and wait for those that run.

        The garbage collector may come here in any thread, also one that is just being
        started: `shutdown` would wait for a lock that its owner has, and a thread's
        `join` for one that it has itself.
        """
        if self._pool is None or os.getpid() != self._owner:
            return
        from concurrent.futures import wait

        running = [future for future, _, _ in self._waiting if not future.cancel()]
        threads = self._pool._threads
        self._pool = None  # without it they end
        if threading.current_thread() not in threads:
            wait(running)

    def __del__(self) -> None:
        self.close()


def _begun(
    pool: ThreadPoolExecutor, function: Callable[..., T], number: int, element: Any
) -> Future[T]:
    """Return the call as a future; where no thread can be had, it is made here and
    now."""
    from concurrent.futures import Future

    future: Future[T] = Future()
    claims = itertools.count()  # the pool keeps a call whose thread did not start

    def call() -> None:
        if next(claims) > 0 or not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(function(number, element))
        except BaseException as error:
            future.set_exception(error)

    try:
        pool.submit(call)
    except RuntimeError:
        if threading.main_thread().is_alive():
            call()
        else:  # the interpreter is ending
            future.cancel()
    return future
