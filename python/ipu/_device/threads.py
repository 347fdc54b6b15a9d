# SPDX-License-Identifier: MIT
"""How many threads of the host programs use. Results never depend on it."""

from __future__ import annotations

from ipu import _core


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


def num_threads() -> int:
    """Return how many threads programs use.

    Example:
        >>> num_threads() >= 1
        True
    """
    return _core.num_threads()
