# SPDX-License-Identifier: MIT
"""Metrics over many thresholds: areas under curves, and the best point of a curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu._text.arguments import checked_int
from ipu._text.exports import export
from ipu.keras import _names
from ipu.keras._backend_state import state
from ipu.keras._shape_fitting import fit_weights
from ipu.keras._types import Tensor
from ipu.keras.metrics.base import floats
from ipu.keras.metrics.confusion import Confusion, as_thresholds, of_class


def _even_thresholds(count: int) -> list[float]:
    """Return ``count`` thresholds over [0, 1]; the ends lie a little outside."""
    inner = [(i + 1) / (count - 1) for i in range(count - 2)]
    return [0.0 - state.epsilon, *inner, 1.0 + state.epsilon]


# of each rate, the decisions that it is the part of: those counted, and the others
_RATES = {
    "fall-out": ("false_positives", "true_negatives"),
    "precision": ("true_positives", "false_positives"),
    "recall": ("true_positives", "false_negatives"),
    "sensitivity": ("true_positives", "false_negatives"),
    "specificity": ("true_negatives", "false_positives"),
}
_KINDS = ("true_positives", "true_negatives", "false_positives", "false_negatives")


class _Curve(Confusion):
    """All four counts for each threshold."""

    true_positives: Any
    true_negatives: Any
    false_positives: Any
    false_negatives: Any

    def _rate(self, name: str) -> Tensor:
        return self._part(*_RATES[name])


class _AtThreshold(_Curve):
    """The best of one rate over the thresholds where another is high enough."""

    _held: str
    _wanted: str

    def __init__(
        self,
        value: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        if not 0 <= value <= 1:
            raise ValueError(
                f"`{self._held}` must be in the range [0, 1]. Received: {value}."
            )
        if num_thresholds <= 0:
            raise ValueError(
                f"`num_thresholds` must be greater than 0. Received: {num_thresholds}."
            )
        if class_id is not None:
            class_id = checked_int("class_id", class_id, 0)
        self.class_id = class_id
        one = num_thresholds == 1
        thresholds = [0.5] if one else _even_thresholds(num_thresholds)
        super().__init__(thresholds, _KINDS, name, dtype)
        self.value = value
        self.num_thresholds = num_thresholds

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_true, y_pred = of_class(self.class_id, y_true, y_pred)
        super().update_state(y_true, y_pred, sample_weight)

    def result(self) -> Tensor:
        """Return the best; 0 where no threshold will do."""
        wanted = self._rate(self._wanted)
        allowed = tf.greater_equal(self._rate(self._held), float(self.value))
        return tf.reduce_max(tf.where(allowed, wanted, tf.zeros_like(wanted)))


class SensitivityAtSpecificity(_AtThreshold):
    """The best sensitivity (recall) where the specificity is at least a value.

    Args:
        specificity: That value, in [0, 1].
        num_thresholds: How many thresholds are tried.
        class_id: The only class that is looked at; None for all.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> metric = SensitivityAtSpecificity(0.5)
        >>> round(float(metric([0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.6, 0.9])), 4)
        1.0
    """

    _held, _wanted = "specificity", "sensitivity"

    def __init__(
        self,
        specificity: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        self.specificity = specificity
        super().__init__(specificity, num_thresholds, class_id, name, dtype)


class SpecificityAtSensitivity(_AtThreshold):
    """The best specificity where the sensitivity (recall) is at least a value.

    Args:
        sensitivity: That value, in [0, 1].
        num_thresholds: How many thresholds are tried.
        class_id: The only class that is looked at; None for all.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> metric = SpecificityAtSensitivity(0.5)
        >>> round(float(metric([0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.6, 0.9])), 4)
        1.0
    """

    _held, _wanted = "sensitivity", "specificity"

    def __init__(
        self,
        sensitivity: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        self.sensitivity = sensitivity
        super().__init__(sensitivity, num_thresholds, class_id, name, dtype)


class PrecisionAtRecall(_AtThreshold):
    """The best precision where the recall is at least a value.

    Args:
        recall: That value, in [0, 1].
        num_thresholds: How many thresholds are tried.
        class_id: The only class that is looked at; None for all.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> metric = PrecisionAtRecall(0.5)
        >>> round(float(metric([0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.6, 0.9])), 4)
        1.0
    """

    _held, _wanted = "recall", "precision"

    def __init__(
        self,
        recall: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        self.recall = recall
        super().__init__(recall, num_thresholds, class_id, name, dtype)


class RecallAtPrecision(_AtThreshold):
    """The best recall where the precision is at least a value.

    Args:
        precision: That value, in [0, 1].
        num_thresholds: How many thresholds are tried.
        class_id: The only class that is looked at; None for all.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> metric = RecallAtPrecision(0.5)
        >>> round(float(metric([0.0, 1.0, 1.0, 1.0], [0.2, 0.3, 0.6, 0.9])), 4)
        1.0
    """

    _held, _wanted = "precision", "recall"

    def __init__(
        self,
        precision: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        self.precision = precision
        super().__init__(precision, num_thresholds, class_id, name, dtype)


class AUC(_Curve):
    """The area under the curve of hits against false alarms, or precision and recall.

    Args:
        num_thresholds: How many points the curve has, 2 or more.
        curve: ``"ROC"`` or ``"PR"``.
        summation_method: ``"interpolation"`` (the trapezoid rule, and Davis and
            Goadrich's for PR), ``"minoring"`` or ``"majoring"``.
        thresholds: The thresholds between 0 and 1, instead of even ones.
        multi_label: Whether each column has a curve of its own, and the result is the
            mean of the areas.
        num_labels: How many columns there are; needed with ``multi_label``.
        label_weights: Weights of the columns in that mean.
        from_logits: Whether predictions are logits rather than probabilities.

    Raises:
        ValueError: An argument has another value.

    Example:
        >>> area = AUC(num_thresholds=3)
        >>> area.update_state([0, 0, 1, 1], [0.0, 0.5, 0.3, 0.9])
        >>> float(area.result())
        0.75
    """

    def __init__(
        self,
        num_thresholds: int = 200,
        curve: str = "ROC",
        summation_method: str = "interpolation",
        name: str | None = None,
        dtype: Any = None,
        thresholds: Any = None,
        multi_label: bool = False,
        num_labels: int | None = None,
        label_weights: Any = None,
        from_logits: bool = False,
    ) -> None:
        _one_of("curve", curve, ("ROC", "PR"))
        methods = ("interpolation", "minoring", "majoring")
        _one_of("summation_method", summation_method, methods)
        if thresholds is None:
            if num_thresholds <= 1:
                raise ValueError(
                    f"`num_thresholds` must be > 1. Received: {num_thresholds}."
                )
            points = _even_thresholds(num_thresholds)
        else:
            inner = sorted(as_thresholds(thresholds, 0.5))
            points = [0.0 - state.epsilon, *inner, 1.0 + state.epsilon]
        if multi_label and num_labels is None:
            raise ValueError(
                "AUC with multi_label=True needs `num_labels`: the state is made "
                "before the first batch. Received: num_labels=None."
            )
        labels = (num_labels or 0,) if multi_label else ()
        super().__init__(points, _KINDS, name, dtype, labels)
        self.num_thresholds = len(points)
        self.curve = curve
        self.summation_method = summation_method
        self.init_thresholds = self._thresholds = thresholds
        self.multi_label = multi_label
        self.num_labels = num_labels
        self.label_weights = label_weights
        self._from_logits = from_logits

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        if self._from_logits:
            y_pred = tf.nn.sigmoid(floats(y_pred, tf.float32))
        if not self.multi_label:
            super().update_state(y_true, y_pred, sample_weight)
            return
        y_true, y_pred = (floats(y, tf.float32) for y in (y_true, y_pred))
        weights = tf.ones_like(y_pred)
        if sample_weight is not None:
            weights = weights * fit_weights(sample_weight, y_pred)
        limits = tf.constant([[[float(t)]] for t in self.thresholds], dtype="float32")
        is_true = tf.cast(tf.not_equal(tf.expand_dims(y_true, 0), 0.0), "float32")
        is_chosen = tf.cast(tf.greater(tf.expand_dims(y_pred, 0), limits), "float32")
        self._count(is_true, is_chosen, tf.expand_dims(weights, 0))

    def result(self) -> Tensor:
        if self.curve == "PR" and self.summation_method == "interpolation":
            areas = _interpolated_pr(
                self.true_positives.value(),
                self.false_positives.value(),
                self.false_negatives.value(),
            )
        else:
            is_roc = self.curve == "ROC"
            x = self._rate("fall-out" if is_roc else "recall")
            y = self._rate("recall" if is_roc else "precision")
            left, right = y[:-1], y[1:]
            if self.summation_method == "interpolation":
                heights = (left + right) / 2.0
            elif self.summation_method == "minoring":
                heights = tf.minimum(left, right)
            else:
                heights = tf.maximum(left, right)
            areas = tf.reduce_sum((x[:-1] - x[1:]) * heights, axis=0)
        if not self.multi_label:
            return areas
        if self.label_weights is None:
            return tf.reduce_mean(areas)
        weights = floats(self.label_weights, self._dtype)
        return tf.math.divide_no_nan(
            tf.reduce_sum(areas * weights), tf.reduce_sum(weights)
        )


def _interpolated_pr(tp: Tensor, fp: Tensor, fn: Tensor) -> Tensor:
    """Interpolate as Davis and Goadrich do: true positives are linear in
    decisions between points."""
    zero = tf.zeros_like(tp[:-1])
    chosen = tp + fp
    gained = tp[:-1] - tp[1:]
    slope = tf.math.divide_no_nan(gained, tf.maximum(chosen[:-1] - chosen[1:], zero))
    offset = tp[1:] - slope * chosen[1:]
    both = tf.logical_and(tf.greater(chosen[:-1], zero), tf.greater(chosen[1:], zero))
    ratio = tf.where(
        both,
        tf.math.divide_no_nan(chosen[:-1], tf.maximum(chosen[1:], zero)),
        tf.ones_like(zero),
    )
    areas = tf.math.divide_no_nan(
        slope * (gained + offset * tf.math.log(ratio)),
        tf.maximum(tp[1:] + fn[1:], zero),
    )
    return tf.reduce_sum(areas, axis=0)


def _one_of(name: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(
            f"Invalid AUC `{name}`: {value!r}.{_names.nearest(str(value), known)}"
        )


export(__name__)
