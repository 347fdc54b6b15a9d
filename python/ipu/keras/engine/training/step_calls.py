# SPDX-License-Identifier: MIT
"""Calls of callbacks for each step of an execution, and the logs that they get."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import tf
from ipu.keras._types import Nest
from ipu.keras.callbacks.callback import CallbackList


class StepCalls:
    """Calls the hooks of a batch for each step, as its results arrive.

    Args:
        callbacks: What is called.
        hook: The name of the hooks, without ``_begin`` and ``_end``.
        step: The number of the first step.
        replicas: How many results a step has. In prediction they follow one another;
            else each leaf of a part is (steps, replicas, ...) if there are several.
    """

    def __init__(
        self, callbacks: CallbackList, hook: str, step: int, replicas: int
    ) -> None:
        self._callbacks = callbacks
        self._hook = hook
        self._first = step
        self._replicas = replicas
        self._done = 0  # results

    def __call__(self, part: Nest) -> None:
        if self._hook == "on_predict_batch":
            for i in range(len(tf.nest.flatten(part)[0])):
                self._call({"outputs": _of_step(part, i)})
            return
        if self._replicas > 1:
            part = {"logs": {n: _in_turn(v) for n, v in part["logs"].items()}}
        for i in range(len(tf.nest.flatten(part["logs"])[0])):
            self._call(logs_at(part, i))

    def _call(self, logs: dict[str, Any]) -> None:
        step = self._first + self._done // self._replicas
        self._done += 1
        self._callbacks.call(f"{self._hook}_begin", step, {})
        self._callbacks.call(f"{self._hook}_end", step, logs)


def _in_turn(values: Any) -> Any:
    """The results of all replicas, step by step."""
    return values.reshape(-1, *values.shape[2:])


def _of_step(part: Nest, index: int) -> Nest:
    return tf.nest.map_structure(lambda leaf: leaf[index], part)


def logs_at(part: Nest, index: int) -> dict[str, Any]:
    """The logs of one of the steps whose results are in a part."""
    return {name: _number(values[index]) for name, values in part["logs"].items()}


def _number(value: Any) -> Any:
    return value.item() if np.ndim(value) == 0 else value
