# SPDX-License-Identifier: MIT
"""Python functions as graphs and programs.

A function is traced by calling it once with symbolic tensors. Around the call stands a
``Build``, which collects what belongs to the program beside its graph: what has to be
done before and after each run, and the variables that the function made.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ipu import _core
from ipu._config.flags import flags
from ipu._core import Tensor
from ipu._device import devices, observers, strategy_state
from ipu._device.thread_state import here
from ipu._text.log import logger
from ipu.tf import nest
from ipu.tf._graph import mode
from ipu.tf._tensor.operation import Operation
from ipu.tf.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from ipu._config.target import Target


class _Result(NamedTuple):
    """A leaf of a function's result: output number ``output``, or a plain ``value``."""

    output: int
    value: Any


class Build:
    """The state that is collected while one function is traced.

    Args:
        name: The function, for errors.
        runs: Whether the program will be run by its function, with what is to be done
            before and after; a map function's is not.
        may_create: Whether variables may be created.
        device: Where it will run, for what the program needs there; None: nowhere.
        is_scratch: Whether nothing will run, and the graph is thrown away.

    Attributes:
        before: Called before each run.
        after: Called after each run, also one that failed, in order. What one raises
            is raised, unless the run has failed.
        variables: Those that the function created; weak.
        reads: Reads of variables, by their number, while the function is traced.
        checks: Called with the number of replicas of the compiled program.
        only_compiles: Whether it is compiled and never run.
        pretends: Called with that number in place of a run.
        write: Writes the program to a folder; None where it is written, or not to be.
        diagnose: Makes an account that knows what would make the program fit into an
            IPU; None where nobody can.
        is_account: Whether the graph is for an account: nodes get the names of the
            layers that they come from, and what queues move is there.
        account: Makes an account of the program, with options of
            ``ipu.machine.estimate``, and holds nothing of it; None where nobody can.
    """

    def __init__(
        self,
        name: str,
        runs: bool,
        may_create: bool = False,
        device: devices.Device | None = None,
        is_scratch: bool = False,
    ) -> None:
        self.name = name
        self.is_scratch = is_scratch
        self.device = device
        self.runs = runs
        self.may_create = may_create
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []
        self.variables: list[weakref.ref[Any]] = []
        self._beside: dict[int, weakref.ref[Any]] = {}
        self.reads: dict[int, list[tuple[int, Tensor]]] = {}
        self.checks: list[Callable[[int], None]] = []
        self.only_compiles = False
        self.pretends: list[Callable[[int], None]] = []
        self.write: Callable[[], None] | None = None
        self.diagnose: Callable[[], Any] | None = None
        self.is_account = False
        self.account: Callable[..., Any] | None = None
        self.reference = weakref.ref(self)
        self.notes: dict[Any, Any] = {}  # of those who add things, by themselves

    def note_use(self, variable: Any) -> None:
        """Count a variable that was made in an ``init_scope`` of the trace, as those of
        optimizers are, among what the function created once it uses it."""
        made = self._beside.pop(id(variable), None)
        if made is not None and made() is variable:
            self.variables.append(made)


def open_build() -> Build | None:
    """Return the build of the function that is being traced, or None."""
    return here.builds[-1] if here.builds else None


def current_build() -> Build:
    """Return the build of the function that is being traced."""
    if not here.builds:
        raise RuntimeError("No function is being traced.")
    return here.builds[-1]


def notes_here() -> dict[Any, Any]:
    """Return the notes of the current build; those of nobody where there is none."""
    return here.builds[-1].notes if here.builds else {}


def note_variable(variable: Any) -> None:
    """Note a new variable while a function is being traced."""
    if here.builds:
        here.builds[-1]._beside[id(variable)] = weakref.ref(variable)


def in_trace() -> bool:
    """Return whether a function is being traced."""
    return _core.open_trace() is not None


@contextmanager
def init_scope() -> Iterator[None]:
    """Do what is inside at once, also while a function is being traced.

    A layer that is built by its first call creates its variables in the middle of the
    trace of that call; their first values must not become part of the traced program.
    In graphs of TensorFlow 1 what is inside comes after nothing.

    Example:
        >>> with tf.init_scope():
        ...     float(tf.constant(1.0) + 1.0)
        2.0
    """
    graph = mode.building()
    suspended: list[_core.Trace] = []
    try:
        while (trace := _core.open_trace()) is not None:
            suspended.append(trace)
            trace.__exit__(None, None, None)
        with nullcontext() if graph is None else graph.control_dependencies(None):
            yield
    finally:
        for trace in reversed(suspended):
            if trace is not _core.open_trace():
                trace.__enter__()


class _LastRun:
    """The program that was the last one to run, of those that have accounts."""

    build: weakref.ref[Build] | None = None


last_run = _LastRun()


class TracedProgram(NamedTuple):
    """A compiled function.

    Attributes:
        program: The compiled program; its inputs are the function's tensor arguments.
        output_structure: The nest that the function returned, with a spec for each
            tensor.
        output_specs: The specs of its tensors, in order.
        results: The leaves of the structure.
        build: What is to be done around each run.
    """

    program: _core.Program
    output_structure: Any
    output_specs: list[TensorSpec]
    results: list[_Result]
    build: Build

    def pack(self, outputs: Sequence[Tensor]) -> Any:
        """Return the function's result, with the program's outputs in place."""
        leaves = [r.value if r.output < 0 else outputs[r.output] for r in self.results]
        if type(self.output_structure) is TensorSpec:
            return leaves[0]
        return nest.pack_sequence_as(self.output_structure, leaves)

    def run(self, inputs: Sequence[Any]) -> list[Tensor]:
        """Run the program once, with what belongs around it."""
        build = self.build
        if build.write is not None:
            build.write()
            build.write = None
        if build.only_compiles:
            for pretend in build.pretends:
                pretend(self.program.replicas)
            return [Tensor(np.zeros(*_shaped(spec))) for spec in self.output_specs]
        for prepare in build.before:
            prepare()
        try:
            outputs = self.program.run(inputs)
        except BaseException:
            for finish in build.after:
                with suppress(Exception):
                    finish()
            raise
        failure: Exception | None = None
        for finish in build.after:
            try:
                finish()
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        if build.account is not None:
            last_run.build = build.reference
        return outputs


def _shaped(spec: TensorSpec) -> tuple[tuple[int, ...], str]:
    dtype, sizes = _type_of(spec)
    return sizes, dtype


def _type_of(spec: Any) -> tuple[str, tuple[int, ...]]:
    shape = tuple(spec.shape)
    if any(size is None for size in shape):
        raise ValueError(
            f"Every size must be known when a function is compiled. Received the shape "
            f"{shape}. If a batch is not full, use drop_remainder=True in "
            "Dataset.batch."
        )
    return (spec.dtype.name, tuple(int(s) for s in shape))


def _name_of(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", None) or type(function).__name__
    if code is None:
        return str(name)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})"


Then = Callable[[_core.Trace, Any, Sequence[Tensor]], None]


def _trace(
    function: Callable[..., Any],
    args: Any,
    host: bool,
    build: Build,
    then: Then | None = None,
) -> tuple[_core.Trace, Any, list[_Result], list[TensorSpec]]:
    """Trace ``function``; every TensorSpec in the nest ``args`` becomes a parameter.

    ``then(trace, arguments, results)`` may trace more after it.
    """
    # a device has no wider integers; of wider floats a strategy says so
    narrow = 1 if strategy_state.has_strategy() else 2
    trace = _core.Trace(host=host, name=build.name, narrow=narrow)
    depth = len(here.builds)
    try:
        here.builds.append(build)
        with trace:
            actual = nest.map_structure(
                lambda a: (
                    trace.parameter(_type_of(a)) if isinstance(a, TensorSpec) else a
                ),
                args,
            )
            returned = function(*actual)
            results: list[_Result] = []
            specs: list[TensorSpec] = []
            tensors: list[Tensor] = []

            def take(leaf: Any) -> Any:
                if hasattr(leaf, "__ipu_tensor__"):
                    leaf = Tensor(leaf)
                if isinstance(leaf, Tensor):
                    trace.result(leaf)
                    tensors.append(leaf)
                    results.append(_Result(len(specs), None))
                    specs.append(TensorSpec(leaf.shape, leaf.dtype))
                    return specs[-1]
                if isinstance(leaf, Operation):
                    leaf = None
                elif isinstance(leaf, (int, float, np.ndarray, np.generic)):
                    leaf = Tensor(leaf)  # as TensorFlow gives it
                results.append(_Result(-1, leaf))
                return leaf

            structure = nest.map_structure(take, returned)
            if then is not None:
                then(trace, actual, tensors)
    finally:
        del here.builds[depth:]
        build.reads = {}  # its tensors hold the trace
        forget = sys.modules.get("ipu.tf._functions.custom_calls")
        if forget is not None:
            forget.forget_custom_calls(trace)
    return trace, structure, results, specs


def trace_program(
    fn: Callable[..., Any],
    specs: Sequence[Any],
    host: bool = False,
    device: devices.Device | None = None,
    build: Build | None = None,
    then: Then | None = None,
) -> TracedProgram:
    """Trace and compile a function.

    Args:
        fn: Called once, with a tensor for each ``TensorSpec``.
        specs: Its arguments: nests with a ``TensorSpec`` for each tensor.
        host: Compile for the host, where the wider dtypes exist.
        device: Where it will run; None on the host.
        build: Collects what belongs to the program; None where nothing but the
            program itself will be run.
        then: Called in the trace, after the function, as
            ``then(trace, arguments, results)``.
    """
    if build is None:
        build = Build(_name_of(fn), runs=False)
    watching = [] if device is None or host else observers.begin(build, device)
    trace, structure, results, output_specs = _trace(
        fn, tuple(specs), host, build, then
    )
    on_ipu = build.runs and device is not None and not host
    target, request = device.target if on_ipu and device else (None, None)
    told = [tell(trace) for tell in watching]  # before anything is fused
    program = trace.compile(
        device=None if device is None else device.core,
        verify=flags().enable_hlo_verifier,
        ipu=request,
    )
    program.name = build.name
    if program.account is not None and target is not None:
        _tell_account(program.account, target, build)
    build.diagnose = None
    for tell in told:
        tell(program)
    for check in build.checks:
        check(program.replicas)
    build.only_compiles = device is not None and device.only_compiles and not host
    # one that a tape watches gives more than its function does
    parent = "" if device is None or host or then is not None else device.written_to
    if parent and device is not None:
        from ipu.tf._functions import folders

        text, inputs = folders.clean_text(trace), nest.flatten(tuple(specs))
        build.write = functools.partial(
            folders.write_compiled,
            parent,
            build.name,
            text,
            device,
            [spec for spec in inputs if isinstance(spec, TensorSpec)],
            output_specs,
            structure,
        )
    if program.replicas > 1 and build.runs:
        logger.info(
            "Automatically replicating the TensorFlow model by a factor of %d.",
            program.replicas,
        )
    return TracedProgram(program, structure, output_specs, results, build)


def _tell_account(account: dict[str, Any], target: Target, build: Build) -> None:
    """Tell what a program takes on an IPU, as far as somebody asked."""
    if flags().log_cycle_count >= 0:
        cycles = account["cycles"]
        build.after.append(lambda: logger.info("Cycle count: %d", cycles))
    if target.memory != "off":
        from ipu._reports import doctor

        doctor.examine(build.name, account, target, build.diagnose)


def scratch_trace(
    fn: Callable[..., Any],
    specs: Sequence[Any],
    host: bool = False,
    may_create: bool = False,
) -> Any:
    """Find the shapes and dtypes that a function gives, without compiling it.

    Args:
        fn: Called once, with a tensor for each ``TensorSpec``.
        specs: Its arguments, as for :func:`trace_program`.
        host: Trace for the host.
        may_create: Whether variables may be created: ``fn`` keeps them for its next
            call. It tells the host nothing.

    Returns:
        The nest that ``fn`` returned, with a ``TensorSpec`` for each tensor.
    """
    build = Build(_name_of(fn), runs=False, may_create=may_create, is_scratch=True)
    return _trace(fn, tuple(specs), host, build)[1]


def trace_alone(fn: Callable[..., Any], specs: Sequence[Any]) -> _core.Trace:
    """Trace a function for the device, for its graph: nothing is compiled or run.

    Args:
        fn: Called once, with a tensor for each ``TensorSpec``; once more where the
            first call created variables, which ``fn`` keeps.
        specs: Its arguments, as for :func:`trace_program`.

    Returns:
        The trace, which has ended.
    """
    for may_create in (True, False):
        build = Build(_name_of(fn), runs=False, may_create=may_create, is_scratch=True)
        build.is_account = True
        trace = _trace(fn, tuple(specs), False, build)[0]
        if not build.variables:
            break
    return trace
