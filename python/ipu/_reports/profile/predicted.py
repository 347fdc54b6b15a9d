# SPDX-License-Identifier: MIT
"""The time of a profile's programs on an IPU, by the machine's account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ipu._device.observers import observers

if TYPE_CHECKING:
    from ipu import _core
    from ipu._device.devices import Device
    from ipu._device.observers import Compiled, Traced
    from ipu._reports.machine_account import Account

_CLASSES = ("products", "other ops", "exchange", "infeed and outfeed")


class IpuTimes(NamedTuple):
    """A step on IPUs, in ns; those of classes and lines of all IPUs together.

    Attributes:
        machine: Which IPU, and how many.
        step_ns: From the beginning of a step to its end.
        classes: By what is done.
        lines: By the user's source line.
        has_unknown_turns: Whether a loop counts as one turn since nobody knows more.
    """

    machine: str
    step_ns: float
    classes: dict[str, float]
    lines: dict[str, float]
    has_unknown_turns: bool


class Watch:
    """Makes the accounts of programs that are compiled while it watches."""

    def __init__(self) -> None:
        self.accounts: dict[int, Account] = {}  # by the number of the program

    def start(self) -> None:
        observers.append(self._begin)

    def stop(self) -> None:
        observers.remove(self._begin)

    def _begin(self, build: Any, device: Device) -> Traced | None:
        if not build.runs:
            return None
        build.is_account = True  # nodes get the names of their layers

        def traced(trace: _core.Trace) -> Compiled:
            from ipu._reports.program_reports import account_of

            account = account_of(trace, device)

            def compiled(program: _core.Program) -> None:
                self.accounts[program.id] = account

            return compiled

        return traced


def _class_of(kind: str, op: str) -> str:
    if kind == "stream":
        return "infeed and outfeed"
    if kind != "compute":
        return "exchange"
    return "products" if op.startswith(("matmul", "conv")) else "other ops"


def times(account: Account, steps: float) -> IpuTimes:
    """Return what one of so many steps of a program takes."""
    ns = 1e9 / account.machine.clock / max(steps, 1.0)
    classes = dict.fromkeys(_CLASSES, 0.0)
    for step in account.steps:
        op = step.name.partition(": ")[0].rpartition("/")[2]
        classes[_class_of(step.kind, op)] += step.all_cycles * ns
    lines = {line: cycles * ns for line, cycles in account.by_line().items()}
    count = account.ipus * account.replicas
    return IpuTimes(
        f"{count} x {account.machine!r}",
        account.cycles * ns,
        classes,
        lines,
        account.has_unknown_turns,
    )


def trace_events(account: Account, process: int, begin_us: float) -> Iterator[Any]:
    """Yield a run of a program by the IPUs' clock, as events of a trace: a track of
    steps for each IPU and, of a pipeline, one of passes.

    Args:
        account: The account.
        process: The number of the process whose tracks they are.
        begin_us: When the program began, in microseconds.
    """
    clock = account.machine.clock

    def event(track: int, name: str, kind: str, start: float, cycles: float) -> Any:
        return {
            "ph": "X",
            "pid": process,
            "tid": track,
            "name": name,
            "cat": kind,
            "ts": begin_us + 1e6 * start / clock,
            "dur": 1e6 * cycles / clock,
            "args": {"first cycle": start, "cycles": cycles},
        }

    for ipu in range(account.ipus):
        for track, what in ((2 * ipu, "passes"), (2 * ipu + 1, "steps")):
            if what == "steps" or account.pipelines:
                yield {
                    "ph": "M",
                    "pid": process,
                    "tid": track,
                    "name": "thread_name",
                    "args": {"name": f"IPU {ipu}: {what}"},
                }
    for step in account.steps:
        if step.times:
            made = event(
                2 * step.ipu + 1, step.name, step.kind, step.start, step.cycles
            )
            made["args"].update(times=step.times, tiles=step.tiles, line=step.source)
            yield made
    for pipeline in account.pipelines:
        for ipu, kind, stage, batch, begin, end in pipeline.timetable.recorded or ():
            first = pipeline._found["start"] + begin * clock / 1e9
            cycles = (end - begin) * clock / 1e9
            made = event(2 * ipu, f"{kind}{batch}", "pass", first, cycles)
            made["args"].update({"stage": stage, "micro-batch": batch})
            yield made
