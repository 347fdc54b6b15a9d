# SPDX-License-Identifier: MIT
"""Functions that TensorFlow 1 calls, or whose arguments it calls, otherwise."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from ipu import tf
from ipu.tf._graph import mode
from ipu.tf._tensor import convert, open_sizes
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import (
    DType,
    as_dtype,
    bool as bool_type,
    float32,
    float64,
    int32,
    int64,
)

where_v2 = tf.where


def renamed(
    function: Callable[..., Any], _order: str = "", **old: str
) -> Callable[..., Any]:
    """Return a function that also takes arguments under older names.

    Args:
        _order: The names of the arguments in their older order, where that differs.
        **old: For each older name the present one; empty: accepted without effect.

    Example:
        >>> total = renamed(tf.reduce_sum, keep_dims="keepdims")
        >>> total([1.0, 2.0], keep_dims=True).shape
        (1,)
    """

    names = _order.split()

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if names:
            kwargs = dict(zip(names, args, strict=False)) | kwargs
            args = args[len(names) :]
        for before, now in old.items():
            if before in kwargs:
                value = kwargs.pop(before)
                if value is not None and now:
                    kwargs[now] = value
        return function(*args, **kwargs)

    call.__signature__ = _with_older(inspect.signature(function), names, old)  # type: ignore[attr-defined]
    return call


def _with_older(
    now: inspect.Signature, names: list[str], old: dict[str, str]
) -> inspect.Signature:
    """Return a signature that has older names as well, to show what may be given."""
    if names:
        either, alone = (
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        )
        others = [n for n in [*now.parameters, *old] if n not in names]
        kinds = [*((n, either) for n in names), *((n, alone) for n in others)]
        return now.replace(
            parameters=[inspect.Parameter(n, kind, default=None) for n, kind in kinds]
        )
    present = list(now.parameters.values())
    replaced = set(old.values()) - {""}
    first = min(
        (present.index(now.parameters[name]) for name in replaced), default=len(present)
    )
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
_ORDER_OF_ARGMAX = "input axis name dimension output_type"
argmax = renamed(tf.argmax, _ORDER_OF_ARGMAX, dimension="axis")
argmin = renamed(tf.argmin, _ORDER_OF_ARGMAX, dimension="axis")
pad = renamed(tf.pad, "tensor paddings mode name constant_values")
expand_dims = renamed(tf.expand_dims, dim="axis")
squeeze = renamed(tf.squeeze, squeeze_dims="axis")
reduce_logsumexp = renamed(tf.reduce_logsumexp, **_REDUCING)
count_nonzero = renamed(tf.math.count_nonzero, input_tensor="input", **_REDUCING)
norm = renamed(tf.norm, keep_dims="keepdims")
reverse_sequence = renamed(
    tf.reverse_sequence, seq_dim="seq_axis", batch_dim="batch_axis"
)
confusion_matrix = renamed(
    tf.math.confusion_matrix, "labels predictions num_classes dtype name weights"
)
gradients = renamed(
    tf.gradients,
    "ys xs grad_ys name colocate_gradients_with_ops gate_gradients aggregation_method "
    "stop_gradients unconnected_gradients",
    name="",
    colocate_gradients_with_ops="",
)


def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Callable[[], Any] | None = None,
    fn2: Callable[[], Any] | None = None,
) -> Any:
    """Call one of two functions.

    Args:
        pred: A bool.
        true_fn: Called where it is true.
        false_fn: Called where it is false.
        strict: Whether a list of one result comes back as a list.
        fn1, fn2: Older names of ``true_fn`` and ``false_fn``.

    Example:
        >>> float(cond(True, lambda: [tf.constant(1.0)], lambda: [tf.constant(2.0)]))
        1.0
    """
    found = tf.cond(pred, true_fn or fn1, false_fn or fn2)
    return found if strict else _unpacked(found)


def case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Call the function of the first predicate that is true.

    Args:
        pred_fn_pairs: Pairs (scalar bool, function without arguments), or a dict.
        default: Called where none is true; None: the last function is.
        exclusive: Require that at most one is true, where that is known.
        strict: Whether a list of one result comes back as a list.

    Example:
        >>> x = tf.constant(5)
        >>> int(case([(x < 3, lambda: 1), (x < 9, lambda: 2)], default=lambda: 3))
        2
    """
    if isinstance(pred_fn_pairs, dict):
        pred_fn_pairs = [
            (getattr(key, "deref", lambda key=key: key)(), function)
            for key, function in pred_fn_pairs.items()
        ]
    found = tf.case(pred_fn_pairs, default, exclusive)
    return found if strict else _unpacked(found)


def _blocks(function: Callable[..., Any], second: str) -> Callable[..., Any]:
    def blocks(
        input: Any,
        *args: Any,
        block_size: Any = None,
        block_shape: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Any:
        cut = args[0] if args else kwargs[second]
        size = args[1] if len(args) > 1 else block_size
        size = [int(size)] * 2 if block_shape is None else block_shape
        return function(input, size, cut)

    blocks.__name__ = blocks.__qualname__ = function.__name__
    blocks.__doc__ = f"""Call ``tf.{function.__name__}`` with one size for both axes.

    Args:
        input: An image batch [batch, height, width, channels].
        *args: ``{second}`` and ``block_size``.
        block_size: The size of a block.
        block_shape: In its place a size for each axis.
        **kwargs: ``{second}``, where it is given by name.

    Example:
        >>> x = tf.ones([4, 2, 2, 1])
        >>> v1.{function.__name__}(x, [[0, 0], [0, 0]], block_size=2).shape.rank
        4
    """
    return blocks


space_to_batch = _blocks(tf.space_to_batch, "paddings")
batch_to_space = _blocks(tf.batch_to_space, "crops")


def device(device_name_or_function: Any) -> AbstractContextManager[None]:
    """Put what is inside on a device, as ``tf.device`` does.

    Args:
        device_name_or_function: The name. In a graph that of a GPU stands for the host,
            as with soft placement; a function of operations changes nothing.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     with v1.device("/gpu:0"):
        ...         y = v1.constant(1.0) + 2.0
        ...     print(session.run(y))
        3.0
    """
    name = device_name_or_function
    if callable(name):
        return nullcontext()
    has_gpu = isinstance(name, str) and "gpu:" in name.lower() + ":"
    return tf.device("/device:CPU:0" if has_gpu and mode.has_graph() else name)


def _unpacked(found: Any) -> Any:
    is_single = type(found) in (list, tuple) and len(found) == 1
    return found[0] if is_single else found


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
    """Return elements, or rows, of ``x`` where ``condition`` holds, else of ``y``.

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


class ListDiff(NamedTuple):
    """The result of :func:`setdiff1d`.

    Example:
        >>> v1.setdiff1d([1, 2], [2]).out.numpy().tolist()
        [1]
    """

    out: Any
    idx: Any


@op
def setdiff1d(
    x: Any, y: Any, index_dtype: Any = int32, name: str | None = None
) -> ListDiff:
    """Return the elements of a vector that are not in another one.

    Works on values that are known, as in a session, not on those of a function that is
    being traced.

    Args:
        x: The vector.
        y: What is left out, of the same dtype.
        index_dtype: The dtype of the places.

    Returns:
        ``(out, idx)``: the elements, and where they are in ``x``.

    Raises:
        TypeError: A function is being traced that computes the values.

    Example:
        >>> out, idx = v1.setdiff1d([1, 2, 3, 4], [1, 3])
        >>> out.numpy().tolist(), idx.numpy().tolist()
        ([2, 4], [1, 3])
    """
    first = tf.convert_to_tensor(x)
    second = tf.convert_to_tensor(y, first.dtype)
    if first.is_symbolic or second.is_symbolic:
        error = TypeError(
            "tf.setdiff1d gives a shape that depends on values, which are not known "
            "when a function is compiled: shapes on the device are static. Compute it "
            "outside of the function."
        )
        kinds = (first.dtype, (None,)), (as_dtype(index_dtype), (None,))
        return ListDiff(*open_sizes.guessed_or(error, *kinds))
    values = np.asarray(first)
    places = np.flatnonzero(~np.isin(values, np.asarray(second)))
    kind = as_dtype(index_dtype).as_numpy_dtype
    return ListDiff(
        tf.constant(values[places]), tf.convert_to_tensor(places.astype(kind))
    )


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
    """Do nothing: layers always cast their inputs to their own dtype.

    Example:
        >>> enable_v2_dtype_behavior()
    """


def enable_control_flow_v2() -> None:
    """Do nothing: loops and conditionals are always structured.

    Example:
        >>> enable_control_flow_v2()
    """


def enable_v2_tensorshape() -> None:
    """Do nothing: sizes are always plain ints.

    Example:
        >>> enable_v2_tensorshape()
    """


def control_flow_v2_enabled() -> bool:
    """Return whether loops and conditionals are structured: True.

    Example:
        >>> control_flow_v2_enabled()
        True
    """
    return True


def _scatter(kind: str) -> Callable[..., Any]:
    def function(
        ref: Any,
        indices: Any,
        updates: Any,
        use_locking: bool = False,
        name: str | None = None,
    ) -> Any:
        rows = tf.IndexedSlices(tf.convert_to_tensor(updates), indices)
        return getattr(ref, f"scatter_{kind}")(rows)

    function.__name__ = function.__qualname__ = f"scatter_{kind}"
    function.__doc__ = f"""Change rows of a variable, with ``scatter_{kind}`` of it.

    Args:
        ref: The variable.
        indices: The numbers of the rows.
        updates: A row for each.
        use_locking: Accepted and not used.

    Returns:
        The new value.

    Example:
        >>> v = tf.Variable([1.0, 2.0])
        >>> v1.scatter_{kind}(v, [1], [5.0]).numpy().shape
        (2,)
    """
    return function


scatter_update = _scatter("update")
scatter_add = _scatter("add")
scatter_sub = _scatter("sub")
scatter_max = _scatter("max")
scatter_min = _scatter("min")


def _to(dtype: DType, name: str, example: str) -> Callable[..., Any]:
    node = name.title().replace("_", "")

    def function(x: Any, name: str = node) -> Any:
        return convert.cast(x, dtype)

    code, result = example.split(" -> ")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return ``x`` as {dtype.name}.

    Args:
        x: Anything that converts to a tensor.

    Example:
        >>> {code}
        {result}
    """
    return function


to_float = _to(float32, "to_float", "float(to_float(2)) -> 2.0")
to_double = _to(float64, "to_double", "float(to_double(2)) -> 2.0")
to_int64 = _to(int64, "to_int64", "int(to_int64(2.5)) -> 2")
to_int32 = _to(int32, "to_int32", "int(to_int32(2.5)) -> 2")
to_bool = _to(bool_type, "to_bool", "bool(to_bool(2)) -> True")
