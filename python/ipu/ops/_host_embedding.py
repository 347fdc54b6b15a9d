# SPDX-License-Identifier: MIT
"""Embeddings that live on the host, and are updated there while a program runs.

The simulated device is in the host's memory as well: the table is a variable that
programs read rows of, and write rows of in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu._text.errors import FailedPreconditionError
from ipu._text.refusals import refuse_call
from ipu.ops import cross_replica_ops
from ipu.ops._state import zeros_variable
from ipu.tf._functions.tracing import current_build, in_trace, init_scope
from ipu.tf._graph import mode
from ipu.tf._graph.reached import always
from ipu.tf._ops.updates import sgd_update
from ipu.tf._tensor.convert import apply


class HostEmbeddingOptimizerSpec:
    """Train a host embedding by stochastic gradient descent.

    Args:
        learning_rate: The rate; 0: the embedding is not trained.
        optimizer_name: Accepted and not used.

    Source: ``ipu.embedding_ops.HostEmbeddingOptimizerSpec`` of SDK 1.3 to 3.4.

    Example:
        >>> HostEmbeddingOptimizerSpec(0.5).get_learning_rate()
        0.5
    """

    def __init__(self, learning_rate: float, optimizer_name: str | None = None) -> None:
        self._learning_rate = learning_rate
        self._optimizer_name = optimizer_name or "SGD"

    def get_learning_rate(self) -> float:
        """Return the rate."""
        return self._learning_rate

    def _slots(self, table: Any, name: str) -> list[Any]:
        """Return variables beside the table."""
        return []

    def _update(self, table: Any, slots: Sequence[Any], gradient: Tensor) -> None:
        """Take a step."""
        if in_trace():
            rate = tf.constant(float(self._learning_rate), "float32")
            sgd_update(table, gradient, rate)
        else:
            table.assign_sub(tf.constant(self._learning_rate, table.dtype) * gradient)


class HostEmbeddingSGDGAOptimizerSpec(HostEmbeddingOptimizerSpec):
    """The same with gradient accumulation: gradients of several batches are summed up.

    Args:
        learning_rate: The rate; 0: the embedding is not trained.
        accumulation_factor: After how many mini-batches the table is updated.

    Source: ``ipu.embedding_ops.HostEmbeddingSGDGAOptimizerSpec`` of SDK 2.0 to 3.4.

    Example:
        >>> HostEmbeddingSGDGAOptimizerSpec(0.5, 4).get_accumulation_factor()
        4
    """

    def __init__(self, learning_rate: float, accumulation_factor: int) -> None:
        is_more = accumulation_factor > 1
        super().__init__(learning_rate, "SGD+GA" if is_more else None)
        self._accumulation_factor = accumulation_factor

    def get_accumulation_factor(self) -> int:
        """Return the number of mini-batches."""
        return self._accumulation_factor

    def _slots(self, table: Any, name: str) -> list[Any]:
        if self._accumulation_factor <= 1:
            return []
        sums = zeros_variable(f"{name}/accumulator", table.shape, table.dtype)
        return [sums, zeros_variable(f"{name}/count", (), "int32")]

    def _update(self, table: Any, slots: Sequence[Any], gradient: Tensor) -> None:
        if not slots:
            super()._update(table, slots, gradient)
            return
        sums, count = slots
        sums.assign_add(gradient)
        count.assign_add(1)

        def step() -> Tensor:
            HostEmbeddingOptimizerSpec._update(self, table, (), sums.value())
            sums.assign(tf.zeros(tuple(sums.shape), sums.dtype))
            return tf.constant(0)

        count.assign(
            tf.cond(
                tf.equal(count.value(), self._accumulation_factor), step, count.value
            )
        )


class HostEmbedding:
    """A table on the host, of which a device looks up rows.

    :func:`create_host_embedding` makes one with its table.

    Args:
        name: Its name.
        embedding_tensor: The table, a variable ``[rows, size]``.
        partition_strategy: "TOKEN" or "ENCODING": which axis hardware with remote
            buffers would split over replicas; without effect on numbers.
        optimizer_spec: How it is trained; None: it is not.

    Raises:
        ValueError: The table is not a tensor (or not a variable, and to be trained),
            the strategy is unknown, or the optimizer is not a
            ``HostEmbeddingOptimizerSpec``.

    Source: ``ipu.embedding_ops.HostEmbedding`` of SDK 1.3 to 3.4.

    Example:
        >>> table = HostEmbedding("words", tf.Variable([[1.0, 2.0], [3.0, 4.0]]))
        >>> with table.register():
        ...     print(table.lookup([1, 7]).numpy().tolist())
        [[3.0, 4.0], [3.0, 4.0]]
    """

    def __init__(
        self,
        name: str,
        embedding_tensor: Any,
        partition_strategy: str = "TOKEN",
        optimizer_spec: HostEmbeddingOptimizerSpec | None = None,
    ) -> None:
        is_variable = isinstance(embedding_tensor, tf.Variable)
        if not is_variable and not tf.is_tensor(embedding_tensor):
            raise ValueError(
                "HostEmbedding embedding_tensor is not a tensorflow tensor. Received: "
                f"{embedding_tensor!r}. Use create_host_embedding."
            )
        if not isinstance(optimizer_spec, (HostEmbeddingOptimizerSpec, type(None))):
            raise ValueError(
                "HostEmbedding optimizer_spec is not a HostEmbeddingOptimizerSpec or "
                f"None. Received: {optimizer_spec!r}."
            )
        if partition_strategy not in ("TOKEN", "ENCODING"):
            raise ValueError(
                f"Unknown partition strategy {partition_strategy}. It is 'TOKEN' or "
                "'ENCODING'."
            )
        self._name = name
        self._embedding_tensor = embedding_tensor
        self._partition_strategy = partition_strategy
        self._spec = optimizer_spec or HostEmbeddingOptimizerSpec(0.0)
        self._registrations = 0
        self._trigger: Any = None
        self._slots: list[Any] = []
        if self._spec.get_learning_rate() == 0:
            return
        if not is_variable:
            raise ValueError(
                "A host embedding that is trained needs a variable as its table. "
                f"Received: {embedding_tensor!r}. Use create_host_embedding."
            )
        dtype = embedding_tensor.dtype
        self._slots = self._spec._slots(embedding_tensor, name)
        # what programs take the gradient of so that the table is updated
        self._trigger = zeros_variable(f"{name}/__dummy", (), dtype, trainable=True)

    def get_embedding_tensor(self) -> Any:
        """Return the table."""
        return self._embedding_tensor

    @contextmanager
    def _registered(self) -> Iterator[HostEmbedding]:
        self._registrations += 1
        try:
            yield self
        finally:
            self._registrations -= 1

    def register(self, session: Any = None) -> AbstractContextManager[HostEmbedding]:
        """Return a context in which programs may look up rows.

        Args:
            session: Of programs in graphs; None where functions run at once.

        Raises:
            ValueError: There is a graph, and no session is given.
        """
        if session is None and mode.has_graph():
            raise ValueError(
                "HostEmbedding.register requires a session when eager execution is "
                "disabled: use register(session)."
            )
        return self._registered()

    def _check_registered(self) -> None:
        if not self._registrations:
            raise FailedPreconditionError(
                f"The host embedding '{self._name}' is looked up, but not registered. "
                "Run the program in `with embedding.register():`, or "
                "`with embedding.register(session):`."
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse.

        Raises:
            NotImplementedError: Always.
        """
        refuse_call(f"{__name__}.HostEmbedding.__call__")

    def lookup(self, indices: Any, clip_indices: bool = True) -> Tensor:
        """Return rows of the table.

        A program that takes gradients of the trainable variables it uses updates the
        table in its backward pass, with the optimizer of the embedding. The gradients
        of a row that is looked up several times are added up, over all replicas. In a
        pipeline, micro-batches on their way have read the rows before: which ones,
        depends on the schedule.

        Args:
            indices: Integers of any shape.
            clip_indices: Whether those that are not rows become the nearest one.

        Returns:
            A tensor ``[*indices.shape, size]``.

        Raises:
            FailedPreconditionError: The embedding is not registered while the program
                runs.
            InvalidArgumentError: An index is not a row, and ``clip_indices`` is false.
        """
        if in_trace():
            build = current_build()
            checked = build.notes.setdefault("host embeddings", [])
            if self not in checked:
                checked.append(self)
                build.before.append(self._check_registered)
        elif not mode.has_graph():
            self._check_registered()
        table = self._embedding_tensor
        ids = tf.cast(tf.convert_to_tensor(indices), tf.int32)
        if clip_indices:
            ids = tf.clip_by_value(ids, 0, table.shape[0] - 1)
        if self._trigger is None:
            return tf.stop_gradient(tf.gather(table, ids))
        attrs = {"shape": list(table.shape), "axis": 0, "batch_dims": 0}

        def look_up(trigger: Any) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
            def update(upstream: Tensor) -> Tensor:
                gradient = apply("gather_grad", (ids, upstream), attrs)
                total = cross_replica_ops.cross_replica_sum(gradient)
                with always():
                    self._spec._update(table, self._slots, total)
                return tf.zeros_like(trigger)

            return tf.gather(table.value(), ids), update

        result: Tensor = tf.custom_gradient(look_up)(self._trigger.value())
        return result


def create_host_embedding(
    name: str,
    shape: Sequence[int],
    dtype: Any,
    partition_strategy: str = "TOKEN",
    optimizer_spec: HostEmbeddingOptimizerSpec | None = None,
    initializer: Any = None,
) -> HostEmbedding:
    """Return a host embedding with a new table.

    Args:
        name: Its name, and that of the table.
        shape: ``[rows, size]``.
        dtype: float32 or float16.
        partition_strategy: "TOKEN" or "ENCODING"; see :class:`HostEmbedding`.
        optimizer_spec: How it is trained; None: it is not.
        initializer: Gives the first values; None: Glorot's uniform one.

    Returns:
        The embedding. In a graph the table is a variable of the graph, which has to be
        initialised.

    Raises:
        ValueError: The shape has not two sizes, the strategy is unknown, or the
            optimizer is not a ``HostEmbeddingOptimizerSpec``.

    Source: ``ipu.embedding_ops.create_host_embedding`` of SDK 1.3 to 3.4.

    Example:
        >>> spec = HostEmbeddingOptimizerSpec(learning_rate=0.5)
        >>> words = create_host_embedding(
        ...     "words", [3, 2], "float32", optimizer_spec=spec, initializer="ones"
        ... )
        >>> @tf.function(jit_compile=True)
        ... def train(ids):
        ...     with tf.GradientTape() as tape:
        ...         loss = tf.reduce_sum(words.lookup(ids))
        ...     tape.gradient(loss, tape.watched_variables())
        ...     return loss
        >>> with words.register():
        ...     float(train(tf.constant([0, 2, 2])))
        6.0
        >>> words.get_embedding_tensor().numpy().tolist()
        [[0.5, 0.5], [1.0, 1.0], [0.0, 0.0]]
    """
    sizes = [int(size) for size in shape]
    if len(sizes) != 2:
        raise ValueError(
            "A host embedding has rows of numbers: shape=[rows, size]. Received: "
            f"shape={shape!r}."
        )
    if mode.has_graph():
        from ipu.tf._graph.scopes import get_variable

        table: Any = get_variable(
            name, sizes, dtype, initializer, trainable=False, use_resource=True
        )
    else:
        from ipu.keras import initializers

        first: Any = initializers.get(initializer or "glorot_uniform")
        with init_scope():
            values = first(sizes, dtype=tf.as_dtype(dtype))
            table = tf.Variable(values, trainable=False, name=name, dtype=dtype)
    return HostEmbedding(name, table, partition_strategy, optimizer_spec)
