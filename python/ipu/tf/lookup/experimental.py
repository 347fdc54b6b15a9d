# SPDX-License-Identifier: MIT
"""``tf.lookup.experimental``: tables whose entries change."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu._text.errors import InvalidArgumentError
from ipu._text.exports import export
from ipu.tf._string_ops.host_only import on_host
from ipu.tf.lookup._tables import Table, array_of, tensor_of

__all__ = ["DenseHashTable", "MutableHashTable"]


class MutableHashTable(Table):
    """A table whose entries change.

    Args:
        key_dtype: dtype of the keys.
        value_dtype: dtype of the values.
        default_value: The value of a key that is not there; of the shape of a
            value.
        checkpoint, experimental_is_anonymous: Ignored.

    Example:
        >>> table = MutableHashTable(tf.string, tf.int64, -1)
        >>> table.insert(["a", "b"], [10, 20])
        >>> table.remove(["a"])
        >>> table.lookup(["a", "b"]).numpy().tolist()
        [-1, 20]
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: Any = None,
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        super().__init__(type(self).__name__, key_dtype, value_dtype, default_value)

    def insert(self, keys: Any, values: Any, name: Any = None) -> None:
        """Add entries, in the place of those that there are.

        Args:
            keys: A tensor of keys.
            values: A value for each of them.

        Raises:
            TypeError: They are of another dtype.
            InvalidArgumentError: There are more or fewer values than keys.
        """
        on_host(f"{self._what}.insert", keys, values)
        array, made = self._checked(keys), array_of(values, self._value_dtype)
        if made.shape != (*array.shape, *self._default.shape):
            raise InvalidArgumentError(
                f"Expected shape {(*array.shape, *self._default.shape)} for value, got "
                f"{made.shape}."
            )
        rows = made.reshape(-1, *self._default.shape)
        self._rows.update(zip(array.ravel().tolist(), rows, strict=True))

    def insert_or_assign(self, keys: Any, values: Any, name: Any = None) -> None:
        """Do the same as :meth:`insert`."""
        self.insert(keys, values)

    def remove(self, keys: Any, name: Any = None) -> None:
        """Take entries away; keys that are not there do no harm."""
        on_host(f"{self._what}.remove", keys)
        for key in self._checked(keys).ravel().tolist():
            self._rows.pop(key, None)

    def erase(self, keys: Any, name: Any = None) -> None:
        """Do the same as :meth:`remove`."""
        self.remove(keys)

    def export(self, name: Any = None) -> tuple[Any, Any]:
        """Return all keys, and their values."""
        count = len(self._rows)
        return (
            tensor_of(list(self._rows), (count,), self._key_dtype),
            tensor_of(
                list(self._rows.values()),
                (count, *self._default.shape),
                self._value_dtype,
            ),
        )


class DenseHashTable(MutableHashTable):
    """A table whose entries change, with two keys that are reserved.

    Args:
        key_dtype: dtype of the keys.
        value_dtype: dtype of the values.
        default_value: The value of a key that is not there.
        empty_key: A key that is never used.
        deleted_key: Another one.
        initial_num_buckets, checkpoint: Ignored.

    Example:
        >>> table = DenseHashTable(tf.int64, tf.int64, -1, empty_key=-1, deleted_key=-2)
        >>> table.insert([7], [1])
        >>> table.lookup([7, 8]).numpy().tolist()
        [1, -1]
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        name: Any = None,
        checkpoint: bool = True,
    ) -> None:
        super().__init__(key_dtype, value_dtype, default_value)
        reserved = (empty_key, deleted_key)
        self._reserved = {
            array_of(key, self._key_dtype).tolist(): name
            for key, name in zip(reserved, ("empty_key", "deleted_key"), strict=True)
        }

    def _checked(self, keys: Any) -> np.ndarray[Any, Any]:
        array = super()._checked(keys)
        for key in array.ravel().tolist():
            if key in self._reserved:
                raise InvalidArgumentError(
                    f"Using the {self._reserved[key]} as a table key is not allowed. "
                    f"Received: {key!r}."
                )
        return array


export(__name__)
