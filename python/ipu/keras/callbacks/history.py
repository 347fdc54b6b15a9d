# SPDX-License-Identifier: MIT
"""``History``: what ``fit`` returns."""

from __future__ import annotations

from typing import Any

from ipu._text import curves, notebook
from ipu._text.tables import as_html, as_text, shown
from ipu.keras.callbacks.callback import Callback, Logs

__all__ = ["History"]


_OTHER_NAMES = {"learning_rate": "lr"}  # Keras 3's, of what Keras 2 says


class _Results(dict[str, list[float]]):
    """Results by name, which are also found by the names of Keras 3."""

    def __missing__(self, name: str) -> list[float]:
        if _OTHER_NAMES.get(name) in self:
            return self[_OTHER_NAMES[name]]
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name, super().get(_OTHER_NAMES.get(name, name), default))


class History(Callback):
    """The results of every epoch, and of every step.

    Attributes:
        history: For each name (``"loss"``, the metrics, ``"val_loss"``, ...) a list
            with one float for each epoch that ran. The rate that a callback changes is
            ``"lr"``, which is found as ``"learning_rate"``, too.
        epoch: The numbers of the epochs that ran.
        steps: For each name a list with one float for each step that ran, over all
            epochs, however many steps an execution had. ``steps["loss"]`` is the loss
            of the step's own batch; metrics are running values of their epoch.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
        >>> model.compile("sgd", "mse")
        >>> x, y = np.zeros((4, 2)), np.ones((4, 1))
        >>> history = model.fit(x, y, epochs=2, verbose=0)
        >>> len(history.history["loss"])
        2
    """

    def __init__(self) -> None:
        super().__init__()
        self.history: dict[str, list[float]] = _Results()
        self.epoch: list[int] = []
        self.steps: dict[str, list[float]] = {}
        self._shown_in: int | None = None  # a notebook's cell

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.epoch = []
        self.steps = {}

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.epoch.append(epoch)
        for key, value in (logs or {}).items():
            self.history.setdefault(key, []).append(value)
        if getattr(self.model, "history", self) is not self:
            self.model.history = self

    def _keep_steps(self, results: dict[str, Any]) -> None:
        for key, values in results.items():
            if values.ndim == 1:
                self.steps.setdefault(key, []).extend(values.tolist())

    def _rows(self) -> list[list[str]]:
        return [
            [str(epoch + 1), *(shown(values[i]) for values in self.history.values())]
            for i, epoch in enumerate(self.epoch)
            if all(len(values) > i for values in self.history.values())
        ]

    def __str__(self) -> str:
        rows = self._rows()
        table = as_text([["epoch", *self.history], *curves.folded(rows)])
        if not curves.is_folded(rows):
            return table
        return f"{table}\n\n{curves.as_blocks(self.history)}"

    def __repr__(self) -> str:
        return f"<History: {len(self.epoch)} epochs of {', '.join(self.history)}>"

    def _ipython_display_(self) -> None:
        """Show nothing in the cell whose ``fit`` has shown its table."""
        if self._shown_in is None or self._shown_in != notebook.cell():
            raise NotImplementedError  # IPython takes the next of these methods

    def _repr_html_(self) -> str:
        rows = self._rows()
        table = as_html(["epoch", *self.history], curves.folded(rows))
        return table + (curves.as_svg(self.history) if curves.is_folded(rows) else "")
