# SPDX-License-Identifier: MIT
"""``ipu.keras.layers.Layer``: what every layer and model is made from.

A call takes one of two ways. With symbolic values (``KerasTensor``) the call is recorded
as a node of a model and only shapes are found. With tensors the layer is built if it
has not been, and its ``call`` runs: eagerly, or into the trace that is open.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ipu import tf
from ipu.keras import _names, initializers, regularizers
from ipu.keras._types import Nest, Shape, Tensor
from ipu.keras.engine.call_context import call_scope, current_training, in_call
from ipu.keras.engine.infer import infer_outputs
from ipu.keras.engine.input_spec import InputSpec, check_input_spec
from ipu.keras.engine.keras_tensor import KerasTensor, Node, contains_symbolic
from ipu.keras.engine.pipeline_stage import current_stage

__all__ = ["InputSpec", "Layer"]

T = TypeVar("T")

# attributes that are no part of the layer, or are reported by other means
_UNTRACKED = frozenset(
    {"_inbound_nodes", "_outbound_nodes", "_added_weights", "_losses", "input_spec"}
)


class Layer:
    """Base class of layers: weights, and a computation on tensors.

    A subclass defines ``call(self, inputs)``, and ``build(self, input_shape)`` where it
    has weights whose shapes depend on the input.

    Args:
        trainable: Whether optimizers change the weights.
        name: A name that is unique in a model; by default the class name in snake case
            with a number (``dense``, ``dense_1``).
        dtype: Dtype of weights and computation, a ``tf.DType`` or its name; None means
            float32.
        **kwargs: ``input_shape``, ``batch_input_shape``, ``batch_size``, ``input_dim``
            and ``weights``, for the first layer of a ``Sequential``; ``autocast``.

    Raises:
        TypeError: An unknown keyword.

    Source: ``tf.keras.layers.Layer`` of Keras 2.6.

    Example:
        >>> class Scale(Layer):
        ...     def build(self, input_shape):
        ...         self.factor = self.add_weight("factor", (input_shape[-1],),
        ...                                       initializer="ones")
        ...     def call(self, inputs):
        ...         return inputs * self.factor
        >>> Scale()(tf.constant([[1.0, 2.0]])).numpy().tolist()
        [[1.0, 2.0]]
    """

    def __init__(
        self,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        known = {
            "autocast",
            "batch_input_shape",
            "batch_size",
            "dynamic",
            "input_dim",
            "input_shape",
            "weights",
        }
        for key in kwargs:
            if key not in known:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword "
                    f"argument {key!r}.{_names.nearest(key, known)}"
                )
        if name is not None and not isinstance(name, str):
            raise TypeError(
                f"Expected `name` to be a string. Received: {name!r}."
            )
        if name is None:
            name = _names.unique_name(_names.snake_case(type(self).__name__))
        self._name = name
        self._trainable = bool(trainable)
        self._dtype = tf.as_dtype("float32" if dtype is None else dtype)
        self._autocast = bool(kwargs.get("autocast", True))
        self.built = False
        self.input_spec: Any = None
        self._inbound_nodes: list[Node] = []
        self._outbound_nodes: list[Any] = []
        self._added_weights: list[Any] = []
        self._regularized: list[tuple[Any, Callable[[Tensor], Tensor]]] = []
        self._losses: list[Tensor] = []
        self._pipeline_stage = current_stage()
        self._initial_weights = kwargs.get("weights")
        shape = _declared_shape(kwargs)
        if shape is not None:
            self._batch_input_shape = shape

    # --- what subclasses define ---------------------------------------------------

    def build(self, input_shape: Any) -> None:
        """Create the weights.

        Args:
            input_shape: The shape of ``inputs`` (a tuple with None for open sizes), or
                a nest of shapes where ``inputs`` is a nest.
        """
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the layer's result.

        Args:
            inputs: A tensor or a nest of tensors.
            *args: More arguments of the subclass.
            **kwargs: More arguments; ``training`` is given where it is a parameter.

        Returns:
            A tensor or a nest of tensors.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define call(self, inputs)."
        )

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal layer."""
        config: dict[str, Any] = {"name": self.name, "trainable": self.trainable}
        shape = getattr(self, "_batch_input_shape", None)
        if shape is not None:
            config["batch_input_shape"] = shape
        config["dtype"] = self.dtype
        return config

    @classmethod
    def from_config(cls: Callable[..., T], config: dict[str, Any]) -> T:
        """Make a layer from what ``get_config`` gave."""
        return cls(**config)

    # --- calling ------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the layer to tensors, arrays or symbolic values."""
        if "_inbound_nodes" not in self.__dict__:
            raise RuntimeError(
                f"It looks like you are subclassing `{type(self).__name__}` and you "
                "forgot to call `super().__init__()`. Always start with this line."
            )
        if contains_symbolic(args, kwargs):
            return self._symbolic_call(args, kwargs)
        return self._concrete_call(args, kwargs)

    def _symbolic_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        inputs = args[0] if args else next(iter(kwargs.values()))
        self._maybe_build(inputs)
        check_input_spec(self.input_spec, inputs, self._title)
        outputs = infer_outputs(self._concrete_call, args, kwargs, self.name)
        stage = current_stage()
        Node(
            self,
            args,
            kwargs,
            outputs,
            self._pipeline_stage if stage is None else stage,
        )
        return outputs

    def _concrete_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not in_call():
            self._clear_losses()
        args = tuple(_as_tensors(arg) for arg in args[:1]) + args[1:]
        inputs = args[0] if args else next(iter(kwargs.values()), ())
        training, args, kwargs = self._with_training(args, kwargs)
        with call_scope(training):
            self._maybe_build(inputs)
            check_input_spec(self.input_spec, inputs, self._title)
            if self._autocast and args:
                args = (self._cast(args[0]), *args[1:])
            try:
                return self.call(*args, **kwargs)
            except Exception as error:
                _name_layer(error, self)
                raise

    def _with_training(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Settle the value of ``training``, and hand it on where ``call`` wants it."""
        parameters = _call_parameters(type(self))
        position = parameters.get("training")
        if position is None and "**" not in parameters:
            kwargs = {key: kwargs[key] for key in kwargs if key != "training"} if (
                "training" in kwargs
            ) else kwargs
            return current_training(), args, kwargs
        if position is not None and position[0] < len(args):
            value = args[position[0]]
            if value is None:
                index = position[0]
                value = self._default_training(position[1])
                args = (*args[:index], value, *args[index + 1 :])
            return value, args, kwargs
        value = kwargs.get("training")
        if value is None:
            value = self._default_training(position[1] if position else None)
        if position is not None:
            kwargs = {**kwargs, "training": value}
        return value, args, kwargs

    @staticmethod
    def _default_training(declared: Any) -> Any:
        outer = current_training()
        if outer is not None:
            return outer
        return False if declared is None else declared

    def _maybe_build(self, inputs: Nest) -> None:
        if self.built:
            return
        if isinstance(inputs, Mapping) or tf.nest.is_nested(inputs):
            shapes = tf.nest.map_structure(_shape_of, inputs)
        else:
            shapes = _shape_of(inputs)
        try:
            self.build(shapes)
        except Exception as error:
            _name_layer(error, self)
            raise
        self.built = True
        if self._initial_weights is not None:
            self.set_weights(self._initial_weights)
            self._initial_weights = None

    def _cast(self, inputs: Nest) -> Nest:
        def cast(leaf: Any) -> Any:
            dtype = getattr(leaf, "dtype", None)
            if dtype is None or isinstance(leaf, np.ndarray):
                return leaf
            kind = tf.as_dtype(dtype)
            if kind.is_floating and kind != self._dtype and self._dtype.is_floating:
                return tf.cast(leaf, self._dtype)
            return leaf

        return tf.nest.map_structure(cast, inputs)

    # --- names and dtypes ---------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the layer."""
        return self._name

    @property
    def _title(self) -> str:
        return self._name

    @property
    def dtype(self) -> str:
        """The dtype of the weights, as a name."""
        return str(self._dtype.name)

    @property
    def compute_dtype(self) -> str:
        """The dtype that float inputs are cast to, as a name."""
        return str(self._dtype.name)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} {self._name!r}>"

    # --- weights ------------------------------------------------------------------

    def add_weight(
        self,
        name: str | None = None,
        shape: Sequence[int] | int | None = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Create a variable of the layer.

        Args:
            name: Its name, which the layer's is put before.
            shape: Its sizes; None or () for a scalar.
            dtype: Its dtype; None for the layer's.
            initializer: What ``initializers.get`` takes; None is glorot_uniform for
                floats and zeros for the rest.
            regularizer: A penalty that the loss gets.
            trainable: Whether optimizers change it; None for True.
            constraint: Not there yet: must be None.
            **kwargs: Ignored, as in Keras (``aggregation`` and such).

        Returns:
            A ``tf.Variable``.

        Raises:
            ValueError: An open size in ``shape``, or an unknown name.
            UnimplementedError: ``constraint`` was given.
        """
        del kwargs
        if constraint is not None:
            raise tf.errors.UnimplementedError(
                "Constraints on weights are not there yet. "
                f"Received: constraint={constraint!r}. Leave it out."
            )
        name = name or "weight"
        kind = self._dtype if dtype is None else tf.as_dtype(dtype)
        sizes = (shape,) if isinstance(shape, int) else tuple(shape or ())
        if any(size is None for size in sizes):
            raise ValueError(
                f"Weight {name!r} of layer {self.name!r} needs known sizes. Received: "
                f"shape={sizes}. Give the input all sizes but the batch's."
            )
        if initializer is None:
            initializer = "glorot_uniform" if kind.is_floating else "zeros"
        function = initializers.get(initializer)
        assert function is not None
        value = function(sizes, dtype=kind)
        variable = tf.Variable(
            value,
            trainable=True if trainable is None else bool(trainable),
            name=f"{self.name}/{name}",
            dtype=kind,
        )
        if tuple(variable.shape) != sizes:
            raise ValueError(
                f"The initializer of weight {name!r} of layer {self.name!r} gave shape "
                f"{tuple(variable.shape)}; {sizes} was asked for."
            )
        self._added_weights.append(variable)
        penalty = regularizers.get(regularizer)
        if penalty is not None:
            self._regularized.append((variable, penalty))
        return variable

    def _members(self) -> Iterator[Any]:
        """The variables and layers that attributes hold, in the order they were set."""
        for key, value in self.__dict__.items():
            if key not in _UNTRACKED:
                yield from _walk(value)

    def _own_variables(self) -> list[Any]:
        found = [m for m in self._members() if isinstance(m, tf.Variable)]
        return _unique(self._added_weights + found)

    def _sublayers(self) -> list[Layer]:
        return _unique([m for m in self._members() if isinstance(m, Layer)])

    def _flatten_layers(self) -> Iterator[Layer]:
        """This layer and all inside it, each once."""
        seen: set[int] = set()
        stack: list[Layer] = [self]
        while stack:
            layer = stack.pop()
            if id(layer) in seen:
                continue
            seen.add(id(layer))
            yield layer
            stack.extend(reversed(layer._sublayers()))

    @property
    def submodules(self) -> tuple[Layer, ...]:
        """All layers inside this one."""
        return tuple(layer for layer in self._flatten_layers() if layer is not self)

    @property
    def trainable(self) -> bool:
        """Whether optimizers change the weights; setting it sets all inner layers."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        for layer in self._flatten_layers():
            layer._trainable = bool(value)

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables that an optimizer changes, own ones first."""
        if not self.trainable:
            return []
        own = [v for v in self._own_variables() if v.trainable]
        inner = [v for layer in self._sublayers() for v in layer.trainable_weights]
        return _unique(own + inner)

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The variables that it does not."""
        if self.trainable:
            own = [v for v in self._own_variables() if not v.trainable]
            layers = self._sublayers()
            return _unique(own + [v for la in layers for v in la.non_trainable_weights])
        own = self._own_variables()
        fixed = [v for v in own if v.trainable] + [v for v in own if not v.trainable]
        return _unique(fixed + [v for la in self._sublayers() for v in la.weights])

    @property
    def weights(self) -> list[Any]:
        """All variables: the trainable ones, then the others."""
        return _unique(self.trainable_weights + self.non_trainable_weights)

    @property
    def variables(self) -> list[Any]:
        """The same as ``weights``."""
        return self.weights

    @property
    def trainable_variables(self) -> list[Any]:
        """The same as ``trainable_weights``."""
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The same as ``non_trainable_weights``."""
        return self.non_trainable_weights

    def get_weights(self) -> list[np.ndarray[Any, Any]]:
        """Copy all weights to the host, in the order of ``weights``."""
        return [variable.numpy() for variable in self.weights]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Set all weights.

        Args:
            weights: Arrays in the order of ``weights``.

        Raises:
            ValueError: Their number or a shape differs; then nothing is changed.
        """
        variables = self.weights
        arrays = [np.asarray(weight) for weight in weights]
        if len(arrays) != len(variables):
            raise ValueError(
                f"You called `set_weights(weights)` on layer {self.name!r} with a "
                f"weight list of length {len(arrays)}, but the layer was expecting "
                f"{len(variables)} weights."
            )
        for variable, array in zip(variables, arrays, strict=True):
            if tuple(variable.shape) != array.shape:
                raise ValueError(
                    f"Layer weight shape {tuple(variable.shape)} not compatible with "
                    f"provided weight shape {array.shape} (weight {variable.name!r} of "
                    f"layer {self.name!r})."
                )
        for variable, array in zip(variables, arrays, strict=True):
            variable.assign(array.astype(variable.dtype.as_numpy_dtype, copy=False))

    def count_params(self) -> int:
        """Count the numbers in all weights.

        Raises:
            ValueError: The layer is not built.
        """
        if not self.built:
            raise ValueError(
                f"You tried to call `count_params` on {self.name}, but the layer isn't "
                f"built. You can build it manually via: "
                f"`{self.name}.build(batch_input_shape)`."
            )
        return sum(int(np.prod(variable.shape)) for variable in self.weights)

    # --- losses -------------------------------------------------------------------

    def add_loss(self, losses: Any, **kwargs: Any) -> None:
        """Add terms to the loss of the model, from inside ``call``.

        Args:
            losses: A scalar tensor, or a list of them; a callable gives it at once.
            **kwargs: Ignored, as in Keras.
        """
        del kwargs
        for loss in tf.nest.flatten(losses):
            self._losses.append(loss() if callable(loss) else loss)

    @property
    def losses(self) -> list[Tensor]:
        """The terms of the last call, and the penalties of the weights."""
        terms = []
        for layer in self._flatten_layers():
            terms += layer._losses
            terms += [penalty(variable) for variable, penalty in layer._regularized]
        return terms

    def _clear_losses(self) -> None:
        for layer in self._flatten_layers():
            layer._losses.clear()

    # --- places in a model --------------------------------------------------------

    def _only_node(self, what: str) -> Node:
        if len(self._inbound_nodes) != 1:
            count = len(self._inbound_nodes)
            raise AttributeError(
                f"The layer {self.name!r} has never been called on symbolic values "
                f"and thus has no defined {what}."
                if count == 0
                else f"Layer {self.name!r} has {count} inbound nodes, hence the notion "
                f"of its {what} is ill-defined. Use `get_{what.split()[0]}_at("
                "node_index)` instead."
            )
        return self._inbound_nodes[0]

    @property
    def inbound_nodes(self) -> list[Node]:
        """The calls of this layer on symbolic values."""
        return self._inbound_nodes

    @property
    def input(self) -> Nest:
        """The symbolic input of the only call."""
        inputs = self._only_node("input").keras_inputs
        if not inputs:
            return self._inbound_nodes[0].outputs
        return inputs[0] if len(inputs) == 1 else list(inputs)

    @property
    def output(self) -> Nest:
        """The symbolic result of the only call."""
        return self._only_node("output").outputs

    @property
    def input_shape(self) -> Any:
        """The shape of ``input``."""
        node = self._only_node("input shape")
        return node.input_shapes if node.keras_inputs else node.output_shapes

    @property
    def output_shape(self) -> Any:
        """The shape of ``output``."""
        return self._only_node("output shape").output_shapes

    def get_input_at(self, node_index: int) -> Nest:
        """Give the symbolic input of a call, counted from 0."""
        inputs = self._inbound_nodes[node_index].keras_inputs
        return inputs[0] if len(inputs) == 1 else list(inputs)

    def get_output_at(self, node_index: int) -> Nest:
        """Give the symbolic result of a call, counted from 0."""
        return self._inbound_nodes[node_index].outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Find the shape of the result, building the layer if need be.

        Args:
            input_shape: A shape, or a nest of shapes; None for open sizes.

        Returns:
            A shape, or a nest of shapes.
        """

        def symbol(shape: Any) -> KerasTensor:
            return KerasTensor(tuple(shape), self._dtype)

        inputs = map_shapes(symbol, input_shape)
        self._maybe_build(inputs)
        outputs = infer_outputs(self._concrete_call, (inputs,), {}, self.name)
        return tf.nest.map_structure(lambda tensor: tensor.shape, outputs)


def map_shapes(function: Callable[[Any], Any], shapes: Any) -> Any:
    """Call a function on every shape of a nest of shapes."""
    if isinstance(shapes, Mapping):
        return {key: map_shapes(function, value) for key, value in shapes.items()}
    if isinstance(shapes, (tuple, list)) and not all(
        size is None or isinstance(size, (int, np.integer)) for size in shapes
    ):
        return [map_shapes(function, shape) for shape in shapes]
    return function(shapes)


def _declared_shape(kwargs: dict[str, Any]) -> Shape | None:
    if "input_dim" in kwargs and "input_shape" not in kwargs:
        kwargs["input_shape"] = (kwargs["input_dim"],)
    if "batch_input_shape" in kwargs:
        return tuple(kwargs["batch_input_shape"])
    if "input_shape" in kwargs:
        shape = kwargs["input_shape"]
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        return (kwargs.get("batch_size"), *sizes)
    return None


def _shape_of(leaf: Any) -> Shape:
    shape = getattr(leaf, "shape", None)
    return tuple(np.shape(leaf) if shape is None else shape)


def _as_tensors(inputs: Nest) -> Nest:
    """Arrays and Python numbers as tensors; float64 as float32."""

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, (np.ndarray, np.generic, float, int)):
            array = np.asarray(leaf)
            if array.dtype == np.float64:
                array = array.astype(np.float32)
            return tf.convert_to_tensor(array)
        return leaf

    if isinstance(inputs, tf.Variable):
        return inputs.value()
    return tf.nest.map_structure(convert, inputs)


_parameters_of: dict[type, dict[str, tuple[int, Any]]] = {}


def _call_parameters(kind: type[Layer]) -> dict[str, tuple[int, Any]]:
    """Where ``call`` takes ``training`` and its default; ``**`` where it takes all."""
    known = _parameters_of.get(kind)
    if known is None:
        known = _parameters_of[kind] = {}
        signature = inspect.signature(kind.call)
        for index, parameter in enumerate(signature.parameters.values()):
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                known["**"] = (-1, None)
            elif parameter.name == "training":
                empty = parameter.default is inspect.Parameter.empty
                keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
                known["training"] = (
                    1 << 30 if keyword else index - 1,
                    None if empty else parameter.default,
                )
    return known


def _walk(value: Any) -> Iterator[Any]:
    if isinstance(value, (Layer, tf.Variable)):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _walk(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _walk(item)


def _unique(items: list[T]) -> list[T]:
    seen: set[int] = set()
    unique = []
    for item in items:
        if id(item) not in seen:
            seen.add(id(item))
            unique.append(item)
    return unique


def _name_layer(error: Exception, layer: Layer) -> None:
    """Put the innermost layer's name before the text of an error."""
    if getattr(error, "_ipu_layer_named", False) or not error.args:
        return
    if len(error.args) != 1 or not isinstance(error.args[0], str):
        return
    text = (
        f'Exception encountered when calling layer "{layer.name}" '
        f"(type {type(layer).__name__}).\n\n{error.args[0]}"
    )
    error.args = (text,)
    if isinstance(error, tf.errors.OpError):
        error._message = text
    try:
        error._ipu_layer_named = True  # type: ignore[attr-defined]
    except AttributeError:
        pass
