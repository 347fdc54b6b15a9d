# SPDX-License-Identifier: MIT
"""Models made of symbolic inputs and outputs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from ipu import tf
from ipu._text.suggestions import refuse_unknown
from ipu.keras import _functions, _names, _serialization
from ipu.keras._tensor_notes import mask_of, set_mask
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.base_layer import Layer, ordered_first
from ipu.keras.engine.files import model_config
from ipu.keras.engine.input_layer import InputLayer
from ipu.keras.engine.layer.call_context import (
    call_scope,
    current_dtype,
    current_training,
)
from ipu.keras.engine.layer.input_spec import InputSpec
from ipu.keras.engine.model import Model
from ipu.keras.engine.pipelines.calls import ModelGraph
from ipu.keras.engine.pipelines.ipu_options import IPUOptions
from ipu.keras.engine.symbols.functional_graph import map_graph
from ipu.keras.engine.symbols.keras_tensor import KerasTensor, Node
from ipu.keras.engine.training.host_part import (
    HostPart,
    fed,
    find_host_part,
    host_values,
)
from ipu.tf._tensor.convert import on_device
from ipu.tf.dtypes import NARROW


class Functional(Model):
    """A model given by its symbolic inputs and outputs; ``Model(inputs, outputs)``.

    Args:
        inputs: A symbolic value of ``Input``, or a list, tuple or dict of them.
        outputs: A symbolic value, or a list, tuple or dict of them.
        name: A name.
        trainable: Whether optimizers change the weights.
        **kwargs: None.

    Raises:
        ValueError: Outputs that do not follow from the inputs, layers of one name, or
            some layers without a pipeline stage where others have one.

    Example:
        >>> x = keras.Input((3,))
        >>> model = keras.Model(x, keras.layers.Dense(2)(x))
        >>> isinstance(model, Functional), model.output_shape
        (True, (None, 2))
    """

    def __init__(
        self,
        inputs: Nest = None,
        outputs: Nest = None,
        name: str | None = None,
        trainable: bool = True,
        **kwargs: Any,
    ) -> None:
        if name is None and type(self) is Functional:
            name = _names.unique_name("model")  # as keras.Model, which it was made by
        super().__init__(name=name, trainable=trainable, **kwargs)
        self._set_graph(inputs, outputs)

    def _set_graph(self, inputs: Nest, outputs: Nest) -> None:
        """Take the network between inputs and outputs as this model's."""
        if isinstance(inputs, list) and len(inputs) == 1:
            inputs = inputs[0]
        if isinstance(outputs, list) and len(outputs) == 1:
            outputs = outputs[0]
        flat_inputs = tf.nest.flatten(inputs)
        flat_outputs = tf.nest.flatten(outputs)
        for tensor in flat_inputs + flat_outputs:
            if not isinstance(tensor, KerasTensor):
                raise ValueError(
                    "Inputs and outputs of a model must be symbolic values that come "
                    f"from `Input`. Received: {tensor!r} ({type(tensor).__name__})."
                )
        if len({id(tensor) for tensor in flat_inputs}) != len(flat_inputs):
            raise ValueError(
                f"The inputs of a model must differ. Received: inputs={inputs!r}."
            )
        for tensor in flat_inputs:
            if not isinstance(tensor._keras_history.layer, InputLayer):
                raise ValueError(
                    "The inputs of a model must come from `Input`. Received: "
                    f"{tensor!r}, the result of another layer."
                )
        added = self.__dict__.get("_added_terms", [])
        graph = map_graph(flat_inputs, [*flat_outputs, *added])
        self._nested_inputs = inputs
        self._nested_outputs = outputs
        self._graph = graph
        self._host_part = find_host_part(graph, [*flat_outputs, *added])
        self._graph_layers = list(graph.layers)
        self.inputs = flat_inputs
        self.outputs = flat_outputs
        self.input_names = [t._keras_history.layer.name for t in flat_inputs]
        self.output_names = _output_names(flat_outputs)
        self.built = True
        if any(node.pipeline_stage is not None for node in graph.nodes):
            self._is_pipelined()  # whether all of them have a stage

    @property
    def _input_layers(self) -> list[Any]:
        return [tensor._keras_history.layer for tensor in self.inputs]

    @property
    def _output_layers(self) -> list[Any]:
        return [tensor._keras_history.layer for tensor in self.outputs]

    def _known_outputs(self) -> Nest | None:
        if not self.built or not self._runs_its_graph:
            return super()._known_outputs()
        return self._nested_outputs

    @property
    def layers(self) -> list[Layer]:
        """The layers, in the order of the graph."""
        return list(self._graph_layers)

    def _sublayers(self) -> list[Layer]:
        graph_layers = self.__dict__.get("_graph_layers", [])
        known = {id(layer) for layer in graph_layers}
        others = [layer for layer in super()._sublayers() if id(layer) not in known]
        return list(graph_layers) + others

    def _tracked(self) -> list[list[Any]]:
        return ordered_first(self.__dict__.get("_graph_layers", []), super()._tracked())

    @property
    def input(self) -> Nest:
        """The symbolic inputs, in the form in which they were given."""
        return self._nested_inputs

    @property
    def output(self) -> Nest:
        """The symbolic outputs, in the form in which they were given."""
        return self._nested_outputs

    @property
    def input_shape(self) -> Any:
        """The shape of the input, or a list of shapes."""
        return _shapes_of(self.inputs)

    @property
    def output_shape(self) -> Any:
        """The shape of the output, or a list of shapes."""
        return _shapes_of(self.outputs)

    def add_loss(self, losses: Any, **kwargs: Any) -> None:
        """Add terms to the loss: tensors inside ``call``, or symbolic values.

        Args:
            losses: A value that follows from the model's inputs, or a list of them. Of
                one that is not a scalar the mean is added.
            **kwargs: Ignored, as in Keras.
        """
        from ipu.keras.engine.layer.added_terms import AddLoss

        for loss in tf.nest.flatten(losses):
            if isinstance(loss, KerasTensor):
                self._add_term(AddLoss()(loss))
            else:
                super().add_loss(loss, **kwargs)

    def add_metric(
        self,
        value: Any,
        name: str | None = None,
        aggregation: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Show the mean of a value among the results.

        Args:
            value: A tensor inside ``call``, or a symbolic value that follows from the
                model's inputs.
            name: Its name in the results.
            aggregation: ``"mean"``, or None, which is the same.
            **kwargs: Ignored, as in Keras.
        """
        from ipu.keras.engine.layer.added_terms import AddMetric

        if isinstance(value, KerasTensor) and name is not None:
            self._add_term(AddMetric(name)(value))
        else:
            super().add_metric(value, name, aggregation, **kwargs)

    def _add_term(self, term: KerasTensor) -> None:
        before = self.__dict__.get("_added_terms", [])
        self._added_terms = [*before, term]
        try:
            self._set_graph(self._nested_inputs, self._nested_outputs)
        except BaseException:
            self._added_terms = before
            raise
        self._drop_programs()

    def call(
        self, inputs: Nest, training: Any = None, mask: Any = None, **kwargs: Any
    ) -> Nest:
        """Run the nodes of the graph on tensors.

        Args:
            inputs: Tensors in the form of the model's inputs; a dict by input name, or
                a flat list, is understood as well.
            training: Taken by layers that are not told otherwise; None: as the call
                around this one says.
            mask: The masks of the inputs, in their form; None for those that they have.
            **kwargs: None.

        Returns:
            Tensors in the form of the model's outputs.
        """
        refuse_unknown(type(self).__name__, kwargs, ("mask", "training"))
        is_said = training is None or training is current_training()
        values = self._begin(inputs, mask)
        with nullcontext() if is_said else call_scope(training, current_dtype()):
            for node in self._device_nodes:
                if id(node.outputs) in values and node.is_input:
                    continue
                for symbol, result in node.run(values):
                    values[id(symbol)] = result
        return tf.nest.map_structure(
            lambda symbol: values[id(symbol)], self._nested_outputs
        )

    def _hand_mask_on(self, *_: Any) -> None:
        """Do nothing: the layers have marked the results."""

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> Nest:
        """Return the masks of the outputs, or None; the model is called for that."""
        return tf.nest.map_structure(mask_of, self.call(inputs, mask=mask))

    def _begin(self, inputs: Nest, mask: Nest = None) -> dict[int, Any]:
        """Return the values that the device's calls start from, by ``id`` of their
        symbols."""
        part = self._host_part
        values: dict[int, Any] = {}
        if part is not None and part.has_run(inputs):
            for name, symbol in part.symbols.items():
                values[id(symbol)] = conform_to_symbol(symbol, inputs[name], self.name)
            return values
        flat = self._flat_inputs(inputs)
        given = [None] * len(flat) if mask is None else tf.nest.flatten(mask)
        for symbol, tensor, own in zip(self.inputs, flat, given, strict=True):
            value = conform_to_symbol(symbol, tensor, self.name)
            before = mask_of(tensor)
            if own is not None and own is not before:
                value = tf.identity(value)  # the caller's tensor stays as it is
            if own is not None or before is not None:
                set_mask(value, before if own is None else own)
            values[id(symbol)] = value
        if part is not None:
            part.run(values)
        return values

    @property
    def _device_nodes(self) -> list[Node]:
        """The calls that are not for the host."""
        part, nodes = self._host_part, self._graph.nodes
        return nodes if part is None else [n for n in nodes if n not in part.nodes]

    # --- the part that works on the host ----------------------------------------------

    _host_part: HostPart | None = None

    @property
    def _runs_on_host(self) -> bool:  # type: ignore[override]
        return self._host_part is not None

    def _infer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._host_part is None:
            return super()._infer(args, kwargs)
        return tf.nest.map_structure(
            lambda symbol: KerasTensor(symbol.shape, symbol.dtype, self.name),
            self._nested_outputs,
        )

    def _concrete_call(self, *args: Any, **kwargs: Any) -> Any:
        part = self._host_part
        if part is not None and args and not part.has_run(args[0]):
            args = (host_values(args[0]), *args[1:])
        return super()._concrete_call(*args, **kwargs)

    def _fed(self, data: Any) -> Any:
        part = self._host_part
        if part is None:
            return data

        def convert(inputs: Nest) -> Nest:
            if part.has_run(inputs):  # what `validation_split` cut off
                return inputs
            tensors = self._flat_inputs(host_values(inputs))
            return part.results(
                {
                    id(symbol): conform_to_symbol(symbol, tensor, self.name)
                    for symbol, tensor in zip(self.inputs, tensors, strict=True)
                }
            )

        return fed(data, convert)

    # --- pipeline stages --------------------------------------------------------------

    _stage_kind = "Functional"

    @property
    def _runs_its_graph(self) -> bool:
        """Whether no subclass has a ``call`` of its own."""
        return type(self).call is Functional.call

    _can_have_stages = _runs_its_graph

    def _why_no_calls(self) -> str:
        return IPUOptions._why_no_calls(self)

    def _stage_graph(self, training: bool | None = None) -> ModelGraph:
        part = self._host_part
        symbols, arrange = self.inputs, self._flat_inputs
        if part is not None:
            symbols, arrange = list(part.symbols.values()), part.arranged
        return ModelGraph(
            [node for node in self._device_nodes if not node.is_input],
            symbols,
            self._nested_outputs,
            arrange,
            lambda at, x: conform_to_symbol(symbols[at], x, self.name),
        )

    # --- calling ----------------------------------------------------------------------

    def _flat_inputs(self, inputs: Nest) -> list[Tensor]:
        """Return the tensors for the model's inputs, in order."""
        if isinstance(inputs, Mapping) and not isinstance(self._nested_inputs, Mapping):
            missing = [name for name in self.input_names if name not in inputs]
            if missing:
                others = [str(key) for key in inputs if key not in self.input_names]
                hint = ""
                if others:
                    near = _names.nearest(others[0], missing, otherwise="")
                    hint = f" There is no input {others[0]!r}.{near}"
                raise ValueError(
                    f"Missing data for input {missing[0]!r} of model {self.name!r}, "
                    f"whose inputs are {self.input_names}. Received: data for "
                    f"{list(inputs)}.{hint}"
                )
            return [inputs[name] for name in self.input_names]
        flat = tf.nest.flatten(inputs)
        if len(flat) != len(self.inputs):
            raise ValueError(
                f"Layer {self.name} expects {len(self.inputs)} input(s), but it "
                f"received {len(flat)} input tensors. The inputs are named "
                f"{self.input_names}."
            )
        return flat

    def get_config(self) -> dict[str, Any]:
        """Return the layers and how they are connected, as plain data.

        Raises:
            ValueError: A layer calls a function without a public name.
        """
        plain, others = self.__dict__.get("_given", ({}, ()))
        is_own = "_given" in self.__dict__ and not self._takes_network(type(self))
        if is_own and not others:
            return {"name": self.name, **plain}
        return {**model_config.functional_config(self), **self._options_config()}

    @staticmethod
    def _takes_network(kind: Any) -> bool:
        """Return whether the constructor of a class takes inputs and outputs."""
        taken = inspect.signature(kind.__init__).parameters
        any_number = inspect.Parameter.VAR_POSITIONAL
        return {"inputs", "outputs"} <= set(taken) or any(
            one.kind is any_number for one in taken.values()
        )

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Make a model from what ``get_config`` gave, with new weights.

        Args:
            config: The configuration.
            custom_objects: A user's own layers and functions by name.
        """
        return cls._from_network(config, custom_objects)

    @classmethod
    def _from_network(cls, config: dict[str, Any], custom_objects: Any) -> Any:
        with _serialization.CustomObjectScope(custom_objects or {}):
            inputs, outputs = model_config.connect(config, _functions.make_layer)
        model = cls._made_of(inputs, outputs, config)
        if not config.get("trainable", True):
            model.trainable = False
        return model

    @classmethod
    def _made_of(cls, inputs: Nest, outputs: Nest, config: dict[str, Any]) -> Any:
        """Make a model of a network, with the name and options of a configuration."""
        model = cls(inputs, outputs, name=config.get("name"))
        model._restore_options(config)
        return model

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Find the shapes of the outputs for inputs of other shapes."""
        if not self.built:
            self.build(input_shape)
        return super().compute_output_shape(input_shape)


def conform_to_symbol(symbol: KerasTensor, tensor: Tensor, model_name: str) -> Tensor:
    """Fit a tensor to the input that it is for.

    A last axis of size 1 is added or taken away, and the dtype is cast.

    Raises:
        ValueError: The sizes differ otherwise.
    """
    tensor = tf.convert_to_tensor(tensor)
    if (tensor.dtype == tf.string) != (symbol.dtype == tf.string):
        kinds = ("strings", "numbers")
        wants, has = kinds if symbol.dtype == tf.string else kinds[::-1]
        raise ValueError(
            f"Input {symbol._keras_history.layer.name!r} of model {model_name!r} takes "
            f"{wants}. Received: {has}."
        )
    shape = tuple(tensor.shape)
    wanted = symbol.shape
    if len(wanted) == len(shape) + 1 and wanted[-1] == 1:
        shape = (*shape, 1)
        tensor = tf.reshape(tensor, shape)
    elif len(shape) == len(wanted) + 1 and shape[-1] == 1:
        shape = shape[:-1]
        tensor = tf.reshape(tensor, shape)
    fault = InputSpec(shape=wanted).fault(shape, tensor.dtype)
    if fault is not None:
        index = symbol._keras_history.layer.name
        raise ValueError(
            f"Input {index!r} of model {model_name!r} is incompatible with the data: "
            f"{fault}."
        )
    name = symbol.dtype.name
    kind = NARROW.get(name, name) if on_device() else name
    return tensor if tensor.dtype == kind else tf.cast(tensor, kind)


def _shapes_of(symbols: list[KerasTensor]) -> Any:
    shapes = [tuple(symbol.shape) for symbol in symbols]
    return shapes[0] if len(shapes) == 1 else shapes


def _output_names(outputs: list[KerasTensor]) -> list[str]:
    """Return names of output layers, with a number where one gives several outputs."""
    names: list[str] = []
    counts: dict[str, int] = {}
    for tensor in outputs:
        name = tensor._keras_history.layer.name
        number = counts.get(name, 0)
        counts[name] = number + 1
        names.append(name if number == 0 else f"{name}_{number}")
    return names
