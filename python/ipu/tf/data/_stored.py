# SPDX-License-Identifier: MIT
"""Elements in files: what ``save`` and ``cache(filename)`` write.

A file is a header and rows. The header is ``IPUROWS1``, a length and so many bytes of
JSON: the types of the leaves, and the fingerprint of what made them. A row is the byte
1 and its leaves; the byte 0 ends the file, so that one that was cut short is seen. A
leaf is its number of axes, its sizes and its bytes; one of strings has their lengths
before them:

    1 | axes u8 | sizes i64 ... | bytes                       numbers
    1 | axes u8 | sizes i64 ... | lengths i64 ... | bytes     strings

All numbers are little-endian. Nothing in a file is code.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import struct
import zlib
from collections.abc import Iterator
from typing import IO, Any, BinaryIO

import numpy as np

from ipu._files.whole import finish, start_beside
from ipu._text.errors import DataLossError, FailedPreconditionError, NotFoundError
from ipu.tf import nest
from ipu.tf._string_ops.tensors import StringTensor
from ipu.tf._tensor.composite_specs import CompositeSpec
from ipu.tf.data import _packed, _structure
from ipu.tf.dtypes import string
from ipu.tf.tensor_spec import TensorSpec

_MAGIC = b"IPUROWS1"
_PIECE = 1 << 24
_WAITING = 1 << 16
# what reading raises where anything may be in a file
_DAMAGES = (
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    OverflowError,
    TypeError,
    ValueError,
    struct.error,
)
_Arrays = tuple["np.ndarray[Any, Any]", ...]


def described(structure: Any) -> Any:
    """Return the structure of elements as plain data.

    Raises:
        TypeError: There are data sets in it.
    """
    if _structure.is_container(structure):
        if isinstance(structure, dict):
            items = sorted(structure.items())
            return {"dict": [[key, described(item)] for key, item in items]}
        return {"tuple": [described(item) for item in structure]}
    if isinstance(structure, _packed.DatasetSpec):
        raise TypeError(
            "Elements that are data sets cannot be stored. Turn each into tensors "
            f"first, with flat_map. Received: {structure!r}."
        )
    if isinstance(structure, CompositeSpec) and _packed.is_packed(structure):
        raise TypeError(
            "Elements that are ragged or sparse tensors cannot be stored. Turn each "
            "into dense tensors first, with to_tensor() or tf.sparse.to_dense. "
            f"Received: {structure!r}."
        )
    shape = None if structure.shape is None else list(structure.shape)
    return {"dtype": structure.dtype.name, "shape": shape}


def spec_from(described: Any) -> Any:
    """Return the structure that :func:`described` gave as plain data."""
    if "dict" in described:
        return {key: spec_from(item) for key, item in described["dict"]}
    if "tuple" in described:
        return tuple(spec_from(item) for item in described["tuple"])
    dtype, shape = described["dtype"], described["shape"]
    if shape is None:
        return _structure.UnknownShapeSpec(dtype)
    return TensorSpec(shape, dtype)


def _open(path: str, compression: str | None) -> IO[bytes]:
    if compression == "GZIP":
        import gzip  # slow to import

        return gzip.open(path)  # type: ignore[return-value]
    return open(path, "rb")


class Written(Iterator[_Arrays]):
    """Elements that are written as they are handed on.

    The file appears under its name with the end of the elements; where nobody reads so
    far there is none. An element that fails is not written.

    Args:
        rows: The elements as the core has them.
        compression: "GZIP" or None.
        pipeline: The fingerprint of what makes them, or None.
    """

    def __init__(
        self,
        path: str,
        structure: Any,
        rows: Iterator[_Arrays],
        compression: str | None = None,
        pipeline: str | None = None,
    ) -> None:
        import json

        self._path, self._rows = path, rows
        self._specs = nest.flatten(structure)
        self._owner = os.getpid()
        self._pack = zlib.compressobj(wbits=31) if compression == "GZIP" else None
        self._waiting = bytearray()  # no buffer of the file's: a fork would write twice
        self._file: BinaryIO | None = start_beside(path)
        about = {"elements": described(structure), "pipeline": pipeline}
        header = json.dumps(about).encode()
        self._write(_MAGIC + struct.pack("<q", len(header)) + header)

    def __next__(self) -> _Arrays:
        row = next(self._rows, None)
        if os.getpid() != self._owner:  # a child: the file is its parent's
            self.close()
        if row is None:
            if self._file is not None:
                self._write(b"\x00", is_last=True)
                with self._file as file:
                    finish(file, self._path)
                self._file = None
            raise StopIteration
        if self._file is not None:
            leaves = zip(self._specs, row, strict=True)
            self._write(b"\x01", *itertools.starmap(_leaf_bytes, leaves))
        return row

    def _write(self, *parts: bytes, is_last: bool = False) -> None:
        assert self._file is not None
        try:
            data = b"".join(parts)
            if self._pack is not None:
                data = self._pack.compress(data) + (
                    self._pack.flush() if is_last else b""
                )
            self._waiting += data
            while self._waiting and (is_last or len(self._waiting) >= _WAITING):
                del self._waiting[: self._file.write(self._waiting)]
        except BaseException:  # what follows half an element would not be found
            self.close()
            raise

    def close(self) -> None:
        """Remove the file, unless it is complete."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
            with contextlib.suppress(OSError):
                if os.getpid() == self._owner:
                    os.remove(file.name)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()


def _leaf_bytes(spec: Any, array: np.ndarray[Any, Any]) -> bytes:
    texts: list[bytes] = []
    if spec.dtype == string:
        if spec.shape == ():
            value = np.array(array.tobytes(), object)
        else:
            value = np.asarray(_packed.unpack(spec, _Bytes(array)))
        texts = value.ravel().tolist()
        shape: tuple[int, ...] = value.shape
    else:
        shape = array.shape
    sizes = struct.pack(f"<B{len(shape)}q", len(shape), *shape)
    if spec.dtype != string:
        return sizes + np.ascontiguousarray(array).tobytes()
    return b"".join([sizes, struct.pack(f"<{len(texts)}q", *map(len, texts)), *texts])


class _Bytes:
    """What :func:`_packed.unpack` takes: something with the array of a leaf."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def numpy(self) -> np.ndarray[Any, Any]:
        return self._array


def read_rows(
    path: str,
    structure: Any = None,
    compression: str | None = None,
    pipeline: str | None = None,
) -> Iterator[_Arrays]:
    """Yield the elements of a file, as the core has them.

    Args:
        structure: Of the elements; None: as the file says.
        compression: "GZIP" or None.
        pipeline: The fingerprint of what made them; None: whatever it was.

    Raises:
        FailedPreconditionError: Another pipeline made them.
        NotFoundError: There is no such file.
        DataLossError: It is damaged, or has other elements.
    """
    import json

    try:
        file = _open(path, compression)
    except OSError as error:
        raise NotFoundError(f"{path}; {error.strerror}") from error
    with file:
        try:
            if _exactly(file, len(_MAGIC)) != _MAGIC:
                raise ValueError("it does not begin as such a file does")
            (size,) = struct.unpack("<q", _exactly(file, 8))
            about = json.loads(_exactly(file, size))
            stored = about.get("elements", about)
            if pipeline is not None and about.get("pipeline") != pipeline:
                raise FailedPreconditionError(
                    f"{path} keeps the elements of another pipeline: a transformation, "
                    "a function or the data before cache() has changed since. Remove "
                    "the file to make it anew, or give cache() another name."
                )
            if structure is not None and stored != described(structure):
                raise ValueError(f"its elements are {spec_from(stored)!r}")
            specs = nest.flatten(spec_from(stored))
            while _exactly(file, 1) == b"\x01":
                yield tuple(_read_leaf(file, spec) for spec in specs)
        except _DAMAGES as error:
            raise DataLossError(
                f"{path} is damaged, or does not hold these elements: {error}."
            ) from error


def _exactly(file: IO[bytes], size: int) -> bytes:
    if size < 0:
        raise ValueError(f"a size is {size}")
    parts = []
    while size:  # in pieces: a size that is damaged may be any
        part = file.read(min(size, _PIECE))
        if not part:
            raise EOFError("it ends too early")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _read_leaf(file: IO[bytes], spec: Any) -> np.ndarray[Any, Any]:
    axes = _exactly(file, 1)[0]
    shape = struct.unpack(f"<{axes}q", _exactly(file, 8 * axes))
    known = spec.shape
    if known is not None and not spec.is_compatible_with(TensorSpec(shape, spec.dtype)):
        raise ValueError(f"a shape is {shape}, where {known} was expected")
    count = math.prod(shape)
    if spec.dtype != string:
        dtype = np.dtype(spec.dtype.name)
        data = _exactly(file, count * dtype.itemsize)
        return np.frombuffer(data, dtype).reshape(shape)
    lengths = struct.unpack(f"<{count}q", _exactly(file, 8 * count))
    texts = np.empty(count, object)
    texts[:] = [_exactly(file, length) for length in lengths]
    return _packed.pack(spec, StringTensor(texts.reshape(shape)))
