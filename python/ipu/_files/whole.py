# SPDX-License-Identifier: MIT
"""Files that appear whole or not at all, and leave nothing behind.

A file is written under another name in its folder, and renamed. Who writes it holds a
lock on it, which ends with the process: so the next one that writes the same file
removes what killed processes have left, and nothing that is still being written.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from typing import BinaryIO, cast


def start_beside(path: str) -> BinaryIO:
    """Open the file that will take the place of another one: :func:`finish` it."""
    forget_partial(path)
    folder, name = os.path.split(os.path.abspath(path))
    while True:
        partial = os.path.join(folder, f".{name}-{os.urandom(6).hex()}.tmp")
        file = open(partial, "x+b", buffering=0)  # noqa: SIM115
        is_mine = True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_mine = False
        except OSError:
            pass  # not every file system has locks
        if is_mine and os.fstat(file.fileno()).st_nlink:
            return cast("BinaryIO", file)
        file.close()  # somebody has just taken it for a left one, and removes it


def finish(file: BinaryIO, path: str) -> None:
    """Put a file in its place; the disk keeps it."""
    os.fsync(file.fileno())
    os.replace(file.name, path)
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)  # who reads it may want one, as HDF5 does
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def written_beside(path: str) -> Iterator[str]:
    """Yield a path beside ``path`` to write to; it takes its place when all went well.

    Nothing is left behind after an error.

    Raises:
        OSError: It cannot be written; then what was there before is there still.
    """
    with start_beside(path) as file:
        try:
            yield file.name
            finish(file, path)
        except BaseException as error:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file.name)
            if isinstance(error, OSError) and error.filename is None:
                what = (
                    f"{error.strerror or error}; what was there before is there still"
                )
                raise type(error)(error.errno, what, path) from None
            raise


def write_whole(path: str, content: bytes) -> None:
    """Write a file, whole or not at all."""
    with written_beside(path) as target:
        write(target, content)


def write(path: str, content: bytes) -> None:
    """Write a file."""
    with open(path, "wb") as file:
        file.write(content)


def forget_partial(path: str) -> None:
    """Remove what processes that were killed have left of a file."""
    folder, name = os.path.split(os.path.abspath(path))
    partial = re.compile(rf"\.{re.escape(name)}-[0-9a-f]{{12}}\.tmp")
    for found in filter(partial.fullmatch, os.listdir(folder)):
        left = os.path.join(folder, found)
        # somebody writes it, or has removed it, or there are no locks
        with contextlib.suppress(OSError), open(left, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(left)
