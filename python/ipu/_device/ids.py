# SPDX-License-Identifier: MIT
"""Names of devices, and which IPUs of the machine they have.

Hardware ids are those of a machine with IPU_NUM_IPUS IPUs. Single IPUs come first
(0, 1, ...), then all aligned pairs, then groups of four, and so on: with 16 IPUs the
ids 16 to 23 are pairs, 24 is the group of the IPUs 0 to 3, and 30 is all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ipu._config.enums import SelectionOrder
from ipu._text.errors import FailedPreconditionError

_NAME = re.compile(
    r"(?:/job:[^/]+)?(?:/replica:\d+)?(?:/task:\d+)?/?(?:device:)?"
    r"(?P<kind>cpu|ipu)(?::(?P<ordinal>\d+))?",
    re.IGNORECASE,
)


def parse_device_name(name: str) -> tuple[str, int]:
    """Split the name of a device into its kind and number.

    Args:
        name: Such as "/device:IPU:0", "/ipu:1", "cpu" or the full form with job,
            replica and task. Without a number it is number 0.

    Example:
        >>> parse_device_name("/device:IPU:1")
        ('IPU', 1)
    """
    if not isinstance(name, str):
        raise TypeError(
            "The name of a device must be a string such as '/device:IPU:0'. "
            f"Received: {name!r}."
        )
    match = _NAME.fullmatch(name.strip())
    if match is None:
        raise ValueError(
            f"Cannot parse the device name {name!r}. Use '/device:IPU:0' or "
            "'/device:CPU:0'."
        )
    return match["kind"].upper(), int(match["ordinal"] or 0)


def physical_ids(order: SelectionOrder, n: int) -> list[int]:
    """Return which position inside a device each device number has.

    Args:
        order: The selection order; AUTO counts up.
        n: How many IPUs the device has, at least 1.

    Returns:
        n positions, a permutation of 0 to n - 1: entry i belongs to the shard or
        pipeline device number i.

    Example:
        >>> physical_ids(SelectionOrder.SNAKE, 8)
        [0, 1, 3, 2, 4, 5, 7, 6]
        >>> physical_ids(SelectionOrder.HOOF, 8)
        [0, 2, 4, 6, 7, 5, 3, 1]
    """
    if n < 1:
        raise ValueError(f"n must be positive. Received: {n}.")
    positions = list(range(n))
    if order is SelectionOrder.SNAKE:
        for block in range(0, n - 3, 4):
            positions[block + 2], positions[block + 3] = block + 3, block + 2
    elif order is SelectionOrder.HOOF:
        positions = positions[::2] + positions[1::2][::-1]
    return positions


def _group_members(hardware_id: int, total: int) -> list[int]:
    """Return the single IPUs of a hardware id; empty where there is no such id."""
    size, first = 1, 0
    while size <= total:
        groups = total // size
        if first <= hardware_id < first + groups:
            start = (hardware_id - first) * size
            return list(range(start, start + size))
        first += groups
        size *= 2
    return []


def group_id(members: Sequence[int], total: int) -> int | None:
    """Return the hardware id of exactly these single IPUs, or None."""
    size, first = 1, 0
    while size < len(members):
        first += total // size
        size *= 2
    start = min(members)
    aligned = size == len(members) and start % size == 0
    if not aligned or sorted(members) != list(range(start, start + size)):
        return None
    return first + start // size


def _too_many(wanted: Any, total: int) -> FailedPreconditionError:
    return FailedPreconditionError(
        f"Unsupported number of IPUs requested: {wanted}, but there are {total}. Ask "
        "for at least 1 and at most that many in all, or set IPU_NUM_IPUS."
    )


def allot(counts: Sequence[int], total: int) -> list[list[int]]:
    """Give each device free IPUs: an aligned block where there is one."""
    if any(count < 1 for count in counts) or sum(counts) > total:
        raise _too_many(list(counts), total)
    free = set(range(total))
    given = []
    for count in counts:
        step = count if count & (count - 1) == 0 else 1
        blocks = (
            list(range(start, start + count))
            for start in range(0, total - count + 1, step)
        )
        block = next((one for one in blocks if free.issuperset(one)), None)
        members = block or sorted(free)[:count]
        free.difference_update(members)
        given.append(members)
    return given


def named_groups(ids: Sequence[int], total: int) -> list[list[int]]:
    """Return the single IPUs of each selected hardware id."""
    taken: set[int] = set()
    given = []
    for hardware_id in ids:
        members = _group_members(hardware_id, total) if hardware_id >= 0 else []
        if not members:
            raise FailedPreconditionError(
                f"There is no IPU device with the hardware id {hardware_id} on a "
                f"machine of {total} IPUs. Single IPUs have the ids 0 to {total - 1}; "
                "set IPU_NUM_IPUS for a larger machine."
            )
        twice = taken.intersection(members)
        if twice:
            raise FailedPreconditionError(
                f"select_ipus names IPU {min(twice)} in two devices: hardware id "
                f"{hardware_id} stands for the IPUs {members}. Select each IPU once."
            )
        taken.update(members)
        given.append(members)
    return given
