# SPDX-License-Identifier: MIT
"""Calls of a Python function for several elements at once, results in their order.

Threads of Python gain where the function lets go of the interpreter: while it reads
files, in Pillow's decoders and in larger pieces of NumPy.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["calls_of", "in_order"]

T = TypeVar("T")
_AUTOTUNE = -1
_WORTH_A_THREAD = 5e-4  # seconds of a call; handing it over and back takes a tenth


def calls_of(num_parallel_calls: Any) -> int:
    """How many calls of a function run at once, for :func:`in_order`.

    Args:
        num_parallel_calls: A number; AUTOTUNE; None for 1.

    Raises:
        ValueError: It is no positive number, nor one of these.
    """
    if num_parallel_calls is None:
        return 1
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
    """``function(number, element)`` of all elements, in their order.

    Elements are taken by the thread that asks for results, one for each call that may
    run ahead. An error comes where its element's result would; one of ``elements``
    itself, behind the results of those before. When the iterator is closed, no further
    call begins, and those that run are waited for.

    Args:
        function: What is called, in threads of its own where ``calls`` is above 1.
        elements: What it is called with, numbered from 0.
        calls: How many calls run at once; AUTOTUNE for one by processor, where the
            first call shows that they are long enough.
    """
    numbered = enumerate(elements)
    if calls == _AUTOTUNE:
        for number, element in numbered:
            begin = time.perf_counter()
            first = function(number, element)
            is_long = time.perf_counter() - begin > _WORTH_A_THREAD
            calls = len(os.sched_getaffinity(0)) if is_long else 1
            yield first
            break
    if calls == 1:
        yield from (function(*one) for one in numbered)
    elif calls > 1:
        yield from _ahead(function, numbered, calls)


def _ahead(
    function: Callable[[int, Any], T], numbered: Iterator[tuple[int, Any]], calls: int
) -> Iterator[T]:
    """The same with calls in threads, one for each that may run ahead."""
    owner = os.getpid()
    from concurrent.futures import ThreadPoolExecutor  # slow to import

    pool = ThreadPoolExecutor(calls, thread_name_prefix="ipu-map")
    waiting: deque[tuple[Future[T], int, Any]] = deque()

    def result() -> T:
        future, number, element = waiting.popleft()
        # in a child made by fork the threads are gone
        if os.getpid() == owner:
            return future.result()
        return function(number, element)

    try:
        failed: Exception | None = None
        while failed is None:
            try:
                number, element = next(numbered)
            except StopIteration:
                break
            except Exception as error:
                failed = error
                break
            waiting.append((_begun(pool, function, number, element), number, element))
            if len(waiting) > calls:
                yield result()
        while waiting:
            yield result()
        if failed is not None:
            raise failed
    finally:
        if os.getpid() == owner:
            for future, _, _ in waiting:
                future.cancel()
            pool.shutdown()


def _begun(
    pool: ThreadPoolExecutor, function: Callable[..., T], number: int, element: Any
) -> Future[T]:
    """The call as a future; where no thread may start any more, it has ended."""
    try:
        return pool.submit(function, number, element)
    except RuntimeError:  # the interpreter is ending
        from concurrent.futures import Future

        future: Future[T] = Future()
        future.cancel()
        return future
