# SPDX-License-Identifier: MIT
"""What ops refuse, when compiled and when run; and their gradients at kinks."""

from __future__ import annotations

import re

import numpy as np
import pytest
from op_cases import harness
from op_cases.model import ALL, DEVICE, Array, Graph, Type, type_text

import ipu
from ipu import _core

# --- what breaks a rule at run time ---------------------------------------------------


def raises_for(
    op: str, inputs: list[Array], attrs: str, outs: list[Type], match: str
) -> None:
    graph = Graph()
    names = [graph.param((x.dtype.name, x.shape)) for x in inputs]
    text = graph.finish(graph.node(op, names, attrs, outs))
    for reference in (False, True):
        with pytest.raises(ipu.tf.errors.InvalidArgumentError, match=match):
            harness.run(text, inputs, reference=reference)


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8"])
@pytest.mark.parametrize("op", ["floor_div", "floor_mod"])
def test_integer_division_by_zero_is_an_error(op: str, dtype: str) -> None:
    inputs = [np.array([4, 5, 6], dtype), np.array([1, 0, 2], dtype)]
    raises_for(op, inputs, "", [(dtype, (3,))], "division by zero")


def test_integers_to_negative_powers_are_an_error() -> None:
    inputs = [np.array([4, 5], "int32"), np.array([1, -1], "int32")]
    raises_for("pow", inputs, "", [("int32", (2,))], "negative integer power")


@pytest.mark.parametrize("label", [-1, 3])
def test_labels_outside_the_classes_are_an_error(label: int) -> None:
    inputs = [np.zeros((2, 3), "f4"), np.array([0, label], "i4")]
    kinds = [("float32", (2,)), ("float32", (2, 3))]
    raises_for("sparse_cross_entropy", inputs, "", kinds, f"label {label} of row 1")


@pytest.mark.parametrize("index", [-1, 4])
def test_indices_outside_the_axis_are_an_error(index: int) -> None:
    inputs = [np.zeros((4, 3), "f4"), np.array([0, index], "i4")]
    raises_for(
        "gather", inputs, "axis=0", [("float32", (2, 3))], rf"= {index} is not in"
    )


@pytest.mark.parametrize("dtype", sorted(set(ALL) - set(DEVICE)))
def test_wide_dtypes_are_for_host_graphs(dtype: str) -> None:
    text = f"block b0(%0: {type_text((dtype, (2,)))}) {{\n}} -> (%0)\n"
    with pytest.raises(TypeError, match=re.escape(f"{dtype}[2] does not exist on the")):
        _core.graph_compile(text)
    _core.graph_compile("host graph\n" + text)


# --- conventions at kinks -------------------------------------------------------------


def gradient_at(op: str, *inputs: Array, attrs: str = "") -> list[list[float]]:
    graph = Graph()
    names = [graph.param((x.dtype.name, x.shape)) for x in inputs]
    shape = np.broadcast_shapes(*(x.shape for x in inputs))
    shape = () if "axes" in attrs else shape
    text = graph.finish(graph.node(op, names, attrs, [("float32", shape)]))
    out = harness.run(_core.graph_gradients(text), list(inputs))
    return [g.tolist() for g in out[1:]]


def f4(*values: float) -> Array:
    return np.array(values, np.float32)


def test_gradients_at_kinks_are_those_of_tensorflow() -> None:
    assert gradient_at("relu", f4(-1, -0.0, 0, 1)) == [[0, 0, 0, 1]]
    assert gradient_at("abs", f4(-2, 0, 2)) == [[-1, 0, 1]]
    assert gradient_at("maximum", f4(1, 2), f4(1, 1)) == [[1, 1], [0, 0]]
    assert gradient_at("minimum", f4(1, 2), f4(1, 1)) == [[1, 0], [0, 1]]
    assert gradient_at("max", f4(1, 3, 3, 2), attrs="axes=[0]") == [[0, 0.5, 0.5, 0]]
    assert gradient_at("min", f4(1, 1, 3, 1), attrs="axes=[0]")[0][2] == 0
    assert gradient_at("pow", f4(0, 0, -2), f4(0, 2, 2)) == [[0, 0, -4], [0, 0, 0]]
    assert gradient_at("stop_gradient", f4(1, 2)) == [[0, 0]]
    assert gradient_at("sqrt", f4(0, 4)) == [[np.inf, 0.25]]
