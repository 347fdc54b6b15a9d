# SPDX-License-Identifier: MIT
"""How functions of ``ipu.tf`` meet values that are not tensors.

A public function that is decorated with :func:`op` hands the whole call over where one
of its arguments, or an item of a list among them, is of a registered type. So
``tf.reduce_mean(layer_output, axis=1)`` becomes a layer of a Keras model, and no
function has to know of it. Where a graph of TensorFlow 1 is put together, the graph
takes the call. This is the only such place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from ipu._core import Tensor
from ipu._device.thread_state import here
from ipu._text.tracebacks import drop_own_frames, explain_arguments
from ipu.tf._graph import mode

F = TypeVar("F", bound=Callable[..., Any])
Handler = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

_handlers: dict[type, Handler] = {}


def register(kind: type, handler: Handler) -> None:
    """Let ``handler(function, args, kwargs)`` serve calls with values of type ``kind``.

    Args:
        kind: The type; values of its subclasses count as well.
        handler: Called in place of the function, with the undecorated function.
    """
    _handlers[kind] = handler


def _find(values: Any) -> Handler | None:
    for value in values:
        if isinstance(value, (list, tuple)):
            found = _find(value)
            if found is not None:
                return found
        for kind, handler in _handlers.items():
            if isinstance(value, kind):
                return handler
    return None


def handler_of(args: Any, kwargs: dict[str, Any]) -> Handler | None:
    """Return what serves a call with such arguments, or None."""
    return _find(args) or (_find(kwargs.values()) if kwargs else None)


def op(function: F) -> F:
    """Make ``function`` one of the functions that registered types can take over."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if _handlers:
                handler = handler_of(args, kwargs)
                if handler is not None:
                    return handler(function, args, kwargs)
            graph = mode.building()
            if graph is not None:
                return graph.record(function, args, kwargs)
            return function(*args, **kwargs)
        except BaseException as error:
            if type(error) is TypeError:
                explain_arguments(error, function, args)
            drop_own_frames(error)
            raise

    return cast(F, call)


def composite(function: F) -> F:
    """Make ``function``, which is made of ops, one that registered types can take over;
    a graph of TensorFlow 1 keeps each of its ops."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        handler = handler_of(args, kwargs) if _handlers else None
        if handler is not None:
            return handler(function, args, kwargs)
        return function(*args, **kwargs)

    return cast(F, call)


def graph_op(function: F) -> F:
    """Make ``function`` one that graphs of TensorFlow 1 keep, and no type takes over.

    For what makes tensors of Python's values: lists of them are not searched.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        graph = mode.building()
        if graph is not None:
            return graph.record(function, args, kwargs)
        made = function(*args, **kwargs)
        if here.constants is not None:
            here.constants.append(made)
        return made

    return cast(F, call)


class Unary(Protocol):
    """An op of one tensor."""

    def __call__(self, x: Any, name: str | None = None) -> Tensor: ...


class Binary(Protocol):
    """An op of two tensors, which are broadcast."""

    def __call__(self, x: Any, y: Any, name: str | None = None) -> Tensor: ...


class Reduction(Protocol):
    """An op over some of the axes of a tensor."""

    def __call__(
        self,
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool = False,
        name: str = "",
    ) -> Tensor: ...
