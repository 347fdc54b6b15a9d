# SPDX-License-Identifier: MIT
"""The values that tensors of a graph have while its operations are traced or run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ipu import _core
from ipu._device.thread_state import entered, here
from ipu.tf import nest
from ipu.tf._graph import mode, notes

if TYPE_CHECKING:
    from ipu.tf._graph.operation import GraphOperation, GraphTensor
    from ipu.tf._graph.variables import GraphVariable


def is_symbol(value: Any) -> bool:
    """Return whether a value is a tensor of a graph."""
    return getattr(type(value), "_ipu_graph_tensor", False)


def symbols_in(value: Any) -> list[GraphTensor]:
    """Return the tensors of a graph in a nest."""
    found: list[GraphTensor] = []
    for leaf in nest.flatten(value):
        if is_symbol(leaf):
            found.append(leaf)
        else:
            found += [one for one in _parts_of(leaf) if is_symbol(one)]
    return found


def _parts_of(leaf: Any) -> Any:
    """Return the tensors that an array is made of."""
    return getattr(leaf, "_graph_parts", ())


class Frame:
    """Values by tensor, and how variables were used.

    Args:
        missing: Gives the value of a tensor that has none; None: that is an error.

    Attributes:
        needed: Variables that were used before they were assigned, by id.
        fed: Values that are read in the place of variables, by the variable's id.
    """

    def __init__(self, missing: Callable[[GraphTensor], Any] | None = None) -> None:
        self.values: dict[int, Any] = {}
        self.needed: dict[int, GraphVariable] = {}
        self.assigned: dict[int, GraphVariable] = {}
        self.fed: dict[int, Any] = {}
        self._missing = missing

    def _found(self, tensor: GraphTensor) -> Any:
        found = self.values.get(id(tensor))
        if found is None and self._missing is not None:
            found = self._missing(tensor)
        return tensor.known if found is None else found

    def value_of(self, tensor: GraphTensor) -> Any:
        """Return the value of a tensor."""
        found = self._found(tensor)
        if found is None:
            raise ValueError(
                f"{tensor!r} has no value where it is used. A function can use tensors "
                "of the graph that were made before it; others it gets as arguments."
            )
        return found

    def real(self, value: Any) -> Any:
        """Return a nest with values in the place of tensors of the graph."""
        return nest.map_structure(self._real_leaf, value)

    def _real_leaf(self, leaf: Any) -> Any:
        if not is_symbol(leaf):
            is_array = hasattr(type(leaf), "_graph_parts")
            return leaf._real(self._part) if is_array else leaf
        value = self.value_of(leaf)
        notes.hand_on(leaf, value, self._found)
        return value

    def _part(self, part: Any) -> Any:
        return self.value_of(part) if is_symbol(part) else part

    def keep(self, leaves: Sequence[Any], found: Sequence[Any]) -> None:
        """Take the values of an operation's tensors from what its function gave."""
        for leaf, value in zip(leaves, found, strict=True):
            if is_symbol(leaf):
                self.values[id(leaf)] = value

    def use(self, variable: GraphVariable, assigns: bool) -> None:
        """Note that a variable is used by a program that is being traced."""
        if assigns:
            self.assigned[id(variable)] = variable
        elif id(variable) not in self.assigned:
            self.needed[id(variable)] = variable

    @contextmanager
    def entered(self) -> Iterator[Frame]:
        """Let functions that are called take tensors of the graph from here."""
        with entered(here.frames, self):
            yield self


def innermost() -> Frame | None:
    """Return the frame of the operations that are being traced, or None."""
    return here.frames[-1] if here.frames else None


def fed(variable: Any) -> Any:
    """Return the value that is read in the place of a variable, or None."""
    frame = innermost()
    return None if frame is None else frame.fed.get(id(variable))


def captured(tensor: GraphTensor) -> Any:
    """Return the value of a tensor that a function uses from around it, or None."""
    frame = innermost()
    if frame is None or (_core.open_trace() is None and not here.eager_parts):
        return None
    return frame.value_of(tensor)


def constant_value(tensor: GraphTensor) -> Any:
    """Return the value of a tensor that depends on nothing: a constant, zeros, a range.

    Returns:
        An eager tensor, or None.
    """
    if tensor.known is not None:
        return tensor.known
    needed: set[GraphOperation] = set()
    waiting = [tensor.op]
    while waiting:
        op = waiting.pop()
        if not op.is_pure:
            return None
        if op not in needed:
            needed.add(op)
            waiting.extend(one.op for one in op.inputs if one.known is None)
    frame = Frame()
    with mode.suspended():
        for op in sorted(needed, key=lambda op: op.index):
            op.execute(frame)
    value = frame.values[id(tensor)]
    if not tensor.op.inputs:
        tensor.known = value
    return value


class CreatedVariables:
    """The variables that a function creates.

    Python calls a function each time it is traced; the variables of the first time are
    those of all times. They are told apart by how they were asked for.
    """

    def __init__(self) -> None:
        self._known: dict[Any, list[GraphVariable]] = {}
        self._places: dict[Any, int] = {}
        self._names: Any = None
        self.own: set[int] = set()  # ids of those that it was the first to ask for

    def is_new(self, key: Any, variable: GraphVariable) -> bool:
        """Return whether a variable was just asked for the first time in this trace,
        and is the function's own."""
        return self._places.get(key) == 1 and id(variable) in self.own

    @contextmanager
    def first(self) -> Iterator[None]:
        """Call the function for the first time."""
        self._names = _mark_names()
        with self._entered():
            yield

    @contextmanager
    def again(self) -> Iterator[None]:
        """Call the function once more."""
        if not self._known:
            yield
            return
        with _names_as_at(self._names), self._entered():
            yield

    @contextmanager
    def _entered(self) -> Iterator[None]:
        self._places = {}
        with entered(here.creations, self):
            yield

    def find(self, key: Any) -> GraphVariable | None:
        """Return the variable that was asked for in this way the first time."""
        place = self._places.get(key, 0)
        known = self._known.get(key, [])
        if place == len(known):
            return None
        self._places[key] = place + 1
        return known[place]

    def add(self, key: Any, variable: GraphVariable) -> None:
        """Note that a variable was created."""
        self._known.setdefault(key, []).append(variable)
        self._places[key] = self._places.get(key, 0) + 1


def creations() -> CreatedVariables | None:
    """Return what collects the variables of the function that is being traced, or
    None."""
    return here.creations[-1] if here.creations else None


def _mark_names() -> Any:
    """Return how names are given now."""
    graph = mode.current()
    return dict(mode.name_counts()), None if graph is None else graph.names.mark()


@contextmanager
def _names_as_at(mark: Any) -> Iterator[None]:
    """Open a context in which names are given as they were before."""
    counts, of_graph = mark
    now, graph = dict(mode.name_counts()), mode.current()
    names = None if graph is None else graph.names
    _count_names(counts)
    if graph is not None and of_graph is not None:
        graph.names = graph.names.as_at(of_graph)
    try:
        yield
    finally:
        _count_names(now)
        if graph is not None and names is not None:
            graph.names = names


def _count_names(counts: dict[str, int]) -> None:
    counters = mode.name_counts()
    counters.clear()
    counters.update(counts)
