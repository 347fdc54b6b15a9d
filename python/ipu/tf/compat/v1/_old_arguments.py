# SPDX-License-Identifier: MIT
"""Functions that TensorFlow 1 calls, or whose arguments it calls, otherwise."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ipu import tf
from ipu.tf._tensor import convert
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import DType, bool as bool_type, float32, int32

where_v2 = tf.where


def renamed(function: Callable[..., Any], **old: str) -> Callable[..., Any]:
    """Return a function that also takes arguments under older names.

    Args:
        **old: For each older name the present one.

    Example:
        >>> total = renamed(tf.reduce_sum, keep_dims="keepdims")
        >>> total([1.0, 2.0], keep_dims=True).shape
        (1,)
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for before, now in old.items():
            if before in kwargs:
                value = kwargs.pop(before)
                if value is not None:
                    kwargs[now] = value
        return function(*args, **kwargs)

    call.__signature__ = _with_older(inspect.signature(function), old)  # type: ignore[attr-defined]
    return call


def _with_older(now: inspect.Signature, old: dict[str, str]) -> inspect.Signature:
    """A signature that has older names as well, for who asks what may be given."""
    present = list(now.parameters.values())
    first = min(present.index(now.parameters[name]) for name in set(old.values()))
    for place, one in enumerate(present):
        # what follows a parameter with a default has one as well
        if place >= first and one.default is inspect.Parameter.empty:
            present[place] = one.replace(default=None)
    older = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in old
    ]
    return now.replace(parameters=[*present, *older])


_REDUCING = {"reduction_indices": "axis", "keep_dims": "keepdims"}
reduce_all = renamed(tf.reduce_all, **_REDUCING)
reduce_any = renamed(tf.reduce_any, **_REDUCING)
reduce_max = renamed(tf.reduce_max, **_REDUCING)
reduce_mean = renamed(tf.reduce_mean, **_REDUCING)
reduce_min = renamed(tf.reduce_min, **_REDUCING)
reduce_prod = renamed(tf.reduce_prod, **_REDUCING)
reduce_sum = renamed(tf.reduce_sum, **_REDUCING)
argmax = renamed(tf.argmax, dimension="axis")
argmin = renamed(tf.argmin, dimension="axis")
expand_dims = renamed(tf.expand_dims, dim="axis")
squeeze = renamed(tf.squeeze, squeeze_dims="axis")
cond = renamed(tf.cond, fn1="true_fn", fn2="false_fn")


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Repeat ``body`` while ``cond`` is true.

    Args:
        cond: As for ``tf.while_loop``, like what follows.
        body, loop_vars, shape_invariants, parallel_iterations, back_prop, swap_memory,
            name, maximum_iterations: As there.
        return_same_structure: Whether a single loop variable comes back in a list, as
            it was given.

    Example:
        >>> int(while_loop(lambda i: i < 10, lambda i: i * 2 + 1, [0]))
        15
    """
    found = tf.while_loop(
        cond,
        body,
        loop_vars,
        shape_invariants,
        parallel_iterations,
        back_prop,
        swap_memory,
        maximum_iterations,
        name,
    )
    is_single = isinstance(loop_vars, (list, tuple)) and len(loop_vars) == 1
    return found[0] if is_single and not return_same_structure else found


@op
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Elements, or rows, of ``x`` where ``condition`` holds, else of ``y``.

    Args:
        condition: bool: of the shape of ``x``, a scalar, or one for each row of ``x``.
        x: Taken where True.
        y: Taken where False; of the shape and dtype of ``x``.

    Returns:
        A tensor like ``x``; with the condition alone the places where it holds.

    Raises:
        ValueError: One of ``x`` and ``y`` is missing, or shapes do not fit.

    Example:
        >>> where([True, False], [[1, 2], [3, 4]], [[5, 6], [7, 8]]).numpy().tolist()
        [[1, 2], [7, 8]]
    """
    if x is None or y is None:
        return tf.where(condition, x, y)
    mask, first, second = map(tf.convert_to_tensor, (condition, x, y))
    if first.shape != second.shape:
        raise ValueError(
            f"tf.where takes x and y of one shape. Received: {first.shape} and "
            f"{second.shape}. tf.where_v2 broadcasts them."
        )
    if mask.shape.rank == 1 and mask.shape[0] == (first.shape or (None,))[0]:
        mask = tf.reshape(mask, [-1] + [1] * (len(first.shape) - 1))
    elif mask.shape.rank and mask.shape != first.shape:
        raise ValueError(
            "The condition of tf.where is a scalar, or of the shape of x, or has one "
            f"bool for each row of x. Received: {mask.shape} for x of shape "
            f"{first.shape}."
        )
    return tf.where(mask, first, second)


@op
def div(x: Any, y: Any, name: str | None = None) -> Any:
    """Return the quotient as Python 2 has it: integers are rounded down.

    Args:
        x: The dividend.
        y: The divisor, of the same dtype.

    Example:
        >>> int(div(-7, 2)), float(div(7.0, 2.0))
        (-4, 3.5)
    """
    first = tf.convert_to_tensor(x)
    is_whole = first.dtype.is_integer
    return tf.math.floordiv(first, y) if is_whole else tf.divide(first, y)


def enable_v2_dtype_behavior() -> None:
    """Layers cast their inputs to their own dtype: always so.

    Example:
        >>> enable_v2_dtype_behavior()
    """


def enable_control_flow_v2() -> None:
    """Loops and conditionals are structured: always so.

    Example:
        >>> enable_control_flow_v2()
    """


def enable_v2_tensorshape() -> None:
    """Sizes are plain ints: always so.

    Example:
        >>> enable_v2_tensorshape()
    """


def control_flow_v2_enabled() -> bool:
    """Whether loops and conditionals are structured: True.

    Example:
        >>> control_flow_v2_enabled()
        True
    """
    return True


def _to(dtype: DType, name: str, example: str) -> Callable[..., Any]:
    node = name.title().replace("_", "")

    def function(x: Any, name: str = node) -> Any:
        return convert.cast(x, dtype)

    code, result = example.split(" -> ")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""``x`` as {dtype.name}.

    Args:
        x: Anything that converts to a tensor.

    Example:
        >>> {code}
        {result}
    """
    return function


to_float = _to(float32, "to_float", "float(to_float(2)) -> 2.0")
to_int32 = _to(int32, "to_int32", "int(to_int32(2.5)) -> 2")
to_bool = _to(bool_type, "to_bool", "bool(to_bool(2)) -> True")
