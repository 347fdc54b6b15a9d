# SPDX-License-Identifier: MIT
"""``ipu.keras.saving``: models in files, and objects as plain data."""

from __future__ import annotations

import importlib
from collections import abc
from typing import Any

from ipu._text.exports import export, offered
from ipu.keras import _functions, _serialization
from ipu.keras._serialization import (
    CustomObjectScope as CustomObjectScope,
    custom_object_scope as custom_object_scope,
    get_custom_objects as get_custom_objects,
    get_registered_name as get_registered_name,
    get_registered_object as get_registered_object,
    register_keras_serializable as register_keras_serializable,
)
from ipu.keras.models import load_model as load_model, save_model as save_model

_PLAIN = (bool, int, float, str, type(None))
_KINDS = (
    "layers models losses metrics optimizers optimizers.schedules initializers "
    "regularizers constraints mixed_precision random"
).split()


def serialize_keras_object(obj: Any) -> Any:
    """Describe an object, or a structure of some, as plain data.

    Args:
        obj: Plain data, an object with ``get_config``, a class or a function; or a
            list, tuple or dict of these.

    Returns:
        Plain data as it is; ``{"class_name": ..., "config": ...}`` of an object; the
        name of a class or function.

    Raises:
        ValueError: It is anything else.

    Example:
        >>> keras.saving.serialize_keras_object([1, keras.regularizers.L1(0.5)])
        [1, {'class_name': 'L1', 'config': {'l1': 0.5}}]
    """
    if isinstance(obj, _PLAIN):
        return obj
    if isinstance(obj, (list, tuple)):
        return [serialize_keras_object(item) for item in obj]
    if isinstance(obj, abc.Mapping):
        return {key: serialize_keras_object(item) for key, item in obj.items()}
    return _serialization.serialize_keras_object(obj)


def deserialize_keras_object(
    config: Any,
    custom_objects: abc.Mapping[str, Any] | None = None,
    safe_mode: bool = True,
) -> Any:
    """Make what ``serialize_keras_object`` described.

    Args:
        config: The description.
        custom_objects: A user's own classes and functions by name.
        safe_mode: False lets it bring code: the lambdas of ``Lambda`` layers.

    Returns:
        The object, or the structure of some. A name stands for a function or class
        that is registered, or is among ``custom_objects``; else it stays text.

    Raises:
        ValueError: There is no class of that name; the nearest is offered.

    Example:
        >>> config = keras.saving.serialize_keras_object(keras.layers.Dense(3))
        >>> keras.saving.deserialize_keras_object(config).units
        3
    """
    with CustomObjectScope(custom_objects or {}), _functions.unsafe(not safe_mode):
        return _made(config)


def _made(config: Any) -> Any:
    if isinstance(config, str):
        found = get_registered_object(config)
        return config if found is None else found
    if isinstance(config, (list, tuple)):
        return [_made(item) for item in config]
    if not isinstance(config, abc.Mapping):
        return config
    if not _serialization.is_config(config):
        return {key: _made(item) for key, item in config.items()}
    if config["class_name"] == "function":
        return _functions.restored(config)
    registered = config.get("registered_name")
    if registered and get_registered_object(registered) is not None:
        config = {**config, "class_name": registered}
    return _serialization.make("class", config, _classes())


def _classes() -> dict[str, Any]:
    """Return every class of Keras that can be described, by its name."""
    found: dict[str, Any] = {}
    for kind in reversed(_KINDS):  # where two have one name, the first one counts
        module = importlib.import_module(f"ipu.keras.{kind}")
        found |= {name: getattr(module, name) for name in module.__all__}
    return {name: one for name, one in found.items() if hasattr(one, "from_config")}


export(__name__, offered(__name__))
