# SPDX-License-Identifier: MIT
"""Ops of the user's own: compiled functions of the host, and expressions."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ipu import _core, tf
from ipu._core import Tensor
from ipu._device.thread_state import here
from ipu._text.errors import NotFoundError
from ipu._text.exports import export
from ipu._text.refusals import refuse_call
from ipu.ops._expressions import PlaceholderVertexExpr, VertexExpression
from ipu.tf.dtypes import as_dtype

__all__ = ["codelet_expression_op", "cpu_user_operation", "precompiled_user_op"]

_Type = tuple[str, tuple[int, ...]]


class _Vector(ctypes.Structure):
    """A vector of C++ (of GCC's and Clang's usual library), as a function reads it."""

    _fields_ = (
        ("begin", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
        ("capacity", ctypes.c_void_p),
    )


class _String(ctypes.Structure):
    """A string of C++, as a function reads it."""

    _fields_ = (
        ("data", ctypes.c_char_p),
        ("size", ctypes.c_size_t),
        ("own", ctypes.c_char * 16),
    )


def _vector(items: Any) -> _Vector:
    begin = ctypes.addressof(items)
    end = begin + ctypes.sizeof(items)
    return _Vector(begin, end, end)


def _string(text: str) -> _String:
    data = text.encode()
    return _String(data, len(data), data[:15])


def _pointers(arrays: Sequence[Any]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))


class _Library:
    """The functions of one op in a compiled library.

    Args:
        path: The library's file.
        name: The op's name, with which its functions begin.
    """

    def __init__(self, path: Any, name: str) -> None:
        self.path, self.name = os.fspath(path), name
        if not os.path.exists(self.path):
            raise NotFoundError(f"There is no library {self.path!r}.")
        try:
            self._library = ctypes.CDLL(os.path.abspath(self.path))
        except OSError as error:
            raise ValueError(
                f"`library_path` must be a library for this computer. {self.path!r} "
                f"cannot be loaded: {error}."
            ) from None

    def has(self, name: str) -> bool:
        """Return whether there is a function of that name."""
        return hasattr(self._library, name)

    def function(
        self, name: str, results: Sequence[_Type], attributes: str, label: str
    ) -> Callable[..., list[Any]]:
        """Return a Python function that calls one of them.

        Args:
            name: The function's name.
            results: dtype and shape of each result.
            attributes: The attributes that it gets.
            label: The name that it gets.
        """
        if not self.has(name):
            raise NotFoundError(
                f"{self.path!r} has no function {name!r}. Declare it "
                f'`extern "C" void {name}(const std::vector<const void *> &, const '
                "std::vector<std::uint32_t> &, const std::vector<void *> &, const "
                "std::string &, const std::string &)`, and say its name without "
                "`_grad` in `op_name`."
            )
        function = self._library[name]
        function.restype = None

        def call(*operands: Tensor) -> list[Any]:
            arrays = [np.require(x.numpy(), requirements=["C", "A"]) for x in operands]
            made = [
                np.zeros(shape, as_dtype(kind).as_numpy_dtype)
                for kind, shape in results
            ]
            sizes = (ctypes.c_uint32 * len(arrays))(*(a.size for a in arrays))
            given, taken = _pointers(arrays), _pointers(made)
            function(
                ctypes.byref(_vector(given)),
                ctypes.byref(_vector(sizes)),
                ctypes.byref(_vector(taken)),
                ctypes.byref(_string(attributes)),
                ctypes.byref(_string(label)),
            )
            return made

        return call


def _results_of(outs: Any) -> list[_Type]:
    if outs is None:
        return []
    if not isinstance(outs, dict) or set(outs) != {"output_types", "output_shapes"}:
        raise ValueError(
            "`outs` must be a dict with the keys 'output_types' and 'output_shapes'. "
            f"Received: {outs!r}."
        )
    types, shapes = list(outs["output_types"]), list(outs["output_shapes"])
    if len(types) != len(shapes):
        raise ValueError(
            "`outs` must have as many 'output_types' as 'output_shapes'. Received: "
            f"{len(types)} types and {len(shapes)} shapes."
        )
    found = []
    for kind, shape in zip(types, shapes, strict=True):
        sizes = tf.TensorShape(shape)
        if not sizes.is_fully_defined():
            raise ValueError(
                f"'output_shapes' of `outs` must be fully known. Received: {shape}."
            )
        found.append((as_dtype(kind).name, tuple(int(n or 0) for n in sizes.as_list())))
    return found


def _text(name: str, value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"Expected {name} to be a 'str' type, but was {type(value)}.")
    return value or ""


def _differentiable(inputs: Sequence[Tensor], numbers: Any) -> list[int]:
    if numbers is None:
        return list(range(len(inputs)))
    chosen = list(numbers)
    for number in chosen:
        if not isinstance(number, int) or not 0 <= number < len(inputs):
            raise ValueError(
                "`inputs_with_gradients` must be numbers of inputs, from 0 to "
                f"{len(inputs) - 1}. Received: {number!r}."
            )
    return chosen


def _call(
    what: str, function: Callable[..., Any], operands: Sequence[Tensor], types: Any
) -> list[Tensor]:
    """Call a function now, or in the program that is being traced."""
    if _core.open_trace() is None:
        return [tf.convert_to_tensor(made) for made in function(*operands)]
    from ipu.tf._functions.host_calls import call_python

    specs = [tf.TensorSpec(shape, kind) for kind, shape in types]
    with here.setting(outside=True):
        found = call_python(what, function, operands, specs, has_gradient=False)
    return list(found) if specs else []


def cpu_user_operation(
    inputs: Sequence[Any],
    library_path: Any,
    outs: dict[str, Any] | None = None,
    name: str = "UserOp",
    op_name: str = "Callback",
    separate_gradients: bool = False,
    inputs_with_gradients: Sequence[int] | None = None,
    attributes: str | None = None,
    gradient_attributes: str | None = None,
) -> list[Tensor]:
    """Call a compiled function of the host with tensors of a program.

    The function is of C++, built into a shared library::

        extern "C" void Callback(
            const std::vector<const void *> &data,
            const std::vector<std::uint32_t> &number_of_elements,
            const std::vector<void *> &outputs,
            const std::string &attributes, const std::string &name);

    In C a vector is three pointers, to the first element, after the last one, and
    again, and a string a pointer and a ``size_t``. ``Callback_grad``, of the same type,
    gets the gradients of the outputs, then the outputs, then the inputs, and gives a
    gradient for each input that has one.

    Args:
        inputs: Tensors.
        library_path: The library's file.
        outs: ``{"output_types": [...], "output_shapes": [...]}``; None: no outputs.
        name: A name that the function gets.
        op_name: The function's name.
        separate_gradients: Whether each input's gradient is a call of its own; for one
            input alone.
        inputs_with_gradients: The numbers of the inputs that have gradients; None: all.
        attributes: A text that the function gets.
        gradient_attributes: A text that the gradient's function gets.

    Returns:
        A list of tensors.

    Raises:
        NotFoundError: There is no such file, or no such function in it.
        ValueError: An argument is not as it should be.

    Source: ``ipu.custom_ops.cpu_user_operation`` of SDK 1.0 to 3.4.

    Example:
        >>> cpu_user_operation([1.0], "missing.so")
        Traceback (most recent call last):
        ...
        ipu._text.errors.NotFoundError: There is no library 'missing.so'.
    """
    operands = [tf.convert_to_tensor(x) for x in inputs]
    results = _results_of(outs)
    texts = (
        _text("attributes", attributes),
        _text("gradient_attributes", gradient_attributes),
    )
    chosen = _differentiable(operands, inputs_with_gradients)
    if separate_gradients and len(chosen) > 1:
        raise NotImplementedError(
            "separate_gradients=True of cpu_user_operation is for one input with a "
            f"gradient. Received: {len(chosen)}. Have {op_name}_grad write all "
            "gradients, and leave `separate_gradients` out."
        )
    library = _Library(library_path, op_name)
    forward = library.function(op_name, results, texts[0], name)

    @tf.custom_gradient
    def called(*xs: Tensor) -> Any:
        made = _call(f"cpu_user_operation({op_name!r})", forward, xs, results)

        def gradient(*upstream: Tensor) -> list[Tensor | None]:
            kinds = [(xs[i].dtype.name, tuple(xs[i].shape)) for i in chosen]
            label = f"{op_name}_grad"
            back = library.function(label, kinds, texts[1], f"{name}_grad")
            values = [*upstream, *made, *xs]
            found = _call(f"cpu_user_operation({label!r})", back, values, kinds)
            slopes: list[Tensor | None] = [None] * len(xs)
            for i, slope in zip(chosen, found, strict=True):
                slopes[i] = slope
            return slopes

        return made, gradient

    if not operands or not results:
        return _call(f"cpu_user_operation({op_name!r})", forward, operands, results)
    found: list[Tensor] = called(*operands)
    return found


def precompiled_user_op(
    inputs: Sequence[Any],
    library_path: str,
    gp_path: str = "",
    outs: dict[str, Any] | None = None,
    name: str = "UserOp",
    op_name: str = "Build",
    separate_gradients: bool = False,
    inputs_with_gradients: Sequence[int] | None = None,
    attributes: str | None = None,
    gradient_attributes: str | None = None,
) -> NoReturn:
    """Refuse an op that is made of Poplar's graphs and codelets.

    Its library builds a program of the hardware with Poplar, which is not here.

    Raises:
        NotImplementedError: Always.

    Example:
        >>> try:
        ...     precompiled_user_op([1.0], "libop.so")
        ... except NotImplementedError as error:
        ...     print("cpu_user_operation" in str(error))
        True
    """
    del inputs, library_path, gp_path, outs, name, op_name, separate_gradients
    del inputs_with_gradients, attributes, gradient_attributes
    refuse_call(f"{__name__}.precompiled_user_op")


def codelet_expression_op(
    vertex_expression: Callable[..., VertexExpression], *args: Any
) -> Tensor:
    """Compute an element-wise expression.

    Args:
        vertex_expression: Gets a placeholder for each tensor and combines them by
            ``+``, ``-``, ``*``, ``abs`` and numbers.
        *args: The tensors, which are broadcast.

    Returns:
        A tensor of the dtype of the first one. Its gradient is that of the expression;
        on the hardware it has none.

    Raises:
        TypeError: It is not a function, or does not return an expression.
        ValueError: There are no tensors.

    Source: ``ipu.custom_ops.codelet_expression_op`` of SDK 1.0 to 3.4.

    Example:
        >>> found = codelet_expression_op(lambda x, y: x * x + y, [1.0, 2.0], 3.0)
        >>> found.numpy().tolist()
        [4.0, 7.0]
    """
    if not callable(vertex_expression):
        raise TypeError(
            "`vertex_expression` of codelet_expression_op must be a function. "
            f"Received: {vertex_expression!r}."
        )
    if not args:
        raise ValueError("codelet_expression_op needs at least one tensor.")
    first = tf.convert_to_tensor(args[0])
    values = [first, *(tf.convert_to_tensor(a, first.dtype) for a in args[1:])]
    places = [PlaceholderVertexExpr(f"in{i}", x.dtype) for i, x in enumerate(values)]
    expression = vertex_expression(*places)
    if not isinstance(expression, VertexExpression):
        raise TypeError(
            "`vertex_expression` of codelet_expression_op must combine its arguments "
            f"by +, -, *, abs and numbers. It gave: {expression!r}."
        )
    found = expression.evaluate(
        {p.name: x for p, x in zip(places, values, strict=True)}
    )
    return tf.convert_to_tensor(found, first.dtype)


export(__name__)
