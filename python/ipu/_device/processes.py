# SPDX-License-Identifier: MIT
"""The processes that run one program together: which this one is, and how many.

They are those that an MPI launcher has started (``python -m ipu run -n 4 train.py``,
``mpiexec -n 4 python train.py``, ``srun``). A process joins the others when its program
asks for that: a strategy for several processes, or ``ipu.distributed``. One that never
does is alone, and never imports ``mpi4py``.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._device.locks import Lock
from ipu._text.errors import AbortedError, FailedPreconditionError
from ipu._text.missing import user_line

if TYPE_CHECKING:
    from ipu import _core

# what launchers set: MPICH, Intel MPI and Slurm's PMI, PMIx, Open MPI
_LAUNCHERS = "PMI_SIZE PMI_RANK PMIX_RANK OMPI_COMM_WORLD_SIZE MPI_LOCALNRANKS".split()
# seconds in which the error of another process comes here
_MOMENT = 0.3
_CALL_BYTES = 512  # of what processes tell each other of a call
INSTALL = "pip install 'ipu[mpi]'"


class Processes:
    """The processes, once this one has joined them.

    Attributes:
        index: The number of this one.
        count: How many there are.
        on_this_machine: How many of them run on this machine,
        number_on_this_machine: and the number of this one among these.
        peers: The core's side, or None where this process is alone.
        shares_devices: Whether programs of the devices run in all of them.
    """

    def __init__(self) -> None:
        self.index = 0
        self.count = 1
        self.on_this_machine = 1
        self.number_on_this_machine = 0
        self.peers: _core.Peers | None = None
        self.shares_devices = False
        self._transport: Any = None
        self._abort: Any = None
        self._pid = 0
        if was_launched():
            self._join()

    @property
    def first_core(self) -> int:
        """The first of its cores, where all of this machine have as many."""
        from ipu import _core

        return self.number_on_this_machine * _core.num_threads()

    def _join(self) -> None:
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise FailedPreconditionError(
                "This process was started by an MPI launcher, as one of several, but "
                f"mpi4py cannot be imported ({error}). Install it: {INSTALL}."
            ) from error
        world = MPI.COMM_WORLD
        self.index, self.count = world.Get_rank(), world.Get_size()
        if self.count == 1:
            return
        if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
            raise FailedPreconditionError(
                "MPI was initialised for one thread alone. Leave it to the package: do "
                "not set mpi4py.rc.threads = False."
            )
        from ipu import _core
        from ipu._device.mpi import Transport

        machine = world.Split_type(MPI.COMM_TYPE_SHARED)
        self.on_this_machine = machine.Get_size()
        self.number_on_this_machine = machine.Get_rank()
        self.peers = _core.Peers(self.index, self.count)
        self._transport = Transport(self.peers, MPI)
        self._abort = world.Abort
        self._pid = os.getpid()
        if "IPU_NUM_THREADS" not in os.environ:
            cores = len(os.sched_getaffinity(0))
            _core.set_num_threads(max(1, min(256, cores // self.on_this_machine)))
        if _core.first_core() >= 0:
            _core.pin_threads(self.first_core)
        atexit.register(self._transport.stop)
        self._excepthook = sys.excepthook
        sys.excepthook = self._on_exception

    def _on_exception(
        self,
        kind: type[BaseException],
        error: BaseException,
        traceback: TracebackType | None,
    ) -> None:
        """Tell the other processes that the program ends with an error, so that they
        end."""
        assert self.peers is not None
        if os.getpid() != self._pid:  # a forked child is not one of them
            self._excepthook(kind, error, traceback)
            return
        own = f"{kind.__name__}: {error}"
        if self.index > 0:  # all may have met the same error: one traceback is enough
            time.sleep(_MOMENT)
        failure = self.peers.failure
        is_told = failure is not None and failure.startswith("process ")
        is_same = failure is not None and failure.endswith(own)
        if is_told and (is_same or issubclass(kind, AbortedError)):
            assert failure is not None
            line = failure.splitlines()[0]
            print(f"process {self.index} ends: {line}", file=sys.stderr, flush=True)
        else:
            self._excepthook(kind, error, traceback)
            self.peers.fail(own)
        self._transport.stop()
        sys.stdout.flush()
        time.sleep(2 * _MOMENT)  # for others to say a word, too
        self._abort(1)

    # --- calls outside of programs, of all processes

    def meet(self, call: str) -> None:
        """Check that all processes make the same call, which sends as much in each.

        Args:
            call: What it is, such as "allreduce of float32 [2]".

        Raises:
            FailedPreconditionError: Another process makes another call.
        """
        if self.peers is None:
            return
        line = user_line()
        told = f"{call}\0{f', at {line[0]}:{line[1]}' if line else ''}"
        own = np.zeros(_CALL_BYTES, np.uint8)
        text = told.encode()[:_CALL_BYTES]
        own[: len(text)] = np.frombuffer(text, np.uint8)
        calls = [one.tobytes().decode(errors="replace") for one in self.allgather(own)]
        parts = [one.rstrip("\0").partition("\0") for one in calls]
        (first, _, where), *others = parts
        for process, (other, _, there) in enumerate(others, 1):
            if other != first:
                raise FailedPreconditionError(
                    "All processes must make the same calls in the same order. "
                    f"Received: in process 0 {first}{where}, and in process {process} "
                    f"{other}{there}."
                )

    def allgather(self, value: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        """Give all processes the arrays of each, which have one shape and dtype."""
        own = np.ascontiguousarray(value)
        if self.peers is None:
            return [own]
        found = [np.empty_like(own) for _ in range(self.count)]
        found[self.index][...] = own
        others = [p for p in range(self.count) if p != self.index]
        self.peers.exchange(
            [(p, own.reshape(-1).view(np.uint8)) for p in others],
            [(p, found[p].reshape(-1).view(np.uint8)) for p in others],
        )
        return found

    def allgather_bytes(self, value: bytes) -> list[bytes]:
        """Give all processes the bytes of each, of any length."""
        sizes = self.allgather(np.array([len(value)], np.int64))
        if self.peers is None:
            return [value]
        found = [bytearray(int(size[0])) for size in sizes]
        others = [p for p in range(self.count) if p != self.index]
        self.peers.exchange(
            [(p, value) for p in others if value],
            [(p, found[p]) for p in others if found[p]],
        )
        found[self.index][:] = value
        return [bytes(one) for one in found]

    def broadcast(self, value: np.ndarray[Any, Any], root: int) -> np.ndarray[Any, Any]:
        """Give all processes the array of one; shapes and dtypes are the same."""
        own = np.array(value, order="C", copy=True)
        data = own.reshape(-1).view(np.uint8)
        if self.peers is None:
            return own
        if self.index == root:
            others = [p for p in range(self.count) if p != root]
            self.peers.exchange([(p, data) for p in others], [])
        else:
            self.peers.exchange([], [(root, data)])
        return own


_lock = Lock()
_joined: Processes | None = None


def was_launched(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether an MPI launcher has started this process; MPI alone knows the
    rest."""
    return any(name in environment for name in _LAUNCHERS)


def join() -> Processes:
    """Return the processes; the first call joins those that the launcher started."""
    global _joined
    with _lock:
        if _joined is None:
            _joined = Processes()
        return _joined


def share_devices() -> Processes:
    """Have programs of the devices run in all processes from now on."""
    joined = join()
    joined.shares_devices = joined.peers is not None
    return joined


def shared() -> Processes | None:
    """Return the processes that share the devices, or None."""
    return _joined if _joined is not None and _joined.shares_devices else None


def joined() -> Processes | None:
    """Return the processes, or None where this one has not joined any."""
    return _joined
