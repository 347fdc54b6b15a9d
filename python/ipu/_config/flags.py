# SPDX-License-Identifier: MIT
"""The environment: TF_POPLAR_FLAGS, read once at the first use of a device.

The variable is a list of ``--name`` or ``--name=value``, separated by spaces.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, fields
from typing import Any

from ipu._text.errors import InvalidArgumentError
from ipu._text.log import logger

ENVIRONMENT_VARIABLE = "TF_POPLAR_FLAGS"
SYNTHETIC_CATEGORIES = ("infeed", "outfeed", "seed", "hostembedding", "parameters")
_INITIALIZERS = ("random", "uniform", "normal")
_TRUE = ("true", "1", "t", "yes")
_FALSE = ("false", "0", "f", "no")


def _flag(default: Any, doc: str, writes_nothing: bool = False) -> Any:
    """Return a flag; `writes_nothing` marks one of reports that are not written
    here."""
    metadata = {"doc": doc, "writes_nothing": writes_nothing}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class PoplarFlags:
    """The values of TF_POPLAR_FLAGS, one field for each flag."""

    help: bool = _flag(False, "print all flags")
    use_ipu_model: bool = _flag(False, "run on the model of an IPU")
    use_synthetic_data: bool = _flag(False, "no data between host and device")
    synthetic_data_categories: tuple[str, ...] = _flag(
        (), "which data is synthetic: " + ", ".join(SYNTHETIC_CATEGORIES)
    )
    synthetic_data_initializer: str = _flag(
        "", "content of synthetic tensors: random, uniform, normal or an integer"
    )
    log_cycle_count: int = _flag(-1, "log the cycles of each run; -1: do not")
    while_loop_brute_force_max_trip_count: int = _flag(
        128, "bound of the analysis of trip counts"
    )
    max_compilation_threads: int = _flag(-1, "threads that compile, -1: automatic")
    max_infeed_threads: int = _flag(-1, "threads that feed, -1: automatic")
    executable_cache_path: str = _flag("", "folder that programs are written to")
    dump_schedule_as_dot: bool = _flag(
        False, "write the schedule as a graph", writes_nothing=True
    )
    tensor_map_file_path: str = _flag("", "folder of tensor maps, as JSON")
    fallback_scheduler: bool = _flag(False, "use the simplest scheduler")
    enable_hlo_verifier: bool = _flag(False, "verify graphs between passes")
    disable_poplar_version_check: bool = _flag(False, "accepted without effect")
    sync_replica_start: bool = _flag(False, "start all replicas together")
    allow_nans: bool = _flag(False, "do not stop at NaN")
    null_data_feed: bool = _flag(False, "infeeds deliver no data, as synthetic ones")
    show_progress_bar: str = _flag("auto", "progress of compiling: auto, true, false")
    use_on_demand: bool = _flag(False, "wait for a free device")
    on_demand_device_poll_time: int = _flag(1000, "milliseconds, at least 100")
    on_demand_device_timeout: int = _flag(3600000, "milliseconds")
    ipu_model_tiles: int = _flag(0, "tiles of the model of an IPU, 0: as configured")
    save_vertex_graph: str = _flag(
        "", "folder (first SDK generation)", writes_nothing=True
    )
    save_interval_report: str = _flag(
        "", "folder (first SDK generation)", writes_nothing=True
    )
    dump_text_reports_to_stdio: bool = _flag(
        False, "print what programs would cost on an IPU (first SDK generation)"
    )
    add_all_reduce_copies: bool = _flag(False, "deprecated, without effect")
    force_replicated_mode: bool = _flag(False, "deprecated, without effect")
    save_oom_profiler: str = _flag("", "deprecated, without effect")


def _bad(flag: str, value: str, wanted: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{ENVIRONMENT_VARIABLE}: --{flag} must be {wanted}. Received: {value!r}."
    )


def _value(flag: str, default: Any, text: str | None) -> Any:
    if isinstance(default, bool):
        if text is None or text.lower() in _TRUE:
            return True
        if text.lower() in _FALSE:
            return False
        raise _bad(flag, text, "true or false")
    if text is None:
        raise _bad(flag, "", f"given a value: --{flag}=...")
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise _bad(flag, text, "an integer") from None
    if isinstance(default, tuple):
        return tuple(part.strip().lower() for part in text.split(",") if part.strip())
    return text


def _check(made: PoplarFlags) -> None:
    for category in made.synthetic_data_categories:
        if category not in SYNTHETIC_CATEGORIES:
            wanted = "a list of " + ", ".join(SYNTHETIC_CATEGORIES)
            raise _bad("synthetic_data_categories", category, wanted)
    initializer = made.synthetic_data_initializer
    if initializer:
        is_integer = initializer.lstrip("+-").isdigit()
        if initializer not in _INITIALIZERS and not is_integer:
            wanted = ", ".join(_INITIALIZERS) + " or an integer"
            raise _bad("synthetic_data_initializer", initializer, wanted)
        if not made.use_synthetic_data and not made.synthetic_data_categories:
            raise InvalidArgumentError(
                f"{ENVIRONMENT_VARIABLE}: --synthetic_data_initializer needs synthetic "
                "data. Add --use_synthetic_data."
            )
    if made.show_progress_bar not in ("auto", "true", "false"):
        raise _bad("show_progress_bar", made.show_progress_bar, "auto, true or false")
    if made.on_demand_device_poll_time < 100:
        poll = str(made.on_demand_device_poll_time)
        raise _bad("on_demand_device_poll_time", poll, "at least 100 (milliseconds)")


def _without_effect(made: PoplarFlags) -> list[str]:
    """Return the flags that are set, and of which nothing comes."""
    return [
        one.name
        for one in fields(PoplarFlags)
        if one.metadata["writes_nothing"] and getattr(made, one.name) != one.default
    ]


def help_text() -> str:
    """Return one line for each flag: name, default, meaning."""
    lines = [f"Flags of {ENVIRONMENT_VARIABLE}:"]
    for one in fields(PoplarFlags):
        lines.append(f"  --{one.name}={one.default}: {one.metadata['doc']}")
    return "\n".join(lines)


def parse_flags(text: str) -> PoplarFlags:
    """Read the value of TF_POPLAR_FLAGS.

    Args:
        text: ``--name`` and ``--name=value``, separated by white space.

    Returns:
        The flags, with defaults for those that are not named.

    Example:
        >>> parse_flags("--use_ipu_model --max_infeed_threads=2").max_infeed_threads
        2
    """
    defaults = {one.name: one.default for one in fields(PoplarFlags)}
    found: dict[str, Any] = {}
    for word in text.split():
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in defaults:
            from difflib import get_close_matches

            near = get_close_matches(name.lstrip("-"), defaults, n=1)
            hint = f" Did you mean '--{near[0]}'?" if near else ""
            raise InvalidArgumentError(
                f"Unknown flag {word!r} in {ENVIRONMENT_VARIABLE}.{hint} "
                f"Known flags: {', '.join('--' + one for one in defaults)}."
            )
        found[name] = _value(name, defaults[name], value if equals else None)
    made = PoplarFlags(**found)
    _check(made)
    return made


def is_synthetic(category: str) -> bool:
    """Return whether data of a category, one of SYNTHETIC_CATEGORIES, are synthetic."""
    made = _read[0] if _read else flags()
    if made.null_data_feed and category == "infeed":
        return True
    if made.synthetic_data_categories:
        return category in made.synthetic_data_categories
    return made.use_synthetic_data


_read: list[PoplarFlags] = []


def flags() -> PoplarFlags:
    """Return the flags of this process, read from the environment at the first call."""
    if not _read:
        made = parse_flags(os.environ.get(ENVIRONMENT_VARIABLE, ""))
        if made.help:
            print(help_text(), file=sys.stderr)
        for name in _without_effect(made):
            logger.warning(
                "%s: --%s is accepted, but has no effect: nothing is written. Use "
                "python -m ipu profile, or ipu.profiler.",
                ENVIRONMENT_VARIABLE,
                name,
            )
        _read.append(made)
    return _read[0]


def _forget() -> None:
    """Read the environment again at the next call; for tests."""
    _read.clear()


def running_on_ipu_model() -> bool:
    """Return whether TF_POPLAR_FLAGS asks for the model of an IPU, as it stands now.

    Example:
        >>> from ipu import utils
        >>> utils.running_on_ipu_model()
        False
    """
    return "--use_ipu_model" in os.environ.get(ENVIRONMENT_VARIABLE, "")


def max_ipus() -> int:
    """Return how many IPUs the simulated machine has: IPU_NUM_IPUS, 64 by default."""
    text = os.environ.get("IPU_NUM_IPUS", "64").strip()
    if not text.isdigit() or int(text) < 1:
        raise InvalidArgumentError(
            f"IPU_NUM_IPUS must be a positive integer. Received: {text!r}."
        )
    return int(text)
