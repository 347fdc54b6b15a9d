# SPDX-License-Identifier: MIT
"""Shapes: the same elements in another shape, joined or taken apart."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu._text.arguments import checked_list
from ipu.tf._tensor import open_sizes, varying_sizes
from ipu.tf._tensor.convert import (
    Tensor,
    apply,
    axes_of,
    axis_of,
    known_value,
    like,
    sizes_of,
)
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import as_dtype, int32
from ipu.tf.tensor_shape import TensorShape


@op
def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """Return the same elements in another shape; one size may be -1 and is worked out.

    Args:
        tensor: Anything that converts to a tensor.
        shape: The sizes.

    Raises:
        ValueError: The sizes cannot fit the elements.

    Example:
        >>> tf.reshape(tf.range(6), (2, -1)).shape
        (2, 3)
    """
    value = Tensor(tensor)
    sizes = sizes_of(shape)
    if open_sizes.is_guess(*sizes):
        guess = open_sizes.take()
        sizes = [guess if size == -1 and guess else size for size in sizes]
        return open_sizes.stand_in(value.dtype, sizes)
    if sizes.count(-1) > 1:
        raise ValueError(
            f"Only one size of a shape can be -1. Received: {tuple(sizes)}."
        )
    if -1 in sizes:
        count = int(np.prod(value.shape, dtype=np.int64))
        known = int(np.prod([s for s in sizes if s != -1], dtype=np.int64))
        if known == 0 or count % known:
            raise ValueError(
                f"Cannot reshape {value.shape} to {tuple(sizes)}: {count} elements "
                f"do not divide by {known}."
            )
        sizes[sizes.index(-1)] = count // known
    try:
        return apply("reshape", (value,), {"shape": sizes})
    except Exception:
        varying_sizes.say(sizes)
        raise


@op
def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """Return ``x``, whose shape must be ``shape``; None there stands for any size.

    Raises:
        ValueError: It is not.

    Example:
        >>> tf.ensure_shape([[1, 2]], (None, 2)).shape
        (1, 2)
    """
    value = Tensor(x)
    wanted = None if shape is None else tuple(checked_list("shape", shape))
    if wanted is not None and (
        len(wanted) != value.ndim
        or any(w not in (None, s) for w, s in zip(wanted, value.shape, strict=True))
    ):
        with contextlib.suppress(ValueError):  # of a result of Python's it is set
            value.set_shape(wanted)
            return value
        raise ValueError(
            f"Shape of tensor {value.shape} is not compatible with expected shape "
            f"{wanted}."
        )
    return value


@op
def transpose(
    a: Any, perm: Any = None, conjugate: bool = False, name: str = ""
) -> Tensor:
    """Return axes in another order; reversed where ``perm`` is None.

    Args:
        a: Anything that converts to a tensor.
        perm: For each axis of the result, which axis of ``a`` it is.
        conjugate: Accepted: the tensors are real.

    Example:
        >>> tf.transpose([[1, 2, 3]]).numpy().tolist()
        [[1], [2], [3]]
    """
    value = Tensor(a)
    if perm is None:
        order = list(builtins.range(value.ndim))[::-1]
    else:
        order = [axis_of(axis, value.ndim) for axis in known_value(perm, "perm")]
    return apply("transpose", (value,), {"perm": order})


@op
def expand_dims(input: Any, axis: int, name: str | None = None) -> Tensor:
    """Insert an axis of size 1 at ``axis`` (negative counts from the end).

    Example:
        >>> tf.expand_dims([1, 2], -1).shape
        (2, 1)
    """
    value = Tensor(input)
    shape = list(value.shape)
    shape.insert(axis_of(axis, value.ndim + 1), 1)
    return apply("reshape", (value,), {"shape": shape})


@op
def squeeze(input: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Remove axes of size 1: those of ``axis``, or all of them.

    Example:
        >>> tf.squeeze([[[1, 2]]], axis=0).shape
        (1, 2)
    """
    value = Tensor(input)
    ones = [i for i, s in enumerate(value.shape) if s == 1]
    named = axis is not None and not (isinstance(axis, list) and not axis)
    axes = axes_of(axis, value.ndim) if named else ones
    for i in axes:
        if value.shape[i] != 1:
            raise ValueError(
                f"Can not squeeze dim[{i}], expected a dimension of 1, got "
                f"{value.shape[i]}: cannot squeeze axis {i} of shape {value.shape}."
            )
    shape = [s for i, s in enumerate(value.shape) if i not in axes]
    return apply("reshape", (value,), {"shape": shape})


@op
def broadcast_to(input: Any, shape: Any, name: str = "") -> Tensor:
    """Repeat ``input`` along axes of size 1 and new leading axes.

    Example:
        >>> tf.broadcast_to([1, 2], (2, 2)).numpy().tolist()
        [[1, 2], [1, 2]]
    """
    return apply("broadcast", (Tensor(input),), {"shape": sizes_of(shape)})


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """Return the shape that operands of these two shapes give.

    Example:
        >>> tf.broadcast_static_shape((3, 1), (4,)).as_list()
        [3, 4]
    """
    return TensorShape(np.broadcast_shapes(tuple(shape_x), tuple(shape_y)))


@op
def concat(values: Any, axis: int, name: str = "concat") -> Tensor:
    """Join tensors along an existing axis.

    Args:
        values: A list of tensors that agree in all other axes.
        axis: Which axis.

    Example:
        >>> tf.concat([[1, 2], [3]], axis=0).numpy().tolist()
        [1, 2, 3]
    """
    if isinstance(values, Tensor):
        values = unstack(values)
    checked_list("values", values)
    first = next((Tensor(v) for v in values if hasattr(v, "dtype")), None)
    tensors = [Tensor(v) if first is None else like(v, first) for v in values]
    index = axis_of(known_value(axis, "axis"), tensors[0].ndim) if tensors else 0
    return apply("concat", tensors, {"axis": index})


@op
def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Join tensors of one shape along a new axis.

    Example:
        >>> tf.stack([[1, 2], [3, 4]], axis=1).numpy().tolist()
        [[1, 3], [2, 4]]
    """
    items = (
        unstack(values)
        if isinstance(values, Tensor)
        else list(checked_list("values", values))
    )
    first = next((Tensor(v) for v in items if hasattr(v, "dtype")), None)
    tensors = [Tensor(v) if first is None else like(v, first) for v in items]
    for tensor in tensors[1:]:
        if tensor.shape != tensors[0].shape:
            raise ValueError(
                f"Shapes must be equal, but are {tensors[0].shape} and {tensor.shape}."
            )
    return concat([expand_dims(tensor, axis) for tensor in tensors], axis)


@op
def unstack(
    value: Any, num: int | None = None, axis: int = 0, name: str = ""
) -> list[Tensor]:
    """Return the tensors that ``stack`` would join, as a list.

    Args:
        value: Anything that converts to a tensor.
        num: How many there are; checked where given.
        axis: The axis that goes.

    Example:
        >>> [t.numpy().tolist() for t in tf.unstack([[1, 2], [3, 4]])]
        [[1, 2], [3, 4]]
    """
    tensor = Tensor(value)
    index = axis_of(axis, tensor.ndim)
    count = tensor.shape[index]
    if num is not None and num != count:
        raise ValueError(f"Cannot unstack {num} tensors from shape {tensor.shape}.")
    before: tuple[Any, ...] = (slice(None),) * index
    indices = [(*before, i) for i in builtins.range(count)]
    return [tensor[index] for index in indices]


@op
def split(
    value: Any,
    num_or_size_splits: Any,
    axis: int = 0,
    num: int | None = None,
    name: str = "split",
) -> list[Tensor]:
    """Cut a tensor into pieces along ``axis``.

    Args:
        value: Anything that converts to a tensor.
        num_or_size_splits: A number of equal pieces, or the size of each; one of these
            may be -1 and is worked out.
        axis: Which axis.
        num: Accepted and not used.

    Raises:
        ValueError: The pieces do not make up the axis.

    Example:
        >>> [t.numpy().tolist() for t in tf.split([1, 2, 3, 4], 2)]
        [[1, 2], [3, 4]]
        >>> [t.numpy().tolist() for t in tf.split([1, 2, 3, 4], [1, -1])]
        [[1], [2, 3, 4]]
    """
    tensor = Tensor(value)
    index = axis_of(known_value(axis, "axis"), tensor.ndim)
    whole = tensor.shape[index]
    given = known_value(num_or_size_splits, "num_or_size_splits")
    if given.ndim == 0:
        count = int(given)
        if count < 1 or whole % count:
            raise ValueError(
                f"Dimension size, {whole}, must be evenly divisible by {count}."
            )
        sizes = [whole // count] * count
    else:
        sizes = [int(size) for size in given]
        if sizes.count(-1) == 1:
            sizes[sizes.index(-1)] = whole - sum(sizes) - 1
        if open_sizes.is_guess(*sizes):
            shape = tensor.shape
            return [
                open_sizes.stand_in(
                    tensor.dtype, [*shape[:index], size, *shape[index + 1 :]]
                )
                for size in sizes
            ]
        if sum(sizes) != whole or any(size < 0 for size in sizes):
            raise ValueError(
                f"Pieces of sizes {given.tolist()} do not make up an axis of {whole}."
            )
    before: tuple[Any, ...] = (slice(None),) * index
    ends = np.cumsum(sizes).tolist()
    indices = [
        (*before, slice(end - size, end)) for end, size in zip(ends, sizes, strict=True)
    ]
    return [tensor[index] for index in indices]


@op
def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """Return a box of ``input_`` that starts at ``begin``; size -1 is all that is left.

    Example:
        >>> tf.slice([[1, 2, 3], [4, 5, 6]], [0, 1], [-1, 2]).numpy().tolist()
        [[2, 3], [5, 6]]
    """
    tensor = Tensor(input_)
    first, wanted = sizes_of(begin), sizes_of(size)
    if not len(first) == len(wanted) == tensor.ndim:
        raise ValueError(
            f"tf.slice takes one number for each of the {tensor.ndim} axes. Received: "
            f"begin={first}, size={wanted}."
        )
    sizes = [
        whole - b if s == -1 else s
        for whole, b, s in zip(tensor.shape, first, wanted, strict=True)
    ]
    if open_sizes.is_guess(*first, *wanted):
        return open_sizes.stand_in(tensor.dtype, sizes)
    return apply("slice", (tensor,), {"begin": first, "size": sizes})


@op
def strided_slice(
    input_: Any, begin: Any, end: Any, strides: Any = None, name: str | None = None
) -> Tensor:
    """Return the elements from ``begin`` up to ``end`` by ``strides``, for leading
    axes.

    Example:
        >>> tf.strided_slice([1, 2, 3, 4, 5], [0], [5], [2]).numpy().tolist()
        [1, 3, 5]
    """
    first, last = sizes_of(begin), sizes_of(end)
    steps = [1] * len(first) if strides is None else sizes_of(strides)
    key = tuple(slice(b, e, s) for b, e, s in zip(first, last, steps, strict=True))
    result: Tensor = Tensor(input_)[key]
    return result


@op
def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    """Return the same bytes as elements of another dtype.

    Example:
        >>> tf.bitcast([1.0], tf.int32).numpy().tolist()
        [1065353216]
    """
    return apply("bitcast", (Tensor(input),), {"dtype": as_dtype(type).name})


@op
def shape(input: Any, out_type: Any = int32, name: str | None = None) -> Tensor:
    """Return the shape as a vector of integers; it is known when a function is traced.

    Example:
        >>> tf.shape([[1, 2, 3]]).numpy().tolist()
        [1, 3]
    """
    sizes = np.array(Tensor(input).shape, dtype=as_dtype(out_type).as_numpy_dtype)
    return Tensor(sizes)


@op
def shape_n(
    input: Sequence[Any], out_type: Any = int32, name: str | None = None
) -> list[Tensor]:
    """Return the shape of each tensor of a list.

    Example:
        >>> [s.numpy().tolist() for s in tf.shape_n([[1, 2], [[3]]])]
        [[2], [1, 1]]
    """
    return [shape(item, out_type) for item in checked_list("input", input)]


@op
def rank(input: Any, name: str | None = None) -> Tensor:
    """Return the number of dimensions, an int32 scalar.

    Example:
        >>> int(tf.rank([[1, 2]]))
        2
    """
    return Tensor(np.array(Tensor(input).ndim, dtype=np.int32))


@op
def size(input: Any, out_type: Any = int32, name: str | None = None) -> Tensor:
    """Return the number of elements, a scalar.

    Example:
        >>> int(tf.size([[1, 2, 3]]))
        3
    """
    count = np.prod(Tensor(input).shape, dtype=np.int64)
    return Tensor(np.array(count, dtype=as_dtype(out_type).as_numpy_dtype))
