# SPDX-License-Identifier: MIT
"""Errors about numbers that do not fit together, told with numbers that do."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from ipu._text.errors import FailedPreconditionError
from ipu.keras._random_state import Order
from ipu.keras.engine.training.batches import common_length
from ipu.keras.engine.training.data_adapter import (
    Given,
    arrays_given,
    as_batches,
    is_batched,
)
from ipu.keras.engine.training.execution import settle
from ipu.keras.engine.training.misfits import (
    Data,
    Numbers,
    advice,
    other_ways,
    takes_any,
)
from ipu.keras.engine.training.step_plan import INFINITE, UNKNOWN

if TYPE_CHECKING:
    from ipu.keras.engine.training.trainer import Trainer

_OF_SCHEDULE = " This number might be called `gradient_accumulation_count`"
_CALLS = {"train": "fit", "test": "evaluate", "predict": "predict"}


class Asked(NamedTuple):
    """The arguments of a call.

    Attributes:
        given: The data.
        steps: Steps of an epoch; None for all batches.
        epochs: How many epochs will run.
    """

    given: Given
    steps: int | None = None
    epochs: int = 1


@contextmanager
def explained(
    model: Trainer,
    mode: str,
    asked: Asked,
    validation: Asked | None = None,
    has_own_size: bool = False,
) -> Iterator[None]:
    """Let errors about numbers that do not fit together end with a set that does.

    Args:
        model: The model.
        mode: ``"train"``, ``"test"`` or ``"predict"``.
        asked: The arguments of the call.
        validation: The validation data of a training, and their steps.
        has_own_size: Whether these have a batch size of their own.
    """
    try:
        yield
    except Exception as error:
        text, rest = error.__dict__.pop("_misfit", ("", ""))
        if isinstance(error, FailedPreconditionError) and _OF_SCHEDULE in str(error):
            text = str(error).partition(_OF_SCHEDULE)[0]
        if text and model._is_strict(mode):
            numbers = None
            # what else is wrong with the model is the next error
            with suppress(ValueError, RuntimeError, TypeError):
                numbers = _numbers(model, mode, asked, validation, has_own_size)
            if numbers is not None and (way := advice(numbers)):
                if rest and numbers.data.samples is not None:
                    rest = other_ways(numbers)
                error.args = (text + way + rest,)
        raise


def _numbers(
    model: Trainer,
    mode: str,
    asked: Asked,
    validation: Asked | None,
    has_own_size: bool,
) -> Numbers | None:
    """Return the numbers of a run; None where one of them is not known."""
    data = _data(asked)
    if data is None:
        return None
    if not model.built:
        # whether it is pipelined shows in its calls
        batches = as_batches(asked.given, asked.steps, None, Order())
        model._prepare(mode, batches.dataset.element_spec)
    execution = settle(model, mode, may_lack_updates=True)
    setter, per_update = "", execution.per_update
    if mode == "train" and execution.is_pipelined:
        setter = "set_pipelining_options"
    elif mode == "train" and per_update > 1:
        setter = "set_gradient_accumulation_options"
    validated = None
    if validation is not None and model._is_strict("test"):
        validated = _data(validation)
    takes, validates = (
        _schedule(model, kind == "train", execution.is_pipelined)
        for kind in (mode, "test")
    )
    return Numbers(
        data,
        model._steps_per_execution,
        per_update,
        execution.replicas,
        setter,
        takes,
        _CALLS[mode],
        validated,
        has_own_size,
        validates,
    )


def _data(asked: Asked) -> Data | None:
    """Return the numbers of data; None where they are not known."""
    given, steps, epochs = asked
    if hasattr(given.x, "element_spec"):
        count = int(given.x.cardinality())
        available = None if count in (INFINITE, UNKNOWN) else count
        wanted = count if steps is None else steps
        if wanted < 1 or count == 0:
            return None
        return Data(None, 1, wanted, steps, available, epochs)
    if is_batched(given.x):
        return None
    samples = common_length(arrays_given(given))
    size = given.batch_size or (
        math.ceil(samples / steps) if steps else min(32, samples)
    )
    return Data(samples, size, steps or samples // size, steps)


def _schedule(
    model: Trainer, is_training: bool, is_pipelined: bool
) -> Callable[[int], bool]:
    """Return what says whether a schedule takes a number of batches."""

    @functools.cache
    def takes(number: int) -> bool:
        if number % model._serialized != 0:
            return False
        try:
            _ = model._timetable(is_training, number).time_steps
        except FailedPreconditionError:
            return False
        return True

    return takes if is_pipelined else takes_any
