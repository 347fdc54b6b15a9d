# SPDX-License-Identifier: MIT
"""``map_fn``, ``scan``, ``foldl`` and ``foldr``: functions over the rows of tensors.

In a function that is being traced each is one counted loop of the device program that
reads and writes rows in place; outside of one they are Python loops, as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu.tf import nest
from ipu.tf._functions.blocks import (
    Flat,
    add_results,
    as_tuple,
    block,
    describe,
    flatten,
)
from ipu.tf._ops import creation, elementwise, shapes
from ipu.tf._tensor.dispatch import graph_op
from ipu.tf.dtypes import as_dtype

__all__ = ["foldl", "foldr", "map_fn", "scan", "vectorized_map"]


def _rows_of(elems: Any) -> tuple[Flat, int]:
    """Return ``elems`` taken apart, and how many rows all of its tensors have."""
    flat = flatten(elems, "elems")
    if not flat.tensors:
        raise ValueError("elems must hold a tensor. Received: an empty structure.")
    for tensor in flat.tensors:
        if not tensor.shape:
            raise ValueError(
                "elems must be 1+ dimensional Tensors, not scalars: the function is "
                f"called for each row. Received: {describe(elems)}."
            )
    counts = {tensor.shape[0] for tensor in flat.tensors}
    if len(counts) > 1:
        raise ValueError(
            f"All elems must have the same number of rows. Received: {describe(elems)}."
        )
    return flat, counts.pop()


def _row(tensor: Tensor, index: Any) -> Tensor:
    if not (isinstance(index, Tensor) and index.is_symbolic):
        return tensor[int(index)]
    shape = tensor.shape[1:]
    row = _core.apply("dynamic_slice", (tensor, index), {"size": (1, *shape)})
    return shapes.reshape(row, shape)


def _row_of(flat: Flat, index: Any) -> Any:
    return flat.pack([_row(tensor, index) for tensor in flat.tensors])


def _counted(
    trace: _core.Trace,
    count: int,
    start: Sequence[Tensor],
    step: Callable[
        [Tensor, Sequence[Tensor]], tuple[Sequence[Tensor], Sequence[Tensor]]
    ],
    reverse: bool,
    offset: int = 0,
) -> tuple[list[Tensor], list[Tensor]]:
    """Return a loop over ``count`` rows.

    Args:
        start: What is carried from row to row.
        step: ``step(row number, carried) -> (carried, a row for each output)``.
        reverse: Go from the last row to the first.
        offset: The number of the first row, also of the outputs.

    Returns:
        What was carried last, and the outputs ``[offset + count, ...]``.
    """
    types = [(t.dtype.name, t.shape) for t in start]
    with block(trace) as body:
        turn = trace.parameter(("int32", ()), body)
        values = [trace.parameter(type, body) for type in types]
        index = turn if offset == 0 else turn + offset
        if reverse:
            index = (count - 1 + offset) - turn
        ends, rows = step(index, values)
        outputs = []
        for row in rows:
            type = (row.dtype.name, (count + offset, *row.shape))
            stacked = trace.parameter(type, body)
            wide = shapes.reshape(row, (1, *row.shape))
            outputs.append(
                (type, _core.apply("dynamic_update_slice", (stacked, wide, index)))
            )
        add_results(trace, body, [turn + 1, *ends, *(rows for _, rows in outputs)])
    zeros = [trace.zeros(type) for type, _ in outputs]
    inputs = [Tensor(count), Tensor(0), *start, *zeros]
    attrs = {"body": body, "is_part": True}
    final = as_tuple(trace.node("repeat", inputs, attrs, ()))[1:]
    return list(final[: len(start)]), list(final[len(start) :])


def _convert(result: Flat, signature: Any) -> Flat:
    """Give the result the dtypes of ``fn_output_signature``."""
    if signature is None:
        return result
    leaves = nest.flatten(signature)
    if len(leaves) != len(result.tensors):
        raise TypeError(
            f"fn_output_signature has {len(leaves)} leaves, but fn returned "
            f"{describe(result.structure)}."
        )
    for leaf, tensor in zip(leaves, result.tensors, strict=True):
        wanted = getattr(leaf, "dtype", leaf)
        if tensor.dtype != wanted:
            raise TypeError(
                f"fn_output_signature says {as_dtype(wanted).name}, but fn "
                f"returned {tensor.dtype.name}. Convert it with tf.cast."
            )
    return result


@graph_op
def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """Call ``fn`` on each row and stack what it gives.

    Args:
        fn: Called with the rows of the same number, in the structure of ``elems``;
            gives a nest of tensors of fixed shapes.
        elems: A nest of tensors ``[n, ...]``.
        dtype: The old name of ``fn_output_signature``.
        parallel_iterations: Accepted and not used.
        back_prop: False stops gradients at the result.
        swap_memory, infer_shape: Accepted and not used.
        fn_output_signature: A nest of dtypes or ``TensorSpec``: what ``fn`` gives,
            where that is not of the structure and dtypes of ``elems``.

    Returns:
        The nest that ``fn`` gives, each tensor ``[n, ...]``.

    Raises:
        ValueError: ``elems`` is empty, holds a scalar, or its tensors differ in ``n``.
        TypeError: ``fn`` is not callable or gives other dtypes than it should.

    Example:
        >>> tf.map_fn(lambda row: row * row, tf.constant([1, 2, 3])).numpy().tolist()
        [1, 4, 9]
    """
    if not callable(fn):
        raise TypeError(f"fn must be callable. Received: {fn!r}.")
    signature = dtype if fn_output_signature is None else fn_output_signature
    flat, count = _rows_of(elems)
    trace = _core.open_trace()
    result: Flat | None = None
    stacked: list[Tensor]
    if trace is None or count == 0:
        rows: list[list[Tensor]] = []
        for i in range(count):
            result = _convert(flatten(fn(_row_of(flat, i)), "fn's result"), signature)
            rows.append(result.tensors)
        if result is None:
            result = _result_without_rows(fn, flat, signature)
            return result.pack(result.tensors)
        stacked = [shapes.stack(list(column)) for column in zip(*rows, strict=True)]
    else:
        structures: list[Flat] = []

        def step(index: Tensor, carried: Sequence[Tensor]) -> Any:
            one = _convert(flatten(fn(_row_of(flat, index)), "fn's result"), signature)
            structures.append(one)
            return carried, one.tensors

        _, stacked = _counted(trace, count, [], step, False)
        result = structures[0]
    if not back_prop:
        stacked = [elementwise.stop_gradient(tensor) for tensor in stacked]
    return result.pack(stacked)


def _result_without_rows(fn: Callable[[Any], Any], flat: Flat, signature: Any) -> Flat:
    """Return what ``map_fn`` gives for no rows: ``fn`` is traced to see its types."""
    from ipu.tf._functions.function import scratch_trace
    from ipu.tf.tensor_spec import TensorSpec

    specs = flat.pack([TensorSpec(t.shape[1:], t.dtype) for t in flat.tensors])  # type: ignore[misc]
    types = scratch_trace(fn, [specs])
    empty = nest.map_structure(
        lambda spec: creation.zeros((0, *spec.shape), spec.dtype), types
    )
    return _convert(flatten(empty, "fn's result"), signature)


def vectorized_map(
    fn: Callable[[Any], Any],
    elems: Any,
    fallback_to_while_loop: bool = True,
    warn: bool = True,
) -> Any:
    """Call :func:`map_fn` under TensorFlow's name for functions that can be vectorized.

    Args:
        fn, elems: As for :func:`map_fn`.
        fallback_to_while_loop: Accepted and not used: it is a loop.
        warn: Accepted and not used.

    Returns:
        As for :func:`map_fn`.

    Example:
        >>> rows = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        >>> tf.vectorized_map(lambda row: tf.reduce_sum(row), rows).numpy().tolist()
        [3.0, 7.0]
    """
    return map_fn(fn, elems)


def _check_carried(before: Flat, after: Flat) -> None:
    same = [(t.dtype.name, t.shape) for t in before.tensors] == [
        (t.dtype.name, t.shape) for t in after.tensors
    ]
    try:
        nest.assert_same_structure([before.structure], [after.structure])
    except (TypeError, ValueError):
        same = False
    if not same:
        raise TypeError(
            "fn must give what it takes as its first argument: "
            f"{describe(before.structure)}. Received: {describe(after.structure)}."
        )


def _fold(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any,
    reverse: bool,
    keep: bool,
    back_prop: bool,
) -> Any:
    """Fold and scan: ``keep`` says whether the value after each row is wanted."""
    if not callable(fn):
        raise TypeError(f"fn must be callable. Received: {fn!r}.")
    flat, count = _rows_of(elems)
    first = 0
    if initializer is None:
        if count == 0:
            raise ValueError(
                "elems has no rows and there is no initializer: nothing to start from."
            )
        start = flatten(_row_of(flat, count - 1 if reverse else 0), "elems")
        first = 1
    else:
        start = flatten(initializer, "initializer")
    start = Flat(start.pack(start.tensors), start.counts, start.tensors)
    trace = _core.open_trace()
    if trace is None or count == first:  # no row is left for a loop to read
        return _python_fold(fn, flat, count, start, first, reverse, keep)

    def step(index: Tensor, carried: Sequence[Tensor]) -> Any:
        result = flatten(fn(start.pack(carried), _row_of(flat, index)), "fn's result")
        _check_carried(start, result)
        return result.tensors, result.tensors if keep else []

    offset = 0 if reverse else first
    final, stacked = _counted(
        trace, count - first, start.tensors, step, reverse, offset
    )
    if keep and first:
        stacked = [
            _with_first(whole, row, count, reverse)
            for whole, row in zip(stacked, start.tensors, strict=True)
        ]
    result = stacked if keep else final
    if not back_prop:
        result = [elementwise.stop_gradient(tensor) for tensor in result]
    return start.pack(result)


def _with_first(whole: Tensor, row: Tensor, count: int, reverse: bool) -> Tensor:
    """Add the row that a scan without initializer starts from."""
    wide = shapes.reshape(row, (1, *row.shape))
    if reverse:
        return shapes.concat([whole, wide], 0)
    return _core.apply("dynamic_update_slice", (whole, wide, Tensor(0)))


def _python_fold(
    fn: Callable[[Any, Any], Any],
    flat: Flat,
    count: int,
    start: Flat,
    first: int,
    reverse: bool,
    keep: bool,
) -> Any:
    value = start
    rows = [start.tensors] if first else []
    order = range(count - 1 - first, -1, -1) if reverse else range(first, count)
    for index in order:
        returned = fn(value.pack(value.tensors), _row_of(flat, index))
        result = flatten(returned, "fn's result")
        _check_carried(start, result)
        value = result
        rows.append(result.tensors)
    if not keep:
        return start.pack(value.tensors)
    if not rows:
        return start.pack(
            [creation.zeros((0, *t.shape), t.dtype) for t in start.tensors]
        )
    if reverse:
        rows.reverse()
    return start.pack(
        [shapes.stack(list(column)) for column in zip(*rows, strict=True)]
    )


@graph_op
def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Fold the rows with ``fn`` and give the value after each of them.

    Args:
        fn: ``fn(value, row) -> value``, of fixed structure, shapes and dtypes.
        elems: A nest of tensors ``[n, ...]``.
        initializer: The first value; None: the first row, which is also the first
            result.
        parallel_iterations, back_prop, swap_memory, infer_shape: As for :func:`map_fn`.
        reverse: Go from the last row to the first; the results keep their places.

    Returns:
        The values, each tensor ``[n, ...]``.

    Raises:
        ValueError: ``elems`` is empty, holds a scalar, or its tensors differ in ``n``.
        TypeError: ``fn`` is not callable, or gives another type than it takes.

    Example:
        >>> tf.scan(lambda total, x: total + x, tf.constant([1, 2, 3])).numpy().tolist()
        [1, 3, 6]
    """
    return _fold(fn, elems, initializer, reverse, True, back_prop)


@graph_op
def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Fold the rows with ``fn``, from the first to the last.

    Args:
        fn: ``fn(value, row) -> value``, of fixed structure, shapes and dtypes.
        elems: A nest of tensors ``[n, ...]``.
        initializer: The first value; None: the first row.
        parallel_iterations: Accepted and not used.
        back_prop: False stops gradients at the result.
        swap_memory: Accepted and not used.

    Returns:
        The last value.

    Raises:
        ValueError: ``elems`` is empty, holds a scalar, or its tensors differ in ``n``.
        TypeError: ``fn`` is not callable, or gives another type than it takes.

    Example:
        >>> int(tf.foldl(lambda total, x: total * 10 + x, tf.constant([1, 2, 3])))
        123
    """
    return _fold(fn, elems, initializer, False, False, back_prop)


@graph_op
def foldr(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Fold the rows with ``fn``, from the last to the first.

    Arguments, result and errors are those of :func:`foldl`.

    Example:
        >>> int(tf.foldr(lambda total, x: total * 10 + x, tf.constant([1, 2, 3])))
        321
    """
    return _fold(fn, elems, initializer, True, False, back_prop)
