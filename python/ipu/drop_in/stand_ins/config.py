# SPDX-License-Identifier: MIT
"""``tf.config``: which devices there are; switches that change nothing here."""

from __future__ import annotations

from typing import Any, NamedTuple

from ipu import _devices
from ipu._missing import refuse

__all__ = [
    "LogicalDevice",
    "PhysicalDevice",
    "enable_mlir_bridge",
    "enable_tensor_float_32_execution",
    "experimental_functions_run_eagerly",
    "functions_run_eagerly",
    "get_soft_device_placement",
    "get_visible_devices",
    "list_logical_devices",
    "list_physical_devices",
    "run_functions_eagerly",
    "set_memory_growth",
    "set_soft_device_placement",
    "set_visible_devices",
]


class PhysicalDevice(NamedTuple):
    """A device of this computer: ``name`` and ``device_type``."""

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device that programs can name: ``name`` and ``device_type``."""

    name: str
    device_type: str


def _names() -> list[tuple[str, str]]:
    layout = _devices.current_layout()
    count = 1 if layout is None else len(layout.ids or layout.counts)
    return [("CPU:0", "CPU"), *((f"IPU:{n}", "IPU") for n in range(count))]


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The host and the IPUs as they are configured.

    Args:
        device_type: "CPU", "IPU" or None for both; any other kind gives [].

    Example:
        >>> list_physical_devices("CPU")[0].name
        '/physical_device:CPU:0'
    """
    return [
        PhysicalDevice(f"/physical_device:{name}", kind)
        for name, kind in _names()
        if device_type in (None, kind)
    ]


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """As :func:`list_physical_devices`, under the names that ``tf.device`` takes."""
    return [
        LogicalDevice(f"/device:{name}", kind)
        for name, kind in _names()
        if device_type in (None, kind)
    ]


get_visible_devices = list_physical_devices


def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Hide GPUs from the program; there are none."""
    del devices, device_type


def set_memory_growth(device: Any, enable: bool) -> None:
    """Let a GPU's memory grow; there is none."""
    del device, enable


def get_soft_device_placement() -> bool:
    """Whether ops may run elsewhere than they are placed: never."""
    return False


def set_soft_device_placement(enabled: bool) -> None:
    """Accepted: ops run where they are placed, with or without it."""
    del enabled


def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Accepted: float32 is computed as float32."""
    del enabled


def enable_mlir_bridge() -> None:
    """Accepted: there is one compiler."""


def functions_run_eagerly() -> bool:
    """Whether ``tf.function`` is switched off: never."""
    return False


experimental_functions_run_eagerly = functions_run_eagerly


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Switch ``tf.function`` off.

    Raises:
        NotThereYetError: ``run_eagerly`` is True: functions are always compiled.
    """
    if run_eagerly:
        refuse("tensorflow.config.run_functions_eagerly(True)")
