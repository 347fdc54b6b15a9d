# SPDX-License-Identifier: MIT
"""A profile for people: what the terminal shows, plain or with rich."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TextIO

from ipu._reports.profile.account import Line, ProgramAccount
from ipu._reports.profile.predicted import IpuTimes
from ipu._reports.profile.scaling import Scaling
from ipu._text.tables import as_text, duration, unit_of

_CATEGORIES = ("kernels", "waiting", "dispatch", "infeed", "outfeed")


class Table(NamedTuple):
    """A title, what the columns are, and rows; the first column is text."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def _in(size: float, ns: float) -> str:
    """Return a time in a column, whose head has the unit of so many nanoseconds."""
    return f"{ns / size:,.{1 if size == 1e3 else 3}f}"


def _unit(*ns: float) -> tuple[str, float]:
    """Return the unit of a column; no finer than a microsecond."""
    return unit_of(max(*ns, 1e3))


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole > 0 else ""


def _headline(one: ProgramAccount, peak: float | None) -> str:
    seconds = one.step_ns / 1e9
    rate = 1 / seconds if seconds > 0 else 0.0
    text = (
        f"{one.name}: {one.steps} steps, {rate:,.1f} steps/s, "
        f"{duration(one.step_ns)} a step (median {duration(one.median_ns)})"
    )
    if one.flops > 0 and seconds > 0:
        gflops = one.flops / one.step_ns
        text += f", {gflops:,.1f} GFLOP/s"
        if peak:
            text += f" ({_share(gflops, peak * len(one.threads))} of the peak)"
    return text


def _notes(one: ProgramAccount) -> Iterator[str]:
    if one.steps < one.steps_seen:
        yield (
            f"the last {one.steps} of {one.steps_seen} steps: of the others events "
            "were overwritten"
        )
    if one.ready is not None:
        yield f"{one.ready:.1f} elements of the infeed ready in the mean"
    share = one.recording_ns / one.step_ns if one.step_ns > 0 else 0.0
    if share > 0.005:
        yield f"recording took about {duration(one.recording_ns)} of a step"


def _threads(one: ProgramAccount) -> Table:
    rows = []
    kept = [getattr(thread, c) for thread in one.threads for c in _CATEGORIES]
    unit, size = _unit(*kept, 0)
    for category in _CATEGORIES:
        cells: list[str] = []
        for thread in one.threads:
            ns = getattr(thread, category)
            cells += [_in(size, ns), _share(ns, thread.total)]
        rows.append((category, *cells))
    names: list[str] = []
    for thread in one.threads:
        names += [f"{thread.name}, {unit}", ""]
    return Table("where a step's time goes", ("", *names), rows)


def _side_by_side(one: ProgramAccount, ipu: IpuTimes) -> Table:
    """Return what takes the time here, and what would there."""
    products = sum(line.ns for line in one.ops if line.is_product)
    here = {
        "products": products,
        "other ops": sum(line.ns for line in one.ops) - products,
        "infeed and outfeed": sum(t.infeed + t.outfeed for t in one.threads),
    }
    end = "a step, from begin to end"
    pairs = [(name, here.get(name), ns) for name, ns in ipu.classes.items()]
    pairs.append((end, one.step_ns, ipu.step_ns))
    unit, size = _unit(*(ns or 0.0 for _, ns, _ in pairs))
    rows: list[tuple[str, ...]] = [
        (name, "" if ns is None else _in(size, ns), _in(size, predicted))
        for name, ns, predicted in pairs
    ]
    title = f"here and on {ipu.machine}, as predicted"
    if ipu.has_unknown_turns:
        title += "; a loop of unknown turns counts once there"
    heads = ("all threads, all IPUs", f"here, {unit}", f"IPU, {unit}")
    return Table(title, heads, rows)


def _rate(line: Line) -> str:
    return f"{line.gflops:,.1f}" if line.is_product else ""


def _lines(
    title: str,
    first: str,
    lines: Sequence[Line],
    top: int,
    peak: float | None,
    ipu: dict[str, float] | None = None,
) -> Table:
    whole = sum(line.ns for line in lines)
    rest = sum(line.ns for line in lines[top:])
    unit, size = _unit(*(line.ns for line in lines[:top]), rest)
    columns: tuple[str, ...] = (
        first,
        "calls",
        f"{unit} a step",
        "share",
        "GFLOP/s a core",
    )
    of_ipu, part = _unit(*((ipu or {}).get(line.name, 0.0) for line in lines), 0.0)
    rows: list[tuple[str, ...]] = []
    for line in lines[:top]:
        row: tuple[str, ...] = (
            line.name or "(no line known)",
            f"{line.calls:.4g}",
            _in(size, line.ns),
            _share(line.ns, whole),
            _rate(line),
        )
        if peak:
            row = (*row, _share(line.gflops, peak) if line.is_product else "")
        if ipu is not None:
            row = (*row, _in(part, ipu[line.name]) if line.name in ipu else "")
        rows.append(row)
    if len(lines) > top:
        row = (f"{len(lines) - top} more", "", _in(size, rest), _share(rest, whole), "")
        rows.append(row)
    if peak:
        columns = (*columns, "of peak")
    if ipu is not None:
        columns = (*columns, f"IPU, {of_ipu}")
    rows = [row + ("",) * (len(columns) - len(row)) for row in rows]
    return Table(title, columns, rows)


def _shortened(lines: Sequence[Line]) -> list[Line]:
    """Return places with paths from the current folder on."""
    return [line._replace(name=_short(line.name)) for line in lines]


def _short(place: str) -> str:
    return place.removeprefix(os.getcwd() + os.sep)


def tables(
    one: ProgramAccount, top: int, peak: float | None = None
) -> tuple[str, list[Table]]:
    """Return the headline with notes, and the tables, of one program.

    Args:
        one: Its sums.
        top: How many ops and lines to show.
        peak: GFLOP/s of a core, where the share of it is to be shown.
    """
    notes = "".join(f"\n  {note}" for note in _notes(one))
    by = "time in kernels, all threads together, by "
    found = [_threads(one)]
    on_ipu = None
    if one.ipu is not None:
        found.append(_side_by_side(one, one.ipu))
        on_ipu = {_short(line): ns for line, ns in one.ipu.lines.items()}
    lines = _shortened(one.lines)
    return _headline(one, peak) + notes, [
        *found,
        _lines(by + "op", "op", one.ops, top, peak),
        _lines(by + "line", "line", lines, top, peak, on_ipu),
    ]


def _plain(table: Table) -> str:
    rows = as_text([table.columns, *table.rows], left=1)
    return f"  {table.title}\n{textwrap.indent(rows, '    ')}"


def _of_scaling(one: Scaling) -> tuple[str, list[Table]]:
    """Return the headline and the table of what more threads would gain."""
    head = (
        f"{one.name}, rehearsed: {one.steps} steps, {duration(one.step_ns)} a step on "
        f"one worker, {one.jobs} jobs, {100 * one.serial_share:.1f} % in no job"
    )
    columns = ("workers", "a step", "speed-up", "of them", "takes most", "", "since")
    rows: list[tuple[str, ...]] = [
        (
            str(row.workers),
            duration(row.step_ns),
            f"{row.speed_up:.2f}",
            _share(row.speed_up, row.workers),
            row.bound,
            _share(row.bound_share, 1.0),
            row.reason,
        )
        for row in one.scales
    ]
    return head, [Table("on workers that are not there", columns, rows)]


def _all(
    accounts: Sequence[ProgramAccount],
    scalings: Sequence[Scaling],
    top: int,
    peak: float | None,
) -> Iterator[tuple[str, list[Table]]]:
    for one in accounts:
        yield tables(one, top, peak)
    for scaling in scalings:
        yield _of_scaling(scaling)


def text(
    accounts: Sequence[ProgramAccount],
    scalings: Sequence[Scaling],
    top: int,
    peak: float | None,
) -> str:
    parts = []
    for head, found in _all(accounts, scalings, top, peak):
        parts.append("\n".join([head, *(_plain(table) for table in found)]))
    return "\n\n".join(parts)


def write(
    accounts: Sequence[ProgramAccount],
    scalings: Sequence[Scaling],
    top: int,
    peak: float | None,
    file: TextIO | None = None,
) -> None:
    """Print the tables: with rich on a terminal, else as plain text."""
    out = sys.stdout if file is None else file
    if not out.isatty():
        print(text(accounts, scalings, top, peak), file=out)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Rich

    console = Console(file=out, highlight=False)
    for head, found in _all(accounts, scalings, top, peak):
        console.print(f"\n[bold]{escape(head)}[/bold]")
        for table in found:
            shown = Rich(title=table.title, title_justify="left")
            for i, column in enumerate(table.columns):
                shown.add_column(column, justify="right" if i else "left")
            for row in table.rows:
                shown.add_row(*(escape(cell) for cell in row))
            console.print(shown)
