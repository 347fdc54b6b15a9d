# SPDX-License-Identifier: MIT
"""Examples, the messages that records hold, as tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ipu import _core
from ipu._text.errors import InvalidArgumentError
from ipu.tf._string_ops.tensors import StringTensor, to_bytes
from ipu.tf._tensor import varying_sizes
from ipu.tf.dtypes import as_dtype, string
from ipu.tf.sparse import SparseTensor

_KINDS = {"string": "bytes_list", "float32": "float_list", "int64": "int64_list"}


class FixedLenFeature(NamedTuple):
    """A feature of as many values as ``shape`` holds.

    Attributes:
        shape: Sizes, or one number.
        dtype: float32, int64 or string.
        default_value: For examples without the feature; None: they are an error.

    Example:
        >>> features = {"age": tf.io.FixedLenFeature([], tf.int64, default_value=-1)}
    """

    shape: Any
    dtype: Any
    default_value: Any = None


class FixedLenSequenceFeature(NamedTuple):
    """A feature of any number of pieces of one shape: dense, with one more axis.

    Attributes:
        shape: Sizes of a piece.
        dtype: float32, int64 or string.
        allow_missing: Must be True.
        default_value: A value to fill shorter rows of a batch with; None: 0 or "".

    Example:
        >>> tf.io.FixedLenSequenceFeature([2], tf.float32, allow_missing=True).shape
        [2]
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature of any number of values.

    It is parsed to a ``tf.sparse.SparseTensor``, which ``tf.sparse.to_dense`` fills up.

    Attributes:
        dtype: float32, int64 or string.

    Example:
        >>> tf.io.VarLenFeature(tf.int64).dtype.name
        'int64'
    """

    dtype: Any


def parse_single_example(
    serialized: Any,
    features: Mapping[str, Any],
    example_names: Any = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Read the features of a serialized ``tf.train.Example``.

    Args:
        serialized: One string.
        features: For each name a :class:`FixedLenFeature`,
            :class:`FixedLenSequenceFeature` or :class:`VarLenFeature`.
        example_names: A name for messages.

    Returns:
        A tensor for each name.

    Raises:
        InvalidArgumentError: The string is not an example; a feature is missing, of
            another dtype, or of another number of values.
        ValueError: No features, or something that is not a specification.
        ImportError: The extra ``records`` is not installed.

    Example:
        >>> from ipu.tf import train
        >>> feature = train.Feature(int64_list=train.Int64List(value=[1, 2]))
        >>> features = train.Features(feature={"x": feature})
        >>> record = train.Example(features=features).SerializeToString()
        >>> spec = {"x": tf.io.FixedLenFeature([2], tf.int64)}
        >>> parse_single_example(record, spec)["x"].numpy().tolist()
        [1, 2]
    """
    text = StringTensor(serialized)
    if text.ndim:
        raise ValueError(
            "parse_single_example takes one string. "
            f"Received: a tensor of shape {text.shape}. Use parse_example."
        )
    parsed = _parsed([bytes(text)], features, [example_names])
    return {
        key: _sparse(rows, ())
        if isinstance(features[key], VarLenFeature)
        else _tensor(rows[0], features[key], 0)
        for key, rows in parsed.items()
    }


def parse_example(
    serialized: Any,
    features: Mapping[str, Any],
    example_names: Any = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Read the features of a vector of serialized examples.

    Args:
        serialized: A vector of strings, as ``batch`` makes them, or one string.
        features: As for :func:`parse_single_example`.
        example_names: Names for messages.

    Returns:
        A tensor for each name, with a first axis for the examples. Rows of features of
        any length are filled up to the longest one.

    Raises:
        InvalidArgumentError: As for :func:`parse_single_example`.

    Example:
        >>> feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
        >>> features = tf.train.Features(feature={"age": feature})
        >>> example = tf.train.Example(features=features)
        >>> wanted = {"age": tf.io.FixedLenFeature([], tf.int64)}
        >>> found = tf.io.parse_example([example.SerializeToString()], wanted)
        >>> found["age"].numpy().tolist()
        [7]
    """
    texts = np.asarray(StringTensor(serialized))
    if texts.ndim == 0:
        return parse_single_example(serialized, features, example_names)
    names = [None] * texts.size if example_names is None else list(example_names)
    made = {}
    for key, rows in _parsed(list(texts.ravel()), features, names).items():
        spec = features[key]
        if isinstance(spec, FixedLenFeature):
            made[key] = _tensor(np.stack(rows), spec, None)
        elif isinstance(spec, VarLenFeature):
            made[key] = _sparse(rows, (len(rows),))
        else:
            made[key] = _tensor(_padded(rows, spec), spec, 1)
    return made


def _padded(rows: list[np.ndarray[Any, Any]], spec: Any) -> np.ndarray[Any, Any]:
    """Return rows of different lengths as one array, filled up with the default
    value."""
    longest = max((len(row) for row in rows), default=0)
    dtype, fill = as_dtype(spec.dtype), spec.default_value
    if dtype == string:
        fill = to_bytes(b"" if fill is None else fill)
    whole = np.full(
        (len(rows), longest, *_sizes(spec)), 0 if fill is None else fill, _numpy(dtype)
    )
    for row, values in zip(whole, rows, strict=True):
        row[: len(values)] = values
    return whole


def _sparse(rows: list[np.ndarray[Any, Any]], batch: tuple[int, ...]) -> Any:
    """Return rows of different lengths as a sparse tensor; `batch` is () for one
    row."""
    places = [
        (number, at)[1 - len(batch) :]
        for number, row in enumerate(rows)
        for at in range(len(row))
    ]
    longest = max((len(row) for row in rows), default=0)
    values = np.concatenate([*rows]) if rows else np.empty(0, np.float32)
    return SparseTensor(places, values, (*batch, longest))


def _tensor(array: np.ndarray[Any, Any], spec: Any, axis: int | None) -> Any:
    if axis is not None and not isinstance(spec, FixedLenFeature):
        array = varying_sizes.varying(array, axis)
    return StringTensor(array) if array.dtype.kind == "O" else _core.Tensor(array)


def _parsed(
    texts: Iterable[bytes], features: Mapping[str, Any], names: list[Any]
) -> dict[str, list[np.ndarray[Any, Any]]]:
    """Return the arrays of the examples for each feature."""
    if not features:
        raise ValueError("Missing: features was {}.")
    for key, spec in features.items():
        _check(key, spec)
    from ipu.tf.train import Example

    columns: dict[str, list[np.ndarray[Any, Any]]] = {key: [] for key in features}
    for text, name in zip(texts, names, strict=True):
        where = f"Name: {name or '<unknown>'}"
        try:
            example = Example.FromString(text)
        except Exception as error:  # protobuf's DecodeError, which it has in two places
            raise InvalidArgumentError(
                f"{where}, Could not parse example input: {len(text)} bytes that are "
                "not a tf.train.Example."
            ) from error
        found = example.features.feature
        for key, spec in features.items():
            feature = found.get(key)
            columns[key].append(_values(f"{where}, Key: {key}", feature, spec))
    return columns


def _check(key: str, spec: Any) -> None:
    if not isinstance(spec, (FixedLenFeature, FixedLenSequenceFeature, VarLenFeature)):
        raise ValueError(
            f"features[{key!r}] must be a FixedLenFeature, FixedLenSequenceFeature or "
            f"VarLenFeature. Received: {spec!r}."
        )
    if as_dtype(spec.dtype).name not in _KINDS:
        raise ValueError(
            f"features[{key!r}] has dtype {as_dtype(spec.dtype).name}; examples hold "
            "float32, int64 and string. Cast what was parsed with tf.cast."
        )
    if isinstance(spec, FixedLenSequenceFeature) and not spec.allow_missing:
        raise ValueError(
            f"Unsupported: features[{key!r}], a FixedLenSequenceFeature, requires "
            "allow_missing to be True."
        )


def _values(where: str, feature: Any, spec: Any) -> np.ndarray[Any, Any]:
    dtype = as_dtype(spec.dtype)
    kind = feature.WhichOneof("kind") if feature is not None else None
    shape = _sizes(spec)
    if kind is None:
        default = getattr(spec, "default_value", None)
        if not isinstance(spec, FixedLenFeature):
            return np.empty((0, *shape), _numpy(dtype))
        if default is None:
            raise InvalidArgumentError(
                f"{where}. Feature (data type: {dtype.name}) is required but could not "
                "be found."
            )
        filled = np.asarray(StringTensor(default) if dtype == string else default)
        if filled.size == 1:
            return np.full(shape, filled.ravel()[0], _numpy(dtype))
        return filled.astype(_numpy(dtype)).reshape(shape)
    if kind != _KINDS[dtype.name]:
        raise InvalidArgumentError(
            f"{where}. Data types don't match. Expected type: {dtype.name}, but the "
            f"example has a {kind}."
        )
    values = getattr(feature, kind).value
    array = np.empty(len(values), _numpy(dtype))
    array[:] = values
    if not isinstance(spec, FixedLenFeature):
        piece = int(np.prod(shape))
        if piece and len(array) % piece:
            raise InvalidArgumentError(
                f"{where}. Number of values is {len(array)}, which is not a "
                f"multiple of the {piece} of shape {shape}."
            )
        return array.reshape(-1, *shape)
    if array.size != np.prod(shape):
        raise InvalidArgumentError(
            f"{where}. Number of {dtype.name} values != expected. "
            f"Values size: {array.size} but output shape: {list(shape)}."
        )
    return array.reshape(shape)


def _numpy(dtype: Any) -> Any:
    return object if dtype == string else dtype.as_numpy_dtype


def _sizes(spec: Any) -> tuple[int, ...]:
    if isinstance(spec, VarLenFeature):
        return ()
    shape = spec.shape
    return (int(shape),) if isinstance(shape, int) else tuple(int(n) for n in shape)
