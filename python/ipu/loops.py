# SPDX-License-Identifier: MIT
"""Loops that run on the device: ``ipu.loops``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ipu import _core, tf
from ipu._core import Tensor
from ipu._loops.accumulation import Iterations
from ipu._loops.training_loop import TrainingLoop, training_loop
from ipu._text.arguments import as_int
from ipu._text.exports import export
from ipu._text.tracebacks import boundary
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.tf._functions.blocks import (
    add_results,
    as_tuple,
    block,
    is_known,
    loop_attrs,
    loop_body,
)
from ipu.tf._functions.while_loop import as_predicate
from ipu.tf._graph.reached import active, operation
from ipu.tf._tensor.operation import Operation

__all__ = ["repeat", "while_loop"]


def _as_list(inputs: Any) -> list[Any]:
    if inputs is None:
        return []
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


def _needs(function: Callable[..., Any]) -> str | None:
    """Return how many positional arguments a function takes, in words; None: not
    known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    positional = [
        p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    fewest = sum(p.default is p.empty for p in positional)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return f"at least {fewest} arguments"
    if fewest == len(positional):
        return f"exactly {fewest} arguments"
    return f"at least {fewest} and at most {len(positional)} arguments"


def _check_arguments(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    infeed: Sequence[Any],
    keywords: dict[str, Any],
    what: str,
    note: str = "",
) -> None:
    """Raise where ``function(*inputs, *infeed, **keywords)`` cannot be called."""
    try:
        inspect.signature(function).bind(*inputs, *infeed, **keywords)
        return
    except TypeError:
        needs = _needs(function)
    except ValueError:  # a builtin that does not say
        return
    if needs is None:
        return
    given = f"{len(inputs)} inputs"
    if infeed or keywords:
        given += f" and {len(infeed) + len(keywords)} infeed values"
    if keywords:
        given += f" ({', '.join(keywords)} by name)"
    raise TypeError(
        "Supplied computation cannot be called with the specified inputs. You "
        f"specified {given}, but the loop {what} needs {needs}.{note}"
    )


def _body_results(returned: Any, wanted: int) -> list[Tensor]:
    """Return the tensors that a body gave; None and operations come after them."""
    results = _as_list(returned)
    count = next(
        (i for i, r in enumerate(results) if r is None or isinstance(r, Operation)),
        len(results),
    )
    behind = results[count:]
    if count != wanted or not all(
        r is None or isinstance(r, Operation) for r in behind
    ):
        raise ValueError(
            "IPU loop body must return zero or more Tensor values followed by zero or "
            f"more Operations: one tensor for each of the {wanted} inputs of the loop. "
            f"Received {count} tensors in {len(results)} values."
        )
    return [Tensor(value) for value in results[:count]]


def _check_types(before: Sequence[Tensor], after: Sequence[Tensor]) -> None:
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        if old.dtype != new.dtype:
            raise TypeError(
                "Mismatch between input types and output types of the loop body: value "
                f"{i} enters as {old.dtype.name} and leaves as {new.dtype.name}. "
                "Convert it with tf.cast."
            )
        if old.shape != new.shape:
            raise ValueError(
                f"Value {i} of the loop enters with shape {old.shape} and leaves with "
                f"shape {new.shape}. Shapes are fixed when a function is compiled for "
                "the device: keep the shape."
            )


def _open_trace(what: str) -> _core.Trace:
    trace = _core.open_trace()
    if trace is None:
        raise RuntimeError(
            f"loops.{what} builds a loop of a device program: call it inside a "
            "function that is compiled for the device."
        )
    return trace


def _trace_body(
    trace: _core.Trace,
    body: Callable[..., Any],
    start: Sequence[Tensor],
    infeed_queue: IPUInfeedQueue | None,
    loop: TrainingLoop | None = None,
    counts: bool = False,
) -> tuple[int, bool]:
    """Return the block of a loop's body, and whether its iterations are counted: then
    there is one more value, an int32 scalar from 0 on."""
    with loop_body(trace) as inner:
        carried = [trace.parameter((t.dtype.name, t.shape), inner) for t in start]
        args: tuple[Any, ...] = ()
        keywords: dict[str, Any] = {}
        begin = trace.node_count
        if infeed_queue is not None:
            args, keywords = infeed_queue._dequeue_arguments()
        taken = begin, trace.node_count
        _check_arguments(body, carried, args, keywords, "body")
        iterations = Iterations(trace, inner)
        if counts:
            iterations.index()
        with iterations.open():
            returned = body(*carried, *args, **keywords)
        ends = _body_results(returned, len(start))
        _check_types(start, ends)
        add_results(trace, inner, ends)
        is_counted = iterations.close()
        reached = active()
        if reached is not None:
            reached.lead_from_block(inner, [taken, *reached.spans_of(returned)])
        if loop is not None:
            loop.close(inner)
    return inner, is_counted


def _result(trace: _core.Trace, outputs: tuple[Tensor, ...]) -> Any:
    if not outputs:
        return operation("IPULoop", trace.last_node(), "loop")
    return outputs[0] if len(outputs) == 1 else list(outputs)


@boundary
def repeat(
    n: Any,
    body: Callable[..., Any],
    inputs: Sequence[Any] | Any = None,
    infeed_queue: IPUInfeedQueue | None = None,
    use_while_v1: bool = True,
) -> Any:
    """Run ``body`` ``n`` times on the device (IPU API: ``ipu.loops.repeat``).

    It works only inside a function that is compiled for the device.

    Args:
        n: The number of iterations, an int or an int32 scalar; below 1 there are none.
        body: ``body(*inputs, *infeed_values)``; returns a tensor for each input, of its
            shape and dtype, which is the input of the next iteration, and then any
            operations.
        inputs: The values of the first iteration: a list, a tensor, or None.
        infeed_queue: Gives one element to each iteration.
        use_while_v1: Accepted and not used.

    Returns:
        An operation without inputs, the tensor for one, a list for several.

    Raises:
        ValueError: ``body`` does not return what it must, or a value changes its shape.
        TypeError: A value changes its dtype around the loop, or ``body`` does not take
            so many arguments.
        RuntimeError: No function is being compiled.

    Example:
        >>> from ipu import loops, tf
        >>> @tf.function(jit_compile=True)
        ... def power(x):
        ...     return loops.repeat(3, lambda y: y * x, [x])
        >>> float(power(tf.constant(2.0)))
        16.0
    """
    del use_while_v1
    trace = _open_trace("repeat")
    if not callable(body):
        raise TypeError(
            "loops.repeat takes the number of iterations, then the body: repeat(n, "
            f"body, inputs). Received: n={n!r}, body={body!r}."
        )
    if not hasattr(n, "assign"):  # the device has no int64
        n = as_int(n)
    count = Tensor(n)
    start = [Tensor(value) for value in _as_list(inputs)]
    begin = trace.node_count
    with training_loop(trace, n) as loop:
        inner, is_counted = _trace_body(trace, body, start, infeed_queue, loop)
        outputs = loop.add(count, start, inner, is_counted)
    reached = active()
    if reached is not None and loop.accumulates:
        node = trace.last_node()
        reached.lead((node, node + 1), [(begin, trace.node_count)])
    return _result(trace, outputs[: len(start)])


@boundary
def while_loop(
    condition: Callable[..., Any],
    body: Callable[..., Any],
    inputs: Sequence[Any] | Any = None,
    infeed_queue: IPUInfeedQueue | None = None,
    maximum_iterations: Any = None,
    use_while_v1: bool = True,
) -> Any:
    """Run ``body`` on the device while ``condition`` is true (IPU API:
    ``ipu.loops.while_loop``).

    It works only inside a function that is compiled for the device.

    Args:
        condition: ``condition(*inputs)``, without infeed values, gives a scalar bool.
        body: ``body(*inputs, *infeed_values)``; returns a tensor for each input, of its
            shape and dtype, which is the input of the next iteration, and then any
            operations.
        inputs: The values of the first iteration: a list, a tensor, or None.
        infeed_queue: Gives one element to each iteration.
        maximum_iterations: The most iterations, an int or an int32 scalar; None: any
            number.
        use_while_v1: Accepted and not used.

    Returns:
        An operation without inputs, the tensor for one, a list for several.

    Raises:
        ValueError: ``body`` does not return what it must, or a value changes its shape.
        TypeError: A value changes its dtype around the loop, ``condition`` gives no
            bool, or one of the functions does not take so many arguments.
        RuntimeError: No function is being compiled.

    Example:
        >>> from ipu import loops, tf
        >>> @tf.function(jit_compile=True)
        ... def first_above(limit):
        ...     return loops.while_loop(lambda x: x <= limit, lambda x: x * 2.0, [1.0])
        >>> float(first_above(tf.constant(100.0)))
        128.0
    """
    del use_while_v1
    trace = _open_trace("while_loop")
    start = [Tensor(value) for value in _as_list(inputs)]
    with block(trace) as test:
        values = [trace.parameter((t.dtype.name, t.shape), test) for t in start]
        _check_arguments(
            condition,
            values,
            (),
            {},
            "condition",
            " Note that infeed is not passed to the loop condition.",
        )
        predicate = as_predicate(condition(*values), "The result of the loop condition")
        iteration: Tensor | None = None
        if maximum_iterations is not None and not is_known(maximum_iterations):
            iteration = trace.parameter(("int32", ()), test)
            is_within = iteration < tf.cast(maximum_iterations, "int32")
            predicate = tf.logical_and(predicate, is_within)
        add_results(trace, test, [predicate])
    counts = iteration is not None
    inner, is_counted = _trace_body(trace, body, start, infeed_queue, counts=counts)
    inputs = list(start)
    if is_counted:
        inputs.append(tf.constant(0, "int32"))
        if iteration is None:
            trace.parameter(("int32", ()), test)
    limit = -1
    if maximum_iterations is not None and iteration is None:
        limit = max(int(maximum_iterations), 0)
    attrs = loop_attrs(condition=test, body=inner, maximum_iterations=limit)
    results = as_tuple(trace.node("while", inputs, attrs, ()))
    return _result(trace, results[: len(start)])


export(__name__)
