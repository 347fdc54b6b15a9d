# SPDX-License-Identifier: MIT
"""``MeanIoU``: how well regions of classes agree."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras._types import Tensor
from ipu.keras.metrics.base import Metric, floats

__all__ = ["MeanIoU"]


class MeanIoU(Metric):
    """The mean over classes of ``intersection / union``.

    Args:
        num_classes: How many classes.

    Example:
        >>> metric = MeanIoU(num_classes=2)
        >>> metric.update_state([0, 0, 1, 1], [0, 1, 0, 1])
        >>> round(float(metric.result()), 4)
        0.3333
    """

    def __init__(
        self, num_classes: int, name: str | None = None, dtype: Any = None
    ) -> None:
        super().__init__(name, dtype)
        self.num_classes = num_classes
        shape = (num_classes, num_classes)
        self.total_cm = self.add_weight("total_confusion_matrix", shape)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take a batch in.

        Args:
            y_true: Class numbers.
            y_pred: Class numbers that were predicted.
            sample_weight: A weight for each of them; None for 1.
        """
        labels, found = (
            tf.reshape(tf.cast(tf.convert_to_tensor(y), "int32"), (-1,))
            for y in (y_true, y_pred)
        )
        weights = None
        if sample_weight is not None:
            weights = tf.reshape(floats(sample_weight, self._dtype), (-1,))
        matrix = tf.math.confusion_matrix(
            labels, found, self.num_classes, weights=weights, dtype=self._dtype
        )
        self.total_cm.assign_add(matrix)

    def result(self) -> Tensor:
        """Give the mean over the classes that there are."""
        matrix = self.total_cm.value()
        diagonal = tf.eye(self.num_classes, dtype=self._dtype)
        both = tf.reduce_sum(matrix * diagonal, axis=0)
        either = tf.reduce_sum(matrix, axis=0) + tf.reduce_sum(matrix, axis=1) - both
        there = tf.cast(tf.not_equal(either, 0.0), self._dtype)
        parts = tf.math.divide_no_nan(both, either)
        return tf.math.divide_no_nan(tf.reduce_sum(parts), tf.reduce_sum(there))
