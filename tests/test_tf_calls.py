"""Calls of ``tf.*``: what they give, eager, in a function and on the host, is what
TensorFlow gives; so are the gradients. TensorFlow's results lie in op_cases/calls.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grouped import in_groups
from op_cases.calls import (
    OTHERS,
    SMOOTH,
    evaluate,
    inputs,
    lines,
    names_in,
    plain,
)

from ipu import tf
from ipu.tf._functions import function

FOUND = json.loads(Path(__file__).parent.joinpath("op_cases/calls.json").read_text())
ALL = lines(SMOOTH) + lines(OTHERS)
# results whose shape depends on values: a function that is compiled cannot have them
OPEN = ("tf.where(t)", "tf.boolean_mask(a, t)")
NARROW = {"int64": "int32", "float64": "float32"}


def as_array(row: Any) -> Any:
    dtype, shape, items = row
    numbers = [float(i) if isinstance(i, str) else i for i in items]
    return np.array(numbers, dtype).reshape(shape)


def same(got: Any, row: Any, what: str, loose: float = 1.0) -> None:
    if isinstance(row, str):
        assert got == row
        return
    want = as_array(row)
    array = np.asarray(got)
    names = {want.dtype.name, NARROW.get(want.dtype.name, want.dtype.name)}
    assert array.dtype.name in names, f"{what}: {array.dtype} is not {want.dtype}"
    assert array.shape == want.shape, f"{what}: {array.shape} is not {want.shape}"
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(array, want, what)
        return
    room = (2e-3 if want.dtype == np.float16 else 2e-5) * loose
    np.testing.assert_allclose(array, want, room, room, err_msg=what)


def test_every_call_has_its_result() -> None:
    assert set(FOUND) == set(ALL), "run tests/op_cases/calls.py with TensorFlow"


@in_groups(ALL)
def test_value(line: str) -> None:
    same(evaluate(tf, line, inputs(tf)), FOUND[line]["value"], "eager")


def run(line: str, host: bool = False, wide: bool = False) -> Any:
    given = inputs(tf, wide)
    names = list(given)

    def body(*tensors: Any) -> Any:
        return evaluate(tf, line, dict(zip(names, tensors, strict=True)))

    specs = [tf.TensorSpec(t.shape, t.dtype) for t in given.values()]
    traced = function.trace_program(body, specs, host=host)
    outputs = traced.program.run(list(given.values()))
    return traced.pack(outputs)


@in_groups(ALL)
def test_in_a_function(line: str) -> None:
    eager = evaluate(tf, line, inputs(tf))
    if line in OPEN:
        with pytest.raises(TypeError, match=r"static|known"):
            run(line)
        return
    same(run(line), plain(eager), "in a function", loose=0.1)


@in_groups(ALL)
def test_on_the_host(line: str) -> None:
    """As ``Dataset.map`` runs them: float64 stays float64."""
    if line in OPEN:
        return
    eager = evaluate(tf, line, inputs(tf, wide=True))
    same(run(line, host=True, wide=True), plain(eager), "on the host", loose=0.1)


@in_groups([k for k in lines(SMOOTH) if "gradients" in FOUND[k]])
def test_gradient(line: str) -> None:
    given = inputs(tf)
    names = names_in(line)
    want = FOUND[line]["gradients"]

    def body(*tensors: Any) -> Any:
        values = {**given, **dict(zip(names, tensors, strict=True))}
        return tf.gradients(evaluate(tf, line, values), list(tensors))

    specs = [tf.TensorSpec(given[n].shape, given[n].dtype) for n in names]
    traced = function.trace_program(body, specs)
    found = traced.pack(traced.program.run([given[n] for n in names]))
    for name, slope in zip(names, found, strict=True):
        if want[name] is None:
            assert slope is None or not np.any(np.asarray(slope)), name
        elif slope is None:  # as good as zeros
            assert not np.any(as_array(want[name])), name
        else:
            same(slope, want[name], f"with respect to {name}", loose=5.0)
