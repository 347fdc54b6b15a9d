# SPDX-License-Identifier: MIT
"""The simulated devices of this process: which there are, and how they are attached.

A device is what ``/device:IPU:n`` names: one IPU or several. ``ipu.config`` describes
them in a :class:`Layout`; without one, the first use makes a single device of one
IPU. A device object stays usable after a reset for whoever still holds it, so that
its variables can be read.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ipu._config.enums import (
    DeviceConnectionType,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from ipu._config.flags import flags, max_ipus
from ipu._config.target import Target, target_of
from ipu._device import processes as _processes, seed as _seed, strategy_state
from ipu._device.ids import (
    allot,
    group_id,
    named_groups,
    parse_device_name,
    physical_ids,
)
from ipu._device.locks import Condition, Lock
from ipu._text.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
)
from ipu._text.log import logger

if TYPE_CHECKING:
    from ipu import _core
    from ipu._core import AccountRequest

__all__ = [
    "Device",
    "Layout",
    "configure",
    "current_layout",
    "device_sizes",
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


@dataclass(frozen=True)
class Layout:
    """The devices that are asked for; made by ``ipu.config`` out of an ``IPUConfig``.

    Attributes:
        counts: Number of IPUs of each device; used where ``ids`` is empty.
        ids: The hardware id of each device.
        order: How device numbers map to IPUs inside a device.
        connection: When devices are attached.
        options: All options in effect, the result of ``IPUConfig.to_dict``, or an
            empty dict for the device that is made without a configuration.
        overflow: The result of float16 overflow: "infinity", "nan" or "clip".
        generation: 1 where the first release's ``create_ipu_config`` made it, whose
            programs expect data sets to be iterated on the host; else 2.
        profiling: What reports that release's options ask for, or None.
    """

    counts: tuple[int, ...] = (1,)
    ids: tuple[int, ...] = ()
    order: SelectionOrder = SelectionOrder.AUTO
    connection: DeviceConnectionType = DeviceConnectionType.ALWAYS
    options: Any = None
    overflow: str = "infinity"
    generation: int = field(default=2, compare=False)
    profiling: Any = None


class Device:
    """One simulated device.

    Attributes:
        ordinal: The n of ``/device:IPU:n``.
        name: ``/device:IPU:n``.
        full_name: The same with job, replica and task, as variables tell it.
        num_ipus: How many IPUs it has.
        hardware_ids: The single IPU that serves each device number.
        connection: When it is attached.
        only_compiles: Whether programs are compiled for it and never run (PRE_COMPILE).
        options: All options in effect, or None without a configuration.
        profiling: What the layout says of reports.
        is_retired: Whether it has been replaced or reset: what it has moves to the
            device that has its number then.
    """

    def __init__(self, ordinal: int, members: list[int], layout: Layout) -> None:
        order = physical_ids(layout.order, len(members))
        self.ordinal = ordinal
        self.name = f"/device:IPU:{ordinal}"
        self.full_name = f"/job:localhost/replica:0/task:0{self.name}"
        self.num_ipus = len(members)
        self.hardware_ids = tuple(members[position] for position in order)
        self.connection = layout.connection
        self.only_compiles = self.connection is DeviceConnectionType.PRE_COMPILE
        self.options = layout.options
        self.profiling = layout.profiling
        self._overflow = layout.overflow
        self._target: tuple[Target, AccountRequest | None] | None = None
        self._target_of: tuple[str | None, ...] = ()  # what the environment said
        self._group = group_id(members, max_ipus())
        self._attached = False
        self._has_joined = False  # the other processes
        self._core: _core.Device | None = None
        self.is_retired = False
        # one token for each run, and for whoever has several, with its thread
        self._runs: dict[object, int] = {}
        self._holds: dict[object, int] = {}
        _runs.devices.add(self)

    @property
    def core(self) -> _core.Device:
        """The core's side of the device, with its variables; made when first asked."""
        with _runs.changed:
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
                    bucket_bytes=options.get(
                        "optimizations.maximum_cross_replica_sum_buffer_size", 0
                    ),
                )
                self._core.seed(_seed.current()[0])
            if not self._has_joined and (shared := _processes.shared()) is not None:
                assert shared.peers is not None
                self._core.join(shared.peers)
                self._has_joined = True
            return self._core

    @property
    def attached(self) -> bool:
        """Whether the device has been attached."""
        return self._attached

    @property
    def written_to(self) -> str:
        """The folder that programs are written to, or ""."""
        given = (self.options or {}).get("serialization_output_folder", "")
        return str(given or flags().executable_cache_path)

    @property
    def process_count(self) -> int:
        """How many processes run its programs together."""
        shared = _processes.shared()
        return 1 if shared is None else shared.count

    def replication_factor(self, shards: int = 1) -> int:
        """Return how many replicas of a program fill the device.

        Args:
            shards: How many IPUs the program uses: its largest shard number, or number
                of a pipeline's device, + 1. It counts as the next power of two.

        Example:
            >>> Device(0, [0, 1, 2, 3, 4, 5, 6, 7], Layout()).replication_factor(3)
            2
        """
        from ipu import _core

        return _core.replication_factor(self.num_ipus, shards)

    def attach(self) -> None:
        """Attach the device and log that; nothing where it is attached already."""
        with _runs.changed:
            if self._attached:
                return
            self._attached = True
        one = self.num_ipus == 1
        singles = ", ".join(str(one) for one in self.hardware_ids)
        ids = singles if self._group is None else str(self._group)
        more = "" if one else f" ({self.num_ipus} IPUs, hardware ids: {singles})"
        is_default = self.options is None
        if is_default:
            more += "; no IPU configuration was given: IPUConfig() chooses another"
        # plain Keras and eager programs need not know that there is a device
        is_told = not is_default or strategy_state.has_strategy()
        logger.log(
            logging.INFO if is_told else logging.DEBUG,
            "Device %s attached to IPU%s: %s%s",
            self.name,
            "" if one else "s",
            ids,
            more,
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold the device while a program runs: attaches it, and a reset waits."""
        if self.connection is DeviceConnectionType.NEVER:
            # programs look for these words, which are the port's
            raise InvalidArgumentError(
                f"Cannot run a program on {self.name}, which is configured for "
                "compilation only: device_connection.type is NEVER. Use ALWAYS or "
                "ON_DEMAND to run."
            )
        if not self.only_compiles:
            self.attach()
        with self._noted(self._runs):
            yield

    def held(self) -> AbstractContextManager[None]:
        """Hold the device from one run to the next: a reset waits."""
        return self._noted(self._holds)

    @contextmanager
    def _noted(self, where: dict[object, int]) -> Iterator[None]:
        token = object()
        try:
            with _runs.changed:
                where[token] = threading.get_ident()
            yield
        finally:
            with _runs.changed:
                where.pop(token, None)
                _runs.changed.notify_all()

    @property
    def target(self) -> tuple[Target, AccountRequest | None]:
        """The IPU that it stands for, and the request for accounts of programs that are
        compiled for it; None where nobody wants to know."""
        said = tuple(os.environ.get(name) for name in ("IPU_MACHINE", "IPU_MEMORY"))
        if self._target is None or self._target_of != said:
            self._target_of = said
            target = target_of(self.options)
            is_told = flags().log_cycle_count >= 0
            wanted = is_told or target.memory != "off"
            request = target.request(self.num_ipus, is_told) if wanted else None
            self._target = (target, request)
        return self._target

    def wait_for_runs(self) -> None:
        """Wait for the end of the programs that are running now, not of later ones."""
        with _runs.changed:
            now = set(self._runs)
            _runs.changed.wait_for(lambda: not (now & self._runs.keys()))

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
        self.lock = Lock()
        self.now: _Configured | None = None
        self.is_given = False


_registry = _Registry()


class _Runs:
    """Guards what devices know of the programs that run, and tells of changes."""

    def __init__(self) -> None:
        self.changed = Condition(self._forget_others)
        self.devices: weakref.WeakSet[Device] = weakref.WeakSet()

    def _forget_others(self) -> None:
        """Forget other threads in a forked child, where none runs a program."""
        own = threading.get_ident()
        for device in self.devices:
            for tokens in (device._runs, device._holds):
                for token in [one for one, thread in tokens.items() if thread != own]:
                    del tokens[token]


_runs = _Runs()


def _build(layout: Layout) -> _Configured:
    flags()
    total = max_ipus()
    members = (
        named_groups(layout.ids, total) if layout.ids else allot(layout.counts, total)
    )
    devices = tuple(Device(n, ids, layout) for n, ids in enumerate(members))
    return _Configured(layout, devices)


def _install(configured: _Configured) -> None:
    _registry.now = configured
    for device in configured.devices:
        if device.connection is DeviceConnectionType.ALWAYS:
            device.attach()


def device_sizes(config: Any) -> list[int]:
    """Return how many IPUs each device of a configuration has.

    Example:
        >>> from ipu.config import IPUConfig
        >>> config = IPUConfig()
        >>> config.auto_select_ipus = [1, 4]
        >>> device_sizes(config)
        [1, 4]
    """
    ids, counts = config.select_ipus, config.auto_select_ipus
    if ids not in (None, (), []):
        ids = [ids] if isinstance(ids, int) else ids
        return [len(one) for one in named_groups(ids, max_ipus())]
    counts = [counts] if isinstance(counts, int) else counts
    return list(counts) or [1]


def configure(layout: Layout, reset_configuration: bool = True) -> None:
    """Make the devices of a layout, in place of those that there are.

    Args:
        layout: The devices that are wanted. The same layout as now changes nothing.
        reset_configuration: Whether a different one replaces the present one.
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
                logging.WARNING if _registry.is_given else logging.DEBUG,
                "The IPU devices have been configured already; that configuration is "
                "reset and replaced by the new one.",
            )
            reset()
            for before, device in zip(now.devices, made.devices, strict=False):
                if before._core is not None:  # its random numbers go on
                    device.core.set_random(*before._core.random)
        _install(made)
        _registry.is_given = True


def reset() -> None:
    """Wait until the devices are idle, then let them go; nothing without any."""
    with _registry.lock:
        now = _registry.now
        if now is None:
            return
        _retire(now.devices)
        _registry.now = None


def _retire(devices: tuple[Device, ...]) -> None:
    """Wait until no program runs, and have later ones find that these are replaced."""
    thread = threading.get_ident()
    with _runs.changed:
        for device in devices:
            if thread in (*device._runs.values(), *device._holds.values()):
                raise FailedPreconditionError(
                    f"{device.name} cannot be reset from inside a program that runs on "
                    "it, nor from a callback of fit. Reset after the run has returned."
                )
        _runs.changed.wait_for(lambda: not any(d._runs or d._holds for d in devices))
        for device in devices:
            device.is_retired = True


def await_configuration() -> None:
    """Wait until nobody is about to replace the devices."""
    with _registry.lock:
        pass


def is_configured() -> bool:
    """Return whether there are devices, configured or made on first use."""
    return _registry.now is not None


def current_layout() -> Layout | None:
    """Return the layout in force, or None."""
    now = _registry.now
    return None if now is None else now.layout


def get_device(ordinal: int = 0) -> Device:
    """Return the device of that number; without a configuration one of one IPU is made.

    Returns:
        The device. The same object until the configuration changes.
    """
    now = _registry.now
    if now is None:
        with _registry.lock:
            now = _registry.now
            if now is None:
                now = _build(Layout())
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
