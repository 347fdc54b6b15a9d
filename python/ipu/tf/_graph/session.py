# SPDX-License-Identifier: MIT
"""``tf.Session``: runs what a graph holds."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from ipu._core import Tensor
from ipu._device import devices
from ipu._device.locks import Lock
from ipu._device.thread_state import entered, here
from ipu._text.errors import InvalidArgumentError
from ipu._text.refusals import refuse_given
from ipu._text.tracebacks import boundaries
from ipu.tf import nest
from ipu.tf._graph import mode, running
from ipu.tf._graph.graph import Graph
from ipu.tf._graph.operation import GraphOperation, GraphTensor
from ipu.tf._graph.plan import Fed, Plan
from ipu.tf._graph.variables import GraphVariable
from ipu.tf._string_ops.tensors import StringTensor
from ipu.tf.variable import Variable

_PLANS_OF_VALUES = 64  # that are kept; each is for the integers that it was made for
# as TensorFlow writes dtypes in messages
_DTYPES = {"float32": "float", "float64": "double", "float16": "half"}


@boundaries("run", "close", "make_callable")
class Session:
    """Runs operations of a graph, and holds the values of its variables.

    What runs is what the fetches need, and no more: an effect (an assignment, an
    enqueue, an update) happens only where a fetch needs it or names it. Operations
    that were made in ``ipu.scopes.ipu_scope`` run on that device, the others on the
    host. The programs are compiled once for the same fetches and shapes of what is
    fed.

    Args:
        target: Must be empty.
        graph: The graph; None: the default one.
        config: A ``ConfigProto``, without effect.

    Raises:
        NotImplementedError: ``target`` names another machine.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     x = v1.placeholder(v1.float32, [2])
        ...     print(session.run({"double": x * 2.0}, feed_dict={x: [1.0, 2.0]}))
        {'double': array([2., 4.], dtype=float32)}
    """

    def __init__(self, target: str = "", graph: Any = None, config: Any = None) -> None:
        refuse_given(f"{__name__}.Session", target=target)
        found = graph if graph is not None else mode.current()
        if found is None:
            found = mode.default()
        if not isinstance(found, Graph):
            raise TypeError(f"`graph` must be a tf.Graph, not {type(graph).__name__}.")
        self._graph = found
        self._plans: dict[Any, Plan] = {}
        self._lock = Lock()  # protects _plans
        self._values: dict[int, Any] = {}
        self.state: dict[Any, dict[str, Any]] = {}
        self.number = found.session_count  # among those of the graph
        found.session_count += 1
        self._is_closed = False
        self._contexts: list[Any] = []

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph

    @property
    def graph_def(self) -> Any:
        """The graph's operations."""
        return self._graph

    @property
    def sess_str(self) -> str:
        """The machine: this one."""
        return ""

    def as_default(self) -> AbstractContextManager[Session]:
        """Open a context in which ``Tensor.eval`` and ``Operation.run`` use this
        session."""
        return self._as_default()

    @contextmanager
    def _as_default(self) -> Iterator[Session]:
        # a session that nobody has takes what it has entered with it
        own: Callable[[], Session | None] = weakref.ref(self)
        with entered(here.sessions, own):
            yield self

    @contextmanager
    def _entered(self) -> Iterator[None]:
        with self._graph.as_default(), self.as_default():
            yield

    def __enter__(self) -> Session:
        context = self._entered()
        context.__enter__()
        self._contexts.append(context)
        return self

    def __exit__(self, *error: Any) -> None:
        self._contexts.pop().__exit__(*error)
        self.close()

    def close(self) -> None:
        """Forget the values of variables; the session cannot run any more."""
        self._is_closed = True
        self._values.clear()
        self.state.clear()
        self._plans.clear()

    def list_devices(self) -> list[str]:
        """Return the names of the devices."""
        layout = devices.current_layout()
        count = 0 if layout is None else len(layout.ids or layout.counts)
        return ["/device:CPU:0", *(f"/device:IPU:{n}" for n in range(count))]

    # --- running ----------------------------------------------------------------------

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        """Compute values of the graph.

        Args:
            fetches: A tensor, variable, operation or name, or a nest (lists, tuples,
                dicts) of them.
            feed_dict: Values by tensor: for placeholders, or in place of what would be
                computed.
            options, run_metadata: Accepted and not used.

        Returns:
            NumPy values in the structure of ``fetches``; None for an operation.

        Raises:
            RuntimeError: The session is closed, or its graph is empty.
            TypeError: Something that cannot be fetched or fed.
            ValueError: A fetch of another graph; a fed value of another shape.
            InvalidArgumentError: A placeholder is not fed; a variable that has no
                kernel where it is.
            FailedPreconditionError: A variable is not initialised.
        """
        if self._is_closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if not self._graph.get_operations():
            raise RuntimeError(
                "The Session graph is empty. Add operations to the graph before "
                "calling run()."
            )
        targets = [self._target(leaf) for leaf in nest.flatten(fetches)]
        feeds = dict(_flat_feeds((feed_dict or {}).items()))
        fed = [self._fed(key, value) for key, value in feeds.items()]
        values: dict[int, Any] = {id(tensor): value for tensor, value in fed}
        variables = {
            id(key): tensor
            for key, (tensor, _) in zip(feeds, fed, strict=True)
            if isinstance(key, GraphVariable) and not key.is_resource
        }
        plan = self._plan(targets, fed, variables)
        lock = self._graph.session_lock
        with lock.of(self, self._bring_values), running.entered(self):
            plan.run(values)
        given = {id(tensor) for tensor, _ in fed}
        results = [self._result(target, values, given) for target in targets]
        return nest.pack_sequence_as(fetches, results)

    def make_callable(
        self,
        fetches: Any,
        feed_list: Sequence[Any] | None = None,
        accept_options: bool = False,
    ) -> Callable[..., Any]:
        """Return a function that runs the fetches.

        Args:
            fetches: As for :meth:`run`.
            feed_list: The tensors that its arguments are values of.
            accept_options: Accepted and not used.
        """
        keys = list(feed_list or ())

        def call(*values: Any) -> Any:
            if len(values) != len(keys):
                raise ValueError(
                    f"The callable takes {len(keys)} values, one for each tensor of "
                    f"feed_list. Received: {len(values)}."
                )
            return self.run(fetches, dict(zip(keys, values, strict=True)))

        return call

    def _plan(
        self,
        targets: list[Any],
        fed: list[tuple[GraphTensor, Tensor]],
        variables: dict[int, GraphTensor],
    ) -> Plan:
        constants = {id(t): value for t, value in fed if _may_be_size(t)}
        shapes = [(id(t), _type_of(value, id(t) in constants)) for t, value in fed]
        key = (
            tuple(map(id, targets)),
            tuple(sorted(shapes, key=lambda s: s[0])),
            tuple(sorted(variables)),
            self._graph.version,
        )
        with self._lock:
            plan = self._plans.pop(key, None)
            if plan is None:
                plan = Plan(targets, Fed([t for t, _ in fed], constants, variables))
                of_values = [k for k, p in self._plans.items() if p.is_of_values]
                if plan.is_of_values and len(of_values) >= _PLANS_OF_VALUES:
                    del self._plans[of_values[0]]
            self._plans[key] = plan  # the last one used comes last
            return plan

    def _target(self, fetch: Any) -> Any:
        if fetch is None:
            raise TypeError(
                "Fetch argument None has invalid type <class 'NoneType'>. Must be a "
                "string or Tensor."
            )
        try:
            with self._graph.as_default():
                return self._fetched(fetch)
        except TypeError as error:
            raise TypeError(
                f"Fetch argument {fetch!r} has invalid type {type(fetch).__name__!r}, "
                f"must be a string or Tensor. ({error})"
            ) from None
        except (ValueError, KeyError) as error:
            text = error.args[0] if error.args else error
            raise ValueError(
                f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. ({text})"
            ) from None

    def _fetched(self, fetch: Any) -> Any:
        """Return the element of a fetch; a variable's is made once."""
        if hasattr(fetch, "_as_graph_element"):
            return self._graph.read_of(fetch)
        return self._graph.as_graph_element(fetch)

    def _fed(self, key: Any, value: Any) -> tuple[GraphTensor, Tensor]:
        try:
            tensor = self._element_of_feed(key)
        except (TypeError, ValueError, KeyError) as error:
            text = error.args[0] if error.args else error
            raise TypeError(
                f"Cannot interpret feed_dict key as Tensor: {text}"
            ) from None
        if isinstance(value, GraphTensor):
            raise TypeError(
                "The value of a feed cannot be a tf.Tensor object. Acceptable feed "
                "values include Python scalars, strings, lists, numpy ndarrays. For "
                f"reference, the tensor object was {value!r} which was passed to the "
                f"feed with key {key!r}."
            )
        if tensor.dtype.name == "string":
            return tensor, _text(value)
        array = _array(tensor, value)
        if not tensor._shape.is_compatible_with(array.shape):
            raise ValueError(
                f"Cannot feed value of shape {array.shape} for Tensor {tensor.name}, "
                f"which has shape {tensor._shape}"
            )
        return tensor, Tensor(array)

    def _element_of_feed(self, key: Any) -> GraphTensor:
        """Return the tensor that a feed is for; a variable's is the one that is
        fetched."""
        if hasattr(key, "_as_graph_element"):
            return self._graph.read_of(key)
        tensor: GraphTensor = self._graph.as_graph_element(key, allow_operation=False)
        return tensor

    def _result(self, target: Any, values: dict[int, Any], given: set[int]) -> Any:
        if isinstance(target, GraphOperation):
            return None
        value = values.get(id(target))
        if value is None:
            value = target.known
        made = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
        wanted = target.dtype.name
        if id(target) in given:
            # what was fed comes back as an array
            return np.array(made, dtype=object if wanted == "string" else None)
        if wanted == "string":
            return made[()] if getattr(made, "shape", None) == () else made
        made = np.asarray(made)
        if made.dtype.name != wanted:
            made = made.astype(target.dtype.as_numpy_dtype)
        if made.ndim and not made.flags.writeable:
            made = made.copy()
        return made[()]

    # --- the values of variables ------------------------------------------------------

    def _set_values(self, values: Mapping[Any, Any]) -> None:
        """Give variables values, as a saver does."""
        with self._graph.session_lock.of(self, self._bring_values):
            for variable, value in values.items():
                variable.settle(devices.get_device(variable.ordinal))
                variable._set(np.asarray(value))

    def _bring_values(self, other: Session | None) -> None:
        """Put this session's values on the devices, and keep those of another one."""
        for variable in self._graph.every_variable:
            if other is not None and not other._is_closed and variable.initialized:
                other._values[id(variable)] = Variable.numpy(variable)
            variable.initialized = False
            mine = self._values.pop(id(variable), None)
            if mine is not None:
                variable._set(mine)


class InteractiveSession(Session):
    """A session that is the default one from the start, for notebooks and shells.

    Args:
        target, graph, config: As for :class:`Session`.

    Example:
        >>> with v1.Graph().as_default():
        ...     session = v1.InteractiveSession()
        ...     print((v1.constant(2.0) * 3.0).eval())
        ...     session.close()
        6.0
    """

    def __init__(self, target: str = "", graph: Any = None, config: Any = None) -> None:
        super().__init__(target, graph, config)
        self._entry = lambda: self
        here.sessions.append(self._entry)

    def close(self) -> None:
        """End it."""
        super().close()
        if self._entry in here.sessions:
            here.sessions.remove(self._entry)


def _flat_feeds(feeds: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Return feeds one by one: a tuple of tensors, as a state is, gets a tuple of
    values."""
    for key, value in feeds:
        if not isinstance(key, (list, tuple)):
            yield key, value
            continue
        if len(key) != len(value):
            raise ValueError(
                f"A feed of {len(key)} tensors needs as many values. Received: "
                f"{len(value)} for {key!r}."
            )
        yield from _flat_feeds(zip(key, value, strict=True))


def default_session() -> Session | None:
    """Return the innermost session of this thread, or None."""
    return here.sessions[-1]() if here.sessions else None


def run_in_default(fetch: Any, feed_dict: Any = None, session: Any = None) -> Any:
    """Run something in a session: the one given, or the default one.

    Raises:
        ValueError: There is none.
    """
    chosen = default_session() if session is None else session
    if chosen is None:
        raise ValueError(
            "Cannot evaluate a tensor or run an operation: no default session is "
            "registered. Use `with sess.as_default()` or pass an explicit session."
        )
    return chosen.run(fetch, feed_dict)


def unfed(tensor: GraphTensor) -> InvalidArgumentError:
    """Return the error about a placeholder without a value."""
    dtype = _DTYPES.get(tensor.dtype.name, tensor.dtype.name)
    sizes = ",".join("?" if size is None else str(size) for size in tensor._shape)
    shape = "" if tensor._shape.rank is None else f" and shape [{sizes}]"
    return InvalidArgumentError(
        f"You must feed a value for placeholder tensor '{tensor.op.name}' with dtype "
        f"{dtype}{shape}. Pass feed_dict={{tensor: value}} to Session.run."
    )


def _may_be_size(tensor: GraphTensor) -> bool:
    """Return whether shapes may depend on a fed tensor: a size, or integers of the
    program."""
    is_known = tensor.known is not None or tensor.is_size
    return is_known and tensor.dtype.is_integer


def _type_of(value: Any, is_constant: bool) -> Any:
    kind = getattr(value, "dtype_name", "string"), tuple(value.shape)
    return (*kind, value.numpy().tobytes()) if is_constant else kind


def _text(value: Any) -> Any:
    return StringTensor(np.asarray(value, dtype=object))


def _check_range(tensor: GraphTensor, array: np.ndarray[Any, Any]) -> None:
    """Refuse integers that the tensor cannot hold."""
    dtype = tensor.dtype
    if not dtype.is_integer or array.dtype.kind not in "iuO" or not array.size:
        return
    if np.can_cast(array.dtype, dtype.as_numpy_dtype):
        return
    least, most = array.min(), array.max()
    if least < dtype.min or most > dtype.max:
        raise TypeError(
            f"The value {least if least < dtype.min else most} of a feed does not fit "
            f"into the tensor {tensor.name} of dtype {dtype.name}, which holds "
            f"{dtype.min} to {dtype.max}."
        )


def _array(tensor: GraphTensor, value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, Tensor):
        value = value.numpy()
    kind = tensor.dtype.as_numpy_dtype
    try:
        array = np.asarray(value)
        _check_range(tensor, array)
        if array.dtype.kind == "f" and not tensor.dtype.is_floating:
            is_python = not hasattr(value, "dtype")
            if is_python:
                raise TypeError(
                    f"The value of a feed is of dtype {array.dtype}, but the tensor "
                    f"{tensor.name} is of dtype {tensor.dtype.name}. Received: "
                    f"{value!r}."
                )
        return np.asarray(array, dtype=kind)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"Cannot feed {value!r} for Tensor {tensor.name}, of dtype "
            f"{tensor.dtype.name}: {error}"
        ) from None
