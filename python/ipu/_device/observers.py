# SPDX-License-Identifier: MIT
"""Those who want to know of each program that is compiled for a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ipu import _core
    from ipu._device.devices import Device

    Compiled = Callable[[_core.Program], None]
    Traced = Callable[[_core.Trace], Compiled]
    Observer = Callable[[Any, Device], Traced | None]

# each is called with the build before it is traced, and the device it is for; it gives
# None, or what is called with the trace, which gives what is called with the program
observers: list[Observer] = []


def begin(build: Any, device: Device) -> list[Traced]:
    """Tell of a program, and give whom to tell when it is traced."""
    found = [observer(build, device) for observer in observers]
    return [one for one in found if one is not None]
