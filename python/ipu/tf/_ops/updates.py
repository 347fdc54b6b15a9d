# SPDX-License-Identifier: MIT
"""Optimizer updates as device ops; inside a function that is being traced."""

from __future__ import annotations

from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu.tf.variable import Variable


def _trace() -> Any:
    trace = _core.open_trace()
    if trace is None:
        raise RuntimeError("Optimizer updates run inside a traced function only.")
    return trace


def sgd_update(
    variable: Variable,
    gradient: Any,
    learning_rate: Any,
    momentum: float = 0.0,
    velocity: Variable | None = None,
    nesterov: bool = False,
) -> None:
    """Make one step of stochastic gradient descent, in Keras's form.

    Args:
        variable: The variable to update.
        gradient: Of the variable's shape and dtype.
        learning_rate: float32 scalar.
        momentum: 0 to 1; needs ``velocity`` where it is not 0.
        velocity: The momentum state, of the variable's shape and dtype.
        nesterov: Nesterov's form.
    """
    slots = () if velocity is None else (velocity._resource,)
    _trace().node(
        "sgd_update",
        (Tensor(gradient), Tensor(learning_rate)),
        {"momentum": float(momentum), "nesterov": nesterov},
        (variable._resource, *slots),
    )


def adam_update(
    variable: Variable,
    gradient: Any,
    learning_rate: Any,
    step: Any,
    m: Variable,
    v: Variable,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> None:
    """Make one step of Adam (Kingma and Ba, 2015), in Keras's form.

    Args:
        variable, gradient, learning_rate: As for :func:`sgd_update`.
        step: int32 scalar, counts from 1.
        m: First moment.
        v: Second moment.
        beta_1: Decay of the first moment.
        beta_2: Decay of the second moment.
        epsilon: Added to the root of the second moment.
    """
    _trace().node(
        "adam_update",
        (Tensor(gradient), Tensor(learning_rate), Tensor(step)),
        {"beta_1": float(beta_1), "beta_2": float(beta_2), "epsilon": float(epsilon)},
        (variable._resource, m._resource, v._resource),
    )
