# SPDX-License-Identifier: MIT
"""Gradient accumulation: the one mechanism under pipelines, optimizers and Keras.

The device runs the micro-batches of a step one after the other, or in a pipeline, as a
``pipeline`` node: a loop that carries a sum for each gradient. The update follows it,
once a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ipu import _core, tf
from ipu._core import Tensor
from ipu.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu.tf._functions.blocks import as_tuple, block
from ipu.tf._functions.tracing import current_build, notes_here
from ipu.tf.dtypes import DType

Pairs = Sequence[tuple[Any, Any]]

_CURRENT = "micro-batches"  # the note of a build that says which are being traced


@contextmanager
def at_stage(trace: _core.Trace, stage: int) -> Iterator[None]:
    """Put what is traced inside into a stage of a pipeline; -1: into none."""
    before = trace.stage
    trace.stage = stage
    try:
        yield
    finally:
        trace.stage = before


class _Carried(NamedTuple):
    initial: Any
    result: Tensor


class Iterations:
    """The iterations of a loop while its body is traced; counted if the body asks.

    Args:
        trace: The open trace.
        body: The number of the body's block, which is open.
    """

    def __init__(self, trace: _core.Trace, body: int) -> None:
        self._trace = trace
        self._body = body
        self._index: Tensor | None = None

    def index(self) -> Tensor:
        """Return how many iterations came before, as an int32 scalar."""
        if self._index is None:
            self._index = self._trace.parameter(("int32", ()), self._body)
        return self._index

    @contextmanager
    def open(self) -> Iterator[None]:
        """Assign what is traced inside to these iterations."""
        notes = notes_here()
        around = notes.get(_CURRENT)
        notes[_CURRENT] = self
        try:
            yield
        finally:
            notes[_CURRENT] = around

    def close(self) -> bool:
        """Add the next count to the body's results; return whether there is a count."""
        if self._index is None:
            return False
        self._trace.result(self._index + 1, self._body)
        return True


class MicroBatches:
    """The micro-batches of a step, while one of them is traced.

    Args:
        count: How many there are; from 1 on.
        trace: The open trace; what is traced while :attr:`body` is open is what each
            micro-batch does.

    Attributes:
        body: The number of the block.
    """

    def __init__(self, trace: _core.Trace, count: int) -> None:
        self.body = -1
        self._trace = trace
        self._count = count
        self._carried: list[_Carried] = []
        self._counters: dict[int, Tensor] = {}  # by stage
        self._indices: dict[int, tuple[int, Tensor]] = {}  # by stage: number, negated

    @contextmanager
    def open(self) -> Iterator[None]:
        notes = current_build().notes
        around = notes.get(_CURRENT)
        with block(self._trace) as self.body:
            notes[_CURRENT] = self
            try:
                yield
            finally:
                notes[_CURRENT] = around
            self.add_results()

    def adopt(self, body: int) -> None:
        """Take a block that somebody else has opened and will close."""
        self.body = body

    def add_results(self) -> None:
        """Make what the next micro-batch gets the results of the open block."""
        for stage, (number, negated) in self._indices.items():
            with at_stage(self._trace, stage):
                self.replace(number, negated - 1)
        for carried in self._carried:
            self._trace.result(carried.result, self.body)

    def carry(self, initial: Any, change: Callable[[Tensor], Tensor]) -> int:
        """Return a value that goes on from micro-batch to micro-batch.

        Args:
            initial: What the first one begins with: a tensor, or its (dtype, shape),
                which stands for zeros.
            change: Gives the next value.

        Returns:
            Its number among what :meth:`finish` returns.
        """
        if isinstance(initial, tuple):
            dtype, shape = initial
            kind = (dtype, tuple(shape))
        else:
            kind = (initial.dtype.name, tuple(initial.shape))
        parameter = self._trace.parameter(kind, self.body)
        self._carried.append(_Carried(initial, change(parameter)))
        return len(self._carried) - 1

    def replace(self, number: int, result: Tensor) -> None:
        """Give the next micro-batch another value than ``carry`` was told."""
        self._carried[number] = self._carried[number]._replace(result=result)

    def add(self, value: Tensor, method: Method, dtype: str) -> int:
        """Accumulate a value over the micro-batches."""
        with at_stage(self._trace, self._trace.stage_of(value)):
            given = tf.cast(value, dtype)
            if method is Method.MEAN:
                given = given / tf.constant(float(self._count), dtype)
            if method is not Method.RUNNING_MEAN:
                return self.carry((dtype, given.shape), lambda sums: sums + given)
            before = self._counter()
            now = before + tf.constant(1.0)
            kept = tf.cast(before / now, dtype)
            share = tf.cast(tf.constant(1.0) / now, dtype)
            return self.carry(
                (dtype, given.shape), lambda mean: mean * kept + given * share
            )

    def _counter(self) -> Tensor:
        """Return how many micro-batches came before, as a float32 scalar of this
        stage."""
        stage = self._trace.stage
        if stage not in self._counters:

            def count(before: Tensor) -> Tensor:
                self._counters[stage] = before
                return before + tf.constant(1.0)

            self.carry(("float32", ()), count)
        return self._counters[stage]

    def index(self) -> Tensor:
        """Return how many micro-batches came before, as an int32 scalar; in any block.

        The counter itself belongs to one stage. It counts down from 0, so that the
        index is computed from it, and other stages may use the index.
        """
        stage = self._trace.stage
        if stage not in self._indices:
            found: list[Tensor] = []

            def keep(parameter: Tensor) -> Tensor:
                found.append(parameter)
                return parameter

            self._indices[stage] = (self.carry(("int32", ()), keep), found[0])
        return -self._indices[stage][1]

    def finish(
        self, attrs: dict[str, Any], values: Sequence[Tensor] = ()
    ) -> tuple[Tensor, ...]:
        """Add the node, after the closed block.

        Args:
            attrs: Of the node, beside its body.
            values: What an adopted block carries before all others.

        Returns:
            The last values of all that is carried.
        """
        initials = [
            tf.zeros(one.initial[1], one.initial[0])
            if isinstance(one.initial, tuple)
            else one.initial
            for one in self._carried
        ]
        count = tf.constant(self._count, "int32")
        return as_tuple(
            self._trace.node(
                "pipeline",
                [count, *values, *initials],
                {"body": self.body, **attrs},
                (),
            )
        )


def current_iterations() -> MicroBatches | Iterations | None:
    """Return the innermost micro-batches, or iterations of a loop, of which one is
    being traced; None outside of them."""
    if _core.open_trace() is None:
        return None
    found: MicroBatches | Iterations | None = notes_here().get(_CURRENT)
    return found


def accumulator_dtype(dtype: Any, variable: Any) -> str:
    """Return the dtype that the gradients of a variable, or a tensor, are accumulated
    in.

    Args:
        dtype: None for its own, a dtype, or ``callable(variable) -> dtype``.
        variable: The variable, or the tensor.
    """
    chosen = dtype
    if callable(dtype) and not isinstance(dtype, (type, DType)):
        chosen = dtype(variable)
    return tf.as_dtype(variable.dtype if chosen is None else chosen).name


def accumulate(
    count: int,
    body: Callable[..., tuple[Pairs, Sequence[Any]]],
    inputs: Sequence[Any] = (),
    reduction_method: Any = Method.SUM,
    dtype: Any = None,
) -> tuple[list[tuple[Tensor, Any]], list[Tensor]]:
    """Run ``count`` micro-batches on one IPU and accumulate their gradients.

    It works only inside a function that is compiled for the device. Random ops draw new
    numbers in each micro-batch, as in the iterations of a loop of steps.

    Args:
        count: The number of micro-batches; from 1 on.
        body: ``body(*carried)`` traces one micro-batch; it returns pairs of a gradient
            and a variable, and a tensor for each of ``inputs``, which the next
            micro-batch is called with. Pairs without a gradient are left out.
        inputs: What the first micro-batch is called with.
        reduction_method: How gradients become one.
        dtype: Of the accumulators: None for the variable's, a dtype, or
            ``callable(variable) -> dtype``.

    Returns:
        The pairs of an accumulated gradient and its variable, for ``apply_gradients``;
        and the last values of what ``inputs`` began.

    Example:
        >>> v = tf.Variable(2.0)
        >>> @tf.function(jit_compile=True)
        ... def step():
        ...     def body(x):
        ...         return [(x * v, v)], [x + 1.0]
        ...     [(gradient, _)], [x] = accumulate(4, body, [tf.constant(1.0)])
        ...     return gradient, x
        >>> [float(t) for t in step()]
        [20.0, 5.0]
    """
    trace = _core.open_trace()
    if trace is None:
        raise RuntimeError("micro-batches belong to a function that is being compiled")
    method = Method.parse(reduction_method)
    micro_batches = MicroBatches(trace, count)
    parameters: list[Tensor] = []
    with micro_batches.open():

        def keep(parameter: Tensor) -> Tensor:
            parameters.append(parameter)
            return parameter

        starts = [Tensor(value) for value in inputs]
        for start in starts:
            micro_batches.carry(start, keep)
        pairs, ends = body(*parameters)
        for i, end in enumerate(ends):
            micro_batches.replace(i, Tensor(end))
        numbers = [
            (micro_batches.add(g, method, accumulator_dtype(dtype, v)), v)
            for g, v in pairs
            if g is not None
        ]
    results = micro_batches.finish({"training": True})
    accumulated = [(results[i], variable) for i, variable in numbers]
    return accumulated, list(results[: len(starts)])
