# SPDX-License-Identifier: MIT
"""Python functions that a program calls in its middle: ``tf.py_function`` and kin.

The program stops there, on the thread that runs it, until the function has returned.
It was compiled before the function has ever been called, so dtypes and shapes of the
results are said beforehand: by ``Tout``, by ``set_shape`` or ``tf.ensure_shape``, or
the shape is that which the arguments broadcast to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu._core import Tensor
from ipu._device import placement
from ipu._device.thread_state import here
from ipu.tf._functions.tracing import current_build
from ipu.tf._graph.reached import operation
from ipu.tf._string_ops.host_only import HostOnlyError
from ipu.tf._tensor import face
from ipu.tf._tensor.convert import convert_to_tensor
from ipu.tf.dtypes import NARROW, as_dtype
from ipu.tf.tensor_spec import TensorSpec

_Type = tuple[str, tuple[int, ...]]
_MOST_TAPES = 4096
"""Calls of one place whose gradients are still to come; older ones are forgotten."""


def may_call(what: str) -> None:
    """Check that a function that is being traced may call Python here.

    Raises:
        HostOnlyError: It runs as part of a data set, or on an IPU and not in an
            ``outside_compilation_scope``.
    """
    build = current_build()
    if not build.is_scratch and (not build.runs or build.device is None):
        raise HostOnlyError(
            f"{what} cannot be used in a function that runs as part of a data set or "
            f"of another program: {build.name}."
        )
    if not here.outside and placement.active_ipu() is not None:
        raise HostOnlyError(
            f"{what} calls Python, which an IPU cannot. Put it inside of `with "
            "ipu.scopes.outside_compilation_scope():`, and the program goes to the "
            "host there."
        )


def _types_of(what: str, types: Any, args: Sequence[Tensor]) -> list[_Type]:
    """Return the results' types; a shape that is not said is what the arguments
    broadcast to."""
    found = []
    for number, kind in enumerate(types):
        if isinstance(kind, TensorSpec) and kind.shape is not None:
            shape = tuple(kind.shape)
        else:
            try:
                shape = np.broadcast_shapes(*(tuple(x.shape) for x in args))
            except ValueError:
                shape = (None,)
        if None in shape:
            raise ValueError(
                f"{what}: the shape of result {number} is not known. Say it in `Tout`, "
                "as tf.TensorSpec(shape, dtype)."
            )
        dtype = as_dtype(kind.dtype if isinstance(kind, TensorSpec) else kind).name
        if dtype == "string":
            raise HostOnlyError(f"{what} gives strings, which are on the host alone.")
        if not placement.on_host():
            dtype = NARROW.get(dtype, dtype)
        found.append((dtype, tuple(int(size) for size in shape)))
    return found


def _check_count(what: str, results: Sequence[Any], count: int) -> None:
    if len(results) != count:
        raise ValueError(
            f"{what}: the function gave {len(results)} results, but `Tout` names "
            f"{count}."
        )


class _Place:
    """One place of a program that calls Python.

    Args:
        what: What the user wrote, for errors.
        function: Takes eager tensors, gives a list of results.
    """

    def __init__(self, what: str, function: Callable[..., Sequence[Any]]) -> None:
        self._what = what
        self._function = function
        self._core: _core.HostFunction | None = None

    def call(self, args: Sequence[Tensor], results: Sequence[_Type]) -> list[Tensor]:
        """Add the call to the program that is being traced."""
        trace = _core.open_trace()
        assert trace is not None
        build = current_build()
        operands = [(x.dtype.name, tuple(x.shape)) for x in args]
        number, types = -1, [*operands, *results]
        if build.device is not None and not build.is_scratch:
            core = build.device.core
            self._core = _core.HostFunction(core, self._run, operands, results)
            build.notes.setdefault(_Place, []).append(self)
            number = self._core.id
        resource = ("host", number, types, self._what)
        found = trace.node("host_call", tuple(args), None, (resource,))
        if found is None:
            return []
        return [found] if isinstance(found, Tensor) else list(found)

    def set_type(self, number: int, kind: _Type) -> None:
        """Say the type of an operand or a result anew."""
        if self._core is not None:
            self._core.set_type(number, kind)

    def is_number(self, number: int) -> bool:
        """Return whether that is its id on its device."""
        return self._core is not None and self._core.id == number

    def _run(self, *operands: Tensor) -> list[Tensor]:
        assert self._core is not None
        with placement.device("/CPU:0"), here.setting(builds=[], outside=False):
            results = self._function(*operands)
        types = self._core.types[len(operands) :]
        _check_count(self._what, results, len(types))
        return [self._checked(*each) for each in zip(results, types, strict=True)]

    def _checked(self, value: Any, kind: _Type) -> Tensor:
        dtype, shape = kind
        if isinstance(value, Tensor) and value.dtype.name != dtype:
            value = value.numpy()
        result = convert_to_tensor(value, dtype)
        if tuple(result.shape) != shape:
            raise ValueError(
                f"{self._what}: the function gave a tensor of shape "
                f"{tuple(result.shape)}, but the program was compiled for {shape}. Say "
                "the shape in `Tout`, as tf.TensorSpec(shape, dtype), or by set_shape."
            )
        return result


def set_shape(tensor: Tensor, shape: Sequence[int | None]) -> bool:
    """Say the shape of a function's result that nothing has used yet.

    Returns:
        Whether it is one.
    """
    trace = _core.open_trace()
    if trace is None or any(size is None for size in shape):
        return False
    kind = (tensor.dtype.name, tuple(int(size) for size in shape if size is not None))
    found = trace.set_host_shape(tensor, kind)
    if found is None:
        return False
    for place in current_build().notes.get(_Place, ()):
        if place.is_number(found[0]):
            place.set_type(found[1], kind)
    return True


face.shape_setters.append(set_shape)


class _Taped:
    """A function that is called under a tape where a program asks for its gradient."""

    def __init__(self, what: str, function: Callable[..., Sequence[Any]]) -> None:
        self._what = what
        self._function = function
        self._numbers = itertools.count()
        self._tapes: dict[int, Any] = {}
        self._is_taped = False
        self._count = 0

    def _counted(self, results: Sequence[Any]) -> Sequence[Any]:
        _check_count(self._what, results, self._count)
        return results

    def trace(self, args: Sequence[Tensor], types: Any) -> list[Tensor]:
        """Add it to the program that is being traced."""
        from ipu.tf.custom_gradient import custom_gradient

        kinds = _types_of(self._what, types, args)
        self._count = len(kinds)

        def called(*operands: Tensor) -> Any:
            place = _Place(self._what, self._forward)
            *results, number = place.call(operands, [*kinds, ("int32", ())])

            def gradient(*upstream: Tensor) -> list[Tensor | None]:
                self._is_taped = True
                back = _Place(f"the gradient of {self._what}", self._backward)
                of = [x for x in operands if x.dtype.is_floating]
                found = iter(
                    back.call(
                        [number, *(g for g in upstream if g.dtype.is_floating)],
                        [(x.dtype.name, tuple(x.shape)) for x in of],
                    )
                )
                return [next(found) if x.dtype.is_floating else None for x in operands]

            return results, gradient

        made: list[Tensor] = custom_gradient(called)(*args)
        return made

    def _forward(self, *operands: Tensor) -> list[Any]:
        from ipu.tf.gradient_tape import GradientTape

        number = next(self._numbers) % 2**31
        if not self._is_taped:
            return [*self._counted(self._function(*operands)), number]
        watched = [x for x in operands if x.dtype.is_floating]
        with GradientTape() as tape:
            tape.watch(watched)
            given = self._counted(self._function(*operands))
            results = [convert_to_tensor(r) for r in given]
        self._tapes[number] = tape, results, watched
        if len(self._tapes) > _MOST_TAPES:
            self._tapes.pop(next(iter(self._tapes)))
        return [*results, number]

    def _backward(self, number: Tensor, *upstream: Tensor) -> list[Any]:
        kept = self._tapes.pop(int(number), None)
        if kept is None:
            raise RuntimeError(
                f"The gradient of this call of {self._what} was taken before, or the "
                f"call lies more than {_MOST_TAPES} calls back."
            )
        tape, results, watched = kept
        targets = [r for r in results if r.dtype.is_floating]
        found: list[Any] = tape.gradient(
            targets,
            watched,
            output_gradients=list(upstream),
            unconnected_gradients="zero",
        )
        return found


def call_python(
    what: str,
    function: Callable[..., Sequence[Any]],
    args: Sequence[Tensor],
    types: Sequence[Any],
    has_gradient: bool,
) -> Any:
    """Add a call of a Python function to the program that is being traced.

    Args:
        what: What the user wrote, for errors.
        function: Takes eager tensors, gives a list of results.
        args: Its arguments.
        types: A dtype or a ``TensorSpec`` for each result.
        has_gradient: Whether the function's gradient is that of its ops.

    Returns:
        A list of tensors; an operation where there are no results.
    """
    trace = _core.open_trace()
    assert trace is not None
    may_call(what)
    begin = trace.node_count
    if not types:
        _Place(what, function).call(args, [])
        return operation("EagerPyFunc", begin)
    if has_gradient and any(x.dtype.is_floating for x in args):
        return _Taped(what, function).trace(args, types)
    return _Place(what, function).call(args, _types_of(what, types, args))
