# SPDX-License-Identifier: MIT
"""Methods of objects that they do not keep alive."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any


class WeakMethod:
    """A method of an object that it does not keep alive."""

    def __init__(self, method: Callable[..., Any], instance: Any) -> None:
        self._method = method
        self._instance = weakref.ref(instance)
        self._converted: Callable[..., Any] | None = None
        functools.update_wrapper(self, method, updated=())
        parameters = list(inspect.signature(method).parameters.values())[1:]
        self.__signature__ = inspect.Signature(parameters)
        self.__code__ = getattr(method, "__code__", None)

    def __ipu_convert__(self, convert: Callable[[Any], Any]) -> WeakMethod:
        """Return the same method of the same object, converted."""
        made = WeakMethod(self._method, self._alive())
        made._converted = convert(self._method)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        method = self._converted or self._method
        return method.__get__(self._alive())(*args, **kwargs)

    def _alive(self) -> Any:
        instance = self._instance()
        if instance is None:
            name = getattr(self._method, "__name__", "method")
            raise ReferenceError(
                f"The object of the tf.function {name!r} is gone: a tf.function does "
                "not keep it. Give it a name before you call its method: "
                f"model = Model(); model.{name}(...)."
            )
        return instance
