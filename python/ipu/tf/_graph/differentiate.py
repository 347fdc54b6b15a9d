# SPDX-License-Identifier: MIT
"""Derivatives in a graph.

They are computed where what they are derivatives of is traced: the operation of a
gradient names those that have to be in the same program, its *path*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ipu._core import Tensor
from ipu._text.errors import InvalidArgumentError
from ipu.tf import nest
from ipu.tf._functions import inference
from ipu.tf._gradients.derivatives import UnconnectedGradients, unconnected_of
from ipu.tf._graph import frame
from ipu.tf._graph.operation import GraphOperation, GraphTensor, Place
from ipu.tf._ops.creation import zeros_like
from ipu.tf.dtypes import as_dtype
from ipu.tf.gradient_tape import gradients as traced_gradients
from ipu.tf.tensor_shape import TensorShape

if TYPE_CHECKING:
    from ipu.tf._graph.graph import Graph

# what the core says of a loop whose number of turns only values can tell
_OPEN_LOOP = "how many turns there are at most"
_CUTS = ("StopGradient", "StopGradients")


def ancestors(targets: Sequence[GraphOperation]) -> list[GraphOperation]:
    """Return operations and all whose results they take, in the order of the graph."""
    found: set[GraphOperation] = set()
    waiting = list(targets)
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting.extend(tensor.op for tensor in op.inputs)
    return sorted(found, key=lambda op: op.index)


def gradients(
    graph: Graph,
    ys: Sequence[Any],
    xs: Sequence[Any],
    grad_ys: Sequence[Any] | None,
    stops: Sequence[Any],
) -> list[Any]:
    """Add derivatives; see :meth:`Graph.gradients`.

    Returns:
        For each of ``xs`` a tensor, or None where ``ys`` do not depend on it.
    """
    ys = [graph.as_graph_element(y, allow_operation=False) for y in ys]
    weights = list(grad_ys) if grad_ys is not None else None

    def derive(ys: Any, xs: Any, stops: Any, weights: Any) -> Any:
        given = [frame.fed(x) for x in xs]  # in the place of variables
        xs = [x if one is None else one for x, one in zip(xs, given, strict=True)]
        return traced_gradients(list(ys), list(xs), weights, stop_gradients=list(stops))

    path = _path(ys, xs)
    places = [op.place for op in path if op.place.kind == "IPU"]
    place = places[0] if places else Place("CPU")
    op = graph.add(
        "gradients", derive, (ys, list(xs), list(stops), weights), place=place
    )
    op.path = frozenset(path)
    results = _found(op, ys, xs, stops, path)
    count = 0
    for found in results:
        if found is None:
            op.leaves.append(None)
        else:
            shape, dtype = TensorShape(found.shape), as_dtype(found.dtype)
            op.leaves.append(GraphTensor(op, count, shape, dtype))
            count += 1
    op.structure = list(op.leaves)
    graph.keep(op)
    return list(op.leaves)


def _found(
    op: GraphOperation,
    ys: Sequence[Any],
    xs: Sequence[Any],
    stops: Sequence[Any],
    path: Sequence[GraphOperation],
) -> list[Any]:
    """Return what looks like the derivatives, or None where there is none."""
    before = ancestors([t.op for t in op.inputs])
    is_known = all(t._shape.rank is not None for one in before for t in one.outputs)
    if is_known and not any(one.is_open for one in before):
        try:
            return _infer(op, before)
        except InvalidArgumentError as error:
            if op.place.kind != "CPU" or _OPEN_LOOP not in str(error):
                raise
            op.is_open = True
    return _connected(op, ys, xs, stops, path)


def gradients_of(
    graph: Graph,
    ys: Any,
    xs: Any,
    grad_ys: Any,
    stops: Sequence[Any],
    unconnected_gradients: Any,
) -> list[Any]:
    """Return the derivatives of what ``tf.gradients`` is given."""
    targets, sources = _listed(ys), _listed(xs)
    weights = None if grad_ys is None else _listed(grad_ys)
    if weights is not None and len(weights) != len(targets):
        raise ValueError(
            f"grad_ys must have one entry for each of the {len(targets)} ys. "
            f"Received: {len(weights)}."
        )
    found = gradients(graph, targets, sources, weights, stops)
    if unconnected_of(unconnected_gradients) is UnconnectedGradients.NONE:
        return found
    return [
        zeros_like(x) if gradient is None else gradient
        for x, gradient in zip(sources, found, strict=True)
    ]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _path(ys: Sequence[Any], xs: Sequence[Any]) -> list[GraphOperation]:
    """Return the operations between the sources and what is differentiated."""
    made = {id(x) for x in xs if isinstance(x, GraphTensor)}
    read = {id(x) for x in xs if not isinstance(x, GraphTensor)}
    on_path: set[GraphOperation] = set()
    for op in ancestors([y.op for y in ys]):
        if not op.place.is_traced:
            continue
        takes = any(id(t) in made or t.op in on_path for t in op.inputs)
        if takes or read & set(op.variables):
            on_path.add(op)
    return sorted(on_path, key=lambda op: op.index)


def _connected(
    op: GraphOperation,
    ys: Sequence[Any],
    xs: Sequence[Any],
    stops: Sequence[Any],
    path: Sequence[GraphOperation],
) -> list[Any]:
    """Return the same where shapes are not known: what a float path leads to has a
    derivative.

    A derivative that a run finds to be None after all is zero.
    """
    for one in path:
        op.variables.update(one.variables)
    reached = {id(y) for y in ys}
    variables: set[int] = set()
    cut = {stop.op for stop in stops if isinstance(stop, GraphTensor)}
    for one in reversed(path):
        if one in cut:
            continue
        if any(id(t) in reached for t in one.outputs) and one.type not in _CUTS:
            reached |= {id(t) for t in one.inputs if t.dtype.is_floating}
            variables |= set(one.variables)
    found = [x if id(x) in reached | variables else None for x in xs]
    function = op.function

    def derive(ys: Any, xs: Any, stops: Any, weights: Any) -> Any:
        results = zip(function(ys, xs, stops, weights), xs, found, strict=True)
        return [
            zeros_like(x) if result is None and wanted is not None else result
            for result, x, wanted in results
        ]

    op.function = derive
    return found


def _infer(op: GraphOperation, before: list[GraphOperation]) -> list[Any]:
    """Return what the derivatives look like: all that is before them is traced."""
    traced = [one for one in before if one.place.kind != "PYTHON"]
    given = [
        tensor for one in before if one.place.kind == "PYTHON" for tensor in one.outputs
    ]

    def call(values: list[Any]) -> Any:
        here = frame.Frame()
        for tensor, value in zip(given, values, strict=True):
            here.values[id(tensor)] = value
        with here.entered():
            for one in traced:
                one.execute(here)
            # ones as weights: the sizes of others are known when they are fed
            sources = here.real(op.args[:3])
            result = op.function(*sources, None)
        op.variables.update(here.needed)
        return result

    from ipu._device import placement

    with placement.provisional():
        found = inference.infer(call, given, host=True)
    return list(nest.flatten(found)) if not isinstance(found, Tensor) else [found]
