# SPDX-License-Identifier: MIT
"""Which reports of programs a configuration and the environment ask for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from ipu._config.flags import flags

ENGINE_OPTIONS = "POPLAR_ENGINE_OPTIONS"
_AUTO = "autoReport."
_TRUE = ("true", "1")
_ASKS = ("all", "outputGraphProfile", "outputExecutionProfile")
# of the options of reports those that mean something here
KNOWN = tuple(
    _AUTO + name for name in (*_ASKS, "directory", "executionProfileProgramRunCount")
)


class ReportRequest(NamedTuple):
    """What is asked for.

    Attributes:
        has_events: Whether compilations and executions are events.
        has_reports: Whether events of compilations have reports.
        has_execution: Whether those of executions have.
        is_text: Whether reports are text; else JSON.
        has_graph: Whether events of compilations have the graph.
        every: Every so many executions have a report; 0: the first alone.
        most_bytes: Reports that are larger are dropped.
        directory: Where reports go, in place of events; "" for nowhere.
        folder: In which folder each program gets one of its own; None for none.
        maps: In which folder each program's map of tensors goes; "" for none.
        is_printed: Whether reports as text are printed.
    """

    has_events: bool
    has_reports: bool
    has_execution: bool
    is_text: bool
    has_graph: bool
    every: int
    most_bytes: int
    directory: str
    folder: str | None
    maps: str
    is_printed: bool


def options_of_environment(
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Return the engine's options that the environment has."""
    text = environment.get(ENGINE_OPTIONS, "").strip()
    if not text:
        return {}
    import json  # slow to import

    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(
            f"The environment variable {ENGINE_OPTIONS} must be a JSON object such as "
            f'{{"autoReport.all": "true"}}. Received: {text!r}.'
        )
    return {str(key): str(value) for key, value in found.items()}


def request_of(
    options: Mapping[str, Any] | None,
    profiling: Mapping[str, Any] | None,
    environment: Mapping[str, str] = os.environ,
) -> ReportRequest | None:
    """Return what options in effect and those of profiling ask for, or None.

    Args:
        options: As ``IPUConfig.to_dict`` gives them.
        profiling: Of ``utils.create_ipu_config``.
        environment: The environment's variables.

    Raises:
        ValueError: ``POPLAR_ENGINE_OPTIONS`` cannot be read.

    Example:
        >>> request_of({}, {}, {}) is None
        True
        >>> engine = {"POPLAR_ENGINE_OPTIONS": '{"autoReport.all": "true"}'}
        >>> request_of({}, {}, engine).folder
        '.'
    """
    engine = {
        **(options or {}).get("compilation_poplar_options", {}),
        **options_of_environment(environment),
    }
    asked = [engine.get(_AUTO + name, "false").lower() in _TRUE for name in _ASKS]
    folder = engine.get(_AUTO + "directory", "") or "." if any(asked) else None
    given = profiling or {}
    has_events = bool(given.get("enable_ipu_trace_events"))
    maps, is_printed = (
        flags().tensor_map_file_path,
        flags().dump_text_reports_to_stdio,
    )
    if folder is None and not has_events and not maps and not is_printed:
        return None
    execution = getattr(given.get("execution_trace_type"), "name", "NO_PROFILE")
    return ReportRequest(
        has_events=has_events,
        has_reports=bool(given.get("enable_compilation_trace")),
        has_execution=execution != "NO_PROFILE",
        is_text=bool(given.get("enable_poplar_reports_text")),
        has_graph=bool(given.get("enable_poplar_graph")),
        every=int(given.get("report_every_nth_execution", 0)),
        most_bytes=int(given.get("max_report_size", 0x10000000)),
        directory=str(given.get("report_directory", "")),
        folder=folder,
        maps=maps,
        is_printed=is_printed,
    )
