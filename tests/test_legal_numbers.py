# SPDX-License-Identifier: MIT
"""Numbers that do not fit together: the first error names a set that trains."""

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu.keras.layers import Dense

ERRORS = (ValueError, RuntimeError, tf.errors.FailedPreconditionError)
AMOUNTS = {
    "validation": r"the first (\d+) samples of validation_data",
    "data": r"(?:the first|filled up to) (\d+) samples(?! of)",
}
X, Z = np.ones((99, 6), "f4"), np.ones((99, 2), "f4")


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    yield from strategy(1)


def strategy(ipus: int) -> Iterator[None]:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        yield
    ipu.config.reset_ipu_configuration()


def attach(ipus: int) -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def model_of(stages: int, options: dict[str, Any]) -> keras.Model:
    """A model of three layers, in stages or not, with what a user might have set."""
    model = keras.Sequential([Dense(4, input_shape=(6,)), Dense(3), Dense(2)])
    told = {"steps_per_execution": options.get("execution")}
    model.compile("sgd", "mse", **{k: v for k, v in told.items() if v})
    update = options.get("update")
    if stages:
        assignment = [0, 1, 1] if stages == 2 else [0, 1, 2]
        model.set_pipeline_stage_assignment(assignment)
        model.set_pipelining_options(
            update, schedule=options.get("schedule", "Grouped")
        )
    elif update:
        model.set_gradient_accumulation_options(update)
    return model


def batches(count: int) -> Any:
    rows = tf.data.Dataset.from_tensor_slices((X[:4], Z[:4]))
    return rows.batch(4, drop_remainder=True).repeat(count)


def told(text: str) -> dict[str, int]:
    """The set that an error names."""
    assert "this is legal: " in text, text
    sentence = text.partition("this is legal: ")[2].partition(". ")[0]
    found = dict(re.findall(r"(\w+)=(\d+)", sentence))
    for name, pattern in AMOUNTS.items():
        match = re.search(pattern, sentence)
        if match:
            found[name] = match[1]
    return {name: int(value) for name, value in found.items()}


def apply(options: dict[str, Any], found: dict[str, int]) -> tuple[Any, Any]:
    """The user's program, changed as the error says."""
    found = dict(found)
    options = dict(options)
    options["execution"] = found.pop("steps_per_execution")
    if "gradient_accumulation_steps_per_replica" in found:
        options["update"] = found.pop("gradient_accumulation_steps_per_replica")
    return options, found


BY_FIVE = {"batch_size": 5}
# IPUs, stages, options, call, data, arguments
CASES: dict[str, tuple[int, int, dict[str, Any], str, Any, dict[str, Any]]] = {
    "a rest": (1, 0, {}, "fit", 60, {"batch_size": 16}),
    "a rest, by default": (1, 0, {}, "fit", 60, {}),
    "a rest and updates": (1, 0, {"update": 4}, "fit", 60, {"batch_size": 16}),
    "a rest and executions": (
        1,
        0,
        {"execution": 8, "update": 2},
        "fit",
        60,
        {"batch_size": 16},
    ),
    "updates alone": (1, 0, {"update": 4}, "fit", 60, {"batch_size": 5}),
    "updates of a prime number": (1, 0, {"update": 4}, "fit", batches(7), {}),
    "executions": (1, 0, {"execution": 4}, "fit", 60, {"batch_size": 10}),
    "executions of a data set": (1, 0, {"execution": 4}, "fit", batches(7), {}),
    "executions of a prime number": (1, 0, {"execution": 4}, "fit", 35, BY_FIVE),
    "executions of an evaluation": (1, 0, {"execution": 4}, "evaluate", 35, BY_FIVE),
    "executions and updates": (
        1,
        0,
        {"execution": 6, "update": 4},
        "fit",
        batches(12),
        {},
    ),
    "replicas": (4, 0, {"update": 4}, "fit", 60, {"batch_size": 30}),
    "few batches": (4, 0, {}, "fit", 60, {"batch_size": 20}),
    "executions that replicas share": (
        2,
        0,
        {"execution": 12, "update": 4},
        "fit",
        batches(12),
        {},
    ),
    "a schedule": (2, 2, {"update": 3, "execution": 3}, "fit", batches(12), {}),
    "no updates": (2, 2, {"execution": 12}, "fit", batches(12), {}),
    "nothing set": (2, 2, {}, "fit", batches(12), {}),
    "Interleaved": (
        4,
        3,
        {"update": 4, "execution": 4, "schedule": "Interleaved"},
        "fit",
        60,
        {"batch_size": 16},
    ),
    "evaluate": (1, 0, {"execution": 4}, "evaluate", 60, {"batch_size": 16}),
    "predict": (1, 0, {"execution": 4}, "predict", 60, {"batch_size": 16}),
    "evaluate of a pipeline": (
        2,
        2,
        {"update": 4, "execution": 5},
        "evaluate",
        60,
        {"batch_size": 12},
    ),
    "predict of a pipeline": (
        2,
        2,
        {"update": 4, "execution": 5},
        "predict",
        60,
        {"batch_size": 12},
    ),
    "predict of a pipeline, nothing set": (
        2,
        2,
        {"update": 4},
        "predict",
        60,
        {"batch_size": 15},
    ),
    "too many steps": (
        1,
        0,
        {"update": 4, "execution": 4},
        "fit",
        batches(7),
        {"steps_per_epoch": 8},
    ),
    "too many epochs": (
        1,
        0,
        {},
        "fit",
        batches(7),
        {"steps_per_epoch": 6, "epochs": 2},
    ),
    "too many steps of arrays": (
        1,
        0,
        {},
        "fit",
        60,
        {"steps_per_epoch": 8, "batch_size": 10},
    ),
    "too many steps of an evaluation": (
        1,
        0,
        {"execution": 2},
        "evaluate",
        batches(7),
        {"steps": 8},
    ),
    "a rest of the validation": (
        1,
        0,
        {"execution": 6, "update": 3},
        "fit",
        60,
        {"batch_size": 10, "validation": 45},
    ),
    "validation of fewer batches": (
        1,
        0,
        {"execution": 3},
        "fit",
        60,
        {"batch_size": 10, "validation": 50},
    ),
    "validation that would be broken next": (
        1,
        0,
        {"execution": 4},
        "fit",
        60,
        {"batch_size": 10, "validation": 45},
    ),
    "validation with a size": (
        1,
        0,
        {"execution": 3},
        "fit",
        60,
        {"batch_size": 10, "validation": 50, "validation_batch_size": 7},
    ),
    "a prime number": (1, 0, {"execution": 2}, "fit", 59, {"batch_size": 16}),
    "prediction of a prime number": (
        2,
        0,
        {"execution": 3},
        "predict",
        59,
        {"batch_size": 16},
    ),
    "validation on a prime number": (
        1,
        0,
        {"execution": 2},
        "fit",
        60,
        {"batch_size": 15, "validation": 37},
    ),
    "a rest beside validation": (
        1,
        0,
        {"execution": 2},
        "fit",
        60,
        {"batch_size": 16, "validation": 32},
    ),
    "validation of a pipeline": (
        2,
        2,
        {"update": 4, "execution": 4},
        "fit",
        60,
        {"batch_size": 15, "validation": 45},
    ),
}


def run(case: Any, options: dict[str, Any], changed: dict[str, int]) -> Any:
    _, stages, _, call, data, given = case
    model = model_of(stages, options)
    kwargs = {"data": data, **given, **changed}
    data = kwargs.pop("data")
    validation = kwargs.pop("validation", None)
    if validation is not None:
        kwargs["validation_data"] = (X[:validation], Z[:validation])
    args: tuple[Any, ...] = (data,)
    if isinstance(data, int):
        args = (X[:data],) if call == "predict" else (X[:data], Z[:data])
    return getattr(model, call)(*args, verbose=0, **kwargs)


@pytest.mark.parametrize("name", CASES)
def test_the_set_of_an_error_is_legal(name: str) -> None:
    case = CASES[name]
    attach(case[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ERRORS) as caught:
            run(case, case[2], {})
    text = str(caught.value)
    options, changed = apply(case[2], told(text))
    run(case, options, changed)
    for name, steps in re.findall(r" Or run .* example (\w+)=(\d+)", text):
        run(case, case[2], {name: int(steps)})
    for samples in re.findall(r" Or (?:give|fill)\D* (\d+) samples", text):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(case, case[2], {"data": int(samples)})
