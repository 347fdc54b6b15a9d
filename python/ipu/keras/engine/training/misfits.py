# SPDX-License-Identifier: MIT
"""Numbers of a run that do not fit together, and some that do.

On a device the batches of an epoch are shared out among the replicas; each runs
``steps_per_execution`` of them at once, which are whole updates of weights; a
pipeline's schedule takes some numbers of batches alone; and the evaluations of ``fit``
have as many steps in an execution. Whatever of it is broken first, the error names one
set of values that keeps all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

E = TypeVar("E", bound=Exception)

_MOST = 4096  # divisors of more steps than this are not looked for one by one
_MANY = 8  # how much smaller a batch may become
_WITHOUT = (
    " A model that is made and run outside of strategy.scope() takes any number of "
    "samples."
)


def misfit(error: E, way: str = "", rest: str = "") -> E:
    """Mark an error as one about numbers that do not fit together.

    Args:
        error: The error.
        way: What its text says of a way out, where no legal set takes its place.
        rest: What it says after either.
    """
    error.__dict__["_misfit"] = (str(error), rest)
    error.args = (f"{error}{way}{rest}",)
    return error


class Data(NamedTuple):
    """What the user gave as data and said of their number.

    Attributes:
        samples: How many there are, where the data are arrays; else None.
        batch_size: Samples in a batch of them.
        batches: Batches of an epoch, over all replicas.
        steps: What the user asked for in an epoch; None for all batches.
        available: Batches of a data set in one pass; None where there is no end.
        passes: For how many epochs of fewer batches than that they have to last.
    """

    samples: int | None
    batch_size: int
    batches: int
    steps: int | None = None
    available: int | None = None
    passes: int = 1


def takes_any(number: int) -> bool:
    """Return whether a schedule takes a number of batches, where there is none."""
    return True


class Numbers(NamedTuple):
    """The numbers of a run.

    Attributes:
        data: What it runs on.
        per_execution: ``steps_per_execution``, 1 where it was not given.
        per_update: Batches of a replica in an update; 1 where nothing accumulates.
        replicas: Replicas of the model.
        setter: The method that sets ``per_update``; "" where none does.
        takes: Whether the pipeline's schedule takes a number of batches in an update,
            or in an execution where nothing is trained.
        call: ``"fit"``, ``"evaluate"`` or ``"predict"``.
        validation: The validation data of a ``fit`` to which the same rules apply.
        has_own_size: Whether their batches have a size of their own.
        validates: Whether the schedule takes a number of batches in an evaluation.
    """

    data: Data
    per_execution: int = 1
    per_update: int = 1
    replicas: int = 1
    setter: str = ""
    takes: Callable[[int], bool] = takes_any
    call: str = "fit"
    validation: Data | None = None
    has_own_size: bool = False
    validates: Callable[[int], bool] = takes_any


def legal_set(given: Numbers) -> Numbers | None:
    """Find numbers that fit together, as near as can be to those that are given.

    The batch size changes first, then the batches of an update, then the steps of an
    epoch; an execution takes as many updates as it can, up to what was given.

    Args:
        given: The numbers of the run.

    Returns:
        The numbers; None where none fit: there are too few batches.

    Example:
        >>> found = legal_set(Numbers(Data(100, 32, 3), per_execution=8, per_update=4))
        >>> found.data.batch_size, found.data.batches
        (25, 4)
        >>> found.per_execution, found.per_update
        (4, 4)
    """
    most = (given.data.samples or given.data.batches) // given.replicas
    for way in (_cuts, _shorter, _more if given.call == "predict" else _fewer):
        for per_update in _near(given.per_update, most):
            for data in way(given.data, given.replicas):
                found = _with(given, data, per_update)
                if found is not None:
                    return found
    return None


def _with(given: Numbers, data: Data, per_update: int) -> Numbers | None:
    """Return the numbers with these data and updates, if some steps per execution
    fit."""
    is_training = given.call == "fit"
    if is_training and not given.takes(per_update):
        return None
    most = max(given.per_execution, per_update)
    counts = [
        count
        for count in _divisors(data.batches // given.replicas)
        if count % per_update == 0 and (is_training or given.takes(count))
    ]
    for count in sorted(counts, key=lambda count: (count > most, abs(count - most))):
        validation = given.validation
        if validation is not None:
            validation = _validation(given, validation, data.batch_size, count)
            if validation is None:
                continue
        return given._replace(
            data=data,
            validation=validation,
            per_execution=count,
            per_update=per_update,
        )
    return None


def _validation(
    given: Numbers, validation: Data, batch_size: int, count: int
) -> Data | None:
    """Return validation data that such executions take."""
    if not given.validates(count):
        return None
    if not given.has_own_size:
        validation = validation._replace(batch_size=batch_size)
    for way in (_cuts, _shorter, _fewer):
        for data in way(validation, given.replicas):
            if data.batches // given.replicas % count == 0:
                return data
    return None


def _near(number: int, most: int) -> Iterator[int]:
    """Yield a number, and where it is more than 1 those below it, then above."""
    yield number
    if number > 1:
        yield from range(min(number - 1, most), 1, -1)
        yield from range(number + 1, min(most, _MANY * number) + 1)


def _cuts(data: Data, replicas: int) -> Iterator[Data]:
    """Batch sizes without a rest, with the steps that the user asked for."""
    if data.samples is None:
        if data.batches >= replicas and _lasts(data, data.batches):
            yield data
        return
    for size in _sizes(data.samples, data.batch_size):
        whole = data.samples // size
        batches = whole if data.steps is None else data.steps
        if replicas <= batches <= whole:
            yield data._replace(batch_size=size, batches=batches)


def _shorter(data: Data, replicas: int) -> Iterator[Data]:
    """Yield epochs of fewer steps, of data sets and where the user said how many."""
    if data.samples is None:
        for batches in range(data.batches - 1, replicas - 1, -1):
            if _lasts(data, batches):
                yield data._replace(batches=batches, steps=batches)
        return
    for size in _sizes(data.samples, data.batch_size):
        most = data.samples // size
        most = min(most - 1, (data.steps or most) - 1)
        for batches in range(most, replicas - 1, -1):
            yield data._replace(batch_size=size, batches=batches, steps=batches)


def _lasts(data: Data, batches: int) -> bool:
    """Return whether a data set has enough for epochs of so many batches."""
    total = data.available
    return total is None or batches == total or batches * data.passes <= total


def _fewer(data: Data, replicas: int) -> Iterator[Data]:
    """Yield fewer samples, in batches of the size that the user gave."""
    size = data.batch_size
    if data.samples is not None:
        for batches in range(data.samples // size, replicas - 1, -1):
            yield data._replace(samples=batches * size, batches=batches)


def _more(data: Data, replicas: int) -> Iterator[Data]:
    """Yield more samples, where no result is to be lost."""
    size = data.batch_size
    if data.samples is not None:
        least = max(data.samples // size + 1, replicas)
        for batches in range(least, least + _MOST):
            yield data._replace(samples=batches * size, batches=batches)


def _sizes(samples: int, near: int) -> list[int]:
    """Batch sizes that leave no rest, the nearest first; none where all are far off."""
    sizes = sorted(_divisors(samples), key=lambda size: abs(size - near))
    return [size for size in sizes if size <= _MANY * near and near <= _MANY * size]


def _divisors(number: int) -> list[int]:
    most = min(math.isqrt(number), _MOST)
    small = [d for d in range(1, most + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def advice(given: Numbers) -> str:
    """Say a legal set, for the end of an error message.

    Args:
        given: The numbers of the run.

    Example:
        >>> advice(Numbers(Data(60, 16, 3), per_execution=2, call="evaluate"))[:50]
        ' With 60 samples this is legal: batch_size=15, com'
    """
    found = legal_set(given)
    if found is None:
        least = given.replicas * given.per_update
        text = f" Nothing fits {given.data.batches} batches: give at least {least}."
        return text if given.data.batches < least else ""
    is_training = given.call == "fit"
    data, validation = found.data, found.validation
    parts = []
    if data.samples != given.data.samples:
        what = "filled up to" if given.call == "predict" else "the first"
        parts.append(f"{what} {data.samples} samples")
    if data.samples is not None:
        parts.append(f"batch_size={data.batch_size}")
    if data.steps != given.data.steps:
        name = "steps_per_epoch" if is_training else "steps"
        parts.append(f"{name}={data.steps}")
    if validation is not None:
        assert given.validation is not None
        if validation.samples != given.validation.samples:
            parts.append(f"the first {validation.samples} samples of validation_data")
        size = data.batch_size
        if given.has_own_size:
            size = given.validation.batch_size
        if validation.batch_size != size:
            parts.append(f"validation_batch_size={validation.batch_size}")
        if validation.steps != given.validation.steps:
            parts.append(f"validation_steps={validation.steps}")
    parts.append(f"compile(steps_per_execution={found.per_execution})")
    if given.setter:
        name = "gradient_accumulation_steps_per_replica"
        parts.append(f"{given.setter}({name}={found.per_update})")
    amount = f"{_count(given.data)} batches"
    if data.samples is not None:
        amount = f"{given.data.samples} samples"
    on = f" on {given.replicas} replicas" if given.replicas > 1 else ""
    told = f" With {amount}{on} this is legal: {', '.join(parts)}."
    return told + (_fewer_steps(given) if found.per_execution == 1 else "")


def _fewer_steps(given: Numbers) -> str:
    """Say how many steps executions of the given length take, where none but single
    steps take all of them."""
    data, unit = given.data, given.per_execution * given.replicas
    steps = data.batches - data.batches % unit
    is_whole = data.samples is None or data.samples % data.batch_size == 0
    fits = is_whole and _lasts(data, steps) and given.validation is None
    fits = fits and given.takes(given.per_execution)
    if given.per_execution == 1 or steps == 0 or not fits:
        return ""
    name = "steps_per_epoch" if given.call == "fit" else "steps"
    return f" Or run a multiple of {unit} steps, for example {name}={steps}."


def _count(data: Data) -> int:
    return data.batches if data.available is None else data.available


def other_ways(given: Numbers) -> str:
    """Say how to be rid of a partial batch without another batch size.

    Args:
        given: The numbers of the run, of arrays.
    """
    data = given.data
    assert data.samples is not None
    size, call = data.batch_size, given.call
    if data.samples % size == 0:  # it is the validation data that have it
        return _WITHOUT
    whole = data.samples // size + (call == "predict")
    # an execution takes no more than an epoch has, whatever it was told
    count = min(given.per_execution, max(whole // given.replicas, 1))
    unit = given.replicas * count
    fits = count % given.per_update == 0 and data.steps is None
    fits = fits and given.takes(given.per_update if call == "fit" else count)
    if given.validation is not None:
        as_is = given.validation
        if not given.has_own_size:
            as_is = as_is._replace(batch_size=size)
        found = _validation(given, as_is, size, count)
        # batches follow from the rest
        is_same = found is not None and found._replace(batches=as_is.batches) == as_is
        fits = fits and is_same
    ways = []
    if fits and call == "predict":
        more = -(-whole // unit) * unit * size
        ways.append(
            f"fill the input up to {more} samples and keep the first {data.samples} "
            "results"
        )
    elif fits and whole >= unit:
        first = whole // unit * unit * size
        ways.append(f"give {call} the first {first} samples")
    if fits and call == "fit" and whole and whole % unit == 0:
        ways.append(
            "drop the rest in every pass: tf.data.Dataset.from_tensor_slices((x, y))"
            f".batch({size}, drop_remainder=True)"
        )
    return "".join(f" Or {way}." for way in ways) + _WITHOUT
