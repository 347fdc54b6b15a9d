# SPDX-License-Identifier: MIT
"""``ipu.utils``: configuration as older programs write it, and small helpers.

The first generation starts with :func:`create_ipu_config`; later ones have
``ipu.config``. Both describe the same devices.

Example:
    >>> from ipu import utils
    >>> utils.get_num_of_ipus_in_device("/device:IPU:0")
    1
"""

from __future__ import annotations

import enum
import operator
from typing import TYPE_CHECKING, Any

from ipu._config import flags as _flags
from ipu._config.enums import *
from ipu._config.flags import running_on_ipu_model as running_on_ipu_model
from ipu._config.legacy import *
from ipu._device import devices
from ipu._loops.data_files import *
from ipu._text.exports import export, offered
from ipu.config import (
    IPUConfig as IPUConfig,
    configure_ipu_system as configure_ipu_system,
    get_ipu_config as get_ipu_config,
    reset_ipu_configuration as reset_ipu_configuration,
)
from ipu.tf._graph import mode

if TYPE_CHECKING:
    from typing import SupportsIndex

    from ipu._reports.event_trace import (
        extract_all_events as extract_all_events,
        extract_all_strings_from_event_trace as extract_all_strings_from_event_trace,
        extract_all_types_from_event_trace as extract_all_types_from_event_trace,
        extract_compile_reports as extract_compile_reports,
        extract_execute_reports as extract_execute_reports,
        extract_poplar_serialized_graphs as extract_poplar_serialized_graphs,
    )


class SyntheticDataCategory(enum.Enum):
    """Kinds of data that the flag ``--use_synthetic_data`` can replace.

    Example:
        >>> [kind.name for kind in SyntheticDataCategory]
        ['InFeed', 'OutFeed', 'Seed', 'HostEmbedding', 'Parameters']
    """

    InFeed = "infeed"
    OutFeed = "outfeed"
    Seed = "seed"
    HostEmbedding = "hostembedding"
    Parameters = "parameters"


def _ipu_ordinal(name: str, argument: str) -> int:
    kind, ordinal = devices.parse_device_name(name)
    if kind != "IPU":
        raise ValueError(
            f"{argument} must name an IPU such as '/device:IPU:0'. Received: {name!r}."
        )
    return ordinal


def get_num_of_ipus_in_device(ipu_device: str, device: str = "cpu") -> int:
    """Return how many IPUs a device has.

    Args:
        ipu_device: Its name, such as "/device:IPU:0". Without a configuration a
            device of one IPU is made.
        device: The CPU device that holds the configuration, "cpu".

    Returns:
        The number of IPUs.

    Raises:
        ValueError: ``ipu_device`` does not name an IPU.
        InternalError: There is no device of that number.

    Example:
        >>> config = IPUConfig()
        >>> config.auto_select_ipus = 2
        >>> config.configure_ipu_system()
        >>> get_num_of_ipus_in_device("/device:IPU:0")
        2
    """
    del device
    return devices.get_device(_ipu_ordinal(ipu_device, "ipu_device")).num_ipus


def reset_ipu_seed(
    seed: SupportsIndex,
    device: str = "/device:IPU:0",
    cpu_device: str = "cpu",
    experimental_identical_replicas: bool = False,
) -> Any:
    """Set the seed of the random numbers that a device makes.

    Args:
        seed: An integer.
        device: The device, "/device:IPU:0" by default.
        cpu_device: Accepted for compatibility, without effect.
        experimental_identical_replicas: Whether all replicas draw the same numbers;
            with one replica there is no difference.

    Returns:
        None; in a graph of TensorFlow 1 an operation that does it in a session.

    Raises:
        TypeError: ``seed`` is not an integer.
        ValueError: ``device`` does not name an IPU.

    Example:
        >>> reset_ipu_seed(42)
    """
    del cpu_device, experimental_identical_replicas
    try:
        number = operator.index(seed)
    except TypeError:
        raise TypeError(f"seed must be an integer. Received: {seed!r}.") from None
    ordinal = _ipu_ordinal(device, "device")

    def set_it() -> None:
        devices.get_device(ordinal).core.seed(number)

    graph = mode.building()
    return set_it() if graph is None else graph.python("IPUResetSeed", set_it)


def move_variable_initialization_to_cpu(graph: object = None) -> None:
    """Have the initial values of variables computed on the host.

    They always are, so there is nothing to do; programs may call it all the same.

    Args:
        graph: The graph of the variables, or None for the current one.

    Example:
        >>> move_variable_initialization_to_cpu()
    """
    del graph


def use_synthetic_data_for(category: SyntheticDataCategory | str) -> bool:
    """Return whether TF_POPLAR_FLAGS asks for synthetic data of a kind.

    Args:
        category: A :class:`SyntheticDataCategory` or its name: "infeed", "outfeed",
            "seed", "hostembedding" or "parameters".

    Returns:
        True with ``--use_synthetic_data``, and where
        ``--synthetic_data_categories`` names this category.

    Raises:
        ValueError: There is no such category.
        InvalidArgumentError: TF_POPLAR_FLAGS cannot be read.

    Example:
        >>> use_synthetic_data_for(SyntheticDataCategory.InFeed)
        False
    """
    name = getattr(category, "value", category)
    name = str(name).lower()
    if name not in _flags.SYNTHETIC_CATEGORIES:
        raise ValueError(
            f"category must be one of {', '.join(_flags.SYNTHETIC_CATEGORIES)}. "
            f"Received: {category!r}."
        )
    return _flags.is_synthetic(name)


_EVENTS = (
    "extract_all_events",
    "extract_all_strings_from_event_trace",
    "extract_all_types_from_event_trace",
    "extract_compile_reports",
    "extract_execute_reports",
    "extract_poplar_serialized_graphs",
)
export(
    __name__,
    [*offered(__name__), *_EVENTS],
    {name: f"ipu._reports.event_trace:{name}" for name in _EVENTS},
)
