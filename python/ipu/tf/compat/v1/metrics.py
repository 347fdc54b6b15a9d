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
from typing import Any, Protocol

import numpy as np

from ipu import tf
from ipu._text.exports import export
from ipu.tf._graph import mode
from ipu.tf._graph.scopes import get_variable, variable_scope
from ipu.tf.compat.v1._initializers import zeros_initializer

_LOCAL, _METRIC = "local_variables", "metric_variables"
_Pair = tuple[Any, Any]


def _sum(name: str, size: int | None = None) -> Any:
    """Return a local variable that begins with zero, or a vector of them."""
    if mode.current() is None:
        raise RuntimeError(
            "tf.metrics is for graphs; where ops run at once, use keras.metrics."
        )
    # by the store of variables, for a compiled function is traced more than once
    return get_variable(
        name,
        [] if size is None else [size],
        "float32",
        zeros_initializer(),
        trainable=False,
        collections=[_LOCAL, _METRIC],
        use_resource=True,
    )


def _share(part: Any, whole: Any) -> Any:
    """Return a quotient, or zero where there is nothing."""
    is_some = whole > 0.0
    return tf.where(is_some, part / tf.where(is_some, whole, 1.0), 0.0)


def _aligned(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Return both as tensors, without a last dimension of 1 that only one of them
    has."""
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
    scope: str,
    values: Any,
    weights: Any,
    last: Callable[[Any], Any] = lambda value: value,
) -> _Pair:
    """Return the mean of elements over all runs; ``last`` makes the result of it."""
    with variable_scope(None, scope):
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
    """Return the mean of values.

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
    pair = _mean(name or "mean", values, weights)
    return _collect(pair, metrics_collections, updates_collections)


class _Metric(Protocol):
    def __call__(
        self,
        labels: Any,
        predictions: Any,
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> _Pair: ...


_TEXT = """{text}

    Args:
        labels: The right values{kind}.
        predictions: The predicted values{kind}.
        weights, metrics_collections, updates_collections: As for :func:`mean`.
        name: The variable scope; None: ``{name}``.

    Returns:
        As :func:`mean`.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     _, update = v1.metrics.{name}({given})
        ...     session.run(v1.local_variables_initializer())
        ...     print(round(float(session.run(update)), 3))
        {result}
    """


def _metric(
    given: str, result: float, kind: str = ""
) -> Callable[[Callable[[str, Any, Any, Any], _Pair]], _Metric]:
    """Make a metric of a function of its scope, labels, predictions and weights.

    Args:
        given: Arguments, for the example.
        result: Its result.
        kind: What is said of labels and predictions besides.
    """

    def decorate(measure: Callable[[str, Any, Any, Any], _Pair]) -> _Metric:
        def metric(
            labels: Any,
            predictions: Any,
            weights: Any = None,
            metrics_collections: Any = None,
            updates_collections: Any = None,
            name: str | None = None,
        ) -> _Pair:
            pair = measure(name or own, labels, predictions, weights)
            return _collect(pair, metrics_collections, updates_collections)

        own = metric.__name__ = metric.__qualname__ = measure.__name__
        metric.__doc__ = _TEXT.format(
            text=measure.__doc__, name=own, given=given, result=result, kind=kind
        )
        return metric

    return decorate


@_metric("[1, 2], [1, 0]", 0.5)
def accuracy(scope: str, labels: Any, predictions: Any, weights: Any) -> _Pair:
    """Return how often predictions are the labels."""
    right, found = _aligned(labels, predictions)
    return _mean(scope, tf.equal(tf.cast(right, found.dtype), found), weights)


@_metric("[1.0], [3.0]", 4.0)
def mean_squared_error(
    scope: str, labels: Any, predictions: Any, weights: Any
) -> _Pair:
    """Return the mean of squared differences."""
    return _mean(scope, tf.square(_difference(labels, predictions)), weights)


@_metric("[1.0], [3.0]", 2.0)
def root_mean_squared_error(
    scope: str, labels: Any, predictions: Any, weights: Any
) -> _Pair:
    """Return the root of the mean of squared differences."""
    return _mean(scope, tf.square(_difference(labels, predictions)), weights, tf.sqrt)


@_metric("[1.0], [3.0]", 2.0)
def mean_absolute_error(
    scope: str, labels: Any, predictions: Any, weights: Any
) -> _Pair:
    """Return the mean of absolute differences."""
    return _mean(scope, tf.abs(_difference(labels, predictions)), weights)


def _counted(
    labels: Any, predictions: Any, weights: Any, wanted: tuple[bool, bool], scope: str
) -> _Pair:
    """Return how often label and prediction are two values."""
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


def _counter(name: str, wanted: tuple[bool, bool], text: str) -> _Metric:
    def count(scope: str, labels: Any, predictions: Any, weights: Any) -> _Pair:
        return _counted(labels, predictions, weights, wanted, scope)

    count.__name__, count.__doc__ = name, text
    given = f"[{wanted[0]:d}, 0], [{wanted[1]:d}, 1]"
    return _metric(given, 2.0 if wanted == (False, True) else 1.0, ", as bools")(count)


true_positives = _counter("true_positives", (True, True), "The number of hits.")
true_negatives = _counter(
    "true_negatives",
    (False, False),
    "The number of negatives that are recognised.",
)
false_positives = _counter(
    "false_positives", (False, True), "The number of false alarms."
)
false_negatives = _counter("false_negatives", (True, False), "The number of misses.")


def _ratio(
    scope: str,
    labels: Any,
    predictions: Any,
    weights: Any,
    other: tuple[bool, bool],
) -> _Pair:
    labels, predictions = _aligned(labels, predictions)
    with variable_scope(None, scope):
        hits = _counted(labels, predictions, weights, (True, True), "true_positives")
        kind = "false_negatives" if other[0] else "false_positives"
        rest = _counted(labels, predictions, weights, other, kind)
        value, update = (_share(a, a + b) for a, b in zip(hits, rest, strict=True))
        return value, update


@_metric("[1, 0, 1], [1, 1, 0]", 0.5, ", as bools")
def precision(scope: str, labels: Any, predictions: Any, weights: Any) -> _Pair:
    """Return the share of what was found that is right."""
    return _ratio(scope, labels, predictions, weights, (False, True))


@_metric("[1, 1, 1, 0], [1, 0, 0, 0]", 0.333, ", as bools")
def recall(scope: str, labels: Any, predictions: Any, weights: Any) -> _Pair:
    """Return the share of what is right that was found."""
    return _ratio(scope, labels, predictions, weights, (True, False))


_LITTLE = 1e-6  # keeps shares of nothing finite
# how far the first and last thresholds lie outside of 0 and 1
_OUTSIDE = 1e-7


def auc(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Any = None,
) -> _Pair:
    """Return the area under a curve of shares, one point for each threshold.

    Args:
        labels: The right values, as bools.
        predictions: The predicted values, from 0 to 1.
        weights: How much each element counts; None: one.
        num_thresholds: How many thresholds there are.
        metrics_collections: Lists of the graph that get the value.
        updates_collections: Lists of the graph that get the update.
        curve: "ROC", of hits over false alarms, or "PR", of precision over recall.
        name: The variable scope; None: ``auc``.
        summation_method: "trapezoidal", "minoring" for the lower of the two ends of
            each step, or "majoring" for the higher one.
        thresholds: The thresholds between 0 and 1, in place of their number.

    Returns:
        As :func:`mean`.

    Raises:
        ValueError: Another ``curve`` or ``summation_method``, or fewer than two
            thresholds.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     _, update = v1.metrics.auc([0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9])
        ...     session.run(v1.local_variables_initializer())
        ...     print(round(float(session.run(update)), 3))
        0.75
    """
    heights = {
        "trapezoidal": lambda a, b: (a + b) / 2.0,
        "minoring": tf.minimum,
        "majoring": tf.maximum,
    }
    for word, value, known in (
        ("curve", curve, ("ROC", "PR")),
        ("summation_method", summation_method, tuple(heights)),
    ):
        if value not in known:
            raise ValueError(f"{word} must be one of {known}. Received: {value!r}.")
    if thresholds is None:
        if num_thresholds < 2:
            raise ValueError(
                f"num_thresholds must be at least 2. Received: {num_thresholds}."
            )
        thresholds = np.arange(1, num_thresholds - 1) / (num_thresholds - 1)
    inner = np.sort(np.asarray(thresholds, np.float32))
    edges = np.asarray([-_OUTSIDE, *inner, 1.0 + _OUTSIDE], np.float32)
    with variable_scope(None, name or "auc"):
        labels, predictions = _aligned(labels, predictions)
        right = tf.reshape(tf.cast(labels, "bool"), [1, -1])
        found = tf.reshape(tf.cast(predictions, "float32"), [1, -1])
        factors = 1.0 if weights is None else _flat_weights(weights, predictions)
        above = found > tf.constant(edges[:, None])
        values, updates = [], []
        for kind, hits in (
            ("true_positives", tf.logical_and(right, above)),
            ("false_negatives", tf.logical_and(right, tf.logical_not(above))),
            ("false_positives", tf.logical_and(tf.logical_not(right), above)),
            (
                "true_negatives",
                tf.logical_not(tf.logical_or(right, above)),
            ),
        ):
            count = _sum(kind, len(edges))
            rows = tf.reduce_sum(tf.cast(hits, "float32") * factors, 1)
            values.append(count.value())
            updates.append(count.assign_add(rows))

        def area(tp: Any, fn: Any, fp: Any, tn: Any) -> Any:
            recalled = (tp + _LITTLE) / (tp + fn + _LITTLE)
            if curve == "ROC":
                x, y = fp / (fp + tn + _LITTLE), recalled
            else:
                x, y = recalled, (tp + _LITTLE) / (tp + fp + _LITTLE)
            height = heights[summation_method](y[:-1], y[1:])
            return tf.reduce_sum((x[:-1] - x[1:]) * height)

        pair = area(*values), area(*updates)
    return _collect(pair, metrics_collections, updates_collections)


def _flat_weights(weights: Any, predictions: Any) -> Any:
    rows = tf.cast(weights, "float32") * tf.ones_like(predictions, "float32")
    return tf.reshape(rows, [1, -1])


export(__name__)
