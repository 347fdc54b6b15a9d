# SPDX-License-Identifier: MIT
"""Whole models in one ``.safetensors`` file.

Tensors: the weights under their names, and the optimizer's with ``optimizer:`` before
theirs. Metadata: ``model_config`` and ``training_config``, both JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ipu._missing import refuse
from ipu._user_warnings import warn_user
from ipu.keras import _serialization, losses, metrics, optimizers
from ipu.keras.engine import model_config, weights_file

__all__ = ["load", "save"]


def save(
    model: Any,
    filepath: str | os.PathLike[str],
    overwrite: bool,
    include_optimizer: bool,
    save_format: str | None,
) -> None:
    """Write a model; see ``Model.save``."""
    if save_format == "tf":
        refuse("tensorflow.saved_model.save")
    if save_format is not None and save_format != "safetensors":
        raise ValueError(
            "Models are kept in .safetensors files. "
            f"Received: save_format={save_format!r}. Leave it out."
        )
    about = {"model_config": model_config.to_json(model)}
    state: list[Any] = []
    training = _training_config(model)
    if training is not None:
        about["training_config"] = training
        if include_optimizer:
            state = model.optimizer.weights
    weights_file.save(model.weights, filepath, overwrite, state, about)


def _training_config(model: Any) -> str | None:
    """What ``compile`` was told, as JSON; None where that is no plain data."""
    given = getattr(model, "_compile_arguments", None)
    if given is None:
        return None
    plain = {
        **given,
        "optimizer": optimizers.serialize(model.optimizer),
        "loss": _map(losses.serialize, given["loss"]),
        "metrics": _map(metrics.serialize, given["metrics"]),
        "weighted_metrics": _map(metrics.serialize, given["weighted_metrics"]),
    }
    try:
        return json.dumps(plain)
    except TypeError as error:
        warn_user(
            f"The model is saved without what `compile` was told: {error}. Compile it "
            "again after loading."
        )
        return None


def _map(function: Any, given: Any) -> Any:
    if isinstance(given, (list, tuple)):
        return [_map(function, item) for item in given]
    if isinstance(given, Mapping) and not _serialization.is_config(given):
        return {key: _map(function, item) for key, item in given.items()}
    return given if isinstance(given, str) else function(given)


def load(
    filepath: str | os.PathLike[str], custom_objects: Any = None, compile: bool = True
) -> Any:
    """Read a model that ``Model.save`` wrote.

    Args:
        filepath: The file.
        custom_objects: A user's own classes and functions by name.
        compile: Whether the model is compiled as it was, with the optimizer's state.

    Returns:
        The model.

    Raises:
        FileNotFoundError: There is no such file.
        NotImplementedError: It is a SavedModel of TensorFlow.
        ValueError: It is damaged, or holds weights only.
    """
    from ipu.keras import layers

    if os.path.isdir(filepath):
        refuse("tensorflow.saved_model.load")
    path = weights_file.weights_path(filepath)
    about, state = weights_file.read_about(path)
    if "model_config" not in about:
        raise ValueError(
            f"The file {path!r} holds weights without a model. Make the model as it "
            "was, and call its load_weights()."
        )
    with _serialization.CustomObjectScope(custom_objects or {}):
        model = layers.deserialize(json.loads(about["model_config"]))
        model.load_weights(path)
        if compile and "training_config" in about:
            arguments = json.loads(about["training_config"])
            arguments["optimizer"] = optimizers.deserialize(arguments["optimizer"])
            for key in ("loss", "metrics", "weighted_metrics"):
                getter = losses.get if key == "loss" else metrics.get
                arguments[key] = _restore(getter, arguments[key])
            model.compile(**arguments)
            if state:
                model.optimizer._create_all_weights(model.trainable_variables)
                model.optimizer.set_weights(state)
    return model


def _restore(getter: Any, given: Any) -> Any:
    if isinstance(given, list):
        return [_restore(getter, item) for item in given]
    if _serialization.is_config(given):
        return getter(given)
    if isinstance(given, Mapping):
        return {key: _restore(getter, item) for key, item in given.items()}
    return given
