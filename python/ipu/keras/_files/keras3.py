# SPDX-License-Identifier: MIT
"""Files of Keras 3: ``.weights.h5``, and the archive ``.keras``.

An archive is a zip of ``metadata.json``, ``config.json`` and ``model.weights.h5``;
layers of words may have theirs in ``assets/.../vocabulary.txt``.

Ours have more, of which Keras takes no notice: options for the IPU; what ``compile``
was told, whether or not Keras 3 has a form for it; the optimizer's variables that
Keras 3 does not have; and the state of random numbers.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ipu._text.user_warnings import warn_user
from ipu.keras import _names, _serialization
from ipu.keras._files import bounded, fitting, keras3_config, keras3_reading, tree
from ipu.keras._files.fitting import Array
from ipu.keras._files.places import damaged, h5py, opened
from ipu.keras._random_state import Order, parsed
from ipu.tf import nest

_KIND = "a file of Keras 3"
_WEIGHTS = "model.weights.h5"
_OPTIMIZER = "optimizer/vars/"
_MORE_OF_OPTIMIZER = "ipu_optimizer/"
_RANDOM = "ipu_random_state.json"
_OWN = "ipu.json"
_VERSION = "3.15.1"  # of the Keras whose files these are


def save_weights(model: Any, path: str, target: Any = None) -> None:
    """Write the weights of a model."""
    with h5py(path).File(target or path, "w", locking=False) as file:
        _write_weights(model, file)


def _write_weights(model: Any, file: Any) -> None:
    for one in tree.groups_of(model):
        group = file.create_group(one.place)
        group.attrs["name"] = one.name
        store = {str(n): variable.numpy() for n, variable in enumerate(one.variables)}
        if one.has("save_own_variables"):
            store = {}
            one.layer.save_own_variables(store)
        for key, value in store.items():
            group.create_dataset(key, data=np.asarray(value))


def load_weights(model: Any, path: str, rule: fitting.Rule = fitting.WHOLE) -> None:
    """Read weights from a ``.weights.h5`` file, or from an archive."""
    names: dict[str, str] = {}
    arrays = _arrays(path, _opened(path), names)
    wanted, groups = tree.variables_of(model), tree.groups_of(model)
    own = [
        (group.layer, _taken(arrays, f"{group.place}/"))
        for group in groups
        if group.has("load_own_variables")
    ]
    weights = {
        # states of seeds are of uint32 there
        key: a.view(np.int32) if a.dtype == np.uint32 else a
        for key, a in arrays.items()
        if key in wanted or not _is_beside(key)
    }
    if rule.by_name:
        if not names:
            raise ValueError(
                f"The file {path!r} does not say the names of its layers. Leave "
                "`by_name` as it is by default, with `skip_mismatch=True`."
            )
        ours = {group.path: group.name for group in groups}
        wanted, weights = _by_names(wanted, ours), _by_names(weights, names)
    fitting.assign(fitting.fitted(wanted, weights, path, model.name, rule))
    for layer, store in own:
        layer.load_own_variables(store)
    _load_assets(groups, path)


def _taken(arrays: dict[str, Array], place: str) -> dict[str, Array]:
    """Take the arrays below a place away, by the rest of their paths."""
    keys = [key for key in arrays if key.startswith(place)]
    return {key.removeprefix(place): arrays.pop(key) for key in keys}


def _save_assets(groups: list[tree.Group], archive: Any) -> None:
    """Put the files that layers write into an archive."""
    import tempfile  # slow to import

    for group in groups:
        if group.has("save_assets"):
            with tempfile.TemporaryDirectory() as folder:
                group.layer.save_assets(folder)
                for place, _, names in os.walk(folder):
                    for name in sorted(names):
                        file = os.path.join(place, name)
                        inside = os.path.relpath(file, folder).replace(os.sep, "/")
                        archive.write(file, f"{_assets(group)}/{inside}")


def _load_assets(groups: list[tree.Group], path: str) -> None:
    """Show layers the files of theirs that an archive has."""
    import tempfile  # slow to import
    import zipfile

    asking = [group for group in groups if group.has("load_assets")]
    if not asking or not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        for group in asking:
            place = _assets(group)
            with tempfile.TemporaryDirectory() as folder:
                for name in archive.namelist():
                    if name.startswith(f"{place}/"):
                        bounded.check_member(archive, name)
                        archive.extract(name, folder)
                here = os.path.join(folder, place)
                os.makedirs(here, exist_ok=True)
                group.layer.load_assets(here)


def _assets(group: tree.Group) -> str:
    return f"assets/{group.path}".rstrip("/")


def _by_names(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return values by the names of layers and those around them, in place of their
    paths."""

    def named(key: str) -> str:
        path, _, number = key.rpartition("vars/")
        parts = path.rstrip("/").split("/")
        around = ("/".join(parts[: n + 1]) for n in range(len(parts)))
        found = [names[one] for one in around if one and one in names]
        return "/".join([*found, number])

    return {named(key): value for key, value in values.items()}


def _is_beside(key: str) -> bool:
    """Return whether a variable is not of a layer: an optimizer's, or one of a seed
    where layers here have none."""
    of_optimizer = key.startswith((_OPTIMIZER, _MORE_OF_OPTIMIZER))
    return of_optimizer or "seed_generator/" in key


def _opened(path: str) -> Any:
    import zipfile  # slow to import

    if not zipfile.is_zipfile(path):
        return path
    try:
        with zipfile.ZipFile(path) as archive:
            return bounded.member(archive, _WEIGHTS)
    except (KeyError, OSError, ValueError, zipfile.BadZipFile) as error:
        raise _damaged(path, error) from None


def _damaged(path: str, reason: object) -> Exception:
    return damaged(path, _KIND, reason)


def _arrays(
    path: str, source: Any, names: dict[str, str] | None = None
) -> dict[str, Array]:
    """Read all arrays by their paths, and the names of layers by those of groups."""
    module = h5py(path)
    found: dict[str, Array] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, module.Dataset):
            found[name] = bounded.dataset(item)
        elif names is not None and "name" in item.attrs:
            names[name.removesuffix("vars").rstrip("/")] = str(item.attrs["name"])

    with opened(path, _KIND, source) as file:
        file.visititems(visit)
    return found


def save_model(
    model: Any, path: str, target: str, training: Any, random: str | None
) -> None:
    """Write an archive."""
    with _serialization.CustomObjectScope(_own_classes(model)):
        config = keras3_config.of_model(model)
        config["compile_config"] = keras3_config.of_training(training)
    metadata = {
        "keras_version": _VERSION,
        "date_saved": time.strftime("%Y-%m-%d@%H:%M:%S"),
    }
    # not into an object of Python: HDF5 would write to it when Python has ended
    memory = {"driver": "core", "backing_store": False}
    with h5py(path).File(_WEIGHTS, "w", **memory) as file:
        _write_weights(model, file)
        if training is not None:
            _write_optimizer(model, file, config["compile_config"] is not None)
        file.flush()
        weights = file.id.get_file_image()
    import zipfile  # slow to import

    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("metadata.json", json.dumps(metadata))
        archive.writestr("config.json", json.dumps(config))
        archive.writestr(_WEIGHTS, weights)
        own = {"options": model._options_config(), "training": training}
        archive.writestr(_OWN, json.dumps(own))
        if random is not None:
            archive.writestr(_RANDOM, random)
        _save_assets(tree.groups_of(model), archive)


def _own_classes(model: Any) -> dict[str, Any]:
    """Return a user's classes of layers, losses and metrics, by their names in
    files."""
    told = getattr(model, "_compile_arguments", None) or {}
    given = [told.get(key) for key in ("loss", "metrics", "weighted_metrics")]
    objects = [*model._flatten_layers(), *nest.flatten(given)]
    objects.append(getattr(model, "optimizer", None))
    return {
        _serialization.get_registered_name(type(one)): _serialization.written(type(one))
        for one in objects
        if hasattr(one, "get_config") and not type(one).__module__.startswith("ipu.")
    }


def _write_optimizer(model: Any, file: Any, is_known: bool) -> None:
    """Write the optimizer's variables: those that Keras 3 knows in its place."""
    optimizer = model.optimizer
    known = []
    if is_known:
        known = tree.optimizer_variables(optimizer, model.trainable_variables)
    more = tree.left_out(optimizer.weights, known)
    for place, variables in ((_OPTIMIZER, known), (_MORE_OF_OPTIMIZER, more)):
        group = file.create_group(place)
        for number, variable in enumerate(variables):
            group.create_dataset(str(number), data=variable.numpy())


def read_model(path: str) -> tuple[dict[str, Any], Any, Any]:
    """Read what an archive says of its model.

    Returns:
        The configuration; what ``compile`` was told, or None; and a function that sets
        a compiled model's optimizer to the state in the file.
    """
    import zipfile  # slow to import

    try:
        with zipfile.ZipFile(path) as archive:
            config = json.loads(bounded.member(archive, "config.json"))
            _add_vocabularies(config.get("config") or {}, "assets/layers", archive)
            random, told = (
                bounded.member(archive, name).decode()
                if name in archive.namelist()
                else None
                for name in (_RANDOM, _OWN)
            )
            own = {} if told is None else json.loads(told)
    except (KeyError, OSError, ValueError, zipfile.BadZipFile) as error:
        raise _damaged(path, error) from None
    state_of_random = None if random is None else parsed(random, path)
    arrays = _arrays(path, _opened(path))
    known, more = (_numbered(arrays, at) for at in (_OPTIMIZER, _MORE_OF_OPTIMIZER))

    def restore(model: Any) -> None:
        restore_optimizer(model, known, path, more)
        model._data_order = Order(state_of_random)

    described = keras3_reading.model_from(config, path)
    is_network = "layers" in described["config"]
    (described["config"] if is_network else described).update(own.get("options") or {})
    # where the classes of losses and metrics come from, too
    training = keras3_reading.training_from(config.get("compile_config"), path)
    return described, own.get("training") or training, restore


def _numbered(arrays: dict[str, Array], place: str) -> list[Array]:
    """Return the arrays of a list of variables."""
    count = sum(key.startswith(place) for key in arrays)
    return [arrays[f"{place}{n}"] for n in range(count)]


def _add_vocabularies(config: Any, path: str, archive: Any) -> None:
    """Put the words of layers, which an archive keeps in files, into the layers'
    configurations.
    """
    counts: dict[str, int] = {}
    for entry in config.get("layers", ()):
        name = _names.snake_case(str(entry.get("class_name", "")))
        number = counts.get(name, 0)
        counts[name] = number + 1
        place = f"{path}/{name}_{number}" if number else f"{path}/{name}"
        arguments = entry.get("config") or {}
        if "layers" in arguments:
            _add_vocabularies(arguments, f"{place}/layers", archive)
        if "vocabulary" in arguments and arguments["vocabulary"] is None:
            file = f"{place}/vocabulary.txt"
            if file in archive.namelist():
                text = bounded.member(archive, file).decode()
                arguments["vocabulary"] = text.removesuffix("\n").split("\n")


def restore_optimizer(
    model: Any, known: list[Array], path: str, more: Sequence[Array] = ()
) -> None:
    """Set the optimizer of a compiled model."""
    optimizer = model.optimizer
    trained = model.trainable_variables

    def made() -> list[Any]:
        variables = tree.optimizer_variables(optimizer, trained) if known else []
        return [*variables, *tree.left_out(optimizer.weights, variables)]

    state = [*known, *more]
    if not state:
        return
    variables = made()
    if len(state) > len(variables):  # it was trained
        optimizer._create_all_weights(trained)
        variables = made()
    if [array.shape for array in state] != [tuple(v.shape) for v in variables]:
        warn_user(
            f"The state of the optimizer in {path!r} is not that of a "
            f"{type(optimizer).__name__} here; it starts anew."
        )
        return
    for variable, array in zip(variables, state, strict=True):
        variable.assign(array.astype(variable.dtype.as_numpy_dtype))
