# SPDX-License-Identifier: MIT
"""Where a model's file is, and what its format is."""

from __future__ import annotations

import atexit
import contextlib
import enum
import functools
import os
import time
from collections.abc import Iterator
from typing import Any

_SUFFIX = ".safetensors"
# what h5py raises, and what reads its objects
_DAMAGES = (OSError, RuntimeError, LookupError, TypeError, AttributeError, ValueError)
_END_SECONDS = 10.0  # in which a call of HDF5 ends, unless nobody is in it any more
_FOREIGN = (".npz", ".pt", ".pth", ".tf", ".ckpt", ".onnx", ".pb")


class Format(enum.Enum):
    """The formats of files, under the names that people use."""

    OWN = ".safetensors"
    KERAS_2 = ".h5"
    KERAS_3_WEIGHTS = ".weights.h5"
    KERAS_3 = ".keras"


_OF_SAVE_FORMAT = {
    "safetensors": Format.OWN,
    "h5": Format.KERAS_2,
    "hdf5": Format.KERAS_2,
    "keras": Format.KERAS_3,
}


def format_of(
    filepath: str | os.PathLike[str], save_format: str | None = None
) -> tuple[str, Format]:
    """Return the whole path, and the format that its suffix stands for.

    Args:
        filepath: The user's path; ``.safetensors`` is added where there is no
            suffix of a format.
        save_format: ``"safetensors"``, ``"h5"`` or ``"keras"``; None leaves it to the
            suffix.
    """
    if not isinstance(filepath, (str, os.PathLike)):
        raise TypeError(
            "A model is saved under a path. Received: "
            f"filepath={filepath!r} ({type(filepath).__name__})."
        )
    path = os.fspath(filepath)
    if save_format is not None:
        if save_format not in _OF_SAVE_FORMAT:
            raise ValueError(
                f"`save_format` is one of {sorted(_OF_SAVE_FORMAT)}, or left to the "
                f"path's suffix. Received: save_format={save_format!r}."
            )
        return path, _OF_SAVE_FORMAT[save_format]
    name = path.lower()
    if name.endswith(_SUFFIX):
        return path, Format.OWN
    if name.endswith(".weights.h5"):
        return path, Format.KERAS_3_WEIGHTS
    if name.endswith((".h5", ".hdf5")):
        return path, Format.KERAS_2
    if name.endswith(".keras"):
        return path, Format.KERAS_3
    if name.endswith(_FOREIGN):
        raise ValueError(
            "Models and weights are kept in .safetensors, .h5 and .weights.h5 files, "
            f"and models in .keras files. Received: {path!r}. Use a path that ends in "
            f"{_SUFFIX}."
        )
    return path + _SUFFIX, Format.OWN


def prepare(
    filepath: str | os.PathLike[str], is_whole: bool, save_format: str | None = None
) -> tuple[str, Format]:
    """Find out all that is wrong with a path before there is anything to write.

    The folder is made.
    """
    path, kind = format_of(filepath, save_format)
    if is_whole and kind is Format.KERAS_3_WEIGHTS:
        raise ValueError(
            f"A .weights.h5 file holds weights alone. Received: {path!r}. Save the "
            "model to a path that ends in .keras, .h5 or .safetensors, or call "
            "save_weights()."
        )
    if not is_whole and kind is Format.KERAS_3:
        raise ValueError(
            f"A .keras file holds a whole model. Received: {path!r}. Save weights to a "
            "path that ends in .weights.h5 or .safetensors, or call save()."
        )
    if kind is not Format.OWN:
        h5py(path)
    if os.path.isdir(path):
        raise IsADirectoryError(
            f"There is a folder {path!r} where a file is to be written."
        )
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    return path, kind


def check_free(path: str, overwrite: bool) -> None:
    """Refuse to replace a file where the user said so."""
    if not overwrite and os.path.exists(path):
        raise FileExistsError(
            f"There is a file {path!r} already. Pass overwrite=True to replace it."
        )


def sniff(path: str, kind: Format) -> Format:
    """Return the format of a file that is there, by its first bytes."""
    with open(path, "rb") as file:
        start = file.read(8)
    if start.startswith(b"PK\x03\x04"):
        return Format.KERAS_3
    if start == b"\x89HDF\r\n\x1a\n":
        with opened(path, "an HDF5 file") as file:
            is_old = "layer_names" in file.attrs or "model_weights" in file
        return Format.KERAS_2 if is_old else Format.KERAS_3_WEIGHTS
    if kind is not Format.OWN:
        raise ValueError(
            f"The file {path!r} is damaged or not a {kind.value} file; nothing was "
            "loaded."
        )
    return kind


def h5py(path: str) -> Any:
    """Return the module."""
    try:
        import h5py as module
    except ImportError:
        raise ImportError(
            f"The file {path!r} needs the package h5py, which is not installed: "
            "pip install 'ipu[h5]'. Or use a path that ends in .safetensors."
        ) from None
    _end_with(module)
    return module


@functools.cache
def _end_with(module: Any) -> None:
    """Let the interpreter end when no other thread is in HDF5.

    A thread that ends with the interpreter keeps h5py's lock, for which whatever
    closes a file then would wait for ever.
    """

    @atexit.register
    def wait() -> None:
        lock = module._objects.phil
        end = time.monotonic() + _END_SECONDS
        while not lock.acquire(blocking=False) and time.monotonic() < end:
            time.sleep(0.001)


@contextlib.contextmanager
def opened(path: str, kind: str, source: Any = None) -> Iterator[Any]:
    """Open an HDF5 file; whatever is wrong in it while it is read says so.

    Args:
        path: The user's path, for errors.
        kind: What it should be, as in "an HDF5 file".
        source: Where its bytes are, or they themselves; None: at the path.
    """
    module = h5py(path)
    place = path if source is None else source
    try:
        # not as an object of Python: HDF5 would close it when Python has ended
        if isinstance(place, bytes):
            place = module.h5f.open_file_image(place)
        # a file that is whole may still be locked by who has just written it
        with module.File(place, "r", locking=False) as file:
            yield file
    except _DAMAGES as error:
        raise damaged(path, kind, error) from None


def damaged(path: str, kind: str, reason: object) -> Exception:
    """Return the error of a file that cannot be read: of one that somebody removed
    meanwhile, the system's."""
    if isinstance(reason, FileNotFoundError):
        return reason
    return ValueError(
        f"The file {path!r} is damaged or not {kind}; nothing was loaded ({reason})."
    )
