# SPDX-License-Identifier: MIT
"""The search for numbers that fit together, and the words for what it found."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ipu import tf
from ipu.keras.engine.training import explained as explaining, misfits
from ipu.keras.engine.training.data_adapter import Given
from ipu.keras.engine.training.execution import Execution
from ipu.keras.engine.training.explained import Asked, explained
from ipu.keras.engine.training.misfits import (
    Data,
    Numbers,
    advice,
    legal_set,
    misfit,
    other_ways,
)
from ipu.tf.errors import FailedPreconditionError

WITHOUT = (
    " A model that is made and run outside of strategy.scope() takes any number of "
    "samples."
)


def test_numbers_that_are_tried() -> None:
    assert misfits._divisors(1) == [1]
    assert misfits._divisors(36) == [1, 2, 3, 4, 6, 9, 12, 18, 36]
    assert 4097 not in misfits._divisors(4097 * 4099)
    assert misfits._sizes(240, 4) == [
        *(4, 3, 5, 2, 6, 1, 8, 10, 12, 15, 16, 20, 24, 30)
    ]
    assert misfits._sizes(48, 16) == [16, 12, 8, 24, 6, 4, 3, 2, 48]
    assert misfits._sizes(16, 2) == [2, 1, 4, 8, 16]
    for number, most, near in (
        (1, 10, [1]),
        (4, 10, [4, 3, 2, 5, 6, 7, 8, 9, 10]),
        (4, 3, [4, 3, 2]),
        (9, 4, [9, 4, 3, 2]),
        (2, 100, [2, *range(3, 17)]),
    ):
        assert list(misfits._near(number, most)) == near


def sizes(found: Any) -> list[tuple[int, int, int | None]]:
    return [(one.batch_size, one.batches, one.steps) for one in found]


def test_data_that_are_tried() -> None:
    def of_set(batches: int, available: int | None, passes: int) -> Data:
        return Data(None, 1, batches, batches, available, passes)

    for batches, available, passes, lasts in (
        *((6, None, 9, True), (6, 6, 9, True), (6, 12, 2, True)),
        *((6, 11, 2, False), (6, 13, 2, True)),
    ):
        assert misfits._lasts(of_set(1, available, passes), batches) is lasts
    data = of_set(6, 12, 2)
    assert [list(misfits._cuts(data, n)) for n in (6, 7)] == [[data], []]
    assert list(misfits._cuts(data._replace(available=11), 1)) == []
    assert sizes(misfits._shorter(data, 3)) == [(1, n, n) for n in (5, 4, 3)]
    assert sizes(misfits._shorter(data._replace(available=9), 2)) == [
        *((1, 4, 4), (1, 3, 3), (1, 2, 2))
    ]
    arrays = Data(60, 10, 6)
    assert sizes(misfits._cuts(arrays, 6)) == [
        *((10, 6, None), (6, 10, None), (5, 12, None), (4, 15, None)),
        *((3, 20, None), (2, 30, None)),
    ]
    assert sizes(misfits._cuts(arrays._replace(steps=6), 6)) == [
        (size, 6, 6) for size in (10, 6, 5, 4, 3, 2)
    ]
    assert sizes(misfits._shorter(arrays, 4))[:3] == [
        (10, 5, 5),
        (10, 4, 4),
        (12, 4, 4),
    ]
    assert sizes(misfits._shorter(arrays._replace(steps=3), 1))[:4] == [
        *((10, 2, 2), (10, 1, 1), (12, 2, 2), (12, 1, 1))
    ]
    assert sizes(misfits._shorter(Data(24, 12, 2, 9), 1)) == [
        *((12, 1, 1), (8, 2, 2), (8, 1, 1)),
        *((6, 3, 3), (6, 2, 2), (6, 1, 1)),
        *((4, n, n) for n in (5, 4, 3, 2, 1)),
        *((3, n, n) for n in (7, 6, 5, 4, 3, 2, 1)),
        *((2, n, n) for n in (8, 7, 6, 5, 4, 3, 2, 1)),
    ]
    odd = Data(65, 10, 6)
    fewer = [(one.samples, one.batches) for one in misfits._fewer(odd, 3)]
    assert fewer == [(60, 6), (50, 5), (40, 4), (30, 3)]
    assert list(misfits._fewer(data, 3)) == [] == list(misfits._more(data, 3))
    for replicas, first in ((3, 7), (9, 9)):
        more = itertools.islice(misfits._more(odd, replicas), 2)
        assert [(one.samples, one.batches) for one in more] == [
            *((10 * first, first), (10 * first + 10, first + 1))
        ]
    assert len(list(misfits._more(odd, 3))) == 4096


def found(given: Numbers) -> tuple[int | None, int, int, int, int]:
    one = legal_set(given)
    assert one is not None
    data = one.data
    return (
        data.samples,
        data.batch_size,
        data.batches,
        one.per_execution,
        one.per_update,
    )


def test_legal_sets() -> None:
    assert found(Numbers(Data(None, 1, 8, 8), 4)) == (None, 1, 8, 4, 1)
    assert found(Numbers(Data(None, 1, 6, 6), 4)) == (None, 1, 6, 3, 1)
    assert found(Numbers(Data(59, 16, 3), 2, replicas=2)) == (48, 16, 3, 1, 1)
    predict = Numbers(Data(59, 16, 3), 2, replicas=2, call="predict")
    assert found(predict) == (64, 16, 4, 2, 1)
    two = Numbers(Data(None, 1, 8, 8), 8, 2, takes=lambda n: n == 2)
    assert found(two) == (None, 1, 8, 8, 2)
    assert found(two._replace(call="evaluate", per_update=1)) == (None, 1, 8, 2, 1)
    assert legal_set(two._replace(takes=lambda n: False)) is None
    three = Numbers(Data(60, 30, 2), 1, 2, takes=lambda n: n == 3)
    assert found(three) == (60, 20, 3, 3, 3)
    many = Numbers(Data(None, 1, 8, 8), 8, replicas=9)
    assert legal_set(many) is None


def validation(given: Numbers) -> tuple[int, Any]:
    one = legal_set(given)
    assert one is not None and one.validation is not None
    return one.per_execution, one.validation


def test_legal_validations() -> None:
    data, own = Data(80, 10, 8), Data(40, 7, 5)
    few = Numbers(data, 4, validation=own, validates=lambda n: n <= 2)
    assert validation(few) == (2, Data(40, 10, 4))
    few = few._replace(has_own_size=True, validates=misfits.takes_any)
    assert validation(few) == (4, Data(40, 5, 8))
    few = few._replace(validation=Data(42, 7, 6))
    assert validation(few) == (4, Data(42, 7, 4, 4))
    shares = Numbers(data, 2, replicas=2, validation=Data(60, 10, 6))
    assert validation(shares) == (2, Data(60, 12, 5))
    prime = Numbers(data, 8, validation=Data(37, 10, 3))
    assert validation(prime)[1].samples is not None
    none = Numbers(data, 4, validation=own, validates=lambda n: False)
    assert legal_set(none) is None


def test_words_for_a_legal_set() -> None:
    for given, text in (
        (
            Numbers(Data(None, 1, 7, None, 7), 4),
            " With 7 batches this is legal: compile(steps_per_execution=1). Or run a "
            "multiple of 4 steps, for example steps_per_epoch=4.",
        ),
        (
            Numbers(Data(None, 1, 7, None, 7, 2), 4),
            " With 7 batches this is legal: compile(steps_per_execution=1).",
        ),
        (
            Numbers(Data(None, 1, 7, None), 4, call="evaluate"),
            " With 7 batches this is legal: compile(steps_per_execution=1). Or run a "
            "multiple of 4 steps, for example steps=4.",
        ),
        (
            Numbers(Data(None, 1, 7), 4, call="evaluate", takes=lambda n: n != 4),
            " With 7 batches this is legal: compile(steps_per_execution=1).",
        ),
        (
            Numbers(Data(None, 1, 7), 4, validation=Data(None, 1, 3)),
            " With 7 batches this is legal: compile(steps_per_execution=1).",
        ),
        (
            Numbers(Data(None, 1, 3), 4, call="predict", takes=lambda n: n in (1, 4)),
            " With 3 batches this is legal: compile(steps_per_execution=1).",
        ),
        (
            Numbers(Data(None, 1, 7)),
            " With 7 batches this is legal: compile(steps_per_execution=1).",
        ),
        (
            Numbers(Data(None, 1, 7), 2),
            " With 7 batches this is legal: compile(steps_per_execution=1). Or run a "
            "multiple of 2 steps, for example steps_per_epoch=6.",
        ),
        (
            Numbers(Data(None, 1, 7), 2, 2, setter="set", takes=lambda n: n == 2),
            " With 7 batches this is legal: steps_per_epoch=6, "
            "compile(steps_per_execution=2), "
            "set(gradient_accumulation_steps_per_replica=2).",
        ),
        (
            Numbers(Data(None, 1, 7), 2, call="evaluate", takes=lambda n: n % 2 == 0),
            " With 7 batches this is legal: steps=6, compile(steps_per_execution=2).",
        ),
        (
            Numbers(Data(60, 10, 6), 3, validation=Data(42, 7, 6), has_own_size=True),
            " With 60 samples this is legal: batch_size=10, "
            "compile(steps_per_execution=3).",
        ),
        (
            Numbers(Data(70, 10, 7), 4),
            " With 70 samples this is legal: batch_size=10, "
            "compile(steps_per_execution=1). Or run a multiple of 4 steps, for example "
            "steps_per_epoch=4.",
        ),
        (
            Numbers(Data(59, 16, 3), 2),
            " With 59 samples this is legal: batch_size=59, "
            "compile(steps_per_execution=1).",
        ),
        (
            Numbers(Data(None, 1, 14), 4, replicas=2),
            " With 14 batches on 2 replicas this is legal: "
            "compile(steps_per_execution=1). Or run a multiple of 8 steps, for example "
            "steps_per_epoch=8.",
        ),
        (
            Numbers(Data(59, 16, 3), 2, replicas=2),
            " With 59 samples on 2 replicas this is legal: the first 48 samples, "
            "batch_size=16, compile(steps_per_execution=1).",
        ),
        (
            Numbers(Data(59, 16, 3), 2, replicas=2, call="predict"),
            " With 59 samples on 2 replicas this is legal: filled up to 64 samples, "
            "batch_size=16, compile(steps_per_execution=2).",
        ),
        (
            Numbers(Data(60, 10, 6), 3, 3, setter="set", validation=Data(37, 10, 3)),
            " With 60 samples this is legal: batch_size=10, the first 30 samples of "
            "validation_data, compile(steps_per_execution=3), "
            "set(gradient_accumulation_steps_per_replica=3).",
        ),
        (
            Numbers(Data(60, 10, 6), 4, validation=Data(40, 7, 5), has_own_size=True),
            " With 60 samples this is legal: batch_size=10, "
            "validation_batch_size=8, validation_steps=3, "
            "compile(steps_per_execution=3).",
        ),
        (
            Numbers(Data(None, 1, 5), 4, 3, 4),
            " Nothing fits 5 batches: give at least 12.",
        ),
        (Numbers(Data(None, 1, 12), 4, 3, 4, takes=lambda n: False), ""),
    ):
        assert advice(given) == text


def test_other_ways_than_another_batch_size() -> None:
    first = " Or give fit the first {} samples."
    rest = (
        " Or drop the rest in every pass: tf.data.Dataset.from_tensor_slices((x, y))"
        ".batch(10, drop_remainder=True)."
    )
    fill = " Or fill the input up to {} samples and keep the first {} results."
    odd = Data(65, 10, 6)
    own = {"has_own_size": True}
    for given, text in (
        (Numbers(Data(60, 10, 6), 4), ""),
        (Numbers(odd), first.format(60) + rest),
        (Numbers(odd, 4), first.format(40)),
        (Numbers(odd, 4, call="evaluate"), " Or give evaluate the first 40 samples."),
        (Numbers(odd, 9), first.format(60) + rest),
        (Numbers(odd, 3, replicas=2), first.format(60) + rest),
        (Numbers(odd, 9, replicas=4), first.format(40)),
        (Numbers(odd, 9, replicas=7), ""),
        (Numbers(odd, 3, 2), ""),
        (Numbers(odd, 4, 2), first.format(40)),
        (Numbers(odd._replace(steps=6)), ""),
        (Numbers(odd, 3, 3, takes=lambda n: n == 3), first.format(60) + rest),
        (Numbers(odd, 6, 3, takes=lambda n: n == 6), ""),
        (Numbers(odd, 6, takes=lambda n: n == 5, call="predict"), ""),
        (
            Numbers(odd, 7, takes=lambda n: n == 7, call="predict"),
            fill.format(70, 65),
        ),
        (Numbers(odd, 2, call="predict"), fill.format(80, 65)),
        (Numbers(Data(7, 10, 0)), ""),
        (Numbers(odd, 3, validation=Data(60, 9, 6)), first.format(60) + rest),
        (Numbers(odd, 3, 2, validation=Data(60, 9, 6)), ""),
        (Numbers(odd, 3, validation=Data(40, 9, 4)), ""),
        (Numbers(odd, 3, validation=Data(63, 7, 9), **own), first.format(60) + rest),
        (Numbers(odd, 3, validation=Data(56, 7, 8), **own), ""),
        (Numbers(odd, 3, validation=Data(70, 10, 7)), ""),
        (Numbers(odd, 3, validation=Data(30, 9, 3, 3)), first.format(60) + rest),
        (Numbers(odd, 3, validation=Data(40, 9, 4, 4)), ""),
        (
            Numbers(odd, 3, validation=Data(30, 9, 3), validates=lambda n: n != 3),
            "",
        ),
    ):
        assert other_ways(given) == text + WITHOUT


def test_an_error_is_marked() -> None:
    error = misfit(ValueError("wrong."), " Do it.", " Or not.")
    assert str(error) == "wrong. Do it. Or not."
    assert error.__dict__["_misfit"] == ("wrong.", " Or not.")


def model_of(*strict_modes: str, **attributes: Any) -> Any:
    """What errors are explained for."""
    made = SimpleNamespace(
        _is_strict=lambda mode: mode in strict_modes,
        **{"built": True, "_steps_per_execution": 6, "_serialized": 2},
    )
    vars(made).update(attributes)
    return made


def test_which_errors_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(Given(None))
    schedule = "3 batches." + explaining._OF_SCHEDULE
    legal = Numbers(Data(60, 10, 6), 3)
    told = advice(legal)

    def said(error: Exception, numbers: Any = legal, is_strict: bool = True) -> str:
        def find(*given: Any) -> Any:
            if isinstance(numbers, Exception):
                raise numbers
            return numbers

        monkeypatch.setattr(explaining, "_numbers", find)
        model = model_of(*["train"] * is_strict)
        with pytest.raises(type(error)) as caught, explained(model, "train", asked):
            raise error
        return str(caught.value)

    def marked() -> Exception:
        return misfit(ValueError("wrong."), " Do it.", WITHOUT)

    assert said(marked()) == "wrong." + told + other_ways(legal)
    assert said(marked(), legal._replace(data=Data(None, 1, 6))).endswith(WITHOUT)
    for numbers in (None, ValueError("else"), Numbers(Data(None, 1, 6), takes=bool)):
        if isinstance(numbers, Numbers):
            numbers = numbers._replace(takes=lambda n: False)
        assert said(marked(), numbers) == "wrong. Do it." + WITHOUT
    assert said(marked(), legal, is_strict=False) == "wrong. Do it." + WITHOUT
    assert said(misfit(ValueError("wrong."), " Do it.")) == "wrong." + told
    assert said(FailedPreconditionError(schedule)) == "3 batches." + told
    assert said(ValueError(schedule)) == schedule
    assert said(FailedPreconditionError("else")) == "else"


ROWS = np.zeros((60, 2), np.float32)


def data_set(count: int) -> Any:
    return tf.data.Dataset.from_tensors(ROWS).repeat(count)


def test_numbers_of_data() -> None:
    of_unknown = data_set(3).filter(lambda x: True)
    for given, steps, epochs, data in (
        (Given(data_set(5)), None, 1, Data(None, 1, 5, None, 5, 1)),
        (Given(data_set(5)), 2, 3, Data(None, 1, 2, 2, 5, 3)),
        (Given(data_set(1)), 1, 1, Data(None, 1, 1, 1, 1, 1)),
        (Given(data_set(-1)), 2, 1, Data(None, 1, 2, 2, None, 1)),
        (Given(of_unknown), 2, 1, Data(None, 1, 2, 2, None, 1)),
        (Given(data_set(-1)), None, 1, None),
        (Given(of_unknown), None, 1, None),
        (Given(data_set(0)), 3, 1, None),
        (Given(iter([1])), 3, 1, None),
        (Given(ROWS), None, 1, Data(60, 32, 1)),
        (Given(ROWS[:7]), None, 1, Data(7, 7, 1)),
        (Given(ROWS), 7, 1, Data(60, 9, 7, 7)),
        (Given(ROWS, batch_size=8), None, 1, Data(60, 8, 7)),
        (Given(ROWS, batch_size=8), 3, 1, Data(60, 8, 3, 3)),
    ):
        assert explaining._data(Asked(given, steps, epochs)) == data


def test_numbers_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers(mode: str, is_pipelined: bool, per_update: int, **how: Any) -> Any:
        execution = Execution(is_pipelined, per_update, 4)
        monkeypatch.setattr(explaining, "settle", lambda *_, **how: asked_how(how))

        def asked_how(how: dict[str, bool]) -> Execution:
            assert how == {"may_lack_updates": True}
            return execution

        model = how.pop("model", model_of("train", "test"))
        validation = how.pop("validation", None)
        asked = Asked(Given(ROWS, batch_size=10))
        return explaining._numbers(model, mode, asked, validation, **how)

    asked = Asked(Given(ROWS[:30], batch_size=10))
    found = numbers("train", False, 1, validation=asked, has_own_size=True)
    data, own = Data(60, 10, 6), Data(30, 10, 3)
    assert found[:-1] == (data, 6, 1, 4, "", found.takes, "fit", own, True)
    assert found.takes is found.validates is misfits.takes_any
    for mode, is_pipelined, per_update, setter, call in (
        ("train", False, 2, "set_gradient_accumulation_options", "fit"),
        ("train", True, 1, "set_pipelining_options", "fit"),
        ("test", True, 2, "", "evaluate"),
        ("predict", False, 2, "", "predict"),
    ):
        found = numbers(mode, is_pipelined, per_update, has_own_size=False)
        assert (found.setter, found.call, found.per_update) == (
            *(setter, call, per_update),
        )
        assert found.validation is None and not found.has_own_size
    lax = model_of("train")
    found = numbers("train", False, 1, model=lax, validation=asked, has_own_size=False)
    assert found.validation is None
    prepared: list[Any] = []
    unbuilt = model_of(built=False, _prepare=lambda *given: prepared.append(given))
    numbers("train", False, 1, model=unbuilt, has_own_size=False)
    ((mode, spec),) = prepared
    assert mode == "train" and spec.shape == [10, 2]

    def timetable(is_training: bool, number: int) -> Any:
        if number % (4 if is_training else 8):
            raise FailedPreconditionError("not so many")
        return SimpleNamespace(time_steps=number)

    model = model_of("train", _timetable=timetable)
    found = numbers("train", True, 4, model=model, has_own_size=False)
    assert [found.takes(n) for n in (3, 2, 4, 8)] == [False, False, True, True]
    assert [found.validates(n) for n in (4, 8)] == [False, True]
    found = numbers("test", True, 4, model=model, has_own_size=False)
    assert [found.takes(n) for n in (4, 8)] == [False, True]
    empty = Asked(Given(data_set(0)), 3)
    assert explaining._numbers(model, "train", empty, None, False) is None
