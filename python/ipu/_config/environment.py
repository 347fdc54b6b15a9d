# SPDX-License-Identifier: MIT
"""Environment variables that are not what they can be: a warning when ipu is imported.

``IPU_NUM_IPUS`` and ``TF_POPLAR_FLAGS`` are errors where a device is made first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ipu import _core
from ipu._text.suggestions import hint, nearest_name
from ipu._text.user_warnings import warn_user

_CLASSES = ("generic", "avx2", "avx512")
_SWITCH = ("on", "off", "1", "0", "true", "false")
_KNOWN = (
    "IPU_CPU_CLASS",
    "IPU_DEBUG",
    "IPU_MACHINE",
    "IPU_MEMORY",
    "IPU_NUM_IPUS",
    "IPU_NUM_THREADS",
    "IPU_PIN_THREADS",
    "IPU_SANITIZE",
    "IPU_TRACEBACK_FILTERING",
    "TF_POPLAR_FLAGS",
)


def warn_of_mistakes(environment: Mapping[str, str] = os.environ) -> None:
    """Warn of names and values that have no effect.

    Example:
        >>> warn_of_mistakes({"IPU_CPU_CLASS": "generic"})
    """
    wanted = environment.get("IPU_CPU_CLASS")
    if wanted is not None and wanted not in _CLASSES:
        warn_user(
            f"IPU_CPU_CLASS={wanted} names no class of processors, and has no effect: "
            f"it is one of {', '.join(_CLASSES)}.{hint(wanted, _CLASSES)}",
            RuntimeWarning,
        )
    elif wanted is not None and wanted != _core.cpu_class():
        warn_user(
            f"IPU_CPU_CLASS={wanted} is more than this processor has: its class is "
            f"{_core.cpu_class()}.",
            RuntimeWarning,
        )
    threads = environment.get("IPU_NUM_THREADS")
    if threads is not None and not (threads.strip().isdigit() and int(threads) > 0):
        warn_user(
            f"IPU_NUM_THREADS={threads} is not a number of threads: it must be a "
            f"positive integer. {_core.num_threads()} are used.",
            RuntimeWarning,
        )
    for name in ("IPU_PIN_THREADS", "IPU_TRACEBACK_FILTERING"):
        given = environment.get(name)
        if given and given.lower() not in _SWITCH:
            warn_user(f"{name}={given} has no effect: it is on or off.", RuntimeWarning)
    for name in environment:
        if name.startswith(("IPU_", "TF_POPLAR")) and name not in _KNOWN:
            meant = nearest_name(name, _KNOWN, 0.85)
            if meant is not None:
                warn_user(
                    f"The environment variable {name} has no effect. Did you mean "
                    f"{meant}?",
                    RuntimeWarning,
                )
