# SPDX-License-Identifier: MIT
"""Configurations of models of Keras 3 in our form (keras3_config: the way there)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from ipu.keras import _serialization
from ipu.keras._arguments import arguments_of
from ipu.keras._files import keras3_ops

__all__ = ["model_from", "training_from"]

MODELS = frozenset({"Functional", "Sequential"})
KINDS = (
    "initializers",
    "regularizers",
    "constraints",
    "losses",
    "metrics",
    "optimizers",
    "optimizers.schedules",
)
# what Keras 3 has alone, with the values that mean the same as leaving it out; None
# stands for any value
_ANY = """
    dtype ema_momentum ema_overwrite_frequency fill_mode fill_value flash_attention
    input_axes lora_alpha output_axes renorm_clipping renorm_momentum seed use_cudnn
    value_range vocabulary_size zero_output_for_mask
""".split()
_FALSE = """
    antialias dropout from_sorted_ids invert keepdims optional pad_to_aspect_ratio
    ragged renorm rms_scaling sparse synchronized use_ema use_gate
""".split()
_NONE = """
    class_id ignore_class lora_rank loss_scale_factor quantization_config salt
    sliding_window weight_decay
""".split()
_THEIRS: dict[str, tuple[Any, ...] | None] = {
    **dict.fromkeys(_ANY, None),
    **dict.fromkeys(_FALSE, (False,)),
    **dict.fromkeys(_NONE, (None,)),
    "gradient_accumulation_steps": (None, 1),
    "oov_method": ("floormod",),
    "score_mode": ("dot",),
    "data_format": ("channels_last", None),
    "axis": (-1,),
    "sparse_y_true": (True,),
    "sparse_y_pred": (True,),
}
# what optimizers take by **kwargs
_OF_OPTIMIZERS = frozenset(
    """
    clipnorm clipvalue decay ema_momentum ema_overwrite_frequency
    exclude_from_weight_decay global_clipnorm gradient_accumulation_steps
    loss_scale_factor schedule_decay use_ema weight_decay
    """.split()
)


def model_from(config: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the configuration of a model of Keras 3 in our form."""
    described: dict[str, Any] = _ours(config, path)
    if "build_config" in config:
        described["build_config"] = config["build_config"]
    return described


def training_from(told: Any, path: str) -> dict[str, Any] | None:
    """Return what ``compile`` was told, in our form; None where that is not known."""
    if told is None or "optimizer" not in told:
        return None
    kept = ("optimizer", "loss", "metrics", "weighted_metrics", "loss_weights")
    made = {key: _ours(told.get(key), path) for key in kept}
    steps = told.get("steps_per_execution")
    if isinstance(steps, int) and steps > 1:
        made["steps_per_execution"] = steps
    return made


def _ours(value: Any, path: str) -> Any:
    if isinstance(value, list):
        return [_ours(item, path) for item in value]
    if not isinstance(value, Mapping):
        return value
    name: Any = value.get("class_name")
    config: Any = value.get("config")
    if name is None:
        return {key: _ours(item, path) for key, item in value.items()}
    if name == "__keras_tensor__":
        return {"class_name": name, "config": value["config"]["keras_history"]}
    if name == "__tuple__":
        return {"class_name": name, "config": _ours(value["items"], path)}
    if name == "__slice__":
        bounds = [_ours(config[key], path) for key in ("start", "stop", "step")]
        return {"class_name": name, "config": bounds}
    if name in ("__ellipsis__", "__lambda__"):
        return {"class_name": name, "config": config or None}
    if name in ("__numpy__", "__tensor__"):
        array = np.asarray(config["value"], config["dtype"])
        return {"class_name": "__array__", "config": [array.tolist(), array.dtype.name]}
    if name in ("DTypePolicy", "Policy"):
        return config["name"]
    if name == "function":
        return config
    if name in MODELS:
        return {"class_name": name, "config": _our_model(config, path)}
    registered = value.get("registered_name") or name
    if _serialization.get_registered_object(registered) is not None:
        return {"class_name": registered, "config": _of_own(config, path)}
    if _serialization.get_registered_object(name) is not None:
        return {"class_name": name, "config": _of_own(config, path)}
    own = _own_class(value, str(name))
    if own is not None:
        _serialization.get_custom_objects()[registered] = own  # while the file is read
        return {"class_name": registered, "config": _of_own(config, path)}
    return {"class_name": name, "config": _our_object(str(name), config or {}, path)}


def _own_class(value: Mapping[str, Any], name: str) -> Any:
    """Return a class that the program has, where the file says its module; nothing is
    imported for a file."""
    module = str(value.get("module"))
    if module.partition(".")[0] in ("keras", "builtins", "ipu"):
        return None
    found = getattr(sys.modules.get(module), name, None)
    is_own = isinstance(found, type) and hasattr(found, "get_config")
    return found if is_own else None


def _of_own(config: Any, path: str) -> Any:
    """Return the configuration of a class that a user wrote: it may be functional,
    too."""
    is_network = isinstance(config, Mapping) and "input_layers" in config
    return _our_model(config, path) if is_network else _ours(config, path)


def _our_model(config: Mapping[str, Any], path: str) -> dict[str, Any]:
    made = {key: config[key] for key in ("name", "trainable") if key in config}
    made["layers"] = [_our_entry(entry, path) for entry in config["layers"]]
    for key in ("input_layers", "output_layers", "build_input_shape"):
        if key in config:
            made[key] = config[key]
    return made


def _our_entry(entry: Mapping[str, Any], path: str) -> dict[str, Any]:
    if keras3_ops.is_operation(entry):
        operation = keras3_ops.operation_from(entry, path)
        (call,) = operation["inbound_nodes"]
        inbound = {key: _ours(item, path) for key, item in call.items()}
        return {**operation, "inbound_nodes": [inbound]}
    made: dict[str, Any] = _ours(entry, path)
    if "inbound_nodes" not in entry:
        return made
    calls = []
    for call in entry["inbound_nodes"]:
        kwargs = {
            key: item
            for key, item in call["kwargs"].items()
            # Keras 3 notes what it would have found out by itself
            if not (key == "mask" or (key == "training" and not item))
        }
        calls.append({"args": _ours(call["args"], path), "kwargs": _ours(kwargs, path)})
    return {**made, "name": entry["name"], "inbound_nodes": calls}


def _our_object(name: str, config: Mapping[str, Any], path: str) -> dict[str, Any]:
    made = {key: _ours(item, path) for key, item in config.items()}
    if has_other_formula(made):
        raise ValueError(
            f"The file {path!r} has a {name} with the activation 'hard_sigmoid', which "
            "is relu6(x + 3) / 6 in Keras 3, and 0.2 x + 0.5 cut at 0 and 1 in Keras 2 "
            "and here. Load it with custom_objects={'hard_sigmoid': "
            "keras.ops.hard_sigmoid}."
        )
    if name == "InputLayer":
        made["batch_input_shape"] = made.pop("batch_shape")
    if name == "LeakyReLU" and "negative_slope" in made:
        made["alpha"] = made.pop("negative_slope")
    if made.get("bin_boundaries") is not None:
        made["num_bins"] = None  # there it stays beside them
    kind = class_of(name)
    if kind is None:
        return made  # whoever makes it says what is missing
    if getattr(kind, "_dtype_is_of_result", False):
        made.pop("dtype", None)
    accepted = {*arguments_of(kind)}
    if any(base.__name__ == "Optimizer" for base in kind.__mro__):
        accepted |= _OF_OPTIMIZERS
    for key in [key for key in made if key not in accepted]:
        harmless = _THEIRS.get(key, ())
        if harmless is not None and made[key] not in harmless:
            raise ValueError(
                f"The file {path!r} has a {name} with {key}={made[key]!r}, which is "
                "not there yet."
            )
        del made[key]
    return made


def has_other_formula(config: Mapping[str, Any]) -> bool:
    """Return whether an activation of a layer has one name and two formulas, of which
    the user has chosen none."""
    name = "hard_sigmoid"
    names = (item for key, item in config.items() if key.endswith("activation"))
    is_named = any(isinstance(item, str) and item == name for item in names)
    return is_named and _serialization.get_registered_object(name) is None


def class_of(name: str) -> Any:
    for kind in ("layers", *KINDS):
        module = importlib.import_module(f"ipu.keras.{kind}")
        found = getattr(module, name) if name in module.__all__ else None
        if isinstance(found, type):
            return found
    return None
