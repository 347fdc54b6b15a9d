# SPDX-License-Identifier: MIT
"""``tf.autograph``: Python control flow as control flow of the program.

In a ``tf.function`` the user's code is rewritten so that ``if``, ``while``, ``for``,
``and``, ``or``, ``not`` and comparisons on tensors become part of the program. On
Python values they stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu._text.exports import export
from ipu.tf.autograph import experimental
from ipu.tf.autograph._calls import convert_call

__all__ = [
    "convert_call",
    "experimental",
    "set_verbosity",
    "tf_convert",
    "to_code",
    "to_graph",
    "trace",
]


def to_graph(
    entity: Callable[..., Any],
    recursive: bool = True,
    experimental_optional_features: Any = None,
) -> Callable[..., Any]:
    """Return the converted function, for use inside a function that is being traced.

    Args:
        entity: A Python function, or a ``tf.function``.
        recursive: Accepted and not used: what it calls is converted too.
        experimental_optional_features: Accepted and not used.

    Raises:
        SourceError: Its source cannot be had.

    Example:
        >>> def f(x):
        ...     return x
        >>> callable(tf.autograph.to_graph(f))  # doctest: +SKIP
        True
    """
    from ipu.tf.autograph._convert import convert

    function: Any = getattr(entity, "python_function", entity)
    return convert(function)


def to_code(
    entity: Callable[..., Any],
    recursive: bool = True,
    experimental_optional_features: Any = None,
) -> str:
    """Return the converted source of a function, to read.

    Example:
        >>> from statistics import mean
        >>> "def mean" in tf.autograph.to_code(mean)
        True
    """
    from ipu.tf.autograph._convert import converted_source

    return converted_source(entity)


def tf_convert(function: Callable[..., Any], ctx: Any = None) -> Callable[..., Any]:
    """Return ``function`` as a traced function calls it: converted where it is the
    user's.

    Example:
        >>> def half(x):
        ...     if x > 1:
        ...         x = x / 2
        ...     return x
        ...
        >>> float(tf.autograph.tf_convert(half)(tf.constant(4.0)))
        2.0
    """
    made: Callable[..., Any] = convert_call(function)
    return made


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Accept the call, without effect: :func:`to_code` shows what the conversion did.

    Example:
        >>> tf.autograph.set_verbosity(0)
    """


def trace(*args: Any) -> None:
    """Print values while the function is traced.

    Example:
        >>> tf.autograph.trace("x is", 5)
        x is 5
    """
    print(*args)


export(__name__)
