# SPDX-License-Identifier: MIT
"""Calls of op functions become operations of a graph.

Shapes and dtypes of the results are found by tracing the call once, twice where sizes
are open. The trace's other captures are kept: tensors that the function takes from
around it, variables it uses and makes, and whether it draws random numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ipu import _core
from ipu._core import Tensor
from ipu._device import placement
from ipu.tf import nest
from ipu.tf._functions import inference
from ipu.tf._graph import frame, notes, texts
from ipu.tf._graph.arrays import GraphTensorArray, rows_of
from ipu.tf._graph.operation import GraphOperation, GraphTensor, Place
from ipu.tf._ops.tensor_array import TensorArray
from ipu.tf._string_ops.tensors import StringTensor
from ipu.tf._tensor import open_sizes
from ipu.tf._tensor.notes import note
from ipu.tf.dtypes import as_dtype
from ipu.tf.tensor_shape import TensorShape

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
    """Write a type in TensorFlow's way: ``expand_dims`` is ``ExpandDims``."""
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
        self.arrays: dict[int, TensorArray] = {}  # by the leaf that has the rows


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
    op.structure = nest.pack_sequence_as(results, _with_arrays(op, seen))
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


def _with_arrays(op: GraphOperation, seen: _Seen) -> list[Any]:
    """Return the leaves, with arrays in the place of their rows."""
    return [
        GraphTensorArray._with_rows(seen.arrays[at], leaf)
        if at in seen.arrays
        else leaf
        for at, leaf in enumerate(op.leaves)
    ]


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
    """Return what an operation gives, with an ``Inferred`` for each tensor."""
    trials = _Trials(op, given, seen, host)
    failures: list[Exception] = []
    try:
        return trials.of(lambda tensor: tensor._shape)
    except inference.OpenCountError:
        raise
    except Exception as error:
        failures.append(error)
    taken = list(dict.fromkeys([*given, *seen.captured]))
    if host and op.place.kind == "CPU" and open_sizes.is_about_values(failures[0]):
        return _open_results(trials, op, taken)
    if not any(is_open(tensor) for tensor in taken):
        raise failures[0]
    results: list[Any] = []
    arguments = [*nest.flatten((op.args, op.kwargs)), *seen.captured]
    for shape_of in shapes_to_try(arguments, op.type in _OF_MATRICES):
        try:
            results.append(trials.of(shape_of))
        except inference.OpenCountError:
            raise
        except Exception as error:
            failures.append(error)
            continue
        results = [merged(results)]
        if is_settled(results[0]):
            break
    if results:
        return results[0]
    if not host or not any(_is_unknown(tensor) for tensor in taken):
        raise failures[0]
    if not any(tensor.is_size for tensor in taken) and all(
        isinstance(error, TypeError) for error in failures[1:]
    ):
        raise failures[1]
    trials.forget()
    return inference.Inferred(None, _dtype_of(op, taken)), []


def _open_results(trials: _Trials, op: GraphOperation, taken: list[GraphTensor]) -> Any:
    """Return the results of an operation whose sizes depend on values: a session calls
    it."""
    op.is_open = True
    try:
        with open_sizes.guessing():
            results, noted = trials.of(lambda tensor: tensor._shape, is_open=True)
    except Exception as error:
        if open_sizes.is_about_values(error):
            raise
        trials.forget()
        return inference.Inferred(None, _dtype_of(op, taken)), []
    return nest.map_structure(_without_trials, (results, noted))


def _without_trials(leaf: Any) -> Any:
    if not isinstance(leaf, inference.Inferred):
        return leaf
    return inference.Inferred(leaf.shape, leaf.dtype)


def _is_unknown(tensor: GraphTensor) -> bool:
    """Return whether no trial was possible with a shape that surely occurs."""
    return tensor._shape.rank is None or (tensor.is_size and not tensor.trials)


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

    def forget(self) -> None:
        """Forget what the results know of themselves."""
        self._seen.notes, self._seen.of_operands = [], []
        self._seen.arrays = {}

    def of(self, shape_of: Callable[[GraphTensor], Any], is_open: bool = False) -> Any:
        """Trace it with certain shapes.

        Args:
            shape_of: Gives the shape of a tensor.
            is_open: Whether sizes besides those of its arguments are open.

        Returns:
            What it gives, with an ``Inferred`` for each tensor.
        """
        symbols = [_symbol(tensor, shape_of) for tensor in self._given]
        calls = 0
        opened = False

        def call(values: list[Any]) -> Any:
            nonlocal calls, opened
            trial, calls = calls, calls + 1
            open_sizes.set_size(inference.probe_sizes((None,), trial)[0])
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
            results = inference.infer(call, symbols, self._host, is_open)
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
        self._seen.arrays = {
            at: leaf
            for at, leaf in enumerate(nest.flatten(result))
            if isinstance(leaf, TensorArray)
        }
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


def _symbol(tensor: GraphTensor, shape_of: Callable[[GraphTensor], Any]) -> Guess:
    shape = shape_of(tensor)
    if shape.rank is None:
        raise ValueError(
            f"The shape of {tensor!r} is not known. Give the placeholder a shape, or "
            "call set_shape, with None for sizes that vary."
        )
    return Guess(shape, tensor.dtype, tensor.trials)


def _dtype_of(op: GraphOperation, taken: list[GraphTensor]) -> Any:
    """Return the dtype of the result of a call that cannot be traced before it has
    shapes."""
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
        return rows_of(leaf)
    return Tensor(leaf)


# --- shapes that are tried ------------------------------------------------------------
# A placeholder may leave open how many axes it has, and ``matmul(x, w)`` wants one size
# of an open ``x``. The call is then traced with several shapes, made of the numbers of
# axes there are and of the sizes of the other arguments. Some fail. What all others
# agree in is known of the result. At most a call is seen as less known than it is: what
# a session traces has the shapes that were fed.

_RANKS = (2, 1, 0, 3, 4)
_MOST_SIZES = 6
# what a tensor of unknown rank is where a size of another one is tried
_UNKNOWN = (TensorShape(()), TensorShape([None, None]))


class Guess(NamedTuple):
    """A tensor with a shape that is tried.

    Attributes:
        shape: Sizes, None for one that varies.
        dtype: The dtype.
        trials: As of an ``inference.Symbol``.
    """

    shape: Any
    dtype: Any
    trials: tuple[Any, ...] = ()


def is_open(tensor: GraphTensor) -> bool:
    """Return whether a size, or how many there are, or what a size is, is not known."""
    is_unknown_size = tensor.is_size and not tensor.trials and tensor.known is None
    return is_unknown_size or not tensor._shape.is_fully_defined()


def is_settled(result: Any) -> bool:
    """Return whether no further trial can make a result less known."""
    return all(
        leaf.shape is None and not leaf.is_size
        for leaf in nest.flatten(result)
        if isinstance(leaf, inference.Inferred)
    )


def shapes_to_try(
    arguments: Sequence[Any], are_matrices: bool
) -> Iterator[Callable[[GraphTensor], TensorShape]]:
    """Yield shapes for the open tensors among a call's arguments.

    Args:
        arguments: The arguments, flat: sizes of arrays, variables and tensors, and
            whole numbers, may be those of what is open.
        are_matrices: Whether tensors of unknown rank have two axes.

    Yields:
        Functions that give a tensor's shape: the shapes of one trial.
    """
    shapes = [getattr(one, "shape", None) for one in arguments]
    known = [TensorShape(shape) for shape in shapes if isinstance(shape, tuple)]
    has_unknown_rank = any(shape.rank is None for shape in known)
    known = [shape for shape in known if shape.rank is not None]
    numbers = [n for n in arguments if type(n) is int and n > 1]
    numbers += [size for shape in known for size in shape if size not in (None, 1)]
    sizes = list(dict.fromkeys(numbers))[:_MOST_SIZES]
    for shape in _shapes(known, sizes) if has_unknown_rank else ():
        if are_matrices and len(shape) != 2:
            continue
        yield lambda tensor, shape=shape: (  # type: ignore[misc]
            shape if tensor._shape.rank is None else tensor._shape
        )
    unknown = _UNKNOWN if has_unknown_rank else _UNKNOWN[:1]  # of captured ones
    for shape, size, axis in itertools.product(unknown, sizes, (-1, 0, 1)):
        yield lambda tensor, shape=shape, size=size, axis=axis: (  # type: ignore[misc]
            _with_size(
                shape if tensor._shape.rank is None else tensor._shape, size, axis
            )
        )


def _shapes(known: Sequence[TensorShape], sizes: Sequence[int]) -> list[TensorShape]:
    """Return shapes for a tensor of which nothing is known."""
    open_ones = [TensorShape([None] * rank) for rank in _RANKS]
    like_others = [s for shape in known for s in (shape, TensorShape([None, *shape]))]
    with_size = [
        TensorShape(sizes_around)
        for size in sizes
        for rank in (2, 1, 4, 3)
        for sizes_around in ([*[None] * (rank - 1), size], [size, *[None] * (rank - 1)])
    ]
    return list(dict.fromkeys([*like_others, *open_ones, *with_size]))


def _with_size(shape: TensorShape, size: int, axis: int) -> TensorShape:
    """Return a shape with a size in the place of one that is open."""
    found = list(shape)
    if -len(found) <= axis < len(found) and found[axis] is None:
        found[axis] = size
    return TensorShape(found)


def merged(results: Sequence[Any]) -> Any:
    """Return what several trials of a call agree in.

    Args:
        results: The nest of ``Inferred`` of each.

    Raises:
        OpenCountError: They do not even agree in how many tensors there are.
    """
    found = results[0]
    for other in results:
        if len(nest.flatten(other)) != len(nest.flatten(found)):
            raise inference.OpenCountError(
                "The number of results depends on a shape that is not known. Give "
                "the input one: placeholder(dtype, shape), or call set_shape."
            )
        found = nest.map_structure(_common, found, other)
    return found


def _common(one: Any, other: Any) -> Any:
    if not isinstance(one, inference.Inferred):
        return one
    shape = _common_shape(one.shape, other.shape)
    # sizes made from guessed ones are not tried in the next call
    is_size = one.is_size and other.is_size
    return inference.Inferred(shape, one.dtype, is_size=is_size)


def _common_shape(one: Any, other: Any) -> Any:
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))
