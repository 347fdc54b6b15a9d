# SPDX-License-Identifier: MIT
"""Variables of a graph: scopes, collections, initialisation, assignments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu.tf._graph import mode
from ipu.tf._graph.graph import Graph
from ipu.tf._graph.scopes import get_variable_scope


def _graph() -> Graph:
    return mode.current() or mode.default()


def global_variables(scope: str | None = None) -> list[Any]:
    """Return the variables of the default graph.

    Args:
        scope: The prefix of their names; None: all.

    Example:
        >>> with v1.Graph().as_default():
        ...     w = v1.get_variable("w", [3], trainable=False)
        ...     [v.name for v in v1.global_variables()], v1.trainable_variables()
        (['w:0'], [])
    """
    return _graph().get_collection("variables", scope)


def local_variables(scope: str | None = None) -> list[Any]:
    """Return the variables of the default graph that are not to be saved.

    Args:
        scope: The prefix of their names; None: all.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.local_variables()
        []
    """
    return _graph().get_collection("local_variables", scope)


def model_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that a program has put into that list.

    Args:
        scope: The prefix of their names; None: all.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.model_variables()
        []
    """
    return _graph().get_collection("model_variables", scope)


def moving_average_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that an ``ExponentialMovingAverage`` follows.

    Args:
        scope: The prefix of their names; None: all.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.moving_average_variables()
        []
    """
    return _graph().get_collection("moving_average_variables", scope)


def trainable_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that optimizers take by default.

    Args:
        scope: The prefix of their names; None: all.

    Example:
        >>> with v1.Graph().as_default():
        ...     w = v1.get_variable("w", [3])
        ...     [v.name for v in v1.trainable_variables()]
        ['w:0']
    """
    return _graph().get_collection("trainable_variables", scope)


def variables_initializer(var_list: Sequence[Any], name: str = "init") -> Any:
    """Return an operation that gives variables their first values.

    Args:
        var_list: The variables.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        ...     session.run(v1.variables_initializer([w]))
        ...     print(session.run(w))
        0.0
    """
    graph = _graph()
    with graph.as_default():
        return graph.group([v.initializer for v in var_list], name)


def global_variables_initializer() -> Any:
    """Return an operation that gives the variables of the default graph their first
    values.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     session.run(v1.global_variables_initializer())
        ...     print(session.run(w))
        1.0
    """
    return variables_initializer(global_variables())


initialize_all_variables = global_variables_initializer


def local_variables_initializer() -> Any:
    """Return an operation that gives local variables their first values.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.local_variables_initializer().type
        'NoOp'
    """
    return variables_initializer(local_variables())


def tables_initializer(name: str = "init_all_tables") -> Any:
    """Return an operation that does nothing: tables have their entries from the start.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.tables_initializer().type
        'NoOp'
    """
    return _graph().group([], name)


def is_variable_initialized(variable: Any) -> Any:
    """Return whether a variable has a value, as a tensor.

    Args:
        variable: The variable.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [3])
        ...     print(session.run(v1.is_variable_initialized(w)))
        False
    """
    return variable.is_initialized()


def report_uninitialized_variables(
    var_list: Sequence[Any] | None = None, name: str = "report_uninitialized_variables"
) -> Any:
    """Return the names of variables without a value, as a tensor of strings.

    Args:
        var_list: The variables; None: all of the default graph.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [3])
        ...     print(session.run(v1.report_uninitialized_variables()))
        [b'w']
    """
    from ipu.tf._string_ops.tensors import StringTensor
    from ipu.tf.tensor_spec import TensorSpec

    variables = global_variables() if var_list is None else list(var_list)

    def names() -> Any:
        found = [v.name.split(":")[0] for v in variables if not v.initialized]
        return StringTensor(found)

    spec = TensorSpec([None], "string")
    return _graph().python("report_uninitialized_variables", names, spec, name=name)


def enable_resource_variables() -> None:
    """Make new variables resources by default.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.enable_resource_variables()
        ...     v1.get_variable_scope().use_resource
        True
    """
    if mode.current() is not None:
        get_variable_scope().set_use_resource(True)


def disable_resource_variables() -> None:
    """Make new variables of graphs no resources by default.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.disable_resource_variables()
        ...     v1.get_variable_scope().use_resource
        False
    """
    if mode.current() is not None:
        get_variable_scope().set_use_resource(False)


def resource_variables_enabled() -> bool:
    """Return whether new variables are resources by default.

    Example:
        >>> v1.resource_variables_enabled()
        True
    """
    if mode.current() is None:
        return True
    said = get_variable_scope().use_resource
    return not mode.is_default() if said is None else bool(said)


def _variable(ref: Any) -> Any:
    """Return a variable, also that of a tensor got by the variable's name."""
    graph = _graph()
    for variable in () if hasattr(ref, "assign") else graph.by_variable_name.values():
        if graph.store.reads.get(id(variable)) is ref:
            return variable
    return ref


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
    return _variable(ref).assign(value)


def assign_add(
    ref: Any, value: Any, use_locking: Any = None, name: str | None = None
) -> Any:
    """Add to a variable.

    Args:
        ref: The variable.
        value: The tensor that is added.
        use_locking: Accepted and not used.

    Returns:
        As :func:`assign`.

    Example:
        >>> float(assign_add(tf.Variable(1.0), 2.0))
        3.0
    """
    return _variable(ref).assign_add(value)


def assign_sub(
    ref: Any, value: Any, use_locking: Any = None, name: str | None = None
) -> Any:
    """Subtract from a variable.

    Args:
        ref: The variable.
        value: The tensor that is subtracted.
        use_locking: Accepted and not used.

    Returns:
        As :func:`assign`.

    Example:
        >>> float(assign_sub(tf.Variable(1.0), 2.0))
        -1.0
    """
    return _variable(ref).assign_sub(value)
