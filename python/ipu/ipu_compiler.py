# SPDX-License-Identifier: MIT
"""``ipu.ipu_compiler``: compile a function as one device program and run it.

Example:
    >>> from ipu import ipu_compiler, ipu_strategy
    >>> with ipu_strategy.IPUStrategy().scope():
    ...     [total] = ipu_compiler.compile(lambda a, b: a + b, [1.0, 2.0])
    >>> float(total)
    3.0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu._device import placement
from ipu._text.exports import export
from ipu._text.tracebacks import boundary
from ipu.tf import nest
from ipu.tf._functions.function import DeviceFunction
from ipu.tf._functions.scopes import is_tensor
from ipu.tf._graph import mode
from ipu.tf._graph.reached import pruned
from ipu.tf._tensor.operation import Operation
from ipu.tf.variable import Variable

__all__ = ["compile"]


@boundary
def compile(
    computation: Callable[..., Any], inputs: Sequence[Any] | None = None
) -> Any:
    """Compile a function for the IPU device of the scope, and run it.

    Every call traces the function anew and runs it once. Inside a function that is
    being traced it becomes part of that one. In a graph of TensorFlow 1 it is traced
    when the call is made, and once more when a session first runs it; the results are
    tensors of the graph, or an operation. There an effect (an assignment, an enqueue,
    an update) runs only if the function returns it, or something that runs after it.

    Args:
        computation: Called with one argument for each of ``inputs``.
        inputs: A list or tuple of tensors, numbers, arrays, or structures of them; a
            list of numbers is a list of scalars. None stands for an empty list.

    Returns:
        A list of the tensors that ``computation`` returned, also for a single one;
        numbers become tensors, and operations (such as an enqueue) that come after the
        tensors are left out. Nested structures come back as they are; an operation in
        one is that of the program, where there is a graph, else None. None where there
        are not tensors.

    Raises:
        Exception: No IPU device is active: the call is in no ``ipu_scope`` or
            strategy scope.
        TypeError: ``inputs`` is not a list or tuple.
        ValueError: A tensor comes after an operation, or the result contains an
            EstimatorSpec.

    Source: ``ipu.ipu_compiler.compile``.

    Example:
        >>> from ipu import scopes
        >>> with scopes.ipu_scope("/device:IPU:0"):
        ...     results = compile(lambda x: (x + 1.0, x * 2.0), [3.0])
        >>> [float(one) for one in results]
        [4.0, 6.0]
    """
    if not callable(computation):
        raise TypeError(f"`computation` must be callable. Received: {computation!r}.")
    if inputs is not None and not isinstance(inputs, (list, tuple)):
        raise TypeError(
            "`inputs` must be a list or tuple with one entry for each argument of "
            f"`computation`. Received: {inputs!r}."
        )
    graph = mode.building()
    ordinal = None if graph is None else placement.graph_ordinal()
    device = placement.active_ipu() if graph is None else None
    if device is None and ordinal is None:
        return _unplaced(graph, computation, inputs or ())
    args = [nest.map_structure(_tensor, one) for one in inputs or ()]

    def results(*args: Any) -> Any:
        return _results(computation(*args))

    if graph is not None and ordinal is not None:
        return _in_graph(graph, ordinal, computation, args)
    if _core.open_trace() is not None:
        return results(*args)
    return DeviceFunction(results, device)(*args)


def _unplaced(
    graph: Any, computation: Callable[..., Any], inputs: Sequence[Any]
) -> Any:
    """Return what a computation without operations returned; raise for any other."""
    count = 0 if graph is None else len(graph.get_operations())
    returned = computation(*inputs) if graph is not None and not inputs else None
    added = [] if graph is None else graph.get_operations()[count:]
    if added and all(op.type == "NoOp" for op in added):
        return returned
    raise Exception(
        "The computation passed to ipu_compiler.compile was not placed on an IPU "
        "device. Call it inside ipu.scopes.ipu_scope('/device:IPU:0') or a strategy's "
        "scope."
    )


def _in_graph(
    graph: Any, ordinal: int, computation: Callable[..., Any], args: list[Any]
) -> Any:
    """Return a program of its own among the operations of a graph."""
    from ipu.tf._graph.record import add_traced

    operations: set[int] = set()  # where they are in a nested result

    def noted(*args: Any) -> Any:
        returned = computation(*args)
        if _is_structured(returned):
            leaves = enumerate(nest.flatten(returned))
            operations.update(i for i, x in leaves if isinstance(x, Operation))
        return returned

    place = graph.new_part(ordinal)
    results = pruned(noted, _results)
    op = graph.add("XlaLaunch", results, tuple(args), place=place, name="cluster")
    found = add_traced(op, host=False)
    if not operations:
        return found
    leaves = enumerate(nest.flatten(op.structure))
    return nest.pack_sequence_as(
        op.structure, [op if i in operations else x for i, x in leaves]
    )


def _tensor(leaf: Any) -> Any:
    if isinstance(leaf, (Tensor, Variable)) or is_tensor(leaf):
        return leaf
    return Tensor(leaf)


def _is_nested(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple))


def _is_structured(value: Any) -> bool:
    """Return whether it is more than a list of tensors and operations."""
    if isinstance(value, Mapping):
        return True
    return isinstance(value, (list, tuple)) and any(map(_is_nested, value))


def _is_operation(value: Any) -> bool:
    """Return whether it is an operation; None stands for one too."""
    return value is None or isinstance(value, Operation)


def _results(returned: Any) -> Any:
    """Return what ``compile`` returns, in terms of the trace."""
    for leaf in nest.flatten(returned):
        if type(leaf).__name__.endswith("EstimatorSpec"):
            raise ValueError(
                "The result of `computation` contains an EstimatorSpec. Return its "
                "tensors instead."
            )
    flat = returned if isinstance(returned, (list, tuple)) else [returned]
    if _is_structured(returned):
        return nest.map_structure(
            lambda leaf: None if _is_operation(leaf) else _value(leaf), returned
        )
    count = sum(not _is_operation(one) for one in flat)
    if any(_is_operation(one) for one in flat[:count]):
        raise ValueError(
            "`computation` must return zero or more Tensor values followed by zero or "
            "more Operations. Move the tensors to the front."
        )
    return [_value(one) for one in flat[:count]] or None


def _value(leaf: Any) -> Any:
    return leaf.value() if isinstance(leaf, Variable) else _tensor(leaf)


export(__name__)
