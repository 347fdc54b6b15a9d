# SPDX-License-Identifier: MIT
"""``ipu.Timetable``: what it tells, and its pictures."""

from __future__ import annotations

import itertools
import json
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import ipu
from ipu._config import schedules
from ipu._config.schedules import PipelineSchedule
from ipu._reports.timetable.boxes import KINDS, colour, ink
from ipu.tf import errors

SVG = "{http://www.w3.org/2000/svg}"
NAMES = [schedule.core_name for schedule in PipelineSchedule]


def tables() -> list[ipu.Timetable]:
    """Of every schedule: few and many stages and micro-batches, there and back."""
    found = []
    for name, stages, training in itertools.product(NAMES, (1, 2, 4, 8), (True, False)):
        for times in (1, 2, 40):
            shares = name == "Interleaved1F1B" and stages >= 4
            mapping = [k % (stages // 2 if shares else stages) for k in range(stages)]
            count = 2 * stages * times
            found.append(ipu.Timetable(name, stages, mapping, count, training))
    return found


def recorded(timetable: ipu.Timetable) -> list[tuple[int, str, int, int, int, int]]:
    """As if a pass took as many nanoseconds as its place in a list says."""
    rows, clock = [], 5_000_000_000
    for ipu_number in sorted(set(timetable.ipus)):
        actions = timetable._core.actions(ipu_number).tolist()
        for i, (kind, stage, micro_batch, time) in enumerate(actions):
            begin = clock + 1_000_000 * time
            row = (ipu_number, KINDS[kind], stage, micro_batch, begin)
            rows.append((*row, begin + 400_000 + 1000 * i))
    return rows


# --- what it tells --------------------------------------------------------------------


def test_names_of_schedules() -> None:
    assert [s.value for s in PipelineSchedule] == list(range(7))
    assert [s.name for s in PipelineSchedule][:3] == [
        "Grouped",
        "Interleaved",
        "Sequential",
    ]
    assert (
        "Grouped Interleaved Sequential GPipe 1F1B Interleaved1F1B ZeroBubble".split()
    ) == NAMES
    for schedule in PipelineSchedule:
        for value in (
            schedule,
            schedule.name,
            schedule.core_name,
            schedule.core_name.lower(),
        ):
            assert PipelineSchedule.parse(value) is schedule
        assert ipu.Timetable(schedule, 2).schedule == schedule.core_name
    with pytest.raises(
        ValueError, match=r"no pipeline schedule 'fast'\. There are 'Gr"
    ):
        PipelineSchedule.parse("fast")
    with pytest.raises(TypeError, match="but got 3 of type int"):
        PipelineSchedule.parse(3)  # type: ignore[arg-type]


def test_what_it_tells() -> None:
    table = ipu.Timetable("Grouped", 4, micro_batches=16)
    assert (table.stages, table.ipus, table.positions) == (
        4,
        [0, 1, 2, 3],
        [0, 1, 2, 3],
    )
    assert (table.micro_batches, table.time_steps, table.in_flight) == (16, 23, 8)
    assert table.idle_share == pytest.approx(7 / 23)
    assert table.fifo_depths == [6, 4, 2, 0]
    assert table.stash_depths == [8, 6, 4, 2]
    assert [n for n in range(1, 30) if n in table.legal_counts] == [8, 16, 24]
    assert table.recorded is None and table.recorded_idle_share is None
    assert repr(table) == (
        "<ipu.Timetable: Grouped: training of 4 stages on 4 IPUs, 16 micro-batches>"
    )


def test_the_number_of_micro_batches_is_legal_by_itself() -> None:
    for name in NAMES:
        for stages in range(1, 9):
            table = ipu.Timetable(name, stages)
            assert table.micro_batches in table.legal_counts
            assert table.micro_batches >= 2 * stages


def test_stages_have_names_and_can_be_concurrent() -> None:
    table = ipu.Timetable("GPipe", ["embed", ["text", "image"], "head"])
    assert table.names == ["embed", "text", "image", "head"]
    assert table.ipus == [0, 1, 2, 3]
    assert table.positions == [0, 1, 1, 2]
    assert "text   1    5 micro-batches" in str(table)
    assert max(map(len, str(ipu.Timetable("GPipe", ["a" * 99, "b"])).split("\n"))) <= 80
    table = ipu.Timetable("Grouped", device_mapping=[0, [1, 2], 2, 3])
    assert table.names == [f"stage {k}" for k in range(5)]
    assert table.ipus == [0, 1, 2, 2, 3]


def test_bad_arguments() -> None:
    with pytest.raises(errors.FailedPreconditionError, match="must be a multiple of 4"):
        ipu.Timetable("Grouped", 2, micro_batches=6)
    with pytest.raises(NotImplementedError, match="The pipelining schedule 'Inter"):
        ipu.Timetable("Interleaved", device_mapping=[0, 1, 0])
    with pytest.raises(
        ValueError, match="Each stage must be mapped to an IPU: 3 mappings != 2 stages"
    ):
        ipu.Timetable("Grouped", 2, [0, 1, 2])
    with pytest.raises(
        TypeError, match="device_mapping argument needs to be a list or a tuple"
    ):
        ipu.Timetable("Grouped", 2, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="concurrent stages need a list"):
        ipu.Timetable("Grouped", ["a", ["b", "c"]], [0, 1])
    with pytest.raises(ValueError, match="but got -1"):
        ipu.Timetable("Grouped", 2, [0, -1])
    with pytest.raises(ValueError, match="at least one stage"):
        ipu.Timetable("Grouped", 0)
    with pytest.raises(ValueError, match=r"recorded passes are .* but got \(1, 'F', 0"):
        ipu.Timetable("1F1B", 2, recorded=[(1, "F", 0, 0, 0, 5)])
    grid = ipu.Timetable("Sequential", 1, micro_batches=2).grid
    with pytest.raises(errors.InvalidArgumentError, match=r"F0\(1\) is missing"):
        ipu.Timetable.parse(grid.replace("F0(1)", "     "))


# --- text -----------------------------------------------------------------------------


def test_the_text_fits_80_columns() -> None:
    for table in tables():
        lines = str(table).splitlines()
        assert max(map(len, lines)) <= 80, table
        shown = [line for line in lines if line.startswith("IPU ")]
        assert len(shown) == len(set(table.ipus))
        assert any("F" in line[6:] for line in shown)


def test_the_text_shows_every_pass_that_has_room() -> None:
    for table in tables():
        if table.stages != table.ipus[-1] + 1:
            continue
        text = table.to_text(width=3000)
        cells = re.findall(r"(?<=[ |])[FBIW]\d+(?=\s|$)", text)
        if table.time_steps < 300:
            each = sum(len(table._core.actions(i)) for i in set(table.ipus))
            assert len(cells) == each


def test_a_cut_is_marked_and_both_ends_are_there() -> None:
    text = str(ipu.Timetable("1F1B", 4, micro_batches=500))
    rows = [line for line in text.splitlines() if line.startswith("IPU")]
    assert all("..." in row for row in rows)
    assert rows[0].startswith("IPU 0 F0 F1 F2 F3") and rows[0].endswith("B499")


# --- pictures -------------------------------------------------------------------------


def luminance(code: str) -> float:
    parts = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_numbers_are_readable_on_their_boxes() -> None:
    """WCAG's contrast: 4.5 and more."""
    for stage, kind in itertools.product(range(32), KINDS):
        pair = sorted([luminance(colour(stage, kind)), luminance(ink(kind))])
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (stage, kind)


def test_stages_and_kinds_have_colours_of_their_own() -> None:
    codes = [colour(stage, kind) for stage in range(16) for kind in "FBW"]
    assert len(set(codes)) == len(codes)


def boxes_in(svg: str) -> list[tuple[str, float, float, float]]:
    """(title, x, y, width) of each pass."""
    found = []
    for box in ET.fromstring(svg).iter(f"{SVG}rect"):
        title = box.find(f"{SVG}title")
        if title is not None:
            x, y, width = (float(box.get(key, "0")) for key in ("x", "y", "width"))
            found.append((title.text or "", x, y, width))
    return found


def test_the_picture_has_every_pass_once_and_none_on_another() -> None:
    for table in tables():
        found = boxes_in(table.to_svg())
        if table.time_steps <= 40:
            each = sum(len(table._core.actions(i)) for i in set(table.ipus))
            assert len(found) == each
        assert len({title for title, *_ in found}) == len(found)
        lanes: dict[float, list[tuple[float, float]]] = {}
        for _, x, y, width in found:
            lanes.setdefault(y, []).append((x, x + width))
        for spans in lanes.values():
            for (_, end), (begin, _) in itertools.pairwise(sorted(spans)):
                assert end <= begin


def test_the_picture_brings_nothing_into_a_page() -> None:
    html = ipu.Timetable("1F1B", ["<script>", "b & c"])._repr_html_()
    assert "<style" not in html and "<script" not in html and "href" not in html
    ET.fromstring(html)
    table = ipu.Timetable("1F1B", 2)
    assert table._repr_svg_() == table.to_svg()
    ET.fromstring(table.to_svg())


def test_recorded_times_are_what_is_drawn() -> None:
    plain = ipu.Timetable("1F1B", 3, micro_batches=6)
    rows = recorded(plain)
    table = ipu.Timetable("1F1B", 3, micro_batches=6, recorded=rows)
    assert table.recorded == rows
    busy = sum(end - begin for *_, begin, end in rows)
    span = max(row[5] for row in rows) - min(row[4] for row in rows)
    assert table.recorded_idle_share == pytest.approx(1 - busy / (3 * span))
    found = boxes_in(table.to_svg())
    assert len(found) == len(rows)
    scale = (max(x + w for _, x, _, w in found) - min(x for _, x, *_ in found)) / span
    for (_, _, _, width), row in zip(found[:1], rows[:1], strict=True):
        assert width == pytest.approx(scale * (row[5] - row[4]), abs=2.5)
    assert "recorded: " in str(table) and "recorded: " in table.to_svg()


# --- traces ---------------------------------------------------------------------------


def load_trace(table: ipu.Timetable, folder: Path) -> list[dict[str, Any]]:
    table.save_trace(folder / "trace.json")
    events: list[dict[str, Any]] = json.loads((folder / "trace.json").read_text())[
        "traceEvents"
    ]
    return events


def test_a_trace_has_a_track_for_each_ipu_and_nothing_overlaps(tmp_path: Path) -> None:
    for table in tables():
        if table.time_steps > 100:
            continue
        events = load_trace(table, tmp_path)
        names = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
        assert names == [f"IPU {ipu_number}" for ipu_number in sorted(set(table.ipus))]
        passes = [e for e in events if e["ph"] == "X"]
        assert len(passes) == sum(len(table._core.actions(i)) for i in set(table.ipus))
        for ipu_number in set(table.ipus):
            track = [e for e in passes if e["tid"] == ipu_number]
            track.sort(key=lambda e: e["ts"])
            for before, behind in itertools.pairwise(track):
                assert before["ts"] + before["dur"] <= behind["ts"] + 1e-6
        arrows = [e for e in events if e["ph"] in "stf"]
        starts = {e["id"] for e in arrows if e["ph"] == "s"}
        assert starts == set(range(table.micro_batches))


def test_a_trace_of_recorded_times(tmp_path: Path) -> None:
    rows = recorded(ipu.Timetable("ZeroBubble", 2, micro_batches=4))
    table = ipu.Timetable("ZeroBubble", 2, micro_batches=4, recorded=rows)
    passes = [e for e in load_trace(table, tmp_path) if e["ph"] == "X"]
    origin = rows[0][4]
    assert [(e["tid"], e["ts"], e["dur"]) for e in passes] == [
        (ipu_number, (begin - origin) / 1000, (end - begin) / 1000)
        for ipu_number, _, _, _, begin, end in rows
    ]


def test_arrows_of_a_trace_stay_in_their_run(tmp_path: Path) -> None:
    """A pipeline that ran twice has two ways of each micro-batch."""
    once = recorded(ipu.Timetable("1F1B", 2, micro_batches=3))
    again = [(*row[:4], row[4] + 10**9, row[5] + 10**9) for row in once]
    table = ipu.Timetable("1F1B", 2, micro_batches=3, recorded=[*once, *again])
    arrows = [e for e in load_trace(table, tmp_path) if e["ph"] in "stf"]
    ways: dict[int, list[float]] = {}
    for arrow in arrows:
        ways.setdefault(arrow["id"], []).append(arrow["ts"])
    assert len(ways) == 6
    assert all(max(times) - min(times) < 5e5 for times in ways.values())
    assert sum(arrow["ph"] == "s" for arrow in arrows) == 6


# --- matplotlib -----------------------------------------------------------------------


def test_without_matplotlib_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install ipu\[plot\]"):
        ipu.Timetable("1F1B", 2).plot()


def test_plot_draws_every_pass() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    for name in NAMES:
        table = ipu.Timetable(name, 4)
        axes = table.plot()
        assert len(axes.patches) == sum(len(table._core.actions(i)) for i in range(4))
        _, own = pyplot.subplots()
        rows = recorded(table)
        drawn = ipu.Timetable(name, 4, recorded=rows).plot(own)
        assert drawn is own and len(own.patches) == len(rows)
        pyplot.close("all")


def test_the_core_is_called_with_the_exceptions_of_the_api() -> None:
    def fail() -> None:
        raise errors.UnimplementedError("not for these")

    with pytest.raises(NotImplementedError, match="not for these"):
        schedules.call_core(fail)


# --- the page about schedules ---------------------------------------------------------

DOCS = Path(__file__).resolve().parent.parent / "docs"
EXAMPLE = re.compile(r"```\n>>> print\(([^\n]*)\)\n(.*?)```", re.DOTALL)


def test_the_page_shows_what_is_printed() -> None:
    """IPU_UPDATE_GOLDEN=1 writes it anew."""
    page = DOCS / "schedules.md"

    def shown(match: re.Match[str]) -> str:
        text = str(eval(match[1], {"ipu": ipu})).rstrip("\n")
        return f"```\n>>> print({match[1]})\n{text}\n```"

    text = EXAMPLE.sub(shown, page.read_text())
    if os.environ.get("IPU_UPDATE_GOLDEN") == "1":
        page.write_text(text)
    assert page.read_text() == text
    assert len(EXAMPLE.findall(text)) == 8


@pytest.mark.parametrize("name", NAMES)
def test_the_pictures_of_the_page(name: str) -> None:
    arguments = next(
        call
        for call, _ in EXAMPLE.findall((DOCS / "schedules.md").read_text())
        if f'"{name}"' in call
    )
    path = DOCS / "schedules" / f"{name}.svg"
    svg = eval(arguments, {"ipu": ipu}).to_svg() + "\n"
    if os.environ.get("IPU_UPDATE_GOLDEN") == "1":
        path.write_text(svg)
    assert path.read_text() == svg


def test_short_passes_are_seen_beside_long_ones() -> None:
    rows = [(0, "F", 0, 0, 0, 10), (1, "F", 1, 0, 10, 1_350_000)]
    table = ipu.Timetable("1F1B", 2, micro_batches=1, training=False, recorded=rows)
    assert "recorded: 1.35 ms, " in str(table)
    widths = re.findall(r'<rect [^>]*width="([\d.]+)"[^>]*><title>', table.to_svg())
    assert len(widths) == 2 and min(map(float, widths)) >= 0.8


def test_a_saved_plot_has_all_of_its_labels() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs '.[plot]'")
    pyplot.switch_backend("agg")
    table = ipu.Timetable("1F1B", ["the words", "a", "b", "c"])
    _, (above, below) = pyplot.subplots(2, 1)
    for axes in (table.plot(), table.plot(above), table.plot(below)):
        figure = axes.figure
        figure.canvas.draw()
        parts = [axes.get_legend(), axes.title, axes.xaxis.label]
        boxes = [one.get_window_extent() for one in parts]
        for box in boxes:
            assert box.x0 >= 0 and box.x1 <= figure.bbox.x1
            assert box.y0 >= 0 and box.y1 <= figure.bbox.y1
        assert not boxes[0].overlaps(boxes[2])
    assert (
        above.get_legend().get_window_extent().y0 > below.title.get_window_extent().y1
    )
    pyplot.close("all")
