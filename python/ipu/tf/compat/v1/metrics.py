# SPDX-License-Identifier: MIT
"""``tf.compat.v1.metrics``: measures over many runs, as pairs of tensors.

Each function gives the value and the operation that takes a batch in; the sums between
are local variables: ``tf.local_variables_initializer()`` begins anew.

Example:
    >>> from ipu.tf.compat import v1
    >>> with v1.Graph().as_default(), v1.Session() as session:
    ...     guesses = v1.placeholder(v1.int32, [None])
    ...     value, update = v1.metrics.accuracy([1, 2], guesses)
    ...     session.run(v1.local_variables_initializer())
    ...     for row in ([1, 2], [1, 0]):
    ...         _ = session.run(update, {guesses: row})
    ...     print(session.run(value))
    0.75
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.faces import defined, face
from ipu.tf._graph import mode
from ipu.tf.compat.v1._initializers import zeros_initializer
from ipu.tf.compat.v1._variables import get_variable, variable_scope

_LOCAL, _METRIC = "local_variables", "metric_variables"
_Pair = tuple[Any, Any]


def _sum(name: str) -> Any:
    """A local variable that begins with zero."""
    if mode.current() is None:
        raise RuntimeError(
            "tf.metrics is for graphs; where ops run at once, use keras.metrics."
        )
    # by the store of variables, for a compiled function is traced more than once
    return get_variable(
        name,
        [],
        "float32",
        zeros_initializer(),
        trainable=False,
        collections=[_LOCAL, _METRIC],
        use_resource=True,
    )


def _share(part: Any, whole: Any) -> Any:
    """A quotient, or zero where there is nothing."""
    is_some = whole > 0.0
    return tf.where(is_some, part / tf.where(is_some, whole, 1.0), 0.0)


def _aligned(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Both as tensors, without a last dimension of 1 that only one of them has."""
    right, found = tf.convert_to_tensor(labels), tf.convert_to_tensor(predictions)
    if right.shape.rank is None or found.shape.rank is None:
        return right, found
    more = right.shape.rank - found.shape.rank
    if more == 1 and right.shape[-1] == 1:
        right = tf.squeeze(right, -1)
    elif more == -1 and found.shape[-1] == 1:
        found = tf.squeeze(found, -1)
    if not right.shape.is_compatible_with(found.shape):
        raise ValueError(
            f"Shapes {found.shape} and {right.shape} are incompatible: `predictions` "
            "and `labels` must have the same shape."
        )
    return right, found


def _difference(labels: Any, predictions: Any) -> Any:
    right, found = _aligned(labels, predictions)
    return tf.cast(found, "float32") - tf.cast(right, "float32")


def _collect(pair: _Pair, values: Any, updates: Any) -> _Pair:
    graph = mode.current()
    if graph is not None:
        graph.add_to_collections(values or (), pair[0])
        graph.add_to_collections(updates or (), pair[1])
    return pair


def _mean(
    name: str | None,
    default: str,
    values: Any,
    weights: Any,
    last: Callable[[Any], Any] = lambda value: value,
) -> _Pair:
    """The mean of elements over all runs.

    Args:
        name: The user's scope, or None.
        default: The scope otherwise.
        values: The elements.
        weights: How much each counts, a shape that broadcasts; None: one.
        last: Makes the result of the mean.
    """
    with variable_scope(None, name or default):
        total, count = _sum("total"), _sum("count")
        rows = tf.cast(values, "float32")
        factors = tf.ones_like(rows)
        if weights is not None:
            factors = factors * tf.cast(weights, "float32")
        added = total.assign_add(tf.reduce_sum(rows * factors))
        counted = count.assign_add(tf.reduce_sum(factors))
        value = last(_share(total.value(), count.value()))
        return value, last(_share(added, counted))


def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Pair:
    """The mean of values.

    Args:
        values: A tensor.
        weights: How much each element counts; None: one.
        metrics_collections: Lists of the graph that get the value.
        updates_collections: Lists of the graph that get the update.
        name: The variable scope; None: ``mean``.

    Returns:
        The value so far, and the operation that takes a batch in.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     value, update = v1.metrics.mean([1.0, 4.0])
        ...     session.run(v1.local_variables_initializer())
        ...     print(session.run(update))
        2.5
    """
    pair = _mean(name, "mean", values, weights)
    return _collect(pair, metrics_collections, updates_collections)


def accuracy(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Pair:
    """How often predictions are the labels.

    Args:
        labels: What is right.
        predictions: What was found.
        weights: As for :func:`mean`.
        metrics_collections: As for :func:`mean`.
        updates_collections: As for :func:`mean`.
        name: The variable scope; None: ``accuracy``.

    Returns:
        As :func:`mean`.

    Example:
        >>> with v1.Graph().as_default():
        ...     _ = v1.metrics.accuracy([1], [1])
        ...     [v.name for v in v1.local_variables()]
        ['accuracy/total:0', 'accuracy/count:0']
    """
    right, found = _aligned(labels, predictions)
    hits = tf.equal(tf.cast(right, found.dtype), found)
    pair = _mean(name, "accuracy", hits, weights)
    return _collect(pair, metrics_collections, updates_collections)


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Pair:
    """The mean of squared differences.

    Args:
        labels: What is right.
        predictions: What was found.
        weights: As for :func:`mean`.
        metrics_collections: As for :func:`mean`.
        updates_collections: As for :func:`mean`.
        name: The variable scope; None: ``mean_squared_error``.

    Returns:
        As :func:`mean`.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     _, update = v1.metrics.mean_squared_error([1.0], [3.0])
        ...     session.run(v1.local_variables_initializer())
        ...     print(session.run(update))
        4.0
    """
    squares = tf.square(_difference(labels, predictions))
    pair = _mean(name, "mean_squared_error", squares, weights)
    return _collect(pair, metrics_collections, updates_collections)


def root_mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Pair:
    """The root of the mean of squared differences.

    Args:
        labels: What is right.
        predictions: What was found.
        weights: As for :func:`mean`.
        metrics_collections: As for :func:`mean`.
        updates_collections: As for :func:`mean`.
        name: The variable scope; None: ``root_mean_squared_error``.

    Returns:
        As :func:`mean`.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     _, update = v1.metrics.root_mean_squared_error([1.0], [3.0])
        ...     session.run(v1.local_variables_initializer())
        ...     print(session.run(update))
        2.0
    """
    squares = tf.square(_difference(labels, predictions))
    pair = _mean(name, "root_mean_squared_error", squares, weights, tf.sqrt)
    return _collect(pair, metrics_collections, updates_collections)


def mean_absolute_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Pair:
    """The mean of absolute differences.

    Args:
        labels: What is right.
        predictions: What was found.
        weights: As for :func:`mean`.
        metrics_collections: As for :func:`mean`.
        updates_collections: As for :func:`mean`.
        name: The variable scope; None: ``mean_absolute_error``.

    Returns:
        As :func:`mean`.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     _, update = v1.metrics.mean_absolute_error([1.0], [3.0])
        ...     session.run(v1.local_variables_initializer())
        ...     print(session.run(update))
        2.0
    """
    off = tf.abs(_difference(labels, predictions))
    pair = _mean(name, "mean_absolute_error", off, weights)
    return _collect(pair, metrics_collections, updates_collections)


def _counted(
    labels: Any, predictions: Any, weights: Any, wanted: tuple[bool, bool], scope: str
) -> _Pair:
    """How often label and prediction are two values."""
    with variable_scope(None, scope):
        right, found = tf.cast(labels, "bool"), tf.cast(predictions, "bool")
        hits = tf.logical_and(
            right if wanted[0] else tf.logical_not(right),
            found if wanted[1] else tf.logical_not(found),
        )
        rows = tf.cast(hits, "float32")
        if weights is not None:
            rows = rows * tf.cast(weights, "float32")
        count = _sum("count")
        return count.value(), count.assign_add(tf.reduce_sum(rows))


def _counter(name: str, wanted: tuple[bool, bool], what: str) -> Callable[..., _Pair]:
    def count(
        labels: Any,
        predictions: Any,
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> _Pair:
        pair = _counted(labels, predictions, weights, wanted, name or default)
        return _collect(pair, metrics_collections, updates_collections)

    default = name
    count.__name__ = count.__qualname__ = name
    count.__doc__ = f"""The number of {what}.

    Args:
        labels: What is right, as bools.
        predictions: What was found, as bools.
        weights: As for :func:`mean`.
        metrics_collections: As for :func:`mean`.
        updates_collections: As for :func:`mean`.
        name: The variable scope; None: ``{name}``.

    Returns:
        As :func:`mean`.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     _, update = v1.metrics.{name}([{wanted[0]:d}, 0], [{wanted[1]:d}, 1])
        ...     session.run(v1.local_variables_initializer())
        ...     print(session.run(update))
        {2.0 if wanted == (False, True) else 1.0}
    """
    return count


true_positives = _counter("true_positives", (True, True), "hits")
true_negatives = _counter("true_negatives", (False, False), "what is rightly left out")
false_positives = _counter("false_positives", (False, True), "false alarms")
false_negatives = _counter("false_negatives", (True, False), "misses")


def _ratio(
    name: str,
    labels: Any,
    predictions: Any,
    weights: Any,
    other: tuple[bool, bool],
) -> _Pair:
    labels, predictions = _aligned(labels, predictions)
    with variable_scope(None, name):
        hits = _counted(labels, predictions, weights, (True, True), "true_positives")
        scope = "false_negatives" if other[0] else "false_positives"
        rest = _counted(labels, predictions, weights, other, scope)
        value, update = (_share(a, a + b) for a, b in zip(hits, rest, strict=True))
        return value, update


def precision(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Pair:
    """The share of what was found that is right.

    Args:
        labels: What is right, as bools.
        predictions: What was found, as bools.
        weights: As for :func:`mean`.
        metrics_collections: As for :func:`mean`.
        updates_collections: As for :func:`mean`.
        name: The variable scope; None: ``precision``.

    Returns:
        As :func:`mean`.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     _, update = v1.metrics.precision([1, 0, 1], [1, 1, 0])
        ...     session.run(v1.local_variables_initializer())
        ...     print(session.run(update))
        0.5
    """
    pair = _ratio(name or "precision", labels, predictions, weights, (False, True))
    return _collect(pair, metrics_collections, updates_collections)


def recall(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Pair:
    """The share of what is right that was found.

    Args:
        labels: What is right, as bools.
        predictions: What was found, as bools.
        weights: As for :func:`mean`.
        metrics_collections: As for :func:`mean`.
        updates_collections: As for :func:`mean`.
        name: The variable scope; None: ``recall``.

    Returns:
        As :func:`mean`.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     _, update = v1.metrics.recall([1, 1, 1, 0], [1, 0, 0, 0])
        ...     session.run(v1.local_variables_initializer())
        ...     print(round(float(session.run(update)), 3))
        0.333
    """
    pair = _ratio(name or "recall", labels, predictions, weights, (True, False))
    return _collect(pair, metrics_collections, updates_collections)


if not TYPE_CHECKING:
    __all__ = defined(__name__)
    __getattr__, __dir__ = face(__name__, __all__)
