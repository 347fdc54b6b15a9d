# SPDX-License-Identifier: MIT
"""Printing, queues and counters of programs, hints: ``ipu.internal_ops``."""

from __future__ import annotations

import sys
from typing import Any

from ipu import tf
from ipu._core import Tensor, open_trace
from ipu._loops.accumulation import current_iterations
from ipu._text.exports import export
from ipu.ops._state import zeros_variable
from ipu.tf._functions.tracing import current_build, in_trace
from ipu.tf._graph.reached import tied
from ipu.tf._tensor.convert import apply


def print_tensor(input: Any, name: str = "") -> Any:
    """Print a tensor to standard error each time that a program passes here.

    Args:
        input: The tensor to print.
        name: Stands in front of it.

    Returns:
        The result of ``tf.print``.

    Example:
        >>> import contextlib, io, sys
        >>> with contextlib.redirect_stderr(sys.stdout):
        ...     _ = print_tensor([1.0, 2.0], "x")
        x: [1 2]
    """
    head = (f"{name}:",) if name else ()
    return tf.print(*head, tf.convert_to_tensor(input), output_stream=sys.stderr)


def remap(x: Any, name: str | None = None) -> Tensor:
    """Return ``x``; on hardware its elements are laid out anew over the tiles.

    Example:
        >>> remap([1.0, 2.0]).numpy().tolist()
        [1.0, 2.0]
    """
    return tf.identity(x)


def remap_deduce(x: Any, name: str | None = None) -> Tensor:
    """Return ``x``; on hardware it is laid out as its users like best.

    Example:
        >>> remap_deduce([1.0, 2.0]).numpy().tolist()
        [1.0, 2.0]
    """
    return tf.identity(x)


def recompute(x: Any, name: str | None = None) -> Tensor:
    """Return ``x``; a hint of SDK 1 that its inputs need not be kept for the gradient.

    ``tf.recompute_grad`` and ``pipelining_ops.recomputation_checkpoint`` save memory.

    Example:
        >>> recompute([1.0, 2.0]).numpy().tolist()
        [1.0, 2.0]
    """
    return tf.identity(x)


def block_recompute(x: Any, name: str | None = None) -> Tensor:
    """Return ``x``; a hint of SDK 1 that it is kept for the gradient.

    Example:
        >>> block_recompute([1.0, 2.0]).numpy().tolist()
        [1.0, 2.0]
    """
    return tf.identity(x)


def fifo(x: Any, depth: int, offload: bool = False, name: str | None = None) -> Tensor:
    """Return the value of ``x`` that was there ``depth`` executions ago, zeros at
    first.

    Each call in a program has a queue of its own, which lasts from run to run.

    Args:
        x: A tensor or a nest of them for the queue.
        depth: How many values are in it; below 1 the result is ``x``.
        offload: Accepted and not used: where hardware would keep the queue.
        name: A name of the queue.

    Returns:
        A tensor of the shape and dtype of ``x``. No gradient goes back through it.

    Raises:
        RuntimeError: No function is being compiled.

    Source: ``ipu.internal_ops.fifo`` of SDK 1.2 to 3.4.

    Example:
        >>> @tf.function(jit_compile=True)
        ... def late(x):
        ...     return fifo(x, 2)
        >>> [float(late(tf.constant(float(i)))) for i in range(5)]
        [0.0, 0.0, 0.0, 1.0, 2.0]
    """
    value = tf.convert_to_tensor(x)
    if depth < 1:
        return tf.identity(value)
    if not in_trace():
        raise RuntimeError(
            "internal_ops.fifo keeps values from one execution of a program to the "
            "next: call it inside a function that is compiled for the device."
        )
    sizes = tuple(value.shape)
    label = name or "fifo"
    queue = zeros_variable(f"{label}/values", (depth, *sizes), value.dtype)
    place = zeros_variable(f"{label}/place", (), "int32")
    # they live as long as the program
    current_build().notes.setdefault("fifos", []).append((queue, place))
    values, now = queue.value(), place.value()
    oldest = apply("dynamic_slice", (values, now), {"size": [1, *sizes]})
    newest = tf.expand_dims(value, 0)
    trace = open_trace()
    begin = 0 if trace is None else trace.node_count
    queue.assign(apply("dynamic_update_slice", (values, newest, now), {}))
    place.assign(tf.math.floormod(now + 1, depth))
    return tied(tf.squeeze(oldest, 0), begin)


def get_current_iteration_counter(
    name: str | None = None, lower_bound: int = 0, upper_bound: int = 0
) -> Tensor:
    """Return how many micro-batches of this execution of a pipeline, or iterations of
    this loop, came before.

    Args:
        lower_bound, upper_bound: Accepted and not used.

    Returns:
        An int32 scalar, from 0 on; it begins again with each weight update.

    Raises:
        RuntimeError: The call is not inside of a pipeline, of the micro-batches of
            gradient accumulation, or of the body of a loop of ``ipu.loops``.

    Source: ``ipu.internal_ops.get_current_iteration_counter`` of SDK 2.0 to 3.4.

    Example:
        >>> from ipu import pipelining_ops
        >>> from ipu.ipu_outfeed_queue import IPUOutfeedQueue
        >>> from ipu.ipu_strategy import IPUStrategy
        >>> out = IPUOutfeedQueue()
        >>> def stage():
        ...     return get_current_iteration_counter()
        >>> @tf.function(jit_compile=True)
        ... def run():
        ...     pipelining_ops.pipeline(
        ...         [stage, lambda i: i], 4, device_mapping=[0, 0], outfeed_queue=out
        ...     )
        >>> IPUStrategy().run(run)
        >>> out.dequeue().numpy().tolist()
        [0, 1, 2, 3]
    """
    iterations = current_iterations()
    if iterations is None:
        raise RuntimeError(
            "internal_ops.get_current_iteration_counter counts the micro-batches of a "
            "pipeline, or the iterations of ipu.loops.repeat and while_loop: call it "
            "in a stage, or in the body of a loop."
        )
    return iterations.index()


export(__name__)
