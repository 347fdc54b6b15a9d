# SPDX-License-Identifier: MIT
"""Ops with TensorFlow's names: each is one or a few rows of the core's op table.

Arguments may be tensors, variables, NumPy arrays, numbers or nested lists; a number
takes the dtype of the tensor beside it. Shape and dtype errors come from the core and
name the op, the shapes and the user's line.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu.tf.dtypes import DType, as_dtype, float32

Tensor = _core.Tensor
apply = _core.apply


def convert_to_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Give ``value`` as a tensor.

    Args:
        value: A tensor, variable, array, number, or nested list of them.
        dtype: The element type, or None: Python ints become int32, floats float32,
            arrays keep theirs.
        name: Accepted and not used.

    Raises:
        TypeError: ``value`` cannot be converted, or it is a tensor of another dtype.

    Example:
        >>> from ipu import tf
        >>> tf.convert_to_tensor([1, 2]).dtype
        tf.int32
    """
    tensor = Tensor(value)
    if dtype is None or tensor.dtype == dtype:
        return tensor
    if isinstance(value, Tensor) or hasattr(value, "__ipu_tensor__"):
        raise TypeError(
            f"Tensor conversion requested dtype {as_dtype(dtype).name} for a tensor of "
            f"dtype {tensor.dtype.name}. Use tf.cast."
        )
    return Tensor(value, as_dtype(dtype).name)


def constant(
    value: Any, dtype: Any = None, shape: Sequence[int] | None = None, name: str = ""
) -> Tensor:
    """A tensor of known values.

    Args:
        value: Number, array or nested list.
        dtype: Its element type, or None for that of the value.
        shape: The result's shape; one value fills it, else the counts must agree.
        name: Accepted and not used.
    """
    tensor = convert_to_tensor(value, dtype)
    if shape is None or tuple(shape) == tensor.shape:
        return tensor
    if int(np.prod(tensor.shape, dtype=np.int64)) == 1:
        return broadcast_to(reshape(tensor, ()), shape)
    return reshape(tensor, shape)


def cast(x: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Convert the elements of ``x``; floats to ints cut off, numbers to bool compare
    with 0.

    Example:
        >>> from ipu import tf
        >>> tf.cast([1.7, -1.7], tf.int32).numpy().tolist()
        [1, -1]
    """
    tensor = Tensor(x)
    if tensor.dtype == dtype:
        return tensor
    return apply("cast", (tensor,), {"dtype": as_dtype(dtype).name})


# --- element-wise ------------------------------------------------------------------


def _unary(op: str, text: str) -> Callable[..., Tensor]:
    def function(x: Any, name: str | None = None) -> Tensor:
        return apply(op, (x,))

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"{text} of each element of ``x``."
    return function


def _binary(op: str, text: str) -> Callable[..., Tensor]:
    def function(x: Any, y: Any, name: str | None = None) -> Tensor:
        return apply(op, (x, y))

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"{text}, element by element with broadcasting."
    return function


negative = _unary("neg", "The negative")
abs = _unary("abs", "The absolute value")
sign = _unary("sign", "The sign (-1, 0, 1)")
floor = _unary("floor", "The largest integer not above")
exp = _unary("exp", "The exponential")
log = _unary("log", "The natural logarithm")
sqrt = _unary("sqrt", "The square root")
rsqrt = _unary("rsqrt", "One over the square root")
square = _unary("square", "The square")
tanh = _unary("tanh", "The hyperbolic tangent")
sigmoid = _unary("sigmoid", "The logistic function")
relu = _unary("relu", "The larger of 0 and the element,")
logical_not = _unary("logical_not", "The negation")
identity = _unary("identity", "A copy")
stop_gradient = _unary("stop_gradient", "The value without a gradient")
add = _binary("add", "x + y")
subtract = _binary("sub", "x - y")
multiply = _binary("mul", "x * y")
floordiv = _binary("floor_div", "x // y")
floormod = _binary("floor_mod", "x % y with the sign of y")
pow = _binary("pow", "x to the power of y")
maximum = _binary("maximum", "The larger of x and y")
minimum = _binary("minimum", "The smaller of x and y")
equal = _binary("equal", "x == y")
not_equal = _binary("not_equal", "x != y")
less = _binary("less", "x < y")
less_equal = _binary("less_equal", "x <= y")
greater = _binary("greater", "x > y")
greater_equal = _binary("greater_equal", "x >= y")
logical_and = _binary("logical_and", "x and y")
logical_or = _binary("logical_or", "x or y")


def divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """``x / y`` element by element; integers divide in float32."""
    result: Tensor = Tensor(x) / y if not isinstance(x, Tensor) else x / y
    return result


def where(condition: Any, x: Any, y: Any, name: str | None = None) -> Tensor:
    """Elements of ``x`` where ``condition`` holds, else of ``y``; all three broadcast.

    Args:
        condition: bool.
        x: Taken where True.
        y: Taken where False; of the dtype of ``x``.
        name: Accepted and not used.

    Example:
        >>> from ipu import tf
        >>> tf.where([True, False], [1.0, 2.0], 0.0).numpy().tolist()
        [1.0, 0.0]
    """
    if isinstance(x, (int, float)) and not isinstance(y, (int, float)):
        y = Tensor(y)
        x = Tensor(x, y.dtype.name)
    elif isinstance(y, (int, float)):
        x = Tensor(x)
        y = Tensor(y, x.dtype.name)
    return apply("select", (Tensor(condition), Tensor(x), Tensor(y)))


# --- products and reductions -------------------------------------------------------


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """Matrix product over the last two axes; leading axes broadcast.

    Args:
        a: [..., m, k], or [..., k, m] with ``transpose_a``.
        b: [..., k, n], or [..., n, k] with ``transpose_b``; of the dtype of ``a``.
        transpose_a: Swap the last two axes of ``a`` first.
        transpose_b: Swap the last two axes of ``b`` first.
        name: Accepted and not used.

    Returns:
        [..., m, n].

    Example:
        >>> from ipu import tf
        >>> tf.matmul([[1.0, 2.0]], [[3.0], [4.0]]).numpy().tolist()
        [[11.0]]
    """
    return apply(
        "matmul", (a, b), {"transpose_a": transpose_a, "transpose_b": transpose_b}
    )


def _axes(axis: Any, rank: int) -> list[int]:
    if axis is None:
        return list(builtins.range(rank))
    items = axis if isinstance(axis, (list, tuple)) else [axis]
    axes = []
    for item in items:
        index = int(item)
        if not -rank <= index < rank:
            raise ValueError(f"axis {index} is out of bounds for {rank} dimensions")
        axes.append(index % rank)
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis {axis} names an axis twice")
    return sorted(axes)


def _reduction(op: str, text: str) -> Callable[..., Tensor]:
    def function(
        input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str = ""
    ) -> Tensor:
        tensor = Tensor(input_tensor)
        return apply(
            op, (tensor,), {"axes": _axes(axis, tensor.ndim), "keep_dims": keepdims}
        )

    function.__name__ = function.__qualname__ = f"reduce_{op}"
    function.__doc__ = f"""{text} over ``axis`` (an int, a list of ints, or None for
    all).

    Args:
        input_tensor: The tensor.
        axis: Which axes.
        keepdims: Keep reduced axes with size 1.
        name: Accepted and not used.
    """
    return function


reduce_sum = _reduction("sum", "The sum")
reduce_mean = _reduction("mean", "The mean")
reduce_max = _reduction("max", "The largest element")
reduce_min = _reduction("min", "The least element")


def argmax(input: Any, axis: int = 0, output_type: Any = None) -> Tensor:
    """Index of the largest element along ``axis``, the first of equal ones; int32."""
    dtype = "int32" if output_type is None else as_dtype(output_type).name
    wide = dtype == "int64" and _core.open_trace() is not None
    return apply(
        "argmax", (input,), {"axis": axis, "dtype": "int32" if wide else dtype}
    )


# --- shapes ------------------------------------------------------------------------


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1 and is worked out.

    Raises:
        ValueError: The sizes cannot fit the elements.

    Example:
        >>> from ipu import tf
        >>> tf.reshape(tf.range(6), (2, -1)).shape
        (2, 3)
    """
    value = Tensor(tensor)
    sizes = _sizes(shape)
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
    return apply("reshape", (value,), {"shape": sizes})


def transpose(a: Any, perm: Sequence[int] | None = None, name: str = "") -> Tensor:
    """Axes in another order; reversed where ``perm`` is None."""
    value = Tensor(a)
    order = builtins.range(value.ndim)[::-1] if perm is None else perm
    return apply("transpose", (value,), {"perm": list(order)})


def expand_dims(input: Any, axis: int, name: str | None = None) -> Tensor:
    """Insert an axis of size 1 at ``axis`` (negative counts from the end)."""
    value = Tensor(input)
    rank = value.ndim + 1
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of bounds for {rank} dimensions")
    shape = list(value.shape)
    shape.insert(axis % rank, 1)
    return apply("reshape", (value,), {"shape": shape})


def squeeze(input: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Remove axes of size 1: those of ``axis``, or all of them."""
    value = Tensor(input)
    axes = (
        [i for i, s in enumerate(value.shape) if s == 1]
        if axis is None
        else _axes(axis, value.ndim)
    )
    for i in axes:
        if value.shape[i] != 1:
            raise ValueError(f"Cannot squeeze axis {i} of shape {value.shape}.")
    shape = [s for i, s in enumerate(value.shape) if i not in axes]
    return apply("reshape", (value,), {"shape": shape})


def broadcast_to(input: Any, shape: Sequence[int], name: str = "") -> Tensor:
    """Repeat ``input`` along axes of size 1 and new leading axes."""
    return apply("broadcast", (input,), {"shape": _sizes(shape)})


def concat(values: Sequence[Any], axis: int, name: str = "concat") -> Tensor:
    """Join tensors along an existing axis."""
    if isinstance(values, Tensor):
        return values
    return apply("concat", list(values), {"axis": axis})


def stack(values: Sequence[Any], axis: int = 0, name: str = "stack") -> Tensor:
    """Join tensors of one shape along a new axis."""
    return concat([expand_dims(value, axis) for value in values], axis)


def unstack(value: Any, num: int | None = None, axis: int = 0) -> list[Tensor]:
    """The tensors that ``stack`` would join, as a list."""
    tensor = Tensor(value)
    axis = axis % tensor.ndim
    before: tuple[Any, ...] = (slice(None),) * axis
    return [tensor[(*before, i)] for i in builtins.range(tensor.shape[axis])]


def gather(
    params: Any, indices: Any, axis: int = 0, batch_dims: int = 0, name: str = ""
) -> Tensor:
    """Slices of ``params`` along ``axis`` at ``indices`` (integers).

    Raises:
        InvalidArgumentError: An index is out of range.
    """
    if batch_dims != 0:
        raise NotImplementedError("gather with batch_dims is not supported.")
    return apply("gather", (params, Tensor(indices)), {"axis": axis})


def one_hot(
    indices: Any,
    depth: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    axis: int = -1,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """``on_value`` at the index, ``off_value`` elsewhere, along a new axis of
    ``depth``."""
    return apply(
        "one_hot",
        (Tensor(indices),),
        {
            "depth": int(depth),
            "axis": axis,
            "on_value": float(on_value),
            "off_value": float(off_value),
            "dtype": as_dtype(float32 if dtype is None else dtype).name,
        },
    )


def shape(input: Any, out_type: Any = None) -> Tensor:
    """The shape as an int32 tensor; all shapes are known when a function is traced."""
    return Tensor(np.array(Tensor(input).shape, dtype=np.int32))


def rank(input: Any) -> Tensor:
    """The number of dimensions, an int32 scalar."""
    return Tensor(np.array(Tensor(input).ndim, dtype=np.int32))


def size(input: Any) -> Tensor:
    """The number of elements, an int32 scalar."""
    count = np.prod(Tensor(input).shape, dtype=np.int64)
    return Tensor(np.array(count, dtype=np.int32))


# --- filled tensors ----------------------------------------------------------------


def fill(dims: Sequence[int], value: Any, name: str | None = None) -> Tensor:
    """A tensor of shape ``dims`` whose elements are all ``value``."""
    scalar = Tensor(value)
    return broadcast_to(scalar, _sizes(dims))


def _sizes(shape: Any) -> list[int]:
    """A shape as ints: from a sequence, a tensor of known value, or one number."""
    if isinstance(shape, int) or getattr(shape, "shape", None) == ():
        return [int(shape)]
    return [int(size) for size in shape]


def _filled(shape: Any, value: float, dtype: Any) -> Tensor:
    return broadcast_to(Tensor(value, as_dtype(dtype).name), _sizes(shape))


def zeros(shape: Any, dtype: Any = float32, name: str | None = None) -> Tensor:
    """A tensor of zeros."""
    return _filled(shape, 0, dtype)


def ones(shape: Any, dtype: Any = float32, name: str | None = None) -> Tensor:
    """A tensor of ones."""
    return _filled(shape, 1, dtype)


def zeros_like(input: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Zeros in the shape (and, unless given, the dtype) of ``input``."""
    value = input if hasattr(input, "dtype") else Tensor(input)
    return _filled(list(value.shape), 0, value.dtype if dtype is None else dtype)


def ones_like(input: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Ones in the shape (and, unless given, the dtype) of ``input``."""
    value = input if hasattr(input, "dtype") else Tensor(input)
    return _filled(list(value.shape), 1, value.dtype if dtype is None else dtype)


def range(
    start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = ""
) -> Tensor:
    """Numbers from ``start`` (0 if only one is given) up to ``limit`` by ``delta``."""
    if limit is None:
        start, limit = 0, start
    values = [
        float(v) if isinstance(v, float) else int(v) for v in (start, limit, delta)
    ]
    if dtype is None:
        dtype = "float32" if any(isinstance(v, float) for v in values) else "int32"
    return Tensor(np.arange(*values, dtype=as_dtype(dtype).as_numpy_dtype))


def gradients(
    ys: Any, xs: Sequence[Any], grad_ys: Any = None, name: str = ""
) -> list[Tensor | None]:
    """Derivatives of the sum of ``ys`` (times ``grad_ys``) with respect to each of
    ``xs``.

    Only inside a function that is being traced.

    Args:
        ys: A tensor or a list of tensors.
        xs: Tensors or variables.
        grad_ys: For each of ``ys`` a tensor of its shape or None (ones).
        name: Accepted and not used.

    Returns:
        For each of ``xs`` a tensor of its shape, or None where ``ys`` do not depend on
        it.

    Raises:
        RuntimeError: No function is being traced.
        UnimplementedError: An op on the way has no gradient.
    """
    trace = _core.open_trace()
    if trace is None:
        raise RuntimeError(
            "tf.gradients works on a function that is being traced. Outside of one, "
            "record with tf.GradientTape."
        )
    y_list = list(ys) if isinstance(ys, (list, tuple)) else [ys]
    if grad_ys is None:
        grads: list[Any] = []
    else:
        grads = list(grad_ys) if isinstance(grad_ys, (list, tuple)) else [grad_ys]
    result: list[Tensor | None] = trace.gradients(
        y_list, grads, [getattr(x, "_id", x) for x in xs]
    )
    return result


def dtype_of(value: Any) -> DType:
    """The dtype that ``value`` has as a tensor."""
    return as_dtype(value.dtype) if hasattr(value, "dtype") else Tensor(value).dtype
