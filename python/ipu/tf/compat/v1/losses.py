# SPDX-License-Identifier: MIT
"""``tf.compat.v1.losses``: losses that a graph collects.

Each multiplies elements by ``weights``, makes one number of them as its ``reduction``
says, and puts that into the collection ``losses``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu import tf
from ipu._text.exports import export
from ipu.tf._graph import mode

_LOSSES = "losses"


def _graph() -> Any:
    return mode.current() or mode.default()


class Reduction:
    """Ways to make one number of weighted losses.

    ``SUM_BY_NONZERO_WEIGHTS``, the default of all losses, divides their sum by how many
    weights are not zero; ``MEAN`` by the sum of the weights; ``SUM_OVER_BATCH_SIZE`` by
    how many losses there are. ``NONE`` gives them as they are.

    Example:
        >>> float(mean_squared_error([1.0, 2.0], [1.0, 4.0], reduction=Reduction.SUM))
        4.0
    """

    NONE = "none"
    SUM = "weighted_sum"
    MEAN = "weighted_mean"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    SUM_OVER_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_BY_NONZERO_WEIGHTS = SUM_OVER_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Return all of them."""
        return (
            cls.NONE,
            cls.SUM,
            cls.MEAN,
            cls.SUM_OVER_BATCH_SIZE,
            cls.SUM_OVER_NONZERO_WEIGHTS,
            cls.SUM_BY_NONZERO_WEIGHTS,
        )

    @classmethod
    def validate(cls, key: str) -> None:
        """Refuse any other value.

        Raises:
            ValueError: It is anything else.
        """
        if key not in cls.all():
            raise ValueError(
                f"Invalid Reduction Key {key}. Key should be one of {cls.all()}."
            )


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """Return losses times weights, as one number.

    Args:
        losses: A float tensor.
        weights: A number, or a tensor that broadcasts to ``losses``.
        scope: Accepted and not used.
        loss_collection: Where it is collected; None: nowhere.
        reduction: One of :class:`Reduction`.

    Raises:
        ValueError: ``reduction`` is not one of them.

    Example:
        >>> float(compute_weighted_loss(tf.constant([1.0, 2.0, 3.0]), [1.0, 0.0, 2.0]))
        3.5
    """
    Reduction.validate(reduction)
    given = tf.convert_to_tensor(losses)
    factors: Any = tf.cast(weights, given.dtype)
    weighted = given * factors
    loss = tf.reduce_sum(weighted)
    if reduction == Reduction.NONE:
        loss = weighted
    elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
        loss = loss / tf.cast(tf.size(given), given.dtype)
    elif reduction != Reduction.SUM:
        is_counted = reduction == Reduction.SUM_BY_NONZERO_WEIGHTS
        each = tf.cast(tf.not_equal(factors, 0.0), given.dtype)
        counted = tf.broadcast_to(each if is_counted else factors, tf.shape(given))
        loss = tf.math.divide_no_nan(loss, tf.reduce_sum(counted))
    add_loss(loss, loss_collection)
    return loss


def add_loss(loss: Any, loss_collection: str | None = _LOSSES) -> None:
    """Put a loss into a collection.

    Args:
        loss: A scalar tensor of the graph, or of a function that is compiled in it.
        loss_collection: Which; None: none.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.losses.add_loss(v1.constant(1.0))
        ...     len(v1.losses.get_losses())
        1
    """
    if mode.has_graph() and loss_collection:
        _graph().add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = _LOSSES) -> list[Any]:
    """Return the losses that were collected.

    Args:
        scope: The prefix of their names; None: all.
        loss_collection: Which collection.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.losses.get_losses()
        []
    """
    return list(_graph().get_collection(loss_collection, scope))


def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """Return the penalties of variables that were collected.

    Args:
        scope: The prefix of their names; None: all.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.losses.get_regularization_losses()
        []
    """
    return list(_graph().get_collection("regularization_losses", scope))


def get_regularization_loss(scope: str | None = None, name: str = "") -> Any:
    """Return the sum of the penalties of variables.

    Args:
        scope: The prefix of their names; None: all.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     print(session.run(v1.losses.get_regularization_loss()))
        0.0
    """
    found = get_regularization_losses(scope)
    return tf.add_n(found) if found else tf.constant(0.0)


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "", scope: str | None = None
) -> Any:
    """Return the sum of the losses that were collected.

    Args:
        add_regularization_losses: Whether penalties of variables are added.
        scope: The prefix of their names; None: all.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     _ = v1.losses.mean_squared_error([1.0, 2.0], [1.0, 4.0])
        ...     print(session.run(v1.losses.get_total_loss()))
        2.0
    """
    found = get_losses(scope)
    if add_regularization_losses:
        found += get_regularization_losses(scope)
    return tf.add_n(found)


def _of_difference(
    measure: Callable[[Any], Any], name: str, text: str, result: float
) -> Callable[..., Any]:
    def loss(
        labels: Any,
        predictions: Any,
        weights: Any = 1.0,
        scope: str | None = None,
        loss_collection: str | None = _LOSSES,
        reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
    ) -> Any:
        found = tf.convert_to_tensor(predictions)
        losses = measure(found - tf.cast(labels, found.dtype))
        return compute_weighted_loss(losses, weights, None, loss_collection, reduction)

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = f"""Return the mean of {text} differences.

    Args:
        labels: The right values.
        predictions: The predicted values, of the same shape.
        weights: A number, or a tensor that broadcasts.
        scope, loss_collection, reduction: As for :func:`compute_weighted_loss`.

    Example:
        >>> float({name}([1.0, 2.0], [1.0, 4.0]))
        {result}
    """
    return loss


mean_squared_error = _of_difference(tf.square, "mean_squared_error", "squared", 2.0)
absolute_difference = _of_difference(tf.abs, "absolute_difference", "absolute", 1.0)


def huber_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    delta: float = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """Return the mean of differences: half their squares, and linear beyond ``delta``.

    Args:
        labels: The right values.
        predictions: The predicted values, of the same shape.
        weights: A number, or a tensor that broadcasts.
        delta: Where it becomes linear.
        scope, loss_collection, reduction: As for :func:`compute_weighted_loss`.

    Example:
        >>> float(huber_loss([1.0, 2.0], [1.0, 4.0]))
        0.75
    """
    found: Any = tf.convert_to_tensor(predictions)
    away: Any = tf.abs(found - tf.cast(labels, found.dtype))
    inside = tf.minimum(away, delta)
    losses = 0.5 * inside * inside + delta * (away - inside)
    return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """Return the mean cross-entropy of probabilities.

    Args:
        labels: From 0 to 1.
        predictions: Probabilities, of the same shape.
        weights: A number, or a tensor that broadcasts.
        epsilon: Added to what a logarithm is taken of.
        scope, loss_collection, reduction: As for :func:`compute_weighted_loss`.

    Example:
        >>> round(float(log_loss([1.0, 0.0], [0.5, 0.5])), 4)
        0.6931
    """
    found: Any = tf.convert_to_tensor(predictions)
    right: Any = tf.cast(labels, found.dtype)
    losses = -right * tf.math.log(found + epsilon) - (1.0 - right) * tf.math.log(
        1.0 - found + epsilon
    )
    return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """Return the mean of what lacks to a margin of one.

    Args:
        labels: 0 or 1.
        logits: Above 0 where 1 is meant, of the same shape.
        weights: A number, or a tensor that broadcasts.
        scope, loss_collection, reduction: As for :func:`compute_weighted_loss`.

    Example:
        >>> float(hinge_loss([1.0, 0.0], [0.5, -2.0]))
        0.25
    """
    found: Any = tf.convert_to_tensor(logits)
    signs = 2.0 * tf.cast(labels, found.dtype) - 1.0
    losses = tf.nn.relu(1.0 - signs * found)
    return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
    dim: int | None = None,
) -> Any:
    """Return the mean of one minus the products of unit vectors.

    Args:
        labels: Unit vectors.
        predictions: Unit vectors, of the same shape.
        axis: Along which they lie.
        weights: A number, or a tensor that broadcasts.
        scope, loss_collection, reduction: As for :func:`compute_weighted_loss`.
        dim: The older name of ``axis``.

    Raises:
        ValueError: ``axis`` is not given.

    Example:
        >>> float(cosine_distance([[1.0, 0.0]], [[0.0, 1.0]], axis=1))
        1.0
    """
    along = dim if axis is None else axis
    if along is None:
        raise ValueError("You must specify 'axis'.")
    found: Any = tf.convert_to_tensor(predictions)
    products = found * tf.cast(labels, found.dtype)
    losses = 1.0 - tf.reduce_sum(products, axis=along, keepdims=True)
    return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """Return the mean cross-entropy of classes.

    Args:
        onehot_labels: ``(batch, classes)``.
        logits: ``(batch, classes)``.
        weights: A number, or a tensor that broadcasts to ``(batch,)``.
        label_smoothing: How far labels are moved to equal shares.
        scope, loss_collection, reduction: As for :func:`compute_weighted_loss`.

    Example:
        >>> round(float(softmax_cross_entropy([[1.0, 0.0]], [[0.0, 0.0]])), 4)
        0.6931
    """
    found = tf.convert_to_tensor(logits)
    labels = tf.cast(onehot_labels, found.dtype)
    if label_smoothing:
        share = label_smoothing / float(found.shape[-1])
        labels = labels * (1.0 - label_smoothing) + share
    losses = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=found)
    return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """Return the mean cross-entropy of classes by their numbers.

    Args:
        labels: ``(batch,)`` or ``(batch, 1)``, integers.
        logits: ``(batch, classes)``.
        weights: A number, or a tensor that broadcasts to ``(batch,)``.
        scope, loss_collection, reduction: As for :func:`compute_weighted_loss`.

    Example:
        >>> round(float(sparse_softmax_cross_entropy([0], [[0.0, 0.0]])), 4)
        0.6931
    """
    classes, given = tf.convert_to_tensor(labels), tf.convert_to_tensor(logits)
    if classes.shape.rank == given.shape.rank and classes.shape.rank:
        # data sets of pictures have a column of classes
        classes = tf.squeeze(classes, [-1])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=classes, logits=given
    )
    return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0.0,
    scope: str | None = None,
    loss_collection: str | None = _LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """Return the mean cross-entropy of classes that do not exclude each other.

    Args:
        multi_class_labels: ``(batch, classes)``, from 0 to 1.
        logits: ``(batch, classes)``.
        weights: A number, or a tensor that broadcasts.
        label_smoothing: How far labels are moved to one half.
        scope, loss_collection, reduction: As for :func:`compute_weighted_loss`.

    Example:
        >>> round(float(sigmoid_cross_entropy([[1.0, 0.0]], [[0.0, 0.0]])), 4)
        0.6931
    """
    found = tf.convert_to_tensor(logits)
    labels = tf.cast(multi_class_labels, found.dtype)
    if label_smoothing:
        labels = labels * (1.0 - label_smoothing) + 0.5 * label_smoothing
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=found)
    return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


export(__name__)
