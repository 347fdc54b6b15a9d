# SPDX-License-Identifier: MIT
"""How many steps an epoch has, and how many of them an execution.

The rules are those of the IPU extensions of Keras, with one replica: the number of
steps of an execution must divide that of an epoch, and the data must have enough
batches.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

__all__ = ["INFINITE", "UNKNOWN", "StepPlan", "plan_steps"]

INFINITE = -1
UNKNOWN = -2


class StepPlan(NamedTuple):
    """Steps of an epoch and of an execution; whether data start again each epoch."""

    steps: int
    per_execution: int
    restarts: bool


def plan_steps(
    cardinality: int,
    steps: int | None,
    per_execution: int,
    epochs: int = 1,
    argument: str = "steps_per_epoch",
) -> StepPlan:
    """Settle the steps of a run.

    Args:
        cardinality: Batches in the data; INFINITE or UNKNOWN where that is so.
        steps: What the user asked for; None for all batches.
        per_execution: ``steps_per_execution`` of the model.
        epochs: How many epochs will run.
        argument: The name of the user's argument, for messages.

    Returns:
        The plan.

    Raises:
        ValueError: The data are infinite or of unknown size and ``steps`` is None,
            there are too few batches, or ``per_execution`` does not divide the steps.
    """
    if steps is not None and (
        isinstance(steps, bool) or int(steps) != steps or steps <= 0
    ):
        raise ValueError(
            f"`{argument}` must be a positive integer or None. Received: {steps!r}."
        )
    if steps is None and cardinality == INFINITE:
        raise ValueError(
            "When providing an infinite dataset, you must specify the number of steps "
            f"to run. Received: {argument}=None. Pass `{argument}`, or do not call "
            "`.repeat()` on the data set."
        )
    if steps is None and cardinality == UNKNOWN:
        raise ValueError(
            "Could not infer the size of the data. You must specify the number of "
            f"steps to run. Received: {argument}=None. Pass `{argument}`."
        )
    if cardinality == 0:
        raise ValueError(
            "Your input does not have enough data: it is empty. Make sure that your "
            "dataset or generator can generate at least 1 batch. (With "
            "`drop_remainder=True` a data set smaller than one batch is empty.)"
        )
    wanted = cardinality if steps is None else int(steps)
    restarts = steps is None or wanted == cardinality
    needed = wanted if restarts else wanted * max(epochs, 1)
    if 0 <= cardinality < needed:
        raise ValueError(
            "Your input does not have enough data. Make sure that your dataset or "
            f"generator can generate at least {needed} batches. Received: "
            f"{cardinality} batches for {argument}={wanted} and {epochs} epoch(s). You "
            "may need to use the repeat() function when building your dataset."
        )
    k = per_execution
    if k > wanted:
        warnings.warn(
            f"The number of steps per execution ({k}) is larger than the number of "
            f"steps ({wanted}) of the data set; {wanted} steps are run at once.",
            stacklevel=4,
        )
        k = wanted
    if wanted % k != 0:
        raise ValueError(
            f"`steps_per_execution` ({k}) must be a divisor of the number of batches "
            f"({wanted}) in the dataset provided. Choose for example "
            f"steps_per_execution={_nearest_divisor(wanted, k)}."
        )
    return StepPlan(wanted, k, restarts)


def _nearest_divisor(number: int, near: int) -> int:
    divisors = (d for d in range(1, near + 1) if number % d == 0)
    return max(divisors)
