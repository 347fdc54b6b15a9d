# SPDX-License-Identifier: MIT
"""Data sets of files: records, lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ipu import _core
from ipu._errors import NotFoundError
from ipu.tf._strings import StringTensor
from ipu.tf.data import _packed
from ipu.tf.data._dataset import Dataset
from ipu.tf.data._flattening import by_turns
from ipu.tf.dtypes import string
from ipu.tf.io._files import path_of
from ipu.tf.io._records import checked_compression, records_of
from ipu.tf.tensor_spec import TensorSpec

__all__ = ["TFRecordDataset", "TextLineDataset"]

_Read = Callable[[str], Iterator[bytes]]


def TFRecordDataset(
    filenames: Any,
    compression_type: Any = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> Dataset:
    """Make elements of the records of files.

    Args:
        filenames: A name, a list of names, or a data set of names.
        compression_type: None or "" for none, "ZLIB" or "GZIP".
        buffer_size: Accepted for compatibility.
        num_parallel_reads: Files that records are taken from by turns; None or
            AUTOTUNE: one after the other.
        name: Ignored.

    Returns:
        A data set of strings, of unknown cardinality.

    Raises:
        ValueError: There is no such compression.
        ImportError: When it is read: the extra ``records`` is not installed.
        NotFoundError: When it is read: there is no such file.
        DataLossError: When it is read: a record is cut short or a checksum is wrong;
            says which one of which file.

    Source: ``tf.data.TFRecordDataset``. Example: :class:`ipu.tf.io.TFRecordWriter`.
    """
    del buffer_size, name
    compression = checked_compression(compression_type)
    cycle = 1 if num_parallel_reads in (None, -1) else int(num_parallel_reads or 1)
    return _read(filenames, lambda path: records_of(path, compression), cycle)


def TextLineDataset(
    filenames: Any,
    compression_type: Any = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> Dataset:
    """Make elements of the lines of files, without their ends.

    Args:
        filenames: A name, a list of names, or a data set of names.
        compression_type: None or "": files are read as they are.
        buffer_size: Accepted for compatibility.
        num_parallel_reads: As for :func:`TFRecordDataset`.
        name: Ignored.

    Returns:
        A data set of strings, of unknown cardinality.

    Raises:
        ValueError: Another compression is named.
        NotFoundError: When it is read: there is no such file.

    Source: ``tf.data.TextLineDataset``.

    Example:
        >>> import tempfile
        >>> path = tempfile.mktemp()
        >>> tf.io.write_file(path, "a\\nb")
        >>> [bytes(x) for x in TextLineDataset(path)]
        [b'a', b'b']
    """
    del buffer_size, name
    if checked_compression(compression_type):
        raise ValueError(
            "TextLineDataset reads files that are not compressed. "
            f"Received: compression_type={compression_type!r}."
        )
    cycle = 1 if num_parallel_reads in (None, -1) else int(num_parallel_reads or 1)
    return _read(filenames, _lines, cycle)


def _lines(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            for line in file:
                yield line.removesuffix(b"\n").removesuffix(b"\r")
    except OSError as error:
        raise NotFoundError(f"{path}; {error.strerror}") from error


def _read(filenames: Any, read: _Read, cycle: int) -> Dataset:
    spec = TensorSpec((), string)

    def paths() -> Iterator[str]:
        if isinstance(filenames, Dataset):
            yield from map(path_of, _packed.elements(filenames._impl, spec))
        else:
            yield from map(path_of, np.asarray(StringTensor(filenames)).ravel())

    def start() -> Iterator[tuple[np.ndarray[Any, Any], ...]]:
        for text in by_turns((read(path) for path in paths()), cycle, 1):
            yield (np.frombuffer(text, np.uint8),)

    if isinstance(filenames, Dataset) and filenames.element_spec != spec:
        raise TypeError(
            "The `filenames` argument must contain a scalar string for each file. "
            f"Received: a data set of {filenames.element_spec!r}."
        )
    if not isinstance(filenames, Dataset):
        StringTensor(filenames)
    return Dataset(_core.Dataset.generator((_packed.CORE,), start), spec)
