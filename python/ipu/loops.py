# SPDX-License-Identifier: MIT
"""Loops that run on the device: ``ipu.loops``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ipu import _core
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.tf.ops import Tensor
from ipu.tf.variable import Variable

__all__ = ["repeat"]


def _as_list(inputs: Any) -> list[Any]:
    if inputs is None:
        return []
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


def _body_results(returned: Any, wanted: int) -> list[Any]:
    """The tensors that a body gave: None stands for an operation, which comes last."""
    results = _as_list(returned)
    tensors = [r for r in results if isinstance(r, (Tensor, Variable, int, float))]
    ordered = (
        results[: len(tensors)] == tensors
        if not tensors
        else all(r is t for r, t in zip(results, tensors, strict=False))
    )
    if len(tensors) != wanted or not ordered:
        raise ValueError(
            "IPU loop body must return zero or more Tensor values followed by zero or "
            f"more Operations: one tensor for each of the {wanted} inputs of the loop. "
            f"Received {len(tensors)} tensors in {len(results)} values."
        )
    return tensors


def repeat(
    n: Any,
    body: Callable[..., Any],
    inputs: Sequence[Any] | Any = None,
    infeed_queue: IPUInfeedQueue | None = None,
    use_while_v1: bool = True,
) -> Any:
    """Run ``body`` ``n`` times on the device.

    Only inside a function that is compiled for the device.

    Args:
        n: How often: an int or an int32 scalar; 0 and less is never.
        body: ``body(*inputs, *infeed_values)``; returns a tensor for each input, of its
            shape and dtype, which is the input of the next iteration.
        inputs: The values of the first iteration: a list, a tensor, or None.
        infeed_queue: Gives one element to each iteration.
        use_while_v1: Accepted and not used.

    Returns:
        None without inputs, the tensor for one, a list for several.

    Raises:
        ValueError: ``body`` does not return what it must.
        TypeError: A value changes its dtype around the loop.
        RuntimeError: No function is being compiled.
    """
    trace = _core.open_trace()
    if trace is None:
        raise RuntimeError(
            "loops.repeat builds a loop of a device program: call it inside a function "
            "that is compiled for the device."
        )
    start = [Tensor(value) for value in _as_list(inputs)]
    count = Tensor(n)
    block = trace.open_block()
    try:
        carried = [trace.parameter((t.dtype.name, t.shape), block) for t in start]
        args: tuple[Any, ...] = ()
        kwargs: dict[str, Any] = {}
        if infeed_queue is not None:
            args, kwargs = infeed_queue._dequeue_arguments()
        returned = _body_results(body(*carried, *args, **kwargs), len(start))
        ends = [Tensor(value) for value in returned]
        for before, after in zip(start, ends, strict=True):
            if before.dtype != after.dtype:
                raise TypeError(
                    "Mismatch between input types and output types of the loop body: "
                    f"{before.dtype.name} enters and {after.dtype.name} leaves. "
                    "Cast it back with tf.cast."
                )
        for value in ends:
            trace.result(value, block)
    finally:
        trace.close_block(block)
    result = trace.node("repeat", [count, *start], {"body": block}, ())
    return list(result) if isinstance(result, tuple) else result
