# SPDX-License-Identifier: MIT
"""``FBetaScore``, ``F1Score`` and ``R2Score``: of classes and of regressions.

They are made of sums.
"""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._text.arguments import checked_number
from ipu.keras._types import Tensor
from ipu.keras.metrics.base import Metric, floats
from ipu.tf._functions.tracing import init_scope

__all__ = ["F1Score", "FBetaScore", "R2Score"]

_EPSILON = 1e-7


def _weighted(values: Tensor, sample_weight: Any) -> Tensor:
    if sample_weight is None:
        return values
    weight = floats(sample_weight, values.dtype)
    return values * tf.reshape(weight, (-1, 1))


class _Sums(Metric):
    """A metric of sums over the batch, one for each of several columns.

    Args:
        names: Of the sums.
    """

    def __init__(self, name: str, dtype: Any, *names: str) -> None:
        super().__init__(name, dtype)
        self._names = names
        self._sums: list[Any] = []

    def _add(self, columns: int, *terms: Tensor) -> None:
        if not self._sums:
            with init_scope():
                self._sums = [self.add_weight(name, (columns,)) for name in self._names]
        known = self._sums[0].shape[0]
        if known != columns:
            raise ValueError(
                f"{type(self).__name__} has seen targets of {known} columns. Received: "
                f"{columns} columns."
            )
        for variable, term in zip(self._sums, terms, strict=True):
            variable.assign_add(tf.reduce_sum(term, axis=0))

    def _checked(self, y_true: Any, y_pred: Any) -> tuple[Tensor, Tensor]:
        target, output = floats(y_true, self._dtype), floats(y_pred, self._dtype)
        if len(target.shape) != 2 or tuple(target.shape) != tuple(output.shape):
            raise ValueError(
                f"{type(self).__name__} needs targets and outputs of one shape, "
                f"(batch, columns). Received: {tuple(target.shape)} and "
                f"{tuple(output.shape)}."
            )
        return target, output

    def _value(self, empty: Tensor) -> list[Tensor]:
        if not self._sums:
            return [empty for _ in self._names]
        return [variable.value() for variable in self._sums]


class FBetaScore(_Sums):
    """The weighed harmonic mean of precision and recall, of one-hot targets.

    Args:
        average: None for one result for each class, ``"micro"`` for that of all
            together, ``"macro"`` for their mean, ``"weighted"`` for the mean weighed by
            how often each class is there.
        beta: How many times as much recall counts as precision, more than 0.
        threshold: Above which an output counts as its class; None: the largest one.

    Raises:
        ValueError: Another ``average``, a ``beta`` that is not positive, a threshold
            that is not between 0 and 1, or, in ``update_state``, targets that do not
            fit.

    Source: ``keras.metrics.FBetaScore`` of Keras 3.

    Example:
        >>> score = FBetaScore(average="macro", beta=2.0, threshold=0.5)
        >>> score.update_state([[1, 0], [0, 1]], [[0.9, 0.6], [0.2, 0.7]])
        >>> round(float(score.result()), 4)
        0.9167
    """

    def __init__(
        self,
        average: str | None = None,
        beta: float = 1.0,
        threshold: float | None = None,
        name: str = "fbeta_score",
        dtype: Any = None,
    ) -> None:
        super().__init__(name, dtype, "true_positives", "predicted", "present")
        if average not in (None, "micro", "macro", "weighted"):
            raise ValueError(
                "`average` must be None, 'micro', 'macro' or 'weighted'. Received: "
                f"average={average!r}."
            )
        self.beta = checked_number("beta", beta, "a positive number", lambda b: b > 0)
        if threshold is not None:
            threshold = checked_number(
                "threshold", threshold, "a number in (0, 1]", lambda t: 0 < t <= 1
            )
        self.average = average
        self.threshold = threshold

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take a batch in.

        Args:
            y_true: One-hot targets, (batch, classes).
            y_pred: Outputs of the same shape.
            sample_weight: A weight for each sample.
        """
        target, output = self._checked(y_true, y_pred)
        if self.threshold is None:
            largest = tf.reduce_max(output, axis=-1, keepdims=True)
            hits = (output >= largest) & (tf.abs(output) > 1e-9)
        else:
            hits = output > self.threshold
        chosen = tf.cast(hits, self._dtype)
        terms = [_weighted(t, sample_weight) for t in (chosen * target, chosen, target)]
        self._add(int(target.shape[1]), *terms)

    def result(self) -> Tensor:
        """Return the score: a scalar, or one for each class."""
        right, predicted, present = self._value(tf.zeros((1,), self._dtype))
        if self.average == "micro":
            right, predicted, present = (
                tf.reduce_sum(sums) for sums in (right, predicted, present)
            )
        precision = right / (predicted + _EPSILON)
        recall = right / (present + _EPSILON)
        factor = float(self.beta) ** 2
        means = precision * recall / (factor * precision + recall + _EPSILON)
        scores = (1.0 + factor) * means
        if self.average == "weighted":
            shares = present / (tf.reduce_sum(present) + _EPSILON)
            return tf.reduce_sum(scores * shares)
        return scores if self.average is None else tf.reduce_mean(scores)


class F1Score(FBetaScore):
    """The harmonic mean of precision and recall, of one-hot targets.

    Args:
        average: As for :class:`FBetaScore`.
        threshold: Above which an output counts as its class; None: the largest one.

    Raises:
        ValueError: Another ``average``, a threshold that is not between 0 and 1, or, in
            ``update_state``, targets that do not fit.

    Source: ``keras.metrics.F1Score`` of Keras 3.

    Example:
        >>> score = F1Score(average="macro", threshold=0.5)
        >>> score.update_state([[1, 0], [0, 1]], [[0.9, 0.6], [0.2, 0.7]])
        >>> round(float(score.result()), 4)
        0.8333
    """

    def __init__(
        self,
        average: str | None = None,
        threshold: float | None = None,
        name: str = "f1_score",
        dtype: Any = None,
    ) -> None:
        super().__init__(average, 1.0, threshold, name, dtype)


class R2Score(_Sums):
    """Measure the share of the targets' variance that outputs explain; 1 is all of it.

    Args:
        class_aggregation: ``"uniform_average"`` for the mean over columns, None for one
            result for each, ``"variance_weighted_average"`` for the mean weighed by the
            columns' variance.
        num_regressors: How many inputs the model has, for the adjusted score; 0 for the
            plain one.

    Raises:
        ValueError: Another aggregation, or a negative number.

    Source: ``keras.metrics.R2Score`` of Keras 3.

    Example:
        >>> score = R2Score()
        >>> score.update_state([[1.0], [4.0], [3.0]], [[2.0], [4.0], [4.0]])
        >>> round(float(score.result()), 4)
        0.5714
    """

    def __init__(
        self,
        class_aggregation: str | None = "uniform_average",
        num_regressors: int = 0,
        name: str = "r2_score",
        dtype: Any = None,
    ) -> None:
        names = ("squared_sum", "sum", "residual", "count", "samples")
        super().__init__(name, dtype, *names)
        known = (None, "uniform_average", "variance_weighted_average")
        if class_aggregation not in known:
            raise ValueError(
                f"`class_aggregation` must be one of {known}. Received: "
                f"class_aggregation={class_aggregation!r}."
            )
        if num_regressors < 0:
            raise ValueError(
                "`num_regressors` must not be negative. Received: "
                f"num_regressors={num_regressors}."
            )
        self.class_aggregation = class_aggregation
        self.num_regressors = num_regressors

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take a batch in.

        Args:
            y_true: Targets, (batch, columns).
            y_pred: Outputs of the same shape.
            sample_weight: A weight for each sample.
        """
        target, output = self._checked(y_true, y_pred)
        squares, residual = tf.square(target), tf.square(target - output)
        parts = (squares, target, residual, tf.ones_like(target))
        terms = [_weighted(part, sample_weight) for part in parts]
        self._add(int(target.shape[1]), *terms, parts[-1])

    def result(self) -> Tensor:
        """Return the score: a scalar, or one for each column."""
        sums = self._value(tf.zeros((1,), self._dtype))
        squares, total, residual, count, seen = sums
        count = tf.maximum(count, tf.ones_like(count) * _EPSILON)
        variance = squares - total * (total / count)
        is_flat = variance == 0.0
        safe = tf.where(is_flat, tf.ones_like(variance), variance)
        scores = tf.where(is_flat, tf.zeros_like(safe), 1.0 - residual / safe)
        if self.class_aggregation == "uniform_average":
            scores = tf.reduce_mean(scores)
        elif self.class_aggregation is not None:
            shares = variance / tf.maximum(tf.reduce_sum(variance), _EPSILON)
            scores = tf.reduce_sum(scores * shares)
        if self.num_regressors == 0:
            return scores
        samples = tf.reduce_sum(seen)  # of all columns, as Keras counts them
        rest = tf.maximum(samples - self.num_regressors - 1.0, _EPSILON)
        return 1.0 - (1.0 - scores) * (samples - 1.0) / rest
