# SPDX-License-Identifier: MIT
"""``ipu.config``: what devices there are and how programs are compiled for them.

Example:
    >>> from ipu import config
    >>> cfg = config.IPUConfig()
    >>> cfg.auto_select_ipus = 1
    >>> cfg.configure_ipu_system()
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from ipu._config import enums, tree
from ipu._config.enums import (
    DeviceConnectionType as DeviceConnectionType,
    ExecutionProfileType as ExecutionProfileType,
    MergeRemoteBuffersBehaviour as MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm as SchedulingAlgorithm,
    SelectionOrder as SelectionOrder,
    StochasticRoundingBehaviour as StochasticRoundingBehaviour,
)
from ipu._config.flags import running_on_ipu_model
from ipu._config.options import (
    AttributeMetadata as AttributeMetadata,
    Category,
    Group,
    Option,
)
from ipu._config.poplar_options import check_poplar_options
from ipu._config.report_requests import (
    ENGINE_OPTIONS,
    KNOWN,
    options_of_environment,
)
from ipu._device import devices, processes
from ipu._text.exports import defined, export
from ipu._text.log import logger

_VERSIONS = ("ipu1", "ipu2", "ipu21")
_Selection = int | list[int] | tuple[int, ...]


class IPUConfig(Category):
    """A configuration of the IPU system: a tree of typed options.

    Options are set by assigning to attributes and take effect with
    ``configure_ipu_system``. A value must have exactly the type of its option, so
    that ``True`` is not a number. ``str(config)`` lists all options with their values.

    Raises:
        ValueError: Reading or setting a name that is not there; the message names
            the nearest one.
        TypeError: Setting a value of another type.
        Exception: Setting a category.

    Example:
        >>> config = IPUConfig()
        >>> config.auto_select_ipus = [1, 2]
        >>> config.ipu_model.version = "ipu21"
        >>> config
        IPUConfig(auto_select_ipus=[1, 2], ipu_model.version='ipu21')
    """

    allow_recompute = Option(
        False, "Recompute activations in training instead of keeping them."
    )
    selection_order = Option(
        SelectionOrder.AUTO,
        "Which IPU of a device serves which shard or pipeline device number.",
    )
    serialization_output_folder = Option(
        "", "Where not empty, compiled programs are written to this folder."
    )
    compilation_poplar_options = Option[dict[str, Any]](
        {}, "String options of the compiler and the engine."
    )
    gcl_poplar_options = Option[dict[str, Any]](
        {}, "String options of collectives. Hardware only."
    )
    auto_select_ipus = Option[_Selection](
        [],
        "How many IPUs each device has: a number for one device, a sequence for one "
        "device an entry. Empty, with select_ipus empty too, is one device of one IPU.",
        _Selection,
    )
    select_ipus = Option[_Selection](
        [],
        "The hardware id of each device, of single IPUs or groups.",
        _Selection,
    )
    convolutions = Group(tree.Convolutions)
    device_connection = Group(tree.DeviceConnection)
    slices = Group(tree.Slices)
    experimental = Group(tree.Experimental)
    floating_point_behaviour = Group(tree.FloatingPointBehaviour)
    io_tiles = Group(tree.IOTiles)
    ipu_model = Group(tree.IPUModel)
    matmuls = Group(tree.Matmuls)
    norms = Group(tree.Norms)
    optimizations = Group(tree.Optimizations)
    pooling = Group(tree.Pooling)
    scheduling = Group(tree.Scheduling)

    def __init__(self) -> None:
        super().__init__()

    def configure_ipu_system(self, device: str = "cpu") -> None:
        """Make the devices of this configuration; see :func:`configure_ipu_system`.

        Args:
            device: The CPU device that holds the configuration, "cpu".

        Example:
            >>> config = IPUConfig()
            >>> config.auto_select_ipus = 1
            >>> config.configure_ipu_system()
        """
        configure_ipu_system(self, device)

    def to_dict(self) -> dict[str, Any]:
        """Return all options, by full dotted name; enums as their numbers.

        Example:
            >>> IPUConfig().to_dict()["scheduling.algorithm"]
            0
        """
        return {
            name: value.value if isinstance(value, Enum) else copy.deepcopy(value)
            for name, _, value in self._items()
        }

    @classmethod
    def from_dict(cls, dct: Mapping[str, Any]) -> IPUConfig:
        """Return a configuration out of what ``to_dict`` gave.

        Args:
            dct: Values by full dotted name. A missing name keeps its default, with a
                warning in the log.

        Raises:
            ValueError: A name is unknown, or a number is not a value of an enum.
            TypeError: A value has the wrong type.

        Example:
            >>> config = IPUConfig.from_dict(IPUConfig().to_dict())
        """
        made = cls()
        options = dict(cls._walk())
        for name in dct:
            if name not in options:
                raise made._unknown(name)
        for name, option in options.items():
            if name not in dct:
                if option.alias is None:
                    logger.warning(
                        "The option %s is missing in the dictionary; its default %s "
                        "is kept.",
                        name,
                        option.default,
                    )
                continue
            parent = name.rpartition(".")[0]
            target = f"{parent}.{option.alias}" if parent else option.alias
            value = option.decoded(dct[name])
            is_default = type(value) is type(option.default) and value == option.default
            if not is_default and (option.alias is None or target not in dct):
                made._set(name, copy.deepcopy(value))
        return made

    def to_json(self) -> str:
        """Return all options as the text of a JSON object; the inverse is
        ``from_json``."""
        import json

        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, json_cfg: str) -> IPUConfig:
        """Return a configuration out of what ``to_json`` gave; errors as
        ``from_dict``."""
        import json

        return cls.from_dict(json.loads(json_cfg))


def _is_set(selection: _Selection) -> bool:
    # 0 counts: it is a hardware id, and as a number of IPUs it deserves an error.
    return isinstance(selection, int) or len(selection) > 0


def _check_version(name: str, version: str) -> None:
    if version and version not in _VERSIONS:
        raise ValueError(
            f"{name} must be one of {', '.join(_VERSIONS)}. Received: {version!r}."
        )


def _check_selection(config: IPUConfig) -> None:
    if _is_set(config.auto_select_ipus) and _is_set(config.select_ipus):
        raise Exception(
            "Only one of `auto_select_ipus` and `select_ipus` can be set. Received: "
            f"{config.auto_select_ipus!r} and {config.select_ipus!r}. Set one of them "
            "to []."
        )
    ids = config.select_ipus
    if not isinstance(ids, int) and len(set(ids)) != len(ids):
        raise ValueError(
            f"All hardware ids in select_ipus must be unique. Received: {ids!r}."
        )
    if _is_set(ids) and running_on_ipu_model():
        raise Exception(
            "When using the IPUModel, the devices to attach to cannot be specified "
            f"explicitly. Received: select_ipus = {ids!r}. Use auto_select_ipus."
        )


def _check_connection(config: IPUConfig) -> None:
    connection = config.device_connection
    _check_version("device_connection.version", connection.version)
    _check_version("ipu_model.version", config.ipu_model.version)
    unattached = (DeviceConnectionType.NEVER, DeviceConnectionType.PRE_COMPILE)
    if connection.type in unattached and not connection.version:
        raise ValueError(
            "device_connection.version must be set when device_connection.type is "
            f"{connection.type.name}. Set it to one of {', '.join(_VERSIONS)}."
        )
    if running_on_ipu_model() and not config.ipu_model.version:
        raise ValueError(
            "ipu_model.version must be set when using the IPUModel. Set it to one of "
            f"{', '.join(_VERSIONS)}."
        )


def _check_distribution(config: IPUConfig) -> None:
    distribution = config.experimental.multi_replica_distribution
    count, index = distribution.process_count, distribution.process_index
    if count > 0 and running_on_ipu_model():
        raise Exception(
            "Multi-replica distribution is not supported on the IPU model. Received: "
            f"process_count = {count}. Set it to 0."
        )
    if count < 0:
        raise ValueError(f"process_count must not be negative. Received: {count}.")
    if (count or index) and not 0 <= index < count:
        raise ValueError(
            "experimental.multi_replica_distribution.process_index must be in the "
            "range [0, process_count). Received: "
            f"process_index = {index}, process_count = {count}."
        )
    if count > 1:
        joined = processes.share_devices()
        if (joined.count, joined.index) != (count, index):
            raise ValueError(
                "experimental.multi_replica_distribution must say what the launcher "
                f"did. Received: process_count = {count}, process_index = {index}, but "
                f"this is process {joined.index} of {joined.count}. Start the program "
                f"with python -m ipu run -n {count}, and take process_count and "
                "process_index from ipu.distributed."
            )


def _check_tiles(config: IPUConfig) -> None:
    io_tiles = config.io_tiles
    if io_tiles.num_io_tiles < 0:
        raise ValueError(
            f"num_io_tiles must not be negative. Received: {io_tiles.num_io_tiles}."
        )
    if io_tiles.place_ops_on_io_tiles and io_tiles.num_io_tiles == 0:
        raise ValueError(
            "Cannot place ops on I/O tiles when io_tiles.num_io_tiles is 0. Set "
            "num_io_tiles to a positive number, or place_ops_on_io_tiles to False."
        )
    name = "norms.experimental.distributed_batch_norm_replica_group_size"
    size = config.norms.experimental.distributed_batch_norm_replica_group_size
    if size < 1:
        raise ValueError(f"{name} must be at least 1. Received: {size}.")
    if size > 1 and io_tiles.num_io_tiles > 0:
        raise ValueError(
            f"{name} > 1 is not supported with I/O tiles. Received: {size} with "
            f"num_io_tiles = {io_tiles.num_io_tiles}. Set one of them to its default."
        )


def _check_buckets(config: IPUConfig) -> None:
    size = config.optimizations.maximum_cross_replica_sum_buffer_size
    if not 0 <= size <= sys.maxsize:
        raise ValueError(
            "optimizations.maximum_cross_replica_sum_buffer_size must be a number of "
            f"bytes, or 0 for 4 MiB. Received: {size}."
        )


def _in_effect(config: IPUConfig) -> dict[str, Any]:
    """Return the options with what follows from ``set_all`` written out."""
    options = config.to_dict()
    category = "floating_point_behaviour."
    if options[category + "set_all"]:
        for name in ("inv", "div0", "oflo", "nanoo"):
            options[category + name] = True
        options[category + "esr"] = StochasticRoundingBehaviour.ON.value
    for name in ("auto_select_ipus", "select_ipus"):
        options[name] = list(options[name])
    return options


def _overflow(config: IPUConfig) -> str:
    """Return what float16 overflow gives.

    Infinity, as IEEE 754 has it, where the program says nothing: dynamic loss scaling
    looks for infinities.
    """
    behaviour = config.floating_point_behaviour
    if behaviour.set_all or behaviour.nanoo:
        return "nan"
    return "clip" if behaviour._is_assigned("nanoo") else "infinity"


def _checked(config: Any) -> IPUConfig:
    """Return ``config``, or the ``IPUConfig`` in the first generation's options
    object."""
    from ipu._config.legacy import IpuOptions

    if isinstance(config, IpuOptions):
        return config.config
    if not isinstance(config, IPUConfig):
        raise TypeError(
            "configure_ipu_system() expects `config` to be an IPUConfig. Received: "
            f"{config!r} of type {type(config).__name__}."
        )
    return config


def configure_ipu_system(
    config: Any, device: str = "cpu", reset_configuration: bool = True
) -> None:
    """Make the devices that a configuration describes.

    It may be called any number of times. With the options that are in force already
    nothing happens; with others the present devices are removed first, and the log
    says so. Variables that live on them stay readable. For each attached device the
    logger "ipu" writes a line.

    Args:
        config: An ``IPUConfig``, or the options that ``utils.create_ipu_config``
            made. A number in ``auto_select_ipus`` or ``select_ipus`` is
            turned into a list of one, in place.
        device: The CPU device that holds the configuration, "cpu".
        reset_configuration: Whether a different configuration is replaced.

    Raises:
        TypeError: ``config`` is neither.
        ValueError: Options contradict each other or have unknown values.
        Exception: Both selections are set, or one that the IPU model cannot have.
        FailedPreconditionError: There are not that many IPUs, or a different
            configuration stands and ``reset_configuration`` is False.

    Example:
        >>> config = IPUConfig()
        >>> config.auto_select_ipus = 1
        >>> configure_ipu_system(config)
        >>> config.auto_select_ipus
        [1]
    """
    generation = 2 if isinstance(config, IPUConfig) else 1
    profiling = copy.deepcopy(getattr(config, "profiling", {}))
    if not profiling.get("enable_ipu_trace_events"):
        profiling = None
    config = _checked(config)
    kind, _ = devices.parse_device_name(device)
    if kind != "CPU":
        raise ValueError(f"`device` must name a CPU device. Received: {device!r}.")
    _check_selection(config)
    _check_connection(config)
    _check_distribution(config)
    _check_tiles(config)
    _check_buckets(config)
    for name in ("convolutions", "matmuls"):
        options = getattr(config, name).poplar_options
        check_poplar_options(f"{name}.poplar_options", options)
    if isinstance(config.auto_select_ipus, int):
        config.auto_select_ipus = [config.auto_select_ipus]
    if isinstance(config.select_ipus, int):
        config.select_ipus = [config.select_ipus]
    _warn_without_effect(config)
    layout = devices.Layout(
        counts=tuple(config.auto_select_ipus) or (1,),
        ids=tuple(config.select_ipus),
        order=config.selection_order,
        connection=config.device_connection.type,
        options=_in_effect(config),
        overflow=_overflow(config),
        generation=generation,
        profiling=profiling,
    )
    devices.configure(layout, reset_configuration)


_told: set[str] = set()  # what was said once


def _warn_without_effect(config: IPUConfig) -> None:
    """Warn once of each option that has no effect."""
    found = []
    for name in ("compilation_poplar_options", "gcl_poplar_options"):
        found += [f"{name}[{key!r}]" for key in _reports(getattr(config, name))]
    engine = _reports(options_of_environment())
    found += [f"{key!r} in {ENGINE_OPTIONS}" for key in engine]
    for what in found:
        if what not in _told:
            _told.add(what)
            logger.warning(
                "%s is accepted, but has no effect: nothing is written. Use "
                "ipu.profiler for a profile.",
                what,
            )


def _reports(options: Iterable[str]) -> list[str]:
    """Return those that ask for a report that is not made."""
    asked = [one for one in options if "autoReport." in one or "profiler." in one]
    return [one for one in asked if one not in KNOWN]


def reset_ipu_configuration() -> None:
    """Wait until all devices are idle, then let them go.

    The next use of a device makes one anew. Without devices nothing happens.

    Raises:
        FailedPreconditionError: Called from inside a program that runs on a device.

    Example:
        >>> reset_ipu_configuration()
    """
    devices.reset()


def get_ipu_config(session: None = None) -> list[IPUConfig]:
    """Return the configuration in force.

    Args:
        session: None; sessions belong to graphs of the first TensorFlow generation.

    Returns:
        A list with one ``IPUConfig``: a copy, with what follows from other options
        written out.

    Raises:
        RuntimeError: No devices are configured.
        AssertionError: A session was passed.

    Example:
        >>> IPUConfig().configure_ipu_system()
        >>> len(get_ipu_config())
        1
    """
    if session is not None:
        raise AssertionError("A session cannot be passed when executing eagerly.")
    layout = devices.current_layout()
    if layout is None:
        raise RuntimeError(
            "No IPU devices configured. Call IPUConfig().configure_ipu_system() first."
        )
    if layout.options is None:
        made = IPUConfig()
        made.auto_select_ipus = list(layout.counts)
        return [made]
    return [IPUConfig.from_dict(layout.options)]


export(__name__, defined(__name__, ["AttributeMetadata", *defined(enums.__name__)]))
