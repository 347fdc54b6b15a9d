# SPDX-License-Identifier: MIT
"""Variables of a graph: their values belong to a session and have to be initialised."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import _core
from ipu._core import Tensor
from ipu._device import placement, seed as _seed, strategy_state
from ipu._device.devices import Device
from ipu._device.strategy_state import VariableSynchronization
from ipu._text.errors import FailedPreconditionError, InvalidArgumentError
from ipu._text.suggestions import refuse_unknown
from ipu.tf._graph import frame, mode, running
from ipu.tf._graph.operation import GraphOperation, GraphTensor
from ipu.tf._graph.reached import active, tied
from ipu.tf.dtypes import as_dtype
from ipu.tf.tensor_shape import DimensionedShape, TensorShape
from ipu.tf.tensor_spec import TensorSpec
from ipu.tf.variable import ASSIGN_OPTIONS, INITIAL_OPTIONS, Variable, _Home

if TYPE_CHECKING:
    from ipu.tf._graph.graph import Graph

GLOBAL = "variables"
LOCAL = "local_variables"
TRAINABLE = "trainable_variables"


class GraphVariable(Variable):
    """A variable of a graph; ``tf.Variable`` and ``tf.get_variable`` make it.

    It gets its place on a device when a session first runs something that uses it, so
    that devices can be configured after the graph is made.

    Args:
        initial_value: Its first value: a tensor of the graph, an array or number, or a
            function of no arguments that gives one.
        trainable: Whether optimizers take it by default.
        collections: The lists of the graph that it is put in; None: that of the global
            variables.
        validate_shape, caching_device: Accepted and not used.
        name: Its name.
        dtype: Its element type, or None for that of the value.
        constraint: A function of the value that optimizers apply after an update.
        use_resource: Whether it is a resource; None: what the variable scope says.
        shape: Its shape, where the value is made later.
        **more: As for ``tf.Variable``; a graph's variables have no ``ON_READ``.

    Raises:
        TypeError: An unknown option.
    """

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        dtype: Any = None,
        constraint: Any = None,
        use_resource: bool | None = None,
        shape: Any = None,
        **more: Any,
    ) -> None:
        refuse_unknown("Variable", more, INITIAL_OPTIONS)
        if "graph" in self.__dict__:  # the function that made it is called once more
            return
        graph = mode.current()
        assert graph is not None
        self.graph: Graph = graph
        scope = graph.store.scope
        if use_resource is None:
            use_resource = scope.use_resource
        if use_resource is None:
            use_resource = not mode.is_default()
        self.constraint = constraint
        self._set_options(more)
        is_of_ipu = placement.is_inside_ipu_scope() or self._has_workers
        self.is_resource = bool(use_resource) or is_of_ipu
        if (
            self.synchronization is VariableSynchronization.ON_READ
            and self._has_workers
        ):
            raise ValueError(
                "Variables of a graph are not synchronised on read. Leave out "
                "synchronization, and read strategy.reduce(ReduceOp.MEAN, variable)."
            )
        self.trainable = trainable is None or bool(trainable)
        full = graph.names.unique(name or "Variable")
        self.name = f"{full}:0"
        self._scope_place = graph.here()
        self._scope_device = self._scope_place.device if graph.is_placed() else ""
        self._number = len(graph.every_variable)
        self._set_first(initial_value, dtype, shape, full)
        self.op: GraphOperation = graph.handle(full, self._scope_place)
        # nowhere so far; the number tells it from others in traces that find shapes
        nowhere: Any = None
        self._home = _Home(nowhere, nowhere, self._number)
        graph.every_variable.append(self)
        graph.by_variable_name[self.name] = self
        self.initialized = False
        # whether it has its first value in every session from the start
        self.is_automatic = False
        graph.add_to_collections([GLOBAL] if collections is None else collections, self)
        if self.trainable:
            graph.add_to_collection(TRAINABLE, self)

    _initialized_value: GraphTensor | None = None

    # --- its first value --------------------------------------------------------------

    def _set_first(self, value: Any, dtype: Any, shape: Any, name: str) -> None:
        if value is None:
            raise ValueError("initial_value must be specified.")
        first: Callable[[], Any] | None = None
        if shape is not None and callable(value):
            kind, sizes = as_dtype(dtype), TensorShape(shape)
            first = value
        else:
            if callable(value):
                with self.graph.control_dependencies(None):
                    value = value()
            if not isinstance(value, GraphTensor):
                value = np.array(Variable._first_value(_known(value), dtype))
            kind = as_dtype(dtype) if dtype is not None else as_dtype(value.dtype)
            kind = {"float64": as_dtype("float32"), "int64": as_dtype("int32")}.get(
                kind.name, kind
            )
            sizes = TensorShape(value.shape)
        if not sizes.is_fully_defined():
            raise ValueError(
                f"initial_value must have a shape specified: {name} would have the "
                f"shape {sizes}."
            )
        self._type = (kind.name, sizes)
        # a tensor of the graph, or an array; or what gives it
        self._first_value_of_graph = None if first is not None else value
        self._first_maker = first

        strategy = strategy_state.get_strategy()

        def initialize(value: Any) -> None:
            made = self._drawn() if value is None else value
            if strategy is not None:
                made = strategy._first_of_all(made)
            self._set(np.asarray(made).astype(kind.as_numpy_dtype, copy=False))

        with self._aside():
            op = self.graph.python(
                "Assign",
                initialize,
                None,
                (self._first_value_of_graph,),
                f"{name}/Assign",
            )
        op.variables[id(self)] = self
        self.initializer: GraphOperation = op

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Open a context in which operations belong to no scope, and come after
        nothing."""
        with self.graph.control_dependencies(None), self.graph.name_scope(None):
            yield

    @property
    def initial_value(self) -> GraphTensor:
        """Its first value, a tensor: in one run the one that its initializer sets."""
        first = self._first_value_of_graph
        if isinstance(first, GraphTensor):
            return first
        name = self.name.split(":")[0]
        with self._aside():
            if self._first_maker is None:
                made = self.graph.constant(Tensor(first), f"{name}/initial_value")
            else:
                spec = TensorSpec(self.shape, self._type[0])
                made = self.graph.python(
                    "Initializer", self._drawn, spec, name=f"{name}/Initializer"
                )
                self.initializer.args = (made,)
                self.graph.version += 1
        self._first_value_of_graph = made
        return made

    def begin_with(self, value: Any) -> None:
        """Give it another first value, which its initializer sets from now on."""
        self._first_value_of_graph = value
        self._first_maker = None
        self.initializer.args = (value,)
        self.graph.version += 1

    def _drawn(self) -> Any:
        """Return a first value, which may be random: the same one at the same time of
        each session, where the graph has a seed."""
        from ipu._device.generators import keyed

        assert self._first_maker is not None

        state = running.state_of(self)
        count = state.setdefault("initialized", 0)
        state["initialized"] += 1
        seed = self.graph.seed
        number = 0 if seed is not None else running.session().number
        seed = _seed.current()[0] if seed is None else seed
        with keyed(seed, self._number, number, count):
            return Tensor(np.asarray(self._first_maker()), self._type[0])

    def _set(self, array: Any) -> None:
        if tuple(array.shape) != tuple(self.shape):
            array = np.broadcast_to(array, tuple(self.shape))
        self._put(Tensor(np.array(array)))
        self.initialized = True

    # --- its place --------------------------------------------------------------------

    @property
    def device(self) -> str:
        """The device that the scope said where it was made, empty where none did."""
        return self._scope_device

    @property
    def ordinal(self) -> int:
        """The number of the device that holds its value."""
        return self._scope_place.ordinal

    def settle(self, device: Device) -> None:
        """Give it a place on a device, with the value that it has."""
        if self._device is device.core:
            return
        if self._device is not None:
            self._move_to(device)
            return
        kind = as_dtype(self._type[0]).as_numpy_dtype
        self._place(device, Tensor(np.zeros(tuple(self.shape), kind)))

    def check_device(self) -> None:
        """Refuse what has no kernel on the device.

        Raises:
            InvalidArgumentError: It is on an IPU, and no resource.
        """
        if self.is_resource or self._scope_place.kind != "IPU":
            return
        name = self.name.split(":")[0]
        device = self._scope_place.device
        raise InvalidArgumentError(
            f"Cannot assign a device for operation '{name}': Could not satisfy "
            f"explicit device specification '{device}' because no supported kernel for "
            "IPU devices is available.\nColocation Debug Info:\nColocation group had "
            "the following types and devices:\nAssign: CPU\nIdentity: CPU IPU XLA_CPU\n"
            "VariableV2: CPU\nVariables on an IPU have to be resources: make it with "
            "tf.get_variable in ipu.scopes.ipu_scope, in "
            "tf.variable_scope(name, use_resource=True), or after "
            "tf.get_variable_scope().set_use_resource(True)."
        )

    def check_initialized(self) -> None:
        """Refuse to read what has no value.

        Raises:
            FailedPreconditionError: It was not initialised in this session.
        """
        if self.is_automatic and not self.initialized:
            self._set(np.asarray(self._first_value_of_graph))
        if self.initialized:
            return
        name = self.name.split(":")[0]
        raise FailedPreconditionError(
            f"Error while reading resource variable {name} from Container: localhost. "
            "This could mean that the variable was uninitialized. Not found: Resource "
            f"localhost/{name} does not exist. Run tf.global_variables_initializer() "
            "in this session first."
        )

    # --- reading and writing ----------------------------------------------------------

    @property
    def _resource(self) -> Any:
        return self._used(False)

    def _used(self, assigns: bool) -> Any:
        here = frame.innermost()
        if here is not None:
            here.use(self, assigns)
        if self._device is None:  # in a trace that is thrown away
            return ("variable", self._id, [self._type], self.name)
        return Variable._resource.fget(self)  # type: ignore[attr-defined]

    def __ipu_tensor__(self) -> Tensor:
        fed: Tensor | None = frame.fed(self)
        return super().__ipu_tensor__() if fed is None else fed

    @property
    def shape(self) -> TensorShape:
        """The shape; its sizes have a ``value`` where programs asked for TensorFlow 1's
        behaviour."""
        found = super().shape
        is_first = mode.is_default() and mode.building() is not None
        return DimensionedShape(found) if is_first else found

    def get_shape(self) -> TensorShape:
        """Return the shape, with sizes that have a ``value``."""
        return DimensionedShape(self.shape)

    @property
    def value(self) -> Any:
        """Its value: a tensor of the graph, or a read in the function being traced."""
        graph = mode.building()
        if graph is None:
            return super().value
        return functools.partial(self._read, graph)

    def read_value(self) -> Any:
        """Do the same as :meth:`value`: what is there when an operation runs here."""
        return self.value()

    def _read(self, graph: Graph) -> Any:
        return graph.record(_value, (self,), {}, "ReadVariableOp")

    def _as_graph_element(self) -> Any:
        return self._read(self.graph)

    def numpy(self) -> Any:
        """Return its value in the session that ran last.

        Raises:
            NotImplementedError: In graph mode.
        """
        if mode.building() is not None:
            raise NotImplementedError(
                "numpy() is only available when eager execution is enabled. Run the "
                f"variable {self.name!r} in a session."
            )
        return super().numpy()

    def eval(self, session: Any = None) -> Any:
        """Return its value in a session: the one given, or the default one."""
        from ipu.tf._graph.session import run_in_default

        return run_in_default(self, None, session)

    def load(self, value: Any, session: Any = None) -> None:
        """Set its value in a session: the one given, or the default one."""
        from ipu.tf._graph.session import run_in_default

        given = np.asarray(value)
        with self.graph.as_default():
            op = self.graph.python("Assign", lambda: self._set(given))
        op.variables[id(self)] = self
        run_in_default(op, None, session)

    def initialized_value(self) -> Any:
        """Return its value, or its first value where it has none yet: for the first
        values of others."""
        if self._initialized_value is None:

            def value(first: Any) -> Any:
                return Tensor(Variable.numpy(self)) if self.initialized else first

            name = f"{self.name.split(':')[0]}/initialized_value"
            spec = TensorSpec(self.shape, self._type[0])
            given = (self.initial_value,)
            with self._aside():
                made = self.graph.python("Cond", value, spec, given, name)
            made.op.variables[id(self)] = self
            self._initialized_value = made
        return self._initialized_value

    def is_initialized(self) -> Any:
        """Return a tensor that says whether it has a value."""
        return self.graph.python(
            "VarIsInitializedOp",
            lambda: Tensor(np.asarray(self.initialized)),
            TensorSpec((), "bool"),
        )

    def _write(self, op: str, value: Any) -> None:
        if op == "variable_assign":
            self._used(True)
        super()._write(op, value)

    def _change(self, method: str, value: Any) -> Any:
        graph = mode.building()
        if graph is None:
            trace = _core.open_trace()
            begin = 0 if trace is None else trace.node_count
            changed = getattr(Variable, method)(self, value)
            return changed if active() is None else tied(self.value(), begin)
        type = "".join(word.capitalize() for word in method.split("_"))
        if not isinstance(value, (GraphTensor, Variable, Tensor)):
            value = Tensor(value, self._type[0])
        return graph.record(_changed, (self, method, value), {}, f"{type}VariableOp")

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        graph = mode.building()
        if graph is not None and isinstance(part, GraphTensor):
            for name in ("assign", "assign_add", "assign_sub"):
                setattr(part, name, functools.partial(self._change_part, key, name))
        return part

    def _change_part(self, key: Any, name: str, value: Any) -> Any:
        """Write into what ``self[key]`` shows; the new value of the variable."""
        type = "StridedSliceAssign"
        return self.graph.record(_part_changed, (self, key, name, value), {}, type)

    def assign(self, value: Any, *_: Any, **options: Any) -> Any:
        """Set the value; in graph mode a tensor that is the new value."""
        refuse_unknown("assign", options, ASSIGN_OPTIONS)
        return self._change("assign", value)

    def assign_add(self, delta: Any, *_: Any, **options: Any) -> Any:
        """Add to the value; in graph mode a tensor that is the new value."""
        refuse_unknown("assign_add", options, ASSIGN_OPTIONS)
        return self._change("assign_add", delta)

    def assign_sub(self, delta: Any, *_: Any, **options: Any) -> Any:
        """Subtract from the value; in graph mode a tensor that is the new value."""
        refuse_unknown("assign_sub", options, ASSIGN_OPTIONS)
        return self._change("assign_sub", delta)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self._type[0]}>"


def _known(value: Any) -> Any:
    """Return a first value that does not depend on what a function being traced is
    given."""
    if isinstance(value, Tensor) and value.is_symbolic:
        trace = _core.open_trace()
        assert trace is not None
        return trace.evaluate(value, placement.current_device().core)
    return value


def _value(variable: GraphVariable) -> Tensor:
    return variable.__ipu_tensor__()


def _changed(variable: GraphVariable, method: str, value: Any) -> Tensor:
    getattr(Variable, method)(variable, value)
    return variable.__ipu_tensor__()


def _part_changed(variable: GraphVariable, key: Any, name: str, value: Any) -> Tensor:
    variable._assign_part(key, name, value)
    return variable.__ipu_tensor__()


def make_variable(key: Any, make: Callable[[], GraphVariable]) -> GraphVariable:
    """Return a variable, or the one that the same call of the function being traced
    made before.

    Args:
        key: How it was asked for.
        make: Makes it.
    """
    made = frame.creations()
    known = None if made is None else made.find(key)
    if known is not None:
        return known
    variable = make()
    if made is not None:
        made.add(key, variable)
    return variable


def new_variable(kwargs: dict[str, Any]) -> GraphVariable:
    """Return what ``tf.Variable(...)`` gives in graph mode, before it is
    initialised."""
    key = ("Variable", kwargs.get("name"))

    def make() -> GraphVariable:
        return object.__new__(GraphVariable)

    return make_variable(key, make)
