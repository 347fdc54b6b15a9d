# SPDX-License-Identifier: MIT
"""Where tables take their entries from: tensors, and lines of files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ipu import _core
from ipu._text.errors import InvalidArgumentError, NotFoundError
from ipu.tf._string_ops.tensors import StringTensor, is_text, path_of
from ipu.tf.dtypes import DType, as_dtype, int64, string


class Entries(NamedTuple):
    """The entries of a table.

    Attributes:
        key_dtype: dtype of the keys.
        value_dtype: dtype of the values.
    """

    keys: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]
    key_dtype: DType
    value_dtype: DType


def array_of(value: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Strings as objects, numbers of a dtype.

    Raises:
        TypeError: ``value`` is no such thing.
    """
    kind = None if dtype is None else as_dtype(dtype)
    if getattr(type(value), "_ipu_graph_tensor", False):
        value = np.asarray(value)  # a constant of the graph
    if kind == string or (kind is None and is_text(value)):
        return np.asarray(StringTensor(value))
    if isinstance(value, (_core.Tensor, np.ndarray)) or kind is None:
        return np.asarray(_core.Tensor(value))
    return np.asarray(_core.Tensor(value, kind.name))


class KeyValueTensorInitializer:
    """The entries of a table as two tensors.

    Args:
        keys: A vector of strings or integers.
        values: One value for each key.
        key_dtype: dtype of the keys; None: that of ``keys``.
        value_dtype: dtype of the values; None: that of ``values``.

    Raises:
        ValueError: There are more or fewer values than keys.

    Example:
        >>> KeyValueTensorInitializer(["a", "b"], [1, 2]).value_dtype
        tf.int32
    """

    def __init__(
        self,
        keys: Any,
        values: Any,
        key_dtype: Any = None,
        value_dtype: Any = None,
        name: Any = None,
    ) -> None:
        self._keys = array_of(keys, key_dtype)
        self._values = array_of(values, value_dtype)
        if self._keys.shape != self._values.shape:
            raise ValueError(
                "A table needs one value for each key. Received: keys of shape "
                f"{self._keys.shape}, values of shape {self._values.shape}."
            )
        self.key_dtype = as_dtype(key_dtype or self._keys.dtype)
        self.value_dtype = as_dtype(value_dtype or self._values.dtype)

    def entries(self) -> Entries:
        """The entries."""
        return Entries(
            self._keys.ravel(), self._values.ravel(), self.key_dtype, self.value_dtype
        )


class TextFileIndex:
    """What a key or a value of :class:`TextFileInitializer` is made of.

    Example:
        >>> TextFileIndex.WHOLE_LINE, TextFileIndex.LINE_NUMBER
        (-2, -1)
    """

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TextFileInitializer:
    """The entries of a table as the lines of a file.

    Args:
        filename: The file.
        key_dtype: dtype of the keys: string or int64.
        key_index: What is the key: ``TextFileIndex.WHOLE_LINE``, ``LINE_NUMBER``, or
            the number of a column.
        value_dtype: dtype of the values.
        value_index: What is the value.
        vocab_size: How many lines are taken at most; None: all.
        delimiter: What stands between columns.
        value_index_offset: Added to line numbers that are values.

    Raises:
        ValueError: An index below -2; a whole line that is not a string, or a line
            number that is not int64.

    Example:
        >>> import tempfile
        >>> path = tempfile.mktemp()
        >>> tf.io.write_file(path, "cat\\ndog\\n")
        >>> rows = TextFileInitializer(path, tf.string, TextFileIndex.WHOLE_LINE,
        ...                            tf.int64, TextFileIndex.LINE_NUMBER)
        >>> table = tf.lookup.StaticHashTable(rows, -1)
        >>> table.lookup(["dog", "cow"]).numpy().tolist()
        [1, -1]
    """

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: Any = None,
        value_index_offset: int = 0,
    ) -> None:
        self._path = path_of(filename)
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        self._indices = (int(key_index), int(value_index))
        self._most, self._delimiter = vocab_size, delimiter.encode()
        self._offset = int(value_index_offset)
        kinds = (self.key_dtype, self.value_dtype)
        for what, index, kind in zip(
            ("key", "value"), self._indices, kinds, strict=True
        ):
            if index < TextFileIndex.WHOLE_LINE:
                raise ValueError(f"Invalid {what} index {index}.")
            wanted = {
                TextFileIndex.LINE_NUMBER: int64,
                TextFileIndex.WHOLE_LINE: string,
            }
            if kind != wanted.get(index, kind):
                raise ValueError(
                    f"Signature mismatch: {what}s that are "
                    f"{'line numbers' if index == -1 else 'whole lines'} must be "
                    f"{wanted[index].name}. Received: {what}_dtype={kind.name}."
                )

    def entries(self) -> Entries:
        """The entries.

        Raises:
            NotFoundError: There is no such file.
            InvalidArgumentError: A line has too few columns, or something else than a
                number where one is needed.
        """
        key_index, value_index = self._indices
        keys, values = [], []
        for number, line in enumerate(self._lines()):
            keys.append(self._part(line, number, key_index, self.key_dtype, 0))
            values.append(
                self._part(line, number, value_index, self.value_dtype, self._offset)
            )
        if self._most is not None and len(keys) < self._most:
            raise InvalidArgumentError(
                f"Invalid vocab_size in {self._path}: expected {self._most} but got "
                f"{len(keys)}."
            )
        return Entries(
            _vector(keys, self.key_dtype),
            _vector(values, self.value_dtype),
            self.key_dtype,
            self.value_dtype,
        )

    def _lines(self) -> Iterator[bytes]:
        try:
            with open(self._path, "rb") as file:
                for number, line in enumerate(file):
                    if number == self._most:
                        return
                    yield line.removesuffix(b"\n").removesuffix(b"\r")
        except OSError as error:
            raise NotFoundError(f"{self._path}; {error.strerror}") from error

    def _part(
        self, line: bytes, number: int, index: int, kind: DType, offset: int
    ) -> Any:
        if index == TextFileIndex.LINE_NUMBER:
            return number + offset
        if index == TextFileIndex.WHOLE_LINE:
            return line
        columns = line.split(self._delimiter)
        if index >= len(columns):
            raise InvalidArgumentError(
                f"Invalid number of columns in {self._path} line {number} ({line!r}): "
                f"expected at least {index + 1}, got {len(columns)}."
            )
        if kind == string:
            return columns[index]
        try:
            return float(columns[index]) if kind.is_floating else int(columns[index])
        except ValueError:
            raise InvalidArgumentError(
                f"Field {columns[index]!r} in line {number} of {self._path} is not a "
                f"valid {kind.name}."
            ) from None


def _vector(items: list[Any], kind: DType) -> np.ndarray[Any, Any]:
    made = np.empty(len(items), object if kind == string else kind.name)
    made[:] = items
    return made
