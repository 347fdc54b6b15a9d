# SPDX-License-Identifier: MIT
"""How the first generation counts: data in batches, steps in weight updates.

A step is a weight update, or in a pipeline one run of it: ``accumulated`` mini-batches
for each replica. Numbers that users give are for all replicas together.
"""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

from ipu.drop_in.first_keras.feeds import Feed
from ipu.keras.engine.training.step_plan import INFINITE, UNKNOWN

__all__ = ["StepPlan", "plan_steps"]


class StepPlan(NamedTuple):
    """The steps of a run.

    Attributes:
        steps: Steps of an epoch on each replica.
        per_run: Steps of one call of the device.
        restarts: Whether each epoch starts with the first batch.
    """

    steps: int
    per_run: int
    restarts: bool


def plan_steps(
    owner: str,
    feed: Feed,
    steps: int | None,
    argument: str,
    accumulated: int,
    replicas: int = 1,
    per_run: int | None = None,
) -> StepPlan:
    """Settle the steps of a run.

    Args:
        owner: The name of the model's class, for messages.
        feed: The data.
        steps: Steps of an epoch that the user asked for; None for all data.
        argument: The name of the user's argument for that.
        accumulated: Mini-batches of a step.
        replicas: How many replicas share the steps.
        per_run: ``steps_per_run``; None for all steps of an epoch.

    Raises:
        ValueError: An illegal number; data that are too few, of unknown size or not a
            multiple of a step; or a ``steps_per_run`` that does not divide an epoch.

    Source: section "Keras" of the guide of SDK 1.4.
    """
    steps = _positive(argument, steps)
    per_run = _positive("steps_per_run", per_run)
    size = feed.cardinality
    if steps is None and feed.dropped:
        steps = size // accumulated
    if steps is None and size in (INFINITE, UNKNOWN):
        kind = (
            "an infinitely repeating dataset"
            if size == INFINITE
            else ("a dataset whose size is not known")
        )
        raise ValueError(
            f"When using {kind}, you must provide the number of steps per epoch "
            f"({argument})."
        )
    if steps is not None and 0 <= size < steps * accumulated:
        raise ValueError(
            f"Steps per epoch times accumulation count ({steps} x {accumulated}) is "
            f"greater than the number of samples in the dataset ({size}), which are "
            "batches. Give fewer steps, or a data set that repeats."
        )
    mini_batches = size if steps is None else steps * accumulated
    rest = mini_batches % accumulated
    if mini_batches == 0 or rest:
        way = (
            f"Leave {rest} of them out: Dataset.take({mini_batches - rest})."
            if mini_batches > accumulated
            else "There are too few for one step: give more data or smaller batches."
        )
        raise ValueError(
            f"{owner} requires the number of batches in the dataset ({size}) to be a "
            f"multiple of the accumulated batch size ({accumulated}). {way}"
        )
    everywhere = mini_batches // accumulated
    if everywhere % replicas:
        raise ValueError(
            f"{owner} shares the steps of an epoch among its replicas, so {replicas} "
            f"must divide {argument}. Received: {everywhere} steps."
        )
    own = everywhere // replicas
    if per_run is not None and own % per_run:
        raise ValueError(
            f"{owner} requires the number of steps per execution of the on device "
            f"training loop 'steps_per_run' ({per_run}) to divide the number of steps "
            f"in the epoch ({own})."
        )
    return StepPlan(own, per_run or own, restarts=size != INFINITE)


def _positive(name: str, value: Any) -> int | None:
    """Return a number of steps, which programs also give as a quotient such as 12.0."""
    if value is None:
        return None
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or int(value) != value or value < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received: {value!r}.")
    return int(value)
