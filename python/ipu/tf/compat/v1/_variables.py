# SPDX-License-Identifier: MIT
"""Variables of a graph: scopes, collections, initialisation, assignments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ipu.tf._graph import mode
from ipu.tf._graph.graph import Graph
from ipu.tf._graph.scopes import VariableScope


def _graph() -> Graph:
    return mode.current() or mode.default()


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Any:
    """Return the variable of a name in the current scope, made where it is not there.

    Args:
        name: Its name; that of the scope comes in front.
        shape: Its shape.
        dtype: Its dtype; None: the scope's, float32.
        initializer: An initializer, a function ``(shape, dtype)``, a tensor or an array
            (without ``shape``); None: the scope's, else Glorot's uniform one for floats
            and zeros for others.
        regularizer: A function of the variable whose value is added to the losses.
        trainable: Whether optimizers take it by default; None: yes.
        collections: The lists of the graph it is put in; None: that of the global ones.
        caching_device, partitioner, validate_shape: Accepted and not used.
        use_resource: Whether it is a resource; None: what the scope says. On an IPU it
            has to be one; in ``ipu.scopes.ipu_scope`` all are.
        custom_getter: Called in place of this function, with it as first argument.
        constraint: Applied to its value after an update.
        synchronization, aggregation: Accepted and not used.

    Returns:
        The variable.

    Raises:
        ValueError: It is there already and the scope does not reuse variables, or the
            other way round; or its shape is not known.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     with v1.variable_scope("layer", use_resource=True):
        ...         w = v1.get_variable("w", [2], initializer=v1.ones_initializer())
        ...     session.run(v1.global_variables_initializer())
        ...     print(w.name, session.run(w))
        layer/w:0 [1. 1.]
    """
    store = _graph().store
    options = {
        "trainable": trainable,
        "collections": collections,
        "caching_device": caching_device,
        "validate_shape": validate_shape,
        "use_resource": use_resource,
    }
    if constraint is not None:
        options["constraint"] = constraint
    getter = custom_getter or store.scope.custom_getter
    if getter is None:
        return store.get(name, shape, dtype, initializer, regularizer, **options)
    scope = store.scope
    prefix = f"{scope.name}/" if scope.name else ""

    def plain(name: str, *args: Any, **kwargs: Any) -> Any:
        known = ("shape", "dtype", "initializer", "regularizer")
        given = dict(zip(known, args, strict=False)) | kwargs
        wanted = {key: given.pop(key, None) for key in known}
        kept = {key: value for key, value in given.items() if key in options}
        return store.get(name.removeprefix(prefix), **wanted, **kept)

    return getter(
        plain,
        prefix + name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        **options,
    )


@contextmanager
def variable_scope(
    name_or_scope: Any = None,
    default_name: str | None = None,
    values: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[VariableScope]:
    """A context in which the names of variables begin with that of the scope.

    Args:
        name_or_scope: A name below the scope around, or a scope to go back to; None:
            ``default_name``, made unique.
        default_name: A name for that.
        values: Accepted and not used.
        initializer: Gives variables their first values by default.
        regularizer: The default of ``get_variable``.
        caching_device, partitioner: Accepted and not used.
        custom_getter: Called in place of ``get_variable``.
        reuse: True: variables have to be there already; ``tf.AUTO_REUSE``: they may;
            None: as around.
        dtype: The default of ``get_variable``.
        use_resource: Whether variables are resources; None: as around.
        constraint: The default of ``get_variable``.
        auxiliary_name_scope: Whether the names of operations begin with it as well.

    Returns:
        A context manager that gives the scope.

    Raises:
        ValueError: Neither name is given.

    Example:
        >>> with v1.Graph().as_default():
        ...     with v1.variable_scope("a"):
        ...         with v1.variable_scope("b"):
        ...             v1.get_variable("w", [3]).name
        'a/b/w:0'
    """
    store = _graph().store
    around = store.scope
    if isinstance(name_or_scope, VariableScope):
        scope = name_or_scope.copy()
        full = scope.name
        name: str | None = full.rpartition("/")[2] or None
    else:
        name = name_or_scope
        if name is None:
            if default_name is None:
                raise ValueError(
                    "If default_name is None then name_or_scope is required"
                )
            name = store.unique_scope(default_name)
        scope = around.copy()
        full = f"{around.name}/{name}" if around.name else name
        scope.name = full
    scope.reuse = around.reuse if reuse is None and not scope.reuse else scope.reuse
    if reuse is not None:
        scope.reuse = reuse or around.reuse
    for key, value in (
        ("initializer", initializer),
        ("regularizer", regularizer),
        ("custom_getter", custom_getter),
        ("use_resource", use_resource),
        ("constraint", constraint),
    ):
        if value is not None:
            setattr(scope, key, value)
    if dtype is not None:
        scope.set_dtype(dtype)
    store.note_opened(full)
    with store.opened(scope, name if auxiliary_name_scope else None) as opened:
        yield opened


def get_variable_scope() -> VariableScope:
    """Return the variable scope in force.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.get_variable_scope().set_use_resource(True)
        ...     v1.get_variable_scope().use_resource
        True
    """
    return _graph().store.scope


def global_variables(scope: str | None = None) -> list[Any]:
    """Return the variables of the default graph.

    Args:
        scope: What their names begin with; None: all.

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
        scope: What their names begin with; None: all.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.local_variables()
        []
    """
    return _graph().get_collection("local_variables", scope)


def model_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that a program has put into that list.

    Args:
        scope: What their names begin with; None: all.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.model_variables()
        []
    """
    return _graph().get_collection("model_variables", scope)


def moving_average_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that an ``ExponentialMovingAverage`` follows.

    Args:
        scope: What their names begin with; None: all.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.moving_average_variables()
        []
    """
    return _graph().get_collection("moving_average_variables", scope)


def trainable_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that optimizers take by default.

    Args:
        scope: What their names begin with; None: all.

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
    """Return whether new variables are resources by default.

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
