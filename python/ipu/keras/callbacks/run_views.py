# SPDX-License-Identifier: MIT
"""How ``ProgbarLogger`` shows a run: as lines, as tqdm's bars, as a notebook's table.

A run is a ``fit``, ``evaluate`` or ``predict``; a part of it is an epoch, or all of it.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from typing import Any, Protocol

from ipu._text.notebook import in_notebook
from ipu._text.tables import as_text
from ipu.keras.callbacks.callback import Logs

__all__ = ["RunView", "view_of"]

_REFRESH_S = 0.2  # of a notebook's display
_ROWS_WHILE_RUNNING = 12  # a long run sends its last epochs alone until it ends


class RunView(Protocol):
    """What a run is shown by. Calls of one view never overlap."""

    def begin(self, title: str, total: int | None) -> None:
        """A part begins: an epoch's title, or "", and how many steps it has."""

    def advance(self, done: int) -> None:
        """So many steps of the part are done."""

    def note(self, logs: Logs) -> None:
        """Show results of the part so far."""

    def end(self, done: int, total: int | None, logs: Logs | None) -> None:
        """The part has ended, with these results."""

    def stop(self) -> None:
        """The run is over: where a part has not ended, it ended early."""


def view_of(mode: str, verbose: Any) -> RunView:
    """Choose how a run is shown.

    Args:
        mode: ``"bar"``, ``"line"``, or ``"auto"``: by ``verbose`` and where it runs.
        verbose: 2 asks for lines.
    """
    if mode == "line" or (mode == "auto" and verbose == 2):
        return Lines()
    if in_notebook():
        return NotebookTable()
    return Bars() if mode == "bar" or sys.stdout.isatty() else Lines()


def _shown(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4f}" if abs(value) > 1e-3 or value == 0 else f"{value:.4e}"


class Lines:
    """One line for each part, when it has ended."""

    def begin(self, title: str, total: int | None) -> None:
        self._title = title
        self._started = time.monotonic()

    def advance(self, done: int) -> None:
        """Nothing is shown."""

    def note(self, logs: Logs) -> None:
        """Nothing is shown."""

    def end(self, done: int, total: int | None, logs: Logs | None) -> None:
        parts = [self._title] if self._title else []
        parts += [f"{done}/{total or done}", f"{time.monotonic() - self._started:.1f}s"]
        parts += [f"{key}: {_shown(value)}" for key, value in (logs or {}).items()]
        print(" - ".join(parts), flush=True)

    def stop(self) -> None:
        """Nothing is shown."""


def _size() -> dict[str, Any]:
    """What to tell tqdm of the terminal's size: where it says 0, an usual one."""
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError, AttributeError):
        columns = 1
    if columns > 0:
        return {"dynamic_ncols": True}
    return {"ncols": 80, "nrows": 24}


class Bars:
    """A bar of tqdm for each part."""

    def __init__(self) -> None:
        self._bar: Any = None

    def begin(self, title: str, total: int | None) -> None:
        # imported where it is used: it would be half of the time of `import ipu`
        self._bar = importlib.import_module("tqdm").tqdm(
            total=total,
            desc=title or None,
            unit="step",
            file=sys.stdout,
            mininterval=0.1,
            **_size(),
            leave=True,
        )

    def advance(self, done: int) -> None:
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def note(self, logs: Logs) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(self._text(logs), refresh=False)

    def end(self, done: int, total: int | None, logs: Logs | None) -> None:
        if logs:
            self._bar.set_postfix_str(self._text(logs), refresh=True)
        self.stop()

    def stop(self) -> None:
        """Leave the bar as it is."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()

    @staticmethod
    def _text(logs: Logs) -> str:
        return ", ".join(f"{key}={_shown(value)}" for key, value in logs.items())


class NotebookTable:
    """One display for the whole run: a table with a row for each part.

    It is updated in place, as HTML and as plain text, so the saved notebook shows what
    it showed last, wherever it is opened; no widget is needed for that.
    """

    def __init__(self) -> None:
        self._rows: list[dict[str, str]] = []
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
            self._show(self._rows[-_ROWS_WHILE_RUNNING:])

    def note(self, logs: Logs) -> None:
        if self._is_open:
            self._rows[-1].update({key: _shown(v) for key, v in logs.items()})

    def end(self, done: int, total: int | None, logs: Logs | None) -> None:
        self._total = total or done
        self.note(logs or {})
        self.advance(done)
        self._is_open = False

    def stop(self) -> None:
        if self._is_open:
            self._rows[-1]["steps"] += " stopped"
            self._is_open = False
        if self._rows:
            self._show(self._rows)
            self._rows = []

    def _show(self, rows: list[dict[str, str]]) -> None:
        names = list(dict.fromkeys(name for row in rows for name in row))
        cells = [names, *([row.get(name, "") for name in names] for row in rows)]
        forms = {"text/plain": as_text(cells), "text/html": _as_html(cells)}
        if self._display is None:
            display = importlib.import_module("IPython.display").display
            self._display = display(forms, raw=True, display_id=True)
        else:
            self._display.update(forms, raw=True)
        self._shown_at = time.monotonic()


def _as_html(cells: list[list[str]]) -> str:
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
