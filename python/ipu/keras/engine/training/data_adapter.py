# SPDX-License-Identifier: MIT
"""The data of ``fit``, ``evaluate`` and ``predict``, sorted by kind and checked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ipu import tf
from ipu._text.user_warnings import warn_user
from ipu.keras._random_state import Order
from ipu.keras._sequence import number_of_batches
from ipu.keras._types import Nest
from ipu.keras.engine.training.batches import (
    Batches,
    common_length,
    element_of,
    from_arrays,
    from_dataset,
)
from ipu.keras.engine.training.host_sources import GeneratorSource, SequenceSource
from ipu.keras.engine.training.step_plan import INFINITE, UNKNOWN
from ipu.tf._string_ops.tensors import plain
from ipu.tf._tensor.foreign import array_of
from ipu.tf.dtypes import DEVICE_DTYPES

__all__ = [
    "Given",
    "Workers",
    "arrays_given",
    "arrays_of",
    "as_batches",
    "is_batched",
    "one_batch",
    "split_validation",
    "unpack",
]


class Workers(NamedTuple):
    """The threads that read batches of generators and sequences.

    Attributes:
        ahead: How many are read before they are asked for.
        threads: How many threads read; 0: none but that of the program.
    """

    ahead: int = 10
    threads: int = 1


class Given(NamedTuple):
    """The data that a user gave.

    Attributes:
        x: Arrays or tensors (also lists and dicts of them), a ``tf.data.Dataset``, a
            generator or a ``keras.utils.Sequence``.
        y: Targets; None with batches.
        sample_weight: A weight for each sample; None with batches.
        batch_size: Samples in a batch; None makes as many batches of arrays as a pass
            has steps where that is given, else batches of 32, or one of all of them
            where there are fewer. Not with what is batched already.
        shuffle: Whether arrays, or the batches of a sequence, are shuffled anew in
            every pass.
        workers: How generators and sequences are read.
    """

    x: Any
    y: Any = None
    sample_weight: Any = None
    batch_size: int | None = None
    shuffle: bool | str = False
    workers: Workers = Workers()


def _is_sequence(data: Any) -> bool:
    return hasattr(data, "__getitem__") and hasattr(data, "on_epoch_end")


def is_batched(data: Any) -> bool:
    """Return whether data are batches already: a data set, a generator or a
    sequence."""
    is_dataset = hasattr(data, "element_spec") and hasattr(data, "cardinality")
    return is_dataset or isinstance(data, Iterator) or _is_sequence(data)


def unpack(element: Nest) -> tuple[Nest, Nest, Nest]:
    """Return the parts of an element: inputs, targets, sample weights.

    Args:
        element: ``x``, ``(x,)``, ``(x, y)`` or ``(x, y, sample_weight)``.

    Returns:
        The three; None for what is not there.
    """
    if isinstance(element, list):
        element = tuple(element)
    if not isinstance(element, tuple):
        return element, None, None
    if not 1 <= len(element) <= 3:
        raise ValueError(
            "Data is expected to be in format `x`, `(x,)`, `(x, y)`, or "
            f"`(x, y, sample_weight)`. Received: a tuple of {len(element)}."
        )
    x, y, weight = (*element, None, None)[:3]
    return x, y, weight


def as_batches(
    given: Given,
    steps: int | None = None,
    call: str | None = None,
    order: Order | None = None,
) -> Batches:
    """Make batches of whatever the user gave.

    Args:
        given: The data.
        steps: The steps of a pass, or None.
        call: The user's call where the IPU's rules hold (``"fit"``, ...), else None.
        order: How data that are shuffled follow one another; None: a new order.
    """
    order = order or Order()
    x, y, sample_weight, batch_size, shuffle, workers = given
    if is_batched(x):
        _refuse_beside_batches(x, y, sample_weight, batch_size)
        if hasattr(x, "element_spec"):
            return from_dataset(x, steps, call)
        return _from_python(x, order if shuffle else None, call, workers)
    arrays = _arrays_of(x, y, sample_weight)
    return from_arrays(arrays, batch_size, shuffle, steps, call, order)


def arrays_given(given: Given) -> tuple[Nest, ...]:
    """Return inputs, targets and weights as arrays, as far as they are there.

    Args:
        given: Arrays.
    """
    return _arrays_of(given.x, given.y, given.sample_weight)


def one_batch(x: Any, y: Any = None, sample_weight: Any = None) -> Nest:
    """Make an element of whatever the user gave as one batch.

    Returns:
        Arrays of device dtypes, in the form of an element of ``as_batches``.
    """
    if is_batched(x):
        raise ValueError(
            "One batch is expected, but there are several. Received: "
            f"{type(x).__name__}. Give arrays, or use fit, evaluate or predict."
        )
    arrays = _arrays_of(x, y, sample_weight)
    common_length(arrays)
    return element_of(arrays)


def _arrays_of(x: Any, y: Any, sample_weight: Any) -> tuple[Nest, ...]:
    parts = [x] if y is None else [x, y]
    if sample_weight is not None:
        if y is None:
            raise ValueError("`sample_weight` needs targets. Received: y=None.")
        parts.append(sample_weight)
    return _named_arrays(parts)


def _named_arrays(parts: Sequence[Any]) -> tuple[Nest, ...]:
    """Return arrays of inputs, targets and weights, as far as they are there."""
    return tuple(map(arrays_of, parts, ("x", "y", "sample_weight")))


def _from_python(
    data: Any, order: Order | None, call: str | None, workers: Workers
) -> Batches:
    if call is not None:
        raise ValueError(
            "Generators and keras.utils.Sequence are not compatible with the IPU's "
            "requirement to know the data shape ahead of time. Received: "
            f"{type(data).__name__}. Use tf.data.Dataset.from_generator with an "
            "output_signature."
        )
    if not _is_sequence(data):
        ahead = workers.ahead if workers.threads else 0
        generator = GeneratorSource(data, _as_element, ahead)
        return Batches(None, UNKNOWN, is_open=True, read_by_host=generator)
    # a sequence of Keras 3 has them as attributes
    threads = getattr(data, "workers", None) or workers.threads
    ahead = getattr(data, "max_queue_size", None) or workers.ahead
    count = number_of_batches(data)
    sequence = SequenceSource(data, _as_element, order, threads, ahead)
    return Batches(
        None,
        INFINITE if count is None else count,
        is_endless=True,
        is_open=True,
        read_by_host=sequence,
    )


def _as_element(batch: Any) -> Nest:
    """Return tensors of a batch that Python made."""
    parts = unpack(batch)
    while len(parts) > 1 and parts[-1] is None:
        parts = parts[:-1]  # type: ignore[assignment]
    arrays = _named_arrays(parts)
    for leaf in tf.nest.flatten(arrays):
        if leaf.ndim == 0:
            raise ValueError(
                "A generator or a sequence must give batches, but there is a scalar "
                f"among them. Received: {batch!r}. Give arrays with a first "
                "axis of samples."
            )
    return tf.nest.map_structure(tf.convert_to_tensor, arrays)


def _refuse_beside_batches(
    x: Any, y: Any, sample_weight: Any, batch_size: int | None
) -> None:
    is_dataset = hasattr(x, "element_spec")
    kind = "dataset" if is_dataset else type(x).__name__
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(
                f"`{name}` argument is not supported when using {kind} as input. Let "
                "the batches be tuples (x, y, sample_weight)."
            )
    if batch_size is not None and is_dataset and _is_under_tensorflows_name():
        warn_user(
            f"`batch_size` is ignored where the data is a dataset, whose batches are "
            f"what Dataset.batch() made. Received: batch_size={batch_size!r}."
        )
    elif batch_size is not None:
        way = "Use Dataset.batch()." if is_dataset else "Its batches are what they are."
        raise ValueError(
            "The `batch_size` argument must not be specified for the given input type. "
            f"Received: a {kind} and batch_size={batch_size}. {way}"
        )


def _is_under_tensorflows_name() -> bool:
    """Return whether the program is one of the port's, which went on where we
    refuse."""
    from ipu import drop_in

    return drop_in.installed()


def arrays_of(data: Nest, name: str) -> Nest:
    """Return arrays of device dtypes, in tuples and dicts.

    Args:
        data: The data that the user gave.
        name: Its argument, for messages.
    """
    if isinstance(data, Mapping):
        return {key: arrays_of(value, name) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        if _is_of_numbers(data):
            try:
                return _device_array(np.asarray(data), name)
            except ValueError:
                raise ValueError(
                    f"`{name}` is a list of lists of different lengths, which is not "
                    "an array. Make all rows equally long, "
                    "for example with zeros at their ends."
                ) from None
        return tuple(arrays_of(value, name) for value in data)
    if data is None:
        raise ValueError(f"Failed to find data for `{name}`. Received: None.")
    data = plain(data)
    if not hasattr(data, "__array__") and hasattr(data, "__dlpack__"):
        data = array_of(data)
    if isinstance(data, str) or not hasattr(data, "__array__"):
        raise ValueError(
            f"Failed to find data adapter that can handle `{name}`. Received: "
            f"{type(data).__name__}. Give arrays, tensors, a tf.data.Dataset, a "
            "generator or a keras.utils.Sequence."
        )
    return _device_array(np.asarray(data), name)


def _is_of_numbers(data: Any) -> bool:
    """Return whether a list, to its first leaf, is one of numbers: a single array."""
    while isinstance(data, (list, tuple)):
        if not data:
            return False
        data = data[0]
    return isinstance(data, (int, float, bool))


def _device_array(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    dtype = array.dtype
    if dtype.name in DEVICE_DTYPES:
        return array
    if dtype.kind == "f":
        return array.astype(np.float32)
    if dtype.kind in "iu":
        if array.size and not (array.min() >= -(2**31) and array.max() < 2**31):
            raise ValueError(
                f"`{name}` has integers that do not fit into the device's int32. "
                f"Received: values from {array.min()} to {array.max()}."
            )
        return array.astype(np.int32)
    raise TypeError(
        f"`{name}` has a dtype that no device has. Received: {dtype}. Use numbers."
    )


def split_validation(
    parts: tuple[Any, Any, Any], fraction: float
) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]:
    """Split arrays: the last part of the samples is for validation.

    Args:
        parts: Inputs, targets and weights; None for what is not there.
        fraction: The part for validation, in (0, 1).

    Returns:
        The parts for training, and those for validation.
    """
    if not 0.0 < fraction < 1.0:
        raise ValueError(
            "`validation_split` must be a number in (0, 1), the part of the samples "
            f"for validation. Received: validation_split={fraction!r}."
        )
    if is_batched(parts[0]):
        is_dataset = hasattr(parts[0], "element_spec")
        way = "Split it with `take` and `skip`." if is_dataset else "Give two of them."
        raise ValueError(
            "`validation_split` is only supported for Tensors or NumPy arrays. "
            f"Received: a {'data set' if is_dataset else type(parts[0]).__name__}. "
            f"{way}"
        )
    arrays = [
        None if part is None else arrays_of(part, name)
        for part, name in zip(parts, ("x", "y", "sample_weight"), strict=True)
    ]
    samples = len(tf.nest.flatten(arrays[0])[0])
    cut = math.floor(samples * (1.0 - fraction))
    if cut in (0, samples):
        raise ValueError(
            f"Training data contains {samples} samples, which is not sufficient to "
            "split it into a validation and training set as specified by "
            f"`validation_split={fraction}`. Either provide more data, or a different "
            "value for the `validation_split` argument."
        )

    def cut_all(which: slice) -> Any:
        return tuple(
            None if a is None else tf.nest.map_structure(lambda v: v[which], a)
            for a in arrays
        )

    return cut_all(slice(None, cut)), cut_all(slice(cut, None))


def expand(element: Nest) -> Nest:
    """Make ``(batch, 1)`` of every leaf ``(batch,)``, as Keras does."""

    def one(leaf: Any) -> Any:
        if len(leaf.shape) == 1:
            return tf.reshape(leaf, (leaf.shape[0], 1))
        return leaf

    return tf.nest.map_structure(one, element)
