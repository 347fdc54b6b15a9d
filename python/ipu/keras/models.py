# SPDX-License-Identifier: MIT
"""``ipu.keras.models``: the classes of models, copies of models, models in files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from ipu._text.exports import export
from ipu._text.tracebacks import boundary
from ipu.keras.engine.base_layer import Layer
from ipu.keras.engine.files import saving
from ipu.keras.engine.functional import Functional
from ipu.keras.engine.input_layer import InputLayer
from ipu.keras.engine.layer.call_arguments import copied
from ipu.keras.engine.model import Model
from ipu.keras.engine.pipelines.pipeline_models import (
    PipelineModel,
    SequentialPipelineModel,
)
from ipu.keras.engine.sequential import Sequential

__all__ = [
    "Functional",
    "Model",
    "PipelineModel",
    "Sequential",
    "SequentialPipelineModel",
    "clone_model",
    "load_model",
    "model_from_config",
    "model_from_json",
    "save_model",
]

CLASSES = (
    "Functional",
    "Model",
    "PipelineModel",
    "Sequential",
    "SequentialPipelineModel",
)


@boundary
def clone_model(
    model: Any,
    input_tensors: Any = None,
    clone_function: Callable[[Layer], Layer] | None = None,
) -> Any:
    """Make a model of the same layers with new weights.

    Args:
        model: A functional model or a ``Sequential``.
        input_tensors: Must be None: the copy has inputs of its own.
        clone_function: Gives a new layer for a layer; by default one with the same
            configuration. It is not asked about inputs.

    Returns:
        The new model, not compiled.

    Raises:
        ValueError: The model is a subclass of ``Model``, or there are
            ``input_tensors``.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])
        >>> again = clone_model(model)
        >>> again.count_params(), again.layers[0] is model.layers[0]
        (8, False)
    """
    if not isinstance(model, Functional):
        raise ValueError(
            "Expected `model` argument to be a functional `Model` instance, but got a "
            f"subclass model instead. Received: {model!r}."
        )
    if input_tensors is not None:
        raise ValueError(
            "A copy of a model has inputs of its own. Received: input_tensors="
            f"{input_tensors!r}. Call the copy on them."
        )

    def copy(layer: Layer) -> Layer:
        if clone_function is not None and not isinstance(layer, InputLayer):
            return clone_function(layer)
        made: Layer = copied(layer)
        return made

    if isinstance(model, Sequential):
        other = Sequential(name=model.name)
        if model._is_connected and model._declared_input:
            other.add(copy(model._first_symbol._keras_history.layer))
        for layer in model.layers:
            other.add(copy(layer))
        if model._is_connected and not other._is_connected:
            other.build(model._first_symbol.shape)
        if isinstance(model, SequentialPipelineModel):
            return type(model)._copy_of(other, model._options_config())
        other._restore_options(model._options_config())
        return other
    copies = {layer: copy(layer) for layer in model._graph_layers}
    values: dict[int, Any] = {}
    for node in model._graph.nodes:
        if node.is_input:
            values[id(node.outputs)] = copies[node.layer]._inbound_nodes[0].outputs
            continue
        for symbol, result in node.run(values, copies[node.layer]):
            values[id(symbol)] = result
    inputs = _filled(model._nested_inputs, values)
    outputs = _filled(model._nested_outputs, values)
    kind = type(model) if isinstance(model, PipelineModel) else Functional
    config = {"name": model.name, **model._options_config()}
    return kind._made_of(inputs, outputs, config)


def _filled(symbols: Any, values: dict[int, Any]) -> Any:
    from ipu import tf

    return tf.nest.map_structure(lambda symbol: values[id(symbol)], symbols)


@boundary
def model_from_config(config: dict[str, Any], custom_objects: Any = None) -> Any:
    """Make a model from ``{"class_name": ..., "config": model.get_config()}``.

    Args:
        config: The configuration.
        custom_objects: A user's own classes and functions by name.

    Returns:
        A model with new weights.

    Raises:
        ValueError: A class is not known.
        TypeError: It is a list; then ``Sequential.from_config`` is meant.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])
        >>> config = {"class_name": "Sequential", "config": model.get_config()}
        >>> model_from_config(config).count_params()
        8
    """
    from ipu.keras import layers

    if isinstance(config, list):
        raise TypeError(
            "`model_from_config` expects a dictionary, not a list. Maybe you meant to "
            "use `Sequential.from_config(config)`?"
        )
    return layers.deserialize(config, custom_objects)


@boundary
def model_from_json(json_string: str, custom_objects: Any = None) -> Any:
    """Make a model from what ``Model.to_json`` gave.

    Args:
        json_string: The text; what Keras 2 wrote is understood as well.
        custom_objects: A user's own classes and functions by name.

    Returns:
        A model with new weights.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])
        >>> model_from_json(model.to_json()).output_shape
        (None, 2)
    """
    return model_from_config(json.loads(json_string), custom_objects)


@boundary
def save_model(
    model: Any,
    filepath: str | os.PathLike[str],
    overwrite: bool = True,
    include_optimizer: bool = True,
    save_format: str | None = None,
    **kwargs: Any,
) -> None:
    """Write a whole model to a file: the same as ``model.save``.

    Example:
        >>> import os, tempfile
        >>> model = keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])
        >>> path = os.path.join(tempfile.mkdtemp(), "model.keras")
        >>> save_model(model, path)
        >>> load_model(path).count_params()
        8
    """
    if not isinstance(model, Model):
        raise TypeError(f"`model` must be a Model. Received: {model!r}.")
    model.save(filepath, overwrite, include_optimizer, save_format, **kwargs)


@boundary
def load_model(
    filepath: str | os.PathLike[str],
    custom_objects: Any = None,
    compile: bool = True,
    options: Any = None,
    safe_mode: bool = True,
) -> Any:
    """Read a model that ``Model.save`` wrote.

    Args:
        filepath: The file; ``.safetensors`` is added where it does not end so.
        custom_objects: A user's own classes and functions by name.
        compile: Whether the model is compiled as it was, with the optimizer's state, so
            that training goes on where it stopped.
        options: Ignored.
        safe_mode: False lets the file bring code: the lambdas of ``Lambda`` layers. It
            can do anything, so trust the file first.

    Returns:
        The model.

    Raises:
        FileNotFoundError: There is no such file.
        NotImplementedError: It is a SavedModel of TensorFlow.
        ValueError: It is damaged, or holds weights only.

    Example:
        >>> import os, tempfile
        >>> model = keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])
        >>> path = os.path.join(tempfile.mkdtemp(), "model.keras")
        >>> model.save(path)
        >>> load_model(path).output_shape
        (None, 2)
    """
    del options
    return saving.load(filepath, custom_objects, compile, safe_mode)


export(__name__)
