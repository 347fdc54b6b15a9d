# SPDX-License-Identifier: MIT
"""The part of a function compiled in a graph of TensorFlow 1 that runs.

There an effect (an assignment, an enqueue, an update) runs only where something leads
to it: what the function returns, or what runs after it. The function is traced as any
other, and which node leads to which is noted on the way. In the end nodes to which
nothing leads are taken out. In functions of TensorFlow 2 every effect runs, and
nothing is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu.tf import nest
from ipu.tf._functions.tracing import current_build, open_build
from ipu.tf._tensor.operation import Operation

_NOTE = "reached"
_START, _NODES, _HOLDER = range(3)

Span = tuple[int, int]


class Reached:
    """Which node leads to which in a function that is being traced."""

    def __init__(self, trace: _core.Trace) -> None:
        self.trace = trace
        self.first = trace.node_count
        self.is_paused = False
        self.around: list[Span] = []  # of the open control_dependencies
        self._rules: list[tuple[int, int, int, int, int]] = []
        # by id: values that are no node's, and what runs before them
        self._constants: dict[int, tuple[Any, list[Span]]] = {}

    def spans_of(self, values: Any) -> list[Span]:
        """Return the nodes that tensors and operations in a nest stand for."""
        found: list[Span] = []
        for leaf in nest.flatten(values):
            if isinstance(leaf, Operation):
                found += leaf.spans
            elif isinstance(leaf, Tensor):
                node = self.trace.node_of(leaf)
                known = self._constants.get(id(leaf), (leaf, []))[1]
                found += [(node, node + 1)] if node >= 0 else known
        return found

    def lead(self, span: Span, targets: list[Span]) -> None:
        """Let nodes run after others: where one of them runs, so do those."""
        self._rules += [(_NODES, *span, *target) for target in targets]

    def lead_from_constants(self, constants: list[Any], targets: list[Span]) -> None:
        """Let nodes run before values that are known when the function is traced."""
        for one in constants:
            before = self._constants.get(id(one), (one, []))[1]
            self._constants[id(one)] = one, [*before, *targets]

    def lead_from_block(self, block: int, targets: list[Span]) -> None:
        """Let nodes in a block run where the block runs."""
        self._rules += [(_HOLDER, block, 0, *target) for target in targets]

    def always(self, span: Span) -> None:
        """Let nodes run whatever else does."""
        self._rules.append((_START, 0, 0, *span))

    def drop_others(self, results: Any) -> None:
        """Take out what neither these lead to nor what runs after them."""
        starts = [(_START, 0, 0, *span) for span in self.spans_of(results)]
        self.trace.drop_unreached(self.first, [*starts, *self._rules])


def active() -> Reached | None:
    """Return what is noted for the function being traced; None where all of it runs."""
    build = open_build()
    is_tracing = build is not None and _core.open_trace() is not None
    found = build.notes.get(_NOTE) if build is not None and is_tracing else None
    return None if found is None or found.is_paused else found


def pruned(function: Callable[..., Any], results: Callable[[Any], Any]) -> Any:
    """Return a function that runs what it returns, and no more.

    Args:
        results: Makes tensors, and nothing else, of what it returns.
    """

    def call(*args: Any) -> Any:
        trace = _core.open_trace()
        assert trace is not None
        notes = current_build().notes
        before, notes[_NOTE] = notes.get(_NOTE), Reached(trace)
        try:
            returned = function(*args)
            tensors = results(returned)
            notes[_NOTE].drop_others([tensors, returned])
            return tensors
        finally:
            notes[_NOTE] = before

    return call


@contextmanager
def always() -> Iterator[None]:
    """Open a context of which all effects run, whether something leads to them or
    not."""
    reached = active()
    begin = 0 if reached is None else reached.trace.node_count
    with whole():
        yield
    if reached is not None:
        reached.always((begin, reached.trace.node_count))


@contextmanager
def whole() -> Iterator[None]:
    """Open a context of which all effects run where any of it does."""
    reached = active()
    if reached is None:
        yield
        return
    begin = reached.trace.node_count
    reached.is_paused = True
    try:
        yield
    finally:
        reached.is_paused = False
        span = (begin, reached.trace.node_count)
        reached.lead(span, [span])


def operation(type: str, begin: int, name: str = "") -> Operation:
    """Return what stands for the nodes that were added from number ``begin`` on."""
    made = Operation(type, name)
    trace = _core.open_trace()
    made.spans = [] if trace is None else [(begin, trace.node_count)]
    return made


def tied(tensor: Tensor, begin: int) -> Tensor:
    """Return a tensor that leads to the nodes from number ``begin`` on, where that
    matters."""
    reached = active()
    if reached is not None:
        end = reached.trace.node_count
        for span in reached.spans_of(tensor):
            reached.lead(span, [(begin, end)])
    return tensor
