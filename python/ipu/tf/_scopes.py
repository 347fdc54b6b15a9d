# SPDX-License-Identifier: MIT
"""Scopes and small things that programs written for graphs have in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu.tf._convert import convert_to_tensor
from ipu.tf._host_only import HostOnlyError

__all__ = [
    "control_dependencies",
    "executing_eagerly",
    "group",
    "is_tensor",
    "name_scope",
    "no_op",
    "numpy_function",
    "py_function",
    "tuple_of",
]


class name_scope:
    """``with tf.name_scope(name) as scope:``; names change no value.

    Args:
        name: The scope's name.

    Raises:
        ValueError: It is not a string.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise ValueError("name for name_scope must be a string.")
        self._name = name

    @property
    def name(self) -> str:
        """The name as it was given."""
        return self._name

    def __enter__(self) -> str:
        return self._name if self._name.endswith("/") else f"{self._name}/"

    def __exit__(self, *error: object) -> None:
        pass


@contextmanager
def control_dependencies(control_inputs: Any) -> Iterator[None]:
    """Effects keep program order in a function anyhow; nothing is to be done.

    Args:
        control_inputs: Tensors, or functions to call first; None clears nothing.
    """
    for item in control_inputs or ():
        if callable(item) and not isinstance(item, Tensor):
            item()
    yield


def no_op(name: str | None = None) -> None:
    """An operation that does nothing."""


def group(*inputs: Any, **options: Any) -> None:
    """One operation for several; their effects are in program order already."""


def tuple_of(
    tensors: Sequence[Any], control_inputs: Any = None, name: str | None = None
) -> list[Any]:
    """The tensors as a list: ``tf.tuple``."""
    return [None if t is None else convert_to_tensor(t) for t in tensors]


def is_tensor(x: Any) -> bool:
    """Whether ``x`` is a tensor or a variable.

    Example:
        >>> from ipu import tf
        >>> tf.is_tensor(tf.ones(2)), tf.is_tensor([1.0, 2.0])
        (True, False)
    """
    return isinstance(x, Tensor) or hasattr(x, "__ipu_tensor__")


def executing_eagerly() -> bool:
    """Whether ops are computed at once: no function is being traced."""
    return _core.open_trace() is None


def _no_python(name: str) -> None:
    if _core.open_trace() is not None:
        raise HostOnlyError(
            f"{name} in a function that runs on the device would have to call Python "
            "in the middle of the program, which is not there. Compute it before the "
            "function is called, in a Dataset.from_generator, or enqueue the value to "
            "an outfeed and go on in Python."
        )


def _typed(values: Any, types: Any) -> Any:
    if values is None:
        return None
    if isinstance(types, (list, tuple)):
        given = list(values) if isinstance(values, (list, tuple)) else [values]
        return [convert_to_tensor(v, t) for v, t in zip(given, types, strict=True)]
    return convert_to_tensor(values, types)


def py_function(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, name: str | None = None
) -> Any:
    """Call a Python function with eager tensors; outside of traced functions alone.

    Args:
        func: The function.
        inp: Its arguments.
        Tout: The dtype of its result, or a list of them.
        name: Accepted and not used.

    Raises:
        NotImplementedError: A function is being traced.
    """
    _no_python("tf.py_function")
    return _typed(func(*[convert_to_tensor(x) for x in inp]), Tout)


def numpy_function(
    func: Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """As :func:`py_function`, with NumPy arrays."""
    _no_python("tf.numpy_function")
    arrays = [convert_to_tensor(x).numpy() for x in inp]
    return _typed(func(*arrays), Tout)
