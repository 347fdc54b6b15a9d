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
    """Return whether a launcher has started the program as one of several."""
    return _processes.was_launched()


def init() -> None:
    """Join the other processes."""
    _processes.share_devices()


def finalizePopdist() -> None:
    """Do nothing: a process leaves the others when its program ends."""


def getNumInstances() -> int:
    """Return how many processes there are."""
    return _processes.join().count


def getInstanceIndex() -> int:
    """Return the number of this process."""
    return _processes.join().index


def getNumLocalReplicas() -> int:
    """Return how many replicas a process has."""
    instances = getNumInstances()
    total = _told("NUM_TOTAL_REPLICAS", instances)
    if total % instances:
        raise ValueError(
            f"{total} replicas cannot be shared out among {instances} processes. Give "
            f"--replicas a multiple of {instances}."
        )
    return _told("NUM_LOCAL_REPLICAS", total // instances)


def getNumTotalReplicas() -> int:
    """Return how many replicas all processes have."""
    return getNumLocalReplicas() * getNumInstances()


def getReplicaIndexOffset() -> int:
    """Return the number of the first replica of this process."""
    return getNumLocalReplicas() * getInstanceIndex()


def getNumIpusPerReplica() -> int:
    """Return how many IPUs a replica has."""
    return _told("NUM_IPUS_PER_REPLICA", 1)


def checkNumIpusPerReplica(numIpus: int) -> None:
    """Raise ValueError where a replica has another number of IPUs."""
    if numIpus != getNumIpusPerReplica():
        raise ValueError(
            f"The program wants {numIpus} IPUs per replica, and the launcher gave "
            f"{getNumIpusPerReplica()}. Start it with --ipus-per-replica {numIpus}."
        )


def getDeviceId(numIpusPerReplica: int | None = None) -> int:
    """Return the number of the device of this process: each has its own, number 0."""
    return 0
