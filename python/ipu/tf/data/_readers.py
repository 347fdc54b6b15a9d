# SPDX-License-Identifier: MIT
"""Data sets of files: records, lines, pieces of one length."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from ipu import _core
from ipu._text.errors import DataLossError, InvalidArgumentError, NotFoundError
from ipu.tf._string_ops.tensors import StringTensor, path_of
from ipu.tf.data import _packed
from ipu.tf.data._dataset import Dataset
from ipu.tf.data._made_by import noted
from ipu.tf.data._turns import ByTurns
from ipu.tf.dtypes import string
from ipu.tf.io._records import checked_compression, records_of
from ipu.tf.tensor_spec import TensorSpec

_Read = Callable[[str], Iterator[bytes]]


@noted
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

    Returns:
        A data set of strings, of unknown cardinality.

    Raises:
        ValueError: There is no such compression.
        ImportError: When it is read: the extra ``records`` is not installed.
        NotFoundError: When it is read: there is no such file.
        DataLossError: When it is read: a record is cut short or a checksum is wrong;
            says which one of which file.

    Example:
        >>> import tempfile
        >>> path = tempfile.mktemp()
        >>> with tf.io.TFRecordWriter(path) as writer:
        ...     writer.write(b"a")
        >>> [bytes(x) for x in TFRecordDataset(path)]
        [b'a']
    """
    compression = checked_compression(compression_type)
    cycle = 1 if num_parallel_reads in (None, -1) else int(num_parallel_reads or 1)
    return _read(filenames, lambda path: records_of(path, compression), cycle)


@noted
def TextLineDataset(
    filenames: Any,
    compression_type: Any = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> Dataset:
    """Make elements of the lines of files, without their ends.

    Args:
        filenames, compression_type, buffer_size: As for :func:`TFRecordDataset`.
        num_parallel_reads: As for :func:`TFRecordDataset`.

    Returns:
        A data set of strings, of unknown cardinality.

    Raises:
        ValueError: There is no such compression.
        NotFoundError: When it is read: there is no such file.

    Example:
        >>> import tempfile
        >>> path = tempfile.mktemp()
        >>> tf.io.write_file(path, "a\\nb")
        >>> [bytes(x) for x in TextLineDataset(path)]
        [b'a', b'b']
    """
    compression = checked_compression(compression_type)
    cycle = 1 if num_parallel_reads in (None, -1) else int(num_parallel_reads or 1)
    return _read(filenames, lambda path: _lines(path, compression), cycle)


def _lines(path: str, compression: str) -> Iterator[bytes]:
    with opened(path, compression) as file:
        for line in file:
            yield line.removesuffix(b"\n").removesuffix(b"\r")


@noted
def FixedLengthRecordDataset(
    filenames: Any,
    record_bytes: int,
    header_bytes: int | None = None,
    footer_bytes: int | None = None,
    buffer_size: int | None = None,
    compression_type: Any = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> Dataset:
    """Make elements of the pieces of files, of one length.

    Args:
        filenames: A name, a list of names, or a data set of names.
        record_bytes: The length of a piece.
        header_bytes: Bytes at the beginning of a file that are left out.
        footer_bytes: Bytes at its end that are left out.
        buffer_size: Accepted for compatibility.
        compression_type: None or "" for none, "ZLIB" or "GZIP".
        num_parallel_reads: As for :func:`TFRecordDataset`.

    Returns:
        A data set of strings, of unknown cardinality; ``tf.io.decode_raw`` makes
        numbers of them.

    Raises:
        ValueError: There is no such compression, or ``record_bytes`` is less than 1.
        NotFoundError: When it is read: there is no such file.
        InvalidArgumentError: When it is read: a file is not a multiple of pieces.

    Example:
        >>> import tempfile
        >>> path = tempfile.mktemp()
        >>> tf.io.write_file(path, "aabbcc.")
        >>> [bytes(x) for x in FixedLengthRecordDataset(path, 2, footer_bytes=1)]
        [b'aa', b'bb', b'cc']
    """
    compression = checked_compression(compression_type)
    size, head, foot = int(record_bytes), int(header_bytes or 0), int(footer_bytes or 0)
    if size < 1 or head < 0 or foot < 0:
        raise ValueError(
            "`record_bytes` must be at least 1, and the others at least 0. Received: "
            f"record_bytes={record_bytes!r}, header_bytes={header_bytes!r}, "
            f"footer_bytes={footer_bytes!r}."
        )
    cycle = 1 if num_parallel_reads in (None, -1) else int(num_parallel_reads or 1)
    return _read(
        filenames, lambda path: _pieces(path, compression, size, head, foot), cycle
    )


def _pieces(
    path: str, compression: str, size: int, head: int, foot: int
) -> Iterator[bytes]:
    with opened(path, compression) as file:
        begin = file.read(head)
        data = file.read(size + foot)
        while len(data) >= size + foot:
            yield data[:size]
            data = data[size:] + file.read(size)
        if len(begin) < head or len(data) != foot:
            raise InvalidArgumentError(
                f"{path} is not a header of {head} bytes, pieces of {size} and a "
                f"footer of {foot}: {max(len(data) - foot, 0)} bytes are left."
            )


@contextmanager
def opened(path: str, compression: str) -> Iterator[IO[bytes]]:
    """Open a file to read bytes from.

    Args:
        compression: "ZLIB", "GZIP" or "".

    Raises:
        NotFoundError: There is no such file.
        DataLossError: It is not compressed so, or damaged.
    """
    try:
        if compression == "GZIP":
            file: Any = gzip.open(path, "rb")  # noqa: SIM115
        elif compression == "ZLIB":
            with open(path, "rb") as whole:
                file = io.BytesIO(zlib.decompress(whole.read()))
        else:
            file = open(path, "rb")  # noqa: SIM115
        with file:
            yield file
    except (zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise DataLossError(f"{path} is not a {compression} file: {error}.") from error
    except OSError as error:
        raise NotFoundError(f"{path}; {error.strerror}") from error


def paths_of(filenames: Any) -> Callable[[], Iterator[str]]:
    """Return the function that gives the names of files.

    Args:
        filenames: A name, a list of names, or a data set of names.

    Raises:
        TypeError: It is anything else.
    """
    spec = TensorSpec((), string)
    if not isinstance(filenames, Dataset):
        names = np.asarray(StringTensor(filenames)).ravel()
        return lambda: map(path_of, names)
    if filenames.element_spec != spec:
        raise TypeError(
            "The `filenames` argument must contain a scalar string for each file. "
            f"Received: a data set of {filenames.element_spec!r}."
        )
    return lambda: map(path_of, _packed.elements(filenames._impl, spec))


def _read(filenames: Any, read: _Read, cycle: int) -> Dataset:
    names = paths_of(filenames)

    def packed(text: bytes) -> tuple[np.ndarray[Any, Any], ...]:
        return (np.frombuffer(text, np.uint8),)

    def start() -> Iterator[tuple[np.ndarray[Any, Any], ...]]:
        return map(packed, ByTurns(map(read, names()), cycle, 1))

    spec = TensorSpec((), string)
    return Dataset(_core.Dataset.generator((_packed.CORE,), start), spec)
