# SPDX-License-Identifier: MIT
"""Queues of TensorFlow 1 on the host, and the producers and batches made of them.

A queue that a ``QueueRunner`` fills is filled by whoever dequeues: the runner's
operations are run, in the same session, until there are elements enough. So there are
no threads of ours, and the order is the same in each run. Threads of the program's own
may enqueue as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ipu import tf
from ipu._device.locks import Condition
from ipu._text.errors import FailedPreconditionError, OutOfRangeError
from ipu._text.refusals import refuse_given
from ipu.tf._graph import mode, running
from ipu.tf.tensor_shape import TensorShape

_RUNNERS = "queue_runners"
_PATIENCE = 0.05  # seconds from one look at other threads to the next


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _rank_of(value: Any) -> int | None:
    rank = TensorShape(value.shape).rank if hasattr(value, "shape") else np.ndim(value)
    return None if rank is None else int(rank)


def _graph() -> Any:
    graph = mode.current()
    if graph is None:
        raise RuntimeError("Queues are for graphs; where ops run at once, use tf.data.")
    return graph


class _Elements:
    """What a queue holds in one session."""

    def __init__(self, seed: int) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.is_closed = False
        self.ended: set[int] = set()  # runners whose operations have no more
        self.random = np.random.default_rng(seed)


class QueueBase:
    """A queue of tuples of tensors, on the host.

    Args:
        dtypes: Of the components.
        shapes: Of the components; None: unknown. :meth:`dequeue_many` needs them.
        capacity: How many elements it holds: :meth:`enqueue` waits for room.
        name: Its name.

    Example:
        >>> issubclass(v1.FIFOQueue, v1.QueueBase)
        True
    """

    def __init__(
        self, dtypes: Any, shapes: Any, capacity: int, name: str | None
    ) -> None:
        self._graph = _graph()
        self._dtypes = [tf.as_dtype(dtype) for dtype in _listed(dtypes)]
        count = len(self._dtypes)
        if shapes is None:
            self._shapes = [TensorShape(None)] * count
        else:
            is_one = count == 1 and not (
                isinstance(shapes, (list, tuple))
                and shapes
                and isinstance(shapes[0], (list, tuple, TensorShape))
            )
            found = [shapes] if is_one else list(shapes)
            if len(found) != count:
                raise ValueError(
                    f"Queue shapes must have the same length as dtypes, {count}. "
                    f"Received: {len(found)}."
                )
            self._shapes = [TensorShape(shape) for shape in found]
        self._capacity = capacity
        self._name = str(self._graph.names.unique(name or "queue"))
        self._changed = Condition()
        self._fillers: list[Any] = []  # operations of its runners
        self._filling: set[int] = set()  # threads that run them
        self._seed = 0

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def dtypes(self) -> list[Any]:
        """The dtypes of the components."""
        return list(self._dtypes)

    @property
    def shapes(self) -> list[Any]:
        """The shapes of the components."""
        return list(self._shapes)

    # --- operations -------------------------------------------------------------------

    def enqueue(self, vals: Any, name: str | None = None) -> Any:
        """Put in one element.

        Args:
            vals: A tensor for each component.

        Returns:
            An operation.
        """
        return self._add("QueueEnqueue", self._put, self._parts(vals, 0), name)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Any:
        """Put in the elements along the first axis.

        Args:
            vals: A tensor for each component.

        Returns:
            An operation.
        """

        def put(*parts: Any) -> None:
            for row in zip(*(np.asarray(part) for part in parts), strict=True):
                self._put(*row)

        return self._add("QueueEnqueueMany", put, self._parts(vals, 1), name)

    def dequeue(self, name: str | None = None) -> Any:
        """Take one element.

        Returns:
            A tensor, or a list of one for each component.
        """
        specs = [
            tf.TensorSpec(shape, dtype)
            for shape, dtype in zip(self._shapes, self._dtypes, strict=True)
        ]
        taken = self._graph.python(
            "QueueDequeue", lambda: list(self._take(1, 1)[0]), specs, (), name
        )
        return taken[0] if len(specs) == 1 else taken

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """Take so many elements, along a first axis.

        Args:
            n: How many.

        Returns:
            A tensor, or a list of one for each component.

        Raises:
            ValueError: The shapes of the components are not known.
        """
        return self._dequeue_rows("QueueDequeueMany", n, n, name)

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """Take so many elements, or at the end of a closed queue those that are left.

        Args:
            n: How many.

        Returns:
            As :meth:`dequeue_many`.
        """
        return self._dequeue_rows("QueueDequeueUpTo", n, None, name)

    def size(self, name: str | None = None) -> Any:
        """Return how many elements are in it."""
        spec = tf.TensorSpec([], "int32")
        count = lambda: np.int32(len(self._elements().rows))  # noqa: E731
        return self._graph.python("QueueSize", count, spec, (), name)

    def is_closed(self, name: str | None = None) -> Any:
        """Return whether it is closed."""
        spec = tf.TensorSpec([], "bool")
        asked = lambda: np.bool_(self._elements().is_closed)  # noqa: E731
        return self._graph.python("QueueIsClosed", asked, spec, (), name)

    def close(
        self, cancel_pending_enqueues: bool = False, name: str | None = None
    ) -> Any:
        """Let nothing more in.

        Args:
            cancel_pending_enqueues: Accepted: waiting enqueues end in any case.

        Returns:
            An operation.
        """

        def close() -> None:
            with self._changed:
                self._elements().is_closed = True
                self._changed.notify_all()

        return self._add("QueueClose", close, [], name)

    def _add(self, kind: str, function: Any, parts: Sequence[Any], name: Any) -> Any:
        return self._graph.python(kind, function, None, tuple(parts), name)

    def _parts(self, vals: Any, axes: int) -> list[Any]:
        values = [vals] if len(self._dtypes) == 1 else list(vals)
        if len(self._dtypes) == 1 and isinstance(vals, (list, tuple)):
            # a list of one tensor, or what one tensor is made of
            is_one = len(vals) == 1 and _rank_of(vals[0]) == self._rank(axes)
            values = list(vals) if is_one else [vals]
        if len(values) != len(self._dtypes):
            raise ValueError(
                f"The queue has {len(self._dtypes)} components. Received: "
                f"{len(values)} values."
            )
        parts = []
        for value, dtype, shape in zip(values, self._dtypes, self._shapes, strict=True):
            tensor = tf.convert_to_tensor(value, dtype)
            inner = TensorShape(tensor.shape)[axes:]
            if not inner.is_compatible_with(shape):
                raise ValueError(
                    f"An element of the queue has the shape {shape}. Received: {inner}."
                )
            parts.append(tensor)
        return parts

    def _rank(self, axes: int) -> int:
        rank = self._shapes[0].rank
        return -1 if rank is None else rank + axes

    def _dequeue_rows(self, kind: str, n: Any, least: Any, name: Any) -> Any:
        if any(not shape.is_fully_defined() for shape in self._shapes):
            raise ValueError(
                f"{kind} needs a queue whose shapes are known. Give `shapes`."
            )
        count = n if isinstance(n, int) and least is not None else None
        specs = [
            tf.TensorSpec([count, *shape.as_list()], dtype)
            for shape, dtype in zip(self._shapes, self._dtypes, strict=True)
        ]

        def take(wanted: Any) -> list[Any]:
            number = int(wanted)
            rows = self._take(number, 1 if least is None else number)
            columns = zip(*rows, strict=True)
            return [np.stack([np.asarray(one) for one in column]) for column in columns]

        wanted = tf.convert_to_tensor(n, "int32")
        taken = self._graph.python(kind, take, specs, (wanted,), name)
        return taken[0] if len(specs) == 1 else taken

    # --- when a session runs ----------------------------------------------------------

    def _elements(self) -> _Elements:
        state = running.state_of(self)
        if "elements" not in state:
            state["elements"] = _Elements(self._seed)
        found: _Elements = state["elements"]
        return found

    def _put(self, *row: Any) -> None:
        elements = self._elements()
        is_filling = threading.get_ident() in self._filling
        with self._changed:
            while len(elements.rows) >= self._capacity and not (
                is_filling or elements.is_closed
            ):
                self._wait("full, and no other thread could take from it")
            if elements.is_closed:
                raise OutOfRangeError(f"{self._name} is closed: nothing more goes in.")
            elements.rows.append(tuple(np.asarray(part) for part in row))
            self._changed.notify_all()

    def _wait(self, what: str) -> None:
        # a thread that Python did not start is listed for ever once it was asked for
        others = {*threading.enumerate()} - {threading.current_thread()}
        if all(isinstance(one, threading._DummyThread) for one in others):
            raise FailedPreconditionError(f"{self._name} is {what}.")
        self._changed.wait(_PATIENCE)

    def _take(self, wanted: int, least: int) -> list[tuple[Any, ...]]:
        elements = self._elements()
        while True:
            with self._changed:
                if len(elements.rows) >= wanted + self._kept(elements):
                    return self._picked(elements, wanted)
                if elements.is_closed:
                    if len(elements.rows) < max(least, 1):
                        raise OutOfRangeError(
                            f"{self._name} is closed and has insufficient elements "
                            f"(requested {wanted}, current size {len(elements.rows)})."
                        )
                    return self._picked(elements, min(wanted, len(elements.rows)))
                if not self._fillers:
                    self._wait("empty, and no other thread could put something in")
                    continue
            self._fill(elements)

    def _fill(self, elements: _Elements) -> None:
        """Run each operation of the runners once."""
        thread = threading.get_ident()
        self._filling.add(thread)
        try:
            for number, op in enumerate(self._fillers):
                if number in elements.ended:
                    continue
                try:
                    running.session().run(op)
                except OutOfRangeError:
                    elements.ended.add(number)
        finally:
            self._filling.discard(thread)
        if len(elements.ended) == len(self._fillers):
            elements.is_closed = True

    def _kept(self, elements: _Elements) -> int:
        """Return how many elements stay in it, as long as it is open."""
        return 0

    def _picked(self, elements: _Elements, count: int) -> list[tuple[Any, ...]]:
        taken = elements.rows[:count]
        del elements.rows[:count]
        self._changed.notify_all()
        return taken


class FIFOQueue(QueueBase):
    """A queue that gives what came first.

    Args:
        capacity: How many elements it holds.
        dtypes: Of the components.
        shapes: Of the components; None: unknown.
        names, shared_name: Must be None, and accepted.
        name: Its name.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     queue = v1.FIFOQueue(3, [tf.float32], shapes=[[]])
        ...     session.run(queue.enqueue_many([[1.0, 2.0, 3.0]]))
        ...     print(session.run([queue.dequeue(), queue.size()])[0])
        1.0
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:
        refuse_given(f"{__name__}.FIFOQueue", names=names)
        super().__init__(dtypes, shapes, capacity, name)


class RandomShuffleQueue(QueueBase):
    """A queue that gives any of its elements.

    Args:
        capacity: How many elements it holds.
        min_after_dequeue: How many stay in it, as long as it is open.
        dtypes: Of the components.
        shapes: Of the components; None: unknown.
        names, shared_name: Must be None, and accepted.
        seed: Of the choice; None: the graph's, else 0.
        name: Its name.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     queue = v1.RandomShuffleQueue(9, 0, tf.int32, shapes=[[]], seed=1)
        ...     session.run(queue.enqueue_many([[1, 2, 3]]))
        ...     print(sorted(session.run(queue.dequeue_many(3)).tolist()))
        [1, 2, 3]
    """

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        refuse_given(f"{__name__}.RandomShuffleQueue", names=names)
        super().__init__(dtypes, shapes, capacity, name)
        self._least = min_after_dequeue
        self._seed = _seed_of(self._graph, seed)

    def _kept(self, elements: _Elements) -> int:
        return self._least

    def _picked(self, elements: _Elements, count: int) -> list[tuple[Any, ...]]:
        taken = []
        for _ in range(count):
            at = int(elements.random.integers(len(elements.rows)))
            taken.append(elements.rows.pop(at))
        self._changed.notify_all()
        return taken


def _seed_of(graph: Any, seed: int | None) -> int:
    given = graph.seed if seed is None else seed
    return 0 if given is None else int(given)


# --- runners --------------------------------------------------------------------------


class QueueRunner:
    """Operations that fill a queue: :func:`add_queue_runner` has them do it.

    Args:
        queue: The queue.
        enqueue_ops: Operations that enqueue; the end of their data closes the queue.
        close_op, cancel_op, queue_closed_exception_types: Accepted without effect.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     queue = v1.FIFOQueue(8, tf.float32, shapes=[[]])
        ...     runner = v1.train.QueueRunner(queue, [queue.enqueue(2.0)])
        ...     v1.train.add_queue_runner(runner)
        ...     print(session.run(queue.dequeue_many(3)).tolist())
        [2.0, 2.0, 2.0]
    """

    def __init__(
        self,
        queue: QueueBase,
        enqueue_ops: Sequence[Any],
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: Any = None,
    ) -> None:
        self.queue = queue
        self.enqueue_ops = list(enqueue_ops)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.queue.name

    def create_threads(
        self, sess: Any, coord: Any = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """Return no threads: whoever dequeues runs the operations."""
        _use(self)
        return []


def _use(runner: QueueRunner) -> None:
    fillers = runner.queue._fillers
    fillers += [op for op in runner.enqueue_ops if op not in fillers]


def add_queue_runner(qr: QueueRunner, collection: str = _RUNNERS) -> None:
    """Have a queue filled.

    Args:
        qr: The runner.
        collection: The list of the graph that gets it.

    Example:
        See :class:`QueueRunner`.

        >>> v1.train.add_queue_runner.__name__
        'add_queue_runner'
    """
    _graph().add_to_collection(collection, qr)
    _use(qr)


def _filled(queue: QueueBase, op: Any) -> None:
    add_queue_runner(QueueRunner(queue, [op]))


def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> QueueBase:
    """Make a queue of the rows of a tensor, over and over.

    Args:
        input_tensor: The rows.
        element_shape: The shape of a row, where the tensor's is not known.
        num_epochs: How often each row comes; None: without end.
        shuffle: Whether rows come in another order each time.
        seed: Of the order; None: the graph's, else 0.
        capacity, shared_name, summary_name, cancel_op: Accepted and not used.
        name: The queue's name.

    Returns:
        The queue.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     queue = v1.train.input_producer([5, 6], shuffle=False)
        ...     print(session.run(queue.dequeue_many(3)).tolist())
        [5, 6, 5]
    """
    graph = _graph()
    rows = tf.convert_to_tensor(input_tensor)
    inner = TensorShape(rows.shape if element_shape is None else element_shape)
    inner = inner[1:] if element_shape is None else inner
    queue = FIFOQueue(capacity, [rows.dtype], [inner], name=name or "input_producer")
    first = _seed_of(graph, seed)
    owner = object()

    def epoch(values: Any) -> Any:
        state = running.state_of(owner)
        number = state.get("epoch", 0)
        if num_epochs is not None and number >= num_epochs:
            raise OutOfRangeError(f"Reached limit of {num_epochs}")
        state["epoch"] = number + 1
        array = np.asarray(values)
        if not shuffle:
            return array
        return array[np.random.default_rng((first, number)).permutation(len(array))]

    spec = tf.TensorSpec([None, *inner.as_list()], rows.dtype)
    _filled(queue, queue.enqueue_many(graph.python("InputEpoch", epoch, spec, (rows,))))
    return queue


def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> QueueBase:
    """Make a queue of the numbers below a limit, over and over.

    Args:
        limit: The limit.
        num_epochs, shuffle, seed, capacity, shared_name, name: As for
            :func:`input_producer`.

    Returns:
        The queue.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     queue = v1.train.range_input_producer(3)
        ...     print(sorted(session.run(queue.dequeue_many(3)).tolist()))
        [0, 1, 2]
    """
    return input_producer(
        tf.range(limit), [], num_epochs, shuffle, seed, capacity, name=name
    )


def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Any]:
    """Return one row of each tensor in each run, over and over.

    Args:
        tensor_list: Tensors with as many rows each.
        num_epochs, shuffle, seed, capacity, shared_name, name: As for
            :func:`input_producer`.

    Returns:
        A list of tensors.

    Raises:
        ValueError: There is no tensor.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     pair = v1.train.slice_input_producer([[1, 2], [3, 4]], shuffle=False)
        ...     print([int(one) for one in session.run(pair)])
        [1, 3]
    """
    tensors = [tf.convert_to_tensor(one) for one in tensor_list]
    if not tensors:
        raise ValueError("slice_input_producer needs at least one tensor.")
    numbers = range_input_producer(
        tf.shape(tensors[0])[0], num_epochs, shuffle, seed, capacity, name=name
    )
    at = numbers.dequeue()
    return [tf.gather(one, at) for one in tensors]


def _batched(
    tensors: Any,
    make: Callable[[Any, Any], QueueBase],
    batch_size: Any,
    enqueue_many: bool,
    shapes: Any,
    allow_smaller_final_batch: bool,
) -> Any:
    is_dict = isinstance(tensors, Mapping)
    names = sorted(tensors) if is_dict else []
    parts = [tensors[name] for name in names] if is_dict else _listed(tensors)
    parts = [tf.convert_to_tensor(part) for part in parts]
    if shapes is None:
        shapes = [TensorShape(part.shape)[int(enqueue_many) :] for part in parts]
        if any(not shape.is_fully_defined() for shape in shapes):
            raise ValueError(
                "All shapes must be fully defined: "
                f"{', '.join(map(str, shapes))}. Give `shapes`, or call set_shape."
            )
    queue = make([part.dtype for part in parts], list(shapes))
    given = parts[0] if len(parts) == 1 else parts
    _filled(queue, queue.enqueue_many(given) if enqueue_many else queue.enqueue(given))
    take = queue.dequeue_up_to if allow_smaller_final_batch else queue.dequeue_many
    taken = take(batch_size)
    if is_dict:
        return dict(zip(names, _listed(taken), strict=True))
    return taken


def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return batches of what tensors are in run after run.

    Args:
        tensors: A tensor, a list of them or a dict.
        batch_size: How many runs a batch has.
        num_threads, capacity, shared_name: Accepted and not used.
        enqueue_many: Whether each run gives rows along a first axis.
        shapes: Of an element of each tensor, where they are not known.
        dynamic_pad: Must be False.
        allow_smaller_final_batch: Whether the last batch may be smaller.
        name: The queue's name.

    Returns:
        The same structure; of a list of one tensor the tensor.

    Raises:
        ValueError: Shapes are not known.
        NotImplementedError: ``dynamic_pad`` is True.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     (x,) = v1.train.slice_input_producer([[1, 2, 3, 4]], shuffle=False)
        ...     print(session.run(v1.train.batch([x * 10], 3)).tolist())
        [10, 20, 30]
    """
    refuse_given(f"{__name__}.batch", dynamic_pad=dynamic_pad)
    return _batched(
        tensors,
        lambda dtypes, found: FIFOQueue(capacity, dtypes, found, name=name or "batch"),
        batch_size,
        enqueue_many,
        shapes,
        allow_smaller_final_batch,
    )


def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return batches of what tensors are in run after run, in another order.

    Args:
        tensors, batch_size, num_threads, enqueue_many, shapes,
            allow_smaller_final_batch, shared_name, name: As for :func:`batch`.
        capacity: Accepted and not used.
        min_after_dequeue: How many elements there are to choose from, beside those of
            the batch.
        seed: Of the choice; None: the graph's, else 0.

    Returns:
        As :func:`batch`.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     queue = v1.train.range_input_producer(4, num_epochs=1)
        ...     rows = v1.train.shuffle_batch(queue.dequeue(), 4, 9, 2)
        ...     print(sorted(session.run(rows).tolist()))
        [0, 1, 2, 3]
    """

    def make(dtypes: Any, found: Any) -> QueueBase:
        return RandomShuffleQueue(
            capacity,
            min_after_dequeue,
            dtypes,
            found,
            seed=seed,
            name=name or "shuffle_batch",
        )

    return _batched(
        tensors, make, batch_size, enqueue_many, shapes, allow_smaller_final_batch
    )
