# SPDX-License-Identifier: MIT
"""The event trace of the first SDK generation: there are no events, and it says so.

Reports about programs come with a later version. Until then the trace is empty, as it
is on hardware where profiling is off, and what reads events finds none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ipu._text.exports import defined
from ipu._text.refusals import refuse_call
from ipu.tf._graph import mode
from ipu.tf._string_ops.tensors import StringTensor
from ipu.tf.tensor_spec import TensorSpec


class IpuTraceEvent:
    """One event; programs use the numbers of its types."""

    COMPILE_BEGIN = 0
    COMPILE_END = 1
    HOST_TO_DEVICE_TRANSFER = 2
    DEVICE_TO_HOST_TRANSFER = 3
    LOAD_ENGINE = 4
    EXECUTE = 5

    type: int

    @staticmethod
    def FromString(text: bytes) -> IpuTraceEvent:
        """Not there: no event is ever written."""
        del text
        refuse_call(f"{__name__}.IpuTraceEvent.FromString")


def ipu_event_trace() -> Any:
    """The events since the last call, in graphs since the last run: an empty array."""
    graph = mode.building()
    if graph is None:
        return np.array([], dtype=object)
    return graph.python(
        "IpuEventTrace", lambda: StringTensor([]), TensorSpec((0,), "string")
    )


def get_ipu_reports() -> Any:
    """The events since the last call: an empty array of strings."""
    return ipu_event_trace()


def ipu_compile_summary(name: str, op_list: Any, collections: Any = None) -> None:
    """A summary for TensorBoard of what was compiled: none."""
    del name, op_list, collections
    refuse_call(f"{__name__}.ipu_compile_summary")


def extract_all_strings_from_event_trace(events: Iterable[Any]) -> str:
    """The events as one text."""
    return "".join(str(event) for event in events)


def extract_all_types_from_event_trace(events: Iterable[Any]) -> list[int]:
    """The types of the events."""
    return [event.type for event in extract_all_events(events)]


def extract_all_events(events: Iterable[Any]) -> list[IpuTraceEvent]:
    """The events, decoded."""
    return [IpuTraceEvent.FromString(event) for event in events]


def extract_compile_reports(events: Iterable[Any]) -> list[tuple[str, str]]:
    """(Program, report) of each compilation."""
    return [("", str(event)) for event in extract_all_events(events)]


extract_execute_reports = extract_compile_reports
extract_poplar_serialized_graphs = extract_compile_reports
extract_graphs = extract_compile_reports


__all__ = defined(__name__)
