# SPDX-License-Identifier: MIT
"""Models and weights in files of every format that there is.

The package's own is one ``.safetensors`` file. Tensors: the weights under their names,
and the optimizer's with ``optimizer:`` before theirs. Metadata: ``model_config``,
``training_config`` and ``random_state``, all JSON.

A file appears under its name only when it is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ipu._files.whole import write, written_beside
from ipu._text.missing import refuse
from ipu._text.refusals import refuse_given
from ipu._text.user_warnings import warn_user
from ipu.keras import _functions, _serialization, losses, metrics, optimizers
from ipu.keras._files.fitting import WHOLE, Rule
from ipu.keras._files.places import (
    Format,
    check_free,
    format_of,
    prepare,
    sniff,
)
from ipu.keras._random_state import Order, captured, parsed
from ipu.keras.engine.files import model_config, weights_file

Path = str | os.PathLike[str]


def save(
    model: Any,
    filepath: Path,
    overwrite: bool,
    include_optimizer: bool,
    save_format: str | None,
) -> None:
    refuse_given("ipu.keras.engine.model.Model.save", save_format=save_format)
    path, kind = prepare(filepath, True, save_format)
    check_free(path, overwrite)
    model._assert_weights_created()
    training = _training_config(model)
    is_whole = training is not None and include_optimizer
    random = _random_state_of(model) if is_whole else None
    if kind is not Format.KERAS_3:
        _warn_of_own_files(model, path)
    with written_beside(path) as target:
        if kind is Format.OWN:
            content = _encoded(model, model.weights, training, random)
            write(target, content)
        elif kind is Format.KERAS_2:
            _of_keras(kind).save_model(model, path, target, training, random)
        else:
            kept = training if include_optimizer else None
            _of_keras(kind).save_model(model, path, target, kept, random)


def _warn_of_own_files(model: Any, path: str) -> None:
    from ipu.keras._files import tree

    for group in tree.groups_of(model):
        for method in ("save_own_variables", "save_assets"):
            if group.has(method):
                warn_user(
                    f"Layer {group.name!r} has {method}(), which is called for files "
                    f"that end in .keras alone, not for {path!r}."
                )


def _of_keras(kind: Format) -> Any:
    """Return what reads and writes one of Keras's formats; it takes long to import."""
    if kind is Format.KERAS_2:
        from ipu.keras._files import keras2

        return keras2
    from ipu.keras._files import keras3

    return keras3


def _encoded(model: Any, weights: Any, training: Any, random: str | None) -> bytes:
    """Return the contents of our own file; with ``random`` also the optimizer's
    state."""
    about = {"model_config": model_config.to_json(model)}
    state: list[Any] = []
    if training is not None:
        about["training_config"] = json.dumps(training)
    if random is not None:
        state = model.optimizer.weights
        about["random_state"] = random
    return weights_file.encoded(weights, state, about)


def _random_state_of(model: Any) -> str:
    with model._scope():
        return captured(model._data_order).to_json()


def save_weights(model: Any, filepath: Path, overwrite: bool, save_format: Any) -> None:
    path, kind = prepare(filepath, False, save_format)
    check_free(path, overwrite)
    weights = model.weights  # raises where there are none yet
    with written_beside(path) as target:
        if kind is Format.OWN:
            write(target, weights_file.encoded(weights))
        else:
            _of_keras(kind).save_weights(model, path, target)


def _existing(filepath: Path, what: str) -> tuple[str, Format]:
    path, kind = format_of(filepath)
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no {what} {path!r}.")
    return path, sniff(path, kind)


def load_weights(model: Any, filepath: Path, rule: Rule = WHOLE) -> None:
    weights = model.weights  # raises where there are none yet
    path, kind = _existing(filepath, "weights file")
    if kind is Format.OWN:
        weights_file.load(weights, path, model.name, rule)
    else:
        _of_keras(kind).load_weights(model, path, rule)


def _training_config(model: Any) -> dict[str, Any] | None:
    """Return what ``compile`` was told, as plain data; None where that is not
    possible."""
    given = getattr(model, "_compile_arguments", None)
    if given is None:
        return None
    try:
        plain = {
            **given,
            "optimizer": optimizers.serialize(model.optimizer),
            "loss": _map(losses.serialize, given["loss"]),
            "metrics": _map(metrics.serialize, given["metrics"]),
            "weighted_metrics": _map(metrics.serialize, given["weighted_metrics"]),
        }
        told: dict[str, Any] = json.loads(json.dumps(plain))
        return told
    except (NotImplementedError, TypeError) as error:
        warn_user(
            f"The model is saved without what `compile` was told: {error}. Compile it "
            "again after loading."
        )
        return None


def _map(function: Any, given: Any) -> Any:
    """Return losses or metrics in the form in which they were given; names stay, but
    for those of a user's own objects, which count while the file is read."""
    if isinstance(given, str):
        own = _serialization.get_registered_object(given)
        return given if own is None else own
    if isinstance(given, (list, tuple)):
        return [_map(function, item) for item in given]
    if isinstance(given, Mapping) and not _serialization.is_config(given):
        return {key: _map(function, item) for key, item in given.items()}
    return given if given is None else function(given)


def load(
    filepath: Path,
    custom_objects: Any = None,
    compile: bool = True,
    safe_mode: bool = True,
) -> Any:
    """Read a model that ``Model.save`` or Keras wrote."""
    from ipu.keras import layers

    if os.path.isdir(filepath):
        refuse("tensorflow.saved_model.load")
    path, kind = _existing(filepath, "file with a model,")
    own = _serialization.CustomObjectScope(custom_objects or {})
    with own, _functions.unsafe(not safe_mode), _telling_of_own(path):
        read = _read_own if kind is Format.OWN else _of_keras(kind).read_model
        config, training, restore = read(path)
        model = layers.deserialize(config)
        if "layers" not in config["config"]:
            model._restore_options(config)
            if not model.built:
                _build(model, config.get("build_config"), path)
        if model.built:
            load_weights(model, path)
        if compile and training is not None:
            model.compile(**_arguments(training))
            if model.built:
                restore(model)
    return model


def _build(model: Any, told: dict[str, Any] | None, path: str) -> None:
    """Create the weights of a model of a user's class, for the inputs that it had."""
    reason = "the file does not say for which inputs it was built"
    try:
        if told and "input_shape" in told:
            model.build_from_config(told)
            return
    except Exception as error:  # of the user's `call`
        model.built = False
        reason = f"{type(error).__name__}: {error}"
    warn_user(
        f"The weights of {path!r} are not loaded into {model.name!r}: {reason}. Call "
        "the model on data, and then its load_weights() with this path."
    )


@contextmanager
def _telling_of_own(path: str) -> Iterator[None]:
    """Let an error of an unknown name say how the reader of a file is told of it."""
    try:
        yield
    except ValueError as error:
        if "_unknown" not in error.__dict__:
            raise
        kind, name = error.__dict__.pop("_unknown")
        way = "" if kind == "layer" else ", or load with compile=False"
        error.args = (
            f"Unknown {kind}: {name!r}, in the file {path!r}. If it is your own, give "
            f"custom_objects={{{name!r}: ...}} or decorate it with "
            f"@keras.saving.register_keras_serializable(){way}.",
        )
        raise


def pickled(model: Any) -> tuple[bytes, dict[str, Any]]:
    """Return the contents of a model's file, and its classes and functions that a user
    wrote."""
    from ipu.keras.engine.layer.call_arguments import own_classes
    from ipu.keras.layers import Lambda

    weights = model.weights if model.built else []
    own = own_classes(model)
    for layer in model._flatten_layers():
        if isinstance(layer, Lambda):
            own |= _functions.named(layer.function, layer.mask)
    training = _training_config(model)
    random = None if training is None else _random_state_of(model)
    return _encoded(model, weights, training, random), own


def unpickled(content: bytes, classes: dict[str, Any]) -> Any:
    """Make the model that :func:`pickled` described."""
    import tempfile  # slow to import

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        write(path, content)
        # whoever reads a pickle has trusted it
        return load(path, classes, safe_mode=False)


def _read_own(path: str) -> tuple[dict[str, Any], Any, Any]:
    about, state = weights_file.read_about(path)
    if "model_config" not in about:
        raise ValueError(
            f"The file {path!r} holds weights without a model. Make the model as it "
            "was, and call its load_weights()."
        )

    random = about.get("random_state") and parsed(about["random_state"], path)

    def restore(model: Any) -> None:
        if state:
            model.optimizer._resume(state, model.trainable_variables)
        model._data_order = Order(random or None)

    training = json.loads(about.get("training_config", "null"))
    return json.loads(about["model_config"]), training, restore


def _arguments(training: dict[str, Any]) -> dict[str, Any]:
    made = {**training, "optimizer": optimizers.get(training["optimizer"])}
    for key in ("loss", "metrics", "weighted_metrics"):
        made[key] = _map(losses.get if key == "loss" else metrics.get, made[key])
    return made
