# SPDX-License-Identifier: MIT
"""``tf.io.gfile``: files of this computer under TensorFlow's names."""

from __future__ import annotations

import glob as _glob
import os
import shutil
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from ipu._text.errors import AlreadyExistsError, NotFoundError
from ipu._text.exports import defined


def GFile(name: Any, mode: str = "r") -> IO[Any]:
    """Open a file.

    Args:
        name: Its path.
        mode: As ``open``.

    Raises:
        NotFoundError: It does not exist.
    """
    try:
        encoding = None if "b" in mode else "utf-8"
        return open(name, mode, encoding=encoding)
    except FileNotFoundError as error:
        raise NotFoundError(f"{name}; No such file or directory") from error


Open = GFile


def exists(path: Any) -> bool:
    """Return whether there is a file or folder of that path."""
    return os.path.exists(path)


def isdir(path: Any) -> bool:
    """Return whether it is a folder."""
    return os.path.isdir(path)


def join(path: Any, *paths: Any) -> str:
    """Put paths together."""
    return str(os.path.join(path, *paths))


def glob(pattern: Any) -> list[str]:
    """Return the paths that match a pattern, or a list of them."""
    patterns = pattern if isinstance(pattern, (list, tuple)) else [pattern]
    return [path for one in patterns for path in sorted(_glob.glob(os.fspath(one)))]


def listdir(path: Any) -> list[str]:
    """Return the names in a folder.

    Raises:
        NotFoundError: There is no such folder.
    """
    if not os.path.isdir(path):
        raise NotFoundError(f"Could not find directory {path}")
    return os.listdir(path)


def walk(top: Any) -> Iterator[tuple[str, list[str], list[str]]]:
    """Return the folders below a folder, as ``os.walk``."""
    return os.walk(top)


def mkdir(path: Any) -> None:
    """Make one folder."""
    os.mkdir(path)


def makedirs(path: Any) -> None:
    """Make a folder and those above it; nothing where it exists."""
    os.makedirs(path, exist_ok=True)


def remove(path: Any) -> None:
    """Delete a file.

    Raises:
        NotFoundError: It does not exist.
    """
    try:
        os.remove(path)
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}; No such file or directory") from error


def rmtree(path: Any) -> None:
    """Delete a folder and all in it.

    Raises:
        NotFoundError: It does not exist.
    """
    try:
        shutil.rmtree(path)
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}; No such file or directory") from error


def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Copy a file.

    Raises:
        AlreadyExistsError: ``dst`` exists and ``overwrite`` is False.
    """
    if os.path.exists(dst) and not overwrite:
        raise AlreadyExistsError(f"file already exists: {dst}")
    shutil.copyfile(src, dst)


def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Rename a file.

    Raises:
        AlreadyExistsError: ``dst`` exists and ``overwrite`` is False.
    """
    if os.path.exists(dst) and not overwrite:
        raise AlreadyExistsError(f"file already exists: {dst}")
    os.replace(src, dst)


def stat(path: Any) -> os.stat_result:
    """Return what the system knows about a file; its size is ``st_size``."""
    return os.stat(path)


FastGFile = GFile
Copy, Rename, Remove, DeleteRecursively = copy, rename, remove, rmtree
Exists, IsDirectory, Glob, ListDirectory = exists, isdir, glob, listdir
MakeDirs, MkDir, Stat, Walk = makedirs, mkdir, stat, walk


if not TYPE_CHECKING:
    __all__ = defined(__name__)
