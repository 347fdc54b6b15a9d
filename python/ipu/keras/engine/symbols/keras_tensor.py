# SPDX-License-Identifier: MIT
"""Symbolic values of the functional API, and the calls that made them.

A ``KerasTensor`` has a shape and a dtype but no numbers. Calling a layer on it records
a ``Node``: the layer, its arguments, its results. Following ``_keras_history`` back
from the outputs of a model gives its graph.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from ipu import tf
from ipu._device.thread_state import entered, here
from ipu._text.missing import user_line
from ipu.keras._types import Nest, Shape
from ipu.keras.engine.files.op_names import BINARY, reversed_operator
from ipu.tf._tensor import dispatch
from ipu.tf.tensor_shape import TensorShape

if TYPE_CHECKING:
    from ipu._core import Arithmetic
    from ipu.keras.engine.base_layer import Layer

    # operators are given to the class below
    _Operators = Arithmetic["KerasTensor"]
else:
    _Operators = object

__all__ = [
    "KerasHistory",
    "KerasTensor",
    "Node",
    "contains_symbolic",
    "get_source_inputs",
    "recorded_nodes",
]


class KerasHistory(NamedTuple):
    """Where a symbolic value comes from: which result of which call of a layer."""

    layer: Layer
    node_index: int
    tensor_index: int


class KerasTensor(_Operators):
    """A symbolic value: what layers take and give while a model is put together.

    Attributes:
        shape: A tuple of sizes, None where the size is open.
        dtype: A ``tf.DType``.
        name: The name of the layer that made it.
        trials: The values that it had while shapes were found (``infer.py``), where it
            is made of sizes alone; else empty.
        mask: A symbolic value for its mask; None where every step counts.

    Example:
        >>> keras.KerasTensor((None, 3))
        <KerasTensor: shape=(None, 3) dtype=float32>
    """

    _keras_history: KerasHistory
    __array_priority__ = 100.0  # NumPy's operators leave theirs to a symbolic value's

    def __init__(self, shape: Shape, dtype: Any = "float32", name: str = "") -> None:
        self.shape = TensorShape(shape)
        self.dtype = tf.as_dtype(dtype)
        self.name = name
        self.trials: tuple[Any, ...] = ()
        self.mask: KerasTensor | None = None

    @property
    def node(self) -> Node:
        """The call that made this value."""
        layer, index, _ = self._keras_history
        return layer._inbound_nodes[index]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def get_shape(self) -> TensorShape:
        """Return the shape."""
        return self.shape

    def __repr__(self) -> str:
        made = getattr(self, "_keras_history", None)
        by = "" if made is None else f" (created by layer {made.layer.name!r})"
        return f"<KerasTensor: shape={self.shape} dtype={self.dtype.name}{by}>"

    def __len__(self) -> int:
        size = self.shape[0] if self.shape else None
        if size is None:
            raise TypeError(
                f"Keras symbolic inputs do not have a length. Received: {self!r}."
            )
        return int(size)

    def __iter__(self) -> Iterator[KerasTensor]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"A symbolic value has no truth value. Received: {self!r}. A model is put "
            "together once, before there are numbers; put the condition in a layer."
        )

    def __array__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError(
            f"A symbolic value has no numbers to make an array of. Received: {self!r}. "
            "Put the computation in a layer (`Lambda` takes a function)."
        )

    __hash__ = object.__hash__

    def __neg__(self) -> KerasTensor:
        return _operate("neg", operator.neg, self)

    def __abs__(self) -> KerasTensor:
        return _operate("abs", operator.abs, self)

    def __getitem__(self, key: Any) -> KerasTensor:
        return _operate("getitem", operator.getitem, self, key)


def _operate(
    name: str, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> KerasTensor:
    """Return a function on symbolic values: a layer that calls it."""
    from ipu.keras.engine.symbols.op_lambda import OpLambda

    result: KerasTensor = OpLambda(function, name)(*args, **kwargs)
    return result


def _add_operators() -> None:
    """Give ``KerasTensor`` the binary operators of tensors."""
    for name in (*BINARY, "lt", "le", "gt", "ge"):
        function = getattr(operator, name)

        def forward(
            self: KerasTensor,
            other: Any,
            name: str = name,
            function: Callable[..., Any] = function,
        ) -> KerasTensor:
            return _operate(name, function, self, other)

        setattr(KerasTensor, f"__{name}__", forward)
        if name in BINARY:

            def backward(
                self: KerasTensor,
                other: Any,
                name: str = name,
                function: Callable[..., Any] = reversed_operator(name),  # noqa: B008
            ) -> KerasTensor:
                return _operate(name, function, self, other)

            setattr(KerasTensor, f"__r{name}__", backward)


_add_operators()


dispatch.register(
    KerasTensor,
    lambda function, args, kwargs: _operate(
        function.__name__, function, *args, **kwargs
    ),
)


def _called_at(
    place: tuple[str, int], function: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function that is called as if from a line of the user's program: of what
    it does an account tells that line, not the one that runs the whole model."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)  # one line after the first

    file, line = place
    call.__code__ = call.__code__.replace(co_filename=file, co_firstlineno=line - 1)
    return call


class Node:
    """One call of a layer on symbolic values.

    Args:
        layer: The layer that was called; the node adds itself to its list.
        args: The positional arguments of the call, with symbolic values in them.
        kwargs: The keyword arguments.
        outputs: The symbolic results, a nest.
        pipeline_stage: The stage of the call, None outside of ``PipelineStage``.
    """

    def __init__(
        self,
        layer: Layer,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        outputs: Nest = None,
        pipeline_stage: int | None = None,
    ) -> None:
        self.layer = layer
        # the model outlives the call, and the caller may write to an array
        self.args, self.kwargs = tf.nest.map_structure(
            lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf,
            (args, kwargs or {}),
        )
        self.outputs = outputs
        self.pipeline_stage = pipeline_stage
        self._place = user_line()
        self.index = len(layer._inbound_nodes)
        layer._inbound_nodes.append(self)
        for nodes in here.recorded_nodes:
            nodes.append(self)
        self.keras_inputs: list[KerasTensor] = [
            leaf
            for leaf in tf.nest.flatten((self.args, self.kwargs))
            if isinstance(leaf, KerasTensor)
        ]
        for position, tensor in enumerate(tf.nest.flatten(outputs)):
            tensor._keras_history = KerasHistory(layer, self.index, position)
        for tensor in self.keras_inputs:
            tensor._keras_history.layer._outbound_nodes.append(weakref.ref(self))

    @property
    def is_input(self) -> bool:
        """Whether this is where a model's data come in."""
        return not self.keras_inputs

    @property
    def symbols(self) -> Nest:
        """The symbolic arguments: one, or a list of them."""
        symbols = self.keras_inputs
        return symbols[0] if len(symbols) == 1 else list(symbols)

    @property
    def parent_nodes(self) -> list[Node]:
        """The calls whose results this one takes, each once."""
        parents: list[Node] = []
        for tensor in self.keras_inputs:
            if tensor.node not in parents:
                parents.append(tensor.node)
        return parents

    @property
    def inbound_layers(self) -> list[Layer]:
        """The layers whose results this call takes, one for each argument."""
        return [tensor._keras_history.layer for tensor in self.keras_inputs]

    @property
    def output_shapes(self) -> Nest:
        """The shapes of the results, a nest of tuples."""
        return _shapes(self.outputs)

    @property
    def input_shapes(self) -> Nest:
        """The shapes of the symbolic arguments: one tuple, or a list of them."""
        shapes = [tuple(tensor.shape) for tensor in self.keras_inputs]
        return shapes[0] if len(shapes) == 1 else shapes

    def run(
        self, values: Mapping[int, Any], layer: Any = None
    ) -> list[tuple[KerasTensor, Any]]:
        """Call the layer, or another one, with values for the symbolic arguments.

        Args:
            values: Tensors by the ``id`` of the symbolic value they stand for.
            layer: The layer that is called in its place.

        Returns:
            The symbolic results, each with what the call gave for it.
        """

        def real(leaf: Any) -> Any:
            return values[id(leaf)] if isinstance(leaf, KerasTensor) else leaf

        if len(self.args) == 1 and not self.kwargs:  # as of most calls
            args, kwargs = (tf.nest.map_structure(real, self.args[0]),), {}
        else:
            args, kwargs = tf.nest.map_structure(real, (self.args, self.kwargs))
        call = layer or self.layer
        if self._place is not None and here.builds and here.builds[-1].is_account:
            call = _called_at(self._place, call)
        results = tf.nest.flatten(call(*args, **kwargs))
        return list(zip(tf.nest.flatten(self.outputs), results, strict=True))


@contextmanager
def recorded_nodes() -> Iterator[list[Node]]:
    """Collect the calls on symbolic values of this thread, in their order."""
    nodes: list[Node] = []
    with entered(here.recorded_nodes, nodes):
        yield nodes


def get_source_inputs(tensor: KerasTensor) -> list[KerasTensor]:
    """Return the inputs that a symbolic value follows from.

    Args:
        tensor: The result of a layer.

    Returns:
        The values of ``Input``, each once.

    Source: ``tf.keras.utils.get_source_inputs``.

    Example:
        >>> x, y = keras.Input((2,)), keras.Input((2,))
        >>> get_source_inputs(keras.layers.add([x, y])) == [x, y]
        True
    """
    found: list[KerasTensor] = []
    seen: set[Node] = set()
    stack = [tensor.node]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.is_input:
            found.append(node.outputs)
        stack.extend(reversed(node.parent_nodes))
    return found


def _shapes(nest: Nest) -> Nest:
    if isinstance(nest, KerasTensor):
        return tuple(nest.shape)
    if isinstance(nest, dict):
        return {key: _shapes(value) for key, value in nest.items()}
    return [_shapes(value) for value in nest]


def contains_symbolic(*nests: Any) -> bool:
    """Return whether there is a symbolic value anywhere in the arguments."""
    return any(isinstance(leaf, KerasTensor) for leaf in tf.nest.flatten(nests))
