# SPDX-License-Identifier: MIT
"""Operations that a session calls one by one on the host.

A program has shapes that are known when it is compiled. Where sizes depend on values
(``x[:n]``, ``boolean_mask``, a loop that makes a tensor longer) the calls are made with
the values there are, as outside of graphs, and a tape has the derivatives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu._device import placement, seed as _seed
from ipu._device.thread_state import here
from ipu.tf._graph import frame, running
from ipu.tf._graph.operation import GraphOperation, GraphTensor
from ipu.tf._graph.variables import GraphVariable
from ipu.tf._ops.creation import zeros_like
from ipu.tf._ops.elementwise import stop_gradient
from ipu.tf.gradient_tape import GradientTape

_MASK = 0xFFFFFFFFFFFFFFFF


class Values(frame.Frame):
    """The values of a part that runs by itself.

    Args:
        given: Values by the tensor's id.
    """

    def __init__(self, given: dict[int, Any]) -> None:
        super().__init__()
        self.values = dict(given)

    def use(self, variable: GraphVariable, assigns: bool) -> None:
        """Refuse to read what has no value."""
        if assigns:
            variable.initialized = True
        else:
            variable.check_initialized()


class Part:
    """Operations that are called one by one.

    Args:
        ops: The operations, in their order.
        replaced: Those of their tensors that are given.
    """

    def __init__(
        self, ops: Sequence[GraphOperation], replaced: Sequence[GraphTensor]
    ) -> None:
        self._ops = list(ops)
        self._replaced = {id(tensor) for tensor in replaced}
        self._gradients = [op for op in ops if op.type == "gradients"]
        sources = [x for op in self._gradients for x in op.args[1]]
        self._sources = {id(x) for x in sources if isinstance(x, GraphTensor)}
        self._variables = [x for x in sources if isinstance(x, GraphVariable)]
        self._stops = self._stopped()

    def _stopped(self) -> set[int]:
        """Return the tensors, by id, after which derivatives end.

        Raises:
            NotImplementedError: They end there for one call of ``tf.gradients``, and
                go on for another.
        """
        stops = {
            id(x): x
            for op in self._gradients
            for x in op.args[2]
            if isinstance(x, GraphTensor)
        }
        for op in self._gradients:
            own = {id(x) for x in op.args[2]}
            for key, x in stops.items():
                if key not in own and x.op in op.path:
                    raise NotImplementedError(
                        f"{x.name} is among the stop_gradients of one tf.gradients; "
                        "another one goes through it. Where sizes are known only when "
                        "operations run, use tf.stop_gradient."
                    )
        return set(stops)

    def run(self, given: dict[int, Any], fed: dict[int, Any]) -> dict[int, Any]:
        """Call the operations.

        Args:
            given: The inputs of the part, by the tensor's id.
            fed: Values in the place of variables, by the variable's id.

        Returns:
            The values of all tensors, by their id.
        """
        values = Values(given)
        values.fed = fed
        with ExitStack() as stack:
            stack.enter_context(here.setting(eager_parts=here.eager_parts + 1))
            stack.enter_context(placement.device("/device:CPU:0"))
            stack.enter_context(values.entered())
            tape = None
            if self._gradients:
                tape = GradientTape(persistent=True, watch_accessed_variables=False)
                stack.enter_context(tape)
                tape.watch([v for v in self._variables if id(v) not in fed])
                tape.watch([fed[id(v)] for v in self._variables if id(v) in fed])
                self._watch(tape, values, given)
            for op in self._ops:
                with _drawing(op):
                    self._call(op, values, given, tape)
        return values.values

    def _call(
        self,
        op: GraphOperation,
        values: Values,
        given: dict[int, Any],
        tape: GradientTape | None,
    ) -> None:
        if op.type == "gradients":
            assert tape is not None
            values.keep(op.leaves, _derived(op, values, tape))
        else:
            op.execute(values)
        for tensor in op.outputs:
            if id(tensor) in self._replaced:
                values.values[id(tensor)] = _passed(
                    values.values[id(tensor)], given[id(tensor)]
                )
            if id(tensor) in self._stops:
                values.values[id(tensor)] = stop_gradient(values.values[id(tensor)])
        if tape is not None:
            self._watch(tape, values, map(id, op.outputs))

    def _watch(self, tape: GradientTape, values: Values, keys: Any) -> None:
        for key in keys:
            value = values.values.get(key)
            is_float = isinstance(value, Tensor) and value.dtype.is_floating
            if key in self._sources and is_float:
                tape.watch(value)


def _passed(computed: Any, given: Any) -> Any:
    from ipu.tf._graph.plan import passed

    return passed(computed, given)


def _derived(op: GraphOperation, values: Values, tape: GradientTape) -> list[Any]:
    """Return the derivatives of one call of ``tf.gradients``."""
    ys, xs, _, weights = values.real(op.args)
    sources = [x if (f := frame.fed(x)) is None else f for x in xs]
    sources = [x if isinstance(x, GraphVariable) else Tensor(x) for x in sources]
    found = tape.gradient(list(ys), sources, output_gradients=weights)
    return [
        None
        if leaf is None
        else zeros_like(x)
        if gradient is None
        else Tensor(gradient)
        for leaf, x, gradient in zip(op.leaves, sources, found, strict=True)
    ]


@contextmanager
def _drawing(op: GraphOperation) -> Iterator[None]:
    """Open a context in which random numbers go on where the session was with them."""
    first, last = op.draws
    if first == last:
        yield
        return
    state, session = running.state_of(op), running.session()
    graph_seed = op.graph.seed
    seed = _seed.current()[0] if graph_seed is None else graph_seed
    is_seeded = graph_seed is not None or op.kwargs.get("seed") is not None
    number = 0 if is_seeded else session.number
    before = _core.eager_random()
    _core.set_eager_random(
        (seed ^ (first << 32) ^ (number << 48)) & _MASK, state.get("drawn", 0), 0
    )
    try:
        yield
        state["drawn"] = _core.eager_random()[1]
    finally:
        _core.set_eager_random(*before)
