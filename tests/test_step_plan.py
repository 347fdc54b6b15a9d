# SPDX-License-Identifier: MIT
"""How many steps a run has, and how many of them an execution."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from ipu.keras.engine.training import step_plan
from ipu.keras.engine.training.step_plan import (
    INFINITE,
    UNKNOWN,
    Pace,
    plan_steps,
    whole_number,
)

ENDLESS = {"is_endless": True}


@pytest.mark.parametrize(
    ("given", "options", "plan"),
    [
        ((10, None, 4), {}, (10, 4, True, None)),
        ((10, 10, 4), {}, (10, 4, True, None)),
        ((10, 3, 4), {}, (3, 3, False, 10)),
        ((10, 3, 2, 2), ENDLESS, (3, 2, False, 20)),
        ((10, 3, 2, 1), ENDLESS, (3, 2, False, 10)),
        ((10, 3, 2, 0), ENDLESS, (3, 2, False, 10)),
        ((1, 3, 2), {}, (3, 2, False, 1)),
        ((UNKNOWN, None, 4), {}, (None, 4, True, None)),
        ((UNKNOWN, 3, 4), {}, (3, 3, False, None)),
        ((INFINITE, 3, 2), {}, (3, 2, False, None)),
    ],
)
def test_plans_outside_of_a_strategy(given: Any, options: Any, plan: Any) -> None:
    assert plan_steps(*given, is_strict=False, **options) == plan


@pytest.mark.parametrize(
    ("given", "options", "plan"),
    [
        ((10, None, 5), {}, (10, 5, True, None)),
        ((10, None, 10), {}, (10, 10, True, None)),
        ((10, 10, 5, 3), {}, (10, 5, True, None)),
        ((10, 4, 2, 2), {}, (4, 2, False, None)),
        ((10, 5, 5, 2), {}, (5, 5, False, None)),
        ((10, 4, 2, 3), ENDLESS, (4, 2, True, None)),
        ((10, 4, 2, 0), {}, (4, 2, False, None)),
        ((INFINITE, 4, 2, 9), {}, (4, 2, False, None)),
        ((UNKNOWN, 4, 2, 9), {}, (4, 2, False, None)),
        ((12, None, 2), {"replicas": 3}, (4, 2, True, None)),
    ],
)
def test_plans_of_a_strategy(given: Any, options: Any, plan: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plan_steps(*given, **options) == plan


def test_what_does_not_do() -> None:
    for given, words in (
        ((INFINITE, None, 1), "When providing an infinite dataset, you must specify"),
        ((UNKNOWN, None, 1), "Could not infer the size of the data"),
        ((0, None, 1), "it is empty"),
        ((0, 3, 1), "it is empty"),
        ((1, 2, 1), "at least 2 batches"),
        ((10, 4, 2, 3), "at least 12 batches"),
        ((10, 11, 1, 0), "at least 11 batches"),
        ((10, 2.5, 1), "`steps_per_epoch` must be a positive integer or None"),
        ((12, None, 8), r"\(12\) in the dataset provided\. Choose .*execution=6\."),
        ((12, None, 5), "Choose for example steps_per_execution=4"),
        ((7, None, 4), "Run a multiple of 4 steps, for example 4"),
    ):
        with pytest.raises(ValueError, match=words):
            plan_steps(*given)
    with pytest.raises(ValueError, match="in the validation data"):
        plan_steps(12, None, 8, argument="validation_steps")
    with pytest.raises(ValueError, match="contains 2 items, but all 3 replicas"):
        plan_steps(2, None, 1, replicas=3)
    with pytest.warns(UserWarning, match=r"replicas \(3\): the last 1 of them are"):
        assert plan_steps(7, None, 2, replicas=3) == (2, 2, True, None)
    with pytest.warns(UserWarning, match="2 steps are run at once"):
        assert plan_steps(2, None, 3) == (2, 2, True, None)


def test_the_next_execution() -> None:
    for count, steps, seconds, wanted in (
        (1, 4, 0.01, 32),  # eight times as many, though there is time for 40
        (1, 4, 0.2, 2),
        (9, 1, 0.001, 9),
        (1, 1, 0.0, 8),
        (5, 1, 1.0, 1),
    ):
        pace = Pace()
        pace.count = count
        pace.took(steps, seconds)
        assert pace.count == wanted


def test_whole_numbers() -> None:
    for given in (3, np.int64(3), np.array(3)):
        assert whole_number(given, "epochs") == 3
    for wrong, way in (
        *((2.0, " Write epochs=2."), (np.float32(2), " Write epochs=2.")),
        *((2.5, ""), ("3", ""), (True, ""), (None, "")),
    ):
        with pytest.raises(TypeError) as caught:
            whole_number(wrong, "epochs")
        text = f"`epochs` must be an integer. Received: {wrong!r}.{way}"
        assert str(caught.value) == text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="positive integer"):
            step_plan.checked_execution(np.ones(2), True)
