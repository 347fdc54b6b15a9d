# SPDX-License-Identifier: MIT
"""``tf.Graph``: operations that are kept to be run by a session."""

from __future__ import annotations

import functools
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ipu._core import Tensor, open_trace
from ipu._device import placement
from ipu._device.locks import Condition
from ipu.tf import nest
from ipu.tf._functions.tracing import current_build
from ipu.tf._graph import differentiate, mode, record
from ipu.tf._graph.operation import GraphOperation, GraphTensor, Place
from ipu.tf._tensor.operation import Operation
from ipu.tf.dtypes import as_dtype
from ipu.tf.tensor_shape import TensorShape

_LEGAL = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")


class _Mark(NamedTuple):
    """A moment: how many changes there had been, and the scope in force."""

    changes: int
    scope: str


class Names:
    """The names that a graph has given, and the scope that is in force.

    Attributes:
        scope: The prefix of new names: empty, or ``"outer/inner"``.
    """

    def __init__(self) -> None:
        self.scope = ""
        self._counts: dict[str, int] = {}
        self._opened: dict[str, int] = {}  # how often variable scopes were
        # what was there before each change: a mark is a number of changes
        self._changes: list[tuple[dict[str, int], str, int]] = []

    def copy(self) -> Names:
        """Return the names given up to now."""
        return self.as_at(self.mark())

    def mark(self) -> _Mark:
        """Return this moment, for :meth:`as_at`."""
        return _Mark(len(self._changes), self.scope)

    def as_at(self, mark: _Mark) -> Names:
        """Return the names given up to a moment before."""
        made = Names()
        made.scope = mark.scope
        made._counts = dict(self._counts)
        made._opened = dict(self._opened)
        for changed, key, before in reversed(self._changes[mark.changes :]):
            counts = made._counts if changed is self._counts else made._opened
            counts[key] = before
            if not before:
                del counts[key]
        return made

    def full(self, name: str) -> str:
        """Return a name with the scope in front, as it is."""
        if name.endswith("/"):
            return name[:-1]
        return f"{self.scope}/{name}" if self.scope else name

    def unique(self, name: str) -> str:
        """Return a name that was not given before: ``add``, ``add_1``, ``add_2``, ...

        Raises:
            ValueError: It is not a name of a graph.
        """
        if not name or not _LEGAL.fullmatch(name):
            raise ValueError(
                f"'{name}' is not a valid scope name. Names have letters, digits and "
                "_ . / - in them, and begin with a letter, a digit or a point."
            )
        full = self.full(name)
        count = self._counts.get(full, 0)
        self._set(self._counts, full, count + 1)
        if count == 0:
            return full
        return self._unique_of(full, count)

    def _unique_of(self, full: str, count: int) -> str:
        """Return the first of ``full_1``, ``full_2``, ... that was not given."""
        while f"{full}_{count}" in self._counts:
            count += 1
        self._set(self._counts, f"{full}_{count}", 1)
        return f"{full}_{count}"

    def opened(self, scope: str) -> int:
        """Return how often a variable scope was opened, by its full name."""
        return self._opened.get(scope, 0)

    def all_opened(self) -> dict[str, int]:
        """Return that of all variable scopes."""
        return dict(self._opened)

    def set_opened(self, counts: Mapping[str, int]) -> None:
        """Say how often variable scopes count as opened."""
        for scope, count in counts.items():
            if count != self.opened(scope):
                self._set(self._opened, scope, count)

    def _set(self, counts: dict[str, int], key: str, count: int) -> None:
        self._changes.append((counts, key, counts.get(key, 0)))
        counts[key] = count


class SessionLock:
    """Which session's values the variables of a graph have.

    Values lie on the devices, once for a graph. Runs of one session may go on side by
    side, as when one thread runs a loop and another one dequeues; another session waits
    for their end, and brings its own values then.
    """

    def __init__(self) -> None:
        self._changed = Condition(self._forget_runs)
        self._resident: weakref.ref[Any] | None = None
        self._runners: dict[object, int] = {}  # the thread of each run

    @contextmanager
    def of(self, session: Any, change: Callable[[Any], None]) -> Iterator[None]:
        """Run a session, and let others wait.

        Args:
            change: Called with the session before, or None, where it was another one.

        Raises:
            RuntimeError: It begins inside of a run of another session.
        """
        thread, run = threading.get_ident(), object()
        try:
            with self._changed:
                if not self._is_resident(session) and thread in self._runners.values():
                    raise RuntimeError(
                        "A session cannot run inside of a run of another session of "
                        "the same graph. Make another tf.Graph for it, or use the same "
                        "session."
                    )
                self._changed.wait_for(
                    lambda: self._is_resident(session) or not self._runners
                )
                if not self._is_resident(session):
                    change(None if self._resident is None else self._resident())
                    self._resident = weakref.ref(session)
                self._runners[run] = thread
            yield
        finally:
            with self._changed:
                self._runners.pop(run, None)
                self._changed.notify_all()

    def _forget_runs(self) -> None:
        """Forget the runs of other threads in a forked child."""
        own = threading.get_ident()
        kept = {run: one for run, one in self._runners.items() if one == own}
        self._runners = kept

    def _is_resident(self, session: Any) -> bool:
        return self._resident is not None and self._resident() is session


if TYPE_CHECKING:
    from ipu.tf._graph.scopes import VariableStore
    from ipu.tf._graph.variables import GraphVariable


class NodeDef(NamedTuple):
    """What a graph says of an operation."""

    name: str
    op: str
    input: list[str]
    device: str


class GraphDef(NamedTuple):
    """What a graph consists of."""

    node: list[NodeDef]


HOST = Place("CPU")
_PYTHON = Place("PYTHON")
_ANY = Place("ANY")
_COLLECTION = "collection"


class Graph:
    """Operations and the tensors between them, to be run by a ``Session``.

    Nothing is computed when an operation is added. It is in force inside of
    ``with graph.as_default():``.

    Example:
        >>> graph = v1.Graph()
        >>> with graph.as_default():
        ...     total = v1.constant(1.0) + 2.0
        >>> with v1.Session(graph=graph) as session:
        ...     print(session.run(total))
        3.0
    """

    def __init__(self) -> None:
        from ipu.tf._graph import ops  # noqa: F401  what graphs do otherwise
        from ipu.tf._graph.scopes import VariableStore

        self.names = Names()
        self.store: VariableStore = VariableStore(self)
        self._operations: list[GraphOperation] = []
        self._by_name: dict[str, GraphOperation] = {}
        self._collections: dict[str, list[Any]] = {}
        self.name_counts: dict[str, int] = {}  # of automatic names, by their stem
        self._controls: list[list[GraphOperation]] = []
        self._is_finalized = False
        self.session_lock = SessionLock()
        self.every_variable: list[GraphVariable] = []
        self.by_variable_name: dict[str, GraphVariable] = {}
        self.version = 0  # changes where operations take something else than before
        self.seed: int | None = None
        self.session_count = 0
        self.draw_count = 0  # of random ops
        self.has_collectives = False  # replicas have exchanged something
        self._parts = 0

    # --- what programs ask of it ------------------------------------------------------

    def as_default(self) -> AbstractContextManager[Graph]:
        """Return a context in which calls of this thread are added to the graph."""
        return mode.entered(self)

    def get_operations(self) -> list[GraphOperation]:
        """Return all operations, in the order in which they were added."""
        return list(self._operations)

    def get_operation_by_name(self, name: str) -> GraphOperation:
        """Return the operation of a name.

        Raises:
            KeyError: There is none.
        """
        try:
            return self._by_name[name]
        except KeyError:
            raise KeyError(
                f"The name {name!r} refers to an Operation not in the graph."
            ) from None

    def get_tensor_by_name(self, name: str) -> GraphTensor:
        """Return the tensor of a name such as ``"add:0"``, also that of a variable.

        Raises:
            ValueError: The name does not say which result of an operation.
            KeyError: There is nothing of that name.
        """
        op, _, index = name.rpartition(":")
        if not op or not index.isdigit():
            raise ValueError(
                f"The name {name!r} looks like an (invalid) Operation name, not a "
                'Tensor. Tensor names must be of the form "<op_name>:<output_index>".'
            )
        found = self._by_name.get(op)
        if name in self.by_variable_name:
            return self.read_of(self.by_variable_name[name])
        if found is None or int(index) >= len(found.outputs):
            raise KeyError(
                f"The name {name!r} refers to a Tensor which does not exist. The "
                f"operation, {op!r}, does not exist in the graph, or it has fewer "
                "results."
            )
        tensor: GraphTensor = found.outputs[int(index)]
        return tensor

    def read_of(self, variable: Any) -> GraphTensor:
        """Return the tensor that stands for a variable where it is fetched; made
        once."""
        known = self.store.reads.get(id(variable))
        if known is None:
            known = self.as_graph_element(variable)
            self.store.reads[id(variable)] = known
        tensor: GraphTensor = self.as_graph_element(known)
        return tensor

    def as_graph_element(
        self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Any:
        """Return the tensor or operation that an object or a name stands for.

        Raises:
            TypeError: It cannot stand for one.
            ValueError: It is one of another graph.
            KeyError: No such name.
        """
        converted = getattr(obj, "_as_graph_element", None)
        if converted is not None:
            obj = converted()
        if isinstance(obj, str):
            is_tensor = ":" in obj and allow_tensor
            obj = (
                self.get_tensor_by_name(obj)
                if is_tensor
                else self.get_operation_by_name(obj)
            )
        if isinstance(obj, GraphTensor) and allow_tensor:
            if obj.graph is not self:
                raise ValueError(f"Tensor {obj} is not an element of this graph.")
            return obj
        if isinstance(obj, GraphOperation) and allow_operation:
            if obj.graph is not self:
                raise ValueError(
                    f"Operation {obj.name!r} is not an element of this graph."
                )
            return obj
        kinds = " or ".join(["Tensor"] * allow_tensor + ["Operation"] * allow_operation)
        raise TypeError(f"Can not convert a {type(obj).__name__} into a {kinds}.")

    def as_graph_def(
        self, from_version: int | None = None, add_shapes: bool = False
    ) -> GraphDef:
        """Return what it consists of: names, types, inputs and devices.

        Args:
            from_version, add_shapes: Accepted and not used.
        """
        return GraphDef(
            [
                NodeDef(op.name, op.type, [t.name for t in op.inputs], op.device)
                for op in self._operations
            ]
        )

    def finalize(self) -> None:
        """Refuse further operations."""
        self._is_finalized = True

    @property
    def finalized(self) -> bool:
        """Whether further operations are refused."""
        return self._is_finalized

    @property
    def name(self) -> str:
        """The name of the function that is being traced; ``""`` where none is."""
        if open_trace() is None:
            return ""
        return current_build().name.partition(" (")[0]  # without its place in a file

    @property
    def building_function(self) -> bool:
        """Whether it is the graph of a function: never."""
        return False

    def name_scope(self, name: str | None) -> AbstractContextManager[str]:
        """Return a context in which names begin with another one."""
        return self._name_scope(name)

    @contextmanager
    def _name_scope(self, name: str | None) -> Iterator[str]:
        before = self.names.scope
        if not name:
            self.names.scope = ""
        elif name.endswith("/"):
            self.names.scope = name[:-1]
        else:
            self.names.scope = self.names.unique(name)
        scope = self.names.scope
        try:
            yield f"{scope}/" if scope else ""
        finally:
            self.names.scope = before

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Return a name that no operation has yet."""
        names = self.names if mark_as_used else self.names.copy()
        return names.unique(name)

    def device(self, device_name: Any) -> AbstractContextManager[None]:
        """Return a context in which operations are on a device."""
        return placement.device(device_name)

    # --- collections ------------------------------------------------------------------

    def add_to_collection(self, name: str, value: Any) -> None:
        """Put a value into a named list; one of a function that is being traced is in
        it until the function ends."""
        if _is_of_trace(value):
            current_build().notes.setdefault((_COLLECTION, name), []).append(value)
        else:
            self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Put a value into several named lists."""
        for name in (names,) if isinstance(names, str) else names:
            self.add_to_collection(name, value)

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """Return a copy of a named list.

        Args:
            name: Its name.
            scope: The prefix of its members' names; None: all members.
        """
        found = list(self._collections.get(name, []))
        trace = open_trace()
        if trace is not None:
            of_trace = current_build().notes.get((_COLLECTION, name), [])
            found += [x for x in of_trace if not isinstance(x, Tensor) or trace.sees(x)]
        if scope is None:
            return found
        return [x for x in found if re.match(scope, getattr(x, "name", ""))]

    def get_collection_ref(self, name: str) -> list[Any]:
        """Return a named list itself."""
        return self._collections.setdefault(name, [])

    def clear_collection(self, name: str) -> None:
        """Empty a named list."""
        self._collections.pop(name, None)

    def get_all_collection_keys(self) -> list[str]:
        """Return the names of the lists."""
        return list(self._collections)

    # --- adding operations ------------------------------------------------------------

    @contextmanager
    def control_dependencies(self, control_inputs: Any) -> Iterator[None]:
        """Open a context in which operations run after others.

        Args:
            control_inputs: Operations and tensors; None forgets those around.
        """
        before = self._controls
        if control_inputs is None:
            self._controls = []
        else:
            found = [self._control(item) for item in control_inputs]
            self._controls = [*before, [op for op in found if op is not None]]
        try:
            yield
        finally:
            self._controls = before

    def _control(self, item: Any) -> GraphOperation | None:
        if item is None:  # an effect of a function that was traced
            return None
        element = self.as_graph_element(item)
        return element.op if isinstance(element, GraphTensor) else element

    @property
    def control_inputs(self) -> list[GraphOperation]:
        """The operations that one that is added now runs after."""
        return list(dict.fromkeys(op for ops in self._controls for op in ops))

    def here(self) -> Place:
        """Return the place of an operation that is added now."""
        ordinal = placement.graph_ordinal()
        return HOST if ordinal is None else Place("IPU", ordinal)

    def is_placed(self) -> bool:
        """Return whether a scope says where an operation that is added now runs."""
        return placement.is_placed() or placement.graph_ordinal() is not None

    def handle(self, name: str, place: Place) -> GraphOperation:
        """Add the operation that stands for a variable, under the variable's name."""
        op = GraphOperation(self, name, "VarHandleOp", _nothing, (), {}, place)
        self.keep(op)
        return op

    def new_part(self, ordinal: int) -> Place:
        """Return a place for a program of its own."""
        self._parts += 1
        return Place("IPU", ordinal, self._parts)

    def add(
        self,
        type: str,
        function: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        name: str | None = None,
        place: Place | None = None,
    ) -> GraphOperation:
        """Add an operation whose results are not known yet.

        Raises:
            RuntimeError: The graph is finalized.
            ValueError: An argument is of another graph.
        """
        if self._is_finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        op = GraphOperation(
            self,
            self.names.unique(name or type),
            type,
            function,
            args,
            kwargs or {},
            self.here() if place is None else place,
        )
        for tensor in op.inputs:
            if tensor.graph is not self:
                raise ValueError(
                    f"{tensor!r} must be from the same graph as the operation "
                    f"{op.name!r} that takes it. Make both in the same tf.Graph."
                )
        op.control_inputs = self.control_inputs
        op.is_ordered = bool(op.control_inputs) or any(
            tensor.op.is_ordered for tensor in op.inputs
        )
        op.shard = placement.current_shard()
        return op

    def keep(self, op: GraphOperation) -> None:
        """Make an operation whose results are known part of the graph."""
        op.index = len(self._operations)
        self._operations.append(op)
        self._by_name[op.name] = op

    def record(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        type: str | None = None,
    ) -> Any:
        """Add a call of an op function.

        Args:
            function: The function.
            args: Its arguments.
            kwargs: Its keyword arguments.
            type: Its name; None: that of the function.

        Returns:
            What it returns, with tensors of the graph in it.
        """
        return record.record(self, function, args, kwargs, type)

    def python(
        self,
        type: str,
        function: Callable[..., Any],
        specs: Any = None,
        args: tuple[Any, ...] = (),
        name: str | None = None,
    ) -> Any:
        """Add something that Python does between programs.

        Args:
            type: Its name.
            function: Called once in each run that needs it, with eager tensors.
            specs: The nest of ``TensorSpec`` of what it gives; None: nothing.
            args: Its arguments.
            name: Its name, or None.

        Returns:
            The nest with tensors of the graph, or the operation.
        """
        given = nest.map_structure(_as_tensor, args)
        op = self.add(type, function, given, name=name, place=_PYTHON)
        if specs is not None:
            op.leaves = [
                GraphTensor(op, i, spec.shape, spec.dtype)
                for i, spec in enumerate(nest.flatten(specs))
            ]
            op.structure = nest.pack_sequence_as(specs, op.leaves)
        self.keep(op)
        return op if specs is None else op.structure

    def constant(self, value: Tensor, name: str | None = None) -> GraphTensor:
        """Add a fixed value."""
        op = self.add("Const", lambda: value, name=name, place=_ANY)
        op.is_pure = True
        tensor = GraphTensor(op, 0, value.shape, value.dtype, known=value)
        op.leaves = [tensor]
        op.structure = tensor
        self.keep(op)
        return tensor

    def placeholder(
        self, dtype: Any, shape: Any = None, name: str | None = None
    ) -> GraphTensor:
        """Add a value that each run is given."""
        op = self.add("Placeholder", _nothing, name=name, place=_PYTHON)
        tensor = GraphTensor(op, 0, TensorShape(shape), as_dtype(dtype))
        op.function = functools.partial(_unfed, tensor)
        op.leaves = [tensor]
        op.structure = tensor
        self.keep(op)
        return tensor

    def group(
        self, inputs: Sequence[Any], name: str | None = None, type: str = "NoOp"
    ) -> GraphOperation:
        """Add an operation that does nothing but run after others."""
        op = self.add(type, _nothing, name=name, place=_ANY)
        found = [self._control(item) for item in nest.flatten(list(inputs))]
        op.control_inputs = list(
            dict.fromkeys([*op.control_inputs, *(one for one in found if one)])
        )
        self.keep(op)
        return op

    def gradients(
        self,
        ys: Sequence[Any],
        xs: Sequence[Any],
        grad_ys: Sequence[Any] | None = None,
        stops: Sequence[Any] = (),
    ) -> list[Any]:
        """Add the derivatives of the sum of ``ys`` with respect to each of ``xs``.

        Args:
            ys: Tensors.
            xs: Tensors and variables.
            grad_ys: The factor of each of ``ys``; None: ones.
            stops: Tensors and variables that are constants.
        """
        return differentiate.gradients(self, ys, xs, grad_ys, stops)

    def gradients_of(
        self,
        ys: Any,
        xs: Any,
        grad_ys: Any,
        stops: Sequence[Any],
        unconnected_gradients: Any,
    ) -> list[Any]:
        """Return the same for what ``tf.gradients`` is given."""
        return differentiate.gradients_of(
            self, ys, xs, grad_ys, stops, unconnected_gradients
        )


def _is_of_trace(value: Any) -> bool:
    if open_trace() is None or isinstance(value, GraphOperation):
        return False
    is_symbolic = isinstance(value, Tensor) and value.is_symbolic
    return is_symbolic or isinstance(value, Operation)


def _as_tensor(leaf: Any) -> Any:
    """Return a variable as a tensor of the graph, anything else as it is."""
    found = getattr(leaf, "_as_graph_element", None)
    return leaf if found is None else found()


def _nothing() -> None:
    """Do nothing: the operation only runs after others."""


def _unfed(tensor: GraphTensor) -> Any:
    from ipu.tf._graph.session import unfed

    raise unfed(tensor)
