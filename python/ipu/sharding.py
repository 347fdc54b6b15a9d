# SPDX-License-Identifier: MIT
"""``ipu.sharding``: which IPU of a device operations of a graph are on.

``ipu.scopes.ipu_shard`` says it, or ``ipu.autoshard``. Operations of a graph of
TensorFlow 1 can be asked for it; a function that is traced has none.

Example:
    >>> from ipu.tf.compat import v1 as tf
    >>> with tf.Graph().as_default(), ipu.scopes.ipu_scope("/device:IPU:0"):
    ...     with ipu.scopes.ipu_shard(1):
    ...         doubled = tf.ones([2]) * 2.0
    ...     ipu.sharding.get_sharding(doubled.op)
    [1]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ipu._text.exports import export
from ipu.tf._graph.differentiate import ancestors
from ipu.tf._graph.graph import Graph
from ipu.tf._graph.operation import GraphOperation, GraphTensor

_SHARDING = "_XlaSharding"


def _operation(op: Any) -> GraphOperation:
    found = op.op if isinstance(op, GraphTensor) else op
    if not isinstance(found, GraphOperation):
        raise TypeError(
            f"An operation of a graph is needed: tensor.op. Received: {op!r}."
        )
    return found


def get_sharding(op: Any) -> list[int] | None:
    """Return the IPUs that an operation was put on.

    Args:
        op: An operation of a graph.

    Returns:
        A list of numbers; None where nothing was said.

    Raises:
        TypeError: It is not an operation of a graph.

    Source: ``ipu.sharding.get_sharding``.

    Example:
        >>> from ipu.tf.compat import v1 as tf
        >>> with tf.Graph().as_default():
        ...     print(get_sharding(tf.ones([2]).op))
        None
    """
    shard = _operation(op).shard
    return None if shard < 0 else [shard]


def has_attr(op: Any, attr_name: str) -> bool:
    """Return whether an operation has an attribute; the one there is says its IPU.

    Args:
        op: An operation of a graph.
        attr_name: The attribute, ``_XlaSharding``.

    Raises:
        TypeError: It is not an operation of a graph.

    Source: ``ipu.sharding.has_attr``.

    Example:
        >>> from ipu.tf.compat import v1 as tf
        >>> with tf.Graph().as_default():
        ...     has_attr(tf.ones([2]).op, "_XlaSharding")
        False
    """
    return attr_name == _SHARDING and _operation(op).shard >= 0


def dependencies(roots: Iterable[Any]) -> set[Any]:
    """Return operations, and all whose results they take.

    Args:
        roots: Operations or tensors of a graph.

    Raises:
        TypeError: One is not an operation of a graph.

    Source: ``ipu.sharding.dependencies``.

    Example:
        >>> from ipu.tf.compat import v1 as tf
        >>> with tf.Graph().as_default():
        ...     x = tf.placeholder(tf.float32, [2], name="x")
        ...     sorted(op.name for op in dependencies([tf.tanh(x * x)]))
        ['Tanh', 'mul', 'x']
    """
    return set(ancestors([_operation(root) for root in roots]))


def get_shard_from_colocation(op: Any) -> int | None:
    """Return the IPU of an operation, also of one that was put beside another one.

    Args:
        op: An operation of a graph.

    Returns:
        Its number, or None.

    Raises:
        TypeError: It is not an operation of a graph.

    Source: ``ipu.sharding.get_shard_from_colocation``.

    Example:
        >>> from ipu.tf.compat import v1 as tf
        >>> with tf.Graph().as_default():
        ...     print(get_shard_from_colocation(tf.ones([2]).op))
        None
    """
    found = get_sharding(op)
    return None if found is None else found[0]


def propagate_sharding(graph: Any) -> None:
    """Do nothing: gradients are computed on the IPU of what they are derivatives of.

    Args:
        graph: The graph.

    Raises:
        TypeError: It is not a graph.

    Source: ``ipu.sharding.propagate_sharding``.

    Example:
        >>> from ipu.tf.compat import v1 as tf
        >>> propagate_sharding(tf.Graph())
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"`graph` must be a tf.Graph. Received: {graph!r}.")


export(__name__)
