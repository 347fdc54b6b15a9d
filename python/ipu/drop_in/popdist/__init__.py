# SPDX-License-Identifier: MIT
"""The module ``popdist`` of old programs: instances are processes.

How many replicas each has, and IPUs each of them, is what the launcher said
(``python -m ipu run -n 2 --replicas 4 --ipus-per-replica 2``); else one of one IPU.
"""

from __future__ import annotations

import os

from ipu._device import processes as _processes

__all__ = [
    "checkNumIpusPerReplica",
    "finalizePopdist",
    "getDeviceId",
    "getInstanceIndex",
    "getNumInstances",
    "getNumIpusPerReplica",
    "getNumLocalReplicas",
    "getNumTotalReplicas",
    "getReplicaIndexOffset",
    "init",
    "isPopdistEnvSet",
    "tensorflow",
]


def _told(name: str, default: int) -> int:
    """Return a number that the launcher said."""
    text = os.environ.get(f"POPDIST_{name}", "")
    if text and not (text.isdigit() and int(text)):
        raise ValueError(
            f"POPDIST_{name} must be a positive number. Received: {text!r}."
        )
    return int(text) if text else default


def isPopdistEnvSet() -> bool:
    """Return whether a launcher has started the program as one of several.

    Example:
        >>> isPopdistEnvSet()
        False
    """
    return _processes.was_launched()


def init() -> None:
    """Join the other processes.

    Example:
        >>> init()
        >>> getNumInstances()
        1
    """
    _processes.share_devices()


def finalizePopdist() -> None:
    """Do nothing: a process leaves the others when its program ends.

    Example:
        >>> finalizePopdist()
    """


def getNumInstances() -> int:
    """Return how many processes there are.

    Example:
        >>> getNumInstances()
        1
    """
    return _processes.join().count


def getInstanceIndex() -> int:
    """Return the number of this process.

    Example:
        >>> getInstanceIndex()
        0
    """
    return _processes.join().index


def getNumLocalReplicas() -> int:
    """Return how many replicas a process has.

    Raises:
        ValueError: The launcher named a number of replicas that processes cannot share.

    Example:
        >>> getNumLocalReplicas()
        1
    """
    instances = getNumInstances()
    total = _told("NUM_TOTAL_REPLICAS", instances)
    if total % instances:
        raise ValueError(
            f"{total} replicas cannot be shared out among {instances} processes. Give "
            f"--replicas a multiple of {instances}."
        )
    return _told("NUM_LOCAL_REPLICAS", total // instances)


def getNumTotalReplicas() -> int:
    """Return how many replicas all processes have.

    Example:
        >>> getNumTotalReplicas()
        1
    """
    return getNumLocalReplicas() * getNumInstances()


def getReplicaIndexOffset() -> int:
    """Return the number of the first replica of this process.

    Example:
        >>> getReplicaIndexOffset()
        0
    """
    return getNumLocalReplicas() * getInstanceIndex()


def getNumIpusPerReplica() -> int:
    """Return how many IPUs a replica has.

    Example:
        >>> getNumIpusPerReplica()
        1
    """
    return _told("NUM_IPUS_PER_REPLICA", 1)


def checkNumIpusPerReplica(numIpus: int) -> None:
    """Check how many IPUs a replica has.

    Args:
        numIpus: How many the program wants.

    Raises:
        ValueError: The launcher named another number.

    Example:
        >>> checkNumIpusPerReplica(1)
    """
    if numIpus != getNumIpusPerReplica():
        raise ValueError(
            f"The program wants {numIpus} IPUs per replica, and the launcher gave "
            f"{getNumIpusPerReplica()}. Start it with --ipus-per-replica {numIpus}."
        )


def getDeviceId(numIpusPerReplica: int | None = None) -> int:
    """Return the number of the device of this process: each has its own, number 0.

    Args:
        numIpusPerReplica: Accepted and not used.

    Example:
        >>> getDeviceId()
        0
    """
    return 0
