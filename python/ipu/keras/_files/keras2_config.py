# SPDX-License-Identifier: MIT
"""Configurations of models as Keras 2 writes them, from ours.

They differ in the calls of functional models: Keras 2 lists
``[layer name, call, result, keyword arguments]`` for each tensor of the first argument.
Functions that a model calls stay in our form: such a file has weights for Keras 2, and
the model for us.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ipu.keras import _serialization

__all__ = ["of_model", "without_newer"]

# what Keras 2.6 does not take, and the values that mean the same as leaving it out
_NEWER: dict[str, dict[str, Any]] = {
    "GaussianDropout": {"seed": None},
    "GaussianNoise": {"seed": None},
    "MeanIoU": {
        "axis": -1,
        "ignore_class": None,
        "sparse_y_pred": True,
        "sparse_y_true": True,
    },
    "MultiHeadAttention": {"sliding_window": None, "use_gate": False},
}


def without_newer(value: Any) -> Any:
    """Return configurations without arguments of later versions that say nothing."""
    if isinstance(value, list):
        return [without_newer(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    made = {key: without_newer(item) for key, item in value.items()}
    newer = _NEWER.get(str(made.get("class_name")), {})
    if isinstance(made.get("config"), dict):
        for key, harmless in newer.items():
            if made["config"].get(key, harmless) == harmless:
                made["config"].pop(key, None)
    return made


def of_model(described: dict[str, Any]) -> dict[str, Any]:
    """Return a model's configuration in the form of Keras 2."""
    is_network = "input_layers" in (described.get("config") or {})
    if described["class_name"] not in ("Functional", "Sequential") and not is_network:
        return described
    config = dict(described["config"])
    config["layers"] = [_entry(entry) for entry in config["layers"]]
    for key in ("input_layers", "output_layers"):
        if key in config:
            config[key] = _places(config[key])
    return {**described, "config": config}


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    made = _layer(of_model(entry))
    if "inbound_nodes" not in entry:
        return made
    if entry["class_name"] == "OpLambda":  # a function, which has no form there
        return {**made, "inbound_nodes": entry["inbound_nodes"]}
    calls = [_call(entry, call) for call in entry["inbound_nodes"]]
    return {**made, "inbound_nodes": calls}


def _layer(entry: dict[str, Any]) -> dict[str, Any]:
    """Say where the layers inside a layer are from: Keras 3 wants to know there."""
    config = dict(entry["config"])
    if config.get("time_major") is False:
        del config["time_major"]
    for key in ("layer", "backward_layer", "cell"):
        if _serialization.is_config(config.get(key)):
            config[key] = _inner(config[key])
    if isinstance(config.get("cells"), list):
        config["cells"] = [_inner(cell) for cell in config["cells"]]
    return {**entry, "config": config}


def _inner(entry: dict[str, Any]) -> dict[str, Any]:
    return {**_layer(entry), "module": "keras.layers", "registered_name": None}


def _call(entry: dict[str, Any], call: dict[str, Any]) -> list[Any]:
    args = call["args"]
    args = args["config"] if isinstance(args, Mapping) else args
    names = _names_of_arguments(entry["class_name"])
    more = dict(zip(names[1:], args[1:], strict=False))
    kwargs = {key: _places(item) for key, item in {**more, **call["kwargs"]}.items()}
    first = args[0] if args else None
    if isinstance(first, list):
        return [[*_place(tensor, entry), kwargs] for tensor in first]
    return [[*_place(first, entry), kwargs]]


def _names_of_arguments(class_name: str) -> list[str]:
    from ipu.keras import layers

    is_known = class_name in dir(layers)
    kind = getattr(layers, class_name) if is_known else None
    kind = _serialization.get_registered_object(class_name) or kind
    if kind is None:
        return []
    return [name for name in inspect.signature(kind.call).parameters if name != "self"]


def _place(tensor: Any, entry: dict[str, Any]) -> Any:
    if not _is_tensor(tensor):
        raise ValueError(
            f"Layer {entry['name']!r} is called in a way that .h5 files have no form "
            "for. Save to a path that ends in .keras or .safetensors."
        )
    return tensor["config"]


def _is_tensor(value: Any) -> bool:
    is_config = _serialization.is_config(value)
    return is_config and value["class_name"] == "__keras_tensor__"


def _places(value: Any) -> Any:
    if _is_tensor(value):
        return value["config"]
    if _serialization.is_config(value) and value["class_name"] == "__tuple__":
        return [_places(item) for item in value["config"]]
    if isinstance(value, list):
        return [_places(item) for item in value]
    return value
