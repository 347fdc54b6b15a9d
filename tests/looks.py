# SPDX-License-Identifier: MIT
"""The places where Python looks for signals, between any two of its instructions."""

from __future__ import annotations

import ctypes
import dis
import itertools
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import CodeType, FrameType
from typing import Any

_NAMES = ("RESUME", "CALL", "JUMP_BACKWARD", "POP_JUMP_BACKWARD")
_send = ctypes.CDLL(None)["raise"]


@cache
def _looking(code: CodeType) -> frozenset[int]:
    """The instructions at whose end Python looks for signals."""
    found = dis.get_instructions(code)
    return frozenset(one.offset for one in found if one.opname.startswith(_NAMES))


class Looks:
    """Acts in this thread before Python looks for signals for the n-th time.

    `sys.settrace(looks.enter)` begins it.

    Args:
        number: Which look it is.
        act: A function, or the number of a signal, for which Python looks then.

    Attributes:
        count: How often Python has looked.
        act: What is done then; it is kept for ever.
    """

    _kept: list[Any] = []  # noqa: RUF012

    def __init__(self, number: int, act: Callable[[], Any] | int) -> None:
        self._number, self.act = number, act
        self.count = 0
        self._step = self._trace  # one object: frames do not own what traces them
        self._kept.append((self._step, self.enter))

    def enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Trace a call."""
        frame.f_trace = self._step  # in Python 3.13 before the next
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode" and frame.f_lasti in _looking(frame.f_code):
            self.count += 1
            if self.count == self._number:
                sys.settrace(None)
                if not isinstance(self.act, int):
                    self.act()
                    return self._step
                for _ in map(_send, [self.act]):  # Python does not look in here
                    return self._step
        return self._step


def interrupted_everywhere(act: Callable[[], Any], check: Callable[[], Any]) -> int:
    """Interrupt a function at each look in turn, and check after each; how many."""
    lost: list[Any] = []  # where Python itself cannot raise: while objects go
    hook, sys.unraisablehook = sys.unraisablehook, lost.append
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for number in itertools.count(1):
            looks = Looks(number, signal.SIGINT)
            sys.settrace(looks.enter)
            with suppress(KeyboardInterrupt):
                act()
                sys.settrace(None)
                if looks.count < number:
                    return looks.count
                assert lost, f"the interrupt of look {number} is lost"
            sys.settrace(None)
            check()
            lost.clear()
    finally:
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = hook
    raise AssertionError
