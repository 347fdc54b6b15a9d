# SPDX-License-Identifier: MIT
"""Python functions as programs: tracing, the cache of traced functions, running.

A function is traced once for each signature: the shapes and dtypes of its tensor
arguments, the values of Python ones, the identity of all other objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ipu import _core, _devices
from ipu.tf import nest
from ipu.tf.ops import Tensor
from ipu.tf.tensor_spec import TensorSpec
from ipu.tf.variable import Variable, current_device

__all__ = [
    "DeviceFunction",
    "TracedProgram",
    "in_trace",
    "scratch_trace",
    "trace_program",
]


class _Result(NamedTuple):
    """A leaf of a function's result: output number ``output``, or a plain ``value``."""

    output: int
    value: Any


class TracedProgram(NamedTuple):
    """A compiled function.

    Attributes:
        program: The compiled program; its inputs are the function's tensor arguments.
        output_structure: The nest that the function returned, with a spec for each
            tensor.
        output_specs: The specs of its tensors, in order.
        results: The leaves of the structure.
    """

    program: _core.Program
    output_structure: Any
    output_specs: list[TensorSpec]
    results: list[_Result]

    def pack(self, outputs: Sequence[Tensor]) -> Any:
        """The function's result, with the program's outputs in place."""
        leaves = [r.value if r.output < 0 else outputs[r.output] for r in self.results]
        return nest.pack_sequence_as(self.output_structure, leaves)


def in_trace() -> bool:
    """Whether a function is being traced."""
    return _core.open_trace() is not None


def _type_of(spec: Any) -> tuple[str, tuple[int, ...]]:
    shape = tuple(spec.shape)
    if any(size is None for size in shape):
        raise ValueError(
            f"Every size must be known when a function is compiled. Received the shape "
            f"{shape}. If a batch is not full, use drop_remainder=True in "
            "Dataset.batch."
        )
    return (spec.dtype.name, tuple(int(s) for s in shape))


def _trace(
    function: Callable[..., Any], args: Any, host: bool
) -> tuple[_core.Trace, Any, list[_Result], list[TensorSpec]]:
    """Trace ``function``; every TensorSpec in the nest ``args`` becomes a parameter."""
    trace = _core.Trace(host=host)
    with trace:
        actual = nest.map_structure(
            lambda a: trace.parameter(_type_of(a)) if isinstance(a, TensorSpec) else a,
            args,
        )
        returned = function(*actual)
        results: list[_Result] = []
        specs: list[TensorSpec] = []

        def take(leaf: Any) -> Any:
            if isinstance(leaf, Variable):
                leaf = leaf.value()
            if isinstance(leaf, Tensor):
                trace.result(leaf)
                results.append(_Result(len(specs), None))
                specs.append(TensorSpec(leaf.shape, leaf.dtype))
                return specs[-1]
            results.append(_Result(-1, leaf))
            return leaf

        structure = nest.map_structure(take, returned)
    return trace, structure, results, specs


def trace_program(
    fn: Callable[..., Any],
    specs: Sequence[Any],
    host: bool = False,
    device: _devices.Device | None = None,
) -> TracedProgram:
    """Trace and compile a function.

    Args:
        fn: Called once, with a tensor for each ``TensorSpec``.
        specs: Its arguments: nests with a ``TensorSpec`` for each tensor.
        host: Compile for the host, where the wider dtypes exist.
        device: Where it will run; None on the host.

    Returns:
        The compiled function.
    """
    trace, structure, results, output_specs = _trace(fn, tuple(specs), host)
    program = trace.compile(device=None if device is None else device.core)
    return TracedProgram(program, structure, output_specs, results)


def scratch_trace(
    fn: Callable[..., Any], specs: Sequence[Any], host: bool = False
) -> Any:
    """Find the shapes and dtypes that a function gives, without compiling it.

    Args:
        fn: Called once, with a tensor for each ``TensorSpec``.
        specs: Its arguments, as for :func:`trace_program`.
        host: Trace for the host.

    Returns:
        The nest that ``fn`` returned, with a ``TensorSpec`` for each tensor.
    """
    return _trace(fn, tuple(specs), host)[1]


_SCALARS = (bool, int, float, complex, str, bytes, type(None))


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, (Tensor, np.ndarray, np.generic))


class DeviceFunction:
    """A Python function as one device program.

    Args:
        python_function: The function. Its effects on Python happen while it is traced.
        device: Where it runs; None is the current strategy's device, else number 0.

    Calling it with tensors, arrays, Python numbers, models, data structures of them
    and so on traces it where it has not seen such arguments before, runs the program,
    and returns what the function returned with eager tensors in it.
    """

    _is_ipu_function = True

    def __init__(
        self,
        python_function: Callable[..., Any],
        device: _devices.Device | None = None,
    ) -> None:
        self.python_function = python_function
        self._device = device
        self._cache: dict[Any, TracedProgram] = {}
        self._kept: list[Any] = []  # objects whose identity is a key

    def _key(self, leaf: Any) -> Any:
        if _is_tensor(leaf):
            tensor = leaf if isinstance(leaf, Tensor) else np.asarray(leaf)
            return (tuple(tensor.shape), tensor.dtype.name)
        if isinstance(leaf, _SCALARS):
            return (type(leaf), leaf)
        return id(leaf)

    def traced(self, *args: Any) -> TracedProgram:
        """The compiled function for these arguments; traces where there is none yet."""
        device = self._device or current_device()
        leaves = nest.flatten(args)
        key = (
            id(device),
            repr(nest.map_structure(lambda _: 0, args)),
            tuple(self._key(leaf) for leaf in leaves),
        )
        found = self._cache.get(key)
        if found is None:
            _devices.check_shards(device)
            specs = nest.map_structure(
                lambda leaf: (
                    TensorSpec(leaf.shape, leaf.dtype.name)
                    if _is_tensor(leaf)
                    else leaf
                ),
                args,
            )
            found = trace_program(self.python_function, specs, device=device)
            self._cache[key] = found
            self._kept.append(
                (device, [leaf for leaf in leaves if not _is_tensor(leaf)])
            )
        return found

    def __call__(self, *args: Any) -> Any:
        if in_trace():
            return self.python_function(*args)
        device = self._device or current_device()
        traced = self.traced(*args)
        with device.running():
            outputs = traced.program.run(
                [leaf for leaf in nest.flatten(args) if _is_tensor(leaf)]
            )
        return traced.pack(outputs)
