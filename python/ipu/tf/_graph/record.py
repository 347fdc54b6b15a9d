# SPDX-License-Identifier: MIT
"""Calls of op functions become operations of a graph.

Shapes and dtypes of the results are found by tracing the call once, twice where sizes
are open. What the trace sees besides is kept: tensors that the function takes from
around it, variables it uses and makes, and whether it draws random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ipu import _core
from ipu._core import Tensor
from ipu._device import placement
from ipu.tf import nest
from ipu.tf._functions import inference
from ipu.tf._graph import frame, guesses, notes, texts
from ipu.tf._graph.operation import GraphOperation, GraphTensor, Place
from ipu.tf._string_ops.tensors import StringTensor
from ipu.tf._tensor.notes import note
from ipu.tf.dtypes import as_dtype

if TYPE_CHECKING:
    from ipu.tf._graph.graph import Graph

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
    if texts.takes_text(args, kwargs):
        kind = type or _camel(function.__name__)
        return texts.record_text(graph, function, args, kwargs, kind)
    name = kwargs.get("name")
    kind = type or _camel(function.__name__)
    op = graph.add(
        kind, function, args, kwargs, name=name if isinstance(name, str) else None
    )
    op.rounding = placement.current_rounding()
    return add_traced(op, host=True)


# a factor without a number of axes is a matrix, as TensorFlow takes it
_OF_MATRICES = ("MatMul", "matmul")

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
        self.draws = 0  # how many random ops
        # what its results know of themselves, of tensors of its own and of operands
        self.notes: list[notes.Place] = []
        self.of_operands: list[tuple[notes.Place, GraphTensor]] = []


def add_traced(op: GraphOperation, host: bool) -> Any:
    """Find what an operation gives, and make it part of its graph.

    Args:
        host: Whether it may do what only the host can.

    Returns:
        The result of its function, with tensors of the graph in it; the operation where
        there is no tensor.
    """
    seen = _Seen()
    given = [t for t in dict.fromkeys(op.inputs) if t.known is None]
    results, noted = _infer(op, given, seen, host)
    op.captured = list(dict.fromkeys(seen.captured))
    op.variables = seen.variables
    first = op.graph.draw_count
    op.graph.draw_count += seen.draws
    op.draws = (first, op.graph.draw_count)
    op.is_pure = not (seen.variables or seen.draws or op.control_inputs)
    is_size = op.is_pure and bool(given) and all(t.is_size for t in given)
    count = 0
    for leaf in nest.flatten(results):
        if isinstance(leaf, inference.Inferred):
            op.leaves.append(_tensor(op, count, leaf, is_size))
            count += 1
        elif isinstance(leaf, StringTensor):
            op.leaves.append(texts.held(op.graph, leaf))
        else:
            op.leaves.append(leaf)
    op.structure = nest.pack_sequence_as(results, op.leaves)
    for (place, name, kind), leaf in zip(seen.notes, noted, strict=True):
        tensor = GraphTensor(op, count, leaf.shape, as_dtype(leaf.dtype))
        note(op.leaves[place], name, tensor if kind is None else (tensor, kind))
        op.leaves.append(tensor)
        count += 1
    op.notes = seen.notes
    for (place, name, kind), tensor in seen.of_operands:
        note(op.leaves[place], name, tensor if kind is None else (tensor, kind))
    if count and op.is_pure and all(_is_size(leaf) for leaf in op.leaves):
        op.place = Place("ANY")
    op.graph.keep(op)
    return op.structure if any(map(frame.is_symbol, op.leaves)) else op


def _tensor(
    op: GraphOperation, index: int, found: inference.Inferred, of_sizes: bool
) -> GraphTensor:
    trials, dtype = found.trials, as_dtype(found.dtype)
    if trials and not any(leaf.is_size for leaf in op.inputs) and _is_same(trials):
        return GraphTensor(op, index, found.shape, dtype, (), trials[0])
    is_size = found.is_size or (of_sizes and dtype.is_integer)
    return GraphTensor(op, index, found.shape, dtype, trials, is_size=is_size)


def _is_same(trials: tuple[Any, ...]) -> bool:
    first = trials[0].numpy()
    return all((one.numpy() == first).all() for one in trials[1:])


def _is_size(leaf: Any) -> bool:
    return isinstance(leaf, GraphTensor) and (leaf.is_size or leaf.known is not None)


def _infer(
    op: GraphOperation, given: list[GraphTensor], seen: _Seen, host: bool
) -> Any:
    """What an operation gives, with an ``Inferred`` for each tensor."""
    trials = _Trials(op, given, seen, host)
    failures: list[Exception] = []
    try:
        return trials.of(lambda tensor: tensor.shape)
    except inference.OpenCountError:
        raise
    except Exception as error:
        failures.append(error)
    taken = list(dict.fromkeys([*given, *seen.captured]))
    if not any(guesses.is_open(tensor) for tensor in taken):
        raise failures[0]
    results: list[Any] = []
    arguments = [*nest.flatten((op.args, op.kwargs)), *seen.captured]
    for shape_of in guesses.shapes_to_try(arguments, op.type in _OF_MATRICES):
        try:
            results.append(trials.of(shape_of))
        except inference.OpenCountError:
            raise
        except Exception as error:
            failures.append(error)
            continue
        results = [guesses.merged(results)]
        if guesses.is_settled(results[0]):
            break
    if results:
        return results[0]
    if not host or not any(_is_unknown(tensor) for tensor in taken):
        raise failures[0]
    if not any(tensor.is_size for tensor in taken) and all(
        isinstance(error, TypeError) for error in failures[1:]
    ):
        raise failures[1]
    seen.notes, seen.of_operands = [], []
    return inference.Inferred(None, _dtype_of(op, taken)), []


def _is_unknown(tensor: GraphTensor) -> bool:
    """Tell whether no shape, or value of a size, could be tried that surely occurs."""
    return tensor.shape.rank is None or (tensor.is_size and not tensor.trials)


class _Trials:
    """Traces of one operation.

    Args:
        host: Whether it may do what only the host can.
    """

    def __init__(
        self, op: GraphOperation, given: list[GraphTensor], seen: _Seen, host: bool
    ) -> None:
        self._op = op
        self._given = given
        self._seen = seen
        self._host = host
        self._was_called = False

    def of(self, shape_of: Callable[[GraphTensor], Any]) -> Any:
        """Trace it with certain shapes.

        Args:
            shape_of: Gives the shape of a tensor.

        Returns:
            What it gives, with an ``Inferred`` for each tensor.
        """
        symbols = [_symbol(tensor, shape_of) for tensor in self._given]
        calls = 0
        opened = False

        def call(values: list[Any]) -> Any:
            nonlocal calls, opened
            trial, calls = calls, calls + 1
            trace = _core.open_trace()
            assert trace is not None

            def missing(tensor: GraphTensor) -> Any:
                nonlocal opened
                self._seen.captured.append(tensor)
                if tensor.known is not None:
                    return tensor.known
                symbol = _symbol(tensor, shape_of)
                if symbol.trials:
                    opened = True
                    return symbol.trials[trial]
                opened |= None in symbol.shape
                shape = inference.probe_sizes(symbol.shape, trial)
                held = trace.parameter((tensor.dtype.name, shape))
                here.values[id(tensor)] = held
                return held

            here = frame.Frame(missing)
            for tensor, value in zip(self._given, values, strict=True):
                here.values[id(tensor)] = value
            return self._call(here, trace)

        with placement.provisional():
            results = inference.infer(call, symbols, self._host)
            if opened and calls == 1:
                calls = 0
                results = inference.infer(call, symbols, self._host, is_open=True)
        return results

    def _call(self, here: frame.Frame, trace: Any) -> Any:
        made = self._op.made
        created = made.again() if self._was_called else made.first()
        try:
            with here.entered(), created:
                args, kwargs = here.real((self._op.args, self._op.kwargs))
                result = self._op.function(*args, **kwargs)
            self._was_called = True
        finally:
            self._seen.variables.update(here.needed)
            self._seen.variables.update(here.assigned)
            self._seen.draws = max(self._seen.draws, trace.next_ordinal)
        result = nest.map_structure(_plain, result)
        leaves = nest.flatten(result)
        places = notes.of_results(leaves)
        operands = [*self._given, *self._seen.captured]
        owners = {id(here.values.get(id(tensor))): tensor for tensor in operands}
        self._seen.notes, self._seen.of_operands = [], []
        for place, what in zip(places, notes.at(places, leaves), strict=True):
            if id(what) in owners:
                self._seen.of_operands.append((place, owners[id(what)]))
            else:
                self._seen.notes.append(place)
        return result, notes.at(self._seen.notes, leaves)


def _symbol(
    tensor: GraphTensor, shape_of: Callable[[GraphTensor], Any]
) -> guesses.Guess:
    shape = shape_of(tensor)
    if shape.rank is None:
        raise ValueError(
            f"The shape of {tensor!r} is not known. Give the placeholder a shape, or "
            "call set_shape, with None for sizes that vary."
        )
    return guesses.Guess(shape, tensor.dtype, tensor.trials)


def _dtype_of(op: GraphOperation, taken: list[GraphTensor]) -> Any:
    """The dtype of the result of a call that cannot be traced before it has shapes."""
    asked = op.kwargs.get("dtype")
    if asked is not None:
        return as_dtype(asked)
    values = [tensor for tensor in taken if not tensor.is_size]
    floats = [tensor for tensor in values if tensor.dtype.is_floating]
    found = [*floats, *values]
    return found[0].dtype if found else as_dtype("float32")


def _plain(leaf: Any) -> Any:
    """Return a variable as its value."""
    if isinstance(leaf, Tensor) or not hasattr(leaf, "__ipu_tensor__"):
        return leaf
    return Tensor(leaf)
