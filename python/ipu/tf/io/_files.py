# SPDX-License-Identifier: MIT
"""Whole files as strings, and strings as numbers."""

from __future__ import annotations

import glob
import os
from typing import Any

import numpy as np

from ipu import _core
from ipu._text.errors import InvalidArgumentError, NotFoundError
from ipu.tf._string_ops.tensors import StringTensor, path_of, to_bytes
from ipu.tf._tensor import varying_sizes
from ipu.tf.dtypes import as_dtype

__all__ = ["decode_raw", "matching_files", "path_of", "read_file", "write_file"]


def read_file(filename: Any, name: str | None = None) -> StringTensor:
    """Read a whole file.

    Args:
        filename: Its name, one string.

    Returns:
        Its contents, one string.

    Raises:
        NotFoundError: There is no such file, or it cannot be read.

    Example:
        >>> import tempfile
        >>> path = tempfile.mktemp()
        >>> write_file(path, "abc")
        >>> read_file(path).numpy()
        b'abc'
    """
    path = path_of(filename)
    try:
        with open(path, "rb") as file:
            return StringTensor(file.read())
    except OSError as error:
        raise NotFoundError(f"{path}; {error.strerror}") from error


def write_file(filename: Any, contents: Any, name: str | None = None) -> None:
    """Write a string to a file; folders on the way are made. See :func:`read_file`.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "notes", "first.txt")
        >>> tf.io.write_file(path, "hello")
        >>> tf.io.read_file(path).numpy()
        b'hello'
    """
    path = path_of(filename)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(to_bytes(contents))


def matching_files(pattern: Any, name: str | None = None) -> StringTensor:
    """Return the sorted names of the files that match a pattern, or one of several.

    Example:
        >>> matching_files("/nothing/*.png").shape
        (0,)
    """
    patterns = np.asarray(StringTensor(pattern)).ravel()
    found = {path for one in patterns for path in glob.glob(os.fsdecode(one))}
    return StringTensor(np.array([*sorted(found), None], object)[:-1])


def decode_raw(
    input_bytes: Any, out_type: Any, little_endian: bool = True, name: Any = None
) -> Any:
    """Return the numbers whose bytes a string holds.

    Args:
        input_bytes: Strings of equal length.
        out_type: dtype of the numbers.
        little_endian: Whether the lowest byte comes first.

    Returns:
        A tensor with one more axis than ``input_bytes``.

    Raises:
        InvalidArgumentError: A length is not a multiple of the dtype's size, or lengths
            differ.

    Example:
        >>> decode_raw(b"\\x01\\x00\\x02\\x00", tf.int16).numpy().tolist()
        [1, 2]
    """
    texts = np.asarray(StringTensor(input_bytes))
    dtype = np.dtype(as_dtype(out_type).as_numpy_dtype)
    lengths = {len(text) for text in texts.ravel()}
    if len(lengths) > 1:
        raise InvalidArgumentError(
            "decode_raw requires input strings to all be the same size. "
            f"Received: {sorted(lengths)} bytes."
        )
    length = lengths.pop() if lengths else 0
    if length % dtype.itemsize:
        raise InvalidArgumentError(
            f"Input to decode_raw has length {length} that is not a multiple of "
            f"{dtype.itemsize}, the size of {dtype.name}."
        )
    order = dtype.newbyteorder("<" if little_endian else ">")
    flat = np.frombuffer(b"".join(texts.ravel()), order).astype(dtype)
    shape = (*texts.shape, length // dtype.itemsize)
    return _core.Tensor(varying_sizes.varying(flat.reshape(shape), texts.ndim))
