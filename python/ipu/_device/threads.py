# SPDX-License-Identifier: MIT
"""How many threads of the host programs use. Results never depend on it."""

from __future__ import annotations

from ipu import _core
from ipu._device import processes


def set_num_threads(threads: int) -> None:
    """Set how many threads programs and large eager ops use.

    The default is the environment variable ``IPU_NUM_THREADS``, else the number of
    cores. The numbers that a program computes are the same for every setting.

    Args:
        threads: From 1 to 256, the calling thread included.

    Raises:
        ValueError: ``threads`` is out of that range.

    Example:
        >>> ipu.set_num_threads(2)
        >>> ipu.num_threads()
        2
    """
    _core.set_num_threads(threads)


def pin_threads(pinned: bool = True, first_core: int | None = None) -> None:
    """Let each thread that computes stay on a core of its own, or no longer.

    That pays on machines of several memory nodes (NUMA): what a thread makes lies on
    its node, and the same rows are its in every step. Python's own threads, such as the
    one that calls programs, stay where the system puts them. The default is the
    environment variable ``IPU_PIN_THREADS=1``, else that no thread stays.

    Args:
        pinned: Whether they stay.
        first_core: The number of the core that is left to the calling thread, among
            those that the process may use; the others have those after it. By default
            0, or where an MPI launcher has started several processes on the machine,
            the one after those of the processes before.

    Raises:
        ValueError: ``first_core`` is less than 0.

    Example:
        >>> ipu.pin_threads()
        >>> ipu.pin_threads(False)
    """
    if first_core is not None and first_core < 0:
        raise ValueError(f"first_core is the number of a core. Received: {first_core}.")
    if first_core is None:
        several = processes.joined()
        first_core = several.first_core if several else 0
    _core.pin_threads(first_core if pinned else -1)


def num_threads() -> int:
    """Return how many threads programs use.

    Example:
        >>> num_threads() >= 1
        True
    """
    return _core.num_threads()
