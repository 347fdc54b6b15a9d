# SPDX-License-Identifier: MIT
"""``ipu.keras.layers.Layer``: what every layer and model is made from.

A call takes one of two ways. With symbolic values (``KerasTensor``) the call is
recorded as a node of a model and only shapes are found. With tensors the layer is built
if it has not been, and its ``call`` runs: eagerly, or into the trace that is open.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ipu import tf
from ipu._text.arguments import as_ints
from ipu._text.near import ignored_keywords, refuse_unknown
from ipu._text.tracebacks import boundaries
from ipu.keras import _names, regularizers
from ipu.keras._types import Nest, Tensor, Values
from ipu.keras.engine.layer import masks
from ipu.keras.engine.layer.call_context import call_scope, current_training, in_call
from ipu.keras.engine.layer.dtypes import LayerDtypes
from ipu.keras.engine.layer.input_spec import InputSpec, check_input_spec
from ipu.keras.engine.layer.places import LayerPlaces
from ipu.keras.engine.layer.signature import (
    TrainingParameter,
    takes_mask,
    training_parameter,
)
from ipu.keras.engine.layer.weights import LayerWeights
from ipu.keras.engine.pipelines.pipeline_stage import current_stage
from ipu.keras.engine.symbols.infer import infer_outputs
from ipu.keras.engine.symbols.keras_tensor import KerasTensor, Node, contains_symbolic
from ipu.keras.layers._layer_calls import (
    as_tensors,
    declared_shape,
    map_shapes,
    name_layer,
    shape_of,
)
from ipu.tf._functions.tracing import init_scope
from ipu.tf._graph.mode import call_or_keep
from ipu.tf.autograph import convert_call

__all__ = ["InputSpec", "Layer"]

T = TypeVar("T")

# the layers whose `_losses` are not empty
_with_losses: weakref.WeakSet[Layer] = weakref.WeakSet()


@boundaries("__call__", "__init__")
class Layer(LayerWeights, LayerPlaces, LayerDtypes):
    """Base class of layers: weights, and a computation on tensors.

    A subclass defines ``call(self, inputs)``, and ``build(self, input_shape)`` where it
    has weights whose shapes depend on the input.

    Args:
        trainable: Whether optimizers change the weights.
        name: A name that is unique in a model; by default the class name in snake case
            with a number (``dense``, ``dense_1``).
        dtype: Dtype of weights and computation, a ``tf.DType`` or its name, or a
            ``mixed_precision.Policy``; None means the global policy, float32.
        **kwargs: ``input_shape``, ``batch_input_shape``, ``batch_size``, ``input_dim``
            and ``weights``, for the first layer of a ``Sequential``; ``autocast``;
            ``activity_regularizer``, a penalty on the result, divided by the batch
            size.

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
            "activity_regularizer",
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
                import inspect

                known.update(inspect.signature(type(self).__init__).parameters)
                known -= {"self", "args", "kwargs"}
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword "
                    f"argument {key!r}.{_names.nearest(key, known)}"
                )
        if name is not None and not isinstance(name, str):
            raise TypeError(f"Expected `name` to be a string. Received: {name!r}.")
        if name is None:
            name = _names.unique_name(_names.snake_case(type(self).__name__))
        self._name = name
        self._trainable = bool(trainable)
        self._set_policy(dtype)
        self._autocast = bool(kwargs.get("autocast", True))
        self.built = False
        self.supports_masking = not _is_default_mask(type(self))
        self.activity_regularizer = regularizers.get(kwargs.get("activity_regularizer"))
        self.input_spec: Any = None
        self._inbound_nodes: list[Node] = []
        self._outbound_nodes: list[Any] = []
        self._added_weights: list[Any] = []
        self._order: list[weakref.ref[Any]] = []  # of the variables
        self._regularized: list[tuple[Any, Callable[[Tensor], Tensor]]] = []
        self._losses: list[Tensor] = []
        self._pipeline_stage = current_stage()
        self._initial_weights = kwargs.get("weights")
        shape = declared_shape(kwargs)
        if shape is not None:
            self._batch_input_shape = shape

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("ipu.") and "__init__" in vars(cls):
            boundaries("__init__", convert=as_ints)(cls)

    # of `call`, found at the first call
    _training_parameter: TrainingParameter
    _takes_mask: bool

    # --- what subclasses define ---------------------------------------------------

    def build(self, input_shape: Any) -> None:
        """Create the weights.

        Args:
            input_shape: The shape of ``inputs`` (a tuple with None for open sizes), or
                a nest of shapes where ``inputs`` is a nest.
        """
        self.built = True

    if TYPE_CHECKING:  # a subclass has any parameters
        call: Callable[..., Any]
    else:

        def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            """Compute the layer's result.

            Args:
                inputs: A tensor or a nest of tensors.
                *args: More arguments of the subclass.
                **kwargs: More arguments; ``training`` is given where it is a parameter.

            Returns:
                A tensor or a nest of tensors; the inputs where a subclass does not
                define it.
            """
            del args, kwargs
            return inputs

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> Nest:
        """Give the mask of the result; a subclass may define it.

        Args:
            inputs: The inputs of the call.
            mask: Their masks, or None. A mask is true where a step counts.

        Returns:
            The mask of the result: here that of the input.

        Raises:
            TypeError: There is a mask, and the layer does not set ``supports_masking``.
        """
        del inputs
        is_given = any(one is not None for one in tf.nest.flatten(mask))
        if is_given and not self.supports_masking:
            raise TypeError(
                f"Layer {self.name} does not support masking, but was passed a mask: "
                f"{mask!r}. Set `supports_masking = True` where its results have the "
                "time steps of its inputs, or define `compute_mask`."
            )
        return mask

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal layer."""
        config: dict[str, Any] = {"name": self.name, "trainable": self.trainable}
        shape = getattr(self, "_batch_input_shape", None)
        if shape is not None:
            config["batch_input_shape"] = shape
        config["dtype"] = self._dtype_config()
        return config

    @classmethod
    def from_config(cls: Callable[..., T], config: dict[str, Any]) -> T:
        """Make a layer from what ``get_config`` gave."""
        return cls(**config)

    # --- calling ------------------------------------------------------------------

    @overload
    def __call__(
        self, inputs: KerasTensor | Sequence[KerasTensor], *args: Any, **kwargs: Any
    ) -> KerasTensor: ...

    @overload
    def __call__(self, inputs: Values, *args: Any, **kwargs: Any) -> tf.Tensor: ...

    @overload
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the layer to tensors, arrays or symbolic values."""
        if "_inbound_nodes" not in self.__dict__:
            raise RuntimeError(
                f"It looks like you are subclassing `{type(self).__name__}` and you "
                "forgot to call `super().__init__()`. Always start with this line."
            )
        if kwargs:
            self._check_keywords(kwargs)
        if contains_symbolic(args, kwargs):
            return self._symbolic_call(args, kwargs)
        return call_or_keep(self._call_with, args, kwargs, self.name)

    def _check_keywords(self, given: Iterable[str]) -> None:
        """Refuse what a layer of ours would leave aside; users' layers see it all."""
        call = type(self).call
        is_ours = getattr(call, "__module__", "").startswith("ipu.")
        if is_ours and isinstance(call, types.FunctionType):
            known = ignored_keywords(call)
            if known is not None:
                refuse_unknown(self.name, given, {*known, "mask", "training"})

    def _symbolic_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        inputs = args[0] if args else next(iter(kwargs.values()))
        self._maybe_build(inputs)
        check_input_spec(self.input_spec, inputs, self._title)
        outputs = self._infer(args, kwargs)
        stage = current_stage()
        Node(
            self,
            args,
            kwargs,
            outputs,
            self._pipeline_stage if stage is None else stage,
        )
        return outputs

    _runs_on_host = False  # whether its call is not a part of a program

    def _infer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The symbolic results of a call on symbolic values."""
        return infer_outputs(self._call_with, args, kwargs, self.name)

    def _concrete_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not in_call():
            self._clear_losses()
        args = tuple(as_tensors(arg) for arg in args[:1]) + args[1:]
        inputs = args[0] if args else next(iter(kwargs.values()), ())
        training, args, kwargs = self._with_training(args, kwargs)
        with call_scope(training, self._compute_kind):
            self._maybe_build(inputs)
            check_input_spec(self.input_spec, inputs, self._title)
            if self._autocast and args:
                args = (self._cast(args[0]), *args[1:])
            inputs_mask = masks.masks_of(inputs)
            if inputs_mask is not None and self._wants_mask(kwargs):
                kwargs = {**kwargs, "mask": inputs_mask}
            try:
                result = convert_call(self.call)(*args, **kwargs)
                if self.supports_masking:
                    self._hand_mask_on(inputs, inputs_mask, kwargs, result)
                if self.activity_regularizer is not None:
                    self._penalise(result)
            except Exception as error:
                name_layer(error, self)
                raise
            return result

    def _wants_mask(self, kwargs: dict[str, Any]) -> bool:
        kind = type(self)
        if "_takes_mask" not in kind.__dict__:
            kind._takes_mask = takes_mask(kind.call)
        return kind._takes_mask and kwargs.get("mask") is None

    def _hand_mask_on(
        self, inputs: Nest, mask: Nest, kwargs: dict[str, Any], result: Nest
    ) -> None:
        """Give the result its mask, where the layer knows of one."""
        mask = kwargs.get("mask", mask)
        if mask is None and _is_default_mask(type(self)):
            return
        made = self.compute_mask(inputs, mask)
        if made is None:
            return
        results = tf.nest.flatten(result)
        made = tf.nest.flatten(made) if len(results) > 1 else [made]
        for tensor, one in zip(results, made, strict=False):
            if one is not None and masks.mask_of(tensor) is None:
                masks.set_mask(tensor, one)

    def _penalise(self, result: Nest) -> None:
        assert self.activity_regularizer is not None
        for tensor in tf.nest.flatten(result):
            penalty = self.activity_regularizer(tensor)
            self.add_loss(penalty / float(tensor.shape[0]))

    def _call_with(self, *args: Any, **kwargs: Any) -> Any:
        return self._concrete_call(args, kwargs)

    def _with_training(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Settle the value of ``training``, and hand it on where ``call`` wants it."""
        kind = type(self)
        known: TrainingParameter | None = kind.__dict__.get("_training_parameter")
        if known is None:
            known = training_parameter(kind.call)
            kind._training_parameter = known
        if not known.exists:
            value = kwargs.get("training")
            if not known.takes_any and "training" in kwargs:
                kwargs = {key: kwargs[key] for key in kwargs if key != "training"}
            return current_training() if value is None else value, args, kwargs
        # the parameter's place counts self, which args does not have
        index = None if known.position is None else known.position - 1
        if index is not None and index < len(args):
            value = args[index]
            if value is None:
                value = self._default_training(known.default)
                args = (*args[:index], value, *args[index + 1 :])
            return value, args, kwargs
        value = kwargs.get("training")
        if value is None:
            value = self._default_training(known.default)
        return value, args, {**kwargs, "training": value}

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
            shapes = tf.nest.map_structure(shape_of, inputs)
        else:
            shapes = shape_of(inputs)
        try:
            with init_scope():
                self.build(shapes)
        except Exception as error:
            name_layer(error, self)
            raise
        self.built = True
        if self._initial_weights is not None:
            self.set_weights(self._initial_weights)
            self._initial_weights = None

    # --- names ---------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the layer."""
        return self._name

    @property
    def _title(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} {self._name!r}>"

    # --- losses -------------------------------------------------------------------

    def add_loss(self, losses: Any, **kwargs: Any) -> None:
        """Add terms to the loss of the model, from inside ``call``.

        Args:
            losses: A scalar tensor, or a list of them; a callable gives it at once.
            **kwargs: ``inputs``, without effect.

        Raises:
            NotImplementedError: A symbolic value of a functional model.
            TypeError: An unknown argument.
        """
        refuse_unknown("add_loss", kwargs, ("inputs",))
        for loss in tf.nest.flatten(losses):
            if isinstance(loss, KerasTensor):
                raise NotImplementedError(
                    "add_loss of a symbolic value is not there yet. Received: "
                    f"{loss!r}. Call add_loss inside `call` of a layer that the "
                    "model uses."
                )
            if self not in _with_losses:
                self._losses.clear()  # those of the layer that this one is a copy of
                _with_losses.add(self)
            self._losses.append(loss() if callable(loss) else loss)

    def add_metric(
        self,
        value: Any,
        name: str | None = None,
        aggregation: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Show the mean of a value among the results, from inside ``call``.

        Args:
            value: A tensor.
            name: What it is called in the results.
            aggregation: ``"mean"``, or None, which is the same.
            **kwargs: ``inputs``, without effect.

        Raises:
            TypeError: An unknown argument.
            ValueError: There is no name, or another aggregation.
            NotImplementedError: A symbolic value of a functional model, which the layer
                is not a part of.
        """
        refuse_unknown("add_metric", kwargs, ("aggregation", "inputs", "name"))
        if name is None or aggregation not in (None, "mean"):
            raise ValueError(
                "add_metric needs a name, and 'mean' or None as its aggregation. "
                f"Received: name={name!r}, aggregation={aggregation!r}."
            )
        if isinstance(value, KerasTensor):
            raise NotImplementedError(
                "add_metric of a symbolic value is there for functional models. "
                f"Received: {value!r} in layer {self.name!r}. Call add_metric inside "
                "`call` of a layer that the model uses."
            )
        from ipu.keras.metrics import Mean

        attribute = f"_metric_{name}"
        if attribute not in self.__dict__:
            with init_scope():
                setattr(self, attribute, Mean(name))
        getattr(self, attribute).update_state(value)

    @property
    def losses(self) -> list[Tensor]:
        """The terms of the last call, and the penalties of the weights."""
        terms = []
        for layer in self._flatten_layers():
            terms += layer._losses
            terms += [penalty(variable) for variable, penalty in layer._regularized]
        return terms

    def _clear_losses(self) -> None:
        if _with_losses:  # few programs have any, and layers may hold much to look at
            for layer in self._flatten_layers():
                layer._losses.clear()
                _with_losses.discard(layer)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Find the shape of the result, building the layer if need be.

        Args:
            input_shape: A shape, or a nest of shapes; None for open sizes.

        Returns:
            A shape, or a nest of shapes.
        """

        def symbol(shape: Any) -> KerasTensor:
            return KerasTensor(tuple(shape), self._compute_kind)

        inputs = map_shapes(symbol, input_shape)
        self._maybe_build(inputs)
        outputs = self._infer((inputs,), {})
        return tf.nest.map_structure(lambda tensor: tensor.shape, outputs)


def _is_default_mask(kind: type[Layer]) -> bool:
    return kind.compute_mask is Layer.compute_mask
