# SPDX-License-Identifier: MIT
"""Metrics of right and wrong decisions: counts, precision, recall.

A decision is ``y_pred > threshold``. Counts are kept for each threshold, in variables
of the device; everything else is computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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

# of a true target and a decision for yes, 1.0 or 0.0, whether they are of a kind
_KINDS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "true_positives": lambda true, chosen: true * chosen,
    "true_negatives": lambda true, chosen: (1.0 - true) * (1.0 - chosen),
    "false_positives": lambda true, chosen: (1.0 - true) * chosen,
    "false_negatives": lambda true, chosen: true * (1.0 - chosen),
}


def decisions(
    y_true: Any, y_pred: Any, sample_weight: Any, thresholds: Sequence[float]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return whether each target is true and each decision is, and the weights.

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
    """Return predictions with all but the ``k`` largest of a sample out of reach."""
    y_pred = floats(y_pred, tf.float32)
    least = tf.reduce_min(tf.nn.top_k(y_pred, k)[0], axis=-1, keepdims=True)
    return tf.where(tf.greater_equal(y_pred, least), y_pred, _NOT_AMONG_TOP)


def of_class(class_id: int | None, *values: Any) -> list[Any]:
    """Return targets and predictions of one class in the last axis; all for None."""
    if class_id is None:
        return list(values)
    return [tf.convert_to_tensor(one)[..., class_id] for one in values]


def as_thresholds(thresholds: Any, default: float) -> list[float]:
    """Return a threshold, or a list of them, as a list of numbers in [0, 1].

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


class Confusion(Metric):
    """Count decisions of some kinds, for each threshold.

    Args:
        thresholds: The thresholds.
        kinds: Each is counted in an attribute of that name, a variable.
        more: Its sizes after the thresholds.
    """

    def __init__(
        self,
        thresholds: list[float],
        kinds: Iterable[str],
        name: str | None,
        dtype: Any,
        more: tuple[int, ...] = (),
    ) -> None:
        super().__init__(name, dtype)
        self.thresholds = thresholds
        shape = (len(thresholds), *more)
        self._counts = {kind: self.add_weight(kind, shape) for kind in kinds}
        vars(self).update(self._counts)

    def _count(self, is_true: Tensor, is_chosen: Tensor, weights: Tensor) -> None:
        for kind, variable in self._counts.items():
            hits = _KINDS[kind](is_true, is_chosen)
            counts = tf.reduce_sum(hits * weights, axis=1)
            variable.assign_add(tf.cast(counts, self._dtype))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take a batch in.

        Args:
            y_true: The targets; what is not 0 is true.
            y_pred: Probabilities.
            sample_weight: A weight for each sample; None for 1.
        """
        self._count(*decisions(y_true, y_pred, sample_weight, self.thresholds))

    def _part(self, right: str, wrong: str) -> Tensor:
        """Return the part that one kind is of two; 0 where there is no decision."""
        first = self._counts[right].value()
        return tf.math.divide_no_nan(first, first + self._counts[wrong].value())


class _Count(Confusion):
    """Count decisions of one kind, for each threshold."""

    _kind = "true_positives"

    def __init__(
        self, thresholds: Any = None, name: str | None = None, dtype: Any = None
    ) -> None:
        super().__init__(as_thresholds(thresholds, 0.5), (), name, dtype)
        self.init_thresholds = self._thresholds = thresholds
        self.accumulator = self.add_weight("accumulator", (len(self.thresholds),))
        self._counts = {self._kind: self.accumulator}

    def result(self) -> Tensor:
        """Return the count, or one for each threshold."""
        counts = self.accumulator.value()
        return counts[0] if len(self.thresholds) == 1 else counts


class TruePositives(_Count):
    """Count the decisions for yes that are right.

    Args:
        thresholds: A threshold, or a list of them; None for 0.5.

    Example:
        >>> count = TruePositives()
        >>> count.update_state([0, 1, 1, 1], [1.0, 0.0, 1.0, 1.0])
        >>> float(count.result())
        2.0
    """


class TrueNegatives(_Count):
    """Count the decisions for no that are right; arguments as for ``TruePositives``.

    Example:
        >>> metric = TrueNegatives()
        >>> round(float(metric([0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.6, 0.9])), 4)
        1.0
    """

    _kind = "true_negatives"


class FalsePositives(_Count):
    """Count the decisions for yes that are wrong; arguments as for ``TruePositives``.

    Example:
        >>> metric = FalsePositives()
        >>> round(float(metric([0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.6, 0.9])), 4)
        0.0
    """

    _kind = "false_positives"


class FalseNegatives(_Count):
    """Count the decisions for no that are wrong; arguments as for ``TruePositives``.

    Example:
        >>> metric = FalseNegatives()
        >>> round(float(metric([0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.6, 0.9])), 4)
        1.0
    """

    _kind = "false_negatives"


class _Ratio(Confusion):
    """The part of some decisions that is right."""

    _wrong: str
    true_positives: Any

    def __init__(
        self,
        thresholds: Any = None,
        top_k: int | None = None,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        points = as_thresholds(thresholds, 0.5 if top_k is None else _NOT_AMONG_TOP)
        super().__init__(points, ("true_positives", self._wrong), name, dtype)
        self.init_thresholds = self._thresholds = thresholds
        self.top_k = top_k
        self.class_id = class_id

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        if self.top_k is not None:
            y_pred = _top(y_pred, self.top_k)
        y_true, y_pred = of_class(self.class_id, y_true, y_pred)
        super().update_state(y_true, y_pred, sample_weight)

    def result(self) -> Tensor:
        """Return the part, or one for each threshold; 0 where there is no decision."""
        parts = self._part("true_positives", self._wrong)
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

    _wrong = "false_positives"
    false_positives: Any


class Recall(_Ratio):
    """The part of the true targets that decisions find.

    The arguments are those of :class:`Precision`.

    Example:
        >>> round(float(Recall()([0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.6, 0.9])), 4)
        0.6667
    """

    _wrong = "false_negatives"
    false_negatives: Any
