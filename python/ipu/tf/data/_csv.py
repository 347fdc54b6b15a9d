# SPDX-License-Identifier: MIT
"""Data sets of files of comma-separated values."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu._text.errors import InvalidArgumentError
from ipu._text.refusals import refuse_given
from ipu.tf._string_ops.tensors import StringTensor
from ipu.tf.data import _packed, _structure
from ipu.tf.data._dataset import AUTOTUNE, Dataset
from ipu.tf.data._made_by import noted
from ipu.tf.data._readers import opened, paths_of
from ipu.tf.data._turns import ByTurns
from ipu.tf.dtypes import float32, float64, int32, int64, string
from ipu.tf.io._csv import Column, columns_of, csv_reader
from ipu.tf.io._files import matching_files
from ipu.tf.io._records import checked_compression
from ipu.tf.tensor_spec import TensorSpec

_Arrays = tuple["np.ndarray[Any, Any]", ...]


@noted
def CsvDataset(
    filenames: Any,
    record_defaults: Any,
    compression_type: Any = None,
    buffer_size: int | None = None,
    header: bool = False,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
    exclude_cols: Sequence[int] | None = None,
) -> Dataset:
    """Make elements of the lines of files of comma-separated values.

    Args:
        filenames: A name, a list of names, or a data set of names.
        record_defaults: For each column its dtype, where each line must have a value;
            or what stands where there is none.
        compression_type: None or "" for none, "ZLIB" or "GZIP".
        buffer_size: Accepted for compatibility.
        header: Whether the first line of each file is left out.
        field_delim: The separator of fields.
        use_quote_delim: Whether double quotes hold fields together, with ends of lines
            in them.
        na_value: A further text that means that there is no value.
        select_cols: The numbers of the columns to take, ascending; None: all.
        exclude_cols: The numbers of the columns not to take.

    Returns:
        A data set of tuples of scalars, of unknown cardinality.

    Raises:
        ValueError: Both kinds of numbers of columns, or no compression of that name.
        NotFoundError: When it is read: there is no such file.
        InvalidArgumentError: When it is read: a line that does not fit.

    Example:
        >>> import tempfile
        >>> path = tempfile.mktemp()
        >>> tf.io.write_file(path, "a,b\\n1,x\\n2,y\\n")
        >>> rows = CsvDataset(path, [tf.int32, tf.string], header=True)
        >>> [(int(a), b.numpy()) for a, b in rows]
        [(1, b'x'), (2, b'y')]
    """
    if select_cols is not None and exclude_cols is not None:
        raise ValueError("Pass `select_cols` or `exclude_cols`, and not both.")
    compression = checked_compression(compression_type)
    columns = columns_of(record_defaults)
    specs = [TensorSpec((), column.dtype) for column in columns]
    names = paths_of(filenames)

    def chosen(row: list[str]) -> list[str]:
        if select_cols is not None:
            return [row[at] for at in select_cols if at < len(row)]
        if exclude_cols is not None:
            return [field for at, field in enumerate(row) if at not in exclude_cols]
        return row

    def packed(path: str, row: list[str]) -> _Arrays:
        fields = chosen(row)
        if len(fields) != len(columns):
            raise InvalidArgumentError(
                f"{path}: Expect {len(columns)} fields but have {len(fields)} "
                f"in record: {row!r}."
            )
        return tuple(
            _packed.pack(spec, _scalar(column, field, at, na_value))
            for at, (spec, column, field) in enumerate(
                zip(specs, columns, fields, strict=True)
            )
        )

    def lines_of(path: str) -> Iterator[_Arrays]:
        rows = _rows(path, compression, field_delim, use_quote_delim)
        lines = itertools.islice(rows, 1, None) if header else rows
        return map(lambda row: packed(path, row), lines)

    def start() -> Iterator[_Arrays]:
        return ByTurns(map(lines_of, names()), 1, 1)

    types = tuple(_structure.core_spec(spec) for spec in specs)
    return Dataset(_core.Dataset.generator(types, start), tuple(specs))


def _scalar(column: Column, field: str, number: int, na_value: str) -> Any:
    value = column.value("" if field == na_value else field, number)
    return value if column.dtype == string else np.array(value, column.dtype.name)


def _rows(
    path: str, compression: str, delimiter: str, quotes: bool
) -> Iterator[list[str]]:
    with opened(path, compression) as file:
        text = io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="")
        rows = csv_reader(text, delimiter, quotes)
        try:
            yield from (row for row in rows if row)
        except csv.Error as error:
            raise InvalidArgumentError(f"{path}: {error}.") from None


@noted
def make_csv_dataset(
    file_pattern: Any,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Any = None,
    label_name: str | None = None,
    select_columns: Sequence[Any] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: Any = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
) -> Dataset:
    """Make batches of the columns of files of comma-separated values.

    Args:
        file_pattern: A pattern of names, or a list of them.
        batch_size: Lines in a batch.
        column_names: The names of the columns; None: the first line of the first file.
        column_defaults: For each column (that is taken) its dtype or a default; None:
            what the first lines look like, with 0 or "" where there is no value.
        label_name: The column that is the target; None: none.
        select_columns: The names or numbers of the columns to take; None: all.
        field_delim: The separator of fields.
        use_quote_delim: Whether double quotes hold fields together.
        na_value: A further text that means that there is no value.
        header: Whether files begin with a line of names.
        num_epochs: How often the files are read; None: for ever.
        shuffle: Whether lines are shuffled.
        shuffle_buffer_size, shuffle_seed: As for :meth:`Dataset.shuffle`.
        prefetch_buffer_size: Batches that are made ahead; None: a few.
        num_parallel_reads: Accepted for compatibility.
        sloppy: Accepted for compatibility: the order is always the same.
        num_rows_for_inference: Lines that show what columns hold; None: all.
        compression_type: None or "" for none, "ZLIB" or "GZIP".
        ignore_errors: Must be False.
        encoding: Must be "utf-8".

    Returns:
        A data set of dicts of vectors by column; with a label of pairs of such a dict
        and a vector.

    Raises:
        ValueError: No file, a name that there is not or twice, or a label that is not
            taken.
        NotImplementedError: ``ignore_errors``, or another encoding.

    Example:
        >>> import tempfile
        >>> path = tempfile.mktemp()
        >>> tf.io.write_file(path, "size,kind\\n1.5,x\\n2,y\\n")
        >>> rows = make_csv_dataset(path, 2, num_epochs=1, shuffle=False,
        ...                         label_name="kind")
        >>> for columns, kind in rows:
        ...     print(columns["size"].numpy().tolist(), kind.numpy().tolist())
        [1.5, 2.0] [b'x', b'y']
    """
    refuse_given(
        f"{__name__}.make_csv_dataset", ignore_errors=ignore_errors, encoding=encoding
    )
    compression = checked_compression(compression_type)
    found = [path.decode() for path in np.asarray(matching_files(file_pattern))]
    if not found:
        raise ValueError(f"No files match the pattern {file_pattern!r}.")
    first = _rows(found[0], compression, field_delim, use_quote_delim)
    if header or column_names is None:
        names_of_file = next(first, [])
    names = list(names_of_file if column_names is None else column_names)
    if not header and column_names is None:
        raise ValueError("Cannot infer column names without header line.")
    if len(set(names)) != len(names):
        raise ValueError(f"Cannot have duplicate column names. Received: {names}.")
    taken = _taken(select_columns, names)
    kept = [names[at] for at in taken]
    if label_name is not None and label_name not in kept:
        raise ValueError(
            f"`label_name` provided must be one of the columns, {kept}. Received: "
            f"label_name={label_name!r}."
        )
    if column_defaults is None:
        column_defaults = _guessed(first, taken, na_value, num_rows_for_inference)
    elif len(column_defaults) == len(names) != len(kept):
        column_defaults = [column_defaults[at] for at in taken]
    if len(column_defaults) != len(kept):
        raise ValueError(
            "`column_defaults` must have an item for each column that is taken. "
            f"Received: {len(column_defaults)} items, {len(kept)} columns."
        )
    # columns come in the order of the leaves of an element
    order = sorted(range(len(kept)), key=lambda at: (kept[at] == label_name, kept[at]))
    rows = CsvDataset(
        found,
        [column_defaults[at] for at in order],
        compression_type,
        header=header,
        field_delim=field_delim,
        use_quote_delim=use_quote_delim,
        na_value=na_value,
        select_cols=[taken[at] for at in order],
    )
    if shuffle:
        rows = rows.shuffle(shuffle_buffer_size, shuffle_seed)
    rows = rows.repeat(num_epochs).batch(batch_size, drop_remainder=num_epochs is None)
    specs = dict(zip((kept[at] for at in order), rows.element_spec, strict=True))
    structure: Any = specs
    if label_name is not None:
        target = specs.pop(label_name)
        structure = (specs, target)
    made = Dataset(rows._impl, structure)
    ahead = AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size
    return made.prefetch(ahead)


def _taken(select: Sequence[Any] | None, names: list[str]) -> list[int]:
    """Return the numbers of the columns to take, ascending."""
    if select is None:
        return list(range(len(names)))
    made = set()
    for one in select:
        if isinstance(one, str) and one in names:
            made.add(names.index(one))
        elif isinstance(one, int) and 0 <= one < len(names):
            made.add(one)
        else:
            raise ValueError(
                f"`select_columns` must be among the columns {names}. "
                f"Received: {one!r}."
            )
    if len(made) != len(select):
        raise ValueError(f"`select_columns` has a column twice. Received: {select!r}.")
    return sorted(made)


def _guessed(
    rows: Iterator[list[str]], taken: list[int], na_value: str, most: int | None
) -> list[Any]:
    """Return the first of int32, int64, float32, float64 and string that fits each
    column."""
    kinds = (int32, int64, float32, float64, string)
    levels = [0] * len(taken)
    for number, row in enumerate(rows):
        if number == most:
            break
        for place, at in enumerate(taken):
            field = row[at] if at < len(row) else ""
            if field and field != na_value:
                while not _fits(field, kinds[levels[place]]):
                    levels[place] += 1
    made = [kinds[level] for level in levels]
    return [StringTensor("") if k == string else _core.Tensor(0, k.name) for k in made]


def _fits(field: str, kind: Any) -> bool:
    if kind == string:
        return True
    try:
        value: Any = float(field) if kind.is_floating else int(field)
    except ValueError:
        return False
    if kind.is_floating:
        return kind == float64 or not np.isfinite(value) or abs(value) <= kind.max
    return bool(kind.min <= value <= kind.max)
