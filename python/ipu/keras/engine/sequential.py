# SPDX-License-Identifier: MIT
"""``Sequential``: a stack of layers, each with one input and one output."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ipu import tf
from ipu._text.log import logger
from ipu._text.tracebacks import boundaries
from ipu.keras import _functions, _names, _serialization
from ipu.keras._types import Nest
from ipu.keras.engine.base_layer import Layer, ordered_first
from ipu.keras.engine.functional import Functional
from ipu.keras.engine.input_layer import Input, InputLayer
from ipu.keras.engine.model import Model
from ipu.keras.engine.pipelines.calls import Unit
from ipu.keras.engine.symbols.keras_tensor import KerasTensor
from ipu.keras.engine.training.host_part import first_input


@boundaries("add", "pop")
class Sequential(Functional):
    """A stack of layers.

    It is built at once where the first layer says its input's shape, else when data are
    first seen.

    Args:
        layers: Layers, in order; None for none yet.
        name: A name.

    Raises:
        TypeError: An argument is not a layer.
        ValueError: Two layers of one name.

    Source: ``tf.keras.Sequential`` of Keras 2.6.

    Example:
        >>> from ipu.keras.layers import Dense, Flatten
        >>> model = Sequential([Flatten(input_shape=(28, 28)), Dense(10)])
        >>> model.output_shape
        (None, 10)
    """

    def __init__(
        self,
        layers: Sequence[Layer | KerasTensor] | Layer | None = None,
        name: str | None = None,
    ) -> None:
        Model.__init__(self, name=name)
        self._stack: list[Layer] = []
        self._graph_layers: list[Layer] = []
        self._declared_input = False
        if layers is not None:
            for layer in layers if isinstance(layers, (list, tuple)) else [layers]:
                self.add(layer)  # type: ignore[arg-type]

    @property
    def layers(self) -> list[Layer]:
        """The layers, without the one of the input."""
        return list(self._stack)

    def _sublayers(self) -> list[Layer]:
        return self.layers

    def _tracked(self) -> list[list[Any]]:
        return ordered_first(self._stack, super()._tracked())

    @property
    def trainable_weights(self) -> list[tf.Variable]:
        """The variables that training changes.

        Raises:
            ValueError: The model is not built: an empty list would train nothing.
        """
        if self._stack:
            self._assert_weights_created()
        return super().trainable_weights

    def add(self, layer: Layer | KerasTensor) -> None:
        """Put a layer on top.

        Args:
            layer: A layer, or what ``Input`` gave as the very first.

        Raises:
            TypeError: Something else.
            ValueError: There is a layer of that name already.
        """
        if isinstance(layer, KerasTensor):
            layer = layer._keras_history.layer
        if not isinstance(layer, Layer):
            hint = ""
            if isinstance(layer, type):
                hint = f" Write {layer.__name__}(...), with its arguments."
            raise TypeError(
                "The added layer must be an instance of class Layer. "
                f"Received: layer={layer!r} of type {type(layer).__name__}.{hint}"
            )
        if any(layer.name == other.name for other in self._stack):
            raise ValueError(
                "All layers added to a Sequential model should have unique names. "
                f'Name "{layer.name}" is already the name of a layer in this model. '
                "Update the `name` argument to pass a unique name."
            )
        if isinstance(layer, InputLayer):
            if self._stack or self._declared_input:
                raise ValueError(
                    "An input must come before all layers of a Sequential. Received: "
                    f"{layer!r} after {len(self._stack)} layer(s)."
                )
            self._declared_input = True
            self._connect(layer.output)
            return
        if not self._stack and not self._declared_input:
            shape = getattr(layer, "_batch_input_shape", None)
            if shape is None and isinstance(layer, Functional) and layer.built:
                shape = layer.inputs[0].shape
            if shape is not None:
                name = f"{layer.name}_input"
                dtype = getattr(layer, "_input_dtype", layer.dtype)
                symbol = Input(batch_shape=shape, dtype=dtype, name=name)
                self._declared_input = True
                self._connect(symbol)
        self._stack.append(layer)
        self._forget_stages()
        if self._is_connected:
            self._extend(layer)
        else:
            self.built = False
        self._drop_programs()

    def pop(self) -> None:
        """Take the top layer away.

        Raises:
            TypeError: There is none.
        """
        if not self._stack:
            raise TypeError("There are no layers in the model to take away.")
        self._forget_stages()
        self._stack.pop()
        self._drop_programs()
        if self._is_connected:
            self._connect(self._first_symbol)

    # --- pipeline stages --------------------------------------------------------------

    _stage_kind = "Sequential"

    def _stage_units(self) -> list[Unit]:
        if not self._is_connected:
            return [Unit(layer, None) for layer in self._stack]
        return super()._stage_units()

    def _forget_stages(self) -> None:
        """Forget the stages: they are those of a model with other layers."""
        if self._assigned_stages is not None:
            logger.info(
                f"Model {self.name!r} has other layers now: its pipeline stage "
                "assignment is cleared. Call set_pipeline_stage_assignment() again."
            )
        self._assigned_stages = None

    # --- the graph ------------------------------------------------------------------

    @property
    def _is_connected(self) -> bool:
        return self.__dict__.get("_first_symbol") is not None

    def _connect(self, symbol: KerasTensor) -> None:
        """Make the graph anew from an input on."""
        self._first_symbol: Any = symbol
        self._last_symbol: Any = symbol
        for layer in self._stack:
            self._extend(layer)

    def _extend(self, layer: Layer) -> None:
        """Call the layer on the result of the stack so far."""
        result = layer(self._last_symbol)
        if len(tf.nest.flatten(result)) != 1:
            raise ValueError(
                "All layers in a Sequential model should have a single output tensor. "
                f"Received: {len(tf.nest.flatten(result))} outputs of layer "
                f"{layer.name!r}. For multi-output layers, use the functional API."
            )
        self._last_symbol = result
        self._set_graph(self._first_symbol, result)

    def build(self, input_shape: Any = None) -> None:
        """Build for inputs of a shape.

        Args:
            input_shape: The shape with the batch, None in it for open sizes.

        Raises:
            ValueError: ``input_shape`` is None and no layer says it.
        """
        if self._is_connected and self._stack:
            return
        if input_shape is None:
            raise ValueError(
                "You must provide an `input_shape` argument to build this model. "
                "Received: input_shape=None."
            )
        first = self._stack[0] if self._stack else None
        takes = "float32"
        if first is not None and first._runs_on_host:
            takes = first._input_dtype  # type: ignore[attr-defined]
        self._build_for(tuple(input_shape), takes)

    def _build_for(self, shape: tuple[int | None, ...], dtype: Any) -> None:
        if not self._stack:
            raise ValueError(
                f"Sequential model {self.name!r} has no layers. Add some with `add`."
            )
        name = _names.unique_name(f"{self._stack[0].name}_input")
        before = dict(self.__dict__)
        try:
            self._connect(Input(batch_shape=shape, dtype=dtype, name=name))
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _maybe_build(self, inputs: Nest) -> None:
        if self._is_connected and self._stack:
            self._relax(inputs)
            self.built = True
            return
        flat = tf.nest.flatten(inputs)
        if len(flat) != 1:
            raise ValueError(
                f"Sequential model {self.name!r} takes one input. "
                f"Received: {len(flat)} inputs."
            )
        dtype = tf.as_dtype(flat[0].dtype)
        kept = "float32" if dtype.name == "float64" else dtype
        self._build_for((None, *tuple(flat[0].shape)[1:]), kept)

    def _relax(self, inputs: Nest) -> None:
        """Open the sizes that other data have, where no layer declared them."""
        shape, given = self._first_symbol.shape, getattr(inputs, "shape", None)
        if self._declared_input or given is None or len(given) != len(shape):
            return
        relaxed = tuple(
            size if size == other else None
            for size, other in zip(shape, tuple(given), strict=True)
        )
        if relaxed != tuple(shape):
            # where a layer needs the size, the model is as it was, and says so
            with suppress(ValueError, TypeError, tf.errors.OpError):
                self._build_for(relaxed, self._first_symbol.dtype)

    def _fed(self, data: Any) -> Any:
        if self._stack and not self._is_connected and self._stack[0]._runs_on_host:
            spec = first_input(data)
            if spec is not None:
                self._build_for((None, *tuple(spec.shape)[1:]), spec.dtype)
        return super()._fed(data)

    def get_config(self) -> dict[str, Any]:
        """Return the name and the layers' configurations."""
        stack: list[Layer] = list(self._stack)
        shape = None
        if self._is_connected:
            first = self._first_symbol._keras_history.layer
            shape = list(self._first_symbol.shape)
            if self._declared_input:
                stack.insert(0, first)
        entries = [_serialization.serialize_keras_object(layer) for layer in stack]
        return {
            "name": self.name,
            "layers": entries,
            "build_input_shape": shape,
            **self._options_config(),
        }

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        """Make a model from what ``get_config`` gave, with new weights.

        Args:
            config: The configuration.
            custom_objects: A user's own layers and functions by name.
        """
        if not isinstance(config, dict):  # Keras 2 before 2.3
            config = {"layers": config}
        model = cls(name=config.get("name"))
        with _serialization.CustomObjectScope(custom_objects or {}):
            for entry in config["layers"]:
                model.add(_functions.make_layer(entry))
        shape = config.get("build_input_shape")
        if shape and not model._is_connected:
            model.build(tuple(shape))
        model._restore_options(config)
        return model
