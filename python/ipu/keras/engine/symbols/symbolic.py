# SPDX-License-Identifier: MIT
"""Plain functions on symbolic values: they become layers of the model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ipu.keras.engine.symbols.keras_tensor import contains_symbolic

F = TypeVar("F", bound=Callable[..., Any])


def symbolic(function: F) -> F:
    """Let a function of tensors also take ``KerasTensor``s.

    Args:
        function: A function of tensors, usable inside traces.

    Returns:
        The function. Called with a symbolic value it adds a layer that calls it.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if contains_symbolic(args, kwargs):
            from ipu.keras.layers.op_lambda import OpLambda

            return OpLambda(function, function.__name__)(*args, **kwargs)
        return function(*args, **kwargs)

    return cast(F, wrapper)
