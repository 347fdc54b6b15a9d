# SPDX-License-Identifier: MIT
"""Metrics of right and wrong decisions: counts, precision, recall.

A decision is ``y_pred > threshold``. Counts are kept for each threshold, in variables
of the device; everything else is computed from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu.keras._shape_fitting import fit_weights, squeeze_pair
from ipu.keras._types import Tensor
from ipu.keras.metrics.base import Metric, floats

__all__ = [
    "FalseNegatives",
    "FalsePositives",
    "Precision",
    "Recall",
    "TrueNegatives",
    "TruePositives",
]

_NOT_AMONG_TOP = -1e10


def decisions(
    y_true: Any, y_pred: Any, sample_weight: Any, thresholds: Sequence[float]
) -> tuple[Tensor, Tensor, Tensor]:
    """Whether each target is true and each decision is, and the weights.

    Returns:
        Floats of shapes ``(1, n)``, ``(thresholds, n)`` and ``(1, n)``.
    """
    y_pred = floats(y_pred, tf.float32)
    y_true, y_pred = squeeze_pair(floats(y_true, tf.float32), y_pred)
    weights = tf.ones(tuple(y_pred.shape), "float32")
    if sample_weight is not None:
        weights = weights * fit_weights(sample_weight, y_pred)
    limits = tf.constant([[float(t)] for t in thresholds], dtype="float32")
    row = tf.reshape(y_pred, (1, -1))
    is_true = tf.cast(tf.not_equal(tf.reshape(y_true, (1, -1)), 0.0), "float32")
    is_chosen = tf.cast(tf.greater(row, limits), "float32")
    return is_true, is_chosen, tf.reshape(weights, (1, -1))


def _top(y_pred: Any, k: int) -> Tensor:
    """Predictions with all but the ``k`` largest of a sample out of reach."""
    y_pred = floats(y_pred, tf.float32)
    least = tf.reduce_min(tf.nn.top_k(y_pred, k)[0], axis=-1, keepdims=True)
    return tf.where(tf.greater_equal(y_pred, least), y_pred, _NOT_AMONG_TOP)


def as_thresholds(thresholds: Any, default: float) -> list[float]:
    """Give a threshold, or a list of them, as a list of numbers in [0, 1].

    Raises:
        ValueError: One is out of range.
    """
    if thresholds is None:
        return [default]
    several = isinstance(thresholds, (list, tuple))
    values = [float(t) for t in (thresholds if several else [thresholds])]
    wrong = [t for t in values if not (0 <= t <= 1 or t == _NOT_AMONG_TOP)]
    if wrong:
        raise ValueError(
            f"Threshold values must be in [0, 1]. Received: thresholds={wrong}."
        )
    return values


class _Count(Metric):
    """How many decisions are of one kind, for each threshold."""

    _wants_true = True  # of the target
    _wants_chosen = True  # of the decision

    def __init__(
        self, thresholds: Any = None, name: str | None = None, dtype: Any = None
    ) -> None:
        super().__init__(name, dtype)
        self.init_thresholds = self._thresholds = thresholds
        self.thresholds = as_thresholds(thresholds, 0.5)
        self.accumulator = self.add_weight("accumulator", (len(self.thresholds),))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take a batch in.

        Args:
            y_true: The targets; what is not 0 is true.
            y_pred: Probabilities.
            sample_weight: A weight for each sample; None for 1.
        """
        is_true, is_chosen, weights = decisions(
            y_true, y_pred, sample_weight, self.thresholds
        )
        is_true = is_true if self._wants_true else 1.0 - is_true
        is_chosen = is_chosen if self._wants_chosen else 1.0 - is_chosen
        counts = tf.reduce_sum(is_true * is_chosen * weights, axis=1)
        self.accumulator.assign_add(tf.cast(counts, self._dtype))

    def result(self) -> Tensor:
        """Give the count, or one for each threshold."""
        counts = self.accumulator.value()
        return counts[0] if len(self.thresholds) == 1 else counts


class TruePositives(_Count):
    """How many decisions for yes are right.

    Args:
        thresholds: A threshold, or a list of them; None for 0.5.

    Example:
        >>> count = TruePositives()
        >>> count.update_state([0, 1, 1, 1], [1.0, 0.0, 1.0, 1.0])
        >>> float(count.result())
        2.0
    """


class TrueNegatives(_Count):
    """How many decisions for no are right; arguments as for ``TruePositives``.

    Example:
        >>> metric = TrueNegatives()
        >>> round(float(metric([0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.6, 0.9])), 4)
        1.0
    """

    _wants_true = _wants_chosen = False


class FalsePositives(_Count):
    """How many decisions for yes are wrong; arguments as for ``TruePositives``.

    Example:
        >>> metric = FalsePositives()
        >>> round(float(metric([0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.6, 0.9])), 4)
        0.0
    """

    _wants_true = False


class FalseNegatives(_Count):
    """How many decisions for no are wrong; arguments as for ``TruePositives``.

    Example:
        >>> metric = FalseNegatives()
        >>> round(float(metric([0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.6, 0.9])), 4)
        1.0
    """

    _wants_chosen = False


class _Ratio(Metric):
    """The part of some decisions that is right."""

    def __init__(
        self,
        thresholds: Any = None,
        top_k: int | None = None,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name, dtype)
        self.init_thresholds = self._thresholds = thresholds
        self.top_k = top_k
        self.class_id = class_id
        self.thresholds = as_thresholds(
            thresholds, 0.5 if top_k is None else _NOT_AMONG_TOP
        )
        shape = (len(self.thresholds),)
        self.true_positives = self.add_weight("true_positives", shape)
        self._wrong = self.add_weight(self._wrong_name, shape)

    _wrong_name = ""

    def _wrong_decisions(self, is_true: Tensor, is_chosen: Tensor) -> Tensor:
        raise NotImplementedError

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take a batch in.

        Args:
            y_true: The targets; what is not 0 is true.
            y_pred: Probabilities.
            sample_weight: A weight for each sample; None for 1.
        """
        if self.top_k is not None:
            y_pred = _top(y_pred, self.top_k)
        if self.class_id is not None:
            y_true = tf.convert_to_tensor(y_true)[..., self.class_id]
            y_pred = tf.convert_to_tensor(y_pred)[..., self.class_id]
        is_true, is_chosen, weights = decisions(
            y_true, y_pred, sample_weight, self.thresholds
        )
        right = is_true * is_chosen
        wrong = self._wrong_decisions(is_true, is_chosen)
        for variable, values in ((self.true_positives, right), (self._wrong, wrong)):
            counts = tf.reduce_sum(values * weights, axis=1)
            variable.assign_add(tf.cast(counts, self._dtype))

    def result(self) -> Tensor:
        """Give the part, or one for each threshold; 0 where there is no decision."""
        right = self.true_positives.value()
        parts = tf.math.divide_no_nan(right, right + self._wrong.value())
        return parts[0] if len(self.thresholds) == 1 else parts


class Precision(_Ratio):
    """The part of the decisions for yes that is right.

    Args:
        thresholds: A threshold, or a list of them; None for 0.5.
        top_k: Only the largest ``top_k`` predictions of a sample count as yes.
        class_id: The only class that is looked at.

    Example:
        >>> round(float(Precision()([0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.6, 0.9])), 4)
        1.0
    """

    _wrong_name = "false_positives"

    @property
    def false_positives(self) -> Any:
        """How many decisions for yes are wrong, a variable."""
        return self._wrong

    def _wrong_decisions(self, is_true: Tensor, is_chosen: Tensor) -> Tensor:
        return (1.0 - is_true) * is_chosen


class Recall(_Ratio):
    """The part of the true targets that decisions find.

    Args:
        thresholds: A threshold, or a list of them; None for 0.5.
        top_k: Only the largest ``top_k`` predictions of a sample count as yes.
        class_id: The only class that is looked at.

    Example:
        >>> round(float(Recall()([0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.6, 0.9])), 4)
        0.6667
    """

    _wrong_name = "false_negatives"

    @property
    def false_negatives(self) -> Any:
        """How many decisions for no are wrong, a variable."""
        return self._wrong

    def _wrong_decisions(self, is_true: Tensor, is_chosen: Tensor) -> Tensor:
        return is_true * (1.0 - is_chosen)
