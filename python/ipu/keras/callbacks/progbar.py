# SPDX-License-Identifier: MIT
"""``ProgbarLogger``: how far a run is.

In a terminal it is a bar of ``tqdm`` for each epoch, in a notebook one table that
grows. Both count executed steps: a thread watches the results come out of the device,
so they move during a long execution too. In a plain log, and with ``verbose=2``, it is
one line for each epoch.
"""

from __future__ import annotations

from typing import Any

from ipu._device.locks import Lock
from ipu._text.notebook import cell
from ipu.keras.callbacks.callback import Callback, Logs, looks
from ipu.keras.callbacks.history import History
from ipu.keras.callbacks.run_views import NotebookTable, RunView, view_of

__all__ = ["ProgbarLogger"]


class ProgbarLogger(Callback):
    """Shows executed steps and results.

    Args:
        count_mode: Ignored: steps are counted.
        stateful_metrics: Ignored: all are shown as they are.
        mode: ``"bar"``, ``"line"``, or ``"auto"``: a bar where there is a terminal.
            In a notebook "bar" and "auto" give a table.

    Source: ``tf.keras.callbacks.ProgbarLogger`` of Keras 2.6, on tqdm.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
        >>> model.compile("sgd", "mse")
        >>> x, y, log = np.ones((8, 2)), np.ones((8, 1)), ProgbarLogger(mode="line")
        >>> history = model.fit(x, y, verbose=0, callbacks=[log])  # doctest: +ELLIPSIS
        Epoch 1/1 - 1/1 - ... loss: ...
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
        self._lock = Lock()
        self._view: RunView | None = None
        self._in_fit = False

    def _open(self, title: str) -> None:
        parameters = self.params or {}
        self._done = 0
        with self._lock:
            if self._view is None:
                self._view = view_of(self._mode, parameters.get("verbose"))
            self._view.begin(title, parameters.get("steps"))

    def _on_steps_executed(self, done: int) -> None:
        """Move on to ``done`` steps of the epoch; called from the watching thread."""
        with self._lock:
            if self._view is not None and done > self._done:
                self._done = done
                self._view.advance(done)

    def _show(self, step: int, logs: Logs | None) -> None:
        with self._lock:
            if self._view is not None and logs:
                self._view.note(logs)
        self._on_steps_executed(step + 1)

    def _close(self, logs: Logs | None) -> None:
        with self._lock:
            if self._view is not None:
                total = (self.params or {}).get("steps")
                self._view.end(self._done, total, logs)

    def _abandon(self) -> None:
        """End the view; the run is over, or ended early."""
        self._in_fit = False
        with self._lock:
            view, self._view = self._view, None
            if view is not None:
                view.stop()

    # --- hooks ------------------------------------------------------------------------

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._in_fit = True

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._open(f"Epoch {epoch + 1}/{(self.params or {}).get('epochs')}")

    @looks(lambda _: None)
    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._show(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._close(logs)

    def on_train_end(self, logs: Logs | None = None) -> None:
        history = getattr(self.model, "history", None)
        if isinstance(history, History) and isinstance(self._view, NotebookTable):
            history._shown_in = cell()
        self._abandon()

    def on_test_begin(self, logs: Logs | None = None) -> None:
        if not self._in_fit:
            self._open("")

    @looks(lambda _: None)
    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if not self._in_fit:
            self._show(batch, logs)

    def on_test_end(self, logs: Logs | None = None) -> None:
        if not self._in_fit:
            self._close(logs)
            self._abandon()

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        self._open("")

    @looks(lambda _: None)
    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._show(batch, None)

    def on_predict_end(self, logs: Logs | None = None) -> None:
        self._close(None)
        self._abandon()
