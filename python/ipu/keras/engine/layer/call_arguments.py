# SPDX-License-Identifier: MIT
"""The arguments of a layer's call: shapes, tensors, ``training`` and ``mask``; errors
that name the layer."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ipu import tf
from ipu.keras import _serialization
from ipu.keras._types import Nest, Shape

if TYPE_CHECKING:
    from ipu.keras.engine.base_layer import Layer


def own_classes(layer: Layer) -> dict[str, Any]:
    """Return the classes of a user's in a layer, cells included, by their names in
    files."""
    parts: list[Any] = []
    for one in layer._flatten_layers():
        cell = getattr(one, "cell", None)
        parts += [one, cell, *(getattr(cell, "cells", None) or ())]
    kinds = {type(part) for part in parts if part is not None}
    return {
        _serialization.get_registered_name(kind): _serialization.written(kind)
        for kind in kinds
        if not kind.__module__.startswith("ipu.")
    }


def copied(layer: Any, **changes: Any) -> Any:
    """Return an equal layer, with new weights.

    Args:
        layer: The layer; classes inside it need not be registered.
        **changes: What differs from its configuration.
    """
    with _serialization.CustomObjectScope(own_classes(layer)):
        return type(layer).from_config({**layer.get_config(), **changes})


def map_shapes(function: Callable[[Any], Any], shapes: Any) -> Any:
    """Call a function on every shape of a nest of shapes."""
    if isinstance(shapes, Mapping):
        return {key: map_shapes(function, value) for key, value in shapes.items()}
    if isinstance(shapes, (tuple, list)) and not all(
        size is None or isinstance(size, (int, np.integer)) for size in shapes
    ):
        return [map_shapes(function, shape) for shape in shapes]
    return function(shapes)


def declared_shape(kwargs: dict[str, Any]) -> Shape | None:
    if "input_dim" in kwargs and "input_shape" not in kwargs:
        kwargs["input_shape"] = (kwargs["input_dim"],)
    if "batch_input_shape" in kwargs:
        return tuple(kwargs["batch_input_shape"])
    if "input_shape" in kwargs:
        shape = kwargs["input_shape"]
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        return (kwargs.get("batch_size"), *sizes)
    return None


def shape_of(leaf: Any) -> Shape:
    shape = getattr(leaf, "shape", None)
    return tuple(np.shape(leaf) if shape is None else shape)


def as_tensors(inputs: Nest) -> Nest:
    """Return arrays and Python numbers as tensors; float64 as float32."""

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


def name_layer(error: Exception, layer: Layer) -> None:
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
    with contextlib.suppress(AttributeError):
        error._ipu_layer_named = True  # type: ignore[attr-defined]


class TrainingParameter(NamedTuple):
    """How a function takes ``training``.

    Attributes:
        exists: Whether it is a parameter.
        position: Its place among positional parameters; None where it is keyword-only.
        default: Its default, None where there is none.
        takes_any: Whether the function takes any keyword.
    """

    exists: bool
    position: int | None
    default: Any
    takes_any: bool


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def takes_mask(function: Callable[..., Any]) -> bool:
    """Return whether ``mask`` is a parameter of a function."""
    return "mask" in _parameters(function)


def training_parameter(function: Callable[..., Any]) -> TrainingParameter:
    """Look for ``training`` among the parameters of a function; none where it has no
    signature."""
    parameters = _parameters(function)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    found = parameters.get("training")
    if found is None:
        return TrainingParameter(False, None, None, takes_any)
    is_keyword = found.kind is found.KEYWORD_ONLY
    position = None if is_keyword else list(parameters).index("training")
    default = None if found.default is found.empty else found.default
    return TrainingParameter(True, position, default, takes_any)
