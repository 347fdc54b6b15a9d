# SPDX-License-Identifier: MIT
"""Calls on strings in a graph: Python makes them between programs, as it does at once.

The core knows numbers alone. The result of a call is found by trying it: on the values
that are known, and on some text or number where one is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._core import Tensor
from ipu.tf import nest
from ipu.tf._graph import mode
from ipu.tf._graph.frame import is_symbol, symbols_in
from ipu.tf._string_ops.tensors import StringTensor, serves
from ipu.tf._tensor import dispatch
from ipu.tf.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from ipu.tf._graph.graph import Graph
    from ipu.tf._graph.operation import GraphTensor

# what reads of a file give, which is not there while the graph is put together
_OF_FILES: dict[str, tuple[Any, str]] = {
    "decode_bmp": (None, "uint8"),
    "decode_gif": (None, "uint8"),
    "decode_image": (None, "uint8"),
    "decode_jpeg": ([None, None, None], "uint8"),
    "decode_png": ([None, None, None], "uint8"),
    "matching_files": ([None], "string"),
    "read_file": ([], "string"),
}
# sizes that are tried where one is open
_SIZES = (2, 3)


def takes_text(args: Any, kwargs: Any) -> bool:
    """Return whether one of the tensors among arguments is of strings."""
    return any(tensor.dtype.name == "string" for tensor in symbols_in((args, kwargs)))


def held(graph: Graph, value: Any, name: str | None = None) -> Any:
    """Return a fixed value as a tensor of the graph."""
    if not isinstance(value, StringTensor):
        return graph.constant(value, name)
    spec = TensorSpec(value.shape, "string")
    made = graph.python("Const", lambda: value, spec, name=name or "Const")
    made.known = value
    return made


def record_text(
    graph: Graph,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    type: str,
    is_pure: bool = True,
) -> Any:
    """Add a call that takes or gives strings.

    Args:
        is_pure: Whether it gives the same for the same arguments.
    """
    args, kwargs = nest.map_structure(_read, (args, kwargs))
    open_ones = [t for t in symbols_in((args, kwargs)) if t.known is None]
    try:
        found = [_tried(function, args, kwargs, size) for size in _SIZES]
    except Exception:
        if function.__name__ not in _OF_FILES or (is_pure and not open_ones):
            raise
        specs: Any = TensorSpec(*_OF_FILES[function.__name__])
    else:
        if is_pure and not open_ones:
            return nest.map_structure(lambda leaf: held(graph, leaf), found[0])
        if any(t._shape.rank is None for t in open_ones):
            specs = nest.map_structure(
                lambda leaf: TensorSpec(None, leaf.dtype), found[0]
            )
        else:
            specs = nest.map_structure(_common, *found)

    def call(args: Any, kwargs: Any) -> Any:
        return _called(function, args, kwargs)

    return graph.python(type, call, specs, (args, kwargs))


def _read(leaf: Any) -> Any:
    return leaf._as_graph_element() if hasattr(leaf, "_as_graph_element") else leaf


def _called(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return what a call gives at once."""
    handler = dispatch.handler_of(args, kwargs)
    with mode.suspended():
        if handler is not None and serves(function):
            made = handler(function, tuple(args), dict(kwargs))
        else:
            made = function(*args, **kwargs)
    return nest.map_structure(_as_tensor, made)


def _as_tensor(leaf: Any) -> Any:
    return leaf if isinstance(leaf, (Tensor, StringTensor)) else Tensor(leaf)


def _tried(function: Callable[..., Any], args: Any, kwargs: Any, size: int) -> Any:
    def value_of(leaf: Any) -> Any:
        return _trial(leaf, size) if is_symbol(leaf) else leaf

    args, kwargs = nest.map_structure(value_of, (args, kwargs))
    return _called(function, args, kwargs)


def _trial(tensor: GraphTensor, size: int) -> Any:
    if tensor.known is not None:
        return tensor.known
    sizes = [] if tensor._shape.rank is None else tensor._shape.as_list()
    shape = [size if one is None else one for one in sizes]
    if tensor.dtype.name == "string":
        return StringTensor(np.full(shape, b"0", object))
    return Tensor(np.ones(shape, tensor.dtype.as_numpy_dtype))


def _common(one: Any, other: Any) -> TensorSpec:
    if len(one.shape) != len(other.shape):
        return TensorSpec(None, one.dtype)
    pairs = zip(one.shape, other.shape, strict=True)
    return TensorSpec([a if a == b else None for a, b in pairs], one.dtype)
