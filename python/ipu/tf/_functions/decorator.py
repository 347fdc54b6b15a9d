# SPDX-License-Identifier: MIT
"""``tf.function``, the decorator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

from ipu.tf._functions.function import DeviceFunction

P = ParamSpec("P")
R = TypeVar("R")


@overload
def function(
    func: Callable[P, R],
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
    name: str | None = None,
) -> DeviceFunction[P, R]: ...


@overload
def function(
    func: None = None,
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
    name: str | None = None,
) -> Callable[[Callable[P, R]], DeviceFunction[P, R]]: ...


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
    name: str | None = None,
) -> Any:
    """Make a function run as one program; a decorator, with or without arguments.

    Args:
        func: The function; None where the decorator has arguments.
        input_signature: A ``TensorSpec``, or a nest of them, for each argument. Others
            are then errors; a size of None fits any.
        autograph: Convert Python control flow on tensors to control flow of the
            program.
        jit_compile: Accepted: a function is always compiled as a whole.
        reduce_retracing: Accepted, without effect: shapes are part of a program.
        experimental_implements, experimental_autograph_options,
            experimental_attributes: Accepted and not used.
        experimental_relax_shapes: As ``reduce_retracing``.
        experimental_compile: The old name of ``jit_compile``.
        experimental_follow_type_hints: Accepted and not used.
        name: For errors and ``explain()``.

    Returns:
        A ``DeviceFunction``, or a decorator that gives one.

    Raises:
        TypeError: ``func`` is not callable, or ``input_signature`` is not of
            ``TensorSpec``.

    Example:
        >>> @tf.function(jit_compile=True)
        ... def total(n):
        ...     result = 0
        ...     for i in tf.range(n):
        ...         result += i
        ...     return result
    """

    def decorate(python_function: Callable[..., Any]) -> DeviceFunction[..., Any]:
        inner = getattr(python_function, "python_function", python_function)
        return DeviceFunction(
            inner, autograph=autograph, input_signature=input_signature, name=name
        )

    return decorate if func is None else decorate(func)
