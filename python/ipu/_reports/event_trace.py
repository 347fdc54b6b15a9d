# SPDX-License-Identifier: MIT
"""The event trace of the first SDK generation: what was compiled, loaded and run.

An event is serialized as JSON: a double of seconds, a device's number, a type, and what
belongs to the type. Reports in events are those of the machine's account.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

_PAYLOADS = (
    ("compile_begin", ("module_name",)),
    (
        "compile_end",
        (
            "module_name",
            "compilation_report",
            "duration",
            "tensor_map",
            "instruction_info",
            "poplar_graph",
        ),
    ),
    ("data_transfer", ("data_transfer",)),
    ("data_transfer", ("data_transfer",)),
    ("load_engine", ("module_name",)),
    ("execute", ("module_name", "execution_report", "activity_trace")),
)


class _Payload:
    """The payload of one type of event: bytes, and a duration in microseconds."""

    module_name: bytes
    compilation_report: bytes
    duration: int
    tensor_map: bytes
    instruction_info: bytes
    poplar_graph: bytes
    data_transfer: bytes
    execution_report: bytes
    activity_trace: bytes

    def __init__(self, names: Iterable[str], values: dict[str, Any]) -> None:
        for name in names:
            value = values.get(name, 0 if name == "duration" else "")
            setattr(self, name, value.encode() if isinstance(value, str) else value)


class IpuTraceEvent:
    """One event.

    Attributes:
        timestamp: When, in seconds since 1970.
        ordinal: The number of the device.
        type: One of the numbers below.
        compile_begin, compile_end, data_transfer, load_engine, execute: What belongs to
            a type; of the others the fields are empty.

    Example:
        >>> event = IpuTraceEvent(IpuTraceEvent.LOAD_ENGINE, module_name="step")
        >>> again = IpuTraceEvent.FromString(event.SerializeToString())
        >>> again.type, again.load_engine.module_name
        (4, b'step')
    """

    COMPILE_BEGIN = 0
    COMPILE_END = 1
    HOST_TO_DEVICE_TRANSFER = 2
    DEVICE_TO_HOST_TRANSFER = 3
    LOAD_ENGINE = 4
    EXECUTE = 5

    compile_begin: _Payload
    compile_end: _Payload
    data_transfer: _Payload
    load_engine: _Payload
    execute: _Payload

    def __init__(self, type: int, ordinal: int = 0, **values: Any) -> None:
        self.timestamp = time.time()
        self.ordinal = ordinal
        self.type = type
        self._values = values
        self._fill()

    def _fill(self) -> None:
        mine = _PAYLOADS[self.type][0]
        for name, fields in _PAYLOADS:
            setattr(self, name, _Payload(fields, self._values if name == mine else {}))

    def SerializeToString(self) -> bytes:
        """Return the event as bytes."""
        head = {
            "timestamp": self.timestamp,
            "ordinal": self.ordinal,
            "type": self.type,
        }
        return json.dumps({**head, **self._values}).encode()

    @staticmethod
    def FromString(text: bytes | str) -> IpuTraceEvent:
        """Read an event.

        Raises:
            ValueError: It is not one of :func:`ipu.ops.summary_ops.get_ipu_reports`.
        """
        try:
            values = json.loads(text)
            timestamp = float(values.pop("timestamp"))
            ordinal, kind = int(values.pop("ordinal")), int(values.pop("type"))
            if not 0 <= kind < len(_PAYLOADS):
                raise ValueError
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError(
                "This is not an event: events come from ipu_event_trace() or "
                f"get_ipu_reports() of this package. Received: {text!r:.60}."
            ) from None
        event = IpuTraceEvent(kind, ordinal, **values)
        event.timestamp = timestamp
        return event

    def __str__(self) -> str:
        name = _TITLES[self.type]
        lines = [f"{name} of device {self.ordinal}, at {self.timestamp:.6f} s"]
        lines += [f"{key}: {value}" for key, value in self._values.items() if value]
        return "\n".join(lines)


_TITLES = (
    "Compilation begins",
    "Compilation ends",
    "Transfer from host to device",
    "Transfer from device to host",
    "Engine is loaded",
    "Execution",
)

_pending: list[IpuTraceEvent] = []


def add(event: IpuTraceEvent) -> None:
    """Add an event to those that nobody has taken yet."""
    _pending.append(event)


def take() -> list[bytes]:
    """Take all events, serialized, the oldest first."""
    taken = _pending[:]
    del _pending[: len(taken)]
    return [event.SerializeToString() for event in taken]


def extract_all_events(events: Iterable[Any]) -> list[IpuTraceEvent]:
    """Decode events.

    Args:
        events: The result of ``get_ipu_reports()``, or of a run of
            ``ipu_event_trace()``.

    Raises:
        ValueError: One is not an event.

    Example:
        >>> extract_all_events(ipu.ops.summary_ops.get_ipu_reports())
        []
    """
    return [IpuTraceEvent.FromString(event) for event in events]


def extract_all_types_from_event_trace(events: Iterable[Any]) -> list[int]:
    """Return the types of events, members of ``IpuTraceEvent``.

    Args:
        events: As for :func:`extract_all_events`.

    Example:
        >>> event = IpuTraceEvent(IpuTraceEvent.EXECUTE).SerializeToString()
        >>> extract_all_types_from_event_trace([event])
        [5]
    """
    return [event.type for event in extract_all_events(events)]


def extract_all_strings_from_event_trace(events: Iterable[Any]) -> str:
    """Return events as one text, reports included.

    Args:
        events: As for :func:`extract_all_events`.

    Example:
        >>> extract_all_strings_from_event_trace([])
        ''
    """
    return "\n\n".join(str(event) for event in extract_all_events(events))


def _extract(events: Iterable[Any], kind: int, field: str) -> list[tuple[str, str]]:
    found = []
    for event in extract_all_events(events):
        payload = getattr(event, _PAYLOADS[kind][0])
        if event.type == kind and (report := getattr(payload, field)):
            found.append((payload.module_name.decode(), report.decode()))
    return found


def extract_compile_reports(events: Iterable[Any]) -> list[tuple[str, str]]:
    """Return the reports of compilations, with the names of their programs.

    Args:
        events: As for :func:`extract_all_events`.

    Returns:
        Pairs ``(name, report)``; none of events without a report.

    Example:
        >>> extract_compile_reports([])
        []
    """
    return _extract(events, IpuTraceEvent.COMPILE_END, "compilation_report")


def extract_poplar_serialized_graphs(events: Iterable[Any]) -> list[tuple[str, str]]:
    """Return the graphs of programs, in this package's text form.

    Args:
        events: As for :func:`extract_all_events`.

    Returns:
        Pairs ``(name, graph)``; see ``enable_poplar_serialized_graph``.

    Example:
        >>> extract_poplar_serialized_graphs([])
        []
    """
    return _extract(events, IpuTraceEvent.COMPILE_END, "poplar_graph")


def extract_execute_reports(events: Iterable[Any]) -> list[tuple[str, str]]:
    """Return the reports of executions, with the names of their programs.

    Args:
        events: As for :func:`extract_all_events`.

    Returns:
        Pairs ``(name, report)``; see ``profile_execution``.

    Example:
        >>> extract_execute_reports([])
        []
    """
    return _extract(events, IpuTraceEvent.EXECUTE, "execution_report")
