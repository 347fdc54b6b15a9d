# SPDX-License-Identifier: MIT
"""Weights in ``.safetensors`` files.

Reading checks everything before the first variable is changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ipu.keras._files import fitting

_FORMAT = "ipu.keras.weights"
_STATE = "optimizer:"  # before the names of an optimizer's variables
_DIGEST = "digest"


def _keys(variables: Sequence[Any]) -> list[str]:
    """Return a key for each variable: its name, with a number where that is taken."""
    keys: list[str] = []
    for variable in variables:
        stem = str(variable.name).split(":")[0]
        key, number = stem, 0
        while key in keys:
            number += 1
            key = f"{stem}_{number}"
        keys.append(key)
    return keys


def encoded(
    variables: Sequence[Any],
    state: Sequence[Any] = (),
    about: Mapping[str, str] | None = None,
) -> bytes:
    """Return the contents of a file: variables, those of the optimizer (``state``), and
    more metadata."""
    import json

    from safetensors.numpy import save as to_bytes

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
    metadata[_DIGEST] = _digest(arrays, metadata)
    contents: bytes = to_bytes(arrays, metadata)
    return contents


def _digest(
    arrays: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str]
) -> str:
    """Return a text that depends on every byte of a file's contents."""
    found = hashlib.blake2b(digest_size=16)
    for key in sorted(metadata.keys() - {_DIGEST}):
        found.update(repr((key, metadata[key])).encode())
    for key in sorted(arrays):
        array = np.ascontiguousarray(arrays[key])
        found.update(repr((key, array.dtype.name, array.shape)).encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def load(
    variables: Sequence[Any],
    path: str,
    model_name: str,
    rule: fitting.Rule = fitting.WHOLE,
    data: bytes | None = None,
) -> None:
    """Read variables: by name, or where names differ, in order.

    Args:
        data: The file's contents; None: it is read.

    Raises:
        ValueError: It is damaged or does not fit; then nothing is changed.
    """
    arrays, order = _read(path, data)
    keys = _keys(variables)
    may_differ = order is not None and len(order) == len(keys) and not rule.by_name
    if set(keys) != set(arrays) and may_differ:
        assert order is not None
        arrays = {key: arrays[name] for key, name in zip(keys, order, strict=True)}
    wanted = dict(zip(keys, variables, strict=True))
    fitting.assign(fitting.fitted(wanted, arrays, path, model_name, rule))


class LoadStatus:
    """The result of ``load_weights``: all was loaded, or there was an error.

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


def _contents(
    path: str, data: bytes | None
) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, str]]:
    """Return all arrays of a file by name, and its metadata."""
    import json

    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    if data is None:
        with open(path, "rb") as file:
            data = file.read()
    try:
        arrays = from_bytes(data)
        size = int.from_bytes(data[:8], "little")
        about = json.loads(data[8 : 8 + size]).get("__metadata__") or {}
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    if _DIGEST in about and about[_DIGEST] != _digest(arrays, about):
        raise _damaged(path, "its digest is not that of its contents")
    return arrays, about


def _damaged(path: str, reason: str) -> ValueError:
    return ValueError(
        f"The file {path!r} is damaged or not a safetensors file; nothing was loaded "
        f"({reason})."
    )


def _order(path: str, about: Mapping[str, str], key: str, names: set[str]) -> list[str]:
    """Return the list of names under ``key`` of the metadata, which must be
    ``names``."""
    import json

    try:
        order = json.loads(about.get(key, "null"))
    except ValueError as error:
        raise _damaged(path, f"its {key!r} is not JSON: {error}") from error
    if not isinstance(order, list) or not all(isinstance(name, str) for name in order):
        raise _damaged(path, f"its {key!r} is not a list of names")
    if len(order) != len(names) or set(order) != names:
        raise _damaged(
            path, f"its list of names, {key!r}, does not agree with its contents"
        )
    return order


def read_about(
    path: str, data: bytes | None = None
) -> tuple[dict[str, str], list[np.ndarray[Any, Any]]]:
    """Read the metadata of a file and the optimizer's state in it.

    Args:
        data: The file's contents; None: it is read.

    Returns:
        The metadata, and the state's arrays in order.

    Raises:
        ValueError: It is damaged.
    """
    arrays, about = _contents(path, data)
    names = {key for key in arrays if key.startswith(_STATE)}
    if not names and "optimizer_order" not in about:
        return about, []
    return about, [arrays[key] for key in _order(path, about, "optimizer_order", names)]


def _read(
    path: str, data: bytes | None
) -> tuple[dict[str, np.ndarray[Any, Any]], list[str] | None]:
    """Return all arrays of a file, and the order of their names where the file says
    it."""
    arrays, about = _contents(path, data)
    arrays = {key: a for key, a in arrays.items() if not key.startswith(_STATE)}
    if about.get("format") != _FORMAT:
        return arrays, None
    return arrays, _order(path, about, "order", set(arrays))
