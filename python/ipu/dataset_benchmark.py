# SPDX-License-Identifier: MIT
"""``ipu.dataset_benchmark``: how fast a data set can feed a device.

Source: ``ipu.dataset_benchmark`` of the IPU API.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from ipu import tf
from ipu._text.exports import export
from ipu._text.log import logger
from ipu._text.suggestions import refuse_unknown
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.tf._graph import mode
from ipu.tf.data import Dataset, _live
from ipu.tf.tensor_spec import TensorSpec

__all__ = ["dataset_benchmark", "infeed_benchmark"]

_CHUNK_S = 0.05  # how long Ctrl-C may have to wait, about


class _Text:
    """A tensor of one string: what TensorFlow gives as a string tensor of shape [1].

    ``result[0]`` and ``result.numpy()[0]`` are the bytes.
    """

    shape = (1,)
    dtype = tf.string

    def __init__(self, text: str) -> None:
        self._bytes = text.encode()

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return an array of objects, of shape [1]."""
        return np.array([self._bytes], dtype=object)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.numpy()

    def __getitem__(self, index: Any) -> Any:
        return self.numpy()[index]

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[bytes]:
        return iter((self._bytes,))

    def __repr__(self) -> str:
        return f"<string tensor: shape=(1,), numpy={self.numpy()!r}>"


def _checked(name: str, value: Any) -> int:
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise ValueError(
            f"Expected `{name}` to be at least 1. Received: {name}={value!r}."
        )
    return int(value)


def _epoch(iterator: Any, count: int, copy: bool) -> tuple[int, float]:
    """Read `count` elements; gives bytes and seconds."""
    total, elapsed, chunk = 0, 0.0, 1
    while count > 0:
        chunk = min(chunk, count)
        size, seconds = iterator.read(chunk, copy)
        total += size
        elapsed += seconds
        count -= chunk
        if seconds < _CHUNK_S:
            chunk *= 2
    return total, elapsed


def dataset_benchmark(
    dataset: Any,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    apply_debug_options: bool = True,
    do_memcpy: bool = True,
    **kwargs: Any,
) -> Any:
    """Measure how fast a data set makes elements.

    One iterator is read for all epochs, so the data set must have
    ``number_of_epochs * elements_per_epochs`` elements (``repeat()``).

    Args:
        dataset: A ``tf.data.Dataset``.
        number_of_epochs: How often the reading is timed, at least 1.
        elements_per_epochs: Elements of each time, at least 1.
        print_stats: Whether elements and gigabytes per second are logged.
        apply_debug_options: Accepted for compatibility: there is nothing to switch off.
        do_memcpy: Whether each element is copied into memory, as an infeed does.
        **kwargs: ``apply_options``, the first release's name of that argument.

    Returns:
        A string tensor of shape [1]; in a graph of TensorFlow 1 it is measured when a
        session runs it. It holds JSON, ``{"epochs": [{...}, ...]}``, and
        for each epoch ``elements_processed``, ``total_bytes_processed``,
        ``time_elapsed`` in seconds, ``elements_per_second``, and ``bandwidth`` in
        gigabytes per second.

    Raises:
        TypeError: ``dataset`` is not one, or an unknown argument.
        ValueError: A number below 1.
        InvalidArgumentError: A tensor of the data set has a dimension of size 0.
        OutOfRangeError: The data set ends too early.

    Example:
        >>> import json
        >>> dataset = tf.data.Dataset.from_tensors(tf.ones((4,))).repeat()
        >>> result = dataset_benchmark(dataset, 10, 512)
        >>> len(json.loads(result[0])["epochs"])
        10
    """
    del apply_debug_options
    refuse_unknown("dataset_benchmark", kwargs, ("apply_options",))
    epochs = _checked("number_of_epochs", number_of_epochs)
    count = _checked("elements_per_epochs", elements_per_epochs)
    if not isinstance(dataset, Dataset):
        raise TypeError(
            "Expected `dataset` argument to be of type `tf.data.Dataset`, but got "
            f"{dataset!r}."
        )
    graph = mode.building()
    if graph is not None:
        return graph.python(
            "DatasetBenchmark",
            lambda: _measured(dataset, epochs, count, print_stats, do_memcpy),
            TensorSpec([1], "string"),
        )
    return _measured(dataset, epochs, count, print_stats, do_memcpy)


def _measured(
    dataset: Dataset, epochs: int, count: int, print_stats: bool, do_memcpy: bool
) -> _Text:
    iterator = _live.start_iterator(dataset._impl)
    results = []
    for epoch in range(epochs):
        size, seconds = _epoch(iterator, count, do_memcpy)
        seconds = max(seconds, 1e-9)
        result = {
            "elements_processed": float(count),
            "total_bytes_processed": float(size),
            "time_elapsed": seconds,
            "elements_per_second": count / seconds,
            "bandwidth": size / 1e9 / seconds,
        }
        results.append(result)
        if print_stats:
            logger.info("Processed: %g elements/second.", result["elements_per_second"])
            logger.info("Bandwidth: %g GB/s.", result["bandwidth"])
        logger.info("Dataset iterator completed epoch %d.", epoch)
    iterator.close()
    return _Text(json.dumps({"epochs": results}))


def infeed_benchmark(
    infeed_queue: Any,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    do_memcpy: bool = True,
) -> Any:
    """Measure how fast the data set of an infeed makes elements.

    The queue itself is not touched; its data set is read from the start.

    Args:
        infeed_queue: An ``IPUInfeedQueue``.
        number_of_epochs, elements_per_epochs, print_stats, do_memcpy: As for
            :func:`dataset_benchmark`.

    Returns:
        As :func:`dataset_benchmark`.

    Raises:
        TypeError: ``infeed_queue`` is not one.
        ValueError: A number below 1.
        InvalidArgumentError: A tensor of the data set has a dimension of size 0.
        OutOfRangeError: The data set ends too early.

    Example:
        >>> import json
        >>> dataset = tf.data.Dataset.from_tensors(tf.ones((4,))).repeat()
        >>> queue = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
        >>> len(json.loads(infeed_benchmark(queue, 2, 64)[0])["epochs"])
        2
    """
    if not isinstance(infeed_queue, IPUInfeedQueue):
        raise TypeError(
            "Expected `infeed_queue` argument to be of type `IPUInfeedQueue`, but got "
            f"{infeed_queue!r}."
        )
    return dataset_benchmark(
        infeed_queue._dataset,
        number_of_epochs,
        elements_per_epochs,
        print_stats,
        do_memcpy=do_memcpy,
    )


export(__name__)
