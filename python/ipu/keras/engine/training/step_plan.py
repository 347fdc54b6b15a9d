# SPDX-License-Identifier: MIT
"""How many steps an epoch has, and how many of them an execution.

In the scope of a strategy the rules are those of the IPU extensions of Keras: replicas
share the steps of an epoch out, the number of steps of an execution must divide what
each of them gets, and the data must have enough batches. Elsewhere they are Keras's:
the last execution of an epoch may be shorter, and a run ends with a warning where its
data do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ipu._text.arguments import as_int
from ipu._text.user_warnings import warn_user
from ipu.keras.engine.training.misfits import misfit

INFINITE = -1
UNKNOWN = -2


class StepPlan(NamedTuple):
    """The steps of a run.

    Attributes:
        steps: Steps of an epoch; None: until the data end.
        per_execution: Steps of an execution; the last one of an epoch may have fewer.
        restarts: Whether every epoch starts with the first batch.
        available: Batches that there are for all epochs; None: enough, or not known.
    """

    steps: int | None
    per_execution: int
    restarts: bool
    available: int | None


def plan_steps(
    cardinality: int,
    steps: int | None,
    per_execution: int,
    epochs: int = 1,
    argument: str = "steps_per_epoch",
    is_endless: bool = False,
    is_strict: bool = True,
    replicas: int = 1,
) -> StepPlan:
    """Settle the steps of a run.

    Args:
        cardinality: Batches in the data; INFINITE or UNKNOWN where that is so.
        steps: The number that the user asked for; None for all batches.
        per_execution: ``steps_per_execution`` of the model.
        epochs: How many epochs will run.
        argument: The name of the user's argument, for messages.
        is_endless: Whether the data, arrays, start again at their end: epochs of fewer
            steps go on where the last one ended.
        is_strict: Whether the IPU's rules hold.
        replicas: Replicas of the model, which share the batches out: the plan is that
            of each of them. 1 where the IPU's rules do not hold.
    """
    if steps is not None:
        steps = positive(steps, argument, "positive integer or None")
    if steps is None and cardinality == INFINITE:
        raise ValueError(
            "When providing an infinite dataset, you must specify the number of steps "
            f"to run. Received: {argument}=None. Pass `{argument}`, or do not call "
            "`.repeat()` on the data set."
        )
    if steps is None and cardinality == UNKNOWN and is_strict:
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
    if steps is not None:
        wanted: int | None = steps
    else:
        wanted = None if cardinality == UNKNOWN else cardinality
    restarts = steps is None or wanted == cardinality
    if is_strict:
        assert wanted is not None
        once = restarts or is_endless
        _check_enough(cardinality, wanted, 1 if once else epochs, epochs, argument)
        wanted = _share(wanted, replicas)
        return StepPlan(wanted, _dividing(wanted, per_execution, argument), once, None)
    available = None
    if not restarts and cardinality not in (INFINITE, UNKNOWN):
        available = cardinality * max(epochs, 1) if is_endless else cardinality
    k = per_execution if wanted is None else min(per_execution, wanted)
    return StepPlan(wanted, k, restarts, available)


def _check_enough(
    cardinality: int, wanted: int, passes: int, epochs: int, argument: str
) -> None:
    needed = wanted * max(passes, 1)
    if 0 < cardinality < needed:
        error = ValueError(
            "Your input does not have enough data. Make sure that your dataset or "
            f"generator can generate at least {needed} batches. Received: "
            f"{cardinality} batches for {argument}={wanted} and {epochs} epoch(s). You "
            "may need to use the repeat() function when building your dataset."
        )
        raise misfit(error)


def _share(steps: int, replicas: int) -> int:
    """Return the steps of one replica."""
    share, rest = divmod(steps, replicas)
    if share == 0:
        error = ValueError(
            f"The provided dataset contains {steps} items, but all {replicas} replicas "
            "are requested to run at least one each."
        )
        raise misfit(
            error, f" Give at least {replicas} steps, or configure fewer IPUs."
        )
    if rest:
        warn_user(
            f"The number of steps ({steps}) is not a multiple of the number of "
            f"replicas ({replicas}): the last {rest} of them are left out."
        )
    return share


def _dividing(wanted: int, k: int, argument: str) -> int:
    """Return the steps of an execution, which must divide those of an epoch."""
    if k > wanted:
        warn_user(
            f"The number of steps per execution ({k}) is larger than the number of "
            f"steps ({wanted}) of the data set; {wanted} steps are run at once."
        )
        return wanted
    if wanted % k != 0:
        near = max(d for d in range(1, k + 1) if wanted % d == 0)
        way = f"Choose for example steps_per_execution={near}"
        if near == 1:
            way = f"Run a multiple of {k} steps, for example {wanted - wanted % k}"
        is_validation = argument == "validation_steps"
        what = "validation data" if is_validation else "dataset provided"
        error = ValueError(
            f"`steps_per_execution` ({k}) must be a divisor of the number of batches "
            f"({wanted}) in the {what}."
        )
        raise misfit(error, f" {way}.")
    return k


_EXECUTION_S = 0.1
_GROWTH = 8  # the first measured executions are slow: they make programs


class Pace:
    """Settles the length of the next execution by what the last ones took.

    It serves where the user did not say: ``"auto"``. Results do not depend on it. Many
    steps at once cost no time between them; few let Ctrl-C, the bar and callbacks come
    soon. A tenth of a second is both.

    Example:
        >>> pace = Pace()
        >>> pace.count
        1
        >>> pace.took(1, 0.001)
        >>> pace.count
        8
        >>> pace.took(8, 0.008)
        >>> pace.took(64, 0.064)
        >>> pace.count
        100
    """

    def __init__(self) -> None:
        self.count = 1

    def took(self, steps: int, seconds: float) -> None:
        """Take in how long an execution of so many steps took."""
        in_time = int(_EXECUTION_S * steps / max(seconds, 1e-9))
        self.count = max(min(in_time, max(self.count, _GROWTH * steps)), 1)


def checked_execution(given: Any, in_strategy: bool) -> int | None:
    """Check what ``compile`` was told of ``steps_per_execution``.

    Returns:
        The number; None for None and ``"auto"``.
    """
    if given is None:
        return None
    if isinstance(given, str) and given == "auto":
        if not in_strategy:
            return None
        raise ValueError(
            "steps_per_execution='auto' is for models outside of a strategy: in its "
            "scope an execution has as many steps as you say. Give a number that "
            "divides the steps of an epoch."
        )
    return positive(given, "steps_per_execution")


def positive(given: Any, argument: str, what: str = "positive integer") -> int:
    """Check an argument that counts steps or samples, which may be a whole float."""
    given = as_int(given)
    is_number = isinstance(given, (int, float, np.number))
    if isinstance(given, bool) or not is_number or int(given) != given or given < 1:
        raise ValueError(
            f"`{argument}` must be a {what}. Received: {argument}={given!r}."
        )
    return int(given)


def whole_number(given: Any, argument: str) -> int:
    """Check an argument that counts."""
    given = as_int(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    way = ""
    if isinstance(given, (float, np.floating)) and given == int(given):
        way = f" Write {argument}={int(given)}."
    raise TypeError(f"`{argument}` must be an integer. Received: {given!r}.{way}")
