# SPDX-License-Identifier: MIT
"""Sums and extremes of the elements that share a number; counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ipu.tf._tensor import open_sizes
from ipu.tf._tensor.convert import Tensor, apply, cast, known_count, known_value, like
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import as_dtype, int32


def _groups(segment_ids: Any, count: int) -> Tensor:
    """Return the ids as rows of a table with one row more: negative ids go there and
    are dropped; ids that are too large stay out of range, and so are an error."""
    ids = Tensor(segment_ids)
    shifted = ids + cast(ids >= count, ids.dtype)
    return apply("select", (ids < 0, like(count, ids), shifted))


def _sums(data: Tensor, segment_ids: Any, count: int) -> Tensor:
    ids = _groups(segment_ids, count)
    rest = data.shape[ids.ndim :]
    attrs = {"shape": [count + 1, *rest], "axis": 0}
    return apply("gather_grad", (ids, data), attrs)[:count]


def _extremes(data: Tensor, segment_ids: Any, count: int, reduction: int) -> Tensor:
    ids = _groups(segment_ids, count)
    rest = data.shape[ids.ndim :]
    own = data.dtype
    start = {2: 1, 3: own.max, 4: own.min}[reduction]
    empty = Tensor(np.array(start, own.as_numpy_dtype))
    table = apply("broadcast", (empty,), {"shape": [count + 1, *rest]})
    points = apply("reshape", (ids,), {"shape": [*ids.shape, 1]})
    attrs = {"reduction": reduction}
    return apply("tensor_scatter", (table, points, data), attrs)[:count]


def _mean(data: Tensor, segment_ids: Any, count: int) -> Tensor:
    ids = Tensor(segment_ids)
    ones = apply("broadcast", (like(1, data),), {"shape": ids.shape})
    sizes = apply("maximum", (_sums(ones, ids, count), like(1, data)))
    total = _sums(data, ids, count)
    sizes = apply(
        "reshape", (sizes,), {"shape": [count] + [1] * (data.ndim - ids.ndim)}
    )
    return total / sizes if data.dtype.is_floating else total // sizes


_FAMILIES: dict[str, Callable[[Tensor, Any, int], Tensor]] = {
    "sum": _sums,
    "mean": _mean,
    "prod": lambda data, ids, count: _extremes(data, ids, count, 2),
    "min": lambda data, ids, count: _extremes(data, ids, count, 3),
    "max": lambda data, ids, count: _extremes(data, ids, count, 4),
}


def _unsorted(kind: str, text: str, result: str) -> Callable[..., Tensor]:
    def function(
        data: Any, segment_ids: Any, num_segments: Any, name: str = ""
    ) -> Tensor:
        count = known_count(num_segments, "num_segments")
        return _FAMILIES[kind](Tensor(data), segment_ids, count)

    name = f"unsorted_segment_{kind}"
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return {text} of the elements with each number.

    Args:
        data: Anything that converts to a tensor of numbers.
        segment_ids: Integers in the shape of the first axes of ``data``; elements whose
            number is negative are left out.
        num_segments: How many numbers there are; known when a function is traced.

    Raises:
        InvalidArgumentError: A number is ``num_segments`` or more.

    Example:
        >>> tf.math.{name}([1, 2, 3], [0, 1, 0], 2).numpy().tolist()
        {result}
    """
    return op(function)


unsorted_segment_sum = _unsorted("sum", "the sum", "[4, 2]")
unsorted_segment_mean = _unsorted("mean", "the mean", "[2, 2]")
unsorted_segment_prod = _unsorted("prod", "the product", "[3, 2]")
unsorted_segment_min = _unsorted("min", "the least", "[1, 2]")
unsorted_segment_max = _unsorted("max", "the largest", "[3, 2]")


@op
def unsorted_segment_sqrt_n(
    data: Any, segment_ids: Any, num_segments: Any, name: str = ""
) -> Tensor:
    """Return the sum of the elements with each number, divided by the root of their
    count.

    Example:
        >>> tf.math.unsorted_segment_sqrt_n([2.0] * 4, [0] * 4, 1).numpy().tolist()
        [4.0]
    """
    values, ids = Tensor(data), Tensor(segment_ids)
    count = known_count(num_segments, "num_segments")
    ones = apply("broadcast", (like(1, values),), {"shape": ids.shape})
    sizes = apply("maximum", (_sums(ones, ids, count), like(1, values)))
    shape = [count] + [1] * (values.ndim - ids.ndim)
    return _sums(values, ids, count) / apply(
        "reshape", (apply("sqrt", (sizes,)),), {"shape": shape}
    )


def _sorted(kind: str, text: str, result: str) -> Callable[..., Tensor]:
    def function(data: Any, segment_ids: Any, name: str = "") -> Tensor:
        ids = Tensor(segment_ids)
        if ids.is_symbolic:
            error = TypeError(
                f"tf.math.segment_{kind} has as many rows as there are numbers, which "
                "is not known when a function is compiled. Use "
                f"tf.math.unsorted_segment_{kind}, which takes num_segments."
            )
            rows = Tensor(data)
            made: Tensor = open_sizes.guessed_or(
                error, (rows.dtype, (None, *rows.shape[1:]))
            )
            return made
        numbers = np.asarray(ids)
        if numbers.ndim != 1:
            raise ValueError(
                "`segment_ids` must be a vector, with a number for each row. Received "
                f"a shape of {numbers.shape}."
            )
        if np.any(numbers[1:] < numbers[:-1]):
            raise ValueError("segment ids are not increasing")
        count = int(numbers[-1]) + 1 if numbers.size else 0
        values = Tensor(data)
        result = _FAMILIES[kind](values, ids, count)
        missing = np.setdiff1d(np.arange(count), numbers)
        if kind in ("min", "max") and missing.size:  # rows without elements are 0
            present = np.isin(np.arange(count), numbers)
            shape = [count] + [1] * (values.ndim - 1)
            mask = Tensor(present.reshape(shape))
            result = apply("select", (mask, result, like(0, result)))
        return result

    name = f"segment_{kind}"
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return {text} of the elements with each number.

    Args:
        data: Anything that converts to a tensor of numbers.
        segment_ids: Integers, one for each row of ``data``, in ascending order; their
            values must be known.

    Raises:
        TypeError: The numbers are computed by a function that is being traced.

    Example:
        >>> tf.math.{name}([1, 2, 3], [0, 0, 1]).numpy().tolist()
        {result}
    """
    return op(function)


segment_sum = _sorted("sum", "the sum", "[3, 3]")
segment_mean = _sorted("mean", "the mean", "[1, 3]")
segment_prod = _sorted("prod", "the product", "[2, 3]")
segment_min = _sorted("min", "the least", "[1, 3]")
segment_max = _sorted("max", "the largest", "[2, 3]")


@op
def bincount(
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = int32,
    name: str | None = None,
) -> Tensor:
    """Return how often each number occurs, or the sum of its weights.

    Args:
        arr: Integers that are not negative.
        weights: One for each of them, or None.
        minlength: The least length of the result.
        maxlength: Its largest length; larger numbers are left out. Within a traced
            function both must be given and equal.
        dtype: Of the result without weights.

    Example:
        >>> tf.math.bincount([1, 1, 3]).numpy().tolist()
        [0, 2, 0, 1]
    """
    numbers = Tensor(arr)
    flat = apply("reshape", (numbers,), {"shape": [int(np.prod(numbers.shape))]})
    if numbers.is_symbolic:
        if minlength is None or minlength != maxlength:
            error = TypeError(
                "tf.math.bincount needs minlength and maxlength, equal to each other, "
                "within a traced function: shapes on the device are static."
            )
            kind = dtype if weights is None else Tensor(weights).dtype
            counts: Tensor = open_sizes.guessed_or(error, (as_dtype(kind), (None,)))
            return counts
        count = int(minlength)
    else:
        largest = np.asarray(flat).max(initial=-1) + 1
        count = int(max(largest, 0 if minlength is None else minlength))
        count = count if maxlength is None else min(count, int(maxlength))
    ids = apply("select", (flat < count, flat, like(-1, flat)))
    kind = as_dtype(dtype)
    if weights is None:
        ones = apply("broadcast", (Tensor(1, kind.name),), {"shape": flat.shape})
        return _sums(ones, ids, count)
    amounts = Tensor(weights)
    return _sums(apply("reshape", (amounts,), {"shape": flat.shape}), ids, count)


@op
def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    weights: Any = None,
    dtype: Any = int32,
    name: str | None = None,
) -> Tensor:
    """Return how often each class (rows) was taken for each class (columns).

    Args:
        labels: Class numbers [n].
        predictions: Class numbers [n].
        num_classes: How many classes there are; None: one more than the largest number,
            which then must be known.
        weights: One for each pair, or None.
        dtype: Of the result.

    Example:
        >>> tf.math.confusion_matrix([0, 1, 1], [0, 0, 1]).numpy().tolist()
        [[1, 0], [1, 1]]
    """
    rows, columns = Tensor(labels), Tensor(predictions)
    if num_classes is None:
        both = [known_value(t, "num_classes (or the labels)") for t in (rows, columns)]
        num_classes = max(int(a.max(initial=-1)) for a in both) + 1
    count = known_count(num_classes, "num_classes")
    points = [apply("reshape", (t,), {"shape": [*t.shape, 1]}) for t in (rows, columns)]
    indices = apply("concat", points, {"axis": 1})
    kind = as_dtype(dtype).name
    one = Tensor(1, kind) if weights is None else Tensor(weights, kind)
    amounts = apply("broadcast", (one,), {"shape": rows.shape})
    return apply("scatter_nd", (indices, amounts), {"shape": [count, count]})
