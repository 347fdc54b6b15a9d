# SPDX-License-Identifier: MIT
"""``ipu.keras.losses``: what training minimises.

A loss function takes the targets ``y_true``, which are cast to the dtype of the
predictions ``y_pred``, and gives one number for each sample: a tensor without the last
axis. A loss object reduces them to one; it takes a ``reduction``, a value of
:class:`Reduction`, and a ``name``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ipu import tf
from ipu._text.arguments import checked_axes, checked_int, checked_number
from ipu._text.exports import defined, export, like
from ipu._text.tracebacks import boundaries
from ipu._text.user_warnings import warn_user
from ipu.keras import _names, _serialization
from ipu.keras._arguments import Configured, config_of
from ipu.keras._backend_state import state
from ipu.keras._shape_fitting import fit_weights, same_dtype, squeeze_pair
from ipu.keras._tensor_notes import Kind, logits_of
from ipu.keras._types import Tensor


class Reduction:
    """Ways to reduce the losses of the samples to one number.

    Example:
        >>> loss = keras.losses.MeanSquaredError(reduction=Reduction.SUM)
        >>> float(loss([[1.0], [1.0]], [[3.0], [3.0]]))
        8.0
    """

    AUTO = "auto"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Return all values."""
        return (cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE)

    @classmethod
    def validate(cls, key: str) -> None:
        """Check a value.

        Raises:
            ValueError: It is anything else.
        """
        if key not in cls.all():
            raise ValueError(
                f"Invalid Reduction Key: {key!r}.{_names.nearest(str(key), cls.all())}"
            )


_OF_KERAS_3: dict[Any, str] = {
    None: Reduction.NONE,
    "mean": Reduction.SUM_OVER_BATCH_SIZE,
}


@boundaries("__call__")
class Loss(Configured):
    """Base class of losses: ``call`` for samples, then a reduction.

    Args:
        reduction: A value of ``Reduction``; AUTO means SUM_OVER_BATCH_SIZE, the mean.
            Also, as in Keras 3, ``"mean"`` for that, and None for NONE.
        name: A name for messages.

    Raises:
        ValueError: ``reduction`` is not a value of ``Reduction``.

    Example:
        >>> class Hinge(Loss):
        ...     def call(self, y_true, y_pred):
        ...         return tf.reduce_mean(tf.nn.relu(1.0 - y_true * y_pred), axis=-1)
        ...
        >>> float(Hinge()(tf.constant([[1.0, -1.0]]), tf.constant([[0.5, 0.5]])))
        1.0
    """

    def __init__(
        self, reduction: str | None = Reduction.AUTO, name: str | None = None
    ) -> None:
        key: Any = _OF_KERAS_3.get(reduction, reduction)
        Reduction.validate(key)
        self.reduction: str = key
        self.name = name or _names.snake_case(type(self).__name__)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Return the loss of each sample.

        Args:
            y_true: The targets, shape ``(batch, ...)``.
            y_pred: The model's output.

        Returns:
            A float tensor, usually of shape ``(batch,)``.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define call(y_true, y_pred)."
        )

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        """Return the reduced loss.

        Args:
            y_true: The targets.
            y_pred: The model's output.
            sample_weight: A factor for each sample; None for 1.

        Returns:
            A scalar, or the losses of the samples where the reduction is NONE.
        """
        losses = self.call(tf.convert_to_tensor(y_true), tf.convert_to_tensor(y_pred))
        return _reduce_weighted(losses, sample_weight, self.reduction)

    def get_config(self) -> dict[str, Any]:
        shared = {"reduction": self.reduction, "name": self.name}
        return shared | config_of(self, Loss)


class LossFunctionWrapper(Loss):
    """A loss object around a loss function.

    Args:
        fn: ``fn(y_true, y_pred, **kwargs)`` gives the loss of each sample.
        reduction: A value of ``Reduction``.
        name: A name; the function's by default.
        **kwargs: Keyword arguments for ``fn``.

    Example:
        >>> def distance(y_true, y_pred):
        ...     return tf.reduce_max(abs(y_true - y_pred), axis=-1)
        ...
        >>> loss = LossFunctionWrapper(distance, name="distance")
        >>> float(loss(tf.constant([[1.0, 5.0]]), tf.constant([[2.0, 2.0]])))
        3.0
    """

    def __init__(
        self,
        fn: Callable[..., Tensor],
        reduction: str = Reduction.AUTO,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(reduction, name or getattr(fn, "__name__", None))
        self.fn = fn
        self._fn_kwargs = kwargs

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        y_true, y_pred = squeeze_pair(y_true, y_pred)
        return self.fn(y_true, y_pred, **self._fn_kwargs)

    def _of_those(self, losses: Tensor, counts: Tensor) -> Tensor:
        """Return losses whose mean is that of those which count; the others are 0."""
        if self.reduction in (Reduction.NONE, Reduction.SUM):
            return losses
        number = tf.reduce_sum(tf.cast(counts, losses.dtype))
        size = float(math.prod(tuple(losses.shape)))
        return losses * (size / tf.maximum(number, 1.0))

    def get_config(self) -> dict[str, Any]:
        return {"reduction": self.reduction, "name": self.name, **self._fn_kwargs}


def _reduce_weighted(losses: Tensor, sample_weight: Any, reduction: str) -> Tensor:
    """Weigh and reduce the losses of the samples.

    Returns:
        A scalar, or the weighted losses where the reduction is NONE.
    """
    if sample_weight is not None:
        losses = losses * fit_weights(sample_weight, losses)
    if reduction == Reduction.NONE:
        return losses
    if not losses.shape:
        return losses
    if reduction == Reduction.SUM:
        return tf.reduce_sum(losses)
    return tf.reduce_mean(losses)


# --- functions: one number for each sample --------------------------------------------


def sparse_categorical_crossentropy(
    y_true: Any,
    y_pred: Any,
    from_logits: bool = False,
    axis: int = -1,
    *,
    ignore_class: int | None = None,
) -> Tensor:
    """Return the cross-entropy of each sample; targets are class numbers.

    Args:
        y_true: Class numbers of any dtype, ``(batch, ...)`` or ``(batch, ..., 1)``.
        y_pred: Probabilities, or logits, ``(batch, ..., classes)``.
        from_logits: Which of them. Where ``y_pred`` is the result of a softmax, its
            logits are used in any case.
        axis: The axis of the classes.
        ignore_class: The number of a class whose targets do not count, such as 255 for
            what has no label; None: all count.

    Returns:
        A tensor without the class axis, 0 where the target does not count.

    Raises:
        ValueError: The shapes do not go together; ``ignore_class`` is not an integer.

    Example:
        >>> round(float(sparse_categorical_crossentropy([1], [[0.5, 0.5]])[0]), 4)
        0.6931
    """
    y_pred = tf.convert_to_tensor(y_pred)
    logits = _as_logits(
        "sparse_categorical_crossentropy", y_pred, from_logits, axis, normalise=False
    )
    labels = _class_numbers("sparse_categorical_crossentropy", y_true, logits)
    if ignore_class is None:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits
        )
    counts = tf.not_equal(labels, checked_int("ignore_class", ignore_class))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels * tf.cast(counts, "int32"), logits=logits
    )
    return losses * tf.cast(counts, losses.dtype)


def categorical_crossentropy(
    y_true: Any,
    y_pred: Any,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Tensor:
    """Return the cross-entropy of each sample; targets are probabilities.

    Args:
        y_true: One probability for each class, the shape of ``y_pred``.
        y_pred: Probabilities, or logits, ``(batch, ..., classes)``.
        from_logits: Which of them. Where ``y_pred`` is the result of a softmax, its
            logits are used in any case.
        label_smoothing: ``y_true * (1 - s) + s / classes``.
        axis: The axis of the classes.

    Returns:
        A tensor without the class axis.

    Raises:
        ValueError: The shapes differ.

    Example:
        >>> round(float(categorical_crossentropy([[0.0, 1.0]], [[0.5, 0.5]])[0]), 4)
        0.6931
    """
    y_true, y_pred = same_dtype(y_true, y_pred, keep_prediction=True)
    if tuple(y_true.shape) != tuple(y_pred.shape):
        raise ValueError(
            f"Shapes {tuple(y_true.shape)} and {tuple(y_pred.shape)} are incompatible: "
            "categorical_crossentropy needs one probability for each class. Targets "
            "that are class numbers belong to sparse_categorical_crossentropy."
        )
    logits = _as_logits(
        "categorical_crossentropy", y_pred, from_logits, axis, normalise=True
    )
    y_true = _classes_last(y_true, axis)
    if label_smoothing:
        classes = float(y_true.shape[-1])
        y_true = y_true * (1.0 - label_smoothing) + label_smoothing / classes
    if from_logits or logits_of(y_pred, "softmax") is not None:
        return tf.nn.softmax_cross_entropy_with_logits(labels=y_true, logits=logits)
    return -tf.reduce_sum(y_true * logits, axis=-1)


def binary_crossentropy(
    y_true: Any,
    y_pred: Any,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Tensor:
    """Return the cross-entropy of yes-or-no targets, the mean over an axis.

    Args:
        y_true: Targets in [0, 1].
        y_pred: Probabilities, or logits.
        from_logits: Which of them. Where ``y_pred`` is the result of a sigmoid, its
            logits are used in any case.
        label_smoothing: ``y_true * (1 - s) + s / 2``.
        axis: The axis of the mean.

    Returns:
        A tensor without ``axis``.

    Raises:
        ValueError: The shapes differ.

    Example:
        >>> loss = binary_crossentropy([[1.0, 0.0]], [[0.5, 0.5]])
        >>> f"{float(loss[0]):.4f}"
        '0.6931'
    """
    y_true, y_pred = same_dtype(y_true, y_pred, keep_prediction=True)
    if tuple(y_true.shape) != tuple(y_pred.shape):
        raise ValueError(
            "binary_crossentropy needs a target for each output. Received: targets of "
            f"shape {tuple(y_true.shape)} and predictions of shape "
            f"{tuple(y_pred.shape)}. Class numbers belong to "
            "sparse_categorical_crossentropy; a single yes or no needs one output."
        )
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    logits = _remembered("binary_crossentropy", y_pred, from_logits, "sigmoid")
    if logits is not None or from_logits:
        x = y_pred if logits is None else logits
        # max(x, 0) - x z + log(1 + exp(-|x|)): no exponent is ever positive
        spread = tf.math.log(1.0 + tf.exp(-tf.abs(x)))
        losses = tf.nn.relu(x) - x * y_true + spread
    else:
        p = _clip(y_pred)
        losses = -(
            y_true * tf.math.log(p + state.epsilon)
            + (1.0 - y_true) * tf.math.log(1.0 - p + state.epsilon)
        )
    return tf.reduce_mean(losses, axis=axis)


def kl_divergence(y_true: Any, y_pred: Any) -> Tensor:
    """Return the divergence ``sum(y_true * log(y_true / y_pred))`` of each sample.

    Args:
        y_true: Probabilities.
        y_pred: Probabilities. Both are cut at 1e-7 and 1.

    Example:
        >>> round(float(kl_divergence([[0.0, 1.0]], [[0.5, 0.5]])[0]), 4)
        0.6931
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    low = tf.constant(state.epsilon, dtype=y_pred.dtype)
    one = tf.constant(1.0, dtype=y_pred.dtype)
    y_true, y_pred = (tf.minimum(tf.maximum(y, low), one) for y in (y_true, y_pred))
    return tf.reduce_sum(y_true * tf.math.log(y_true / y_pred), axis=-1)


# --- helpers ------------------------------------------------------------------------


def _remembered(name: str, y_pred: Tensor, from_logits: bool, kind: Kind) -> Any:
    logits = logits_of(y_pred, kind)
    if logits is not None and from_logits:
        warn_user(
            f"`{name}` received `from_logits=True`, but the `output` argument was "
            "produced by a sigmoid or softmax activation and thus does not represent "
            "logits. The loss is computed from its logits. Was this "
            "intended?"
        )
    return logits


def _as_logits(
    name: str, y_pred: Tensor, from_logits: bool, axis: int, normalise: bool
) -> Tensor:
    """Return logits with the classes in the last axis: what the fused losses take."""
    logits = _remembered(name, y_pred, from_logits, "softmax")
    if logits is not None:
        return logits
    y_pred = _classes_last(y_pred, axis)
    if from_logits:
        return y_pred
    if normalise:
        y_pred = y_pred / tf.reduce_sum(y_pred, axis=-1, keepdims=True)
    return tf.math.log(_clip(y_pred))


def _class_numbers(name: str, y_true: Any, y_pred: Tensor) -> Tensor:
    """Return targets that are class numbers, one for each row of predictions."""
    labels = tf.convert_to_tensor(y_true)
    shape = tuple(y_pred.shape)
    if len(labels.shape) == len(shape) and labels.shape and labels.shape[-1] == 1:
        labels = tf.reshape(labels, tuple(labels.shape)[:-1])
    if tuple(labels.shape) != shape[:-1] or not shape:
        raise ValueError(
            f"{name} needs one class number for each row of predictions. Received: "
            f"targets of shape {tuple(labels.shape)} and predictions of shape "
            f"{shape}. Targets of one probability for each class belong to "
            "categorical_crossentropy."
        )
    if tf.as_dtype(labels.dtype).name != "int32":
        labels = tf.cast(labels, "int32")
    return labels


def _alike(name: str, y_true: Any, y_pred: Any) -> tuple[Tensor, Tensor]:
    """Return targets and predictions of one dtype and, else it is an error, one
    shape."""
    y_true, y_pred = same_dtype(y_true, y_pred)
    if tuple(y_true.shape) != tuple(y_pred.shape):
        raise ValueError(
            f"{name} needs a target for each output. Received: targets of shape "
            f"{tuple(y_true.shape)} and predictions of shape {tuple(y_pred.shape)}."
        )
    return y_true, y_pred


def _clip(probabilities: Tensor) -> Tensor:
    dtype = probabilities.dtype
    low = tf.constant(state.epsilon, dtype=dtype)
    high = tf.constant(1.0 - state.epsilon, dtype=dtype)
    return tf.minimum(tf.maximum(probabilities, low), high)


def _classes_last(tensor: Tensor, axis: int) -> Tensor:
    rank = len(tensor.shape)
    if axis % rank == rank - 1:
        return tensor
    order = [i for i in range(rank) if i != axis % rank] + [axis % rank]
    return tf.transpose(tensor, order)


def mean_squared_error(y_true: Any, y_pred: Any) -> Tensor:
    """Return the mean over the last axis of ``(y_true - y_pred) ** 2``.

    Example:
        >>> round(float(mean_squared_error([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        2.5
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    return tf.reduce_mean(tf.square(y_pred - y_true), axis=-1)


def mean_absolute_error(y_true: Any, y_pred: Any) -> Tensor:
    """Return the mean over the last axis of ``abs(y_true - y_pred)``.

    Example:
        >>> round(float(mean_absolute_error([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        1.5
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    return tf.reduce_mean(tf.abs(y_pred - y_true), axis=-1)


def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Tensor:
    """Return 100 times the mean of ``abs((y_true - y_pred) / y_true)``.

    Args:
        y_true: The targets; magnitudes below 1e-7 count as 1e-7.

    Example:
        >>> mean_absolute_percentage_error([[1.0, 2.0]], [[2.0, 4.0]]).numpy().tolist()
        [100.0]
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    least = tf.constant(state.epsilon, dtype=y_pred.dtype)
    parts = tf.abs((y_true - y_pred) / tf.maximum(tf.abs(y_true), least))
    return 100.0 * tf.reduce_mean(parts, axis=-1)


def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Tensor:
    """Return the mean of ``(log(y_true + 1) - log(y_pred + 1)) ** 2``.

    Args:
        y_true: The targets; less than 1e-7 counts as 1e-7.
        y_pred: The predictions; the same.

    Example:
        >>> mean_squared_logarithmic_error([[1.0, 2.0]], [[1.0, 2.0]]).numpy().tolist()
        [0.0]
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    least = tf.constant(state.epsilon, dtype=y_pred.dtype)
    one, other = (tf.math.log(tf.maximum(y, least) + 1.0) for y in (y_pred, y_true))
    return tf.reduce_mean(tf.square(one - other), axis=-1)


def huber(y_true: Any, y_pred: Any, delta: float = 1.0) -> Tensor:
    """Return half the squared error near the target, and a line far from it.

    Args:
        delta: The error at which the line begins.

    Example:
        >>> round(float(huber([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        1.0
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    error = tf.abs(y_pred - y_true)
    limit = tf.constant(float(delta), dtype=y_pred.dtype)
    near = 0.5 * tf.square(error)
    far = limit * error - 0.5 * tf.square(limit)
    return tf.reduce_mean(tf.where(tf.less_equal(error, limit), near, far), axis=-1)


def log_cosh(y_true: Any, y_pred: Any) -> Tensor:
    """Return the mean of ``log(cosh(y_pred - y_true))``.

    Example:
        >>> round(float(log_cosh([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        0.8794
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    x = y_pred - y_true
    half = tf.math.log(tf.constant(2.0, dtype=x.dtype))
    return tf.reduce_mean(x + tf.math.softplus(-2.0 * x) - half, axis=-1)


def poisson(y_true: Any, y_pred: Any) -> Tensor:
    """Return the mean of ``y_pred - y_true * log(y_pred)``.

    Args:
        y_pred: The predictions, not negative.

    Example:
        >>> round(float(poisson([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        1.2671
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    return tf.reduce_mean(
        y_pred - y_true * tf.math.log(y_pred + state.epsilon), axis=-1
    )


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    """Return the negated cosine of the angle between targets and predictions.

    Args:
        axis: The axis along which they are vectors.

    Returns:
        A tensor without ``axis``: -1 where they point the same way.

    Example:
        >>> round(float(cosine_similarity([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        -1.0
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    one, other = (tf.math.l2_normalize(y, axis=axis) for y in (y_true, y_pred))
    return -tf.reduce_sum(one * other, axis=axis)


def _as_signs(y_true: Tensor) -> Tensor:
    """Return targets of 0 and 1 as -1 and 1; others as they are."""
    is_zero, is_one = tf.equal(y_true, 0.0), tf.equal(y_true, 1.0)
    is_binary = tf.reduce_all(tf.logical_or(is_zero, is_one))
    return tf.where(is_binary, 2.0 * y_true - 1.0, y_true)


def hinge(y_true: Any, y_pred: Any) -> Tensor:
    """Return the mean of ``max(1 - y_true * y_pred, 0)``.

    Args:
        y_true: Targets of -1 and 1; where all are 0 or 1, 0 counts as -1.

    Example:
        >>> round(float(hinge([[1.0, -1.0]], [[0.5, 0.5]])[0]), 4)
        1.0
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    return tf.reduce_mean(tf.nn.relu(1.0 - _as_signs(y_true) * y_pred), axis=-1)


def squared_hinge(y_true: Any, y_pred: Any) -> Tensor:
    """Return the mean of ``max(1 - y_true * y_pred, 0) ** 2``.

    Args:
        y_true: Targets of -1 and 1; where all are 0 or 1, 0 counts as -1.

    Example:
        >>> round(float(squared_hinge([[1.0, -1.0]], [[0.5, 0.5]])[0]), 4)
        1.25
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    margins = tf.nn.relu(1.0 - _as_signs(y_true) * y_pred)
    return tf.reduce_mean(tf.square(margins), axis=-1)


def categorical_hinge(y_true: Any, y_pred: Any) -> Tensor:
    """Return ``max(best wrong class - right class + 1, 0)``.

    Args:
        y_true: One 1 for each sample, and 0 elsewhere.

    Example:
        >>> round(float(categorical_hinge([[0.0, 1.0]], [[0.5, 0.5]])[0]), 4)
        1.0
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    right = tf.reduce_sum(y_true * y_pred, axis=-1)
    wrong = tf.reduce_max((1.0 - y_true) * y_pred, axis=-1)
    return tf.nn.relu(wrong - right + 1.0)


def dice(y_true: Any, y_pred: Any, axis: Any = None) -> Tensor:
    """Return ``1 - 2 sum(y_true * y_pred) / (sum(y_true) + sum(y_pred))``.

    Args:
        y_true: Targets in [0, 1].
        y_pred: Probabilities of the same shape.
        axis: The axis, or axes, of the sums; None for all, the batch among them.

    Returns:
        A tensor without ``axis``: 0 where predictions are the targets.

    Raises:
        ValueError: The shapes differ.

    Source: ``keras.losses.dice`` of Keras 3.

    Example:
        >>> [round(float(x), 4) for x in dice([[1, 1, 0, 0]], [[0.4, 0, 0, 0.9]], 1)]
        [0.7576]
    """
    return _overlap("dice", y_true, y_pred, axis, 0.5, 0.5)


def tversky(
    y_true: Any, y_pred: Any, alpha: float = 0.5, beta: float = 0.5, axis: Any = None
) -> Tensor:
    """Return 1 minus the part of targets and predictions that both have.

    That is ``both / (both + alpha * missed + beta * wrong)``, where ``both`` is
    ``sum(y_true * y_pred)``, ``missed`` ``sum(y_true * (1 - y_pred))`` and ``wrong``
    ``sum((1 - y_true) * y_pred)``: Keras 3's formula.

    Args:
        y_true: Targets in [0, 1].
        y_pred: Probabilities of the same shape.
        alpha: How much counts what is missed.
        beta: How much counts what is wrongly found. With 0.5 for both it is
            :func:`dice`.
        axis: The axis, or axes, of the sums; None for all, the batch among them.

    Returns:
        A tensor without ``axis``.

    Raises:
        ValueError: The shapes differ; a factor is not a number.

    Source: ``keras.losses.tversky`` of Keras 3.

    Example:
        >>> round(float(tversky([1, 1, 0, 0], [0.5, 0.5, 0.5, 0], 0.25, 0.75)), 4)
        0.3846
    """
    return _overlap("tversky", y_true, y_pred, axis, alpha, beta)


def _overlap(
    name: str, y_true: Any, y_pred: Any, axis: Any, alpha: float, beta: float
) -> Tensor:
    y_true, y_pred = _alike(name, y_true, y_pred)
    axis = _checked_sums(axis)
    alpha, beta = checked_number("alpha", alpha), checked_number("beta", beta)
    products = (y_true * y_pred, y_true * (1.0 - y_pred), (1.0 - y_true) * y_pred)
    both, missed, wrong = (tf.reduce_sum(one, axis=axis) for one in products)
    whole = both + alpha * missed + beta * wrong
    return 1.0 - both / (whole + 0.5 * state.epsilon)


def _checked_sums(axis: Any) -> Any:
    return None if axis is None else checked_axes("axis", axis)


def categorical_focal_crossentropy(
    y_true: Any,
    y_pred: Any,
    alpha: Any = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Tensor:
    """Return the cross-entropy of each sample, in which what is easy counts little.

    The term of a class of probability ``p`` is
    ``-alpha * (1 - p) ** gamma * y_true * log(p)``.

    Args:
        y_true: One probability for each class, the shape of ``y_pred``.
        y_pred: Probabilities, or logits, ``(batch, ..., classes)``.
        alpha: A factor, or a list with one for each class.
        gamma: How much less what is easy counts; 0 for the plain cross-entropy.
        from_logits: Whether ``y_pred`` are logits.
        label_smoothing: ``y_true * (1 - s) + s / classes``.
        axis: The axis of the classes.

    Returns:
        A tensor without the class axis.

    Raises:
        ValueError: The shapes differ; an argument has another value.

    Source: ``keras.losses.categorical_focal_crossentropy`` of Keras 3.

    Example:
        >>> loss = categorical_focal_crossentropy([[0, 0, 1]], [[0.1, 0.85, 0.05]])
        >>> round(float(loss[0]), 4)
        0.6759
    """
    gamma, smoothing, axis = _checked_focus(gamma, label_smoothing, axis)
    y_true, y_pred = _alike("categorical_focal_crossentropy", y_true, y_pred)
    y_true, y_pred = (_classes_last(y, axis) for y in (y_true, y_pred))
    classes = int(y_pred.shape[-1])
    factors = tf.constant(_checked_factors(alpha, classes), dtype=y_pred.dtype)
    if smoothing:
        y_true = y_true * (1.0 - smoothing) + smoothing / classes
    if from_logits:
        y_pred = tf.nn.softmax(y_pred)
    p = _clip(y_pred / tf.reduce_sum(y_pred, axis=-1, keepdims=True))
    terms = factors * tf.pow(1.0 - p, gamma) * y_true * tf.math.log(p)
    return -tf.reduce_sum(terms, axis=-1)


def binary_focal_crossentropy(
    y_true: Any,
    y_pred: Any,
    apply_class_balancing: bool = False,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Tensor:
    """Return the cross-entropy of yes or no, in which what is easy counts little.

    The cross-entropy of an output is multiplied by ``(1 - p) ** gamma``, where ``p`` is
    the probability that it gives to its target.

    Args:
        y_true: Targets in [0, 1].
        y_pred: Probabilities, or logits.
        apply_class_balancing: Whether targets of yes count ``alpha`` times, and those
            of no ``1 - alpha`` times.
        alpha: That factor.
        gamma: How much less what is easy counts; 0 for the plain cross-entropy.
        from_logits: Whether ``y_pred`` are logits.
        label_smoothing: ``y_true * (1 - s) + s / 2``.
        axis: The axis of the mean.

    Returns:
        A tensor without ``axis``.

    Raises:
        ValueError: The shapes differ; an argument has another value.

    Source: ``keras.losses.binary_focal_crossentropy`` of Keras 3.

    Example:
        >>> loss = binary_focal_crossentropy([[0, 1], [0, 0]], [[0.6, 0.4], [0.4, 0.6]])
        >>> [round(float(x), 3) for x in loss]
        [0.33, 0.206]
    """
    gamma, smoothing, axis = _checked_focus(gamma, label_smoothing, axis)
    alpha = checked_number("alpha", alpha)
    y_true, y_pred = _alike("binary_focal_crossentropy", y_true, y_pred)
    if smoothing:
        y_true = y_true * (1.0 - smoothing) + 0.5 * smoothing
    p = tf.sigmoid(y_pred) if from_logits else y_pred
    wrong = y_true * (1.0 - p) + (1.0 - y_true) * p
    kept = _clip(p)
    terms = y_true * tf.math.log(kept) + (1.0 - y_true) * tf.math.log(1.0 - kept)
    losses = -tf.pow(wrong, gamma) * terms
    if apply_class_balancing:
        losses = losses * (y_true * alpha + (1.0 - y_true) * (1.0 - alpha))
    return tf.reduce_mean(losses, axis=axis)


def _checked_focus(gamma: Any, smoothing: Any, axis: Any) -> tuple[float, float, int]:
    gamma = checked_number("gamma", gamma, "a number of 0 or more", lambda g: g >= 0)
    smoothing = checked_number(
        "label_smoothing", smoothing, "a number in [0, 1]", lambda s: 0 <= s <= 1
    )
    return gamma, smoothing, checked_int("axis", axis)


def _checked_factors(alpha: Any, classes: int | None = None) -> Any:
    if not isinstance(alpha, (list, tuple)):
        return checked_number("alpha", alpha, "a number, or a list of numbers")
    if classes is not None and len(alpha) != classes:
        raise ValueError(
            f"`alpha` must have a number for each of the {classes} classes. Received: "
            f"{len(alpha)} numbers."
        )
    return [
        checked_number("alpha", one, "a number, or a list of them") for one in alpha
    ]


def categorical_generalized_cross_entropy(y_true: Any, y_pred: Any, q: float) -> Tensor:
    """Return ``(1 - p ** q) / q``, where ``p`` is what the target's class has.

    Targets that are wrong do less harm than under the cross-entropy, which it nears as
    ``q`` nears 0.

    Args:
        y_true: Class numbers, ``(batch, ...)`` or ``(batch, ..., 1)``.
        y_pred: Probabilities, ``(batch, ..., classes)``.
        q: A number between 0 and 1.

    Returns:
        A tensor without the class axis.

    Raises:
        ValueError: The shapes do not go together; ``q`` is out of range.

    Source: ``keras.losses.categorical_generalized_cross_entropy`` of Keras 3.

    Example:
        >>> loss = categorical_generalized_cross_entropy([1], [[0.36, 0.64]], 0.5)
        >>> round(float(loss[0]), 4)
        0.4
    """
    q = _checked_q(q)
    y_pred = tf.convert_to_tensor(y_pred)
    labels = _class_numbers("categorical_generalized_cross_entropy", y_true, y_pred)
    chosen = tf.one_hot(labels, y_pred.shape[-1], dtype=y_pred.dtype)
    return (1.0 - tf.pow(tf.reduce_sum(chosen * y_pred, axis=-1), q)) / q


def _checked_q(q: Any) -> float:
    return checked_number("q", q, "a number between 0 and 1", lambda q: 0 < q < 1)


def circle(
    y_true: Any,
    y_pred: Any,
    ref_labels: Any = None,
    ref_embeddings: Any = None,
    remove_diagonal: bool = True,
    gamma: float = 80.0,
    margin: float = 0.4,
) -> Tensor:
    """Return the circle loss of embeddings: those of a class near, others far.

    Args:
        y_true: Class numbers, ``(batch,)`` or ``(batch, 1)``.
        y_pred: Embeddings of length 1, ``(batch, dimensions)``.
        ref_labels: The class numbers of what they are compared with; None for
            ``y_true``.
        ref_embeddings: Its embeddings; None for ``y_pred``.
        remove_diagonal: Whether the i-th one is not compared with the i-th.
        gamma: A factor of the similarities.
        margin: From which similarity on a pair counts less.

    Returns:
        A tensor of shape ``(batch,)``: 0 where nothing else is of the class.

    Raises:
        ValueError: The shapes do not go together; a factor is not a number.

    Source: ``keras.losses.circle`` of Keras 3, after arXiv:2002.10857.

    Example:
        >>> loss = circle([0, 0, 1], [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], gamma=1.0)
        >>> [round(float(x), 3) for x in loss]
        [0.563, 0.734, 0.0]
    """
    gamma, margin = checked_number("gamma", gamma), checked_number("margin", margin)
    y_pred = tf.convert_to_tensor(y_pred)
    others = y_pred if ref_embeddings is None else tf.convert_to_tensor(ref_embeddings)
    labels = _labels_of_rows("y_true", y_true, y_pred)
    if ref_labels is not None or ref_embeddings is not None:
        given = y_true if ref_labels is None else ref_labels
        other_labels = _labels_of_rows("ref_labels", given, others)
    else:
        other_labels = labels
    alike = tf.equal(labels[:, tf.newaxis], other_labels[tf.newaxis, :])
    near = tf.cast(alike, y_pred.dtype)
    far = 1.0 - near
    if remove_diagonal:
        count, other_count = int(labels.shape[0]), int(other_labels.shape[0])
        near = near * (1.0 - tf.eye(count, other_count, dtype=y_pred.dtype))
    distance = tf.nn.relu(1.0 - tf.matmul(y_pred, others, transpose_b=True))
    pull = gamma * tf.nn.relu(margin + distance) * (distance - margin)
    push = gamma * tf.nn.relu(1.0 + margin - distance) * (1.0 - margin - distance)
    none = tf.constant(tf.as_dtype(y_pred.dtype).min, dtype=y_pred.dtype)
    sums = [
        tf.reduce_logsumexp(tf.where(tf.greater(mask, 0.0), terms, none), axis=1)
        for mask, terms in ((near, pull), (far, push))
    ]
    return tf.math.softplus(sums[0] + sums[1])


def _labels_of_rows(name: str, labels: Any, embeddings: Tensor) -> Tensor:
    numbers = tf.cast(tf.convert_to_tensor(labels), "int32")
    rows = tuple(embeddings.shape)
    if len(rows) != 2 or tuple(numbers.shape) not in ((rows[0],), (rows[0], 1)):
        raise ValueError(
            "circle needs embeddings of shape (batch, dimensions), and in "
            f"`{name}` one class number for each. Received: embeddings of shape "
            f"{rows} and class numbers of shape {tuple(numbers.shape)}."
        )
    return tf.reshape(numbers, (-1,))


def ctc(y_true: Any, y_pred: Any) -> Tensor:
    """Return the CTC loss of each sample: class 0 is the blank, and ends labels.

    Args:
        y_true: Class numbers ``(batch, longest label)``, with 0 after a label's end.
        y_pred: Logits ``(batch, time, classes)``, of which all times count.

    Returns:
        A tensor of shape ``(batch,)``.

    Raises:
        ValueError: The shapes are others.

    Source: ``keras.losses.ctc`` of Keras 3. ``tf.nn.ctc_loss`` takes lengths.

    Example:
        >>> round(float(ctc([[1]], [[[0.0, 0.0]]])[0]), 4)
        0.6931
    """
    y_true, y_pred = tf.convert_to_tensor(y_true), tf.convert_to_tensor(y_pred)
    if len(y_true.shape) != 2 or len(y_pred.shape) != 3:
        raise ValueError(
            "ctc needs class numbers of shape (batch, longest label) and logits of "
            "shape (batch, time, classes). Received: targets of shape "
            f"{tuple(y_true.shape)} and predictions of shape {tuple(y_pred.shape)}."
        )
    labels = tf.cast(y_true, "int32")
    count, times = (int(size) for size in tuple(y_pred.shape)[:2])
    lengths = tf.reduce_sum(tf.cast(tf.not_equal(labels, 0), "int32"), axis=-1)
    all_times = tf.fill((count,), times)
    return tf.nn.ctc_loss(
        labels, y_pred, lengths, all_times, logits_time_major=False, blank_index=0
    )


# --- classes: reduced to one number ---------------------------------------------------


class _OfFunction(Configured):
    """A loss or a metric of the function that stands in a subclass's head."""

    _function: Callable[..., Tensor]

    def __init_subclass__(cls, function: Any = None, **defaults: Any) -> None:
        if function is not None:
            cls._function = staticmethod(function)
            defaults.setdefault("name", function.__name__)
        super().__init_subclass__(**defaults)


class _LossOf(_OfFunction, LossFunctionWrapper):
    def __init__(self, reduction: str = Reduction.AUTO, name: str = "") -> None:
        super().__init__(self._function, reduction, name)


class _Crossentropy(_OfFunction, LossFunctionWrapper):
    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str = Reduction.AUTO,
        name: str = "",
    ) -> None:
        kept = {"from_logits": from_logits, "label_smoothing": label_smoothing}
        super().__init__(self._function, reduction, name, **kept, axis=axis)


class MeanSquaredError(_LossOf, function=mean_squared_error):
    """The mean of ``(y_true - y_pred) ** 2``.

    Example:
        >>> float(MeanSquaredError()([[0.0, 1.0]], [[1.0, 1.0]]))
        0.5
    """


class MeanAbsoluteError(_LossOf, function=mean_absolute_error):
    """The mean of ``abs(y_true - y_pred)``.

    Example:
        >>> round(float(MeanAbsoluteError()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        1.5
    """


class BinaryCrossentropy(_Crossentropy, function=binary_crossentropy):
    """Cross-entropy of yes-or-no targets.

    Args:
        from_logits: Whether ``y_pred`` are logits rather than probabilities.
        label_smoothing: In [0, 1]: draws targets towards one half.
        axis: The axis of the mean.

    Example:
        >>> round(float(BinaryCrossentropy()([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        0.6931
    """


class CategoricalCrossentropy(_Crossentropy, function=categorical_crossentropy):
    """Cross-entropy of targets given as one probability for each class.

    Args:
        from_logits: Whether ``y_pred`` are logits rather than probabilities.
        label_smoothing: In [0, 1]: draws targets towards the uniform distribution.
        axis: The axis of the classes.

    Example:
        >>> round(float(CategoricalCrossentropy()([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        0.6931
    """


class SparseCategoricalCrossentropy(LossFunctionWrapper):
    """Cross-entropy of targets given as class numbers.

    Args:
        from_logits: Whether ``y_pred`` are logits rather than probabilities.
        ignore_class: The number of a class whose targets do not count, in the mean
            either; None: all count.
        axis: The axis of the classes.

    Raises:
        ValueError: ``ignore_class`` or ``axis`` is not an integer.

    Example:
        >>> loss = SparseCategoricalCrossentropy(from_logits=True)
        >>> round(float(loss([1], [[0.0, 0.0]])), 4)
        0.6931
    """

    def __init__(
        self,
        from_logits: bool = False,
        reduction: str = Reduction.AUTO,
        name: str = "sparse_categorical_crossentropy",
        *,
        ignore_class: int | None = None,
        axis: int = -1,
    ) -> None:
        kept: dict[str, Any] = {"from_logits": from_logits}
        if ignore_class is not None:
            kept["ignore_class"] = checked_int("ignore_class", ignore_class)
        if checked_int("axis", axis) != -1:
            kept["axis"] = axis
        super().__init__(sparse_categorical_crossentropy, reduction, name, **kept)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        losses = super().call(y_true, y_pred)
        ignored = self._fn_kwargs.get("ignore_class")
        if ignored is None:
            return losses
        labels = tf.reshape(tf.cast(y_true, "int32"), tuple(losses.shape))
        return self._of_those(losses, tf.not_equal(labels, ignored))


class MeanAbsolutePercentageError(_LossOf, function=mean_absolute_percentage_error):
    """100 times the mean of ``abs((y_true - y_pred) / y_true)``.

    Example:
        >>> round(float(MeanAbsolutePercentageError()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        100.0
    """


class MeanSquaredLogarithmicError(_LossOf, function=mean_squared_logarithmic_error):
    """The mean of ``(log(y_true + 1) - log(y_pred + 1)) ** 2``.

    Example:
        >>> round(float(MeanSquaredLogarithmicError()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        0.2127
    """


class Huber(LossFunctionWrapper):
    """Half the squared error near the target, and a line far from it.

    Args:
        delta: The error at which the line begins.

    Example:
        >>> float(Huber()([[0.0, 0.0]], [[1.0, 3.0]]))
        1.5
    """

    def __init__(
        self,
        delta: float = 1.0,
        reduction: str = Reduction.AUTO,
        name: str = "huber_loss",
    ) -> None:
        super().__init__(huber, reduction, name, delta=delta)


class LogCosh(_LossOf, function=log_cosh):
    """The mean of ``log(cosh(y_pred - y_true))``.

    Example:
        >>> round(float(LogCosh()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        0.8794
    """


class KLDivergence(_LossOf, function=kl_divergence):
    """The divergence ``sum(y_true * log(y_true / y_pred))``.

    Example:
        >>> round(float(KLDivergence()([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        0.6931
    """


class Poisson(_LossOf, function=poisson):
    """The mean of ``y_pred - y_true * log(y_pred)``.

    Example:
        >>> round(float(Poisson()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        1.2671
    """


class CosineSimilarity(LossFunctionWrapper):
    """The negated cosine: -1 where predictions point the same way as targets.

    Args:
        axis: The axis along which they are vectors.

    Example:
        >>> round(float(CosineSimilarity()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        -1.0
    """

    def __init__(
        self,
        axis: int = -1,
        reduction: str = Reduction.AUTO,
        name: str = "cosine_similarity",
    ) -> None:
        super().__init__(cosine_similarity, reduction, name, axis=axis)


class Hinge(_LossOf, function=hinge):
    """The mean of ``max(1 - y_true * y_pred, 0)``, with targets of -1 and 1.

    Example:
        >>> round(float(Hinge()([[1.0, -1.0]], [[0.5, 0.5]])), 4)
        1.0
    """


class SquaredHinge(_LossOf, function=squared_hinge):
    """The mean of ``max(1 - y_true * y_pred, 0) ** 2``, with targets of -1 and 1.

    Example:
        >>> round(float(SquaredHinge()([[1.0, -1.0]], [[0.5, 0.5]])), 4)
        1.25
    """


class CategoricalHinge(_LossOf, function=categorical_hinge):
    """``max(best wrong class - right class + 1, 0)``, given one-hot targets.

    Example:
        >>> round(float(CategoricalHinge()([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        1.0
    """


class Dice(LossFunctionWrapper):
    """``1 - 2 sum(y_true * y_pred) / (sum(y_true) + sum(y_pred))``.

    Args:
        axis: The axis, or axes, of the sums; None for all, the batch among them.

    Raises:
        ValueError: ``axis`` has another value.

    Example:
        >>> round(float(Dice()([[1, 1, 0, 0]], [[0.4, 0.0, 0.0, 0.9]])), 4)
        0.7576
    """

    def __init__(
        self, reduction: str = Reduction.AUTO, name: str = "dice", axis: Any = None
    ) -> None:
        super().__init__(dice, reduction, name, axis=_checked_sums(axis))


class Tversky(LossFunctionWrapper):
    """1 minus the part of targets and predictions that both have.

    Args:
        alpha: How much counts what is missed.
        beta: How much counts what is wrongly found.
        axis: The axis, or axes, of the sums; None for all, the batch among them.

    Raises:
        ValueError: An argument has another value.

    Example:
        >>> loss = Tversky(alpha=0.25, beta=0.75)
        >>> round(float(loss([[1, 1, 0, 0]], [[0.5, 0.5, 0.5, 0.0]])), 4)
        0.3846
    """

    def __init__(
        self,
        alpha: float = 0.5,
        beta: float = 0.5,
        reduction: str = Reduction.AUTO,
        name: str = "tversky",
        axis: Any = None,
    ) -> None:
        alpha, beta = checked_number("alpha", alpha), checked_number("beta", beta)
        kept = {"alpha": alpha, "beta": beta, "axis": _checked_sums(axis)}
        super().__init__(tversky, reduction, name, **kept)


class CategoricalFocalCrossentropy(LossFunctionWrapper):
    """Cross-entropy of one-hot targets, in which what is easy counts little.

    Args:
        alpha: A factor, or a list with one for each class.
        gamma: How much less what is easy counts; 0 for the plain cross-entropy.
        from_logits: Whether ``y_pred`` are logits rather than probabilities.
        label_smoothing: In [0, 1]: draws targets towards the uniform distribution.
        axis: The axis of the classes.

    Raises:
        ValueError: An argument has another value.

    Example:
        >>> loss = CategoricalFocalCrossentropy()
        >>> round(float(loss([[0, 0, 1]], [[0.1, 0.85, 0.05]])), 4)
        0.6759
    """

    def __init__(
        self,
        alpha: Any = 0.25,
        gamma: float = 2.0,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str = Reduction.AUTO,
        name: str = "categorical_focal_crossentropy",
    ) -> None:
        gamma, smoothing, axis = _checked_focus(gamma, label_smoothing, axis)
        super().__init__(
            categorical_focal_crossentropy,
            reduction,
            name,
            alpha=_checked_factors(alpha),
            gamma=gamma,
            from_logits=from_logits,
            label_smoothing=smoothing,
            axis=axis,
        )


class BinaryFocalCrossentropy(LossFunctionWrapper):
    """Cross-entropy of yes-or-no targets, in which what is easy counts little.

    Args:
        apply_class_balancing: Whether targets of yes count ``alpha`` times, and those
            of no ``1 - alpha`` times.
        alpha: That factor.
        gamma: How much less what is easy counts; 0 for the plain cross-entropy.
        from_logits: Whether ``y_pred`` are logits rather than probabilities.
        label_smoothing: In [0, 1]: draws targets towards one half.
        axis: The axis of the mean.

    Raises:
        ValueError: An argument has another value.

    Example:
        >>> loss = BinaryFocalCrossentropy()
        >>> round(float(loss([[0, 1], [0, 0]], [[0.6, 0.4], [0.4, 0.6]])), 3)
        0.268
    """

    def __init__(
        self,
        apply_class_balancing: bool = False,
        alpha: float = 0.25,
        gamma: float = 2.0,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str = Reduction.AUTO,
        name: str = "binary_focal_crossentropy",
    ) -> None:
        gamma, smoothing, axis = _checked_focus(gamma, label_smoothing, axis)
        super().__init__(
            binary_focal_crossentropy,
            reduction,
            name,
            apply_class_balancing=apply_class_balancing,
            alpha=checked_number("alpha", alpha),
            gamma=gamma,
            from_logits=from_logits,
            label_smoothing=smoothing,
            axis=axis,
        )


class CategoricalGeneralizedCrossEntropy(LossFunctionWrapper):
    """``(1 - p ** q) / q``, where ``p`` is what the target's class has.

    Args:
        q: A number between 0 and 1; the nearer to 1, the less harm do wrong targets.

    Raises:
        ValueError: ``q`` is out of range.

    Example:
        >>> loss = CategoricalGeneralizedCrossEntropy(q=0.5)
        >>> round(float(loss([1], [[0.36, 0.64]])), 4)
        0.4
    """

    def __init__(
        self,
        q: float = 0.5,
        reduction: str = Reduction.AUTO,
        name: str = "categorical_generalized_cross_entropy",
    ) -> None:
        function = categorical_generalized_cross_entropy
        super().__init__(function, reduction, name, q=_checked_q(q))


class Circle(LossFunctionWrapper):
    """The circle loss of embeddings of length 1, given class numbers.

    The mean is that of the samples whose loss is not 0.

    Args:
        gamma: A factor of the similarities.
        margin: From which similarity on a pair counts less.
        remove_diagonal: Whether a sample is not compared with itself.

    Raises:
        ValueError: A factor is not a number.

    Example:
        >>> loss = Circle(gamma=1.0)
        >>> round(float(loss([0, 0, 1], [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])), 3)
        0.648
    """

    def __init__(
        self,
        gamma: float = 80.0,
        margin: float = 0.4,
        remove_diagonal: bool = True,
        reduction: str = Reduction.AUTO,
        name: str = "circle",
    ) -> None:
        gamma, margin = checked_number("gamma", gamma), checked_number("margin", margin)
        kept = {"gamma": gamma, "margin": margin, "remove_diagonal": remove_diagonal}
        super().__init__(circle, reduction, name, **kept)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        losses = circle(y_true, y_pred, **self._fn_kwargs)
        return self._of_those(losses, tf.greater(losses, 0.0))


class CTC(_LossOf, function=ctc):
    """The CTC loss of logits, given class numbers that end with zeros.

    Example:
        >>> round(float(CTC()([[1]], [[[0.0, 0.0]]])), 4)
        0.6931
    """


BCE = bce = binary_crossentropy
KLD = kld = kullback_leibler_divergence = kl_divergence
MAE = mae = mean_absolute_error
MAPE = mape = mean_absolute_percentage_error
MSE = mse = mean_squared_error
MSLE = msle = mean_squared_logarithmic_error
logcosh = log_cosh

# every public name that stands for a loss
_TABLE: dict[str, Any] = {
    name: globals()[name]
    for name in defined(__name__)
    if name not in ("Loss", "LossFunctionWrapper", "Reduction")
}
_TABLE |= {"circle": Circle}  # its mean leaves samples out
_TABLE |= {"huber_loss": huber, "cosine_proximity": cosine_similarity}


def get(identifier: Any) -> Any:
    """Return the loss that an argument names.

    Args:
        identifier: None, a configuration, a name such as ``"mse"``, a loss or a loss
            function.

    Returns:
        None, a ``Loss``, or a function ``(y_true, y_pred)``.

    Raises:
        ValueError: There is no loss of that name; the nearest is offered.
        TypeError: It is anything else.

    Example:
        >>> get("mse")([[1.0]], [[3.0]]).numpy().tolist()
        [4.0]
    """
    wanted = "A loss must be None, a name, a Loss or a function (y_true, y_pred)."
    return _serialization.resolve(identifier, "loss function", _TABLE, wanted, Loss)


@like(_serialization.serialize_keras_object)
def serialize(loss: Any) -> Any:
    return _serialization.serialize_keras_object(loss)


@like(_serialization.deserialize_keras_object)
def deserialize(config: Any, custom_objects: Any = None) -> Any:
    with _serialization.CustomObjectScope(custom_objects or {}):
        return get(config)


export(__name__)
