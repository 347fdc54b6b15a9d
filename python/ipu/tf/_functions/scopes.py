# SPDX-License-Identifier: MIT
"""Scopes and small things that programs written for graphs have in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu._device.thread_state import here
from ipu._text.arguments import checked_function, checked_list
from ipu.tf import nest
from ipu.tf._graph import mode
from ipu.tf._graph.reached import active
from ipu.tf._tensor.convert import convert_to_tensor
from ipu.tf._tensor.operation import Operation
from ipu.tf.tensor_spec import TensorSpec


class name_scope:
    """``with tf.name_scope(name) as scope:``; names change no value.

    Args:
        name: The scope's name.
        default_name: The name where that is None, as TensorFlow 1 has it.
        values: Accepted and not used.

    Raises:
        ValueError: It is not a string.

    Example:
        >>> with tf.name_scope("encoder"):
        ...     y = tf.constant(1.0) + 1.0
        ...
        >>> float(y)
        2.0
    """

    def __init__(
        self, name: str | None, default_name: str | None = None, values: Any = None
    ) -> None:
        del values
        self._is_root = name is None and mode.current() is not None
        found = default_name if name is None else name
        self._is_root &= found is None
        if not isinstance(found, str) and not self._is_root:
            raise ValueError("name for name_scope must be a string.")
        self._name = found or ""
        self._opened: list[Any] = []

    @property
    def name(self) -> str:
        """The name as it was given."""
        return self._name

    def __enter__(self) -> str:
        graph = mode.current()
        if graph is not None:
            self._opened.append(graph.name_scope(self._name))
            scope: str = self._opened[-1].__enter__()
            return scope
        return self._name if self._name.endswith("/") else f"{self._name}/"

    def __exit__(self, *error: Any) -> None:
        if self._opened:
            self._opened.pop().__exit__(*error)


@contextmanager
def control_dependencies(control_inputs: Any) -> Iterator[None]:
    """Run what is inside after other operations.

    Effects keep program order in a function anyhow; only in a graph of TensorFlow 1 is
    there something to be done.

    Args:
        control_inputs: Operations and tensors, or functions to call first; None forgets
            those around.

    Example:
        >>> count = tf.Variable(0)
        >>> @tf.function
        ... def counted(x):
        ...     with tf.control_dependencies([count.assign_add(1)]):
        ...         return tf.identity(x)
        ...
        >>> float(counted(tf.constant(5.0))), int(count)
        (5.0, 1)
    """
    graph = mode.building()
    if graph is not None:
        with graph.control_dependencies(control_inputs):
            yield
        return
    for item in control_inputs or ():
        if callable(item) and not isinstance(item, Tensor):
            item()
    reached = active()
    if reached is None:
        yield
        return
    before = reached.spans_of(list(control_inputs or ()))
    begin = reached.trace.node_count
    around, constants = reached.around, here.constants
    try:
        reached.around, here.constants = [*around, *before], []
        yield
        reached.lead_from_constants(here.constants, before)
    finally:
        made, here.constants = here.constants, constants
        reached.around = around
    if constants is not None:
        constants.extend(made)
    reached.lead((begin, reached.trace.node_count), before)


def no_op(name: str | None = None) -> Any:
    """Return an operation that does nothing; None outside of graphs of TensorFlow 1,
    and of functions that are compiled there.

    Example:
        >>> done = tf.no_op()
    """
    graph = mode.building()
    reached = active()
    if graph is None and reached is None:
        return None
    if graph is None:
        made = Operation("NoOp", name or "")
        made.spans = [] if reached is None else list(reached.around)
        return made
    return graph.group([], name)


def group(*inputs: Any, **options: Any) -> Any:
    """Make one operation of several.

    Args:
        *inputs: Operations and tensors, or nests of them.
        **options: ``name``.

    Returns:
        The operation; None in functions of TensorFlow 2, where every effect runs.

    Example:
        >>> x, y = tf.Variable(1.0), tf.Variable(2.0)
        >>> done = tf.group(x.assign(3.0), y.assign(4.0))
        >>> float(x), float(y)
        (3.0, 4.0)
    """
    graph = mode.building()
    if graph is None:
        reached = active()
        if reached is None:
            return None
        made = Operation("NoOp", options.get("name") or "group_deps")
        made.spans = [*reached.spans_of(list(inputs)), *reached.around]
        return made
    return graph.group(nest.flatten(list(inputs)), options.get("name") or "group_deps")


def tuple_of(
    tensors: Sequence[Any], control_inputs: Any = None, name: str | None = None
) -> list[Any]:
    """Return the tensors as a list: ``tf.tuple``.

    Example:
        >>> [int(x) for x in tf.tuple([tf.constant(1), tf.constant(2)])]
        [1, 2]
    """
    graph = mode.building()
    if graph is not None:
        before = [*(control_inputs or ()), *(t for t in tensors if t is not None)]
        with graph.control_dependencies(before):
            return [
                None
                if t is None
                else graph.record(convert_to_tensor, (t,), {}, "tuple")
                for t in tensors
            ]
    given = checked_list("tensors", tensors)
    made = [None if t is None else convert_to_tensor(t) for t in given]
    if active() is None:
        return made
    with control_dependencies(
        [*(control_inputs or ()), *(t for t in made if t is not None)]
    ):
        return [None if t is None else _core.apply("identity", (t,)) for t in made]


def is_tensor(x: Any) -> bool:
    """Return whether ``x`` is a tensor or a variable.

    Example:
        >>> tf.is_tensor(tf.ones(2)), tf.is_tensor([1.0, 2.0])
        (True, False)
    """
    return isinstance(x, Tensor) or hasattr(type(x), "__ipu_tensor__")


def executing_eagerly() -> bool:
    """Return whether ops are computed at once: no function is being traced, nor is
    there a graph of TensorFlow 1.

    Example:
        >>> tf.executing_eagerly()
        True
        >>> tf.function(lambda: tf.constant(tf.executing_eagerly()))().numpy().item()
        False
    """
    return _core.open_trace() is None and mode.building() is None


def _listed(values: Any, types: Any) -> list[Any]:
    """Return the results of a function as a list."""
    if not isinstance(types, (list, tuple)):
        return [] if types is None else [values]
    if values is None:
        return []
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _kind_of(kind: Any) -> Any:
    return kind.dtype if isinstance(kind, TensorSpec) else kind


def _called_here(
    what: str,
    function: Callable[..., Any],
    values: list[Tensor],
    types: Any,
    has_gradient: bool,
) -> Any:
    """Call a function now, or in the middle of the program that is being traced."""
    is_list = isinstance(types, (list, tuple))
    kinds = list(types) if is_list else [] if types is None else [types]
    if _core.open_trace() is None:
        given = _listed(function(*values), types)
        found = [
            convert_to_tensor(value, _kind_of(kind))
            for value, kind in zip(given, kinds, strict=bool(given))
        ]
        return (found if is_list else found[0]) if found else None
    from ipu.tf._functions.host_calls import call_python

    results = call_python(
        what, lambda *xs: _listed(function(*xs), types), values, kinds, has_gradient
    )
    return results if is_list or not kinds else results[0]


def _called(
    graph: Any,
    kind: str,
    caller: Callable[..., Any],
    func: Callable[..., Any],
    inp: Sequence[Any],
    types: Any,
    name: str | None,
) -> Any:
    """Return a Python function between the programs of a session."""
    is_list = isinstance(types, (list, tuple))
    specs = [TensorSpec(None, kind) for kind in (types if is_list else [types])]
    given = tuple(convert_to_tensor(x) for x in inp)

    def call(*values: Any) -> Any:
        return caller(func, values, types)

    return graph.python(kind, call, specs if is_list else specs[0], given, name)


def py_function(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, name: str | None = None
) -> Any:
    """Call a Python function with eager tensors.

    In a traced function Python is called each time that the program passes here; on an
    IPU inside of an ``ipu.scopes.outside_compilation_scope`` alone. Its gradient is
    that of the ops in it.

    Args:
        func: The function.
        inp: Its arguments.
        Tout: The dtype of its result, or a list of them. In a traced function the
            result has the shape that the arguments broadcast to, unless a
            ``tf.TensorSpec`` in place of the dtype or ``set_shape`` says another one.
        name: Accepted and not used.

    Returns:
        A tensor, or a list of them.

    Raises:
        NotImplementedError: A function for an IPU is being traced, and there is no
            ``outside_compilation_scope`` around.

    Example:
        >>> float(tf.py_function(lambda x: x + 1.0, [tf.constant(2.0)], tf.float32))
        3.0
    """
    graph = mode.building()
    if graph is not None:
        return _called(graph, "EagerPyFunc", py_function, func, inp, Tout, name)
    function = checked_function("func", func)
    values = [convert_to_tensor(x) for x in checked_list("inp", inp)]
    return _called_here("tf.py_function", function, values, Tout, has_gradient=True)


def numpy_function(
    func: Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Work like :func:`py_function`, with NumPy arrays, and without a gradient.

    Example:
        >>> x = tf.constant([3.0, 1.0, 2.0])
        >>> found = tf.numpy_function(np.sort, [x], tf.float32)
        >>> found.numpy().tolist()
        [1.0, 2.0, 3.0]
    """
    graph = mode.building()
    if graph is not None:
        return _called(graph, "PyFunc", numpy_function, func, inp, Tout, name)
    function = checked_function("func", func)

    def with_arrays(*tensors: Tensor) -> Any:
        return function(*(x.numpy() for x in tensors))

    values = [convert_to_tensor(x) for x in checked_list("inp", inp)]
    return _called_here("tf.numpy_function", with_arrays, values, Tout, False)
