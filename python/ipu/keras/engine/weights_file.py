# SPDX-License-Identifier: MIT
"""Weights in ``.safetensors`` files.

A file appears under its name only when it is whole: it is written beside it and then
renamed. Reading checks everything before the first variable is changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["LoadStatus", "load", "read_about", "save", "weights_path"]

_FORMAT = "ipu.keras.weights"
_STATE = "optimizer:"  # before the names of an optimizer's variables
_SUFFIX = ".safetensors"
_FOREIGN = (".h5", ".hdf5", ".keras", ".npz", ".pt", ".pth", ".tf")


def weights_path(filepath: str | os.PathLike[str]) -> str:
    """Give the path with its suffix.

    Raises:
        ValueError: The suffix is that of another format.
    """
    path = os.fspath(filepath)
    if path.endswith(_SUFFIX):
        return path
    suffix = os.path.splitext(path)[1].lower()
    if suffix in _FOREIGN:
        raise ValueError(
            f"Weights are kept in {_SUFFIX} files. Received: {path!r}. Use a path that "
            f"ends in {_SUFFIX}."
        )
    return path + _SUFFIX


def _keys(variables: Sequence[Any]) -> list[str]:
    """A key for each variable: its name, with a number where that is taken."""
    keys: list[str] = []
    for variable in variables:
        stem = str(variable.name).split(":")[0]
        key, number = stem, 0
        while key in keys:
            number += 1
            key = f"{stem}_{number}"
        keys.append(key)
    return keys


def save(
    variables: Sequence[Any],
    filepath: str | os.PathLike[str],
    overwrite: bool,
    state: Sequence[Any] = (),
    about: Mapping[str, str] | None = None,
) -> None:
    """Write variables.

    Args:
        variables: The variables, in order.
        filepath: The file.
        overwrite: Whether an existing file is replaced.
        state: The optimizer's variables, in order.
        about: More metadata.

    Raises:
        FileExistsError: There is a file and ``overwrite`` is False.
    """
    import json
    import tempfile

    from safetensors.numpy import save as to_bytes

    path = weights_path(filepath)
    if not overwrite and os.path.exists(path):
        raise FileExistsError(
            f"There is a file {path!r} already. Pass overwrite=True to replace it."
        )
    keys = _keys(variables)
    arrays = {
        key: np.asarray(variable.numpy(), order="C")
        for key, variable in zip(keys, variables, strict=True)
    }
    metadata = {"format": _FORMAT, "order": json.dumps(keys), **(about or {})}
    if state:
        others = [_STATE + key for key in _keys(state)]
        for key, variable in zip(others, state, strict=True):
            arrays[key] = np.asarray(variable.numpy(), order="C")
        metadata["optimizer_order"] = json.dumps(others)
    data = to_bytes(arrays, metadata)
    folder = os.path.dirname(os.path.abspath(path))
    handle, partial = tempfile.mkstemp(dir=folder, prefix=".weights-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; a saved file follows the user's umask
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(partial, 0o666 & ~mask)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def load(
    variables: Sequence[Any], filepath: str | os.PathLike[str], model_name: str
) -> None:
    """Read variables: by name, or where names differ, in order.

    Args:
        variables: The variables, in order.
        filepath: The file.
        model_name: For messages.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is damaged or does not fit; then nothing is changed.
    """
    path = weights_path(filepath)
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no weights file {path!r}.")
    arrays, order = _read(path)
    keys = _keys(variables)
    if set(keys) == set(arrays):
        found = [arrays[key] for key in keys]
    elif order is not None and len(order) == len(keys):
        found = [arrays[key] for key in order]
    else:
        missing = [key for key in keys if key not in arrays]
        unknown = [key for key in arrays if key not in keys]
        raise ValueError(
            f"The file {path!r} is not one of model {model_name!r}, nothing was "
            f"loaded. It has {len(arrays)} weights, the model {len(keys)}. Missing: "
            f"{missing[:5]}; not known: {unknown[:5]}."
        )
    ready = []
    for variable, key, array in zip(variables, keys, found, strict=True):
        wanted = np.dtype(variable.dtype.as_numpy_dtype)
        if tuple(variable.shape) != array.shape or wanted.kind != array.dtype.kind:
            raise ValueError(
                f"The file {path!r} does not fit model {model_name!r}, nothing was "
                f"loaded. Weight {key!r} is {wanted} of shape {tuple(variable.shape)}; "
                f"the file has {array.dtype} of shape {array.shape}."
            )
        ready.append(array.astype(wanted, copy=False))
    for variable, array in zip(variables, ready, strict=True):
        variable.assign(array)


class LoadStatus:
    """What ``load_weights`` gives: all was loaded, or there was an error.

    Source: the status objects of ``tf.train.Checkpoint``.
    """

    def assert_consumed(self) -> LoadStatus:
        """Check that all of the file was used: it was."""
        return self

    def assert_existing_objects_matched(self) -> LoadStatus:
        """Check that all weights were in the file: they were."""
        return self

    def assert_nontrivial_match(self) -> LoadStatus:
        """Check that something was loaded: it was."""
        return self

    def expect_partial(self) -> LoadStatus:
        """Say nothing of what was not used: all was."""
        return self


def _contents(path: str) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, str]]:
    """All arrays of a file by name, and its metadata.

    Raises:
        ValueError: It is damaged.
    """
    import json

    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    with open(path, "rb") as file:
        data = file.read()
    try:
        arrays = from_bytes(data)
        size = int.from_bytes(data[:8], "little")
        about = json.loads(data[8 : 8 + size]).get("__metadata__") or {}
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    return arrays, about


def _damaged(path: str, reason: str) -> ValueError:
    return ValueError(
        f"The file {path!r} is damaged or no safetensors file, nothing was loaded "
        f"({reason})."
    )


def _order(path: str, about: Mapping[str, str], key: str, names: set[str]) -> list[str]:
    """The list of names under ``key`` of the metadata, which must be ``names``."""
    import json

    try:
        order = json.loads(about.get(key, "null"))
    except ValueError as error:
        raise _damaged(path, f"its {key!r} is no JSON: {error}") from error
    if not isinstance(order, list) or not all(isinstance(name, str) for name in order):
        raise _damaged(path, f"its {key!r} is no list of names")
    if len(order) != len(names) or set(order) != names:
        raise _damaged(
            path, f"its list of names, {key!r}, does not agree with its contents"
        )
    return order


def read_about(
    path: str,
) -> tuple[dict[str, str], list[np.ndarray[Any, Any]]]:
    """Read the metadata of a file and the optimizer's state in it.

    Args:
        path: The file.

    Returns:
        The metadata, and the state's arrays in order.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is damaged.
    """
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no file {path!r} with a model.")
    arrays, about = _contents(path)
    names = {key for key in arrays if key.startswith(_STATE)}
    if not names and "optimizer_order" not in about:
        return about, []
    return about, [arrays[key] for key in _order(path, about, "optimizer_order", names)]


def _read(path: str) -> tuple[dict[str, np.ndarray[Any, Any]], list[str] | None]:
    """All arrays of a file, and the order of their names where the file says it."""
    arrays, about = _contents(path)
    arrays = {key: a for key, a in arrays.items() if not key.startswith(_STATE)}
    if about.get("format") != _FORMAT:
        return arrays, None
    return arrays, _order(path, about, "order", set(arrays))
