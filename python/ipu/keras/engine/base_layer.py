# SPDX-License-Identifier: MIT
"""``ipu.keras.layers.Layer``: what every layer and model is made from.

A call takes one of two ways. With symbolic values (``KerasTensor``) the call is
recorded as a node of a model and only shapes are found. With tensors the layer is built
if it has not been, and its ``call`` runs: eagerly, or into the trace that is open.

There is no register of variables and of layers inside: the attributes are looked
through, also inside lists, tuples and dicts, in the order in which they were set. Only
the order of variables is noted, since some are set to attributes and others come from
``add_weight``.
"""

from __future__ import annotations

import inspect
import math
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from ipu import _core, tf
from ipu._text.arguments import as_ints
from ipu._text.suggestions import ignored_keywords, refuse_unknown
from ipu._text.tracebacks import boundaries
from ipu.keras import _names, _tensor_notes, constraints, initializers, regularizers
from ipu.keras._arguments import Configured, config_of, given, parameters_of
from ipu.keras._types import Nest, Tensor, Values
from ipu.keras.engine.layer.call_arguments import (
    TrainingParameter,
    as_tensors,
    declared_shape,
    map_shapes,
    name_layer,
    shape_of,
    takes_mask,
    training_parameter,
)
from ipu.keras.engine.layer.call_context import (
    call_scope,
    current_dtype,
    current_training,
    in_call,
)
from ipu.keras.engine.layer.input_spec import InputSpec, check_input_spec
from ipu.keras.engine.layer.policy import Policy, policy_of
from ipu.keras.engine.pipelines.pipeline_stage import current_stage
from ipu.keras.engine.symbols.infer import infer_outputs
from ipu.keras.engine.symbols.keras_tensor import KerasTensor, Node, contains_symbolic
from ipu.keras.engine.trace_key import note_change
from ipu.tf._functions import restores
from ipu.tf._functions.tracing import init_scope
from ipu.tf._graph.mode import call_or_keep
from ipu.tf.autograph import convert_call

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["InputSpec", "Layer"]

T = TypeVar("T")

# attributes that are not part of the layer, or are reported by other means
_UNTRACKED = frozenset(
    {
        "_inbound_nodes",
        "_outbound_nodes",
        "_added_weights",
        "_built_for",
        "_losses",
        "_order",
        "_states",  # of recurrent layers
        "input_spec",
    }
)

_LEAVES = frozenset({bool, int, float, str, type(None)})


def _too_large(name: str, sizes: tuple[int, ...], kind: tf.DType) -> str:
    gigabytes = math.prod(sizes) * kind.size / 2**30
    return (
        f"Weight {name!r} of shape {sizes} and dtype {kind.name} takes "
        f"{gigabytes:,.1f} GiB, and more while it is made: there is not that much "
        "memory. Make the layer, or what it is called on, smaller."
    )


# beside those that the constructor names
_KEYWORDS = frozenset(
    """
    activity_regularizer autocast batch_input_shape batch_size dynamic input_dim
    input_shape weights
    """.split()
)

# of Keras's, without effect except the autocast
_WEIGHT_OPTIONS = frozenset(
    """
    aggregation caching_device collections constraint dtype experimental_autocast
    getter initializer name partitioner regularizer shape synchronization trainable
    use_resource
    """.split()
)

# the layers whose `_losses` are not empty
_with_losses: weakref.WeakSet[Layer] = weakref.WeakSet()


def _note_built(
    result: Any, build: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
) -> None:
    """Keep what the ``build`` of a subclass was given."""
    del result
    bound = inspect.signature(build).bind(*args, **kwargs)
    (_, layer), *given = bound.arguments.items()
    layer._note_built(dict(given))


class AutoCastVariable(tf.Variable):
    """A weight that a layer's ``call`` reads in the dtype in which it computes.

    Optimizers, files and the host see it in its own dtype.
    """

    def __ipu_tensor__(self) -> _core.Tensor:
        read = super().__ipu_tensor__()
        wanted = current_dtype()
        return read if wanted in (None, read.dtype) else tf.cast(read, wanted)


@boundaries("__call__", "__init__", "add_weight", "set_weights")
class Layer(Configured):
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

    _also_takes: tuple[str, ...] = ()  # arguments that no signature shows

    def __init__(
        self,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        if not _KEYWORDS.issuperset(kwargs):
            key = next(key for key in kwargs if key not in _KEYWORDS)
            known = _KEYWORDS.union(inspect.signature(type(self).__init__).parameters)
            known = known.union(self._also_takes) - {"self", "args", "kwargs"}
            near = _names.nearest(key, known)
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword "
                f"argument {key!r}.{near}"
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

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Note what a class that a user wrote is made with, for ``get_config``."""
        made: Self = object.__new__(cls)
        if not getattr(cls.__init__, "__module__", "ipu.").startswith("ipu."):
            made.__dict__["_given"] = given(cls, args, kwargs)
        return made

    def __init_subclass__(cls, **defaults: Any) -> None:
        super().__init_subclass__(**defaults)
        if cls.__module__.startswith("ipu.") and "__init__" in vars(cls):
            boundaries("__init__", convert=as_ints)(cls)
        boundaries("build", after=_note_built)(cls)

    _weight_scope = ""  # what stands before the layer's name in those of its weights
    _built_for: Mapping[str, Nest] | None = None  # the arguments of `build`
    _last_change = 0  # of an attribute: a number that no other change has

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
        self._note_built({"input_shape": input_shape})

    def _note_built(self, given: Mapping[str, Nest]) -> None:
        self.built, self._built_for = True, given

    def get_build_config(self) -> dict[str, Any] | None:
        """Return what ``build`` was given; None for a layer that is not built.

        Source: ``keras.Layer.get_build_config`` of Keras 3.

        Example:
            >>> layer = keras.layers.Dense(2)
            >>> layer.build((None, 3))
            >>> layer.get_build_config()
            {'input_shape': (None, 3)}
        """
        if self._built_for is None:
            return None
        given = dict(self._built_for)
        if len(given) > 1:
            return {"shapes_dict": given}
        return {"input_shape": next(iter(given.values()))}

    def build_from_config(self, config: Mapping[str, Any]) -> None:
        """Create the weights with what ``get_build_config`` returned.

        Args:
            config: With the shape of the inputs as ``"input_shape"``, or the arguments
                of ``build`` by name as ``"shapes_dict"``; without them nothing is done.

        Source: ``keras.Layer.build_from_config`` of Keras 3.

        Example:
            >>> layer = keras.layers.Dense(2)
            >>> layer.build_from_config({"input_shape": (None, 3)})
            >>> layer.kernel.shape
            (3, 2)
        """
        if "input_shape" in config:
            self.build(config["input_shape"])
        elif "shapes_dict" in config:
            self.build(**config["shapes_dict"])

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
        """Return the mask of the result; a subclass may define it.

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
        """Return the arguments that make an equal layer.

        Raises:
            NotImplementedError: A class that a user wrote does not define it, and was
                made with arguments that are not plain data.
        """
        config: dict[str, Any] = {"name": self.name, "trainable": self.trainable}
        shape = getattr(self, "_batch_input_shape", None)
        if shape is not None:
            config["batch_input_shape"] = shape
        config["dtype"] = self._dtype_config()
        ours = config_of(self, Layer)
        if type(self).get_config is not Layer.get_config:
            return config | ours
        plain, others = self.__dict__.get("_given", ({}, ()))
        unknown = [one for one in others if one not in ours and one not in _KEYWORDS]
        if unknown:
            raise NotImplementedError(
                f"Layer {self.name!r} was made with `{unknown[0]}`, which is not a "
                f"number, a string or a list of these, so {type(self).__name__} must "
                "define get_config() to be saved or copied. Its weights can be saved "
                "with save_weights()."
            )
        plain = {key: plain[key] for key in plain if key not in _KEYWORDS}
        return {**ours, **plain, **config}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Return the layer that ``get_config`` described, with new weights."""
        return cls._from_arguments(config)

    @classmethod
    def _from_arguments(cls, config: dict[str, Any]) -> Any:
        """Make a layer; its constructor need not take what all layers have."""
        init: Any = cls.__init__
        taken = inspect.signature(init).parameters.values()
        if any(one.kind is one.VAR_KEYWORD for one in taken):
            return cls(**config)
        common = {"name", "trainable", "dtype"} - {*parameters_of(init)}
        made = cls(**{key: config[key] for key in config if key not in common})
        if "name" in common and "name" in config:
            made._name = config["name"]
        if "trainable" in common and not config.get("trainable", True):
            made.trainable = False
        return made

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
        return call_or_keep(self._concrete_call, args, kwargs, self.name)

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
        """Return the symbolic results of a call on symbolic values."""
        return infer_outputs(self._concrete_call, args, kwargs, self.name)

    def _concrete_call(self, *args: Any, **kwargs: Any) -> Any:
        if not in_call():
            self._clear_losses()
        args = tuple(as_tensors(arg) for arg in args[:1]) + args[1:]
        inputs = args[0] if args else next(iter(kwargs.values()), ())
        training, args, kwargs = self._with_training(args, kwargs)
        with call_scope(training, self._compute_kind, self.name):
            self._maybe_build(inputs)
            check_input_spec(self.input_spec, inputs, self._title)
            if self._autocast and args:
                args = (self._cast(args[0]), *args[1:])
            inputs_mask = _tensor_notes.masks_of(inputs)
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
            if one is not None and _tensor_notes.mask_of(tensor) is None:
                _tensor_notes.set_mask(tensor, one)

    def _penalise(self, result: Nest) -> None:
        assert self.activity_regularizer is not None
        for tensor in tf.nest.flatten(result):
            penalty = self.activity_regularizer(tensor)
            self.add_loss(penalty / float(tensor.shape[0]))

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
        if self._built_for is None:  # by a `build` that no layer's class defines
            self._note_built({"input_shape": shapes})
        if self._initial_weights is not None:
            self.set_weights(self._initial_weights)
            self._initial_weights = None
        restores.go_on()

    def _checkpoint_parts(self, names: Any) -> dict[str, Any]:
        """Return what ``tf.train.Checkpoint`` keeps of the layer, by name."""
        from ipu.keras._files import tree

        parts = tree.variables_of(self)
        optimizer = getattr(self, "optimizer", None)
        return parts if optimizer is None else {**parts, "optimizer": optimizer}

    # --- dtypes --------------------------------------------------------------------

    def _set_policy(self, dtype: Any) -> None:
        self._dtype_policy = policy_of(dtype)
        self._dtype = tf.as_dtype(self._dtype_policy.variable_dtype)
        self._compute_kind = tf.as_dtype(self._dtype_policy.compute_dtype)

    def _dtype_config(self) -> Any:
        """Return the policy as plain data: a name where it is a dtype's."""
        policy = self._dtype_policy
        if self._compute_kind == self._dtype:
            return policy.name
        return {"class_name": "Policy", "config": policy.get_config()}

    @property
    def dtype(self) -> str:
        """The dtype of the weights, as a name."""
        return str(self._dtype.name)

    variable_dtype = dtype

    @property
    def compute_dtype(self) -> str:
        """The dtype that float inputs are cast to, as a name."""
        return str(self._compute_kind.name)

    @property
    def dtype_policy(self) -> Policy:
        """The dtype policy."""
        return self._dtype_policy

    def _variable_kind(self, dtype: Any, is_cast: bool) -> type[tf.Variable]:
        """Return the class of a weight of this dtype."""
        is_mixed = self._compute_kind != self._dtype and dtype.is_floating
        return AutoCastVariable if is_mixed and is_cast else tf.Variable

    def _cast(self, inputs: Nest) -> Nest:
        kind = self._compute_kind

        def cast(leaf: Any) -> Any:
            dtype = getattr(leaf, "dtype", None)
            if dtype is None or isinstance(leaf, np.ndarray):
                return leaf
            own = tf.as_dtype(dtype)
            if own.is_floating and own != kind and kind.is_floating:
                return tf.cast(leaf, kind)
            return leaf

        return tf.nest.map_structure(cast, inputs)

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
    ) -> tf.Variable:
        """Create a variable of the layer.

        Args:
            name: Its name, which the layer's is put before.
            shape: Its sizes; None or () for a scalar.
            dtype: Its dtype; None for the layer's.
            initializer: An argument of ``initializers.get``; None is glorot_uniform for
                floats and zeros for the rest.
            regularizer: A penalty that the loss gets.
            trainable: Whether optimizers change it; None for True.
            constraint: An argument of ``constraints.get``: optimizers apply it to the
                weight after each update.
            **kwargs: ``experimental_autocast=False`` has ``call`` read it in its own
                dtype under a mixed policy; ``aggregation`` and others of Keras have no
                effect.

        Returns:
            A ``tf.Variable``.

        Raises:
            TypeError: An unknown argument.
            ValueError: An open size in ``shape``, or an unknown name.
        """
        refuse_unknown("add_weight", kwargs, _WEIGHT_OPTIONS)
        is_cast = bool(kwargs.get("experimental_autocast", True))
        name = name or "weight"
        kind = self._dtype if dtype is None else tf.as_dtype(dtype)
        shape = as_ints(shape)
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
        full_name = f"{self.path}/{name}"
        try:
            with init_scope():
                variable = self._variable_kind(kind, is_cast)(
                    function(sizes, dtype=kind),
                    trainable=True if trainable is None else bool(trainable),
                    name=full_name,
                    dtype=kind,
                    constraint=constraints.get(constraint),
                )
        except MemoryError:
            raise MemoryError(_too_large(full_name, sizes, kind)) from None
        if tuple(variable.shape) != sizes:
            raise ValueError(
                f"The initializer of weight {name!r} of layer {self.name!r} gave shape "
                f"{tuple(variable.shape)}; {sizes} was asked for."
            )
        self._added_weights.append(variable)
        self._note_order([variable])
        penalty = regularizers.get(regularizer)
        if penalty is not None:
            self._regularized.append((variable, penalty))
        return variable

    def _members(self) -> Iterator[Any]:
        """Yield the variables and layers that attributes hold, in the order they were
        set."""
        for key, value in self.__dict__.items():
            if type(value) not in _LEAVES and key not in _UNTRACKED:
                yield from _walk(value)

    def __setattr__(self, name: str, value: Any) -> None:
        before = self.__dict__.get(name, self)
        object.__setattr__(self, name, value)
        if name in _UNTRACKED or "_order" not in self.__dict__:
            return
        if type(value) not in _LEAVES:
            self._note_order([m for m in _walk(value) if isinstance(m, tf.Variable)])
        if name in self.__dict__:
            note_change(self, name, before, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        note_change(self, name)

    def _note_order(self, variables: list[Any]) -> None:
        if not variables:
            return
        known = {id(reference()) for reference in self._order}
        for variable in variables:
            if id(variable) not in known:
                self._order.append(weakref.ref(variable))

    def _own_variables(self) -> list[Any]:
        """Return variables of this layer alone, in the order in which it got them."""
        found = [m for m in self._members() if isinstance(m, tf.Variable)]
        place = {id(reference()): i for i, reference in enumerate(self._order)}
        # what was appended to a list later comes last
        return sorted(
            unique(self._added_weights + found),
            key=lambda variable: place.get(id(variable), len(place)),
        )

    def _tracked(self) -> list[list[Any]]:
        """Return what each attribute holds: layers, modules, also variables in a
        list."""
        groups = []
        for key, value in self.__dict__.items():
            group = [] if key in _UNTRACKED else list(_walk(value))
            if group and group[0] is not value:
                groups.append(group)
            elif group and not isinstance(value, tf.Variable):
                groups.append([value])
        return groups

    def _children(self) -> list[Any]:
        """Return the layers inside, and the modules that are not layers."""
        kinds = (Layer, tf.Module)
        return unique([m for m in self._members() if isinstance(m, kinds)])

    def _sublayers(self) -> list[Layer]:
        return unique([m for m in self._members() if isinstance(m, Layer)])

    def _flatten_layers(self) -> Iterator[Layer]:
        """Yield this layer and all inside it, each once."""
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
    def trainable_weights(self) -> list[tf.Variable]:
        """The variables that an optimizer changes, own ones first."""
        if not self.trainable:
            return []
        own = [v for v in self._own_variables() if v.trainable]
        inner = [v for child in self._children() for v in child.trainable_variables]
        return unique(own + inner)

    @property
    def non_trainable_weights(self) -> list[tf.Variable]:
        """The variables that it does not."""
        if self.trainable:
            own = [v for v in self._own_variables() if not v.trainable]
            children = self._children()
            return unique(
                own + [v for child in children for v in child.non_trainable_variables]
            )
        own = self._own_variables()
        fixed = [v for v in own if v.trainable] + [v for v in own if not v.trainable]
        return unique(fixed + [v for c in self._children() for v in c.variables])

    @property
    def weights(self) -> list[tf.Variable]:
        """All variables: the trainable ones, then the others."""
        return unique(self.trainable_weights + self.non_trainable_weights)

    @property
    def variables(self) -> list[tf.Variable]:
        """The same as ``weights``."""
        return self.weights

    @property
    def trainable_variables(self) -> list[tf.Variable]:
        """The same as ``trainable_weights``."""
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list[tf.Variable]:
        """The same as ``non_trainable_weights``."""
        return self.non_trainable_weights

    def get_weights(self) -> list[np.ndarray[Any, Any]]:
        """Copy all weights to the host, in the order of ``weights``."""
        return [np.array(variable.numpy()) for variable in self.weights]

    def save_own_variables(self, store: dict[str, Any]) -> None:
        """Put the layer's own variables into its place in a file of Keras 3.

        A subclass may keep more there, or other things.

        Args:
            store: Gets arrays by names; here "0", "1", ...

        Example:
            >>> layer = keras.layers.Dense(1)
            >>> layer.build((None, 2))
            >>> store = {}
            >>> layer.save_own_variables(store)
            >>> [(name, value.shape) for name, value in store.items()]
            [('0', (2, 1)), ('1', (1,))]
        """
        from ipu.keras._files import tree

        for number, variable in enumerate(tree.own_variables(self)):
            store[str(number)] = variable.numpy()

    def load_own_variables(self, store: Mapping[str, Any]) -> None:
        """Set the layer's own variables to what ``save_own_variables`` gave.

        Args:
            store: Arrays by names.

        Raises:
            ValueError: There are more or fewer than the layer has variables.
        """
        from ipu.keras._files import tree

        own = tree.own_variables(self)
        if len(store) != len(own):
            raise ValueError(
                f"Layer {self.name!r} has {len(own)} variables of its own. Received: "
                f"{len(store)} arrays, {', '.join(store)}."
            )
        for number, variable in enumerate(own):
            variable.assign(store[str(number)])

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
        node = self._only_node("input")
        return node.outputs if node.is_input else node.symbols

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
        """Return the symbolic input of a call, counted from 0."""
        return self._inbound_nodes[node_index].symbols

    def get_output_at(self, node_index: int) -> Nest:
        """Return the symbolic result of a call, counted from 0."""
        return self._inbound_nodes[node_index].outputs

    # --- names ---------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the layer."""
        return self._name

    @property
    def path(self) -> str:
        """The name in those of the weights: a cell's has its layer's before it.

        Example:
            >>> keras.layers.Dense(2, name="head").path
            'head'
        """
        return f"{self._weight_scope}{self._name}"

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
            name: Its name in the results.
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

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Find the shape and dtype of the result, building the layer if need be.

        Args:
            *args: The arguments of the call, with symbolic values or
                ``keras.KerasTensor`` in the place of tensors.
            **kwargs: Its keyword arguments.

        Returns:
            A symbolic value, or a nest of them, that is not connected to a model.
        """
        self._maybe_build(args[0] if args else next(iter(kwargs.values())))
        return self._infer(args, kwargs)

    def symbolic_call(self, *args: Any, **kwargs: Any) -> Any:
        """Return the symbolic result of a call on symbolic values."""
        return self(*args, **kwargs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Find the shape of the result, building the layer if need be.

        Args:
            input_shape: A shape, or a nest of shapes; None for open sizes.

        Returns:
            A shape, or a nest of shapes.
        """

        def symbol(shape: Any) -> KerasTensor:
            return KerasTensor(tuple(shape), self._compute_kind)

        outputs = self.compute_output_spec(map_shapes(symbol, input_shape))
        return tf.nest.map_structure(lambda tensor: tensor.shape, outputs)


def _is_default_mask(kind: type[Layer]) -> bool:
    return kind.compute_mask is Layer.compute_mask


def _walk(value: Any) -> Iterator[Any]:
    if isinstance(value, (Layer, tf.Variable, tf.Module)):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        items = value.values() if isinstance(value, dict) else value
        if not _LEAVES.issuperset(map(type, items)):  # numbers by the million are quick
            for item in items:
                yield from _walk(item)


def ordered_first(layers: list[Layer], groups: list[list[Any]]) -> list[list[Any]]:
    """Put the layers of a model's graph, each alone, before what else it holds."""
    known = {id(layer) for layer in layers}
    others = [[one for one in group if id(one) not in known] for group in groups]
    return [[layer] for layer in layers] + [group for group in others if group]


def unique(items: list[T]) -> list[T]:
    seen: set[int] = set()
    unique = []
    for item in items:
        if id(item) not in seen:
            seen.add(id(item))
            unique.append(item)
    return unique
