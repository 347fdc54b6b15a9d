# SPDX-License-Identifier: MIT
"""Calls of op functions become operations of a graph.

Shapes and dtypes of the results are found by tracing the call once, twice where sizes
are open. What the trace sees besides is kept: tensors that the function takes from
around it, variables it uses and makes, and whether it draws random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ipu import _core, _placement
from ipu._core import Tensor
from ipu.tf import _inference, nest
from ipu.tf._graph import frame
from ipu.tf._graph.operation import GraphOperation, GraphTensor, Place
from ipu.tf.dtypes import as_dtype

if TYPE_CHECKING:
    from ipu.tf._graph.graph import Graph

__all__ = ["add_traced", "record", "takes_over"]

Handler = Callable[..., Any]

_handlers: dict[Any, Handler] = {}


def takes_over(function: Callable[..., Any]) -> Callable[[Handler], Handler]:
    """Let ``handler(graph, *args, **kwargs)`` serve calls of a function in graphs.

    Args:
        function: The undecorated function, as the dispatch hands it over.
    """

    def register(handler: Handler) -> Handler:
        _handlers[function] = handler
        return handler

    return register


def record(
    graph: Graph,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    type: str | None,
) -> Any:
    """Add a call; see :meth:`Graph.record`."""
    handler = _handlers.get(function)
    if handler is not None:
        return handler(graph, *args, **kwargs)
    name = kwargs.get("name")
    kind = type or _camel(function.__name__)
    op = graph.add(
        kind, function, args, kwargs, name=name if isinstance(name, str) else None
    )
    op.rounding = _placement.current_rounding()
    return add_traced(op, host=True)


_TYPES = {
    "matmul": "MatMul",
    "ones": "ones",
    "reduce_max": "Max",
    "reduce_mean": "Mean",
    "reduce_min": "Min",
    "reduce_sum": "Sum",
    "zeros": "zeros",
}


def _camel(name: str) -> str:
    """TensorFlow's way of writing types: ``expand_dims`` is ``ExpandDims``."""
    if name in _TYPES:
        return _TYPES[name]
    words = [word for word in name.split("_") if word]
    return "".join(word[0].upper() + word[1:] for word in words) or "Op"


class _Seen:
    """What a trace sees of a function beside its result."""

    def __init__(self) -> None:
        self.captured: list[GraphTensor] = []
        self.variables: dict[int, Any] = {}
        self.draws = False


def add_traced(op: GraphOperation, host: bool) -> Any:
    """Find what an operation gives, and make it part of its graph.

    Args:
        op: The operation.
        host: Whether it may do what only the host can.

    Returns:
        The result of its function, with tensors of the graph in it; the operation where
        there is no tensor.
    """
    seen = _Seen()
    given = [t for t in dict.fromkeys(op.inputs) if t.known is None]
    results = _infer(op, given, seen, host)
    op.captured = list(dict.fromkeys(seen.captured))
    op.variables = seen.variables
    op.is_pure = not (seen.variables or seen.draws or op.control_inputs)
    count = 0
    for leaf in nest.flatten(results):
        if isinstance(leaf, _inference.Inferred):
            op.leaves.append(_tensor(op, count, leaf))
            count += 1
        else:
            op.leaves.append(leaf)
    op.structure = nest.pack_sequence_as(results, op.leaves)
    if count and op.is_pure and all(_is_size(leaf) for leaf in op.leaves):
        op.place = Place("ANY")
    op.graph.keep(op)
    return op.structure if count else op


def _tensor(op: GraphOperation, index: int, found: _inference.Inferred) -> GraphTensor:
    trials = found.trials
    if trials and not any(leaf.trials for leaf in op.inputs) and _is_same(trials):
        return GraphTensor(op, index, found.shape, as_dtype(found.dtype), (), trials[0])
    return GraphTensor(op, index, found.shape, as_dtype(found.dtype), trials)


def _is_same(trials: tuple[Any, ...]) -> bool:
    first = trials[0].numpy()
    return all((one.numpy() == first).all() for one in trials[1:])


def _is_size(leaf: Any) -> bool:
    return isinstance(leaf, GraphTensor) and bool(leaf.trials or leaf.known is not None)


def _infer(
    op: GraphOperation, given: list[GraphTensor], seen: _Seen, host: bool
) -> Any:
    calls = 0
    opened = was_called = False
    for one in given:
        if one.shape.rank is None:
            raise ValueError(
                f"{op.name}: the shape of {one!r} is not known. Give the placeholder "
                "a shape, or call set_shape, with None for sizes that vary."
            )

    def call(values: list[Any]) -> Any:
        nonlocal calls, was_called
        trial, calls = calls, calls + 1
        is_first, was_called = not was_called, True
        trace = _core.open_trace()
        assert trace is not None

        def missing(tensor: GraphTensor) -> Any:
            nonlocal opened
            seen.captured.append(tensor)
            if tensor.trials:
                opened = True
                return tensor.trials[trial]
            opened |= None in tensor.shape
            shape = _inference.probe_sizes(tensor.shape, trial)
            held = trace.parameter((tensor.dtype.name, shape))
            values_here.values[id(tensor)] = held
            return held

        values_here = frame.Frame(missing)
        for tensor, value in zip(given, values, strict=True):
            values_here.values[id(tensor)] = value
        created = op.made.first() if is_first else op.made.again()
        with values_here.entered(), created:
            args, kwargs = values_here.real((op.args, op.kwargs))
            result = op.function(*args, **kwargs)
        seen.variables.update(values_here.needed)
        seen.variables.update(values_here.assigned)
        seen.draws |= trace.next_ordinal > 0
        return nest.map_structure(_plain, result)

    with _placement.provisional():
        results = _inference.infer(call, given, host)
        if opened and calls == 1:
            calls = 0
            results = _inference.infer(call, given, host, is_open=True)
    return results


def _plain(leaf: Any) -> Any:
    """A variable as its value."""
    if isinstance(leaf, Tensor) or not hasattr(leaf, "__ipu_tensor__"):
        return leaf
    return Tensor(leaf)
