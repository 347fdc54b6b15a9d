# SPDX-License-Identifier: MIT
"""``SwapEMAWeights``: evaluation with the moving averages of weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu.keras.callbacks.callback import Callback, Logs

__all__ = ["SwapEMAWeights"]


class SwapEMAWeights(Callback):
    """Evaluates and predicts with the moving averages that an optimizer keeps.

    Its optimizer has ``use_ema=True``. Training goes on with the weights themselves; as
    ever, ``fit`` ends with the averages in their place.

    Args:
        swap_on_epoch: Whether the averages are there from the end of each epoch to the
            start of the next one, too: for callbacks that come after this one, such as
            ``ModelCheckpoint``.

    Raises:
        ValueError: When it is used: the optimizer keeps no averages.

    Source: ``keras.callbacks.SwapEMAWeights`` of Keras 3.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones")])
        >>> model.compile(keras.optimizers.SGD(0.1, use_ema=True), "mse")
        >>> x, y = np.ones((8, 1), "float32"), np.zeros((8, 1), "float32")
        >>> averages = SwapEMAWeights()
        >>> _ = model.fit(x, y, epochs=2, callbacks=[averages], verbose=0)
    """

    def __init__(self, swap_on_epoch: bool = False) -> None:
        super().__init__()
        self.swap_on_epoch = swap_on_epoch
        # the weights that averages stand in for, and their values
        self._weights: list[tuple[Any, np.ndarray[Any, Any]]] | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._optimizer()

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._put_back()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.swap_on_epoch:
            self._put_averages()

    def on_train_end(self, logs: Logs | None = None) -> None:
        self._weights = None  # the averages stay

    def _abandon(self) -> None:
        """End a run, perhaps early: training can go on with the weights."""
        self._put_back()

    def on_test_begin(self, logs: Logs | None = None) -> None:
        self._put_averages()

    def on_test_end(self, logs: Logs | None = None) -> None:
        self._put_back()

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        self._put_averages()

    def on_predict_end(self, logs: Logs | None = None) -> None:
        self._put_back()

    def _optimizer(self) -> Any:
        optimizer = self.model.optimizer
        while hasattr(optimizer, "_inner"):
            optimizer = optimizer._inner
        if not getattr(optimizer, "use_ema", False):
            name = type(optimizer).__name__
            given = "no optimizer" if optimizer is None else f"{name} without them"
            raise ValueError(
                "SwapEMAWeights needs an optimizer that keeps moving averages. "
                f"Received: {given}. Give it use_ema=True."
            )
        return optimizer

    def _put_averages(self) -> None:
        optimizer = self._optimizer()
        if self._weights is not None:
            return
        weights = self.model.trainable_variables
        self._weights = [(weight, weight.numpy()) for weight in weights]
        optimizer.finalize_variable_values(weights)

    def _put_back(self) -> None:
        for weight, value in self._weights or ():
            weight.assign(value)
        self._weights = None
