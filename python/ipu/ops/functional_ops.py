# SPDX-License-Identifier: MIT
"""Functions that the hardware keeps once and calls often: ``ipu.functional_ops``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ipu import _core, tf
from ipu._text.exports import export
from ipu.tf import nest

__all__ = ["function", "outlined_function"]


def outlined_function(
    func: Callable[..., Any] | None = None,
    unique_sharding: bool = False,
    keep_input_layouts: bool | None = None,
    name: str | None = None,
) -> Any:
    """Mark a function as one that programs call, in place of repeating its code.

    On hardware this saves code memory. Results and gradients are those of the function
    itself, and so is everything here.

    Args:
        func: A function of tensors, given by position; or None, to be used as
            ``@outlined_function()``.
        unique_sharding, keep_input_layouts: Accepted and not used.

    Returns:
        The function, which converts its arguments to tensors; a decorator where
        ``func`` is None.

    Raises:
        TypeError: ``func`` cannot be called; or, at a call, an argument given by name.
        ValueError: At a call: ``func`` uses a tensor of the program around it.

    Example:
        >>> @outlined_function
        ... def twice(x):
        ...     return x + x
        >>> float(twice(2.0))
        4.0
    """
    if func is None:
        return outlined_function
    if not callable(func):
        raise TypeError(
            "outlined_function takes a function of tensors. Received: "
            f"{func!r}. Write @outlined_function, or outlined_function(func)."
        )

    @functools.wraps(func)
    def outlined(*args: Any) -> Any:
        values = [nest.map_structure(tf.convert_to_tensor, value) for value in args]
        trace = _core.open_trace()
        if trace is None:
            return func(*values)
        mark = trace.mark
        results = func(*values)
        allowed = [t for t in nest.flatten(values) if t.is_symbolic]
        found = trace.captures(mark, allowed)
        if found is not None:
            raise ValueError(
                f"Trying to capture the tensor {found} which is not a resource. An "
                "outlined function may use variables and what it is called with: pass "
                "the tensor as an argument, and make constants inside."
            )
        return results

    return outlined


function = outlined_function


export(__name__)
