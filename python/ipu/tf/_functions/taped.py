# SPDX-License-Identifier: MIT
"""Functions that are called while an eager tape records.

The function is traced together with its gradient, and the trace is cut in two: a
program of the call, which also gives what the way back needs, and a program of the way
back. The tape sees one call with a gradient function of its own.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ipu import _core
from ipu._core import Tensor
from ipu._device import devices
from ipu.tf import nest
from ipu.tf._functions.custom_calls import CustomCall, add_custom_call
from ipu.tf._functions.tracing import Build, TracedProgram, trace_program
from ipu.tf._gradients import tapes as _tapes
from ipu.tf._gradients.derivatives import is_float
from ipu.tf.variable import Variable


class TapedProgram:
    """A function's program, and that of its gradient.

    Attributes:
        forward: The program of the call; what the way back needs are further outputs.
        failure: Why there is no gradient, or None.
    """

    forward: TracedProgram

    def __init__(self, recorder: _core.Recorder, device: devices.Device | None) -> None:
        self._device = device
        self._recorder = weakref.ref(recorder)
        self._backward: _core.Program | None = None
        self.failure: Exception | None = None
        self._variables: list[weakref.ref[Variable]] = []
        self._captured: list[Tensor] = []  # float tensors that it uses
        self._taken: list[Tensor] = []  # those of them that it has gradients for
        self._has_gradient: list[bool] = []  # of inputs, taken tensors, variables

    # --- tracing ---------------------------------------------------------------------

    def _differentiate(
        self,
        trace: _core.Trace,
        inputs: Sequence[Tensor],
        variables: Sequence[Variable],
        results: Sequence[Tensor],
    ) -> None:
        from ipu.tf.gradient_tape import GradientTape

        recorder = self._recorder()
        self._captured = [t for t in trace.captured if is_float(t)]
        self._taken = [
            t for t in self._captured if recorder is not None and recorder.watches(t)
        ]
        self._variables = [weakref.ref(v) for v in variables]
        xs = [*inputs, *self._taken, *variables]
        ys = [r for r in results if is_float(r)]
        mark = trace.node_count
        trace.zeros(("int32", ()))
        weights = [trace.parameter((y.dtype.name, tuple(y.shape))) for y in ys]
        tape = GradientTape._of_all(trace, [x for x in xs if is_float(x)])
        try:
            found = tape._derivatives(ys, weights, xs)
        except Exception as error:  # raised where the gradient is asked for
            self.failure = error
            found = [None] * len(xs)
        self._has_gradient = [g is not None for g in found]
        self._backward, _ = trace.split(
            mark,
            len(inputs),
            [g for g in found if g is not None],
            None if self._device is None else self._device.core,
        )

    @property
    def is_better_inline(self) -> bool:
        """Whether there is no gradient, as of a loop without a bound, but there is one
        op by op; what uses queues cannot run so."""
        return self.failure is not None and not self.forward.program.has_queues

    # --- calling ---------------------------------------------------------------------

    def fits(self, recorder: _core.Recorder) -> bool:
        """Return whether it has gradients for all captured tensors that a tape
        watches."""
        taken = {id(t) for t in self._taken}
        return all(id(t) in taken for t in self._captured if recorder.watches(t))

    def _running(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._device is None else self._device.running()

    def call(self, recorder: _core.Recorder, inputs: Sequence[Any]) -> Any:
        """Run it, and let the tape know."""
        tensors = [Tensor(x) for x in inputs]
        with self._running():
            outputs = self.forward.run(tensors)
        count = len(self.forward.output_specs)
        ys, saved = outputs[:count], outputs[count:]
        variables = [ref() for ref in self._variables]  # None: nobody asks for it
        watched = [v for v in variables if v is not None and _tapes.watches(v)]
        sources = [*tensors, *self._taken]
        if watched or any(recorder.watches(x) for x in sources):
            gradient = self._gradient(recorder, tensors, saved)
            ys = _after_custom_call(recorder, sources, variables, ys, gradient)
        return self.forward.pack(ys)

    def _gradient(
        self,
        recorder: _core.Recorder,
        inputs: Sequence[Tensor],
        saved: Sequence[Tensor],
    ) -> Callable[..., list[Tensor | None]]:
        here = weakref.ref(recorder)  # the record's calls must not keep the record

        def gradient(
            upstream: Sequence[Tensor], _: Sequence[bool] | None
        ) -> list[Tensor | None]:
            if self.failure is not None:
                raise self.failure
            assert self._backward is not None
            if self.forward.build.only_compiles:
                return self._zeros(inputs)
            with self._running():
                results = self._backward.run([*inputs, *upstream, *saved])
            if _tapes.is_recording():
                recorder = here()
                assert recorder is not None  # whose gradients are being taken
                sources = [*inputs, *upstream]
                results = _after_custom_call(recorder, sources, (), results, _refuse)
            left = iter(results)
            return [next(left) if has else None for has in self._has_gradient]

        return gradient

    def _zeros(self, inputs: Sequence[Tensor]) -> list[Tensor | None]:
        """Return the gradients where nothing is run."""
        variables = [ref() for ref in self._variables]
        sources = [*inputs, *self._taken, *variables]
        return [
            Tensor(np.zeros(tuple(x.shape), x.dtype.name))
            if has and x is not None
            else None
            for x, has in zip(sources, self._has_gradient, strict=True)
        ]


def _refuse(*_: Any) -> Any:
    raise NotImplementedError(
        "The gradient of the gradient of a tf.function that was called under a tape is "
        "not there. Compute the inner gradient in a tf.function too, or call "
        "tf.config.run_functions_eagerly(True)."
    )


def _after_custom_call(
    recorder: _core.Recorder,
    sources: Sequence[Tensor],
    variables: Sequence[Variable | None],
    ys: Sequence[Tensor],
    gradient: Callable[..., Sequence[Any]],
) -> list[Tensor]:
    """Return the results as the tape is to see them; `gradient` takes those of the
    floats."""
    floats = [y for y in ys if is_float(y)]
    for y in floats:
        recorder.watch(y)
    begin = recorder.node_count
    outputs = [_core.apply("custom_gradient", (y,)) for y in floats]
    end = recorder.node_count
    call = CustomCall(begin, end, sources, variables, outputs, gradient)
    add_custom_call(recorder, call)
    left = iter(outputs)
    return [next(left) if is_float(y) else y for y in ys]


def trace_taped(
    fn: Callable[..., Any],
    specs: Sequence[Any],
    host: bool,
    device: devices.Device,
    build: Build,
    recorder: _core.Recorder,
) -> TapedProgram:
    """Trace a function with its gradient by all that a tape may watch.

    Args:
        fn: The function.
        specs: As for :func:`trace_program`, like the three that follow.
        host, device, build: See there.
        recorder: The tape's; captured tensors that it watches have gradients.
    """
    taped = TapedProgram(recorder, None if host else device)
    reads = _tapes.Reads()
    tapes: list[Any] = _tapes.active()

    def watched(*args: Any) -> Any:
        tapes.append(reads)
        try:
            return fn(*args)
        finally:
            tapes.remove(reads)

    def then(trace: _core.Trace, arguments: Any, results: Sequence[Tensor]) -> None:
        inputs = [
            leaf
            for leaf in nest.flatten(arguments)
            if isinstance(leaf, Tensor) and leaf.is_symbolic
        ]
        variables = [v for v in reads.variables.values() if is_float(v)]
        taped._differentiate(trace, inputs, variables, results)

    taped.forward = trace_program(
        watched, specs, host=host, device=device, build=build, then=then
    )
    return taped
