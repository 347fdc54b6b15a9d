# SPDX-License-Identifier: MIT
"""Lines of comma-separated values."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu._text.errors import InvalidArgumentError
from ipu.tf._string_ops.host_only import on_host
from ipu.tf._string_ops.tensors import StringTensor, is_text
from ipu.tf.dtypes import DType, as_dtype, float32, float64, int32, int64, string

_KINDS = (float32, float64, int32, int64, string)


class Column:
    """What a column holds.

    Args:
        default: dtype of a column where each line has a value; or what stands where
            there is none: a scalar, or a list of one.
    """

    def __init__(self, default: Any) -> None:
        self.default: Any = None  # bytes, or a number
        if isinstance(default, DType) or (
            isinstance(default, type) and default in (int, float, str)
        ):
            self.dtype = as_dtype(default)
        else:
            value = default
            if isinstance(value, (list, tuple)) and len(value) == 1:
                value = value[0]
            if is_text(value) and not isinstance(value, (list, tuple)):
                self.dtype = string
                self.default = np.asarray(StringTensor(value)).ravel()[0]
            else:
                array = np.asarray(_core.Tensor(value))
                if array.size > 1:
                    raise ValueError(
                        "A default of `record_defaults` must be a scalar. "
                        f"Received: {default!r}."
                    )
                self.dtype = as_dtype(array.dtype)
                self.default = array.ravel()[0] if array.size else None
        if self.dtype not in _KINDS:
            raise TypeError(
                "Columns are of float32, float64, int32, int64 or string. "
                f"Received: {self.dtype.name}."
            )

    def value(self, field: str, number: int) -> Any:
        """Return the value that a field writes.

        Raises:
            InvalidArgumentError: It writes none.
        """
        if not field:
            if self.default is None:
                raise InvalidArgumentError(
                    f"Field {number} is required but missing in record."
                )
            return self.default
        if self.dtype == string:
            return field.encode(errors="surrogateescape")
        try:
            return float(field) if self.dtype.is_floating else int(field)
        except ValueError:
            raise InvalidArgumentError(
                f"Field {number} in record is not a valid {self.dtype.name}: {field!r}."
            ) from None

    def tensor(self, values: Sequence[Any], shape: tuple[int, ...]) -> Any:
        """Return the values as a tensor."""
        if self.dtype == string:
            flat = np.empty(len(values), object)
            flat[:] = values
            return StringTensor(flat.reshape(shape))
        return _core.Tensor(np.array(values, self.dtype.name).reshape(shape))


def columns_of(record_defaults: Any) -> list[Column]:
    """Return the columns that a list of defaults describes."""
    return [Column(default) for default in record_defaults]


def csv_reader(lines: Iterable[str], delimiter: str, quotes: bool) -> Any:
    """Return the rows of lines: lists of fields."""
    return csv.reader(
        lines,
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
        strict=True,
    )


def _fields_of(
    line: str, field_delim: str, use_quote_delim: bool, na_value: str
) -> list[str]:
    """Return the fields of a line; "" for those that are missing.

    Raises:
        InvalidArgumentError: Quotes that do not end.
    """
    try:
        rows = list(csv_reader([line], field_delim, use_quote_delim))
    except csv.Error as error:
        raise InvalidArgumentError(f"{error}. Received: {line!r}.") from None
    fields = rows[0] if rows and rows[0] else [""]
    return ["" if field == na_value else field for field in fields]


def decode_csv(
    records: Any,
    record_defaults: Any,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
    name: Any = None,
) -> list[Any]:
    """Take lines of comma-separated values apart.

    Args:
        records: Lines, without their ends.
        record_defaults: For each column its dtype, where each line must have a value;
            or what stands where there is none.
        field_delim: The separator of fields.
        use_quote_delim: Whether double quotes hold fields together.
        na_value: A further text that means that there is no value.
        select_cols: The numbers of the columns to take; None: all.

    Returns:
        A tensor for each column, of the shape of ``records``.

    Raises:
        InvalidArgumentError: A line has more or fewer fields, or one is not a number.
        ValueError: There are more or fewer defaults than columns to take.

    Example:
        >>> a, b = decode_csv(["1,x", ",y"], [[0], tf.string])
        >>> a.numpy().tolist(), b.numpy().tolist()
        ([1, 0], [b'x', b'y'])
    """
    on_host("tf.io.decode_csv", records)
    columns = columns_of(record_defaults)
    if select_cols is not None and len(select_cols) != len(columns):
        raise ValueError(
            "`select_cols` and `record_defaults` must have the same length. Received: "
            f"{len(select_cols)} and {len(columns)}."
        )
    texts = np.asarray(StringTensor(records))
    rows = []
    for text in texts.ravel().tolist():
        line = text.decode(errors="surrogateescape")
        fields = _fields_of(line, field_delim, use_quote_delim, na_value)
        if select_cols is not None:
            fields = [fields[at] for at in select_cols if at < len(fields)]
        if len(fields) != len(columns):
            raise InvalidArgumentError(
                f"Expect {len(columns)} fields but have {len(fields)} in record: "
                f"{line!r}."
            )
        pairs = enumerate(zip(columns, fields, strict=True))
        rows.append([column.value(field, at) for at, (column, field) in pairs])
    return [
        column.tensor([row[at] for row in rows], texts.shape)
        for at, column in enumerate(columns)
    ]
