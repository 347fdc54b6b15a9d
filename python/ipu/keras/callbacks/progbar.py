# SPDX-License-Identifier: MIT
"""``ProgbarLogger``: how far a run is.

In a terminal and in a notebook it is a bar of ``tqdm`` that counts executed steps: a
thread watches the results come out of the device, so the bar moves during a long
execution too. In a plain log, and with ``verbose=2``, it is one line for each epoch.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from typing import Any

from ipu.keras.callbacks.callback import Callback, Logs, looks

__all__ = ["ProgbarLogger"]


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return False
    shell = ipython.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def _size() -> dict[str, Any]:
    """What to tell tqdm of the terminal's size: where it says 0, an usual one."""
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError, AttributeError):
        columns = 1
    if columns > 0:
        return {"dynamic_ncols": True}
    return {"ncols": 80, "nrows": 24}


def _shown(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4f}" if abs(value) > 1e-3 or value == 0 else f"{value:.4e}"


class ProgbarLogger(Callback):
    """Shows executed steps and results.

    Args:
        count_mode: Ignored: steps are counted.
        stateful_metrics: Ignored: all are shown as they are.
        mode: ``"bar"``, ``"line"``, or ``"auto"``: a bar where there is a terminal or a
            notebook.

    Source: ``tf.keras.callbacks.ProgbarLogger`` of Keras 2.6, on tqdm.
    """

    def __init__(
        self,
        count_mode: str = "steps",
        stateful_metrics: Any = None,
        mode: str = "auto",
    ) -> None:
        super().__init__()
        del count_mode, stateful_metrics
        self._mode = mode
        self._lock = threading.Lock()
        self._bar: Any = None
        self._title = ""
        self._started = 0.0
        self._in_fit = False
        self._done = 0

    def _uses_bar(self) -> bool:
        if self._mode != "auto":
            return self._mode == "bar"
        if (self.params or {}).get("verbose") == 2:
            return False
        return _in_notebook() or sys.stdout.isatty()

    # --- one bar or line --------------------------------------------------------------

    def _open(self, title: str) -> None:
        self._title = title
        self._started = time.monotonic()
        self._done = 0
        if not self._uses_bar():
            return
        # imported where it is used: it would be half of the time of `import ipu`
        module = importlib.import_module("tqdm.auto" if _in_notebook() else "tqdm")
        with self._lock:
            self._bar = module.tqdm(
                total=(self.params or {}).get("steps"),
                desc=title or None,
                unit="step",
                file=sys.stdout,
                mininterval=0.1,
                **_size(),
                leave=True,
            )

    def _on_steps_executed(self, done: int) -> None:
        """Move on to ``done`` steps of the epoch; called from the watching thread."""
        with self._lock:
            if done <= self._done:
                return
            if self._bar is not None:
                self._bar.update(done - self._done)
            self._done = done

    def _show(self, step: int, logs: Logs | None) -> None:
        self._on_steps_executed(step + 1)
        with self._lock:
            if self._bar is not None and logs:
                self._bar.set_postfix_str(_line(logs), refresh=False)

    def _close(self, logs: Logs | None) -> None:
        seconds = time.monotonic() - self._started
        with self._lock:
            bar, self._bar = self._bar, None
            if bar is not None:
                if logs:
                    bar.set_postfix_str(_line(logs), refresh=True)
                bar.close()
                return
        total = (self.params or {}).get("steps") or self._done
        parts = [self._title] if self._title else []
        parts += [f"{self._done}/{total}", f"{seconds:.1f}s"]
        parts += [f"{key}: {_shown(value)}" for key, value in (logs or {}).items()]
        print(" - ".join(parts), flush=True)

    def _abandon(self) -> None:
        """Leave the bar as it is: the run ended early."""
        with self._lock:
            if self._bar is not None:
                self._bar.close()
                self._bar = None

    # --- hooks ------------------------------------------------------------------------

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Note that this is training."""
        self._in_fit = True

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Open the bar of an epoch."""
        self._open(f"Epoch {epoch + 1}/{(self.params or {}).get('epochs')}")

    @looks(lambda _: None)
    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Move the bar."""
        self._show(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Close the bar with the results."""
        self._close(logs)

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Note that training is over."""
        self._in_fit = False

    def on_test_begin(self, logs: Logs | None = None) -> None:
        """Open the bar of an evaluation, but not within ``fit``."""
        if not self._in_fit:
            self._open("")

    @looks(lambda _: None)
    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Move the bar."""
        if not self._in_fit:
            self._show(batch, logs)

    def on_test_end(self, logs: Logs | None = None) -> None:
        """Close the bar with the results."""
        if not self._in_fit:
            self._close(logs)

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        """Open the bar of a prediction."""
        self._open("")

    @looks(lambda _: None)
    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Move the bar."""
        self._show(batch, None)

    def on_predict_end(self, logs: Logs | None = None) -> None:
        """Close the bar."""
        self._close(None)


def _line(logs: Logs) -> str:
    return ", ".join(f"{key}={_shown(value)}" for key, value in logs.items())
