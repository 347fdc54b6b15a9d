# SPDX-License-Identifier: MIT
"""What a program tells the host while it runs: ``tf.print`` and failed assertions.

Each place has an outfeed of its own; elements carry a number that the program counts
in a variable, so that the host brings those of all places into the order in which they
were made. The host takes them when the run has ended, also where it has failed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu.tf._functions.tracing import Build, current_build
from ipu.tf._graph.reached import operation
from ipu.tf._string_ops.host_only import HostOnlyError
from ipu.tf._tensor import convert
from ipu.tf._tensor.operation import Operation

_Told = Callable[[Sequence[Any]], None]
_Type = tuple[str, tuple[int, ...]]


class _Place:
    """One place of a program that tells something."""

    def __init__(self, device: _core.Device, types: list[_Type], told: _Told) -> None:
        self.types = types
        self.queue = _core.Outfeed(device, types)
        self.told = told

    def take(self) -> list[tuple[int, _Told, list[Any]]]:
        """Return (number, told, arrays) of each element that has come."""
        taken = self.queue.take()
        parts = [part.numpy() for part in taken or []]
        if not parts:
            return []
        if parts[0].ndim == 2:  # [elements, replicas]: each replica tells its own
            parts = [part.reshape(-1, *part.shape[2:]) for part in parts]
        return [
            (int(number), self.told, [part[i] for part in parts[1:]])
            for i, number in enumerate(parts[0])
        ]


class _Speaker:
    """All places of one program."""

    def __init__(self, build: Build, device: _core.Device) -> None:
        self._device = device
        self._places: list[_Place] = []
        self._counter = device.variable_add("int32", ())
        self._resource = ("variable", self._counter, [("int32", ())], "print order")
        device.variable_write(self._counter, ("int32", ()), Tensor(0))
        build.after.append(self._flush)
        weakref.finalize(build, _remove, device, self._counter, self._places)

    def tell(self, trace: _core.Trace, tensors: Sequence[Tensor], told: _Told) -> None:
        trace.node("variable_add", (Tensor(1),), None, (self._resource,))
        number = trace.node("variable_read", (), None, (self._resource,))
        types: list[_Type] = [("int32", ())]
        types += [(t.dtype.name, t.shape) for t in tensors]
        place = _Place(self._device, types, told)
        self._places.append(place)
        resource = ("outfeed", place.queue.id, types, None)
        trace.node("outfeed_enqueue", (number, *tensors), None, (resource,))

    def _flush(self) -> None:
        told = [one for place in self._places for one in place.take()]
        for _, tell, values in sorted(told, key=lambda one: one[0]):
            tell(values)


def _remove(device: _core.Device, counter: int, places: list[_Place]) -> None:
    for place in places:
        place.queue.remove()
    device.variable_remove(counter)


def tell_host(what: str, values: Sequence[Any], told: _Told) -> Operation:
    """Have the program that is being traced hand values to the host.

    Args:
        what: What is done, for errors: "tf.print".
        values: Tensors.
        told: Called with their values, after each run, once for each time that the
            program passed here, in order.
    """
    trace = _core.open_trace()
    assert trace is not None
    build = current_build()
    begin = trace.node_count
    if build.is_scratch:
        return operation("PrintV2", begin)
    if not build.runs or build.device is None:
        raise HostOnlyError(
            f"{what} cannot be used in a function that runs as part of a data set or "
            f"of another program: {build.name}."
        )
    speaker = build.notes.get(_Speaker)
    if speaker is None:
        speaker = build.notes[_Speaker] = _Speaker(build, build.device.core)
    speaker.tell(trace, [convert.convert_to_tensor(v) for v in values], told)
    return operation("PrintV2", begin)
