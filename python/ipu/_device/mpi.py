# SPDX-License-Identifier: MIT
"""The thread that looks after MPI, for programs that run in several processes.

Programs post exchanges (``_core.Peers``), and the core calls MPI for them: the thread
that waits for one, or this one, while all others are busy. ``mpi4py`` has found and
initialised MPI; the core gets addresses of its functions.

On a communicator of its own the thread tells the other processes when this one fails or
ends, and hears that of them: so nobody waits for a process that is gone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from ipu._text.log import logger
from ipu._text.missing import user_line

if TYPE_CHECKING:
    from ipu import _core

_ENDED = b"\0"  # a process has ended its program; any other text is why it has failed
_TEXT_BYTES = 1024
# seconds
_NOTICE = 30.0  # after so long a message names those that are waited for
_GRACE = 1.0  # for messages of a process that has ended, which may be on their way
_FAREWELL = 2.0  # for others to hear that this process has failed
_LOOK = 0.05  # between two looks for news


def _notice_termination() -> int | None:
    """Have SIGTERM written to a pipe, unless the program handles it; what to read."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return None
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read


def _where(before: str, source: tuple[str, int] | None) -> str:
    """The line of the program that waits; where the core does not know it, the one that
    the main thread is in."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    line = source or user_line(frame)
    return f"{before}{line[0]}:{line[1]}" if line else ""


def _hand_over(mpi: Any, communicator: Any, peers: _core.Peers) -> None:
    """Tell the core where MPI is."""
    library = ctypes.CDLL(mpi.__file__)
    names = "MPI_Isend", "MPI_Irecv", "MPI_Test", "MPI_Error_string"
    isend, irecv, test, error_string = (
        ctypes.cast(library[name], ctypes.c_void_p).value or 0 for name in names
    )
    peers.use_mpi(
        (isend, irecv, test, error_string),
        mpi._handleof(communicator),
        mpi._handleof(mpi.BYTE),
        mpi._sizeof(mpi.Request) > ctypes.sizeof(ctypes.c_int),
        mpi.Query_thread() == mpi.THREAD_MULTIPLE,
    )


class Transport:
    """The thread, and what it knows.

    Args:
        peers: The core's side.
        mpi: The module ``mpi4py.MPI``.
    """

    def __init__(self, peers: _core.Peers, mpi: Any) -> None:
        self._peers = peers
        self._mpi = mpi
        self._pid = os.getpid()
        self._data = mpi.COMM_WORLD.Dup()
        _hand_over(mpi, self._data, peers)
        self._news = mpi.COMM_WORLD.Dup()
        self._told = 0  # number of the last exchange that a notice was about
        self._ended: dict[int, float] = {}
        self._farewells: list[Any] = []
        self._has_told = False
        self._is_stopping = False
        self._text = bytearray(_TEXT_BYTES)
        self._status = mpi.Status()
        self._hearing: Any = None
        self._signals = _notice_termination()
        self._thread = threading.Thread(target=self._run, name="ipu-mpi", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Tell the others that this process has ended, or failed; end the thread."""
        if os.getpid() != self._pid:  # a forked child has no such thread
            return
        self._is_stopping = True
        self._peers.wake()
        self._thread.join(2 * _FAREWELL)

    def _run(self) -> None:
        try:
            self._listen()
            self._serve()
            self._say_farewell()
        except BaseException as error:
            self._peers.fail(f"MPI failed: {error}")

    def _serve(self) -> None:
        while not self._is_stopping:
            self._peers.serve(_LOOK)
            self._hear()
            self._check()
            self._pass_on_signals()

    def _pass_on_signals(self) -> None:
        """End a run as Ctrl-C does where the process shall terminate: programs look for
        that signal alone."""
        if self._signals is None:
            return
        try:
            numbers = os.read(self._signals, 64)
        except BlockingIOError:
            return
        if signal.SIGTERM in numbers:
            os.kill(os.getpid(), signal.SIGINT)

    def _check(self) -> None:
        """Find what will never be over, and tell of what takes long."""
        failure = self._peers.failure
        if failure is not None:
            self._tell(failure)
            return
        now = time.monotonic()
        for process, since in self._ended.items():
            if now - since <= _GRACE:
                continue
            found = self._peers.find(process, 0, 0.0)
            if found is not None:
                where = _where(" at ", found[3])
                self._peers.fail(
                    f"process {process} has ended its program, and process "
                    f"{self._peers.process} waits for it{where}. All processes have to "
                    "run the same programs, as often"
                )
                return
        found = self._peers.find(None, self._told, _NOTICE)
        if found is not None:
            self._told, seconds, names, source = found
            logger.warning(
                "Process %d has waited for %.0f s for process %s%s. It goes on "
                "waiting.",
                self._peers.process,
                seconds,
                names,
                _where(", at ", source),
            )

    # --- news of processes

    def _listen(self) -> None:
        self._hearing = self._news.Irecv(self._text, self._mpi.ANY_SOURCE, 0)

    def _hear(self) -> None:
        while self._hearing.Test(self._status):
            process = self._status.Get_source()
            text = bytes(self._text[: self._status.Get_count(self._mpi.BYTE)])
            self._listen()
            if text == _ENDED:
                self._ended[process] = time.monotonic()
            else:
                reason = text.decode(errors="replace")
                self._has_told = True  # they have heard it from the one that failed
                self._peers.fail(f"process {process} failed: {reason}")

    def _tell(self, text: str | None) -> None:
        if self._has_told:
            return
        self._has_told = True
        data = _ENDED if text is None else (text.encode() or b"?")[:_TEXT_BYTES]
        for process in range(self._peers.count):
            if process != self._peers.process:
                self._farewells.append(self._news.Isend(data, process, 0))

    def _say_farewell(self) -> None:
        self._tell(self._peers.failure)
        until = time.monotonic() + _FAREWELL
        while time.monotonic() < until:
            if self._mpi.Request.Testall(self._farewells):
                break
            time.sleep(1e-3)
        self._hearing.Cancel()
        self._hearing.Wait()
        # other threads must not call MPI once it has been finalised
        self._peers.fail("this process has ended its program")
