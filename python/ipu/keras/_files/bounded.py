# SPDX-License-Identifier: MIT
"""Parts of files that others made: read, unless they unpack to far more than they are.

A few kilobytes of a file can stand for gigabytes of zeros. What is large, and more than
a hundred times the bytes that are stored, is refused before memory is taken for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from zipfile import ZipFile

    from ipu.keras._files.fitting import Array

LARGE = 1 << 28  # bytes
MOST_TIMES = 100


def _check(name: str, size: int, stored: int) -> None:
    if size > LARGE and size > MOST_TIMES * stored:
        raise ValueError(f"{name} unpacks to {size:,} bytes, of {stored:,} in the file")


def check_member(archive: ZipFile, name: str) -> None:
    """Refuse a member that unpacks to far more bytes than the archive has of it.

    Raises:
        KeyError: There is none of this name.
        ValueError: It does.
    """
    info = archive.getinfo(name)
    _check(name, info.file_size, info.compress_size)


def member(archive: ZipFile, name: str) -> bytes:
    """Read a member of an archive, which :func:`check_member` has looked at."""
    check_member(archive, name)
    return archive.read(name)


def dataset(item: Any) -> Array:
    """Read the values of a data set of an HDF5 file.

    Raises:
        ValueError: It has far more values than the file has bytes of it.
    """
    _check(item.name, item.size * item.dtype.itemsize, item.id.get_storage_size())
    return np.asarray(item[()])
