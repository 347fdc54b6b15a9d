# SPDX-License-Identifier: MIT
"""``tf.config``: what programs ask and set before they start.

The simulated IPUs are configured with ``ipu.config.IPUConfig``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ipu._device import devices as _devices, threads
from ipu._text.exports import defined, export
from ipu.tf._functions.function import (
    _Settings,
    run_functions_eagerly as run_functions_eagerly,
)


class PhysicalDevice(NamedTuple):
    """A device of this computer: ``name`` and ``device_type``.

    Example:
        >>> tf.config.list_physical_devices("CPU")[0].device_type
        'CPU'
    """

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device that ops can be put on: ``name`` and ``device_type``.

    Example:
        >>> tf.config.list_logical_devices("CPU")[0].name
        '/device:CPU:0'
    """

    name: str
    device_type: str


def _known(device_type: str | None) -> list[tuple[str, str]]:
    found = [("CPU:0", "CPU")]
    now = _devices._registry.now
    count = 0 if now is None else len(now.devices)
    found += [(f"IPU:{i}", "IPU") for i in range(count)]
    return [one for one in found if device_type in (None, one[1])]


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Return the CPU, and the simulated IPU devices that are configured.

    Args:
        device_type: "CPU", "IPU", ... or None for all; there is no GPU.

    Example:
        >>> [device.name for device in tf.config.list_physical_devices("CPU")]
        ['/physical_device:CPU:0']
        >>> tf.config.list_physical_devices("GPU")
        []
    """
    return [
        PhysicalDevice(f"/physical_device:{name}", kind)
        for name, kind in _known(device_type)
    ]


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """Return the names that ``tf.device`` takes.

    Example:
        >>> [device.name for device in tf.config.list_logical_devices("CPU")]
        ['/device:CPU:0']
    """
    return [
        LogicalDevice(f"/device:{name}", kind) for name, kind in _known(device_type)
    ]


get_visible_devices = list_physical_devices


def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Accept the call, without effect: there is nothing to hide.

    Example:
        >>> tf.config.set_visible_devices([], "GPU")
    """


def get_logical_device_configuration(device: Any) -> None:
    """Return None: devices are not divided.

    Example:
        >>> cpu = tf.config.list_physical_devices("CPU")[0]
        >>> tf.config.get_logical_device_configuration(cpu)
    """


def functions_run_eagerly() -> bool:
    """Return whether every ``tf.function`` calls its Python function as it is.

    Example:
        >>> tf.config.functions_run_eagerly()
        False
    """
    return _Settings.run_eagerly


experimental_run_functions_eagerly = run_functions_eagerly
experimental_functions_run_eagerly = functions_run_eagerly


class _Placement:
    soft = True


def set_soft_device_placement(enabled: bool) -> None:
    """Do nothing: each op exists wherever it can be put.

    Example:
        >>> tf.config.set_soft_device_placement(False)
        >>> tf.config.get_soft_device_placement()
        False
    """
    _Placement.soft = bool(enabled)


def get_soft_device_placement() -> bool:
    """Return what was set.

    Example:
        >>> tf.config.set_soft_device_placement(True)
        >>> tf.config.get_soft_device_placement()
        True
    """
    return _Placement.soft


class optimizer:
    """``tf.config.optimizer``.

    Example:
        >>> tf.config.optimizer.set_jit(True)
    """

    _jit = ""

    @staticmethod
    def set_jit(enabled: Any) -> None:
        """Do nothing: a function is always compiled as a whole."""
        optimizer._jit = "autoclustering" if enabled else ""

    @staticmethod
    def get_jit() -> str:
        """Return what was set."""
        return optimizer._jit

    @staticmethod
    def set_experimental_options(options: Any) -> None:
        """Accept the call, without effect."""

    @staticmethod
    def get_experimental_options() -> dict[str, Any]:
        """Return nothing."""
        return {}


class threading:
    """``tf.config.threading``.

    Example:
        >>> tf.config.threading.get_intra_op_parallelism_threads() >= 0
        True
    """

    @staticmethod
    def set_intra_op_parallelism_threads(num_threads: int) -> None:
        """Set how many threads programs use; 0: one for each core."""
        if num_threads > 0:
            threads.set_num_threads(num_threads)

    @staticmethod
    def get_intra_op_parallelism_threads() -> int:
        """Return how many threads programs use."""
        return threads.num_threads()

    @staticmethod
    def set_inter_op_parallelism_threads(num_threads: int) -> None:
        """Accept the call, without effect: a program is one list of instructions."""

    @staticmethod
    def get_inter_op_parallelism_threads() -> int:
        """Return 1."""
        return 1


class experimental:
    """``tf.config.experimental``.

    Example:
        >>> tf.config.experimental.list_physical_devices("GPU")
        []
    """

    list_physical_devices = staticmethod(list_physical_devices)
    list_logical_devices = staticmethod(list_logical_devices)
    get_visible_devices = staticmethod(get_visible_devices)
    set_visible_devices = staticmethod(set_visible_devices)

    @staticmethod
    def set_memory_growth(device: Any, enable: bool) -> None:
        """Accept the call, without effect."""

    @staticmethod
    def get_memory_growth(device: Any) -> bool:
        """Return True: memory is taken when it is needed."""
        return True

    @staticmethod
    def enable_tensor_float_32_execution(enabled: bool) -> None:
        """Accept the call, without effect: float32 is float32."""

    @staticmethod
    def enable_op_determinism() -> None:
        """Do nothing: programs always give the same bits."""


_RUN = ["experimental_run_functions_eagerly", "run_functions_eagerly"]
export(__name__, defined(__name__, _RUN))
