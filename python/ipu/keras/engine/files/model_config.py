# SPDX-License-Identifier: MIT
"""Functional models as plain data and back, and copies of models.

A configuration lists the layers and, for each, its calls: the arguments with references
``[layer name, call of that layer, result of that call]`` in the place of symbolic
values. Configurations that Keras 2 wrote are read too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu.keras import _functions, _serialization
from ipu.keras.engine.symbols.keras_tensor import KerasTensor, Node

if TYPE_CHECKING:
    from ipu.keras.engine.functional import Functional

_TENSOR, _TUPLE, _SLICE = "__keras_tensor__", "__tuple__", "__slice__"
_ELLIPSIS, _DTYPE, _ARRAY = "__ellipsis__", "__dtype__", "__array__"


def functional_config(model: Functional) -> dict[str, Any]:
    """Describe a functional model.

    Returns:
        ``name``, ``layers``, ``input_layers``, ``output_layers``; plain data.
    """

    kept: dict[Any, list[Node]] = {}
    for layer in model._graph_layers:
        nodes = [n for n in layer._inbound_nodes if n in model._graph.node_depths]
        kept[layer] = nodes

    def reference(tensor: KerasTensor) -> list[Any]:
        layer, index, position = tensor._keras_history
        node = layer._inbound_nodes[index]
        return [layer.name, kept[layer].index(node), position]

    entries = []
    for layer, nodes in kept.items():
        calls = [
            {
                "args": _encode(node.args, reference),
                "kwargs": _encode(node.kwargs, reference),
            }
            for node in nodes
            if not node.is_input
        ]
        entry = {
            "name": layer.name,
            **_serialization.serialize_keras_object(layer),
            "inbound_nodes": calls,
        }
        entries.append(entry)
    return {
        "name": model.name,
        "trainable": model.trainable,
        "layers": entries,
        "input_layers": _encode(model._nested_inputs, reference),
        "output_layers": _encode(model._nested_outputs, reference),
    }


def _encode(value: Any, reference: Callable[[KerasTensor], list[Any]]) -> Any:
    if isinstance(value, KerasTensor):
        return {"class_name": _TENSOR, "config": reference(value)}
    if isinstance(value, tuple):
        items = [_encode(item, reference) for item in value]
        return {"class_name": _TUPLE, "config": items}
    if isinstance(value, list):
        return [_encode(item, reference) for item in value]
    if isinstance(value, Mapping):
        return {key: _encode(item, reference) for key, item in value.items()}
    if isinstance(value, slice):
        return {"class_name": _SLICE, "config": [value.start, value.stop, value.step]}
    if value is Ellipsis:
        return {"class_name": _ELLIPSIS, "config": None}
    if isinstance(value, tf.DType):
        return {"class_name": _DTYPE, "config": value.name}
    if isinstance(value, (tf.Tensor, tf.Variable, np.ndarray, np.generic)):
        array = np.asarray(value)
        return {"class_name": _ARRAY, "config": [array.tolist(), array.dtype.name]}
    return value


def _decode(value: Any, lookup: Callable[[list[Any]], KerasTensor]) -> Any:
    if isinstance(value, list):
        return [_decode(item, lookup) for item in value]
    if not isinstance(value, Mapping):
        return value
    kind, config = value.get("class_name"), value.get("config")
    if kind == _TENSOR:
        return lookup(list(config or ()))
    if kind == _TUPLE:
        return tuple(_decode(item, lookup) for item in config or ())
    if kind == _SLICE:
        return slice(*(config or ()))
    if kind == _ELLIPSIS:
        return Ellipsis
    if kind == _DTYPE:
        return tf.as_dtype(config)
    if kind == _ARRAY:
        values, dtype = config or (0, "float32")
        return np.asarray(values, dtype)
    return {key: _decode(item, lookup) for key, item in value.items()}


def connect(
    config: Mapping[str, Any], make_layer: Callable[[dict[str, Any]], Any]
) -> tuple[Any, Any]:
    """Call the layers of a configuration on one another.

    Args:
        config: What :func:`functional_config` gave, or Keras 2.
        make_layer: Makes the layer of an entry of ``config["layers"]``.

    Returns:
        The symbolic inputs and outputs, nested as in the model.
    """
    results: dict[tuple[str, int], list[KerasTensor]] = {}

    def lookup(place: list[Any]) -> KerasTensor:
        name, call, position = place[:3]
        symbol: KerasTensor = results[name, call][position]
        return symbol

    made: dict[str, Any] = {}
    pending: list[tuple[str, int, Any]] = []
    for entry in config["layers"]:
        name = entry.get("name") or entry["config"]["name"]
        layer = made[name] = make_layer(dict(entry))
        if not entry["inbound_nodes"]:
            results[name, 0] = tf.nest.flatten(layer._inbound_nodes[0].outputs)
        calls = enumerate(entry["inbound_nodes"])
        pending += [(name, number, call) for number, call in calls]
    while pending:
        waiting = []
        for name, number, call in pending:
            if number and (name, number - 1) not in results:
                waiting.append((name, number, call))
                continue
            try:
                args, kwargs = _arguments(call, lookup)
            except KeyError:
                waiting.append((name, number, call))
                continue
            outputs = made[name](*args, **kwargs)
            results[name, number] = tf.nest.flatten(outputs)
        if len(waiting) == len(pending):
            raise ValueError(
                "The configuration of the model refers to results that no layer gives, "
                f"in the calls of {sorted({name for name, *_ in waiting})}."
            )
        pending = waiting
    inputs, outputs = (
        _places(config[key], lookup) for key in ("input_layers", "output_layers")
    )
    return inputs, outputs


def _arguments(call: Any, lookup: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(call, Mapping):
        args, kwargs = _decode(call["args"], lookup), _decode(call["kwargs"], lookup)
        return tuple(args), kwargs
    # Keras 2: a list of [layer, call, result, keyword arguments]
    places = [call] if call and isinstance(call[0], str) else list(call)
    tensors = [lookup(place) for place in places]
    given = places[0][3] if len(places[0]) > 3 else {}
    kwargs = {
        key: lookup(value) if _is_place(value) else value
        for key, value in given.items()
    }
    return (tensors[0] if len(tensors) == 1 else tensors,), kwargs


def _is_place(value: Any) -> bool:
    """Return whether an argument is a tensor as Keras 2 writes it: [layer, call,
    result]."""
    return (
        isinstance(value, list)
        and [type(item) for item in value[:3]] == [str, int, int]
        and len(value) <= 4
    )


def _places(places: Any, lookup: Any) -> Any:
    if isinstance(places, list) and places and not isinstance(places[0], Mapping):
        # Keras 2: one place, or a list of them
        if isinstance(places[0], str):
            return lookup(places)
        found = [lookup(place) for place in places]
        return found[0] if len(found) == 1 else found
    return _decode(places, lookup)


def to_json(model: Any, **kwargs: Any) -> str:
    """Write the configuration of a model as JSON."""
    config = {
        "class_name": _serialization.get_registered_name(type(model)),
        "config": model.get_config(),
        "keras_version": "2.6.0",
        "backend": "ipu",
    }
    if "layers" not in config["config"]:
        config |= model._options_config()
        if model._called_on is not None:
            config["build_config"] = model.get_build_config()
    try:
        return json.dumps(config, default=_plain, **kwargs)
    except TypeError:
        for entry in config["config"].get("layers", ()):
            try:
                json.dumps(entry, default=_plain)
            except TypeError as error:
                name = entry["config"].get("name")
                raise TypeError(
                    f"Layer {name!r} ({entry['class_name']}) of model {model.name!r} "
                    f"cannot be written down: {error}. Make it a subclass of "
                    "keras.layers.Layer with get_config()."
                ) from None
        raise


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, FunctionType):
        return _functions.described(value)
    if hasattr(value, "get_config"):
        return {"class_name": type(value).__name__, "config": value.get_config()}
    raise TypeError(f"{value!r} is not plain data")
