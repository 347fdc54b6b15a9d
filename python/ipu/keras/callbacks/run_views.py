# SPDX-License-Identifier: MIT
"""How ``ProgbarLogger`` shows a run: as lines, as tqdm's bars, as a notebook's table.

A run is a ``fit``, ``evaluate`` or ``predict``; a part of it is an epoch, or all of it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ipu._text import curves
from ipu._text.log import logger
from ipu._text.notebook import in_notebook
from ipu._text.tables import as_text, shown
from ipu.keras._backend_state import state
from ipu.keras.callbacks.callback import Logs

__all__ = ["RunView", "view_of"]

_REFRESH_S = 0.2  # of a notebook's display
_LEAST_BAR = "======"
_RATES = " [00:00<00:00, 12345.67step/s]"


class RunView(Protocol):
    """A view of a run. Calls of one view never overlap."""

    def begin(self, title: str, total: int | None) -> None:
        """Begin a part: an epoch's title, or "", and how many steps it has."""

    def advance(self, done: int) -> None:
        """Note that so many steps of the part are done."""

    def note(self, logs: Logs) -> None:
        """Show results of the part so far."""

    def end(self, done: int, total: int | None, logs: Logs | None) -> None:
        """End the part, with these results."""

    def stop(self) -> None:
        """End the run; a part that is still open ended early."""


def view_of(mode: str, verbose: Any) -> RunView:
    """Choose how a run is shown.

    Args:
        mode: ``"bar"``, ``"line"``, or ``"auto"``: by ``verbose`` and where it runs.
        verbose: 2 asks for lines.
    """
    if not state.is_interactive:
        return LoggedLines()
    if mode == "line" or (mode == "auto" and verbose == 2):
        return Lines()
    if in_notebook():
        return NotebookTable()
    return Bars() if mode == "bar" or sys.stdout.isatty() else Lines()


def _columns() -> int:
    """Return how wide the terminal is; where it says 0, as usual."""
    try:
        found = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError, AttributeError):
        found = 0
    return found or 80


class Lines:
    """One line for each part, when it has ended."""

    def begin(self, title: str, total: int | None) -> None:
        self._title = title
        self._started = time.monotonic()

    def advance(self, done: int) -> None:
        """Show nothing."""

    def note(self, logs: Logs) -> None:
        """Show nothing."""

    def _parts(self, done: int, total: int | None, logs: Logs | None) -> list[str]:
        """Return what the line of a part that has ended says."""
        parts = [self._title] if self._title else []
        parts += [f"{done}/{total or done}", f"{time.monotonic() - self._started:.1f}s"]
        return parts + [f"{key}: {shown(one)}" for key, one in (logs or {}).items()]

    def end(self, done: int, total: int | None, logs: Logs | None) -> None:
        self._write(" - ".join(self._parts(done, total, logs)))

    def _write(self, line: str) -> None:
        print(line, flush=True)

    def stop(self) -> None:
        """Show nothing."""


class LoggedLines(Lines):
    """The same lines, for the logger."""

    def _write(self, line: str) -> None:
        logger.info("%s", line)


class _Above:
    """A stream whose lines come above the bar that is open.

    A line waits until it is whole: the bar would be written over its beginning.
    """

    def __init__(self, stream: Any, aside: Callable[[], Any]) -> None:
        self._stream = stream
        self._aside = aside  # moves the bar out of the way
        self._begun = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._begun += text
        if text.endswith(("\n", "\r")):
            self.flush()
        return len(text)

    def flush(self) -> None:
        text, self._begun = self._begun, ""
        if text:
            with self._aside():
                self._stream.write(text)
        self._stream.flush()


class Bars(Lines):
    """A bar of tqdm while a part runs, and then a line with all of its results."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._undo = contextlib.ExitStack()

    def begin(self, title: str, total: int | None) -> None:
        super().begin(title, total)
        # imported where it is used: it would be half of the time of `import ipu`
        tqdm = importlib.import_module("tqdm").tqdm
        self._bar = tqdm(
            total=total,
            desc=title or None,
            unit="step",
            file=sys.stdout,
            mininterval=0.1,
            ncols=_columns(),
            leave=False,
        )
        aside = functools.partial(tqdm.external_write_mode, file=sys.stdout)
        above = {id(s): _Above(s, aside) for s in (sys.stdout, sys.stderr) if s}
        for name in ("stdout", "stderr"):
            old = getattr(sys, name)
            setattr(sys, name, above.get(id(old)))
            self._undo.callback(setattr, sys, name, old)
        logging = sys.modules.get("logging")
        for handler in logging.getLogger().handlers if logging is not None else ():
            old = getattr(handler, "stream", None)
            if id(old) in above:
                handler.setStream(above[id(old)])
                self._undo.callback(handler.setStream, old)
        for stream in above.values():
            self._undo.callback(stream.flush)

    def advance(self, done: int) -> None:
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def note(self, logs: Logs) -> None:
        """Show results: rates make room for them, then the last are left out."""
        bar = self._bar
        if bar is None:
            return
        bar.ncols = _columns()
        parts = [f"{key}={shown(value)}" for key, value in logs.items()]
        steps = f"{bar.total}/{bar.total}"
        room = bar.ncols - len(f"{self._title}: 100%|{_LEAST_BAR}| {steps}, ")
        bar.bar_format = None
        if len(", ".join(parts)) + len(_RATES) > room:
            whole = "{l_bar}{bar}| {n_fmt}/{total_fmt}{postfix}"
            bar.bar_format = whole if bar.total else "{desc}: {n_fmt}{unit}{postfix}"
            count = len(parts)
            while parts and len(", ".join(parts)) > room:
                count -= 1
                parts = [*parts[:count], "..."] if count else []
        bar.set_postfix_str(", ".join(parts), refresh=False)

    def end(self, done: int, total: int | None, logs: Logs | None) -> None:
        room = _columns() - 2  # for " -"
        parts = self._parts(done, total, logs)
        self._close(leave=False)
        seconds = time.monotonic() - self._started
        rate = f"{done / max(seconds, 1e-9):.0f} step/s"
        results = len(parts) - len(logs or {})
        rated = [*parts[:results], rate, *parts[results:]]
        if len(" - ".join(rated)) <= room:
            parts = rated
        line = parts[0]
        for part in parts[1:]:
            tail = line.rpartition("\n")[2]
            is_full = len(f"{tail} - {part}") > room
            line += f" -\n    {part}" if is_full else f" - {part}"
        print(line, flush=True)

    def stop(self) -> None:
        """Leave the bar of a part that has not ended as it is."""
        self._close(leave=True)

    def _close(self, leave: bool) -> None:
        bar, self._bar = self._bar, None
        self._undo.close()
        if bar is not None:
            bar.leave = leave
            bar.close()


class NotebookTable:
    """One display for the whole run: a table with a row for each part.

    Of many parts it shows the first and the last ones, and curves of all.

    It is updated in place, as HTML and as plain text, so the saved notebook shows what
    it showed last, wherever it is opened; no widget is needed for that.
    """

    def __init__(self) -> None:
        self._rows: list[dict[str, str]] = []
        self._series: dict[str, list[float]] = {}
        self._display: Any = None
        self._shown_at = 0.0
        self._total: int | None = None
        self._is_open = False

    def begin(self, title: str, total: int | None) -> None:
        self._started = time.monotonic()
        self._total = total
        self._is_open = True
        self._rows.append({"epoch": title.removeprefix("Epoch ")} if title else {})
        self.advance(0)

    def advance(self, done: int) -> None:
        if not self._is_open:
            return
        row = self._rows[-1]
        row["steps"] = f"{done}/{self._total or '?'}"
        row["time"] = f"{time.monotonic() - self._started:.1f}s"
        if time.monotonic() - self._shown_at > _REFRESH_S:
            self._show()

    def note(self, logs: Logs) -> None:
        if self._is_open:
            self._rows[-1].update({key: shown(v) for key, v in logs.items()})

    def end(self, done: int, total: int | None, logs: Logs | None) -> None:
        self._total = total or done
        self.note(logs or {})
        for name, value in (logs or {}).items():
            if isinstance(value, float):
                self._series.setdefault(name, []).append(value)
        self.advance(done)
        self._is_open = False

    def stop(self) -> None:
        if self._is_open:
            self._rows[-1]["steps"] += " stopped"
            self._is_open = False
        if self._rows:
            self._show()
            self._rows = []

    def _show(self) -> None:
        rows = self._rows
        names = list(dict.fromkeys(name for row in rows[-2:] for name in row))
        table = [[row.get(name, "") for name in names] for row in rows]
        cells = [names, *curves.folded(table)]
        forms = {"text/plain": as_text(cells), "text/html": _as_html(cells)}
        if curves.is_folded(rows):
            forms["text/plain"] += "\n\n" + curves.as_blocks(self._series)
            forms["text/html"] += curves.as_svg(self._series)
        if self._display is None:
            display = importlib.import_module("IPython.display").display
            self._display = display(forms, raw=True, display_id=True)
        else:
            self._display.update(forms, raw=True)
        self._shown_at = time.monotonic()


def _as_html(cells: Sequence[Sequence[str]]) -> str:
    import html  # slow to import

    style = "text-align: right; white-space: nowrap"
    head, *rows = [
        "".join(f'<{tag} style="{style}">{html.escape(text)}</{tag}>' for text in row)
        for tag, row in zip(["th"] + ["td"] * len(cells), cells, strict=False)
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        '<div style="overflow-x: auto"><table style="font-family: monospace">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
