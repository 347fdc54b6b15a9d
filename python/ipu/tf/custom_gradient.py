# SPDX-License-Identifier: MIT
"""Functions that say themselves what their gradient is."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ipu import _core
from ipu._core import Tensor
from ipu._device import devices
from ipu._device.thread_state import here
from ipu.tf import nest
from ipu.tf._functions.custom_calls import CustomCall, add_custom_call, custom_calls_of
from ipu.tf._functions.tracing import current_build
from ipu.tf._gradients import tapes as _tapes
from ipu.tf._graph import mode
from ipu.tf.variable import Variable

__all__ = ["custom_gradient", "grad_pass_through", "recompute_grad"]


def custom_gradient(f: Callable[..., Any] | None = None) -> Any:
    """Decorate a function that returns ``(result, gradient)``.

    Args:
        f: ``f(*tensors)`` gives its result, a tensor or a nest of them, and a function
            ``gradient(*upstream)`` of a tensor for each result tensor, which gives a
            gradient for each argument. If ``f`` uses trainable variables,
            ``gradient`` also takes ``variables=None``, and gives
            ``(gradients, gradients_of_variables)``.

    Returns:
        ``f`` without the second result.

    Raises:
        TypeError: ``f`` uses variables, and ``gradient`` takes none.
        ValueError: ``gradient`` gives another number of gradients.

    Example:
        >>> @tf.custom_gradient
        ... def clipped(x):
        ...     return tf.identity(x), lambda dy: tf.minimum(dy, 1.0)
        >>> x = tf.constant(2.0)
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = clipped(x) * 5.0
        >>> float(tape.gradient(y, x))
        1.0
    """
    if f is None:
        return custom_gradient
    function = f

    @functools.wraps(function)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        return _call(function, args, kwargs)

    return decorated


def _converted(function: Callable[..., Any]) -> Callable[..., Any]:
    if _core.open_trace() is None:
        return function
    from ipu.tf import autograph

    return autograph.tf_convert(function)


def _call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    only_used: bool = False,
) -> Any:
    graph = mode.building()
    if graph is not None:
        arguments = (function, args, kwargs, only_used)
        return graph.record(_call, arguments, {}, "IdentityN")
    inputs = [Tensor(a) for a in nest.flatten(args)]
    if _core.open_trace() is not None:  # f(x, x) has two arguments with two gradients
        inputs = [_core.apply("identity", (x,)) for x in inputs]
    watcher = _tapes.Reads()
    tapes: list[Any] = _tapes.active()
    tapes.append(watcher)
    try:
        packed = nest.pack_sequence_as(args, inputs)
        result, gradient = _converted(function)(*packed, **kwargs)
        if gradient is None:
            return result
    finally:
        tapes.remove(watcher)
    record = _record()
    if record is None:
        return result
    given = {id(a) for a in nest.flatten(args)}
    read = watcher.variables.values()
    variables = [v for v in read if v.trainable and id(v) not in given]
    backward = _backward(function, gradient, len(inputs), variables, only_used)
    plain = [Tensor(r) for r in nest.flatten(result)]
    if isinstance(record, _core.Recorder):
        begin = record.node_count
        is_watched = bool(variables) or any(record.watches(x) for x in inputs)
        for tensor in plain if is_watched else ():
            record.watch(tensor)  # also of one that no op has made
        outputs = [_core.apply("custom_gradient", (tensor,)) for tensor in plain]
        for output in outputs if is_watched else ():
            record.watch(output)
    else:
        sources = [*inputs, *(v.read_value() for v in variables)]
        attrs = {"index": len(custom_calls_of(record))}
        begin = record.node_count
        outputs = [_core.apply("custom_gradient", (t, *sources), attrs) for t in plain]
    end = record.node_count
    call = CustomCall(
        begin, end, inputs, variables, outputs, backward, takes_absent=only_used
    )
    add_custom_call(record, call)
    return nest.pack_sequence_as(result, outputs)


def _record() -> _core.Trace | _core.Recorder | None:
    """Return where what is computed now is recorded."""
    trace = _core.open_trace()
    if trace is not None:
        return trace
    for tape in reversed(_tapes.active()):
        if tape._is_eager and isinstance(tape._record, _core.Recorder):
            return tape._record
    return None


def _takes_variables(gradient: Callable[..., Any]) -> bool:
    parameters = inspect.signature(gradient).parameters
    return "variables" in parameters or any(
        p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()
    )


def _backward(
    function: Callable[..., Any],
    gradient: Callable[..., Any],
    count: int,
    variables: Sequence[Variable],
    only_used: bool,
) -> Callable[[Sequence[Tensor], Sequence[bool] | None], list[Any]]:
    name = getattr(function, "__name__", "function")
    if variables and not _takes_variables(gradient):
        raise TypeError(
            "If using @custom_gradient with a function that uses variables, then "
            f"grad_fn must accept a 'variables' keyword argument: {name} reads "
            f"{', '.join(v.name for v in variables)}."
        )

    def backward(
        upstream: Sequence[Tensor | None], wanted: Sequence[bool] | None
    ) -> list[Any]:
        of_variables: Sequence[Any] = ()
        keywords = {"wanted": wanted} if only_used else {}
        if variables:
            given, of_variables = _converted(gradient)(
                *upstream, variables=list(variables), **keywords
            )
            if len(of_variables) != len(variables):
                raise ValueError(
                    f"The gradient function of {name} must return a gradient for each "
                    f"of {len(variables)} variables. Received: {len(of_variables)}."
                )
        else:
            given = _converted(gradient)(*upstream, **keywords)
        grads = list(given) if isinstance(given, (list, tuple)) else [given]
        if len(grads) != count:
            raise ValueError(
                f"custom_gradient function expected to return {count} gradients, but "
                f"returned {len(grads)} instead ({name})."
            )
        return [None if g is None else Tensor(g) for g in (*grads, *of_variables)]

    return backward


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``f`` with the gradient of the identity.

    Example:
        >>> round_through = tf.grad_pass_through(tf.round)
        >>> x = tf.Variable(1.75)
        >>> with tf.GradientTape() as tape:
        ...     y = round_through(x)
        ...
        >>> float(y), float(tape.gradient(y, x))
        (2.0, 1.0)
    """

    def passed(*args: Any, **kwargs: Any) -> Any:
        def gradient(*upstream: Tensor, variables: Any = None) -> Any:
            if variables is not None:
                return list(upstream), [None] * len(variables)
            return list(upstream)

        return f(*args, **kwargs), gradient

    made: Callable[..., Any] = custom_gradient(passed)
    return made


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """Compute ``f`` again when its gradient is computed, in place of keeping its
    values.

    In a function of the device what ``f`` makes is thus not kept from its call to its
    gradient, which takes less memory and more time. Random ops draw the same numbers
    again. What draws any, or rounds at random, is kept in a loop whose gradient is
    taken from outside of it.

    Args:
        f: A function of tensors that may use variables.

    Returns:
        A function with the results and the gradients of ``f``.

    Example:
        >>> @tf.recompute_grad
        ... def block(x):
        ...     return tf.tanh(tf.tanh(x))
        >>> x = tf.Variable(0.0)
        >>> with tf.GradientTape() as tape:
        ...     y = block(x)
        >>> float(tape.gradient(y, x))
        1.0
    """

    def with_gradient(*args: Any, **kwargs: Any) -> Any:
        from ipu.tf.gradient_tape import GradientTape

        trace = _core.open_trace()
        random = _random_now()
        ordinal = 0 if trace is None else trace.next_ordinal
        begin = 0 if trace is None else trace.node_count

        def gradient(
            *upstream: Tensor | None, variables: Any = None, wanted: Any = None
        ) -> Any:
            with GradientTape() as tape:
                xs = [_core.apply("identity", (a,)) for a in nest.flatten(args)]
                tape.watch(xs)
                with _again(trace, random, ordinal, begin, end):
                    again = f(*nest.pack_sequence_as(args, xs), **kwargs)
            # no nodes for what is not used: they would shift the numbers by which
            # later ones round
            sources = [*xs, *(variables or [])]
            used = [True] * len(sources) if wanted is None else wanted
            needed = list(itertools.compress(sources, used))
            reached = [grad is not None for grad in upstream]
            ys = list(itertools.compress(nest.flatten(again), reached))
            weights = list(itertools.compress(upstream, reached))
            found = iter(tape.gradient(ys, needed, weights))
            grads = [next(found) if is_used else None for is_used in used]
            if variables is None:
                return grads
            return grads[: len(xs)], grads[len(xs) :]

        results = f(*args, **kwargs)
        end = 0 if trace is None else trace.node_count
        is_kept = (  # another turn draws other numbers
            trace is not None
            and _in_other_turn(trace)
            and (trace.next_ordinal > ordinal or _rounds_at_random(trace))
        )
        return results, None if is_kept else gradient

    @functools.wraps(f)
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        return _call(with_gradient, args, kwargs, only_used=True)

    return recomputed


class _Random(NamedTuple):
    """Where the random numbers of eager ops stand, and those of programs."""

    eager: tuple[int, int, int]
    device: tuple[int, int] | None


def _random_now() -> _Random:
    device = devices.get_device().core if devices.is_configured() else None
    return _Random(_core.eager_random(), None if device is None else device.random)


def _set_random(random: _Random) -> None:
    _core.set_eager_random(*random.eager)
    if random.device is not None:
        devices.get_device().core.set_random(*random.device)


def _rounds_at_random(trace: _core.Trace) -> bool:
    device = current_build().device
    options = {} if device is None else device.options or {}
    is_configured = options.get("floating_point_behaviour.esr", 0) != 0
    return trace.rounding == 2 or (is_configured and trace.rounding == 0)


def _in_other_turn(trace: _core.Trace) -> bool:
    """Return whether gradients of what is traced now may belong to another turn of a
    loop: those of a tape around the loop, or of no tape that is known."""
    around = [tapes for one, tapes in here.loop_bodies if one is trace]
    tapes = [one for one in _tapes.active() if getattr(one, "_record", None) is trace]
    return bool(around) and (not tapes or any(one in around[-1] for one in tapes))


@contextlib.contextmanager
def _again(
    trace: _core.Trace | None,
    random: _Random,
    ordinal: int,
    begin: int,
    end: int,
) -> Iterator[None]:
    """Open a context in which what is traced makes the values of the nodes [begin, end)
    a second time; eager ops and functions draw from `random` again."""
    if trace is None:
        now = _random_now()
        try:
            _set_random(random)
            yield
        finally:
            _set_random(now)
        return
    mark = trace.recompute(ordinal)
    try:
        yield
    finally:
        trace.resume(*mark, begin, end)
