# SPDX-License-Identifier: MIT
"""``ipu.keras.metrics``: what is reported of training, kept in device variables.

Source: ``tf.keras.metrics`` of Keras 2.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ipu import tf
from ipu.keras import _names
from ipu.keras._loss_functions import (
    binary_crossentropy,
    categorical_crossentropy,
    fit_weights,
    mean_absolute_error,
    mean_squared_error,
    sparse_categorical_crossentropy,
    squeeze_pair,
)
from ipu.keras._metric_functions import (
    accuracy,
    binary_accuracy,
    categorical_accuracy,
    sparse_categorical_accuracy,
)
from ipu.keras._types import Tensor

__all__ = [
    "Accuracy",
    "BinaryAccuracy",
    "BinaryCrossentropy",
    "CategoricalAccuracy",
    "CategoricalCrossentropy",
    "Mean",
    "MeanAbsoluteError",
    "MeanMetricWrapper",
    "MeanSquaredError",
    "Metric",
    "RootMeanSquaredError",
    "SparseCategoricalAccuracy",
    "SparseCategoricalCrossentropy",
    "Sum",
    "get",
]


class Metric:
    """Base class of metrics: state in variables, updated by every batch.

    A subclass makes its state with ``add_weight`` in ``__init__``, and defines
    ``update_state(y_true, y_pred, sample_weight=None)`` and ``result()``.

    Args:
        name: The key in logs; by default the class name in snake case.
        dtype: Dtype of the state; None for float32.
        **kwargs: Ignored, as in Keras.

    Example:
        >>> mean = Mean()
        >>> mean.update_state([1.0, 3.0])
        >>> float(mean.result())
        2.0
    """

    def __init__(self, name: str | None = None, dtype: Any = None, **kwargs: Any):
        del kwargs
        self.name = name or _names.unique_name(_names.snake_case(type(self).__name__))
        self._dtype = tf.as_dtype("float32" if dtype is None else dtype)
        self._state: list[Any] = []

    @property
    def dtype(self) -> str:
        """The dtype of the state, as a name."""
        return str(self._dtype.name)

    def add_weight(
        self,
        name: str,
        shape: tuple[int, ...] = (),
        initializer: Any = "zeros",
        dtype: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Create a variable of the state.

        Args:
            name: Its name, which the metric's is put before.
            shape: Its sizes.
            initializer: Its first value.
            dtype: Its dtype; None for the metric's.
            **kwargs: Ignored, as in Keras.

        Returns:
            A ``tf.Variable`` that optimizers leave alone.
        """
        from ipu.keras import initializers

        del kwargs
        kind = self._dtype if dtype is None else tf.as_dtype(dtype)
        function = initializers.get(initializer)
        assert function is not None
        variable = tf.Variable(
            function(tuple(shape), dtype=kind),
            trainable=False,
            name=f"{self.name}/{name}",
            dtype=kind,
        )
        self._state.append(variable)
        return variable

    @property
    def variables(self) -> list[Any]:
        """The variables of the state."""
        return list(self._state)

    weights = variables

    def update_state(self, *args: Any, **kwargs: Any) -> Any:
        """Take in a batch."""
        raise NotImplementedError(f"{type(self).__name__} must define update_state().")

    def result(self) -> Tensor:
        """Give the value over all batches since the last reset, a scalar."""
        raise NotImplementedError(f"{type(self).__name__} must define result().")

    def reset_state(self) -> None:
        """Start again: set the state to zeros."""
        for variable in self._state:
            variable.assign(
                np.zeros(tuple(variable.shape), variable.dtype.as_numpy_dtype)
            )

    def reset_states(self) -> None:
        """The same as ``reset_state``, its name before Keras 2.5."""
        self.reset_state()

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """Take in a batch and give the value."""
        self.update_state(*args, **kwargs)
        return self.result()

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal metric."""
        return {"name": self.name, "dtype": self.dtype}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Metric:
        """Make one from what ``get_config`` gave."""
        return cls(**config)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} {self.name!r}>"


class Sum(Metric):
    """The sum of all values.

    Args:
        name: The key in logs.
        dtype: Dtype of the state.
    """

    def __init__(self, name: str = "sum", dtype: Any = None) -> None:
        super().__init__(name, dtype)
        self.total = self.add_weight("total")

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        """Add values, times their weights.

        Args:
            values: A number or a tensor.
            sample_weight: Weights that go with the leading axes of ``values``.
        """
        values = _floats(values, self._dtype)
        if sample_weight is not None:
            values = values * fit_weights(sample_weight, values)
        self.total.assign_add(_sum(values))

    def result(self) -> Tensor:
        """Give the sum."""
        return self.total.value()


class Mean(Metric):
    """The mean of all values, weighed.

    Args:
        name: The key in logs.
        dtype: Dtype of the state.
    """

    def __init__(self, name: str = "mean", dtype: Any = None) -> None:
        super().__init__(name, dtype)
        self.total = self.add_weight("total")
        self.count = self.add_weight("count")

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        """Take values in.

        Args:
            values: A number or a tensor.
            sample_weight: Weights that go with the leading axes of ``values``.
        """
        values = _floats(values, self._dtype)
        if sample_weight is None:
            count = tf.constant(float(np.prod(values.shape)), dtype=self._dtype)
        else:
            weights = fit_weights(sample_weight, values)
            values = values * weights
            count = _sum(tf.broadcast_to(weights, tuple(values.shape)))
        self.total.assign_add(_sum(values))
        self.count.assign_add(count)

    def result(self) -> Tensor:
        """Give the mean; 0 before the first value."""
        total, count = self.total.value(), self.count.value()
        one = tf.constant(1.0, dtype=self._dtype)
        return total / tf.where(tf.equal(count, tf.zeros_like(count)), one, count)


class MeanMetricWrapper(Mean):
    """The mean of a function of targets and predictions.

    Args:
        fn: ``fn(y_true, y_pred, **kwargs)`` gives one number for each sample.
        name: The key in logs; the function's name by default.
        dtype: Dtype of the state.
        **kwargs: Keyword arguments for ``fn``.
    """

    def __init__(
        self,
        fn: Callable[..., Tensor],
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name or str(getattr(fn, "__name__", "metric")), dtype)
        self._fn = fn
        self._fn_kwargs = kwargs

    def update_state(  # type: ignore[override]
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        """Take a batch in.

        Args:
            y_true: The targets.
            y_pred: The predictions.
            sample_weight: A weight for each sample; None for 1.
        """
        y_true, y_pred = squeeze_pair(
            tf.convert_to_tensor(y_true), tf.convert_to_tensor(y_pred)
        )
        super().update_state(self._fn(y_true, y_pred, **self._fn_kwargs), sample_weight)

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal metric."""
        return {**super().get_config(), **self._fn_kwargs}


# --- classes ------------------------------------------------------------------------


class Accuracy(MeanMetricWrapper):
    """How often predictions equal targets."""

    def __init__(self, name: str = "accuracy", dtype: Any = None) -> None:
        super().__init__(accuracy, name, dtype)


class BinaryAccuracy(MeanMetricWrapper):
    """How often ``y_pred > threshold`` is the target."""

    def __init__(
        self,
        name: str = "binary_accuracy",
        dtype: Any = None,
        threshold: float = 0.5,
    ) -> None:
        super().__init__(binary_accuracy, name, dtype, threshold=threshold)


class CategoricalAccuracy(MeanMetricWrapper):
    """How often the most probable class is the target's, given one-hot targets."""

    def __init__(self, name: str = "categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(categorical_accuracy, name, dtype)


class SparseCategoricalAccuracy(MeanMetricWrapper):
    """How often the most probable class is the target, given class numbers."""

    def __init__(
        self, name: str = "sparse_categorical_accuracy", dtype: Any = None
    ) -> None:
        super().__init__(sparse_categorical_accuracy, name, dtype)


class MeanSquaredError(MeanMetricWrapper):
    """The mean of ``(y_true - y_pred) ** 2``."""

    def __init__(self, name: str = "mean_squared_error", dtype: Any = None) -> None:
        super().__init__(mean_squared_error, name, dtype)


class MeanAbsoluteError(MeanMetricWrapper):
    """The mean of ``abs(y_true - y_pred)``."""

    def __init__(self, name: str = "mean_absolute_error", dtype: Any = None) -> None:
        super().__init__(mean_absolute_error, name, dtype)


class RootMeanSquaredError(Mean):
    """The square root of the mean of ``(y_true - y_pred) ** 2``."""

    def __init__(
        self, name: str = "root_mean_squared_error", dtype: Any = None
    ) -> None:
        super().__init__(name, dtype)

    def update_state(  # type: ignore[override]
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        """Take a batch in."""
        y_pred = _floats(y_pred, self._dtype)
        y_true, y_pred = squeeze_pair(_floats(y_true, self._dtype), y_pred)
        super().update_state(tf.square(y_pred - y_true), sample_weight)

    def result(self) -> Tensor:
        """Give the root."""
        return tf.sqrt(super().result())


class BinaryCrossentropy(MeanMetricWrapper):
    """The mean of ``losses.binary_crossentropy``."""

    def __init__(
        self,
        name: str = "binary_crossentropy",
        dtype: Any = None,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(
            binary_crossentropy,
            name,
            dtype,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
        )


class CategoricalCrossentropy(MeanMetricWrapper):
    """The mean of ``losses.categorical_crossentropy``."""

    def __init__(
        self,
        name: str = "categorical_crossentropy",
        dtype: Any = None,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(
            categorical_crossentropy,
            name,
            dtype,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
        )


class SparseCategoricalCrossentropy(MeanMetricWrapper):
    """The mean of ``losses.sparse_categorical_crossentropy``."""

    def __init__(
        self,
        name: str = "sparse_categorical_crossentropy",
        dtype: Any = None,
        from_logits: bool = False,
        axis: int = -1,
    ) -> None:
        super().__init__(
            sparse_categorical_crossentropy,
            name,
            dtype,
            from_logits=from_logits,
            axis=axis,
        )


def _floats(values: Any, dtype: Any) -> Tensor:
    tensor = tf.convert_to_tensor(values)
    return tensor if tf.as_dtype(tensor.dtype) == dtype else tf.cast(tensor, dtype)


def _sum(values: Tensor) -> Tensor:
    return tf.reduce_sum(values) if values.shape else values


_TABLE: dict[str, Any] = {
    "Accuracy": Accuracy,
    "BinaryAccuracy": BinaryAccuracy,
    "BinaryCrossentropy": BinaryCrossentropy,
    "CategoricalAccuracy": CategoricalAccuracy,
    "CategoricalCrossentropy": CategoricalCrossentropy,
    "MAE": mean_absolute_error,
    "MSE": mean_squared_error,
    "Mean": Mean,
    "MeanAbsoluteError": MeanAbsoluteError,
    "MeanSquaredError": MeanSquaredError,
    "RootMeanSquaredError": RootMeanSquaredError,
    "SparseCategoricalAccuracy": SparseCategoricalAccuracy,
    "SparseCategoricalCrossentropy": SparseCategoricalCrossentropy,
    "Sum": Sum,
    "binary_accuracy": binary_accuracy,
    "binary_crossentropy": binary_crossentropy,
    "categorical_accuracy": categorical_accuracy,
    "categorical_crossentropy": categorical_crossentropy,
    "mae": mean_absolute_error,
    "mean_absolute_error": mean_absolute_error,
    "mean_squared_error": mean_squared_error,
    "mse": mean_squared_error,
    "sparse_categorical_accuracy": sparse_categorical_accuracy,
    "sparse_categorical_crossentropy": sparse_categorical_crossentropy,
}
# names whose meaning depends on the shapes of outputs and targets
BY_SHAPE = {
    "accuracy": "accuracy",
    "acc": "accuracy",
    "crossentropy": "crossentropy",
    "ce": "crossentropy",
}


def get(identifier: Any) -> Any:
    """Give the metric that an argument names.

    Args:
        identifier: A name such as ``"mse"``, a metric, its class, or a function
            ``(y_true, y_pred)``.

    Returns:
        A ``Metric`` or a function.

    Raises:
        ValueError: There is no metric of that name; the nearest is offered.
        TypeError: It is none of these.
    """
    if isinstance(identifier, str):
        known = {**_TABLE, **{name: accuracy for name in BY_SHAPE}}
        found = _names.lookup("metric function", identifier, known)
        return found() if isinstance(found, type) else found
    if isinstance(identifier, type) and issubclass(identifier, Metric):
        return identifier()
    if isinstance(identifier, Metric) or callable(identifier):
        return identifier
    raise TypeError(
        "A metric must be a name, a Metric or a function (y_true, y_pred). "
        f"Received: {identifier!r} ({type(identifier).__name__})."
    )


def resolve(name: str, y_true: Tensor, y_pred: Tensor) -> Callable[..., Tensor]:
    """Choose what "accuracy" or "crossentropy" means for these shapes.

    Args:
        name: A key of ``BY_SHAPE``.
        y_true: The targets.
        y_pred: The predictions.

    Returns:
        The binary, the sparse or the categorical function, by Keras's rule.
    """
    last_true = y_true.shape[-1] if y_true.shape else 1
    last_pred = y_pred.shape[-1] if y_pred.shape else 1
    is_binary = last_pred == 1
    is_sparse = len(y_true.shape) < len(y_pred.shape) or (
        last_true == 1 and last_pred > 1
    )
    if BY_SHAPE[name] == "accuracy":
        if is_binary:
            return binary_accuracy
        return sparse_categorical_accuracy if is_sparse else categorical_accuracy
    if is_binary:
        return binary_crossentropy
    return sparse_categorical_crossentropy if is_sparse else categorical_crossentropy


__getattr__ = _names.missing(__name__, __all__)
