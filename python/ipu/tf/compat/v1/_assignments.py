# SPDX-License-Identifier: MIT
"""Whether variables are resources, and assignments as functions."""

from __future__ import annotations

from typing import Any

from ipu.tf._graph import mode
from ipu.tf._graph.scopes import VariableScope


def _scope() -> VariableScope:
    graph = mode.current() or mode.default()
    return graph.store.scope


def enable_resource_variables() -> None:
    """Make new variables resources by default.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.enable_resource_variables()
        ...     v1.get_variable_scope().use_resource
        True
    """
    if mode.current() is not None:
        _scope().set_use_resource(True)


def disable_resource_variables() -> None:
    """Make new variables of graphs no resources by default.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.disable_resource_variables()
        ...     v1.get_variable_scope().use_resource
        False
    """
    if mode.current() is not None:
        _scope().set_use_resource(False)


def resource_variables_enabled() -> bool:
    """Whether new variables are resources by default.

    Example:
        >>> v1.resource_variables_enabled()
        True
    """
    if mode.current() is None:
        return True
    said = _scope().use_resource
    return not mode.is_default() if said is None else bool(said)


def assign(
    ref: Any,
    value: Any,
    validate_shape: Any = None,
    use_locking: Any = None,
    name: str | None = None,
) -> Any:
    """Set a variable.

    Args:
        ref: The variable.
        value: Its new value.
        validate_shape, use_locking: Accepted and not used.

    Returns:
        In graph mode a tensor: the new value. Else the variable.

    Example:
        >>> float(assign(tf.Variable(1.0), 2.0))
        2.0
    """
    return ref.assign(value)


def assign_add(
    ref: Any, value: Any, use_locking: Any = None, name: str | None = None
) -> Any:
    """Add to a variable.

    Args:
        ref: The variable.
        value: What is added.
        use_locking: Accepted and not used.

    Returns:
        As :func:`assign`.

    Example:
        >>> float(assign_add(tf.Variable(1.0), 2.0))
        3.0
    """
    return ref.assign_add(value)


def assign_sub(
    ref: Any, value: Any, use_locking: Any = None, name: str | None = None
) -> Any:
    """Subtract from a variable.

    Args:
        ref: The variable.
        value: What is subtracted.
        use_locking: Accepted and not used.

    Returns:
        As :func:`assign`.

    Example:
        >>> float(assign_sub(tf.Variable(1.0), 2.0))
        -1.0
    """
    return ref.assign_sub(value)
