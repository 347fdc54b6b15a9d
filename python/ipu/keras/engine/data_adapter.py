# SPDX-License-Identifier: MIT
"""What users give ``fit``, ``evaluate`` and ``predict``, sorted by kind and checked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ipu import tf
from ipu.keras._types import Nest
from ipu.keras.engine.batches import (
    DEVICE_DTYPES,
    Batches,
    from_arrays,
    from_dataset,
)
from ipu.tf._foreign import array_of

__all__ = ["as_batches", "split_validation", "unpack"]


def unpack(element: Nest) -> tuple[Nest, Nest, Nest]:
    """Give the parts of an element: inputs, targets, sample weights.

    Args:
        element: ``x``, ``(x,)``, ``(x, y)`` or ``(x, y, sample_weight)``.

    Returns:
        The three; None for what is not there.

    Raises:
        ValueError: There are more parts.
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
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    batch_size: int | None = None,
    shuffle: bool | str = False,
    steps: int | None = None,
    call: str | None = None,
) -> Batches:
    """Make batches of whatever the user gave.

    Args:
        x: Arrays or tensors (also lists and dicts of them), or a ``tf.data.Dataset``.
        y: Targets; None with a data set.
        sample_weight: A weight for each sample; None with a data set.
        batch_size: Samples in a batch; None makes ``steps`` batches of arrays where
            that is given, else batches of 32, or one of all of them where there are
            fewer. Not with a data set, which is batched already.
        shuffle: Whether arrays are shuffled anew in every pass.
        steps: The steps of a pass, or None.
        call: The user's call where the IPU's rules hold (``"fit"``, ...), else None.

    Returns:
        The batches.

    Raises:
        ValueError: Arguments that do not go together; where the IPU's rules hold also
            a partial batch or open sizes.
        TypeError: Data of a kind or dtype that is not understood.
    """
    if hasattr(x, "element_spec") and hasattr(x, "cardinality"):
        _refuse_beside_dataset(y, sample_weight, batch_size)
        return from_dataset(x, steps, call is not None)
    if isinstance(x, Iterator) or (
        hasattr(x, "__getitem__") and hasattr(x, "on_epoch_end")
    ):
        raise ValueError(
            "Generators and keras.utils.Sequence are not compatible with the IPU's "
            "requirement to know the data shape ahead of time. Received: "
            f"{type(x).__name__}. Use tf.data.Dataset.from_generator with an "
            "output_signature."
        )
    parts = [x] if y is None else [x, y]
    if sample_weight is not None:
        if y is None:
            raise ValueError("`sample_weight` needs targets. Received: y=None.")
        parts.append(sample_weight)
    arrays = tuple(
        _as_arrays(part, name)
        for part, name in zip(parts, ("x", "y", "sample_weight"), strict=False)
    )
    source = (x, y, sample_weight)
    return from_arrays(arrays, batch_size, shuffle, steps, source, call)


def _refuse_beside_dataset(y: Any, sample_weight: Any, batch_size: int | None) -> None:
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(
                f"`{name}` argument is not supported when using dataset as input. Let "
                "the elements of the data set be tuples (x, y, sample_weight)."
            )
    if batch_size is not None:
        raise ValueError(
            "The `batch_size` argument must not be specified for the given input type. "
            f"Received: a data set and batch_size={batch_size}. Use Dataset.batch()."
        )


def _as_arrays(data: Nest, name: str) -> Nest:
    """Arrays of device dtypes, in tuples and dicts."""
    if isinstance(data, Mapping):
        return {key: _as_arrays(value, name) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        if _is_of_numbers(data):
            try:
                return _device_array(np.asarray(data), name)
            except ValueError:
                raise ValueError(
                    f"`{name}` is a list of lists of different lengths, which is no "
                    "array. Make all rows equally long, "
                    "for example with zeros at their ends."
                ) from None
        return tuple(_as_arrays(value, name) for value in data)
    if data is None:
        raise ValueError(f"Failed to find data for `{name}`. Received: None.")
    if hasattr(data, "iloc") and hasattr(data, "to_numpy"):  # a pandas object
        data = data.to_numpy()
    if not hasattr(data, "__array__") and hasattr(data, "__dlpack__"):
        data = array_of(data)
    if isinstance(data, str) or not hasattr(data, "__array__"):
        raise ValueError(
            f"Failed to find data adapter that can handle `{name}`. Received: "
            f"{type(data).__name__}. Give arrays, tensors or a tf.data.Dataset."
        )
    return _device_array(np.asarray(data), name)


def _is_of_numbers(data: Any) -> bool:
    """Whether a list, to its first leaf, is one of numbers: a single array."""
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

    Raises:
        ValueError: The data are no arrays, or one of the two would be empty.
    """
    if not 0.0 < fraction < 1.0:
        raise ValueError(
            "`validation_split` must be a number in (0, 1), the part of the samples "
            f"for validation. Received: validation_split={fraction!r}."
        )
    if hasattr(parts[0], "element_spec"):
        raise ValueError(
            "`validation_split` is only supported for Tensors or NumPy arrays. "
            "Received: a data set. Split it with `take` and `skip`."
        )
    arrays = [
        None if part is None else _as_arrays(part, name)
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
