# SPDX-License-Identifier: MIT
"""``ipu.tf.data.experimental``: older names that programs still use."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

import numpy as np

from ipu import _core
from ipu._text.exports import defined, export
from ipu.tf import nest
from ipu.tf._string_ops.tensors import is_text
from ipu.tf.data._auto_shard import SHARD_HINT as SHARD_HINT
from ipu.tf.data._csv import (
    CsvDataset as CsvDataset,
    make_csv_dataset as make_csv_dataset,
)
from ipu.tf.data._dataset import (
    AUTOTUNE as AUTOTUNE,
    INFINITE_CARDINALITY as INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY,
    Dataset,
    Reducer as Reducer,
)
from ipu.tf.data._options import AutoShardPolicy as AutoShardPolicy

_P = ParamSpec("_P")
_Transformation = Callable[[Dataset], Dataset]


# they became methods of data sets
RandomDataset = Dataset.random
sample_from_datasets = Dataset.sample_from_datasets
choose_from_datasets = Dataset.choose_from_datasets
load = Dataset.load


def cardinality(dataset: Dataset) -> Any:
    """Return the number of elements of a data set.

    Args:
        dataset: A :class:`~ipu.tf.data.Dataset`.

    Returns:
        The result of :meth:`Dataset.cardinality`: an int64 scalar tensor, -1 for an
        endless data set, -2 where the number is not known.

    Example:
        >>> int(cardinality(Dataset.range(5)))
        5
    """
    return dataset.cardinality()


def assert_cardinality(expected_cardinality: Any) -> _Transformation:
    """Say how many elements a data set has, where that is not known.

    Args:
        expected_cardinality: The number, or INFINITE_CARDINALITY.

    Returns:
        A function for ``Dataset.apply``. Reading the data set to its end raises
        FailedPreconditionError where there is another number of elements.

    Example:
        >>> odd = Dataset.range(6).filter(lambda x: x % 2 == 1)
        >>> len(odd.apply(assert_cardinality(3)))
        3
    """
    return lambda dataset: dataset._assert_cardinality(expected_cardinality)


def Counter(start: int = 0, step: int = 1, dtype: Any = None) -> Dataset:
    """Count for ever; ``tf.data.experimental.Counter``.

    Example:
        >>> [int(x) for x in Counter(10, 5).take(3)]
        [10, 15, 20]
    """
    stop = np.iinfo(np.int64).max if step > 0 else np.iinfo(np.int64).min
    return Dataset.range(start, stop, step, output_type=dtype)


def get_single_element(dataset: Dataset) -> Any:
    """Return ``Dataset.get_single_element``.

    Example:
        >>> int(get_single_element(tf.data.Dataset.from_tensors(7)))
        7
    """
    return dataset.get_single_element()


def _applied(
    method: Callable[Concatenate[Any, _P], Any], example: str, name: str = ""
) -> Callable[_P, _Transformation]:
    """Make the function that gives a method of data sets to ``Dataset.apply``."""

    def function(*args: _P.args, **kwargs: _P.kwargs) -> _Transformation:
        signature.bind(*args, **kwargs)
        return lambda dataset: getattr(dataset, method.__name__)(*args, **kwargs)

    whole = inspect.signature(method)
    signature = whole.replace(parameters=list(whole.parameters.values())[1:])
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = name or method.__name__
    function.__doc__ = (
        f"Return ``Dataset.{method.__name__}`` for ``Dataset.apply``.\n\n"
        f"    Example:{example}"
    )
    return function


enumerate_dataset = _applied(
    Dataset.enumerate,
    """
        >>> dataset = tf.data.Dataset.from_tensor_slices([8, 9])
        >>> dataset = dataset.apply(enumerate_dataset(1))
        >>> [(int(i), int(x)) for i, x in dataset]
        [(1, 8), (2, 9)]
    """,
    "enumerate_dataset",
)
take_while = _applied(
    Dataset.take_while,
    """
        >>> dataset = tf.data.Dataset.range(10).apply(take_while(lambda x: x < 3))
        >>> [int(x) for x in dataset]
        [0, 1, 2]
    """,
)
unbatch = _applied(
    Dataset.unbatch,
    """
        >>> dataset = tf.data.Dataset.range(4).batch(2).apply(unbatch())
        >>> [int(x) for x in dataset]
        [0, 1, 2, 3]
    """,
)
dense_to_ragged_batch = _applied(
    Dataset.ragged_batch,
    """
        >>> rows = Dataset.range(3).map(lambda n: tf.range(n))
        >>> [b.to_list() for b in rows.apply(dense_to_ragged_batch(2))]
        [[[], [0]], [[0, 1]]]
    """,
    "dense_to_ragged_batch",
)
dense_to_sparse_batch = _applied(
    Dataset.sparse_batch,
    """
        >>> rows = Dataset.range(3).map(lambda n: tf.range(n))
        >>> [b.shape.as_list() for b in rows.apply(dense_to_sparse_batch(2, [4]))]
        [[2, 4], [1, 4]]
    """,
    "dense_to_sparse_batch",
)
ignore_errors = _applied(
    Dataset.ignore_errors,
    """
        >>> numbers = Dataset.from_tensor_slices(["1", "one"])
        >>> numbers = numbers.map(tf.strings.to_number).apply(ignore_errors())
        >>> [float(x) for x in numbers]
        [1.0]
    """,
)
group_by_reducer = _applied(
    Dataset.group_by_reducer,
    """
        >>> count = Reducer(lambda key: np.int64(0), lambda s, x: s + 1, lambda s: s)
        >>> counts = Dataset.range(5).apply(group_by_reducer(lambda x: x % 2, count))
        >>> [int(x) for x in counts]
        [3, 2]
    """,
)
group_by_window = _applied(
    Dataset.group_by_window,
    """
        >>> batch = lambda key, rows: rows.batch(3)
        >>> by_parity = group_by_window(lambda x: x % 2, batch, 3)
        >>> dataset = tf.data.Dataset.range(6).apply(by_parity)
        >>> [x.numpy().tolist() for x in dataset]
        [[0, 2, 4], [1, 3, 5]]
    """,
)
bucket_by_sequence_length = _applied(
    Dataset.bucket_by_sequence_length,
    """
        >>> words = tf.data.Dataset.from_generator(
        ...     lambda: iter([[1], [2, 2, 2], [3]]),
        ...     output_signature=tf.TensorSpec([None], tf.int32),
        ... )
        >>> length = lambda x: tf.shape(x)[0]
        >>> short_and_long = bucket_by_sequence_length(length, [2], [2, 1])
        >>> [x.numpy().tolist() for x in words.apply(short_and_long)]
        [[[2, 2, 2]], [[1], [3]]]
    """,
)
scan = _applied(
    Dataset.scan,
    """
        >>> sums = Dataset.range(3).apply(scan(np.int64(0), lambda s, x: (s + x, s)))
        >>> [int(x) for x in sums]
        [0, 0, 1]
    """,
)
unique = _applied(
    Dataset.unique,
    """
        >>> [int(x) for x in Dataset.range(2).repeat(2).apply(unique())]
        [0, 1]
    """,
)
rejection_resample = _applied(
    Dataset.rejection_resample,
    """
        >>> none = rejection_resample(lambda x: tf.cast(x % 2, tf.int32), [0.0, 1.0])
        >>> all(int(y) % 2 for _, y in Dataset.range(9).apply(none))
        True
    """,
)
snapshot = _applied(
    Dataset.snapshot,
    """
        >>> import tempfile
        >>> len(list(Dataset.range(3).apply(snapshot(tempfile.mkdtemp()))))
        3
    """,
)


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: int,
    num_parallel_batches: int | None = None,
    drop_remainder: bool = False,
    num_parallel_calls: int | None = None,
) -> _Transformation:
    """Return ``map(map_func).batch(batch_size, drop_remainder)`` for ``Dataset.apply``.

    Example:
        >>> dataset = tf.data.Dataset.range(4).apply(map_and_batch(lambda x: x * x, 2))
        >>> [x.numpy().tolist() for x in dataset]
        [[0, 1], [4, 9]]
    """
    return lambda dataset: dataset.map(map_func).batch(batch_size, drop_remainder)


def shuffle_and_repeat(
    buffer_size: int, count: int | None = None, seed: int | None = None
) -> _Transformation:
    """Return ``shuffle(buffer_size, seed).repeat(count)`` for ``Dataset.apply``.

    Example:
        >>> twice = shuffle_and_repeat(3, count=2, seed=1)
        >>> dataset = tf.data.Dataset.range(3).apply(twice)
        >>> sorted(int(x) for x in dataset)
        [0, 0, 1, 1, 2, 2]
    """
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def from_list(elements: Any, name: str | None = None) -> Dataset:
    """Make a data set of the elements of a list.

    Args:
        elements: Elements of one structure and shape.

    Returns:
        A data set.

    Raises:
        ValueError: The list is empty.

    Example:
        >>> [(int(x), y.numpy()) for x, y in from_list([(1, "a"), (2, "b")])]
        [(1, b'a'), (2, b'b')]
    """
    if not elements:
        raise ValueError("`elements` must not be empty. Received: [].")
    flat = [nest.flatten(element) for element in elements]
    columns = [
        row if is_text(row) else np.stack([np.asarray(_core.Tensor(x)) for x in row])
        for row in map(list, zip(*flat, strict=True))
    ]
    return Dataset.from_tensor_slices(nest.pack_sequence_as(elements[0], columns))


def save(dataset: Dataset, path: Any, compression: Any = None, **kwargs: Any) -> None:
    """Call ``Dataset.save``.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> save(Dataset.range(3), folder)
        >>> len(load(folder))
        3
    """
    dataset.save(path, compression, **kwargs)


def prefetch_to_device(device: Any, buffer_size: int | None = None) -> _Transformation:
    """Return ``Dataset.prefetch`` for ``Dataset.apply``: what feeds a device comes from
    there.

    Args:
        device: Accepted for compatibility.
        buffer_size: Elements made ahead; None: a few.

    Example:
        >>> len(list(Dataset.range(3).apply(prefetch_to_device("/device:IPU:0"))))
        3
    """
    size = AUTOTUNE if buffer_size is None else buffer_size
    return lambda dataset: dataset.prefetch(size)


def copy_to_device(target_device: Any, source_device: Any = "") -> _Transformation:
    """Return the data set itself: elements go to the device that takes them.

    Example:
        >>> len(list(Dataset.range(3).apply(copy_to_device("/device:IPU:0"))))
        3
    """
    return lambda dataset: dataset


def parse_example_dataset(
    features: Any, num_parallel_calls: int | None = 1, deterministic: Any = None
) -> _Transformation:
    """Return ``tf.io.parse_example`` of batches of records, for ``Dataset.apply``.

    Args:
        features: As for ``tf.io.parse_example``.
        num_parallel_calls: As for ``Dataset.map``.
        deterministic: Accepted for compatibility.

    Example:
        >>> record = tf.train.Example().SerializeToString()
        >>> parse = parse_example_dataset({"x": tf.io.FixedLenFeature([], tf.int64, 7)})
        >>> [int(one["x"][0]) for one in Dataset.from_tensors([record]).apply(parse)]
        [7]
    """
    from ipu.tf.io import parse_example

    return lambda dataset: dataset.map(
        lambda records: parse_example(records, features), num_parallel_calls
    )


_MORE = """AUTOTUNE AutoShardPolicy CsvDataset INFINITE_CARDINALITY RandomDataset
Reducer SHARD_HINT UNKNOWN_CARDINALITY choose_from_datasets load make_csv_dataset
sample_from_datasets"""
export(__name__, defined(__name__, _MORE.split()))
