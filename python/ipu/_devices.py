# SPDX-License-Identifier: MIT
"""The simulated devices of this process: which there are, and how they are attached.

A device is what ``/device:IPU:n`` names: one IPU or several. ``ipu.config`` describes
them in a :class:`Layout`; without one, the first use makes a single device of one
IPU. A device object stays usable after a reset for whoever still holds it, so that
its variables can be read.

Hardware ids are those of a machine with IPU_NUM_IPUS IPUs. Single IPUs come first
(0, 1, ...), then all aligned pairs, then groups of four, and so on: with 16 IPUs the
ids 16 to 23 are pairs, 24 is the group of the IPUs 0 to 3, and 30 is all of them.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ipu import _seed
from ipu._config_enums import (
    DeviceConnectionType,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from ipu._errors import (
    FailedPreconditionError,
    InternalError,
    UnimplementedError,
)
from ipu._flags import flags, max_ipus
from ipu._log import logger

if TYPE_CHECKING:
    from ipu import _core

__all__ = [
    "Device",
    "Layout",
    "configure",
    "current_layout",
    "get_device",
    "is_configured",
    "parse_device_name",
    "physical_ids",
    "reset",
]

_ROUNDINGS = {
    StochasticRoundingBehaviour.OFF.value: "nearest",
    StochasticRoundingBehaviour.ON.value: "stochastic",
    StochasticRoundingBehaviour.REPLICA_IDENTICAL_ONLY.value: "replica_identical",
}
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

    Returns:
        ("IPU" or "CPU", ordinal).

    Raises:
        TypeError: ``name`` is not a string.
        ValueError: It does not name a CPU or an IPU.

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
    """Which position inside a device each device number has.

    Args:
        order: The selection order; AUTO counts up.
        n: How many IPUs the device has, at least 1.

    Returns:
        n positions, a permutation of 0 to n - 1: entry i belongs to the shard or
        pipeline device number i.

    Raises:
        ValueError: ``n`` is not positive.

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
    """The single IPUs behind a hardware id; empty where there is no such id."""
    size, first = 1, 0
    while size <= total:
        groups = total // size
        if first <= hardware_id < first + groups:
            start = (hardware_id - first) * size
            return list(range(start, start + size))
        first += groups
        size *= 2
    return []


def _group_id(members: Sequence[int], total: int) -> int | None:
    """The hardware id of exactly these single IPUs, or None."""
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


def _allot(counts: Sequence[int], total: int) -> list[list[int]]:
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


def _named(ids: Sequence[int], total: int) -> list[list[int]]:
    """The single IPUs of each selected hardware id."""
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


@dataclass(frozen=True)
class Layout:
    """What devices there shall be; made by ``ipu.config`` out of an ``IPUConfig``.

    Attributes:
        counts: Number of IPUs of each device; used where ``ids`` is empty.
        ids: The hardware id of each device.
        order: How device numbers map to IPUs inside a device.
        connection: When devices are attached.
        options: All options in effect, the result of ``IPUConfig.to_dict``, or an
            empty dict for the device that is made without a configuration.
        overflow: What float16 overflow gives: "infinity", "nan" or "clip".
        generation: 1 where the first release's ``create_ipu_config`` made it, whose
            programs expect data sets to be iterated on the host; else 2.
    """

    counts: tuple[int, ...] = (1,)
    ids: tuple[int, ...] = ()
    order: SelectionOrder = SelectionOrder.AUTO
    connection: DeviceConnectionType = DeviceConnectionType.ALWAYS
    options: Any = None
    overflow: str = "infinity"
    generation: int = field(default=2, compare=False)


class Device:
    """One simulated device.

    Attributes:
        ordinal: The n of ``/device:IPU:n``.
        name: ``/device:IPU:n``.
        full_name: The same with job, replica and task, as variables tell it.
        num_ipus: How many IPUs it has.
        hardware_ids: The single IPU that serves each device number.
        connection: When it is attached.
        options: All options in effect, or None without a configuration.
    """

    def __init__(self, ordinal: int, members: list[int], layout: Layout) -> None:
        order = physical_ids(layout.order, len(members))
        self.ordinal = ordinal
        self.name = f"/device:IPU:{ordinal}"
        self.full_name = f"/job:localhost/replica:0/task:0{self.name}"
        self.num_ipus = len(members)
        self.hardware_ids = tuple(members[position] for position in order)
        self.connection = layout.connection
        self.options = layout.options
        self._overflow = layout.overflow
        self._group = _group_id(members, max_ipus())
        self._attached = False
        self._core: _core.Device | None = None
        self._idle = threading.Condition()
        self._runners: list[int] = []
        self._runs: set[object] = set()  # one token for each program that runs

    @property
    def core(self) -> _core.Device:
        """The core's side of the device, with its variables; made when first asked."""
        with self._idle:
            if self._core is None:
                from ipu import _core

                options = self.options or {}
                behaviour = "floating_point_behaviour."
                self._core = _core.Device(
                    ipus=self.num_ipus,
                    portable=options.get("matmuls.same_bits_on_every_cpu", False),
                    rounding=_ROUNDINGS[options.get(behaviour + "esr", 0)],
                    overflow=self._overflow,
                    inv=options.get(behaviour + "inv", False),
                    div0=options.get(behaviour + "div0", False),
                    oflo=options.get(behaviour + "oflo", False),
                )
                self._core.seed(_seed.current()[0])
            return self._core

    @property
    def attached(self) -> bool:
        """Whether the device has been attached."""
        return self._attached

    def replication_factor(self, shards: int = 1) -> int:
        """How many replicas of a program fill the device.

        Args:
            shards: How many IPUs the program uses: its largest shard number, or number
                of a pipeline's device, + 1. It counts as the next power of two.

        Raises:
            FailedPreconditionError: The device has fewer IPUs than that.
            InternalError: It does not divide the number of IPUs.

        Example:
            >>> Device(0, [0, 1, 2, 3, 4, 5, 6, 7], Layout()).replication_factor(3)
            2
        """
        from ipu import _core

        return _core.replication_factor(self.num_ipus, shards)

    def attach(self) -> None:
        """Attach the device and log that; nothing where it is attached already."""
        with self._idle:
            if self._attached:
                return
            self._attached = True
        one = self.num_ipus == 1
        singles = ", ".join(str(one) for one in self.hardware_ids)
        ids = singles if self._group is None else str(self._group)
        more = "" if one else f" ({self.num_ipus} IPUs, hardware ids: {singles})"
        logger.info(
            "Device %s attached to IPU%s: %s%s",
            self.name,
            "" if one else "s",
            ids,
            more,
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold the device while a program runs: attaches it, and a reset waits.

        Raises:
            FailedPreconditionError: The connection type is NEVER.
            UnimplementedError: The connection type is PRE_COMPILE.
        """
        if self.connection is DeviceConnectionType.NEVER:
            raise FailedPreconditionError(
                f"Cannot run a program on {self.name}: device_connection.type is "
                "NEVER, which compiles only. Use ALWAYS or ON_DEMAND to run."
            )
        if self.connection is DeviceConnectionType.PRE_COMPILE:
            raise UnimplementedError(
                f"Cannot run a program on {self.name}: device_connection.type "
                "PRE_COMPILE is not there yet. Use ALWAYS or ON_DEMAND to run."
            )
        self.attach()
        thread = threading.get_ident()
        run = object()
        with self._idle:
            self._runners.append(thread)
            self._runs.add(run)
        try:
            yield
        finally:
            with self._idle:
                self._runners.remove(thread)
                self._runs.discard(run)
                self._idle.notify_all()

    def wait_for_runs(self) -> None:
        """Wait for the end of the programs that are running now, not of later ones."""
        with self._idle:
            now = set(self._runs)
            self._idle.wait_for(lambda: not (now & self._runs))

    def _wait_until_idle(self) -> None:
        with self._idle:
            if threading.get_ident() in self._runners:
                raise FailedPreconditionError(
                    f"{self.name} cannot be reset from inside a program that runs on "
                    "it. Reset after the run has returned."
                )
            self._idle.wait_for(lambda: not self._runners)

    def __repr__(self) -> str:
        ids = list(self.hardware_ids)
        return f"Device({self.name!r}, num_ipus={self.num_ipus}, hardware_ids={ids})"


@dataclass(frozen=True)
class _Configured:
    layout: Layout
    devices: tuple[Device, ...]


class _Registry:
    """The configuration in force; whether a program gave it. `lock` protects both."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.now: _Configured | None = None
        self.is_given = False


_registry = _Registry()


def _renew_locks_after_fork() -> None:
    """A lock that another thread held at the fork would never be freed again."""
    _registry.lock = threading.RLock()
    now = _registry.now
    for device in now.devices if now else ():
        device._idle = threading.Condition()
        device._runners.clear()
        device._runs.clear()


os.register_at_fork(after_in_child=_renew_locks_after_fork)


def _build(layout: Layout) -> _Configured:
    flags()
    total = max_ipus()
    members = _named(layout.ids, total) if layout.ids else _allot(layout.counts, total)
    devices = tuple(Device(n, ids, layout) for n, ids in enumerate(members))
    return _Configured(layout, devices)


def _install(configured: _Configured) -> None:
    _registry.now = configured
    for device in configured.devices:
        if device.connection is DeviceConnectionType.ALWAYS:
            device.attach()


def configure(layout: Layout, reset_configuration: bool = True) -> None:
    """Make the devices of a layout, in place of those that there are.

    Args:
        layout: What is wanted. The same layout as now changes nothing.
        reset_configuration: Whether a different one replaces the present one.

    Raises:
        FailedPreconditionError: There are not that many IPUs, or not those; or a
            different configuration stands and ``reset_configuration`` is False. The
            present configuration is kept then.
    """
    with _registry.lock:
        now = _registry.now
        if now is not None and now.layout == layout:
            return
        if now is not None and not reset_configuration:
            raise FailedPreconditionError(
                "IPU system configuration can only be set once, and a different one "
                "is in force. Call reset_ipu_configuration() first, or pass "
                "reset_configuration=True."
            )
        made = _build(layout)
        if now is not None:
            # nobody is surprised that a device made unasked is replaced
            logger.log(
                logging.WARNING if _registry.is_given else logging.INFO,
                "The IPU devices have been configured already; that configuration is "
                "reset and replaced by the new one.",
            )
            reset()
        _install(made)
        _registry.is_given = True


def reset() -> None:
    """Wait until the devices are idle, then let them go; nothing without any."""
    with _registry.lock:
        now = _registry.now
        if now is None:
            return
        for device in now.devices:
            device._wait_until_idle()
        _registry.now = None


def is_configured() -> bool:
    """Whether there are devices, configured or made on first use."""
    return _registry.now is not None


def current_layout() -> Layout | None:
    """The layout in force, or None."""
    now = _registry.now
    return None if now is None else now.layout


def get_device(ordinal: int = 0) -> Device:
    """The device of that number; without a configuration one of one IPU is made.

    Args:
        ordinal: The n of ``/device:IPU:n``.

    Returns:
        The device. The same object until the configuration changes.

    Raises:
        InternalError: There is no device of that number.
        InvalidArgumentError: TF_POPLAR_FLAGS or IPU_NUM_IPUS cannot be read.
    """
    now = _registry.now
    if now is None:
        with _registry.lock:
            now = _registry.now
            if now is None:
                now = _build(Layout())
                logger.info(
                    "No IPU configuration was given: a device with one IPU is made. "
                    "Call IPUConfig().configure_ipu_system() to choose."
                )
                _install(now)
                _registry.is_given = False
    if not 0 <= ordinal < len(now.devices):
        names = ", ".join(device.name for device in now.devices)
        raise InternalError(
            f"There is no device /device:IPU:{ordinal}. The configured devices are "
            f"{names}. Give auto_select_ipus one entry for each device."
        )
    return now.devices[ordinal]


def seed_all(seed: int) -> None:
    """Set the random seed of every device there is; later ones take the global seed."""
    with _registry.lock:
        now = _registry.now
        for device in now.devices if now is not None else ():
            if device._core is not None:
                device._core.seed(seed)
