# SPDX-License-Identifier: MIT
"""HDF5 files of Keras 2, which Keras 3 reads as well.

A group for each layer under its name holds the weights; the attributes
``layer_names`` and ``weight_names`` say their order. In the file of a whole model those
groups are in ``model_weights``, beside ``optimizer_weights`` and the attributes
``model_config`` and ``training_config``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ipu.keras import _serialization, losses
from ipu.keras._files import bounded, fitting, keras2_config, keras3, keras3_reading
from ipu.keras._files.fitting import Array
from ipu.keras._files.places import h5py, opened
from ipu.keras._random_state import Order, parsed
from ipu.keras.engine.files import model_config

_VERSION = "2.6.0"
_LIMIT = 64512  # bytes of an attribute
_TOP = "top_level_model_weights"
_RANDOM = "ipu_random_state"  # Keras takes no notice


def save_weights(model: Any, path: str, target: str) -> None:
    """Write the weights of a model, built, to ``target``."""
    with h5py(path).File(target, "w", locking=False) as file:
        _write_weights(model, file)


def save_model(
    model: Any, path: str, target: str, training: Any, random: str | None
) -> None:
    """Write a model."""
    config = keras2_config.of_model(json.loads(model_config.to_json(model)))
    config = keras2_config.without_newer(config)
    with h5py(path).File(target, "w", locking=False) as file:
        _note_versions(file)
        file.attrs["model_config"] = json.dumps(config)
        _write_weights(model, file.create_group("model_weights"))
        if training is None:
            return
        told = {**training, "optimizer_config": training["optimizer"]}
        del told["optimizer"]
        told["loss"] = _whole_names(told["loss"])
        told = keras2_config.without_newer(told)
        file.attrs["training_config"] = json.dumps(told)
        if random is not None:
            file.attrs[_RANDOM] = random
            group = file.create_group("optimizer_weights")
            _write_list(group, model.optimizer.weights)


def _whole_names(given: Any) -> Any:
    """Return losses without short names, which Keras 3 does not find in such files."""
    if isinstance(given, list):
        return [_whole_names(item) for item in given]
    if isinstance(given, str):
        return losses.serialize(losses.get(given))
    if isinstance(given, Mapping) and not _serialization.is_config(given):
        return {key: _whole_names(item) for key, item in given.items()}
    return given


def _note_versions(group: Any) -> None:
    group.attrs["backend"] = "tensorflow"
    group.attrs["keras_version"] = _VERSION


def _write_weights(model: Any, group: Any) -> None:
    layers = _layers_of(model)
    _write_names(group, "layer_names", [name for name, _ in layers])
    _note_versions(group)
    for name, variables in layers:
        _write_list(group.create_group(name), variables)
    _write_list(group.create_group(_TOP), _top_of(model))


def _layers_of(model: Any) -> list[tuple[str, list[Any]]]:
    return [
        (layer.name, [*layer.trainable_weights, *layer.non_trainable_weights])
        for layer in model.layers
    ]


def _top_of(model: Any) -> list[Any]:
    own = model._own_variables()
    return [v for v in own if v.trainable] + [v for v in own if not v.trainable]


def _write_list(group: Any, variables: Iterable[Any]) -> None:
    names: list[str] = []
    for variable in variables:
        stem = name = str(variable.name)
        number = 0
        while name in names:
            number += 1
            name = f"{stem}_{number}"
        names.append(name)
        group.create_dataset(name, data=variable.numpy())
    _write_names(group, "weight_names", names)


def _write_names(group: Any, key: str, names: list[str]) -> None:
    """Write a list of names; a long one in several attributes, as Keras does."""
    encoded = np.asarray([name.encode() for name in names] or [], dtype="S")
    pieces = 1
    while any(p.nbytes > _LIMIT for p in np.array_split(encoded, pieces)):
        pieces += 1
    if pieces == 1:
        group.attrs[key] = encoded
        return
    for number, piece in enumerate(np.array_split(encoded, pieces)):
        group.attrs[f"{key}{number}"] = piece


def _read_names(group: Any, key: str) -> list[str]:
    found: list[Any] = []
    if key in group.attrs:
        found = list(group.attrs[key])
    else:
        number = 0
        while f"{key}{number}" in group.attrs:
            found += list(group.attrs[f"{key}{number}"])
            number += 1
    return [name.decode() if isinstance(name, bytes) else str(name) for name in found]


def load_weights(model: Any, path: str, rule: fitting.Rule = fitting.WHOLE) -> None:
    """Read the weights of a model: layer by layer, in order."""
    with opened(path, "an HDF5 file") as file:
        group = file.get("model_weights", file)
        found = {
            name: _read_list(group[name]) for name in _read_names(group, "layer_names")
        }
        top = _read_list(group[_TOP]) if _TOP in group else []
    theirs = [(name, arrays) for name, arrays in found.items() if arrays]
    ours = [(name, variables) for name, variables in _layers_of(model) if variables]
    own = _top_of(model)
    if own or top:
        ours.append((_TOP, own))
        theirs.append((_TOP, top))
    arrays: dict[str, Array] = {}
    wanted: dict[str, Any] = {}
    is_same = len(ours) == len(theirs) and not rule.by_name
    for number in range(max(len(ours), len(theirs))):
        if number < len(ours):
            name, variables = ours[number]
            wanted |= {f"{name}/{n}": one for n, one in enumerate(variables)}
        if number < len(theirs):
            # of as many layers, names do not count
            named = ours[number][0] if is_same else theirs[number][0]
            arrays |= {f"{named}/{n}": a for n, a in enumerate(theirs[number][1])}
    fitting.assign(fitting.fitted(wanted, arrays, path, model.name, rule))


def _read_list(group: Any) -> list[Array]:
    return [bounded.dataset(group[n]) for n in _read_names(group, "weight_names")]


def read_model(path: str) -> tuple[dict[str, Any], Any, Any]:
    """Read what a file says of its model.

    Returns:
        The configuration; what ``compile`` was told, or None; and a function that sets
        a compiled model's optimizer to the state in the file.
    """
    with opened(path, "an HDF5 file") as file:
        described = file.attrs.get("model_config")
        config = None if described is None else json.loads(described)
        groups = (file, file.get("model_weights", file))
        versions = [str(one.attrs.get("keras_version", "2")) for one in groups]
        is_keras_3 = any(version.startswith("3") for version in versions)
        told = json.loads(file.attrs.get("training_config", "null"))
        group = file.get("optimizer_weights")
        state = [] if group is None else _read_list(group)
        random = file.attrs.get(_RANDOM)
    if config is None:
        raise ValueError(
            f"The file {path!r} holds weights without a model. Make the model as it "
            "was, and call its load_weights()."
        )
    state_of_random = None if random is None else parsed(random, path)
    if is_keras_3:
        config = keras3_reading.model_from(config, path)
    training: dict[str, Any] | None = None
    if isinstance(told, Mapping):
        told = {**told, "optimizer": told["optimizer_config"]}
        training = keras3_reading.training_from(told, path)

    def restore(model: Any) -> None:
        if is_keras_3:
            keras3.restore_optimizer(model, state, path)
        elif state:
            model.optimizer._resume(state, model.trainable_variables)
        model._data_order = Order(state_of_random)

    return config, training, restore
