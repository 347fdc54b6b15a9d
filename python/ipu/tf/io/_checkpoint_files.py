# SPDX-License-Identifier: MIT
"""The files of checkpoints: ``<path>.safetensors``, as version 1's savers have them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ipu._files.whole import write_whole
from ipu._text.errors import DataLossError, NotFoundError

SUFFIX = ".safetensors"
INDEX = "checkpoint"  # the file that says which one of a folder was written last


def without_suffix(path: str | os.PathLike[str]) -> str:
    """Return a path as users of checkpoints have it.

    Args:
        path: A path, with or without the suffix of the file.
    """
    return os.fspath(path).removesuffix(SUFFIX)


def write(
    path: str, arrays: Mapping[str, np.ndarray[Any, Any]], about: dict[str, str]
) -> None:
    """Write a file, whole or not at all; its folder is made.

    Args:
        path: The path without the suffix.
        arrays: The values by name.
        about: The metadata.
    """
    from safetensors.numpy import save

    contents = save({key: np.asarray(a, order="C") for key, a in arrays.items()}, about)
    file = Path(path + SUFFIX)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(str(file), contents)


def read(path: str) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, str]]:
    """Read a file.

    Args:
        path: The path without the suffix.

    Returns:
        The values by name, in the order of names, and the metadata.

    Raises:
        NotFoundError: There is no such file.
        DataLossError: It is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    file = Path(path + SUFFIX)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        text = f"There is no checkpoint {path!r}: no file {str(file)!r}."
        if Path(path + ".index").exists():
            text += (
                " Files of TensorFlow itself cannot be read. Write the weights there "
                "with model.save_weights('name.weights.h5'), and load that."
            )
        elif Path(path).is_dir():
            text += " It is a folder: give tf.train.latest_checkpoint(folder)."
        raise NotFoundError(text) from None
    try:
        arrays = dict(sorted(load(data).items()))  # they come in any order
        size = int.from_bytes(data[:8], "little")
        about = json.loads(data[8 : 8 + size]).get("__metadata__") or {}
    except (SafetensorError, ValueError) as error:
        raise DataLossError(f"The checkpoint {file} is damaged ({error}).") from None
    return arrays, about


def note_last(path: str, index: str | None = None) -> None:
    """Note that a path was the last one written in its folder.

    Args:
        path: The path without the suffix.
        index: The name of the file that says so; None: ``checkpoint``.
    """
    noted = Path(path).with_name(index or INDEX)
    write_whole(str(noted), Path(path).name.encode())


def latest_checkpoint(
    checkpoint_dir: str | os.PathLike[str], latest_filename: str | None = None
) -> str | None:
    """Return the path that was written last in a folder, or None.

    Args:
        checkpoint_dir: The folder.
        latest_filename: The name of the file that says so; None: ``checkpoint``.

    Example:
        >>> print(tf.train.latest_checkpoint("/no/such/folder"))
        None
    """
    index = Path(checkpoint_dir) / (latest_filename or INDEX)
    if not index.exists():
        return None
    path = str(Path(checkpoint_dir) / index.read_text(encoding="utf-8").strip())
    return path if Path(path + SUFFIX).exists() else None


def list_variables(ckpt_dir_or_file: str | os.PathLike[str]) -> list[tuple[str, Any]]:
    """List names and shapes of what is in a checkpoint.

    Args:
        ckpt_dir_or_file: Its path, or a folder, whose last one is taken.

    Raises:
        NotFoundError: There is none.

    Example:
        >>> path = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).write("of_two")
        >>> tf.train.list_variables(path)
        [('v', [2])]
    """
    arrays, _ = read(_path_of(ckpt_dir_or_file))
    return [(name, list(arrays[name].shape)) for name in arrays]


def load_variable(ckpt_dir_or_file: str | os.PathLike[str], name: str) -> Any:
    """Return a value of a checkpoint, an array.

    Args:
        ckpt_dir_or_file: Its path, or a folder, whose last one is taken.
        name: One of :func:`list_variables`.

    Raises:
        NotFoundError: There is no such checkpoint, or no such name in it.

    Example:
        >>> path = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).write("of_two")
        >>> tf.train.load_variable(path, "v").tolist()
        [1.0, 2.0]
    """
    arrays, _ = read(_path_of(ckpt_dir_or_file))
    if name not in arrays:
        raise NotFoundError(
            f"Key {name} not found in checkpoint. It has: {', '.join(sorted(arrays))}."
        )
    return arrays[name]


def _path_of(folder_or_file: str | os.PathLike[str]) -> str:
    path = without_suffix(folder_or_file)
    return (latest_checkpoint(path) if Path(path).is_dir() else None) or path


def numbered(folder: str, name: str) -> list[str]:
    """List the paths of a folder whose names are ``<name>-<number>``, by their ages.

    Args:
        folder: The folder, which need not exist.
        name: The text before the numbers.
    """
    pattern = re.compile(re.escape(name) + r"-\d+" + re.escape(SUFFIX))
    found = [file for file in Path(folder).glob("*") if pattern.fullmatch(file.name)]
    found.sort(key=lambda file: (written_at(file), file.name))
    return [os.path.join(folder, file.name.removesuffix(SUFFIX)) for file in found]


def written_at(file: Path) -> int:
    """Return when a file was written, in nanoseconds; 0: somebody has deleted it.

    Args:
        file: The file's path.
    """
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def age(path: str) -> float:
    """Return when a checkpoint was written, in seconds; 0: somebody has deleted it.

    Args:
        path: The path without the suffix.
    """
    return written_at(Path(path + SUFFIX)) / 1e9


def delete(path: str) -> None:
    """Delete a file, if it is there.

    Args:
        path: The path without the suffix.
    """
    Path(path + SUFFIX).unlink(missing_ok=True)
