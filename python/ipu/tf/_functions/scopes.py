# SPDX-License-Identifier: MIT
"""Scopes and small things that programs written for graphs have in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu._text.arguments import checked_function, checked_list
from ipu.tf import nest
from ipu.tf._graph import mode
from ipu.tf._graph.reached import active
from ipu.tf._string_ops.host_only import HostOnlyError
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
    yield
    reached.lead((begin, reached.trace.node_count), before)


def no_op(name: str | None = None) -> Any:
    """An operation that does nothing; None outside of graphs of TensorFlow 1, and of
    functions that are compiled there.

    Example:
        >>> done = tf.no_op()
    """
    graph = mode.building()
    if graph is None:
        return None if active() is None else Operation("NoOp", name or "")
    return graph.group([], name)


def group(*inputs: Any, **options: Any) -> Any:
    """One operation for several.

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
        made.spans = reached.spans_of(list(inputs))
        return made
    return graph.group(nest.flatten(list(inputs)), options.get("name") or "group_deps")


def tuple_of(
    tensors: Sequence[Any], control_inputs: Any = None, name: str | None = None
) -> list[Any]:
    """The tensors as a list: ``tf.tuple``.

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
    return [None if t is None else convert_to_tensor(t) for t in given]


def is_tensor(x: Any) -> bool:
    """Whether ``x`` is a tensor or a variable.

    Example:
        >>> tf.is_tensor(tf.ones(2)), tf.is_tensor([1.0, 2.0])
        (True, False)
    """
    return isinstance(x, Tensor) or hasattr(type(x), "__ipu_tensor__")


def executing_eagerly() -> bool:
    """Whether ops are computed at once: no function is being traced, nor is there a
    graph of TensorFlow 1.

    Example:
        >>> tf.executing_eagerly()
        True
        >>> tf.function(lambda: tf.constant(tf.executing_eagerly()))().numpy().item()
        False
    """
    return _core.open_trace() is None and mode.building() is None


def _no_python(name: str) -> None:
    if _core.open_trace() is not None:
        raise HostOnlyError(
            f"{name} in a function that runs on the device would have to call Python "
            "in the middle of the program, which is not there. Compute it before the "
            "function is called, in a Dataset.from_generator, or enqueue the value to "
            "an outfeed and go on in Python."
        )


def _typed(values: Any, types: Any) -> Any:
    if values is None:
        return None
    if isinstance(types, (list, tuple)):
        given = list(values) if isinstance(values, (list, tuple)) else [values]
        return [convert_to_tensor(v, t) for v, t in zip(given, types, strict=True)]
    return convert_to_tensor(values, types)


def _called(
    graph: Any,
    kind: str,
    caller: Callable[..., Any],
    func: Callable[..., Any],
    inp: Sequence[Any],
    types: Any,
    name: str | None,
) -> Any:
    """A Python function between the programs of a session."""
    is_list = isinstance(types, (list, tuple))
    specs = [TensorSpec(None, kind) for kind in (types if is_list else [types])]
    given = tuple(convert_to_tensor(x) for x in inp)

    def call(*values: Any) -> Any:
        return caller(func, values, types)

    return graph.python(kind, call, specs if is_list else specs[0], given, name)


def py_function(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, name: str | None = None
) -> Any:
    """Call a Python function with eager tensors; outside of traced functions alone.

    Args:
        func: The function.
        inp: Its arguments.
        Tout: The dtype of its result, or a list of them.
        name: Accepted and not used.

    Raises:
        NotImplementedError: A function is being traced.

    Example:
        >>> float(tf.py_function(lambda x: x + 1.0, [tf.constant(2.0)], tf.float32))
        3.0
    """
    graph = mode.building()
    if graph is not None:
        return _called(graph, "EagerPyFunc", py_function, func, inp, Tout, name)
    _no_python("tf.py_function")
    function = checked_function("func", func)
    values = [convert_to_tensor(x) for x in checked_list("inp", inp)]
    return _typed(function(*values), Tout)


def numpy_function(
    func: Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """As :func:`py_function`, with NumPy arrays.

    Example:
        >>> x = tf.constant([3.0, 1.0, 2.0])
        >>> found = tf.numpy_function(np.sort, [x], tf.float32)
        >>> found.numpy().tolist()
        [1.0, 2.0, 3.0]
    """
    graph = mode.building()
    if graph is not None:
        return _called(graph, "PyFunc", numpy_function, func, inp, Tout, name)
    _no_python("tf.numpy_function")
    function = checked_function("func", func)
    arrays = [convert_to_tensor(x).numpy() for x in checked_list("inp", inp)]
    return _typed(function(*arrays), Tout)
