# SPDX-License-Identifier: MIT
"""Control flow, parts of tensors, conversions, and a few functions of mathematics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu._text.exports import offered
from ipu.keras.ops import _bodies as b, _table as t
from ipu.keras.ops._table import (
    floating as _floating,
    op as _op,
    reduction as _reduction,
)

_t = t.tensor


def _tensors(function: Any, *operands: Any) -> Any:
    """Make a branch: a function of no arguments whose results are tensors."""
    return lambda: tf.nest.map_structure(_t, function(*operands))


def _fori_loop(lower: Any, upper: Any, body_fun: Any, init_val: Any) -> Any:
    def turn(i: Any, value: Any) -> Any:
        return i + 1, body_fun(i, value)

    start, end = _t(lower, "int32"), _t(upper, "int32")
    return tf.while_loop(lambda i, _: i < end, turn, (start, init_val))[1]


def _while_loop(
    cond: Any, body: Any, loop_vars: Any, maximum_iterations: Any = None
) -> Any:
    if isinstance(loop_vars, (list, tuple)):
        given = tf.nest.map_structure(_t, loop_vars)
        made = tf.while_loop(cond, body, given, maximum_iterations=maximum_iterations)
        return type(loop_vars)(made)
    first = tf.nest.map_structure(_t, loop_vars)
    return tf.while_loop(
        cond, lambda x: (body(x),), (first,), maximum_iterations=maximum_iterations
    )[0]


def _scan(
    f: Any,
    init: Any,
    xs: Any = None,
    length: Any = None,
    reverse: bool = False,
    unroll: Any = 1,
) -> Any:
    del unroll
    leaves = [_t(x) for x in tf.nest.flatten(xs)] if xs is not None else []
    count = leaves[0].shape[0] if leaves else length
    if not count:
        raise ValueError(
            "There must be a step: an element of `xs`, or `length` where there are "
            f"none. Received: xs={xs!r}, length={length!r}."
        )
    leaves = [b.flip(x, 0) if reverse else x for x in leaves]

    def step(carry: Any, parts: Any) -> Any:
        now = tf.nest.pack_sequence_as(xs, parts) if leaves else None
        carry, result = f(carry, now)
        made = tf.nest.map_structure(_t, result) if result is not None else ()
        return tf.nest.map_structure(_t, carry), made

    carry, result = step(init, [x[0] for x in leaves])
    results = tf.nest.map_structure(lambda x: x[None], result)
    if count > 1:
        rest = [x[1:] for x in leaves] or [tf.range(count - 1)]
        carries, more = tf.scan(
            lambda before, parts: step(before[0], parts), rest, (carry, result)
        )
        carry = tf.nest.map_structure(lambda x: x[-1], carries)
        results = tf.nest.map_structure(
            lambda *parts: tf.concat(parts, 0), results, more
        )
    if reverse:
        results = tf.nest.map_structure(lambda x: b.flip(x, 0), results)
    return carry, None if isinstance(results, tuple) and not results else results


def _map(f: Any, xs: Any) -> Any:
    return _scan(lambda carry, x: (carry, f(x)), 0, xs)[1]


def _slice_update(inputs: Any, start_indices: Any, updates: Any) -> Any:
    values = _t(inputs)
    new = _t(updates, values.dtype)
    points = np.stack(
        np.meshgrid(*(np.arange(n) for n in new.shape), indexing="ij"), -1
    )
    starts = tf.cast(
        tf.stack([_t(one) for one in start_indices])
        if isinstance(start_indices, (list, tuple))
        else _t(start_indices),
        "int32",
    )
    return tf.tensor_scatter_nd_update(values, _t(points, "int32") + starts, new)


def _segments(function: Any) -> Any:
    def call(
        data: Any, segment_ids: Any, num_segments: Any = None, sorted: bool = False
    ) -> Any:
        del sorted
        ids = _t(segment_ids, "int32")
        count = int(np.max(ids)) + 1 if num_segments is None else num_segments
        return function(_t(data), ids, count)

    return call


def _extract_sequences(x: Any, sequence_length: int, sequence_stride: int) -> Any:
    values = _t(x)
    starts = np.arange(0, values.shape[-1] - sequence_length + 1, sequence_stride)
    return tf.gather(
        values, np.int32(starts[:, None] + np.arange(sequence_length)), axis=-1
    )


# fmt: off
# --- control flow
cond = _op(lambda pred, true_fn, false_fn: tf.cond(t.truth(pred), _tensors(true_fn),
    _tensors(false_fn)), "Call one of two functions", "cond(True, lambda: 1.0, lambda: "
    "2.0) -> 1.0")
fori_loop = _op(_fori_loop, "Call a function of a number and a value for each number "
    "from lower to before upper", "fori_loop(0, 3, lambda i, x: x + i, 0) -> 3")
map = _op(_map, "Call a function on each row", "map(lambda x: 2 * x, np.array([1, 2])) "
    "-> [2, 4]")
scan = _op(_scan, "Call a function of a carry and a row for each row; give the last "
    "carry and the results", "scan(lambda c, x: (c + x, c), 0, np.array([1, 2]))[1] -> "
    "[0, 1]")
switch = _op(lambda index, branches, *operands:
    tf.switch_case(tf.clip_by_value(_t(index, "int32"), 0, len(branches) - 1),
    [_tensors(one, *operands) for one in branches]), "Call one of several functions",
    "switch(1, [tf.negative, tf.square], 3) -> 9")
vectorized_map = _op(lambda function, elements: tf.vectorized_map(function,
    tf.nest.map_structure(_t, elements)), "Call a function on all rows at once",
    "vectorized_map(lambda x: 2 * x, np.array([1, 2])) -> [2, 4]")
while_loop = _op(_while_loop, "Call a function on values while a condition of them "
    "holds", "while_loop(lambda i: i < 5, lambda i: [i + 2], [0])[0] -> 6")

# --- conversions and parts
cast = _op(lambda x, dtype: _t(x, dtype), "Give the elements in another dtype",
    "cast([1.5], 'int32') -> [1]")
convert_to_tensor = _op(lambda x, dtype=None, sparse=None, ragged=None: _t(x, dtype),
    "Make a tensor", "convert_to_tensor([1, 2]) -> [1, 2]")
saturate_cast = _op(lambda x, dtype: tf.saturate_cast(_t(x), dtype),
    "Give the elements in another dtype, cut to its range", "saturate_cast([300.0], "
    "'uint8') -> [255]")
scatter = _op(lambda indices, values, shape: tf.scatter_nd(_t(indices), _t(values),
    shape), "Put values into zeros; where several meet they are added",
    "scatter([[1]], [5], [3]) -> [0, 5, 0]")
scatter_update = _op(lambda inputs, indices, updates:
    tf.tensor_scatter_nd_update(_t(inputs), _t(indices), _t(updates, _t(inputs).dtype)),
    "Put values into a copy", "scatter_update([1, 2], [[1]], [5]) -> [1, 5]")
slice = _op(lambda inputs, start_indices, shape: tf.slice(_t(inputs), start_indices,
    shape), "Cut a part of a shape", "slice([1, 2, 3], [1], [2]) -> [2, 3]")
slice_update = _op(_slice_update, "Put a tensor into a copy, from a place on",
    "slice_update([1, 2, 3], [1], [8, 9]) -> [1, 8, 9]")
stop_gradient = _op(lambda variable: tf.stop_gradient(_t(variable)),
    "Give a tensor that gradients end at", "stop_gradient([1.0]) -> [1.0]")
unstack = _op(lambda x, num=None, axis=0: tf.unstack(_t(x), num, axis),
    "Cut into what lies along an axis", "unstack([1, 2])[1] -> 2")

# --- mathematics
erf = _floating(tf.math.erf, "Give the error function", "erf([0.0, 1.0]) -> [0.0, "
    "0.843]")
erfinv = _floating(tf.math.erfinv, "Give the inverse error function",
    "erfinv([0.0]) -> [0.0]")
extract_sequences = _op(_extract_sequences, "Give windows of a series",
    "extract_sequences([1, 2, 3], 2, 1) -> [[1, 2], [2, 3]]")
in_top_k = _op(lambda targets, predictions, k: tf.math.in_top_k(_t(targets, "int32"),
    t.floats(predictions), k), "Tell whether classes are among the k best",
    "in_top_k([1], [[0.2, 0.8]], 1) -> [True]")
logsumexp = _reduction(tf.reduce_logsumexp, "Give log(sum(exp(x)))",
    "logsumexp([0.0, 0.0]) -> 0.693", t.floats)
rsqrt = _floating(tf.math.rsqrt, "Give one over the square root",
    "rsqrt([4.0]) -> [0.5]")
segment_max = _op(_segments(tf.math.unsorted_segment_max), "Give the largest row of "
    "each segment", "segment_max([1, 5, 2], [0, 0, 1]) -> [5, 2]")
segment_sum = _op(_segments(tf.math.unsorted_segment_sum), "Add the rows of each "
    "segment", "segment_sum([1, 5, 2], [0, 0, 1]) -> [6, 2]")
top_k = _op(lambda x, k, sorted=True: tuple(tf.math.top_k(_t(x), k, sorted)),
    "Give the k largest elements of each row, and their places",
    "top_k([1, 3, 2], 2)[0] -> [3, 2]")
# fmt: on


def convert_to_numpy(x: Any) -> Any:
    """Make an array of a tensor.

    Example:
        >>> keras.ops.convert_to_numpy(tf.constant([1, 2]))
        array([1, 2], dtype=int32)
    """
    return np.array(_t(x).numpy())


def dtype(x: Any) -> str:
    """Return the name of the dtype of a tensor.

    Example:
        >>> keras.ops.dtype([1.0])
        'float32'
    """
    found = x.dtype if hasattr(x, "dtype") else _t(x).dtype
    return str(tf.as_dtype(found).name)


def is_tensor(x: Any) -> bool:
    """Return whether something is a tensor, and no array or symbolic value.

    Example:
        >>> keras.ops.is_tensor(tf.constant(1)), keras.ops.is_tensor([1])
        (True, False)
    """
    return isinstance(x, tf.Tensor)


def shape(x: Any) -> tuple[Any, ...]:
    """Return the sizes of a tensor: ints, or symbolic values where they are open.

    Example:
        >>> keras.ops.shape([[1, 2]])
        (1, 2)
    """
    sizes = tuple(x.shape if hasattr(x, "shape") else _t(x).shape)
    if None not in sizes:
        return sizes
    found = tf.shape(x)
    return tuple(found[k] if n is None else n for k, n in enumerate(sizes))


if not TYPE_CHECKING:
    __all__ = offered(__name__)
