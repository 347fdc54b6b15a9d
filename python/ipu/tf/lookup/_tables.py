# SPDX-License-Identifier: MIT
"""Tables whose entries do not change."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import _core
from ipu._text.errors import FailedPreconditionError
from ipu.tf._graph import mode
from ipu.tf._string_ops.hashes import fingerprint64
from ipu.tf._string_ops.host_only import on_host
from ipu.tf._string_ops.tensors import StringTensor, is_text
from ipu.tf._tensor.convert import constant, convert_to_tensor
from ipu.tf.dtypes import DType, as_dtype, int64, string
from ipu.tf.lookup._initializers import array_of
from ipu.tf.ragged import RaggedTensor
from ipu.tf.tensor_shape import TensorShape
from ipu.tf.tensor_spec import TensorSpec


class Table:
    """A dictionary of tensors.

    Args:
        what: The class, for messages.
        key_dtype: dtype of the keys.
        value_dtype: dtype of the values.
        default_value: What stands for a key that is not there.
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
        """The number of entries, int64."""
        return constant(np.int64(len(self._rows)))

    def lookup(self, keys: Any, name: Any = None) -> Any:
        """The values of keys.

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
        """The same as :meth:`lookup`."""
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
        default_value: What stands for a key that is not there.
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
        """What stands for a key that is not there."""
        is_string = self._value_dtype == string
        return (StringTensor if is_string else _core.Tensor)(self._default)

    def export(self, name: Any = None) -> tuple[Any, Any]:
        """All keys, and their values."""
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
        num_oov_buckets: How many buckets there are behind the entries.
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
        """The number of entries and buckets, int64."""
        return constant(np.int64(self._known + self._count))

    def _value_of(self, key: Any) -> Any:
        found = self._rows.get(key)
        if found is not None:
            return found
        text = key if isinstance(key, bytes) else str(key).encode()
        return self._known + fingerprint64(text) % self._count
