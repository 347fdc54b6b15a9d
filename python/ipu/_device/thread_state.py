# SPDX-License-Identifier: MIT
"""All that a thread of the host is in the middle of: scopes, traces, sessions, names.

Each row belongs to one module, which is named above it and reads and writes it. A
thread sees nothing of others; a forked child goes on with the state of the thread that
forked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from ipu._core import Trace
    from ipu._device.devices import Device
    from ipu._device.placement import Scope
    from ipu._loops.training_loop import TrainingLoop
    from ipu.eager.backprop import GradientCaptureContext
    from ipu.ipu_strategy import IPUStrategyV1
    from ipu.keras.engine.symbols.keras_tensor import Node
    from ipu.tf._functions.function import DeviceFunction
    from ipu.tf._functions.tracing import Build
    from ipu.tf._graph.frame import CreatedVariables, Frame
    from ipu.tf._graph.graph import Graph
    from ipu.tf._graph.session import Session
    from ipu.tf._tensor.open_sizes import Guess
    from ipu.tf._tensor.varying_sizes import Others
    from ipu.tf.gradient_tape import GradientTape
    from ipu.tf.summary import SummaryWriter

T = TypeVar("T")


class _ThreadState(threading.local):
    def __init__(self) -> None:
        # placement.py, strategy_state.py
        self.strategies: list[IPUStrategyV1] = []
        self.device_scopes: list[Scope] = []
        self.ipu_scopes = 0
        self.shard = -1
        self.rounding = 0
        self.outside = False  # of compilation: scopes.outside_compilation_scope
        self.provisional: list[dict[int, Device]] = []
        # of functions: tracing.py, function.py, blocks.py, _runtime.py
        self.builds: list[Build] = []
        self.active_calls: list[tuple[DeviceFunction[..., Any], Any]] = []
        self.parts_of_step = 0
        # bodies of loops that are open: their traces, and the tapes around
        self.loop_bodies: list[tuple[Trace, list[GradientTape]]] = []
        self.last_iterations: dict[int, int] = {}  # of loops that are traced
        self.stores: list[dict[tuple[int, str], Any]] = []
        # of graphs: mode.py, frame.py, running.py, session.py, open_sizes.py, scopes.py
        self.graphs: list[Graph] = []
        self.own_graph: Graph | None = None
        self.suspensions = 0
        self.frames: list[Frame] = []
        self.creations: list[CreatedVariables] = []
        self.running_sessions: list[Session] = []
        self.eager_parts = 0
        self.constants: list[Any] | None = None  # of open control_dependencies
        self.size_guess: Guess | None = None
        self.sessions: list[Callable[[], Session | None]] = []
        # _loops/training_loop.py, eager/backprop.py, optimizers/_aggregation.py
        self.loops: list[TrainingLoop] = []
        self.captures: list[GradientCaptureContext] = []
        self.is_aggregated = False
        self.is_update = False  # an optimizer writes what is equal in all replicas
        # keras: call_context.py, pipeline_stage.py, keras_tensor.py, _names.py,
        # _functions.py, _seeds.py
        self.layer_calls: list[tuple[Any, Any]] = []  # training, dtype
        self.stage: int | None = None
        self.stage_entries = 0
        self.recorded_nodes: list[list[Node]] = []
        self.name_counts: dict[str, int] = {}
        self.trusted = 0
        self.seed_keys: list[tuple[list[int], Iterator[int]]] = []
        # data/varying_sizes.py, summary/_writer.py, stand_ins/keras_testing_utils.py
        self.varying_sizes: Others | None = None
        self.writer: SummaryWriter | None = None
        self.summary_step: Any = None
        self.summary_condition: Any = True
        self.test_model_type: str | None = None
        self.tests_run_eagerly = False

    @contextmanager
    def setting(self, **values: Any) -> Iterator[None]:
        """Give attributes other values, inside of ``with``."""
        before = {name: getattr(self, name) for name in values}
        try:
            self.__dict__.update(values)
            yield
        finally:
            self.__dict__.update(before)


@contextmanager
def entered(stack: list[T], item: T) -> Iterator[T]:
    """Put something on a stack, inside of ``with``.

    It goes wherever Ctrl-C comes: Python looks for it where it calls, so nothing is
    called between what changes the stack and what undoes it. Where an error is kept,
    the stack is cleared when that goes.
    """
    length = len(stack)
    try:
        stack.append(item)
        yield item
    finally:
        if stack[length:] and stack[-1] is item:
            del stack[-1]
        elif stack[length:]:
            stack[:] = [one for one in stack if one is not item]


here = _ThreadState()
"""The state of the calling thread."""
