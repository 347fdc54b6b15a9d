# SPDX-License-Identifier: MIT
"""Variable scopes: ``tf.variable_scope`` and ``tf.get_variable``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

from ipu._core import Tensor, open_trace
from ipu.tf._functions.tracing import current_build, in_trace, init_scope
from ipu.tf._graph import frame, mode
from ipu.tf._graph.operation import GraphTensor
from ipu.tf._graph.variables import GraphVariable, make_variable
from ipu.tf.dtypes import as_dtype
from ipu.tf.tensor_shape import TensorShape
from ipu.tf.variable import Variable

if TYPE_CHECKING:
    from ipu.tf._graph.graph import Graph


class _Reuse(Enum):
    """Whether variables of a scope are shared: those that are there already."""

    AUTO_REUSE = 1


AUTO_REUSE = _Reuse.AUTO_REUSE


class VariableScope:
    """Defaults of ``tf.get_variable`` inside of a ``with`` block.

    Attributes:
        name: The prefix of variables\' names.
        reuse: Whether variables have to be there already; ``AUTO_REUSE``: they may.
        initializer: How variables get their first values, None: by their dtype.
        regularizer: A function of a variable whose value is added to the losses.
        dtype: Of variables.
        use_resource: Whether variables are resources; None: not said.
        custom_getter: Called in place of ``get_variable``, with it as the first
            argument.
        constraint: Applied to variables after updates.

    Example:
        >>> with v1.Graph().as_default():
        ...     with v1.variable_scope("outer", use_resource=True) as scope:
        ...         print(scope.name, scope.reuse, scope.use_resource)
        outer False True
    """

    def __init__(
        self,
        reuse: Any = False,
        name: str = "",
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        name_scope: str = "",
        dtype: Any = "float32",
        use_resource: bool | None = None,
        constraint: Any = None,
    ) -> None:
        self.name = name
        self.reuse = reuse
        self.initializer = initializer
        self.regularizer = regularizer
        self.custom_getter = custom_getter
        self.original_name_scope = name_scope
        self.dtype = as_dtype(dtype)
        self.use_resource = use_resource
        self.constraint = constraint

    def copy(self) -> VariableScope:
        """Return a scope that says the same."""
        made = VariableScope()
        made.__dict__.update(self.__dict__)
        return made

    def reuse_variables(self) -> None:
        """Take variables that are there from now on."""
        self.reuse = True

    def set_use_resource(self, use_resource: bool) -> None:
        """Choose whether new variables are resources."""
        self.use_resource = bool(use_resource)

    def set_initializer(self, initializer: Any) -> None:
        """Choose how new variables get their first values."""
        self.initializer = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        """Choose how new variables are penalised."""
        self.regularizer = regularizer

    def set_dtype(self, dtype: Any) -> None:
        """Choose the dtype of new variables."""
        self.dtype = as_dtype(dtype)

    def set_custom_getter(self, custom_getter: Any) -> None:
        """Choose what is called in place of ``get_variable``."""
        self.custom_getter = custom_getter

    def get_collection(self, name: str) -> list[Any]:
        """Return the members of a collection of the current graph in this scope."""
        graph = mode.current()
        scope = f"{self.name}/" if self.name else None
        return [] if graph is None else graph.get_collection(name, scope)

    def global_variables(self) -> list[Any]:
        """Return the variables of this scope."""
        return self.get_collection("variables")

    def trainable_variables(self) -> list[Any]:
        """Return the trainable variables of this scope."""
        return self.get_collection("trainable_variables")


class VariableStore:
    """The variables of a graph by name, and the scope in force."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._variables: dict[str, Any] = {}
        self._penalised: set[str] = set()  # that need not be asked again
        self.reads: dict[int, Any] = {}  # of variables that are fetched, by id
        self.scope = VariableScope()

    @contextmanager
    def opened(self, scope: VariableScope, name_scope: str | None) -> Iterator[Any]:
        """Open a context in which a scope is in force.

        Args:
            name_scope: A further prefix of operations' names; None: none.
        """
        before = self.scope
        names_before = self._graph.names.scope
        self.scope = scope
        if name_scope is not None:
            with self._graph.name_scope(name_scope) as opened:
                scope.original_name_scope = opened
                try:
                    yield scope
                finally:
                    self.scope = before
            return
        try:
            yield scope
        finally:
            self.scope = before
            self._graph.names.scope = names_before

    def unique_scope(self, name: str) -> str:
        """Return a name of a scope that was not opened before in the one in force."""
        prefix = f"{self.scope.name}/" if self.scope.name else ""
        names = self._graph.names
        if not names.opened(prefix + name):
            return name
        count = 1
        while names.opened(f"{prefix}{name}_{count}"):
            count += 1
        return f"{name}_{count}"

    @contextmanager
    def names_below(self, full: str, goes_back: bool) -> Iterator[None]:
        """Open a context in which a scope is open, after which default names below it
        begin anew, or go on from before where the program went back to the scope."""
        names = self._graph.names
        names.set_opened({full: names.opened(full) + 1})
        before = names.all_opened() if goes_back else {}
        try:
            yield
        finally:
            now = names.all_opened()
            changed = [k for k in now if goes_back or k.startswith(f"{full}/")]
            names.set_opened({key: before.get(key, 0) for key in changed})

    def get(
        self,
        name: str,
        shape: Any,
        dtype: Any,
        initializer: Any,
        regularizer: Any,
        **options: Any,
    ) -> Any:
        """Return the variable of a name, made where it is not there; see
        ``get_variable``."""
        scope = self.scope
        full = f"{scope.name}/{name}" if scope.name else name
        reuse = options.pop("reuse", None)
        reuse = scope.reuse if reuse is None else reuse
        initializer = scope.initializer if initializer is None else initializer
        regularizer = scope.regularizer if regularizer is None else regularizer
        options.setdefault("constraint", scope.constraint)
        kind = scope.dtype if dtype is None else as_dtype(dtype)

        def make() -> Any:
            return self._find_or_make(
                full, shape, kind, initializer, regularizer, reuse, options
            )

        key = ("get_variable", full)
        variable = make_variable(key, make)
        made = frame.creations()
        is_new = made is None or made.is_new(key, variable)
        if regularizer is not None and is_new and full not in self._penalised:
            self._penalise(full, variable, regularizer)
        return variable

    def _penalise(self, full: str, variable: Any, regularizer: Any) -> None:
        """Put a variable's penalty into the collection: once, or, in a function that is
        traced again and again, each time."""
        if not mode.has_graph():
            return
        if open_trace() is None:
            self._penalised.add(full)
        penalty = regularizer(variable)
        if penalty is not None:
            self._graph.add_to_collection("regularization_losses", penalty)

    def _find_or_make(
        self,
        full: str,
        shape: Any,
        kind: Any,
        initializer: Any,
        regularizer: Any,
        reuse: Any,
        options: dict[str, Any],
    ) -> Any:
        found = self._variables.get(full)
        if not mode.has_graph():
            if in_trace():  # a function that is traced once more finds what it made
                reuse = reuse or (found is not None and not current_build().may_create)
            elif not reuse:
                found = None
        if found is not None:
            self._check_shared(found, full, shape, kind, reuse)
            return found
        if reuse is True:
            raise ValueError(
                f"Variable {full} does not exist, or was not created with "
                "tf.get_variable(). Did you mean to set reuse=tf.AUTO_REUSE in "
                "VarScope?"
            )
        variable = self._make(full, shape, kind, initializer, options)
        self._variables[full] = variable
        made = frame.creations()
        if made is not None:
            made.own.add(id(variable))
        if regularizer is None:  # what is shared later is not penalised
            self._penalised.add(full)
        return variable

    def _check_shared(
        self, found: Any, full: str, shape: Any, kind: Any, reuse: Any
    ) -> None:
        if not reuse:
            raise ValueError(
                f"Variable {full} already exists, disallowed. Did you mean to set "
                "reuse=True or reuse=tf.AUTO_REUSE in VarScope?"
            )
        if shape is not None and not TensorShape(shape).is_compatible_with(found.shape):
            raise ValueError(
                f"Trying to share variable {full}, but specified shape "
                f"{TensorShape(shape)} and found shape {found.shape}."
            )
        if found.dtype != kind:
            raise ValueError(
                f"Trying to share variable {full}, but specified dtype {kind.name} and "
                f"found dtype {found.dtype.name}."
            )

    def _make(
        self,
        full: str,
        shape: Any,
        kind: Any,
        initializer: Any,
        options: dict[str, Any],
    ) -> Any:
        first, sizes = _first_value(full, shape, kind, initializer)
        if not mode.has_graph():
            return Variable(
                first,
                trainable=options.get("trainable") is not False,
                name=full,
                dtype=kind,
                constraint=options.get("constraint"),
            )
        scope = self._graph.names.scope
        self._graph.names.scope = ""
        try:
            return GraphVariable(
                first,
                name=full,
                dtype=None if sizes is None else kind,
                shape=sizes,
                **options,
            )
        finally:
            self._graph.names.scope = scope


def _first_value(
    full: str, shape: Any, kind: Any, initializer: Any
) -> tuple[Any, TensorShape | None]:
    """Return what gives the first value, and the shape where that is a function."""
    from ipu.keras import initializers

    if initializer is None:
        if kind.is_floating:
            initializer = initializers.GlorotUniform()
        else:
            initializer = initializers.Zeros()
    if isinstance(initializer, type):
        initializer = initializer()
    if isinstance(initializer, str):
        initializer = initializers.get(initializer)
    if not callable(initializer):
        if shape is not None:
            raise ValueError(
                "If initializer is a constant, do not specify shape. Received: "
                f"shape={shape!r} for variable {full}."
            )
        if isinstance(initializer, GraphTensor):
            return initializer, None
        return Tensor(initializer), None
    if shape is None:
        raise ValueError(
            f"Shape of a new variable ({full}) must be fully defined, but instead was "
            "<unknown>."
        )
    sizes = TensorShape(shape)
    if not sizes.is_fully_defined():
        raise ValueError(
            f"Shape of a new variable ({full}) must be fully defined, but instead was "
            f"{sizes}."
        )
    if not isinstance(initializer, initializers.Initializer):
        with init_scope():
            made = _called(initializer, tuple(sizes), kind)
        if isinstance(made, GraphTensor):
            return made, None
    return _maker(initializer, tuple(sizes), kind), sizes


def _called(initializer: Any, sizes: tuple[int, ...], kind: Any) -> Any:
    """Return what a function of the user's gives, which may take fewer arguments."""
    import inspect

    try:
        names = inspect.signature(initializer).parameters
    except (TypeError, ValueError):
        names = None
    if names is not None and not names:
        return initializer()
    keywords: dict[str, Any] = {"dtype": kind}
    if names is not None and "partition_info" in names:
        keywords["partition_info"] = None
    return initializer(sizes, **keywords)


def _maker(initializer: Any, sizes: tuple[int, ...], kind: Any) -> Callable[[], Any]:
    def first() -> Any:
        with mode.suspended():
            return Tensor(_called(initializer, sizes, kind)).numpy()

    return first


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
        synchronization, aggregation: As for ``tf.Variable``.

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
    store = (mode.current() or mode.default()).store
    options = {
        "trainable": trainable,
        "collections": collections,
        "caching_device": caching_device,
        "validate_shape": validate_shape,
        "use_resource": use_resource,
    }
    given = {
        "constraint": constraint,
        "synchronization": synchronization,
        "aggregation": aggregation,
    }
    options |= {name: value for name, value in given.items() if value is not None}
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
    """Open a context in which the names of variables begin with that of the scope.

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
    store = (mode.current() or mode.default()).store
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
    goes_back = isinstance(name_or_scope, VariableScope)
    with (
        store.names_below(full, goes_back),
        store.opened(scope, name if auxiliary_name_scope else None) as opened,
    ):
        yield opened


def get_variable_scope() -> VariableScope:
    """Return the variable scope in force.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.get_variable_scope().set_use_resource(True)
        ...     v1.get_variable_scope().use_resource
        True
    """
    return (mode.current() or mode.default()).store.scope
