# SPDX-License-Identifier: MIT
"""The plan of a session for one set of fetches and feeds.

The operations that the fetches need are cut into *steps*: programs of the host and of
devices, and what Python does between them. An operation joins the program of those it
depends on where it can; a step's *level* is how many others have to come before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ipu._core import Tensor
from ipu._device import devices, seed as _seed
from ipu._text.errors import InvalidArgumentError
from ipu.tf._functions.tracing import Build, TracedProgram, trace_program
from ipu.tf._graph import frame, mode, running
from ipu.tf._graph.eager import Part
from ipu.tf._graph.operation import GraphOperation, GraphTensor, Place
from ipu.tf._graph.variables import GraphVariable
from ipu.tf._ops.elementwise import identity
from ipu.tf.custom_gradient import custom_gradient
from ipu.tf.tensor_spec import TensorSpec

_MASK = 0xFFFFFFFFFFFFFFFF
_DEVICE_DTYPES = {"int64": np.int32, "float64": np.float32}


# of what is called one by one, since values tell its sizes
_EAGER = Place("EAGER")


class Fed:
    """The arguments of a run.

    Args:
        constants: Values by the tensor's id that programs are made for: sizes, and
            integers that were known, since shapes may depend on them.
        variables: Tensors that stand for variables, by the variable's id.
    """

    def __init__(
        self,
        tensors: Sequence[GraphTensor] = (),
        constants: Mapping[int, Tensor] | None = None,
        variables: Mapping[int, GraphTensor] | None = None,
    ) -> None:
        self.tensors = {id(tensor): tensor for tensor in tensors}
        self.constants = dict(constants or {})
        self.variables = dict(variables or {})
        self._unknown: set[int] = set()  # what was known depends on what is given
        known = {key for key, t in self.tensors.items() if t.known is not None}
        if known:
            for op in next(iter(self.tensors.values())).graph.get_operations():
                if any(id(t) in known for t in op.inputs):
                    known.update(id(t) for t in op.outputs)
            self._unknown = known

    def computes(self, tensor: GraphTensor) -> bool:
        """Return whether a run that needs a tensor computes it."""
        if id(tensor) in self.tensors:
            return False
        return tensor.known is None or id(tensor) in self._unknown

    def runs(self, tensor: GraphTensor) -> bool:
        """Return whether a run that needs a tensor runs its operation: that of a known
        value, too, where others come before it."""
        if id(tensor) in self.tensors:
            return False
        return self.computes(tensor) or tensor.op.is_ordered

    def replaced(self, ops: Sequence[GraphOperation]) -> list[GraphTensor]:
        """Return what operations would compute, and is given."""
        return [
            tensor
            for op in ops
            for tensor in op.outputs
            if id(tensor) in self.tensors and id(tensor) not in self.constants
        ]

    def enters(self, tensor: GraphTensor, inside: set[GraphOperation]) -> bool:
        """Return whether a tensor comes to a program of certain operations from
        outside."""
        if id(tensor) in self.tensors:
            return id(tensor) not in self.constants
        return self.computes(tensor) and tensor.op not in inside


def needed(targets: Sequence[GraphOperation], fed: Fed) -> list[GraphOperation]:
    """Return the operations that others need, in the order in which they were added."""
    found: set[GraphOperation] = set()
    waiting = list(targets)
    while waiting:
        op = waiting.pop()
        if op in found:
            continue
        found.add(op)
        waiting.extend(op.control_inputs)
        waiting.extend(t.op for t in op.inputs if fed.runs(t))
        # a derivative continues past fed tensors on its path
        waiting.extend(other for other in op.path if fed.replaced([other]))
    return sorted(found, key=lambda op: op.index)


class _Program(NamedTuple):
    """A traced part.

    Attributes:
        needed: Variables that must have a value before it runs.
    """

    traced: TracedProgram
    needed: list[GraphVariable]
    assigned: list[GraphVariable]


class _Step:
    """Operations of one place that run together.

    Args:
        inputs: The tensors that come from other steps.
        outputs: The tensors that other steps, or the fetches, take.
    """

    def __init__(
        self,
        place: Place,
        ops: list[GraphOperation],
        inputs: list[GraphTensor],
        outputs: list[GraphTensor],
        fed: Fed,
    ) -> None:
        self.place = place
        self.ops = ops
        used = {key for op in ops for key in op.variables}
        self._variables = {k: t for k, t in fed.variables.items() if k in used}
        self._constants = fed.constants
        self._replaced = fed.replaced(ops) if place.kind != "PYTHON" else []
        more = [*self._variables.values(), *self._replaced]
        self.inputs = list(dict.fromkeys([*inputs, *more]))
        self.outputs = outputs
        self._programs: dict[Any, _Program] = {}
        self._part = Part(ops, self._replaced) if place == _EAGER else None

    def run(self, values: dict[int, Any]) -> None:
        """Run it.

        Args:
            values: The computed values, by the tensor's id; gets what this computes.
        """
        if self.place.kind == "PYTHON":
            self._call(values)
            return
        if self._part is not None:
            self._call_one_by_one(self._part, values)
            return
        device = devices.get_device(self.place.ordinal)
        on_host = self.place.kind == "CPU"
        given = [_given(values, tensor, on_host) for tensor in self.inputs]
        key = (device, *((one.dtype_name, one.shape) for one in given))
        program = self._programs.get(key)
        if program is None:
            specs = [TensorSpec(one.shape, one.dtype) for one in given]
            program = self._trace(specs, device, on_host)
            self._programs[key] = program
        for variable in program.needed:
            variable.check_initialized()
        with device.running(), self._drawing(device):
            results = program.traced.pack(program.traced.run(given))
        for variable in program.assigned:
            variable.initialized = True
        for tensor, value in zip(self.outputs, results, strict=True):
            values[id(tensor)] = value

    @contextmanager
    def _drawing(self, device: devices.Device) -> Iterator[None]:
        """Open a context in which random numbers go on where the session was with them.

        An op has a stream for each session. A program with several random ops advances
        all their streams to the furthest one.
        """
        drawing = [op for op in self.ops if op.draws[0] < op.draws[1]]
        if not drawing:
            yield
            return
        states = [running.state_of(op) for op in drawing]
        seed = drawing[0].graph.seed
        seed = _seed.current()[0] if seed is None else seed
        step = max(state.get("step", 0) for state in states)
        device.core.set_random(seed & _MASK, step)
        yield
        for state in states:
            state["step"] = device.core.random[1]

    def _call_one_by_one(self, part: Part, values: dict[int, Any]) -> None:
        given: dict[int, Any] = {id(t): _given(values, t, True) for t in self.inputs}
        given.update(self._constants)
        fed = {key: given[id(tensor)] for key, tensor in self._variables.items()}
        found = part.run(given, fed)
        for tensor in self.outputs:
            values[id(tensor)] = found[id(tensor)]

    def _call(self, values: dict[int, Any]) -> None:
        here = frame.Frame(lambda tensor: values.get(id(tensor)))
        with mode.suspended():
            for op in self.ops:
                op.execute(here)
        values.update(here.values)

    def _trace(
        self, specs: list[TensorSpec], device: devices.Device, on_host: bool
    ) -> _Program:
        here = frame.Frame()

        def body(*tensors: Any) -> Any:
            here.values = {
                id(tensor): value
                for tensor, value in zip(self.inputs, tensors, strict=True)
            }
            here.values.update(self._constants)
            here.fed = {
                key: here.values[id(tensor)] for key, tensor in self._variables.items()
            }
            given = {id(t): here.values[id(t)] for t in self._replaced}
            with here.entered():
                for op in self.ops:
                    _execute(op, here)
                    for key in map(id, op.outputs):
                        if key in given:
                            here.values[key] = passed(here.values[key], given[key])
                return [here.value_of(tensor) for tensor in self.outputs]

        build = Build(self._name(), runs=True, may_create=True, device=device)
        traced = trace_program(body, specs, host=on_host, device=device, build=build)
        return _Program(
            traced, list(here.needed.values()), list(here.assigned.values())
        )

    def _name(self) -> str:
        named = [op.name for op in self.ops if op.place.kind != "ANY"]
        return named[-1] if named else self.ops[-1].name


def _execute(op: GraphOperation, here: frame.Frame) -> None:
    from ipu import scopes
    from ipu._core import open_trace

    trace = open_trace()
    assert trace is not None
    # another number for each random op of the graph, whatever else runs with it
    trace.resume(op.draws[0] + _session_offset(op), 0, 0, 0, 0)
    rounding = trace.rounding
    trace.rounding = op.rounding or rounding
    try:
        if op.shard < 0:
            op.execute(here)
        else:
            with scopes.ipu_shard(op.shard):
                op.execute(here)
    finally:
        trace.rounding = rounding


def passed(computed: Tensor, given: Tensor) -> Any:
    """Return what is given in the place of a tensor, with the derivatives of the
    tensor."""

    @custom_gradient
    def replace(_: Tensor) -> Any:
        return identity(given), lambda upstream: upstream

    return replace(computed)


def _session_offset(op: GraphOperation) -> int:
    """Return what tells the random numbers of sessions apart where no seed was
    given."""
    session = running.session()
    is_seeded = op.graph.seed is not None or op.kwargs.get("seed") is not None
    return 0 if is_seeded or session is None else session.number << 32


def _given(values: dict[int, Any], tensor: GraphTensor, on_host: bool) -> Tensor:
    value = values.get(id(tensor))
    if value is None:
        value = tensor.known
    if not isinstance(value, Tensor):
        value = Tensor(np.asarray(value))
    narrow = None if on_host else _DEVICE_DTYPES.get(value.dtype_name)
    return value if narrow is None else Tensor(value.numpy().astype(narrow))


class Plan:
    """The steps of a run.

    Args:
        targets: The operations and tensors to be computed.
    """

    def __init__(
        self, targets: Sequence[GraphOperation | GraphTensor], fed: Fed
    ) -> None:
        self._fed = fed
        tensors = [t for t in targets if isinstance(t, GraphTensor)]
        wanted = [t for t in tensors if fed.computes(t)]
        ops = [t for t in targets if isinstance(t, GraphOperation)]
        self._ops = needed([*ops, *(t.op for t in tensors if fed.runs(t))], fed)
        self._inputs = {op: op.inputs for op in self._ops}
        for op in self._ops:
            for variable in op.variables.values():
                variable.check_device()
        self.variables = {id(v): v for op in self._ops for v in op.variables.values()}
        self._places = self._placed()
        self._levels = self._leveled()
        self.steps = self._cut(wanted)
        self.is_of_values = bool(fed.constants)

    def run(self, values: dict[int, Any]) -> None:
        """Run the steps.

        Args:
            values: The fed values by the tensor's id; gets what is computed.
        """
        for variable in self.variables.values():
            variable.settle(devices.get_device(variable.ordinal))
        for step in self.steps:
            step.run(values)

    # --- how it is cut ----------------------------------------------------------------

    def _placed(self) -> dict[GraphOperation, Place]:
        """Return the place of each operation; gradients draw those on their path to
        theirs.

        Gradients whose paths share operations are in one place: on an IPU, where one
        of them is.
        """
        places = {op: op.place for op in self._ops}
        group_of: dict[GraphOperation, list[GraphOperation]] = {}
        for op in self._ops:
            members = [op, *(p for p in op.path if p in places and not p.place.part)]
            if len(members) == 1:
                continue
            known = {id(g): g for g in map(group_of.get, members) if g is not None}
            joined = [*members, *(one for g in known.values() for one in g)]
            joined = list(dict.fromkeys(joined))
            group_of.update(dict.fromkeys(joined, joined))
        groups = list({id(g): g for g in group_of.values()}.values())
        for group in groups:
            chosen = [op.place for op in group if op.path]
            place = next((one for one in chosen if one.kind == "IPU"), chosen[0])
            places.update(dict.fromkeys(group, place))
        places.update(dict.fromkeys(self._open(places, groups), _EAGER))
        return places

    def _open(
        self,
        places: Mapping[GraphOperation, Place],
        groups: Sequence[Sequence[GraphOperation]],
    ) -> set[GraphOperation]:
        """Return operations of the host that are called one by one.

        They are those whose sizes values tell, those that take their results of open
        sizes, and what is differentiated with one of them.
        """
        found = {op for op in self._ops if op.is_open and places[op].kind == "CPU"}
        free: set[GraphOperation] = set()  # sizes of their results
        before = -1
        while found and len(found) != before:
            before = len(found)
            for op in self._ops:
                if op in found or not self._takes_open(op, found, free):
                    continue
                if places[op].kind == "CPU":
                    found.add(op)
                elif places[op].kind == "ANY":
                    free.add(op)
            for group in groups:
                on_host = all(places[op].kind == "CPU" for op in group)
                if on_host and found.intersection(group):
                    found.update(group)
        return found

    def _takes_open(
        self,
        op: GraphOperation,
        found: set[GraphOperation],
        free: set[GraphOperation],
    ) -> bool:
        return any(
            t.op in free or (t.op in found and not t._shape.is_fully_defined())
            for t in self._inputs[op]
            if self._fed.computes(t)
        )

    def _before(self, op: GraphOperation) -> list[GraphOperation]:
        """Return what has to run before an operation, seen through those that cost
        nothing."""
        found: list[GraphOperation] = []
        seen: set[GraphOperation] = set()
        waiting = self._direct(op)
        while waiting:
            one = waiting.pop()
            if one in seen:
                continue
            seen.add(one)
            if self._places[one].kind == "ANY":
                waiting.extend(self._direct(one))
            else:
                found.append(one)
        return found

    def _direct(self, op: GraphOperation) -> list[GraphOperation]:
        taken = [t.op for t in self._inputs[op] if self._fed.runs(t)]
        return [*taken, *op.control_inputs]

    def _leveled(self) -> dict[GraphOperation, int]:
        """Return the level of each operation that runs."""
        running = [op for op in self._ops if self._places[op].kind != "ANY"]
        before = {op: self._before(op) for op in running}
        levels = dict.fromkeys(running, 0)
        for _ in range(len(running) + 1):
            is_settled = True
            for op in running:
                level = max(
                    [levels[op], *(self._after(one, op, levels) for one in before[op])]
                )
                level = max([level, *(levels[p] for p in op.path if p in levels)])
                for other in (op, *(p for p in op.path if p in levels)):
                    is_settled &= levels[other] == level
                    levels[other] = level
            if is_settled:
                return levels
        raise InvalidArgumentError(
            "The operations that a gradient is taken of are cut in two by operations "
            "on another device between them. Put all that is differentiated on one "
            "device: in one ipu.scopes.ipu_scope, or in the function of "
            "ipu_compiler.compile."
        )

    def _after(
        self,
        one: GraphOperation,
        op: GraphOperation,
        levels: dict[GraphOperation, int],
    ) -> int:
        place = self._places[op]
        joins = place.kind != "PYTHON" and self._places[one] == place
        return levels[one] if joins else levels[one] + 1

    def _cut(self, wanted: list[GraphTensor]) -> list[_Step]:
        groups: dict[Any, list[GraphOperation]] = {}
        for op, level in self._levels.items():
            place = self._places[op]
            # each call of Python is a step of its own
            own = op.index if place.kind == "PYTHON" else -1
            groups.setdefault((level, place.kind, place, own), []).append(op)
        members = {key: self._with_free(ops) for key, ops in groups.items()}
        group_of = {op: key for key, ops in groups.items() for op in ops}
        outputs: dict[Any, list[GraphTensor]] = {key: [] for key in groups}
        free = [t for t in wanted if self._places[t.op].kind == "ANY"]
        free_ops = self._with_free([t.op for t in free])
        for key, ops in [*members.items(), (None, free_ops)]:
            for tensor in [*self._taken_by(ops), *(wanted if key is None else ())]:
                maker = group_of.get(tensor.op)
                if maker is not None and maker != key and self._fed.computes(tensor):
                    outputs[maker].append(tensor)
        steps = [
            _Step(
                key[2],
                members[key],
                self._entering(members[key]),
                list(dict.fromkeys(outputs[key])),
                self._fed,
            )
            for key in sorted(groups, key=lambda key: (key[0], key[1], key[2], key[3]))
        ]
        if free:  # sizes that are fetched themselves
            taken = self._entering(free_ops)
            steps.append(_Step(Place("CPU"), free_ops, taken, free, self._fed))
        return steps

    def _taken_by(self, ops: Sequence[GraphOperation]) -> Iterator[GraphTensor]:
        """Return the inputs of operations."""
        return (tensor for op in ops for tensor in self._inputs[op])

    def _entering(self, ops: Sequence[GraphOperation]) -> list[GraphTensor]:
        """Return what a program of these operations takes."""
        inside = set(ops)
        return [t for t in self._taken_by(ops) if self._fed.enters(t, inside)]

    def _with_free(self, ops: list[GraphOperation]) -> list[GraphOperation]:
        """Return operations, and those that cost nothing and that they need."""
        found = set(ops)
        waiting = [t for t in self._taken_by(ops) if self._fed.computes(t)]
        while waiting:
            op = waiting.pop().op
            if op not in found and self._places[op].kind == "ANY":
                found.add(op)
                waiting.extend(t for t in self._inputs[op] if self._fed.computes(t))
        return sorted(found, key=lambda op: op.index)
