# SPDX-License-Identifier: MIT
"""The data of ``fit``, ``evaluate`` and ``predict`` as a data set for the device.

Arrays become a shuffled and batched data set; what a user's data set gives is cast to
dtypes that a device has. Everything has known sizes when it leaves here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ipu import tf
from ipu.keras._seeds import generator
from ipu.keras._types import Nest
from ipu.keras.engine.step_plan import UNKNOWN
from ipu.tf._foreign import array_of

__all__ = ["Batches", "as_batches", "split_validation", "unpack"]

_DEVICE_DTYPES = frozenset({"float32", "float16", "int32", "int8", "uint8", "bool"})


class Batches(NamedTuple):
    """Batches of data.

    Attributes:
        dataset: A data set with known shapes and device dtypes.
        cardinality: How many batches, or INFINITE or UNKNOWN.
        source: What the user gave; the same object means the same data.
    """

    dataset: Any
    cardinality: int
    source: Any


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

    Returns:
        The batches.

    Raises:
        ValueError: Arguments that do not go together, a partial batch, open sizes.
        TypeError: Data of a kind or dtype that is not understood.
    """
    if hasattr(x, "element_spec") and hasattr(x, "cardinality"):
        return _from_dataset(x, y, sample_weight, batch_size)
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
    return _from_arrays(arrays, batch_size, shuffle, steps, (x, y, sample_weight))


# --- arrays -------------------------------------------------------------------------


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
    if dtype.name in _DEVICE_DTYPES:
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


def _from_arrays(
    arrays: tuple[Nest, ...],
    batch_size: int | None,
    shuffle: bool | str,
    steps: int | None,
    source: Any,
) -> Batches:
    leaves = tf.nest.flatten(arrays)
    for leaf in leaves:
        if leaf.ndim == 0:
            raise ValueError(
                "Arrays of data need a first axis of samples. Received: a scalar."
            )
    sizes = sorted({leaf.shape[0] for leaf in leaves})
    if len(sizes) != 1:
        lines = "\n".join(
            f"  {name} sizes: {', '.join(str(v.shape[0]) for v in tf.nest.flatten(a))}"
            for name, a in zip(("x", "y", "sample_weight"), arrays, strict=False)
        )
        raise ValueError(
            f"Data cardinality is ambiguous:\n{lines}\nMake sure all arrays contain "
            "the same number of samples."
        )
    samples = sizes[0]
    if samples == 0:
        raise TypeError(
            "dataset length is unknown: the arrays are empty. Received: 0 samples."
        )
    if batch_size is None:
        batch_size = math.ceil(samples / steps) if steps else min(32, samples)
    if isinstance(batch_size, bool) or int(batch_size) != batch_size or batch_size < 1:
        raise ValueError(
            f"`batch_size` must be a positive integer. Received: {batch_size!r}."
        )
    if samples % batch_size != 0:
        raise ValueError(
            "The provided set of data has a partial batch, which could result in data "
            f"being dropped. Received: {samples} samples and batch_size={batch_size}, "
            f"which leaves {samples % batch_size}. Use a batch_size that divides the "
            f"number of samples, such as {_divisor_near(samples, int(batch_size))}, or "
            "drop the rest yourself: tf.data.Dataset.from_tensor_slices((x, y))"
            f".batch({batch_size}, drop_remainder=True)."
        )
    count = samples // int(batch_size)
    # inputs alone, unless they are a nest that looks like (x, y)
    alone = len(arrays) == 1 and not isinstance(arrays[0], (list, tuple))
    dataset = tf.data.Dataset.from_tensor_slices(arrays[0] if alone else arrays)
    if shuffle and shuffle != "batch":
        dataset = dataset.shuffle(samples, seed=_shuffle_seed())
    dataset = dataset.batch(int(batch_size), drop_remainder=True)
    if shuffle == "batch":
        dataset = dataset.shuffle(count, seed=_shuffle_seed())
    if steps and steps < count:
        dataset, count = dataset.take(int(steps)), int(steps)
    return Batches(dataset, count, source)


def _shuffle_seed() -> int:
    return int(generator(None).integers(1 << 31))


def _divisor_near(number: int, near: int) -> int:
    divisors = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    divisors += [number // d for d in divisors]
    return min(divisors, key=lambda d: (abs(d - near), d))


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


# --- data sets ----------------------------------------------------------------------


def _from_dataset(
    dataset: Any, y: Any, sample_weight: Any, batch_size: int | None
) -> Batches:
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
    spec = dataset.element_spec
    for leaf in tf.nest.flatten(spec):
        if any(size is None for size in leaf.shape):
            raise ValueError(
                f"The data set has a shape that is not fully defined: {leaf.shape}. If "
                "you use Dataset.batch, make sure to set `drop_remainder=True`: "
                "programs are compiled for one batch size."
            )
        if len(leaf.shape) == 0:
            raise ValueError(
                "The elements of the data set must be batches, but there is a scalar "
                "among them. Use Dataset.batch(batch_size, drop_remainder=True)."
            )
    cardinality = int(dataset.cardinality())
    needs_cast = any(
        leaf.dtype.name not in _DEVICE_DTYPES for leaf in tf.nest.flatten(spec)
    )
    return Batches(
        _cast_elements(dataset) if needs_cast else dataset,
        UNKNOWN if cardinality < -1 else cardinality,
        dataset,
    )


def _cast_elements(dataset: Any) -> Any:
    def cast(leaf: Any) -> Any:
        dtype = tf.as_dtype(leaf.dtype)
        if dtype.name in _DEVICE_DTYPES:
            return leaf
        if not (dtype.is_floating or dtype.is_integer):
            raise TypeError(
                "The data set has a dtype that no device has. Received: "
                f"{dtype.name}. Map it to numbers."
            )
        return tf.cast(leaf, "float32" if dtype.is_floating else "int32")

    is_tuple = isinstance(dataset.element_spec, tuple)

    def function(*element: Any) -> Any:
        whole = element if is_tuple else element[0]
        return tf.nest.map_structure(cast, whole)

    return dataset.map(function)
