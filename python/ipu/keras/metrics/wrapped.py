# SPDX-License-Identifier: MIT
"""Metrics that are means of a function of targets and predictions."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._text.arguments import as_int, checked_axes, checked_int
from ipu._text.exports import export
from ipu.keras._backend_state import state
from ipu.keras._shape_fitting import fit_weights, same_dtype, squeeze_pair
from ipu.keras._types import Tensor
from ipu.keras.losses import (
    _OfFunction,
    binary_crossentropy,
    categorical_crossentropy,
    categorical_hinge,
    hinge,
    kl_divergence,
    log_cosh,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    mean_squared_logarithmic_error,
    poisson,
    sparse_categorical_crossentropy,
    squared_hinge,
)
from ipu.keras.metrics.base import MeanMetricWrapper


def accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """Return 1.0 where targets and predictions are equal, else 0.0."""
    y_pred = tf.convert_to_tensor(y_pred)
    y_true = tf.cast(tf.convert_to_tensor(y_true), y_pred.dtype)
    return tf.cast(tf.equal(y_true, y_pred), "float32")


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Tensor:
    """Return the part of the last axis where ``y_pred > threshold`` is the target.

    Example:
        >>> round(float(binary_accuracy([[0.0, 1.0]], [[0.2, 0.3]])[0]), 4)
        0.5
    """
    y_pred = tf.convert_to_tensor(y_pred)
    limit = tf.constant(threshold, dtype=y_pred.dtype)
    decided = tf.cast(tf.greater(y_pred, limit), y_pred.dtype)
    y_true = tf.cast(tf.convert_to_tensor(y_true), y_pred.dtype)
    return tf.reduce_mean(tf.cast(tf.equal(y_true, decided), "float32"), axis=-1)


def categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """Return 1.0 where target and prediction are largest at the same class.

    Example:
        >>> round(float(categorical_accuracy([[0.0, 1.0]], [[0.2, 0.3]])[0]), 4)
        1.0
    """
    target = tf.argmax(tf.convert_to_tensor(y_true), axis=-1, output_type="int32")
    found = tf.argmax(tf.convert_to_tensor(y_pred), axis=-1, output_type="int32")
    return tf.cast(tf.equal(target, found), "float32")


def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """Return 1.0 where the prediction is largest at the target's class.

    Example:
        >>> round(float(sparse_categorical_accuracy([1], [[0.2, 0.3]])[0]), 4)
        1.0
    """
    y_pred = tf.convert_to_tensor(y_pred)
    y_true = tf.convert_to_tensor(y_true)
    if len(y_true.shape) == len(y_pred.shape) and y_true.shape[-1] == 1:
        y_true = tf.reshape(y_true, tuple(y_true.shape)[:-1])
    if tf.as_dtype(y_true.dtype).name != "int32":
        y_true = tf.cast(y_true, "int32")
    found = tf.argmax(y_pred, axis=-1, output_type="int32")
    return tf.cast(tf.equal(y_true, found), "float32")


def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """Return 1.0 where the target's class is among the ``k`` most probable ones.

    Example:
        >>> scores = [[0.3, 0.2, 0.5]]
        >>> top_k_categorical_accuracy([[0.0, 1.0, 0.0]], scores, k=2).numpy().tolist()
        [0.0]
    """
    target = tf.argmax(tf.convert_to_tensor(y_true), axis=-1, output_type="int32")
    return sparse_top_k_categorical_accuracy(target, y_pred, k)


def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """Return 1.0 where the target is among the ``k`` most probable classes.

    Example:
        >>> scores = [[0.3, 0.2, 0.5]]
        >>> round(float(sparse_top_k_categorical_accuracy([1], scores, k=2)[0]), 4)
        0.0
    """
    k = as_int(k)
    y_pred = tf.convert_to_tensor(y_pred)
    classes = y_pred.shape[-1]
    target = tf.reshape(tf.cast(tf.convert_to_tensor(y_true), "int32"), (-1,))
    rows = tf.reshape(y_pred, (-1, classes))
    found = tf.cast(tf.nn.in_top_k(target, rows, min(k, classes)), "float32")
    return tf.reshape(found, tuple(y_pred.shape)[:-1])


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    """Return the cosine of the angle between targets and predictions."""
    y_pred = tf.convert_to_tensor(y_pred)
    y_true = tf.cast(tf.convert_to_tensor(y_true), y_pred.dtype)
    one, other = (tf.math.l2_normalize(y, axis=axis) for y in (y_true, y_pred))
    return tf.reduce_sum(one * other, axis=axis)


def _deviations(y_true: Any, y_pred: Any, axis: Any) -> list[Tensor]:
    """Return means and variances of targets and predictions, and what the two share."""
    y_true, y_pred = squeeze_pair(*same_dtype(y_true, y_pred))
    axis = checked_axes("axis", axis)
    means = [tf.reduce_mean(y, axis=axis, keepdims=True) for y in (y_true, y_pred)]
    true, found = y_true - means[0], y_pred - means[1]
    products = (true * true, found * found, true * found)
    gap = tf.squeeze(means[0] - means[1], axis=axis)
    return [*(tf.reduce_mean(product, axis=axis) for product in products), gap]


def pearson_correlation(y_true: Any, y_pred: Any, axis: Any = -1) -> Tensor:
    """Return Pearson's coefficient of correlation, from -1 to 1.

    Args:
        y_true: Targets.
        y_pred: Predictions of the same shape.
        axis: The axis, or axes, along which the numbers to compare lie. Of one number,
            or of equal ones, the coefficient is NaN.

    Returns:
        A tensor without ``axis``.

    Source: ``keras.metrics.pearson_correlation`` of Keras 3.

    Example:
        >>> found = pearson_correlation([[0, 1, 0.5], [1, 1, 0.2]],
        ...                             [[0.1, 0.9, 0.5], [1, 0.9, 0.2]])
        >>> [round(float(value), 4) for value in found]
        [1.0, 0.9934]
    """
    true, found, both, _ = _deviations(y_true, y_pred, axis)
    return both / (tf.sqrt(true) * tf.sqrt(found))


def concordance_correlation(y_true: Any, y_pred: Any, axis: Any = -1) -> Tensor:
    """Return Lin's coefficient of concordance: 1 where predictions are the targets.

    Args:
        y_true: Targets.
        y_pred: Predictions of the same shape.
        axis: The axis, or axes, along which the numbers to compare lie.

    Returns:
        A tensor without ``axis``.

    Source: ``keras.metrics.concordance_correlation`` of Keras 3.

    Example:
        >>> found = concordance_correlation([[0, 1, 0.5], [1, 1, 0.2]],
        ...                                 [[0.1, 0.9, 0.5], [1, 0.9, 0.2]])
        >>> [round(float(value), 4) for value in found]
        [0.9756, 0.9877]
    """
    true, found, both, gap = _deviations(y_true, y_pred, axis)
    return 2.0 * both / (true + found + tf.square(gap) + state.epsilon)


class _MeanOf(_OfFunction, MeanMetricWrapper):
    """The mean of the function that stands in a subclass's head."""

    def __init__(self, name: str = "", dtype: Any = None) -> None:
        super().__init__(self._function, name, dtype)


class _TopK(_OfFunction, MeanMetricWrapper):
    def __init__(self, k: int = 5, name: str = "", dtype: Any = None) -> None:
        super().__init__(self._function, name, dtype, k=k)


class _Crossentropy(_OfFunction, MeanMetricWrapper):
    def __init__(
        self,
        name: str = "",
        dtype: Any = None,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
    ) -> None:
        kept = {"from_logits": from_logits, "label_smoothing": label_smoothing}
        super().__init__(self._function, name, dtype, **kept)


class Accuracy(_MeanOf, function=accuracy):
    """Compute how often predictions equal targets.

    Example:
        >>> round(float(Accuracy()([1, 2], [1, 3])), 4)
        0.5
    """


class BinaryAccuracy(MeanMetricWrapper):
    """Compute how often ``y_pred > threshold`` is the target.

    Example:
        >>> metric = BinaryAccuracy()
        >>> round(float(metric([0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.6, 0.9])), 4)
        0.75
    """

    def __init__(
        self,
        name: str = "binary_accuracy",
        dtype: Any = None,
        threshold: float = 0.5,
    ) -> None:
        super().__init__(binary_accuracy, name, dtype, threshold=threshold)


class CategoricalAccuracy(_MeanOf, function=categorical_accuracy):
    """Compute how often the most probable class is that of a one-hot target.

    Example:
        >>> round(float(CategoricalAccuracy()([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        0.0
    """


class SparseCategoricalAccuracy(_MeanOf, function=sparse_categorical_accuracy):
    """Compute how often the most probable class is the target, a class number.

    Example:
        >>> round(float(SparseCategoricalAccuracy()([1], [[0.5, 0.5]])), 4)
        0.0
    """


class TopKCategoricalAccuracy(_TopK, function=top_k_categorical_accuracy):
    """How often the target is among the ``k`` most probable classes, given one-hot
    targets.

    Example:
        >>> round(float(TopKCategoricalAccuracy(k=1)([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        1.0
    """


class SparseTopKCategoricalAccuracy(_TopK, function=sparse_top_k_categorical_accuracy):
    """How often the target is among the ``k`` most probable classes, given class
    numbers.

    Example:
        >>> round(float(SparseTopKCategoricalAccuracy(k=1)([1], [[0.5, 0.5]])), 4)
        1.0
    """


class MeanSquaredError(_MeanOf, function=mean_squared_error):
    """The mean of ``(y_true - y_pred) ** 2``.

    Example:
        >>> round(float(MeanSquaredError()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        2.5
    """


class MeanAbsoluteError(_MeanOf, function=mean_absolute_error):
    """The mean of ``abs(y_true - y_pred)``.

    Example:
        >>> round(float(MeanAbsoluteError()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        1.5
    """


class MeanAbsolutePercentageError(_MeanOf, function=mean_absolute_percentage_error):
    """100 times the mean of ``abs((y_true - y_pred) / y_true)``.

    Example:
        >>> round(float(MeanAbsolutePercentageError()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        100.0
    """


class MeanSquaredLogarithmicError(_MeanOf, function=mean_squared_logarithmic_error):
    """The mean of ``(log(y_true + 1) - log(y_pred + 1)) ** 2``.

    Example:
        >>> round(float(MeanSquaredLogarithmicError()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        0.2127
    """


class LogCoshError(_MeanOf, function=log_cosh, name="logcosh"):
    """The mean of ``log(cosh(y_pred - y_true))``.

    Example:
        >>> round(float(LogCoshError()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        0.8794
    """


class KLDivergence(_MeanOf, function=kl_divergence, name="kullback_leibler_divergence"):
    """The mean of ``sum(y_true * log(y_true / y_pred))``.

    Example:
        >>> round(float(KLDivergence()([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        0.6931
    """


class Poisson(_MeanOf, function=poisson):
    """The mean of ``y_pred - y_true * log(y_pred)``.

    Example:
        >>> round(float(Poisson()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        1.2671
    """


class Hinge(_MeanOf, function=hinge):
    """The mean of ``max(1 - y_true * y_pred, 0)``.

    Example:
        >>> round(float(Hinge()([[1.0, -1.0]], [[0.5, 0.5]])), 4)
        1.0
    """


class SquaredHinge(_MeanOf, function=squared_hinge):
    """The mean of ``max(1 - y_true * y_pred, 0) ** 2``.

    Example:
        >>> round(float(SquaredHinge()([[1.0, -1.0]], [[0.5, 0.5]])), 4)
        1.25
    """


class CategoricalHinge(_MeanOf, function=categorical_hinge):
    """The mean of ``max(best wrong class - right class + 1, 0)``.

    Example:
        >>> round(float(CategoricalHinge()([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        1.0
    """


class CosineSimilarity(MeanMetricWrapper):
    """The mean cosine of the angle between targets and predictions.

    Example:
        >>> round(float(CosineSimilarity()([[1.0, 2.0]], [[2.0, 4.0]])), 4)
        1.0
    """

    def __init__(
        self, name: str = "cosine_similarity", dtype: Any = None, axis: int = -1
    ) -> None:
        super().__init__(cosine_similarity, name, dtype, axis=axis)


class _Correlation(_OfFunction, MeanMetricWrapper):
    def __init__(self, name: str = "", dtype: Any = None, axis: Any = -1) -> None:
        axis = checked_axes("axis", axis)
        super().__init__(self._function, name, dtype, axis=axis)


class PearsonCorrelation(_Correlation, function=pearson_correlation):
    """The mean of Pearson's coefficient of correlation of each sample.

    Args:
        axis: The axis, or axes, along which the numbers to compare lie; 0 for samples
            of one number.

    Raises:
        ValueError: ``axis`` is neither.

    Example:
        >>> metric = PearsonCorrelation(axis=0)
        >>> round(float(metric([[1.0], [2.0], [3.0]], [[1.0], [3.0], [4.0]])), 4)
        0.982
    """


class ConcordanceCorrelation(_Correlation, function=concordance_correlation):
    """The mean of Lin's coefficient of concordance of each sample.

    Args:
        axis: The axis, or axes, along which the numbers to compare lie; 0 for samples
            of one number.

    Raises:
        ValueError: ``axis`` is neither.

    Example:
        >>> metric = ConcordanceCorrelation(axis=0)
        >>> round(float(metric([[1.0], [2.0], [3.0]], [[1.0], [3.0], [4.0]])), 4)
        0.75
    """


class BinaryCrossentropy(_Crossentropy, function=binary_crossentropy):
    """The mean of ``losses.binary_crossentropy``.

    Example:
        >>> round(float(BinaryCrossentropy()([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        0.6931
    """


class CategoricalCrossentropy(MeanMetricWrapper):
    """The mean of ``losses.categorical_crossentropy``.

    Args:
        from_logits: Whether predictions are logits rather than probabilities.
        label_smoothing: In [0, 1]: draws targets towards the uniform distribution.
        axis: The axis of the classes.

    Raises:
        ValueError: ``axis`` is not an integer.

    Example:
        >>> round(float(CategoricalCrossentropy()([[0.0, 1.0]], [[0.5, 0.5]])), 4)
        0.6931
    """

    def __init__(
        self,
        name: str = "categorical_crossentropy",
        dtype: Any = None,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
    ) -> None:
        super().__init__(
            categorical_crossentropy,
            name,
            dtype,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
            axis=checked_int("axis", axis),
        )


class SparseCategoricalCrossentropy(MeanMetricWrapper):
    """The mean of ``losses.sparse_categorical_crossentropy``.

    Args:
        from_logits: Whether predictions are logits rather than probabilities.
        axis: The axis of the classes.
        ignore_class: The number of a class whose targets do not count, in the mean
            either; None: all count.

    Raises:
        ValueError: ``ignore_class`` or ``axis`` is not an integer.

    Example:
        >>> round(float(SparseCategoricalCrossentropy()([1], [[0.5, 0.5]])), 4)
        0.6931
    """

    def __init__(
        self,
        name: str = "sparse_categorical_crossentropy",
        dtype: Any = None,
        from_logits: bool = False,
        axis: int = -1,
        *,
        ignore_class: int | None = None,
    ) -> None:
        kept: dict[str, Any] = {"from_logits": from_logits}
        kept["axis"] = checked_int("axis", axis)
        if ignore_class is not None:
            kept["ignore_class"] = checked_int("ignore_class", ignore_class)
        super().__init__(sparse_categorical_crossentropy, name, dtype, **kept)

    def update_state(  # type: ignore[override]
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        ignored = self._fn_kwargs.get("ignore_class")
        if ignored is not None:
            shape = list(tf.convert_to_tensor(y_pred).shape)
            del shape[self._fn_kwargs["axis"]]
            labels = tf.reshape(tf.cast(y_true, "int32"), shape)
            counts = tf.cast(tf.not_equal(labels, ignored), self._dtype)
            if sample_weight is not None:
                counts = counts * fit_weights(sample_weight, counts)
            sample_weight = counts
        super().update_state(y_true, y_pred, sample_weight)


export(__name__)
