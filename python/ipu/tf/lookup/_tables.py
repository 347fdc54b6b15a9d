# SPDX-License-Identifier: MIT
"""Tables whose entries do not change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ipu import _core
from ipu._text.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from ipu.tf._graph import mode
from ipu.tf._string_ops.hashes import fingerprint64
from ipu.tf._string_ops.host_only import on_host
from ipu.tf._string_ops.tensors import StringTensor, is_text, path_of
from ipu.tf._tensor.convert import constant, convert_to_tensor
from ipu.tf.dtypes import DType, as_dtype, int64, string
from ipu.tf.ragged import RaggedTensor
from ipu.tf.tensor_shape import TensorShape
from ipu.tf.tensor_spec import TensorSpec


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
    """Return strings as objects, numbers of a dtype.

    Raises:
        TypeError: ``value`` is another thing.
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
        """Return the entries."""
        return Entries(
            self._keys.ravel(), self._values.ravel(), self.key_dtype, self.value_dtype
        )


class TextFileIndex:
    """The sources of keys and values of a :class:`TextFileInitializer`.

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
        key_index: The column of the key: ``TextFileIndex.WHOLE_LINE``, ``LINE_NUMBER``,
            or the number of a column.
        value_dtype: dtype of the values.
        value_index: The column of the value.
        vocab_size: How many lines are taken at most; None: all.
        delimiter: The separator of columns.
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
        """Return the entries.

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


class Table:
    """A dictionary of tensors.

    Args:
        what: The class, for messages.
        key_dtype: dtype of the keys.
        value_dtype: dtype of the values.
        default_value: The value of a key that is not there.
    """

    def __init__(
        self, what: str, key_dtype: Any, value_dtype: Any, default_value: Any
    ) -> None:
        self._what = what
        self._key_dtype, self._value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        self._default = array_of(default_value, self._value_dtype)
        self._rows: dict[Any, Any] = {}

    @property
    def key_dtype(self) -> DType:
        """dtype of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """dtype of the values."""
        return self._value_dtype

    def size(self, name: Any = None) -> Any:
        """Return the number of entries, int64."""
        return constant(np.int64(len(self._rows)))

    def lookup(self, keys: Any, name: Any = None) -> Any:
        """Return the values of keys.

        Args:
            keys: A tensor of any shape, also a ragged one.

        Returns:
            A tensor of that shape; the default value for keys that are not there.

        Raises:
            TypeError: The keys are of another dtype.
            HostOnlyError: A function is being traced.
        """
        graph = mode.building()
        if graph is not None:
            given = convert_to_tensor(keys)
            shape: Any = TensorShape(given.shape).concatenate(self._default.shape)
            known: Any = None if shape.rank is None else shape
            spec = TensorSpec(known, self._value_dtype)
            return graph.python("LookupTableFindV2", self.lookup, spec, (given,))
        on_host(f"{self._what}.lookup", keys)
        if isinstance(keys, RaggedTensor):
            return RaggedTensor(self.lookup(keys.values), keys.row_splits)
        array = self._checked(keys)
        found = [self._value_of(key) for key in array.ravel().tolist()]
        shape = (*array.shape, *self._default.shape)
        return tensor_of(found, shape, self._value_dtype)

    def __getitem__(self, keys: Any) -> Any:
        """Return the same as :meth:`lookup`."""
        return self.lookup(keys)

    def _value_of(self, key: Any) -> Any:
        return self._rows.get(key, self._default[()])

    def _checked(self, keys: Any) -> np.ndarray[Any, Any]:
        has_dtype = hasattr(keys, "dtype") and not isinstance(keys, StringTensor)
        is_string = is_text(keys)
        if has_dtype and not is_string:
            fits = as_dtype(keys.dtype) == self._key_dtype
        else:
            fits = is_string == (self._key_dtype == string)
        if not fits:
            found = as_dtype(keys.dtype).name if has_dtype else type(keys).__name__
            raise TypeError(
                f"Dtype of argument `keys` must be {self._key_dtype.name}. "
                f"Received: {'string' if is_string else found}."
            )
        return array_of(keys, self._key_dtype)


def tensor_of(found: list[Any], shape: tuple[int, ...], kind: DType) -> Any:
    if kind == string:
        flat = np.empty(len(found), object)
        flat[:] = found
        return StringTensor(flat.reshape(shape))
    return _core.Tensor(np.array(found, kind.name).reshape(shape))


class StaticHashTable(Table):
    """A table whose entries do not change.

    Args:
        initializer: A :class:`KeyValueTensorInitializer` or
            :class:`TextFileInitializer`.
        default_value: The value of a key that is not there.
        experimental_is_anonymous: Ignored.

    Raises:
        FailedPreconditionError: A key has two values.

    Example:
        >>> rows = tf.lookup.KeyValueTensorInitializer(["cat", "dog"], [7, 8])
        >>> StaticHashTable(rows, -1).lookup(["dog", "cow"]).numpy().tolist()
        [8, -1]
    """

    def __init__(
        self,
        initializer: Any,
        default_value: Any,
        name: Any = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        rows = initializer.entries()
        super().__init__(
            type(self).__name__, rows.key_dtype, rows.value_dtype, default_value
        )
        for key, value in zip(rows.keys.tolist(), rows.values.tolist(), strict=True):
            if self._rows.setdefault(key, value) != value:
                raise FailedPreconditionError(
                    f"HashTable has different value for same key. Key {key!r} has "
                    f"{self._rows[key]!r} and trying to add value {value!r}."
                )

    @property
    def default_value(self) -> Any:
        """The value of a key that is not there."""
        is_string = self._value_dtype == string
        return (StringTensor if is_string else _core.Tensor)(self._default)

    def export(self, name: Any = None) -> tuple[Any, Any]:
        """Return all keys, and their values."""
        keys, values = list(self._rows), list(self._rows.values())
        shape = (len(keys),)
        return (
            tensor_of(keys, shape, self._key_dtype),
            tensor_of(values, shape, self._value_dtype),
        )


class StaticVocabularyTable(Table):
    """A table of numbers of words, with buckets for the words that are not there.

    Args:
        initializer: Entries with int64 values from 0 on; None: there are buckets alone.
        num_oov_buckets: How many buckets there are after the entries.
        lookup_key_dtype: dtype of the keys of :meth:`lookup`; None: that of the
            entries.
        experimental_is_anonymous: Ignored.

    Raises:
        ValueError: There are no buckets.
        TypeError: The values are not int64.

    Example:
        >>> numbers = tf.range(2, dtype=tf.int64)
        >>> rows = tf.lookup.KeyValueTensorInitializer(["cat", "dog"], numbers)
        >>> StaticVocabularyTable(rows, 1).lookup(["dog", "cow"]).numpy().tolist()
        [1, 2]
    """

    def __init__(
        self,
        initializer: Any,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: Any = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        if num_oov_buckets <= 0:
            raise ValueError(
                "`num_oov_buckets` must be > 0; use StaticHashTable for a table "
                f"without buckets. Received: num_oov_buckets={num_oov_buckets!r}."
            )
        rows = None if initializer is None else initializer.entries()
        if rows is not None and rows.value_dtype != int64:
            raise TypeError(
                "Invalid `value_dtype`: the values must be int64. "
                f"Received: {rows.value_dtype.name}."
            )
        kind = lookup_key_dtype or (string if rows is None else rows.key_dtype)
        super().__init__(type(self).__name__, kind, int64, 0)
        self._count = int(num_oov_buckets)
        if rows is not None:
            self._rows.update(
                zip(rows.keys.tolist(), rows.values.tolist(), strict=True)
            )
        self._known = len(self._rows)

    def size(self, name: Any = None) -> Any:
        """Return the number of entries and buckets, int64."""
        return constant(np.int64(self._known + self._count))

    def _value_of(self, key: Any) -> Any:
        found = self._rows.get(key)
        if found is not None:
            return found
        text = key if isinstance(key, bytes) else str(key).encode()
        return self._known + fingerprint64(text) % self._count
