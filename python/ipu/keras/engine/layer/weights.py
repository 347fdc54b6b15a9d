# SPDX-License-Identifier: MIT
"""The part of ``Layer`` that owns variables and knows the layers inside.

There is no register of them: the attributes are looked through, also inside lists,
tuples and dicts, in the order in which they were set. Only the order of variables is
noted, since some are set to attributes and others come from ``add_weight``.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from ipu import tf
from ipu._text.arguments import as_ints
from ipu._text.near import refuse_unknown
from ipu._text.tracebacks import boundaries
from ipu.keras import constraints, initializers, regularizers
from ipu.keras._types import Tensor
from ipu.keras.engine.trace_key import note_change
from ipu.tf._functions.tracing import init_scope

if TYPE_CHECKING:
    from ipu.keras.layers.base_layer import Layer

T = TypeVar("T")

# attributes that are no part of the layer, or are reported by other means
_UNTRACKED = frozenset(
    {
        "_inbound_nodes",
        "_outbound_nodes",
        "_added_weights",
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
        f"{gigabytes:,.1f} GiB, and more while it is made: there is not so much "
        "memory. Make the layer, or what it is called on, smaller."
    )


# of Keras's, without effect but for the autocast
_WEIGHT_OPTIONS = frozenset(
    """
    aggregation caching_device collections constraint dtype experimental_autocast
    getter initializer name partitioner regularizer shape synchronization trainable
    use_resource
    """.split()
)


@boundaries("add_weight", "set_weights")
class LayerWeights:
    """Variables of a layer, and those of the layers inside it."""

    _weight_scope = ""  # what stands before the layer's name in those of its weights
    _last_change = 0  # of an attribute: a number that no other change has

    if TYPE_CHECKING:
        _dtype: Any
        _trainable: bool
        _added_weights: list[Any]
        _order: list[weakref.ref[Any]]
        _regularized: list[tuple[Any, Callable[[Tensor], Tensor]]]
        built: bool
        name: Any

        def _variable_kind(self, dtype: Any, is_cast: bool) -> type[tf.Variable]: ...

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
            initializer: What ``initializers.get`` takes; None is glorot_uniform for
                floats and zeros for the rest.
            regularizer: A penalty that the loss gets.
            trainable: Whether optimizers change it; None for True.
            constraint: What ``constraints.get`` takes: optimizers apply it to the
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
        full_name = f"{self._weight_scope}{self.name}/{name}"
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
        """The variables and layers that attributes hold, in the order they were set."""
        for key, value in self.__dict__.items():
            if type(value) not in _LEAVES and key not in _UNTRACKED:
                yield from _walk(value)

    def __setattr__(self, name: str, value: Any) -> None:
        before = self.__dict__.get(name, self)
        object.__setattr__(self, name, value)
        if name in _UNTRACKED or "_order" not in self.__dict__:
            return
        self._note_order([m for m in _walk(value) if isinstance(m, tf.Variable)])
        if name in self.__dict__:
            note_change(self, name, before, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        note_change(self, name)

    def _note_order(self, variables: list[Any]) -> None:
        known = {id(reference()) for reference in self._order}
        for variable in variables:
            if id(variable) not in known:
                self._order.append(weakref.ref(variable))

    def _own_variables(self) -> list[Any]:
        """Variables of this layer alone, in the order in which it got them."""
        found = [m for m in self._members() if isinstance(m, tf.Variable)]
        place = {id(reference()): i for i, reference in enumerate(self._order)}
        # what was appended to a list later comes last
        return sorted(
            unique(self._added_weights + found),
            key=lambda variable: place.get(id(variable), len(place)),
        )

    def _tracked(self) -> list[list[Any]]:
        """What each attribute holds: layers, modules, also variables in a list."""
        groups = []
        for key, value in self.__dict__.items():
            group = [] if key in _UNTRACKED else list(_walk(value))
            if group and group[0] is not value:
                groups.append(group)
            elif group and not isinstance(value, tf.Variable):
                groups.append([value])
        return groups

    def _children(self) -> list[Any]:
        """The layers inside, and the modules that are no layers."""
        kinds = (LayerWeights, tf.Module)
        return unique([m for m in self._members() if isinstance(m, kinds)])

    def _sublayers(self) -> list[Layer]:
        found = [m for m in self._members() if isinstance(m, LayerWeights)]
        return unique(cast("list[Layer]", found))

    def _flatten_layers(self) -> Iterator[Layer]:
        """This layer and all inside it, each once."""
        seen: set[int] = set()
        stack: list[Layer] = [cast("Layer", self)]
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


def _walk(value: Any) -> Iterator[Any]:
    if isinstance(value, (LayerWeights, tf.Variable, tf.Module)):
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
