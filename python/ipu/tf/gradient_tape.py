# SPDX-License-Identifier: MIT
"""``GradientTape``: derivatives of what was computed in a ``with`` block.

In a function that is being traced the function's graph is the record, and a tape is the
range of its nodes that were made while it recorded. Outside of one the tapes that are
active together share a recorder, a graph of the eager ops of watched tensors. Both are
differentiated by the core's autodiff. What has a gradient of its own
(``tf.custom_gradient``) is a custom call: there the core calls the gradient function,
or, where it wants the numbers of an eager tape, the walk stops, calls it, and goes on
from its inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, overload

from ipu import _core
from ipu._core import Tensor
from ipu._text.log import logger
from ipu._text.tracebacks import boundaries
from ipu.tf import nest
from ipu.tf._functions.custom_calls import CustomCall, custom_calls_of
from ipu.tf._functions.tracing import in_trace
from ipu.tf._gradients import lookups, tapes
from ipu.tf._gradients.derivatives import (
    UnconnectedGradients,
    as_target,
    check_source,
    is_float,
    sum_of,
    unconnected_of,
)
from ipu.tf._graph import mode
from ipu.tf._ops import creation, shapes
from ipu.tf.variable import Variable

__all__ = ["GradientTape", "UnconnectedGradients", "gradients"]


@boundaries("gradient", "jacobian", "batch_jacobian")
class GradientTape:
    """Records what is computed inside ``with``, to differentiate it.

    Args:
        persistent: Whether :meth:`gradient` may be called more than once.
        watch_accessed_variables: Whether trainable variables that are read are
            watched by themselves.

    Example:
        >>> x = tf.constant(3.0)
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> float(tape.gradient(y, x))
        6.0
    """

    def __init__(
        self, persistent: bool = False, watch_accessed_variables: bool = True
    ) -> None:
        self._persistent = persistent
        self._watch_accessed = watch_accessed_variables
        self._is_active = False
        self._used = False
        self._is_eager = False
        self._clear()

    def _clear(self) -> None:
        self._record: _core.Trace | _core.Recorder | None = None
        self._spans: list[tuple[int, int]] = []
        self._begin: int | None = None
        self._watched: dict[int, Tensor] = {}
        self._stops: list[Any] = []
        self._variables: dict[int, Variable] = {}
        self._reads: dict[int, list[Tensor]] = {}  # eager ones, by variable

    @classmethod
    def _of_all(
        cls, trace: _core.Trace, sources: Sequence[Any], stops: Sequence[Any] = ()
    ) -> GradientTape:
        """Return a tape that has seen the whole function, and watched its sources;
        `stops` are constants for it."""
        tape = cls(persistent=True)
        tape._record = trace
        tape._spans = [(0, trace.node_count)]
        tape._stops = [getattr(one, "_id", one) for one in stops]
        for x in sources:
            if isinstance(x, Variable):
                tape._variables[id(x)] = x
            else:
                tape._watched[id(x)] = Tensor(x)
        return tape

    # --- recording -------------------------------------------------------------------

    def __enter__(self) -> GradientTape:
        if self._is_active:
            raise ValueError(
                "Tape is still recording, This can happen if you try to re-enter an "
                "already-active tape."
            )
        self._push()
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_active:
            self._pop()

    def _push(self) -> None:
        trace = _core.open_trace()
        if self._record is None:
            self._is_eager = trace is None
            self._record = trace
            if trace is None:
                others = [t for t in tapes.active() if t._is_eager]
                self._record = others[-1]._record if others else _core.Recorder()
        elif not self._is_eager and trace is not self._record:
            raise RuntimeError(
                "A tape that was begun in a function that is being traced cannot be "
                "used outside of it."
            )
        tapes.active().append(self)
        self._is_active = True
        self._begin = self._position()
        if self._is_eager:
            assert isinstance(self._record, _core.Recorder)
            self._record.start()

    def _pop(self) -> None:
        if not self._is_active:
            raise ValueError("Tape is not recording.")
        tapes.active().remove(self)
        self._is_active = False
        assert self._begin is not None
        self._spans.append((self._begin, self._position()))
        self._begin = None
        if self._is_eager and not tapes.is_recording():
            assert isinstance(self._record, _core.Recorder)
            self._record.stop()

    def _position(self) -> int:
        assert self._record is not None
        return self._record.node_count

    def _take_read(self, variable: Variable, tensor: Tensor) -> None:
        """Note that a variable was read, as this tensor, while the tape records."""
        if self._takes(variable) and self._is_eager and not tensor.is_symbolic:
            assert isinstance(self._record, _core.Recorder)
            self._record.watch(tensor)
            self._reads.setdefault(id(variable), []).append(tensor)

    def _takes(self, variable: Variable) -> bool:
        """Return whether it watches a variable that is read, now or from now on."""
        if id(variable) not in self._variables:
            if not (self._watch_accessed and variable.trainable):
                return False
            self._variables[id(variable)] = variable
        return True

    def watch(self, tensor: Any) -> None:
        """Record what is computed from a tensor or variable, or a nest of them.

        Raises:
            ValueError: It is something else.
        """
        for one in nest.flatten(tensor):
            if not isinstance(one, (Tensor, Variable)):
                raise ValueError(
                    f"Passed in object {one!r} of type {type(one).__name__!r}, not "
                    "tf.Tensor or tf.Variable or ExtensionType."
                )
            if not is_float(one):
                logger.warning(
                    "The dtype of the watched tensor must be floating (e.g. "
                    "tf.float32), got %r",
                    one.dtype,
                )
            if isinstance(one, Variable):
                self._variables[id(one)] = one
                continue
            self._watched[id(one)] = one
            if self._is_eager and self._record is not None:
                assert isinstance(self._record, _core.Recorder)
                self._record.watch(one)

    def watched_variables(self) -> tuple[Variable, ...]:
        """Return the variables that were watched, in the order in which they were
        met."""
        return tuple(self._variables.values())

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Do not record what is inside.

        Raises:
            RuntimeError: The tape is not recording.
        """
        if not self._is_active:
            raise RuntimeError(
                "Trying to stop recording a tape which is not recording."
            )
        self._pop()
        try:
            yield
        finally:
            self._push()

    def reset(self) -> None:
        """Forget all that was recorded and watched."""
        was_active = self._is_active
        if was_active:
            self._pop()
        self._used = False
        self._clear()
        if was_active:
            self._push()

    # --- differentiating -------------------------------------------------------------

    def _begin_use(self) -> None:
        if self._used and not self._persistent:
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of "
                "gradients (or jacobians)"
            )
        if self._is_active:
            if not self._persistent:
                self._pop()
            else:
                logger.debug("gradient() of a persistent tape inside its context")
        self._used = True

    def _end_use(self) -> None:
        if not self._persistent:
            # what was recorded is freed now, not when the tape is
            variables = self._variables
            self._clear()
            self._variables = variables

    @overload
    def gradient(
        self, target: Any, sources: Tensor | Variable, *args: Any, **kwargs: Any
    ) -> Tensor | Any: ...

    @overload
    def gradient(
        self,
        target: Any,
        sources: list[Tensor] | list[Variable] | list[Tensor | Variable],
        *args: Any,
        **kwargs: Any,
    ) -> list[Tensor | Any]: ...

    @overload
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any: ...

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """Return the derivatives of the sum of ``target`` with respect to ``sources``.

        Args:
            target: A tensor, or a nest of tensors.
            sources: A tensor or variable, or a nest of them.
            output_gradients: For each of ``target`` what its elements are multiplied
                by, of its shape; None is ones.
            unconnected_gradients: The gradient of a source that the target does not
                depend on: ``UnconnectedGradients.NONE`` (None) or ``ZERO``.

        Returns:
            A nest like ``sources``.

        Raises:
            RuntimeError: The tape is not persistent and was used before.
            TypeError: ``target`` is None.
            ValueError: ``unconnected_gradients`` is something else.
        """
        if target is None:
            raise TypeError(
                "Argument `target` should be a list or nested structure of Tensors, "
                "Variables or CompositeTensors to be differentiated, but received None."
            )
        unconnected = unconnected_of(unconnected_gradients)
        self._begin_use()
        targets = [as_target(t) for t in nest.flatten(target)]
        xs = nest.flatten(sources)
        for x in xs:
            check_source(x)
        weights: list[Tensor | None] = [None] * len(targets)
        if output_gradients is not None:
            weights = [
                None if w is None else Tensor(w) for w in nest.flatten(output_gradients)
            ]
            if len(weights) != len(targets):
                raise ValueError(
                    "`output_gradients` must have the structure of `target`: one "
                    f"tensor for each of its {len(targets)}. Received: {len(weights)}."
                )
        found = self._derivatives(targets, weights, xs)
        if unconnected is UnconnectedGradients.ZERO:
            found = [
                creation.zeros_like(x) if g is None else g
                for x, g in zip(xs, found, strict=True)
            ]
        self._end_use()
        return nest.pack_sequence_as(sources, found)

    def _derivatives(
        self,
        ys: Sequence[Tensor],
        weights: Sequence[Tensor | None],
        xs: Sequence[Any],
    ) -> list[Tensor | None]:
        if self._record is None:
            return [None] * len(xs)
        spans = list(self._spans)
        if self._begin is not None:
            spans.append((self._begin, self._position()))
        if isinstance(self._record, _core.Trace) and in_trace():
            return lookups.with_rows(
                xs,
                lambda sources: self._walk(ys, weights, sources, spans, []),
                min((begin for begin, _ in spans), default=0),
            )
        if isinstance(self._record, _core.Trace):
            return self._walk(ys, weights, xs, spans, [])
        calls = [
            b
            for b in custom_calls_of(self._record)
            if any(begin <= b.begin < end for begin, end in spans)
        ]
        if not calls:
            return self._walk(ys, weights, xs, spans, [])
        for call in calls:
            spans = call.outside(spans)
        return self._across(ys, weights, xs, spans, calls)

    def _across(
        self,
        ys: Sequence[Tensor],
        weights: Sequence[Tensor | None],
        xs: Sequence[Any],
        spans: list[tuple[int, int]],
        calls: list[CustomCall],
    ) -> list[Tensor | None]:
        """Return the walk through gradient functions, from the last to the first."""
        outputs = [t for call in calls for t in call.outputs]
        everything = [*xs, *outputs]
        total = self._walk(ys, weights, everything, spans, outputs)
        for call in reversed(calls):
            at = len(xs) + sum(len(b.outputs) for b in calls[: calls.index(call)])
            incoming = total[at : at + len(call.outputs)]
            if all(g is None for g in incoming):
                continue
            grads = call.backward(incoming)
            by_variable = dict(
                zip(map(id, call.variables), grads[len(call.inputs) :], strict=True)
            )
            steps = [
                (x, g)
                for x, g in zip(call.inputs, grads, strict=False)
                if g is not None and is_float(x)
            ]
            if steps:
                more = self._walk(
                    [x for x, _ in steps],
                    [g for _, g in steps],
                    everything,
                    spans,
                    outputs,
                )
                total = [sum_of(a, b) for a, b in zip(total, more, strict=True)]
            for i, x in enumerate(xs):
                if id(x) in self._variables:
                    total[i] = sum_of(total[i], by_variable.get(id(x)))
        return total[: len(xs)]

    def _walk(
        self,
        ys: Sequence[Tensor],
        weights: Sequence[Tensor | None],
        xs: Sequence[Any],
        spans: list[tuple[int, int]],
        of_calls: Sequence[Tensor],
    ) -> list[Tensor | None]:
        watched = [*self._watched.values(), *of_calls]
        if isinstance(self._record, _core.Trace):
            if _core.open_trace() is not self._record:
                raise RuntimeError(
                    "A tape that was begun in a function that is being traced cannot "
                    "be used outside of it. Compute the gradient in the function and "
                    "return it."
                )
            variables = [v._id for v in self._variables.values()]
            calls = custom_calls_of(self._record)
            return self._record.gradients(
                ys,
                weights,
                [getattr(x, "_id", x) for x in xs],
                spans,
                [*watched, *variables],
                lambda index, *grads: calls[index].backward(*grads),
                self._stops,
            )
        assert self._record is not None
        reads = [t for each in self._reads.values() for t in each]
        flat: list[Tensor] = []
        counts: list[int] = []
        for x in xs:
            own = [x]
            if isinstance(x, Variable):
                own = lookups.with_values(self._reads.get(id(x), []))
            flat += own
            counts.append(len(own))
        found = iter(
            self._record.gradients(
                list(ys), list(weights), flat, [*watched, *reads], spans
            )
        )
        results: list[Tensor | None] = []
        at = 0
        for x, count in zip(xs, counts, strict=True):
            parts = [next(found) for _ in range(count)]
            reads = self._reads.get(id(x), []) if isinstance(x, Variable) else [x]
            total: Tensor | None = None
            for part in reversed(parts[: len(reads)]):
                total = sum_of(total, part)
            results.append(total)
            if isinstance(x, Variable):
                lookups.note_rows(total, reads, parts)
            at += count
        return results

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """Return the derivative of each element of ``target`` by each of ``sources``.

        Args:
            target: A tensor.
            sources: A tensor or variable, or a nest of them.
            unconnected_gradients: As for :meth:`gradient`.
            parallel_iterations, experimental_use_pfor: Accepted and not used.

        Returns:
            A nest like ``sources``, of shape ``target.shape + source.shape``.
        """
        unconnected = unconnected_of(unconnected_gradients)
        self._begin_use()
        tensor = as_target(target)
        xs = nest.flatten(sources)
        count = math.prod(tensor.shape)
        rows: list[list[Tensor | None]] = []
        for i in range(count):
            weight = shapes.reshape(
                creation.one_hot(i, count, dtype=tensor.dtype), list(tensor.shape)
            )
            rows.append(self._derivatives([tensor], [weight], xs))
        found: list[Tensor | None] = []
        for k, x in enumerate(xs):
            column = [row[k] for row in rows]
            if all(g is None for g in column):
                empty = creation.zeros([*tensor.shape, *x.shape], x.dtype)
                zero = unconnected is UnconnectedGradients.ZERO
                found.append(empty if zero else None)
                continue
            filled = [creation.zeros_like(x) if g is None else g for g in column]
            found.append(
                shapes.reshape(shapes.stack(filled), [*tensor.shape, *x.shape])
            )
        self._end_use()
        return nest.pack_sequence_as(sources, found)

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """Return the derivative of each row of the target by the source's row.

        Args:
            target: [b, ...]; row i depends on row i of ``source`` alone.
            source: [b, ...].
            unconnected_gradients: As for :meth:`gradient`.
            parallel_iterations, experimental_use_pfor: Accepted and not used.

        Returns:
            A tensor of shape ``[b, *target.shape[1:], *source.shape[1:]]``.

        Raises:
            ValueError: The first axes differ.
        """
        unconnected = unconnected_of(unconnected_gradients)
        tensor = as_target(target)
        if tensor.ndim < 1 or len(source.shape) < 1:
            raise ValueError(
                "batch_jacobian needs a target and a source of at least one axis."
            )
        if tensor.shape[0] != source.shape[0]:
            raise ValueError(
                "Need first dimension of target shape "
                f"({tensor.shape[0]}) and source shape ({source.shape[0]}) to match."
            )
        self._begin_use()
        count = math.prod(tensor.shape[1:])
        columns: list[Tensor | None] = []
        for i in range(count):
            row = shapes.reshape(
                creation.one_hot(i, count, dtype=tensor.dtype), [1, *tensor.shape[1:]]
            )
            weight = shapes.broadcast_to(row, list(tensor.shape))
            columns += self._derivatives([tensor], [weight], [source])
        self._end_use()
        shape = [*tensor.shape, *source.shape[1:]]
        if all(g is None for g in columns):
            zero = unconnected is UnconnectedGradients.ZERO
            return creation.zeros(shape, source.dtype) if zero else None
        filled = [creation.zeros_like(source) if g is None else g for g in columns]
        return shapes.reshape(shapes.stack(filled, axis=1), shape)


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = UnconnectedGradients.NONE,
) -> list[Tensor | None]:
    """Return the derivatives of the sum of ``ys`` (times ``grad_ys``) with respect to
    each of ``xs``, in a function that is being traced or a graph of TensorFlow 1.

    Args:
        ys: A tensor or a list of tensors.
        xs: A tensor or variable, or a list of them.
        grad_ys: For each of ``ys`` a tensor of its shape or None (ones).
        gate_gradients, aggregation_method: Accepted and not used.
        stop_gradients: A tensor or variable, or a list of them, that are constants
            here unless they are among ``xs``.
        unconnected_gradients: As for :meth:`GradientTape.gradient`.

    Returns:
        For each of ``xs`` a tensor of its shape, or None where ``ys`` do not depend on
        it.

    Raises:
        RuntimeError: No function is being traced.
        UnimplementedError: An op on the way has no gradient.

    Example:
        >>> slope = tf.function(lambda x: tf.gradients(x**3, x)[0])
        >>> float(slope(tf.constant(2.0)))
        12.0
    """
    stops = [] if stop_gradients is None else stop_gradients
    stops = list(stops) if isinstance(stops, (list, tuple)) else [stops]
    graph = mode.building()
    if graph is not None:
        return graph.gradients_of(ys, xs, grad_ys, stops, unconnected_gradients)
    trace = _core.open_trace()
    if trace is None:
        raise RuntimeError(
            "tf.gradients is not supported when eager execution is enabled. Use "
            "tf.GradientTape instead."
        )
    sources = list(xs) if isinstance(xs, (list, tuple)) else [xs]
    tape = GradientTape._of_all(trace, sources, stops)
    targets = list(ys) if isinstance(ys, (list, tuple)) else [ys]
    weights = grad_ys
    if grad_ys is not None and not isinstance(grad_ys, (list, tuple)):
        weights = [grad_ys]
    if weights is not None and len(weights) != len(targets):
        raise ValueError(
            f"grad_ys must have one entry for each of the {len(targets)} ys. "
            f"Received: {len(weights)}."
        )
    found = tape._derivatives(
        [as_target(y) for y in targets],
        [None] * len(targets)
        if weights is None
        else [None if w is None else Tensor(w) for w in weights],
        sources,
    )
    if unconnected_of(unconnected_gradients) is UnconnectedGradients.ZERO:
        found = [
            creation.zeros_like(x) if g is None else g
            for x, g in zip(sources, found, strict=True)
        ]
    return found
