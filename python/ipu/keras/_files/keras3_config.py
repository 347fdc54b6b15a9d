# SPDX-License-Identifier: MIT
"""Configurations of models as Keras 3 writes them (keras3_reading: the way back).

Keras 3 says of every object which module has it:
``{"module": ..., "class_name": ..., "config": ..., "registered_name": ...}``.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from ipu.keras import _serialization
from ipu.keras._files import keras3_ops
from ipu.keras._files.keras3_reading import KINDS, MODELS, class_of, has_other_formula
from ipu.keras.engine.files import model_config

__all__ = ["of_model", "of_training"]

_LAYERS = frozenset(
    """
    Activation ActivityRegularization Add AdditiveAttention AlphaDropout Attention
    Average AveragePooling1D AveragePooling2D AveragePooling3D BatchNormalization
    Bidirectional CategoryEncoding CenterCrop Concatenate Conv1D Conv1DTranspose Conv2D
    Conv2DTranspose Conv3D Conv3DTranspose Cropping1D Cropping2D Cropping3D Dense
    DepthwiseConv1D DepthwiseConv2D Discretization Dot Dropout ELU EinsumDense Embedding
    Flatten GRU GRUCell GaussianDropout GaussianNoise GlobalAveragePooling1D
    GlobalAveragePooling2D GlobalAveragePooling3D GlobalMaxPooling1D GlobalMaxPooling2D
    GlobalMaxPooling3D GroupQueryAttention HashedCrossing Hashing Identity InputLayer
    IntegerLookup LSTM LSTMCell Lambda LayerNormalization LeakyReLU Masking MaxPooling1D
    MaxPooling2D MaxPooling3D Maximum Minimum MultiHeadAttention Multiply Normalization
    PReLU Permute RMSNormalization RNN RandomBrightness RandomContrast RandomCrop
    RandomErasing RandomFlip RandomRotation RandomTranslation RandomZoom ReLU
    RepeatVector Rescaling Reshape Resizing SeparableConv1D SeparableConv2D SimpleRNN
    SimpleRNNCell Softmax Solarization SpatialDropout1D SpatialDropout2D
    SpatialDropout3D SpectralNormalization StackedRNNCells StringLookup Subtract
    TextVectorization TimeDistributed UnitNormalization UpSampling1D UpSampling2D
    UpSampling3D ZeroPadding1D ZeroPadding2D ZeroPadding3D
    """.split()
)
# what we have alone, with the values that mean the same as leaving it out; None
# stands for any value
_OURS: dict[str, tuple[Any, ...] | None] = {
    "activity_regularizer": (None,),  # where Keras has it, it is kept
    "batch_input_shape": None,
    "implementation": None,
    "input_length": None,
    "serialization_factor": None,
    "time_major": (False,),
}


_OUR_OPTIONS: dict[str, tuple[Any, ...] | None] = {
    "decay": (0.0,),
    "exclude_from_weight_decay": (),
    "gradient_transformers": (),
    "schedule_decay": (0.004,),
}
# Keras 3 has none of these, or another one under this name
_OUR_OPTIMIZERS = frozenset(
    """
    ALSGradientAccumulationOptimizer ALSOptimizer AdamIpuOptimizer CrossReplicaOptimizer
    GradientAccumulationOptimizer IpuOptimizer LAMBIpuOptimizer LossScaleOptimizer
    MapGradientOptimizer SGDIpuOptimizer
    """.split()
)


def _slice(config: list[Any]) -> dict[str, Any]:
    bounds = dict(zip(("start", "stop", "step"), config, strict=True))
    return {"class_name": "__slice__", "config": bounds}


def _array(config: list[Any]) -> Any:
    values, dtype = config
    if not isinstance(values, list):
        return values
    return {"class_name": "__numpy__", "config": {"value": values, "dtype": dtype}}


# arguments of calls that both have, by their names here
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "__array__": _array,
    "__dtype__": str,
    "__ellipsis__": lambda _: {"class_name": "__ellipsis__", "config": {}},
    "__lambda__": lambda code: {"class_name": "__lambda__", "config": code},
    "__slice__": _slice,
}


def of_model(model: Any) -> dict[str, Any]:
    """Describe a model as Keras 3 does."""
    given = json.loads(model_config.to_json(model))
    described: dict[str, Any] = _object(given, {model.name: _shapes_of(model)})
    if "build_config" in given:
        described["build_config"] = given["build_config"]
    return described


def of_training(told: dict[str, Any] | None) -> dict[str, Any] | None:
    """Describe what ``compile`` was told; None where Keras 3 has no word for it."""
    if told is None or told["optimizer"]["class_name"] in _OUR_OPTIMIZERS:
        return None
    try:
        return {
            "optimizer": _value(told["optimizer"], {}, "optimizers"),
            "loss": _value(told["loss"], {}, "losses"),
            "metrics": _value(told["metrics"], {}, "metrics"),
            "weighted_metrics": _value(told["weighted_metrics"], {}, "metrics"),
            "loss_weights": told["loss_weights"],
            "run_eagerly": False,
            "steps_per_execution": told["steps_per_execution"] or 1,
            "jit_compile": False,
        }
    except ValueError:
        return None


def _shapes_of(model: Any) -> dict[str, Any]:
    """Return shapes and dtypes of the results of a functional model's layers, by the
    name of the layer, the call and the place; those of the models in it by their names.
    """
    if not hasattr(model, "_graph"):
        return {}
    found: dict[str, Any] = {}
    calls: dict[str, int] = {}
    from ipu import tf

    for layer in model._graph_layers:
        if hasattr(layer, "_graph"):
            found[layer.name] = _shapes_of(layer)
        for node in layer._inbound_nodes:
            if node not in model._graph.node_depths:
                continue
            number = calls.get(layer.name, 0)
            calls[layer.name] = number + 1
            for place, tensor in enumerate(tf.nest.flatten(node.outputs)):
                key = json.dumps([layer.name, number, place])
                found[key] = (list(tensor.shape), tensor.dtype.name)
    return found


def _value(value: Any, shapes: Mapping[str, Any], prefer: str = "") -> Any:
    if isinstance(value, list):
        return [_value(item, shapes, prefer) for item in value]
    if not isinstance(value, Mapping):
        return value
    if not _serialization.is_config(value):
        return {key: _value(item, shapes, prefer) for key, item in value.items()}
    return _object(value, shapes, prefer)


def _object(
    value: Mapping[str, Any], shapes: Mapping[str, Any], prefer: str = ""
) -> Any:
    name, config = str(value["class_name"]), value.get("config")
    if name == "__keras_tensor__":
        shape, dtype = shapes[json.dumps(config)]
        history = {"shape": shape, "dtype": dtype, "keras_history": config}
        return {"class_name": name, "config": history}
    if name == "__tuple__":
        return _value(config, shapes)
    if name in ("Policy", "PolicyV1"):
        return _described("keras", "DTypePolicy", {"name": (config or {})["name"]})
    if name == "function":
        return {**_described("builtins", name, config), "registered_name": config}
    if name in _PLAIN:
        return _PLAIN[name](config)
    if name.startswith("__"):
        raise ValueError(f"Keras 3 has no form for a call with {name.strip('_')}.")
    described = dict(config or {})
    if name in MODELS:
        place = "keras.src.models.functional" if name == "Functional" else "keras"
        return _described(place, name, _model(name, described, shapes))
    own = _serialization.get_registered_object(name)
    if own is not None:
        if "input_layers" in described:  # a functional model of its class
            config = _model(name, described, shapes)
        else:
            config = _value(described, {})
        made = _described(own.__module__, own.__name__, config)
        return {**made, "registered_name": name}
    layer = described.get("name")
    if name in _LAYERS:
        return _described("keras.layers", name, _layer(name, described))
    for kind in (prefer, *KINDS) if prefer else KINDS:
        module = importlib.import_module(f"ipu.keras.{kind}")
        found = getattr(module, name) if name in module.__all__ else None
        if isinstance(found, type):
            return _described(f"keras.{kind}", name, _plain_object(name, described))
    where = f" (layer {layer!r})" if layer else ""
    raise ValueError(
        f"Keras 3 has no {name}{where}. Save to a path that ends in .safetensors, or "
        "register a class of your own with keras.saving.register_keras_serializable()."
    )


def _described(module: str, name: str, config: Any) -> dict[str, Any]:
    return {
        "module": module,
        "class_name": name,
        "config": config,
        "registered_name": None,
    }


def _plain_object(name: str, config: dict[str, Any]) -> dict[str, Any]:
    kept = _without(name, config, _OUR_OPTIONS)
    if kept.get("name") is None:  # of a schedule, which has its own there
        kept.pop("name", None)
    if kept.get("reduction") == "auto":
        kept["reduction"] = "sum_over_batch_size"
    return {key: _value(item, {}) for key, item in kept.items()}


def _layer(name: str, config: dict[str, Any]) -> dict[str, Any]:
    if name == "InputLayer":
        kept = {key: config[key] for key in ("dtype", "name")}
        return {"batch_shape": config["batch_input_shape"], **kept}
    if has_other_formula(config):
        raise ValueError(
            f"Keras 3 has a different 'hard_sigmoid' (layer {config.get('name')!r}): "
            "relu6(x + 3) / 6. Save to a path that ends in .safetensors."
        )
    kept = _without(name, config, _OURS)
    if config.get("activity_regularizer") is not None:
        kept["activity_regularizer"] = config["activity_regularizer"]
    if name == "LeakyReLU":
        kept["negative_slope"] = kept.pop("alpha")
    if getattr(class_of(name), "_dtype_is_of_result", False):
        del kept["dtype"]
    if name == "Discretization":
        del kept["trainable"]  # its only layer that does not take it
    if name == "BatchNormalization" and isinstance(kept["axis"], list):
        kept["axis"] = kept["axis"][0]
    made = {key: _value(item, {}) for key, item in kept.items()}
    if isinstance(made.get("dtype"), str):
        made["dtype"] = _described("keras", "DTypePolicy", {"name": made["dtype"]})
    return made


def _without(
    name: str, config: dict[str, Any], known: Mapping[str, tuple[Any, ...] | None]
) -> dict[str, Any]:
    """Return a configuration without what the other side does not know."""
    kept = {}
    for key, item in config.items():
        if key not in known:
            kept[key] = item
            continue
        harmless = known[key]
        is_kept = key == "activity_regularizer"  # the caller sees to it
        if harmless is not None and item not in harmless and not is_kept:
            raise ValueError(
                f"Keras 3 has no {key}={item!r} of {name}. Save to a path that ends in "
                ".safetensors."
            )
    return kept


def _model(
    name: str, config: dict[str, Any], known: Mapping[str, Any]
) -> dict[str, Any]:
    shared = {"name": config["name"], "trainable": config.get("trainable", True)}
    if name == "Sequential":
        entries = [_object(entry, {}) for entry in config["layers"]]
        return {
            **shared,
            "layers": entries,
            "build_input_shape": config["build_input_shape"],
        }
    shapes = known.get(config["name"]) or _infer_shapes(config)
    layers = []
    for entry in config["layers"]:
        if entry["class_name"] == "OpLambda":
            layers.append(_operation(entry, shapes))
            continue
        described = _object(entry, shapes)
        calls = [
            {
                "args": [_value(one, shapes) for one in _items(call["args"])],
                "kwargs": _value(call["kwargs"], shapes),
            }
            for call in entry["inbound_nodes"]
        ]
        layers.append({**described, "name": entry["name"], "inbound_nodes": calls})
    return {
        **shared,
        "layers": layers,
        "input_layers": _places(config["input_layers"]),
        "output_layers": _places(config["output_layers"]),
    }


def _operation(entry: dict[str, Any], shapes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function that the model calls: an operation of Keras 3."""
    (call,) = entry["inbound_nodes"]
    function, name = entry["config"]["function"], entry["name"]
    made, args = keras3_ops.of_call(
        function, name, _items(call["args"]), call["kwargs"]
    )
    config = _value(made["config"], shapes)
    if "__keras_tensor__" in json.dumps(config):
        raise ValueError(
            f"Keras 3 has no form for a call of {function} (layer {name!r}) with sizes "
            "that are tensors. Save to a path that ends in .safetensors."
        )
    inbound = [{"args": [_value(one, shapes) for one in args], "kwargs": {}}]
    return {**made, "config": config, "inbound_nodes": inbound}


def _infer_shapes(config: dict[str, Any]) -> dict[str, Any]:
    """Return the shapes of a nested model's tensors: it is made, and asked."""
    from ipu.keras.engine.functional import Functional

    return _shapes_of(Functional.from_config(config))


def _items(value: Any) -> list[Any]:
    if isinstance(value, Mapping):  # a tuple
        return list(value["config"])
    return list(value)


def _places(value: Any) -> Any:
    if isinstance(value, list):
        return [_places(item) for item in value]
    if _serialization.is_config(value):
        if value["class_name"] == "__keras_tensor__":
            return value["config"]
        return [_places(item) for item in value["config"]]
    return {key: _places(item) for key, item in value.items()}
