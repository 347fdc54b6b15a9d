# SPDX-License-Identifier: MIT
"""The state of a model's optimizers, which a file of its training has to have."""

from __future__ import annotations

from typing import Any

from ipu.tf._tensor.parts import gather


def optimizers_of(model: Any) -> list[Any]:
    """Return the optimizer of ``compile``, and those in attributes of the model."""
    from ipu.keras.optimizers import Optimizer

    found = [model.optimizer]
    for value in vars(model).values():
        items = value.values() if isinstance(value, dict) else value
        for one in items if isinstance(value, (list, tuple, dict)) else [value]:
            is_new = not any(one is other for other in found)
            if isinstance(one, Optimizer) and is_new:
                found.append(one)
    return found


def gather_state(model: Any) -> None:
    """Make the variables whole that several processes share out; in all processes."""
    gather([*model.weights, *(v for one in optimizers_of(model) for v in one.weights)])
