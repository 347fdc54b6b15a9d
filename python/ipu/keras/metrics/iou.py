# SPDX-License-Identifier: MIT
"""How well regions of classes agree: intersection over union, "IoU".

All keep one matrix, of how often each class was taken for each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu import tf
from ipu._text.arguments import as_ints, checked_int, checked_number
from ipu.keras._shape_fitting import fit_weights
from ipu.keras._types import Tensor
from ipu.keras.metrics.base import Metric, floats

__all__ = ["BinaryIoU", "IoU", "MeanIoU", "OneHotIoU", "OneHotMeanIoU"]


class IoU(Metric):
    """The mean over some classes of ``intersection / union``.

    Args:
        num_classes: How many classes there are.
        target_class_ids: The classes that the mean is of, a list of numbers below
            ``num_classes``.
        ignore_class: The number of a class whose targets do not count, such as 255 for
            what has no label; None: all count.
        sparse_y_true: Whether targets are class numbers; else they have one value for
            each class, of which the largest counts.
        sparse_y_pred: The same of predictions.
        axis: The axis of the values for each class.

    Raises:
        ValueError: An argument has another value.

    Example:
        >>> metric = IoU(num_classes=2, target_class_ids=[0])
        >>> metric.update_state([0, 0, 1, 1], [0, 1, 0, 1])
        >>> round(float(metric.result()), 4)
        0.3333
    """

    def __init__(
        self,
        num_classes: int,
        target_class_ids: Sequence[int],
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_true: bool = True,
        sparse_y_pred: bool = True,
        axis: int = -1,
    ) -> None:
        self.num_classes = checked_int("num_classes", num_classes, 1)
        self.target_class_ids = _class_numbers(target_class_ids, self.num_classes)
        self.ignore_class = ignore_class
        if ignore_class is not None:
            self.ignore_class = checked_int("ignore_class", ignore_class)
        self.axis = checked_int("axis", axis)
        super().__init__(name, dtype)
        self.sparse_y_true = sparse_y_true
        self.sparse_y_pred = sparse_y_pred
        shape = (self.num_classes, self.num_classes)
        self.total_cm = self.add_weight("total_confusion_matrix", shape)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take a batch in.

        Args:
            y_true: The targets.
            y_pred: The predictions.
            sample_weight: Weights that go with the leading axes of the class numbers;
                None for 1.
        """
        labels = self._classes(y_true, self.sparse_y_true)
        found = tf.reshape(self._classes(y_pred, self.sparse_y_pred), (-1,))
        weights = None
        if sample_weight is not None:
            ones = tf.ones(tuple(labels.shape), self._dtype)
            weights = tf.reshape(ones * fit_weights(sample_weight, ones), (-1,))
        labels = tf.reshape(labels, (-1,))
        if tuple(labels.shape) != tuple(found.shape):
            raise ValueError(
                f"{type(self).__name__} needs a prediction for each target. Received: "
                f"{labels.shape[0]} targets and {found.shape[0]} predictions."
            )
        if self.ignore_class is not None:
            counts = tf.not_equal(labels, self.ignore_class)
            as_number = tf.cast(counts, self._dtype)
            weights = as_number if weights is None else weights * as_number
            labels, found = (y * tf.cast(counts, "int32") for y in (labels, found))
        matrix = tf.math.confusion_matrix(
            labels, found, self.num_classes, weights=weights, dtype=self._dtype
        )
        self.total_cm.assign_add(matrix)

    def _classes(self, values: Any, are_numbers: bool) -> Tensor:
        tensor = tf.convert_to_tensor(values)
        if not are_numbers:
            return tf.argmax(tensor, axis=self.axis, output_type="int32")
        return tf.cast(tensor, "int32")

    def result(self) -> Tensor:
        """Return the mean over those of the classes that there are."""
        matrix = self.total_cm.value()
        diagonal = tf.eye(self.num_classes, dtype=self._dtype)
        both = tf.reduce_sum(matrix * diagonal, axis=0)
        either = tf.reduce_sum(matrix, axis=0) + tf.reduce_sum(matrix, axis=1) - both
        times = np.bincount(self.target_class_ids, minlength=self.num_classes)
        wanted = tf.constant(times, dtype=self._dtype)
        there = wanted * tf.cast(tf.not_equal(either, 0.0), self._dtype)
        parts = wanted * tf.math.divide_no_nan(both, either)
        return tf.math.divide_no_nan(tf.reduce_sum(parts), tf.reduce_sum(there))


class BinaryIoU(IoU):
    """The mean of ``intersection / union`` of no and yes.

    Args:
        target_class_ids: Which of the two the mean is of: ``[0]``, ``[1]`` or both.
        threshold: From which on a prediction counts as yes.

    Raises:
        ValueError: An argument has another value.

    Example:
        >>> metric = BinaryIoU(target_class_ids=[0, 1], threshold=0.3)
        >>> metric.update_state([0, 1, 0, 1], [0.1, 0.2, 0.4, 0.7])
        >>> round(float(metric.result()), 4)
        0.3333
    """

    def __init__(
        self,
        target_class_ids: Sequence[int] = (0, 1),
        threshold: float = 0.5,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(2, target_class_ids, name, dtype)
        self.threshold = checked_number("threshold", threshold)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        decided = floats(y_pred, tf.float32) >= float(self.threshold)
        super().update_state(y_true, decided, sample_weight)


class MeanIoU(IoU):
    """The mean over all classes of ``intersection / union``.

    Args:
        num_classes: How many classes there are.
        ignore_class: As for :class:`IoU`, and so are those that follow.

    Raises:
        ValueError: An argument has another value.

    Example:
        >>> metric = MeanIoU(num_classes=2)
        >>> metric.update_state([0, 0, 1, 1], [0, 1, 0, 1])
        >>> round(float(metric.result()), 4)
        0.3333
    """

    def __init__(
        self,
        num_classes: int,
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_true: bool = True,
        sparse_y_pred: bool = True,
        axis: int = -1,
    ) -> None:
        every = range(checked_int("num_classes", num_classes, 1))
        are_numbers = (sparse_y_true, sparse_y_pred)
        super().__init__(
            num_classes, every, name, dtype, ignore_class, *are_numbers, axis
        )


class OneHotIoU(IoU):
    """The mean over some classes of ``intersection / union``, given one-hot targets.

    Args:
        num_classes: How many classes there are.
        target_class_ids: The classes that the mean is of.
        ignore_class: As for :class:`IoU`, and so is ``axis``.
        sparse_y_pred: Whether predictions are class numbers, not values of each class.

    Raises:
        ValueError: An argument has another value.

    Example:
        >>> metric = OneHotIoU(num_classes=3, target_class_ids=[0, 2])
        >>> targets = [[0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0]]
        >>> found = [[0.2, 0.3, 0.5], [0.1, 0.2, 0.7], [0.5, 0.3, 0.1], [0.1, 0.4, 0.5]]
        >>> metric.update_state(targets, found, sample_weight=[0.1, 0.2, 0.3, 0.4])
        >>> round(float(metric.result()), 3)
        0.071
    """

    def __init__(
        self,
        num_classes: int,
        target_class_ids: Sequence[int],
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_pred: bool = False,
        axis: int = -1,
    ) -> None:
        are_numbers = (False, sparse_y_pred)
        super().__init__(
            num_classes,
            target_class_ids,
            name,
            dtype,
            ignore_class,
            *are_numbers,
            axis,
        )


class OneHotMeanIoU(MeanIoU):
    """The mean over all classes of ``intersection / union``, given one-hot targets.

    Args:
        num_classes: How many classes there are.
        ignore_class: As for :class:`IoU`, and so is ``axis``.
        sparse_y_pred: Whether predictions are class numbers, not values of each class.

    Raises:
        ValueError: An argument has another value.

    Example:
        >>> metric = OneHotMeanIoU(num_classes=2)
        >>> metric.update_state([[1, 0], [0, 1]], [[0.8, 0.2], [0.6, 0.4]])
        >>> float(metric.result())
        0.25
    """

    def __init__(
        self,
        num_classes: int,
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_pred: bool = False,
        axis: int = -1,
    ) -> None:
        are_numbers = (False, sparse_y_pred)
        super().__init__(num_classes, name, dtype, ignore_class, *are_numbers, axis)


def _class_numbers(given: Any, count: int) -> list[int]:
    are_several = isinstance(given, (list, tuple, range, np.ndarray))
    numbers = as_ints(list(given)) if are_several else []
    if not numbers or not all(type(n) is int and 0 <= n < count for n in numbers):
        raise ValueError(
            "`target_class_ids` must be a list of class numbers, from 0 to "
            f"num_classes - 1 = {count - 1}. Received: target_class_ids={given!r}."
        )
    return list(numbers)
