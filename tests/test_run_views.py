# SPDX-License-Identifier: MIT
"""What ``ProgbarLogger`` shows, and when: lines, bars of tqdm, a notebook's table."""

from __future__ import annotations

import contextlib
import html
import io
import logging
import re
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ipu import keras
from ipu.keras.callbacks import progbar, run_views
from ipu.keras.callbacks.run_views import Bars, Lines, LoggedLines, NotebookTable


class Screen(io.StringIO):
    """A standard output that may be a terminal."""

    is_terminal = False
    flushed = ""

    def isatty(self) -> bool:
        return self.is_terminal

    def flush(self) -> None:
        self.flushed = self.getvalue()


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


def opened(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Begin to write to a screen; in a fixture it is too early, pytest writes, too."""
    made = Screen()
    made.fileno = lambda: 5  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", made)
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(run_views, "time", made)
    return made


# --- the callback ---------------------------------------------------------------------


class View:
    """Notes what it is told."""

    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given: self.calls.append((name, *given))


class Table(NotebookTable):
    def _show(self) -> None:
        pass


def test_what_a_view_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    views = iter([*[View(calls)] * 4, Table(), Table()])
    asked: list[Any] = []

    def view_of(*given: Any) -> Any:
        asked.append(given)
        return next(views)

    def told() -> list[Any]:
        found = [*calls]
        calls.clear()
        return found

    monkeypatch.setattr(progbar, "view_of", view_of)
    monkeypatch.setattr(progbar, "cell", lambda: 7)
    log = keras.callbacks.ProgbarLogger(mode="bar")
    log._on_steps_executed(1)  # nothing is open: nothing is shown
    log.on_train_batch_end(0, {"loss": 1.0})
    log.on_epoch_end(0)
    log.on_train_end()
    log.on_epoch_begin(0)
    log.on_epoch_end(0)
    log.on_train_end()
    assert asked == [("bar", None)]
    ended = [("end", 0, None, None), ("stop",)]
    assert told() == [("begin", "Epoch 1/None", None), *ended]
    log.set_params({"verbose": 2, "epochs": 3, "steps": 4})
    log.on_train_begin()
    log.on_epoch_begin(0)
    for done in (2, 2, 1):
        log._on_steps_executed(done)
    log.on_train_batch_end(2, {"loss": 1.0})
    log.on_train_batch_end(3, {})
    log.on_test_begin()  # the validation is not shown
    log.on_test_batch_end(5, {"loss": 2.0})
    log.on_test_end({"loss": 2.0})
    log.on_epoch_end(0, {"loss": 0.5})
    log.on_epoch_begin(1)
    log._on_steps_executed(1)
    log.on_train_end()
    log.on_train_end()
    assert asked[1:] == [("bar", 2)]
    assert told() == [
        ("begin", "Epoch 1/3", 4),
        ("advance", 2),
        *(("note", {"loss": 1.0}), ("advance", 3), ("advance", 4)),
        ("end", 4, 4, {"loss": 0.5}),
        *(("begin", "Epoch 2/3", 4), ("advance", 1), ("stop",)),
    ]
    log.on_test_begin()
    log.on_test_batch_end(0, {"loss": 2.0})
    log.on_test_end({"loss": 3.0})
    log.on_predict_begin()
    log.on_predict_batch_end(1, {"outputs": 3})
    log.on_predict_end()
    assert told() == [
        *(("begin", "", 4), ("note", {"loss": 2.0}), ("advance", 1)),
        *(("end", 1, 4, {"loss": 3.0}), ("stop",)),
        *(("begin", "", 4), ("advance", 2), ("end", 2, 4, None), ("stop",)),
    ]
    assert len(asked) == 4
    for history in (keras.callbacks.History(), None):
        log.set_model(SimpleNamespace(history=history))
        log.on_train_end()
        assert history is None or history._shown_in is None
        log.on_epoch_begin(0)
        log.on_train_end()
        assert history is None or history._shown_in == 7


def test_which_view_is_chosen(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    screen = opened(monkeypatch)

    def chosen(terminal: bool) -> list[type]:
        screen.is_terminal = terminal
        asked = [("auto", 1), ("auto", 2), ("bar", 1), ("bar", 2), ("line", 1)]
        return [type(run_views.view_of(*one)) for one in asked]

    assert chosen(False) == [Lines, Lines, Bars, Bars, Lines]
    assert chosen(True) == [Bars, Lines, Bars, Bars, Lines]
    monkeypatch.setattr(run_views, "in_notebook", lambda: True)
    table = NotebookTable
    assert chosen(False) == [table, Lines, table, table, Lines]
    monkeypatch.setattr(run_views.state, "is_interactive", False)
    assert chosen(True) == [LoggedLines] * 5
    view = LoggedLines()
    view.begin("Epoch 1/1", 3)
    with caplog.at_level(logging.INFO, "ipu"):
        view.end(3, 3, {"loss": 0.5})
    assert caplog.messages == ["Epoch 1/1 - 3/3 - 0.0s - loss: 0.5000"]
    assert screen.getvalue() == ""


# --- lines ----------------------------------------------------------------------------


def test_lines(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = opened(monkeypatch)
    clock.now = 5.0
    view = Lines()
    view.begin("Epoch 1/2", 6)
    view.advance(2)
    view.note({"loss": 2.0})
    clock.now = 6.5
    view.end(3, 6, {"loss": 0.5, "mae": 1})
    assert screen.flushed == "Epoch 1/2 - 3/6 - 1.5s - loss: 0.5000 - mae: 1\n"
    view.begin("", None)
    view.end(4, None, None)
    view.stop()
    assert screen.flushed.splitlines()[1:] == ["4/4 - 0.0s"]


# --- bars -----------------------------------------------------------------------------


class Bar:
    """What tqdm was told."""

    made: list[Bar] = []  # noqa: RUF012
    writing = 0

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.total = options["total"]
        self.ncols = options["ncols"]
        self.n = 0
        self.bar_format: Any = None
        self.shown = ""
        self.is_closed = False
        self.made.append(self)

    @classmethod
    @contextlib.contextmanager
    def external_write_mode(cls, file: Any) -> Iterator[None]:
        assert file is cls.made[-1].options["file"]
        cls.writing += 1
        yield

    def update(self, count: int) -> None:
        self.n += count

    def set_postfix_str(self, text: str, refresh: bool) -> None:
        assert not refresh
        self.shown = text

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def width(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The width of the terminal, whose bars are :class:`Bar`; None: not known."""
    told = SimpleNamespace(columns=None)

    def size(descriptor: int) -> Any:
        assert descriptor == 5
        return told

    monkeypatch.setattr(run_views.os, "get_terminal_size", size)
    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace(tqdm=Bar))
    Bar.writing = 0
    yield told
    Bar.made.clear()


def test_a_bar_makes_room_for_lines(
    clock: Clock, width: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = opened(monkeypatch)
    other = Screen()
    monkeypatch.setattr(sys, "stderr", other)
    handler = logging.StreamHandler(other)
    elsewhere = logging.StreamHandler(io.StringIO())
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler, elsewhere])
    view = Bars()
    view.advance(1)  # without a bar nothing happens
    view.note({"loss": 1.0})
    view.stop()
    view.begin("Epoch 1/2", 6)
    (bar,) = Bar.made
    assert bar.options == {
        **{"total": 6, "desc": "Epoch 1/2", "unit": "step", "file": screen},
        **{"mininterval": 0.1, "ncols": 80, "leave": False},
    }
    for done in (2, 5):
        view.advance(done)
        assert bar.n == done
    assert sys.stdout.isatty() is False  # all else is the stream's
    assert sys.stdout.write("half ") == 5 and screen.getvalue() == ""
    assert Bar.writing == 0
    print("a line")
    assert screen.flushed == "half a line\n" and Bar.writing == 1
    sys.stdout.write("over\r")
    assert screen.flushed == "half a line\nover\r" and Bar.writing == 2
    sys.stdout.flush()
    assert Bar.writing == 2
    logging.getLogger().warning("logged")
    assert other.flushed == "logged\n" and Bar.writing == 3
    print("begun", end="")
    print("an error", end="", file=sys.stderr)
    view.end(5, 6, {})
    assert sys.stdout is screen and sys.stderr is other and handler.stream is other
    assert bar.is_closed and bar.leave is False
    assert other.getvalue() == "logged\nan error"
    told = screen.getvalue().removeprefix("half a line\nover\rbegun")
    assert (
        told == "Epoch 1/2 - 5/6 - 0.0s - 5000000000 step/s\n" == screen.flushed[-43:]
    )
    monkeypatch.setattr(sys, "stderr", None)
    view.begin("", None)
    bar = Bar.made[-1]
    assert bar.options["desc"] is None and bar.options["total"] is None
    view.stop()
    assert bar.is_closed and bar.leave is True and sys.stdout is screen


def test_results_beside_a_bar(
    clock: Clock, width: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(monkeypatch)
    width.columns = 200
    view = Bars()
    view.begin("E", 60)
    (bar,) = Bar.made
    logs = {"a": 1, "b": 2, "c": 3}
    whole = "{l_bar}{bar}| {n_fmt}/{total_fmt}{postfix}"
    room = len("E: 100%|======| 60/60, ")
    rates = len(" [00:00<00:00, 12345.67step/s]")
    for spare, shown, form in (
        (13 + rates, "a=1, b=2, c=3", None),
        (13 + rates - 1, "a=1, b=2, c=3", whole),
        (13, "a=1, b=2, c=3", whole),
        (12, "a=1, ...", whole),
        (8, "a=1, ...", whole),
        (7, "", whole),
        (-5, "", whole),
        (13 + rates, "a=1, b=2, c=3", None),
    ):
        width.columns = room + spare
        view.note(logs)
        assert (bar.shown, bar.bar_format, bar.ncols) == (shown, form, room + spare)
    view.stop()
    view.begin("E", None)
    width.columns = 30
    view.note(logs)
    assert Bar.made[-1].bar_format == "{desc}: {n_fmt}{unit}{postfix}"
    view.stop()


def test_the_line_after_a_bar(
    clock: Clock, width: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = opened(monkeypatch)

    def line(columns: int, logs: Any) -> str:
        screen.truncate(0)
        screen.seek(0)
        view = Bars()
        width.columns = columns
        clock.now = 1.0
        view.begin("Epoch", 6)
        clock.now = 3.0
        view.end(6, 6, logs)
        assert screen.flushed == screen.getvalue()
        return screen.getvalue()

    logs = {"a": 1, "b": 2}
    rated = "Epoch - 6/6 - 2.0s - 3 step/s - a: 1 - b: 2\n"
    assert line(len(rated) + 1, logs) == rated
    plain = "Epoch - 6/6 - 2.0s - a: 1 - b: 2\n"
    assert line(len(rated), logs) == plain
    assert line(len(plain) + 1, logs) == plain
    folded = "Epoch - 6/6 - 2.0s - a: 1 -\n    b: 2\n"
    assert line(len(plain), logs) == folded
    narrow = "Epoch - 6/6 -\n    2.0s - a: 1 -\n    b: 2\n"
    assert line(len("    2.0s - a: 1") + 2, logs) == narrow
    assert line(80, None) == "Epoch - 6/6 - 2.0s - 3 step/s\n"


def test_widths_that_are_not_known(width: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(monkeypatch)
    assert run_views._columns() == 80
    for width.columns, found in ((0, 80), (132, 132)):
        assert run_views._columns() == found
    monkeypatch.setattr(sys, "stdout", None)
    assert run_views._columns() == 80


# --- a notebook's table ---------------------------------------------------------------


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What one display of a notebook has shown."""
    found: list[dict[str, str]] = []

    def update(forms: dict[str, str], raw: bool) -> None:
        assert raw
        found.append(forms)

    def display(forms: dict[str, str], raw: bool, display_id: bool) -> Any:
        assert display_id and not found
        update(forms, raw)
        return SimpleNamespace(update=update)

    made = SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "IPython.display", made)
    return found


def test_a_table_grows(clock: Clock, shown: list[dict[str, str]]) -> None:
    def rows() -> list[list[str]]:
        text, page = shown[-1]["text/plain"], html.unescape(shown[-1]["text/html"])
        found = [line.split() for line in text.splitlines()]
        cells = [re.findall(r"<t[hd] [^>]*>(.*?)</t", p) for p in page.split("<tr>")]
        assert [" ".join(row).split() for row in cells[1:]] == found
        return found

    table = NotebookTable()
    table.stop()  # nothing was shown
    table.advance(1)
    table.note({"loss": 1.0})
    clock.now = 0.2
    table.begin("Epoch 1/3", 4)
    assert not shown
    clock.now = 1.0
    table.advance(1)
    assert rows() == [["epoch", "steps", "time"], ["1/3", "1/4", "0.8s"]]
    clock.now = 1.125
    table.note({"a<b": 0.5, "lr": 2})
    table.advance(2)
    assert len(shown) == 1  # not again so soon
    clock.now = 1.25
    table.advance(3)
    assert rows()[1] == ["1/3", "3/4", "1.1s", "0.5000", "2"]
    assert "a&lt;b" in shown[-1]["text/html"]
    table.end(3, None, {"a<b": 0.25, "lr": 2})
    clock.now = 2.0
    table.advance(4)  # it has ended
    table.note({"a<b": 7.0})
    table.begin("Epoch 2/3", None)
    assert rows()[1:] == [["1/3", "3/3", "1.1s", "0.2500", "2"], ["2/3", "0/?", "0.0s"]]
    table.end(5, 6, None)
    clock.now = 3.0
    table.begin("Epoch 3/3", 4)
    # columns are those of the last two parts
    assert [len(row) for row in rows()] == [3, 3, 3, 3]
    assert rows()[2] == ["2/3", "5/6", "0.0s"]
    table.stop()
    assert rows()[3] == ["3/3", "0/4", "stopped", "0.0s"]
    count = len(shown)
    table.stop()
    assert len(shown) == count and "<svg" not in shown[-1]["text/html"]
    table.begin("", 4)
    table.end(4, 4, {})
    table.stop()
    assert rows() == [["steps", "time"], ["4/4", "0.0s"]]


def test_many_parts_have_curves(clock: Clock, shown: list[dict[str, str]]) -> None:
    table = NotebookTable()
    for epoch in range(25):
        table.begin(f"Epoch {epoch + 1}/25", 1)
        table.end(1, 1, {"loss": 25.0 - epoch, "count": epoch})
    table.stop()
    ((text, page),) = (one.values() for one in shown)
    assert "\n\nloss  █" in text and text.endswith("25.0000 -> 1.0000")
    assert page.startswith('<div style="overflow-x: auto"><table style="font-family')
    assert page.count("<tr>") == 17 and page.count("<svg") == 1
    assert page.count("<th style=") == 5 and page.count("<td style=") == 5 * 15 + 1
