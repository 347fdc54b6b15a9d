# SPDX-License-Identifier: MIT
"""``ipu.keras.losses``: what training makes small.

A loss function takes the targets ``y_true``, which are cast to the dtype of the
predictions ``y_pred``, and gives one number for each sample: a tensor without the last
axis. A loss object reduces them to one; it takes a ``reduction``, a value of
:class:`Reduction`, and a ``name``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu import tf
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
    """How the losses of the samples become one number.

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
        """Give all values."""
        return (cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE)

    @classmethod
    def validate(cls, key: str) -> None:
        """Check a value.

        Raises:
            ValueError: It is none of them.
        """
        if key not in cls.all():
            raise ValueError(
                f"Invalid Reduction Key: {key!r}.{_names.nearest(str(key), cls.all())}"
            )


@boundaries("__call__")
class Loss(Configured):
    """Base class of losses: ``call`` for samples, then a reduction.

    Args:
        reduction: A value of ``Reduction``; AUTO means SUM_OVER_BATCH_SIZE, the mean.
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

    def __init__(self, reduction: str = Reduction.AUTO, name: str | None = None):
        Reduction.validate(reduction)
        self.reduction = reduction
        self.name = name or _names.snake_case(type(self).__name__)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Give the loss of each sample.

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
        """Give the reduced loss.

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
    y_true: Any, y_pred: Any, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """Give the cross-entropy of each sample; targets are class numbers.

    Args:
        y_true: Class numbers of any dtype, ``(batch, ...)`` or ``(batch, ..., 1)``.
        y_pred: Probabilities, or logits, ``(batch, ..., classes)``.
        from_logits: Which of them. Where ``y_pred`` is the result of a softmax, its
            logits are used in any case.
        axis: The axis of the classes.

    Returns:
        A tensor without the class axis.

    Raises:
        ValueError: The shapes do not go together.

    Example:
        >>> round(float(sparse_categorical_crossentropy([1], [[0.5, 0.5]])[0]), 4)
        0.6931
    """
    y_pred = tf.convert_to_tensor(y_pred)
    logits = _as_logits(
        "sparse_categorical_crossentropy", y_pred, from_logits, axis, normalise=False
    )
    labels = tf.convert_to_tensor(y_true)
    shape = tuple(logits.shape)
    if len(labels.shape) == len(shape) and labels.shape[-1] == 1:
        labels = tf.reshape(labels, tuple(labels.shape)[:-1])
    if tuple(labels.shape) != shape[:-1]:
        raise ValueError(
            "sparse_categorical_crossentropy needs one class number for each row of "
            f"predictions. Received: targets of shape {tuple(labels.shape)} and "
            f"predictions of shape {tuple(y_pred.shape)}. Targets of one probability "
            "for each class belong to categorical_crossentropy."
        )
    if tf.as_dtype(labels.dtype).name != "int32":
        labels = tf.cast(labels, "int32")
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def categorical_crossentropy(
    y_true: Any,
    y_pred: Any,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Tensor:
    """Give the cross-entropy of each sample; targets are probabilities.

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
    """Give the cross-entropy of yes-or-no targets, the mean over an axis.

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
    """Give the divergence ``sum(y_true * log(y_true / y_pred))`` of each sample.

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
    """Logits with the classes in the last axis: what the fused losses take."""
    logits = _remembered(name, y_pred, from_logits, "softmax")
    if logits is not None:
        return logits
    y_pred = _classes_last(y_pred, axis)
    if from_logits:
        return y_pred
    if normalise:
        y_pred = y_pred / tf.reduce_sum(y_pred, axis=-1, keepdims=True)
    return tf.math.log(_clip(y_pred))


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
    """Give the mean over the last axis of ``(y_true - y_pred) ** 2``.

    Example:
        >>> round(float(mean_squared_error([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        2.5
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    return tf.reduce_mean(tf.square(y_pred - y_true), axis=-1)


def mean_absolute_error(y_true: Any, y_pred: Any) -> Tensor:
    """Give the mean over the last axis of ``abs(y_true - y_pred)``.

    Example:
        >>> round(float(mean_absolute_error([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        1.5
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    return tf.reduce_mean(tf.abs(y_pred - y_true), axis=-1)


def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Tensor:
    """Give 100 times the mean of ``abs((y_true - y_pred) / y_true)``.

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
    """Give the mean of ``(log(y_true + 1) - log(y_pred + 1)) ** 2``.

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
    """Give half the squared error near the target, and a line far from it.

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
    """Give the mean of ``log(cosh(y_pred - y_true))``.

    Example:
        >>> round(float(log_cosh([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        0.8794
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    x = y_pred - y_true
    half = tf.math.log(tf.constant(2.0, dtype=x.dtype))
    return tf.reduce_mean(x + tf.math.softplus(-2.0 * x) - half, axis=-1)


def poisson(y_true: Any, y_pred: Any) -> Tensor:
    """Give the mean of ``y_pred - y_true * log(y_pred)``.

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
    """Give the negated cosine of the angle between targets and predictions.

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
    """Targets of 0 and 1 as -1 and 1; others as they are."""
    is_zero, is_one = tf.equal(y_true, 0.0), tf.equal(y_true, 1.0)
    is_binary = tf.reduce_all(tf.logical_or(is_zero, is_one))
    return tf.where(is_binary, 2.0 * y_true - 1.0, y_true)


def hinge(y_true: Any, y_pred: Any) -> Tensor:
    """Give the mean of ``max(1 - y_true * y_pred, 0)``.

    Args:
        y_true: Targets of -1 and 1; where all are 0 or 1, 0 counts as -1.

    Example:
        >>> round(float(hinge([[1.0, -1.0]], [[0.5, 0.5]])[0]), 4)
        1.0
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    return tf.reduce_mean(tf.nn.relu(1.0 - _as_signs(y_true) * y_pred), axis=-1)


def squared_hinge(y_true: Any, y_pred: Any) -> Tensor:
    """Give the mean of ``max(1 - y_true * y_pred, 0) ** 2``.

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
    """Give ``max(best wrong class - right class + 1, 0)``.

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
    ) -> None:
        super().__init__(
            sparse_categorical_crossentropy, reduction, name, from_logits=from_logits
        )


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
_TABLE |= {"huber_loss": huber, "cosine_proximity": cosine_similarity}


def get(identifier: Any) -> Any:
    """Give the loss that an argument names.

    Args:
        identifier: None, a configuration, a name such as ``"mse"``, a loss or a loss
            function.

    Returns:
        None, a ``Loss``, or a function ``(y_true, y_pred)``.

    Raises:
        ValueError: There is no loss of that name; the nearest is offered.
        TypeError: It is none of these.

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
