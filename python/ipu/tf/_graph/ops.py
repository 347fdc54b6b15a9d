# SPDX-License-Identifier: MIT
"""Functions that mean something else where a graph is put together."""

from __future__ import annotations

from typing import Any

from ipu._core import Tensor
from ipu.tf._graph import mode
from ipu.tf._graph.frame import is_symbol
from ipu.tf._graph.graph import Graph
from ipu.tf._graph.record import takes_over
from ipu.tf._graph.texts import held
from ipu.tf._graph.variables import GraphVariable
from ipu.tf._tensor import convert
from ipu.tf.dtypes import as_dtype

__all__: list[str] = []


def _undecorated(function: Any) -> Any:
    """Return what the dispatch hands over."""
    return function.__wrapped__


@takes_over(_undecorated(convert.constant))
def _constant(
    graph: Graph,
    value: Any,
    dtype: Any = None,
    shape: Any = None,
    name: str | None = None,
    verify_shape: bool = False,
) -> Any:
    if is_symbol(value) or isinstance(value, GraphVariable):
        return _converted(graph, value, dtype, name=name)
    with mode.suspended():
        made = convert.constant(value, dtype, shape)
    return held(graph, made, name)


@takes_over(_undecorated(convert.convert_to_tensor))
def _converted(
    graph: Graph,
    value: Any,
    dtype: Any = None,
    dtype_hint: Any = None,
    name: str | None = None,
    preferred_dtype: Any = None,
) -> Any:
    if isinstance(value, GraphVariable):
        value = value.value()
    if is_symbol(value):
        if dtype is not None and value.dtype != as_dtype(dtype):
            raise ValueError(
                f"Tensor conversion requested dtype {as_dtype(dtype).name} for Tensor "
                f"with dtype {value.dtype.name}: {value!r}. Use tf.cast."
            )
        return value
    if isinstance(value, (list, tuple)) and _holds_symbol(value):
        return graph.record(_stacked, (value, dtype), {}, "Pack")
    with mode.suspended():
        made = convert.convert_to_tensor(value, dtype, dtype_hint or preferred_dtype)
    return held(graph, made, name)


def _holds_symbol(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_symbol(one) for one in value)
    return is_symbol(value) or isinstance(value, GraphVariable)


def _stacked(value: Any, dtype: Any) -> Tensor:
    return convert.convert_to_tensor(value, dtype)
