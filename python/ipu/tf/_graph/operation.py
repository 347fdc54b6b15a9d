# SPDX-License-Identifier: MIT
"""The parts of a graph: operations, each a call that was kept, and tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from ipu._core import Tensor, open_trace
from ipu._device.thread_state import here
from ipu.tf import nest
from ipu.tf._graph import frame, mode, notes
from ipu.tf._graph.arrays import rows_of
from ipu.tf._ops.tensor_array import TensorArray
from ipu.tf._tensor.operation import Operation, Reference
from ipu.tf.dtypes import DType
from ipu.tf.tensor_shape import DimensionedShape, TensorShape

if TYPE_CHECKING:
    from ipu.tf._graph.graph import Graph
    from ipu.tf._graph.variables import GraphVariable


class Place(NamedTuple):
    """Where an operation runs.

    Attributes:
        kind: "CPU" or "IPU"; "PYTHON" for what Python does between programs; "ANY" for
            what costs nothing and is made where it is used.
        part: Above 0: a program of its own, which nothing joins.
    """

    kind: str
    ordinal: int = 0
    part: int = 0

    @property
    def is_traced(self) -> bool:
        """Whether it becomes part of a program."""
        return self.kind in ("CPU", "IPU")

    @property
    def device(self) -> str:
        """As TensorFlow writes it."""
        return f"/device:{self.kind}:{self.ordinal}" if self.is_traced else ""


class GraphOperation(Operation):
    """A call that a graph keeps.

    Args:
        graph: The graph.
        name: Its name in the graph.
        type: What it does.
        function: The function that is called.
        args: Its arguments, with :class:`GraphTensor` for what is not there yet.
        kwargs: Its keyword arguments.
        place: Where it runs.

    Attributes:
        control_inputs: Operations that come before it.
        captured: Tensors that the function takes without being given them.
        variables: Variables that it reads or writes.
        made: Variables that the function creates.
        leaves: For each leaf of the result its tensor, or a plain value; then a tensor
            for each of the notes.
        notes: What its results know of themselves.
        structure: The result, with tensors in it.
        path: Operations that have to run in the same program, for gradients.
        shard: The IPU of the device, or -1.
        draws: The numbers of its first random op and of the one after its last, among
            those of the graph.
        is_ordered: Whether others come before it, or before what it takes.
        is_open: Whether it has sizes that only values can tell: it runs by itself.
        is_pure: Whether it gives the same for the same inputs, and does no more.

    Example:
        >>> with v1.Graph().as_default():
        ...     total = v1.placeholder(v1.float32, []) + 2.0
        ...     print(total.op.name, [x.name for x in total.op.inputs])
        add ['Placeholder:0']
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        type: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        place: Place,
    ) -> None:
        super().__init__(type, name)
        self.graph = graph
        self.index = -1
        self.function = function
        self.args, self.kwargs = _with_own_arrays((args, kwargs))
        self.place = place
        self.control_inputs: list[GraphOperation] = []
        self.captured: list[GraphTensor] = []
        self.variables: dict[int, GraphVariable] = {}
        self.made = frame.CreatedVariables()
        self.leaves: list[Any] = []
        self.notes: list[notes.Place] = []
        self.structure: Any = None
        self.path: frozenset[GraphOperation] = frozenset()
        self.shard = -1
        self.draws = (0, 0)
        self.rounding = 0
        self.is_pure = False
        self.is_ordered = False
        self.is_open = False

    @property
    def outputs(self) -> list[Any]:
        """Its tensors."""
        return [leaf for leaf in self.leaves if isinstance(leaf, GraphTensor)]

    @property
    def inputs(self) -> list[GraphTensor]:
        """The tensors that it takes."""
        given = frame.symbols_in((self.args, self.kwargs))
        return [*given, *self.captured]

    @property
    def device(self) -> str:
        """Where it runs."""
        return self.place.device

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run it in a session: the one given, or the default one."""
        from ipu.tf._graph.session import run_in_default

        run_in_default(self, feed_dict, session)

    def execute(self, values: frame.Frame) -> None:
        """Call the function on the values of a frame, and keep what it gives there."""
        args, kwargs = values.real((self.args, self.kwargs))
        with self.made.again():
            result = self.function(*args, **kwargs)
        if not self.outputs:
            return
        found = nest.flatten(result)
        # a branch may give a tensor from outside as it is
        found = [values.value_of(x) if frame.is_symbol(x) else x for x in found]
        for at, leaf in enumerate(self.leaves[: len(found)]):
            if isinstance(found[at], TensorArray):
                found[at] = rows_of(found[at], leaf._shape)
        found += notes.at(self.notes, found)
        if len(found) != len(self.leaves):
            raise ValueError(
                f"{self.name} gives {len(found)} values, but its input had no "
                "shape when the graph was made, and one value was expected. Give the "
                "placeholder a shape, or call set_shape, with None for sizes that vary."
            )
        values.keep(self.leaves, found)


def _with_own_arrays(given: Any) -> Any:
    """Copy once what outlives a call: the caller may write to its arrays."""
    if not any(isinstance(leaf, np.ndarray) for leaf in nest.flatten(given)):
        return given
    return nest.map_structure(
        lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, given
    )


class GraphTensor:
    """A result of an operation of a graph: a shape and a dtype, but no numbers.

    Args:
        shape: Sizes, None where one is open; None where not even their number is known.
        dtype: The dtype.
        trials: Its values under the two probes where it is made of open sizes alone.
        known: Its value where that is fixed; None where it is not.
        is_size: Whether it is made of sizes alone.
    """

    __array_ufunc__ = None
    _ipu_graph_tensor = True
    _notes: dict[str, Any] | None = None

    def __init__(
        self,
        op: GraphOperation,
        value_index: int,
        shape: Any,
        dtype: DType,
        trials: tuple[Any, ...] = (),
        known: Any = None,
        is_size: bool = False,
    ) -> None:
        self.op = op
        self.value_index = value_index
        self._shape = TensorShape(shape)
        self.dtype = dtype
        self.trials = trials
        self.known = known
        self.is_size = is_size or bool(trials)

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.op.graph

    @property
    def name(self) -> str:
        """The name of the operation and the number of the result: ``"add:0"``."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def device(self) -> str:
        """Where the operation runs."""
        return self.op.device

    @property
    def shape(self) -> TensorShape:
        """The shape; its sizes have a ``value`` where programs asked for TensorFlow 1's
        behaviour."""
        return DimensionedShape(self._shape) if mode.is_default() else self._shape

    def get_shape(self) -> TensorShape:
        """Return the shape, with sizes that have a ``value``."""
        return DimensionedShape(self._shape)

    def set_shape(self, shape: Any) -> None:
        """Say what is known of the shape besides.

        Raises:
            ValueError: It contradicts what is known already.
        """
        given = TensorShape(shape)
        self._shape.assert_is_compatible_with(given)
        if self._shape.rank is None:
            self._shape = given
        elif given.rank is not None:
            pairs = zip(self._shape, given, strict=True)
            self._shape = TensorShape([b if a is None else a for a, b in pairs])

    def consumers(self) -> list[GraphOperation]:
        """Return the operations that take it."""
        return [op for op in self.graph.get_operations() if self in op.inputs]

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Return its value, computed by a session: the one given, or the default
        one."""
        from ipu.tf._graph.session import run_in_default

        return run_in_default(self, feed_dict, session)

    def ref(self) -> Reference:
        """Return what stands for it in sets and dicts."""
        return Reference(self)

    @property
    def __ipu_tensor__(self) -> Callable[[], Any]:
        """How a function that is being traced takes it from around it."""
        value = frame.captured(self)
        if value is None:
            value = self.known
        if value is None and mode.building() is None:
            value = frame.constant_value(self)
        if value is None:
            # where there is no value, operators ask this class, not the other operand
            raise AttributeError("__ipu_tensor__")
        return lambda: value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        value = frame.constant_value(self)
        if value is None:
            raise NotImplementedError(
                f"Cannot convert a symbolic tf.Tensor ({self.name}) to a numpy array. "
                "It has no value before a session has run: use Session.run, and write "
                "the computation with tf ops."
            )
        return value.__array__(dtype)

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    def __str__(self) -> str:
        return f'Tensor("{self.name}", shape={self.shape}, dtype={self.dtype.name})'

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "Using a `tf.Tensor` as a Python `bool` is not allowed. Use `if t is not "
            "None:` instead of `if t:` to test if a tensor is defined, and use tf.cond "
            f"to execute ops on the value of a tensor. Received: {self!r}."
        )

    def __len__(self) -> int:
        if not self._shape or self._shape[0] is None:
            raise TypeError(f"The length of {self!r} is not known.")
        return int(self._shape[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if open_trace() is not None or not any(map(_is_open_slice, items)):
            return _operate(operator.getitem, "strided_slice", self, key)
        parts = [
            (one.start, one.stop, one.step) if isinstance(one, slice) else (one,)
            for one in items
        ]
        return _operate(_sliced, "strided_slice", self, parts)

    def __neg__(self) -> Any:
        return _operate(operator.neg, "Neg", self)

    def __abs__(self) -> Any:
        return _operate(operator.abs, "Abs", self)

    def __invert__(self) -> Any:
        return _operate(operator.invert, "LogicalNot", self)


def _is_open_slice(item: Any) -> bool:
    """Return whether a slice begins or ends at a tensor of a graph."""
    if not isinstance(item, slice):
        return False
    return any(map(frame.is_symbol, (item.start, item.stop, item.step)))


def _sliced(tensor: Any, parts: Any) -> Any:
    """Return a part of a tensor: slices came as their three parts, so that tensors are
    seen in them."""
    items = [slice(*one) if len(one) == 3 else one[0] for one in parts]
    return tensor[tuple(items)]


def _operate(function: Callable[..., Any], name: str, *operands: Any) -> Any:
    """Apply an operator: in the graph, or in a function that is being traced."""
    tensor = next(one for one in operands if isinstance(one, GraphTensor))
    if open_trace() is None and not here.eager_parts:
        return tensor.graph.record(function, operands, {}, name)
    return function(
        *(Tensor(one) if isinstance(one, GraphTensor) else one for one in operands)
    )


_OPERATORS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "truediv",
    "floordiv": "floordiv",
    "mod": "mod",
    "pow": "pow",
    "matmul": "matmul",
    "and_": "and",
    "or_": "or",
    "xor": "xor",
}
_COMPARISONS = {
    "lt": "Less",
    "le": "LessEqual",
    "gt": "Greater",
    "ge": "GreaterEqual",
}


def _forward(function: Callable[[Any, Any], Any], name: str) -> Callable[..., Any]:
    def method(self: GraphTensor, other: Any) -> Any:
        if other is None:
            return NotImplemented
        return _operate(function, name, self, other)

    return method


def _backward(function: Callable[[Any, Any], Any], name: str) -> Callable[..., Any]:
    def method(self: GraphTensor, other: Any) -> Any:
        if other is None:
            return NotImplemented
        return _operate(function, name, other, self)

    return method


def _add_operators() -> None:
    for function_name, name in _OPERATORS.items():
        function = getattr(operator, function_name)
        setattr(GraphTensor, f"__{name}__", _forward(function, name))
        setattr(GraphTensor, f"__r{name}__", _backward(function, name))
    for function_name, name in _COMPARISONS.items():
        function = getattr(operator, function_name)
        setattr(GraphTensor, f"__{function_name}__", _forward(function, name))


_add_operators()
