# SPDX-License-Identifier: MIT
"""Files of records: length, checksum, data, checksum, again and again.

    uint64 length | uint32 masked CRC-32C of the length | data | uint32 the same of data

Numbers are little-endian. The format is that of TensorFlow's
``lib/io/record_writer.h``; the checksum is Castagnoli's (RFC 3720), turned by 15 bits
and moved, as there.
"""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Iterator
from typing import IO, Any

from ipu._text.errors import DataLossError, NotFoundError
from ipu._text.suggestions import refuse_unknown
from ipu.tf._string_ops.tensors import path_of, to_bytes
from ipu.tf._tensor.extras import extra

_LENGTH = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_MASK = 0xA282EAD8
_PIECE = 1 << 16
_COMPRESSIONS = ("", "ZLIB", "GZIP")


def _checksum(what: str) -> Any:
    value = extra("google_crc32c", what, "records", "google-crc32c").value

    def masked(data: bytes) -> int:
        crc: int = value(data)
        return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF

    return masked


def checked_compression(compression: Any) -> str:
    """Return the name of a compression: "", "ZLIB" or "GZIP".

    Raises:
        ValueError: There is no such compression.
    """
    name = "" if compression is None else to_bytes(compression).decode()
    if name not in _COMPRESSIONS:
        raise ValueError(
            f"compression_type must be '', 'ZLIB' or 'GZIP'. Received: {name!r}."
        )
    return name


# --- reading --------------------------------------------------------------------------


class _Inflated(io.RawIOBase):
    """A file of zlib's format: no more is inflated than there is room for."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb")  # noqa: SIM115
        self._stream = zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data, packed = b"", b"more"
        while not data and packed and not self._stream.eof:
            packed = self._stream.unconsumed_tail or self._file.read(_PIECE)
            data = self._stream.decompress(packed, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _opened(path: str, compression: str) -> Any:
    try:
        if compression == "ZLIB":
            return io.BufferedReader(_Inflated(path), _PIECE)
        return gzip.open(path) if compression else open(path, "rb")
    except OSError as error:
        raise NotFoundError(f"{path}; {error.strerror}") from error


def records_of(path: str, compression: str) -> Iterator[bytes]:
    """Yield the records of a file.

    Args:
        compression: "", "ZLIB" or "GZIP".

    Raises:
        NotFoundError: There is no such file.
        DataLossError: It ends within a record, or a checksum is wrong.
    """
    masked = _checksum("TFRecordDataset")
    file = _opened(path, compression)
    number = 0

    def fail(why: str) -> DataLossError:
        return DataLossError(f"record {number} of {path}: {why}")

    def take(count: int, what: str) -> bytes:
        try:
            data: bytes = file.read(count)
        except (EOFError, OSError, zlib.error) as error:
            raise fail(f"{what} cannot be decompressed ({error})") from error
        if 0 < len(data) < count:
            raise fail(f"truncated: {len(data)} of {count} bytes of {what} are there")
        return data

    try:
        while head := take(_LENGTH.size, "its length"):
            length, crc = _LENGTH.unpack(head)
            if masked(head[:8]) != crc:
                raise fail(
                    "corrupted: the checksum of its length is wrong. Is this a file of "
                    "records, and is compression_type right?"
                )
            data = take(length, "its data")
            tail = take(_CHECKSUM.size, "its checksum")
            if len(data) < length or not tail:
                raise fail(f"truncated: the file ends within its {length} bytes")
            if masked(data) != _CHECKSUM.unpack(tail)[0]:
                raise fail("corrupted: the checksum of its data is wrong")
            yield data
            number += 1
    finally:
        file.close()


# --- writing --------------------------------------------------------------------------


_OPTIONS = frozenset(
    """
    compression_method compression_strategy flush_mode input_buffer_size mem_level
    output_buffer_size window_bits
    """.split()
)


class TFRecordOptions:
    """The compression of a file of records.

    Args:
        compression_type: "", "ZLIB" or "GZIP".
        compression_level: From 0 to 9; None: the library's default.
        **kwargs: Buffer sizes and window bits: accepted and not used.

    Example:
        >>> tf.io.TFRecordOptions(compression_type="GZIP").compression_type
        'GZIP'
    """

    def __init__(
        self,
        compression_type: Any = None,
        compression_level: int | None = None,
        **kwargs: Any,
    ) -> None:
        others = (
            "flush_mode",
            "input_buffer_size",
            "output_buffer_size",
            "window_bits",
            "compression_method",
            "compression_strategy",
            "mem_level",
        )
        refuse_unknown("TFRecordOptions", kwargs, others)
        self.compression_type = checked_compression(compression_type)
        self.compression_level = compression_level


class _Deflated:
    """A file of zlib's format that is written."""

    def __init__(self, path: str, level: int) -> None:
        self._file = open(path, "wb")  # noqa: SIM115
        self._stream = zlib.compressobj(level)

    def write(self, data: bytes) -> None:
        self._file.write(self._stream.compress(data))

    def flush(self) -> None:
        self._file.write(self._stream.flush(zlib.Z_SYNC_FLUSH))
        self._file.flush()

    def close(self) -> None:
        self._file.write(self._stream.flush())
        self._file.close()


class TFRecordWriter:
    """Write a file of records; a context manager.

    Args:
        path: The file, written anew.
        options: A :class:`TFRecordOptions`, or the name of a compression.

    Raises:
        ImportError: The extra ``records`` is not installed.

    Example:
        >>> import tempfile
        >>> path = tempfile.mktemp()
        >>> with TFRecordWriter(path) as writer:
        ...     writer.write(b"first")
        >>> [bytes(x) for x in tf.data.TFRecordDataset(path)]
        [b'first']
    """

    def __init__(self, path: Any, options: Any = None) -> None:
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(options)
        self._masked = _checksum("TFRecordWriter")
        name = path_of(path)
        level = options.compression_level
        self._file: IO[bytes] | Any
        if options.compression_type == "ZLIB":
            self._file = _Deflated(name, -1 if level is None else level)
        elif options.compression_type == "GZIP":
            self._file = gzip.open(name, "wb", 9 if level is None else level)  # noqa: SIM115
        else:
            self._file = open(name, "wb")  # noqa: SIM115
        self._is_open = True

    def write(self, record: Any) -> None:
        """Append a record.

        Args:
            record: Its bytes.
        """
        data = to_bytes(record)
        length = struct.pack("<Q", len(data))
        self._file.write(length + _CHECKSUM.pack(self._masked(length)))
        self._file.write(data + _CHECKSUM.pack(self._masked(data)))

    def flush(self) -> None:
        """Hand what was written to the system."""
        self._file.flush()

    def close(self) -> None:
        """End the file; again: nothing."""
        if self._is_open:
            self._is_open = False
            self._file.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
