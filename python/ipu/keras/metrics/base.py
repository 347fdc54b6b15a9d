# SPDX-License-Identifier: MIT
"""The base classes of metrics: state in device variables, updated by every batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ipu import tf
from ipu._text.suggestions import refuse_unknown
from ipu._text.tracebacks import boundaries
from ipu.keras import _names
from ipu.keras._arguments import Configured, config_of
from ipu.keras._shape_fitting import fit_weights, squeeze_pair
from ipu.keras._types import Tensor
from ipu.tf._functions.tracing import init_scope

__all__ = [
    "Mean",
    "MeanMetricWrapper",
    "MeanRelativeError",
    "MeanTensor",
    "Metric",
    "RootMeanSquaredError",
    "Sum",
]


@boundaries("__call__")
class Metric(Configured):
    """Base class of metrics: state in variables, updated by every batch.

    A subclass makes its state with ``add_weight`` in ``__init__``, and defines
    ``update_state(y_true, y_pred, sample_weight=None)`` and ``result()``.

    Args:
        name: The key in logs; by default the class name in snake case.
        dtype: Dtype of the state; None for float32.
        **kwargs: ``dynamic`` and others that Keras's layers take, without effect.

    Raises:
        TypeError: An unknown argument.

    Example:
        >>> mean = Mean()
        >>> mean.update_state([1.0, 3.0])
        >>> float(mean.result())
        2.0
    """

    def __init__(self, name: str | None = None, dtype: Any = None, **kwargs: Any):
        refuse_unknown(
            type(self).__name__,
            kwargs,
            ("autocast", "dtype", "dynamic", "name", "trainable"),
        )
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
            **kwargs: ``aggregation`` and others of Keras, without effect.

        Returns:
            A ``tf.Variable`` that optimizers leave alone.
        """
        from ipu.keras import initializers

        refuse_unknown(
            "add_weight",
            kwargs,
            (
                "aggregation",
                "caching_device",
                "collections",
                "constraint",
                "dtype",
                "initializer",
                "shape",
                "synchronization",
                "trainable",
                "use_resource",
            ),
        )
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

    def add_variable(
        self,
        shape: tuple[int, ...] = (),
        initializer: Any = "zeros",
        dtype: Any = None,
        aggregation: Any = None,
        name: str | None = None,
    ) -> Any:
        """Create a variable of the state, as ``add_weight`` does."""
        del aggregation
        return self.add_weight(name or "variable", shape, initializer, dtype)

    def _checkpoint_parts(self, names: Any) -> dict[str, Any]:
        """Return what ``tf.train.Checkpoint`` keeps of the metric, by name."""
        return {str(number): one for number, one in enumerate(self.variables)}

    @property
    def variables(self) -> list[Any]:
        """The variables of the state."""
        return list(self._state)

    weights = variables

    def update_state(self, *args: Any, **kwargs: Any) -> Any:
        """Take in a batch."""
        raise NotImplementedError(f"{type(self).__name__} must define update_state().")

    def result(self) -> Tensor:
        """Return the value over all batches since the last reset, a scalar."""
        raise NotImplementedError(f"{type(self).__name__} must define result().")

    def reset_state(self) -> None:
        """Start again: set the state to zeros."""
        for variable in self._state:
            sizes = tuple(variable._type[1])
            variable.assign(np.zeros(sizes, variable.dtype.as_numpy_dtype))

    def reset_states(self) -> None:
        """Do the same as ``reset_state``, its name before Keras 2.5."""
        self.reset_state()

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """Take in a batch and give the value."""
        self.update_state(*args, **kwargs)
        return self.result()

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal metric."""
        return {"name": self.name, "dtype": self.dtype} | config_of(self, Metric)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} {self.name!r}>"


class Sum(Metric):
    """The sum of all values.

    Example:
        >>> float(Sum()([1.0, 2.0]))
        3.0
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
        values = floats(values, self._dtype)
        if sample_weight is not None:
            values = values * fit_weights(sample_weight, values)
        self.total.assign_add(_sum(values))

    def result(self) -> Tensor:
        return self.total.value()


class Mean(Metric):
    """The mean of all values, weighed.

    Example:
        >>> float(Mean()([1.0, 2.0]))
        1.5
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
        values = floats(values, self._dtype)
        if sample_weight is None:
            count = tf.constant(float(np.prod(values.shape)), dtype=self._dtype)
        else:
            weights = fit_weights(sample_weight, values)
            values = values * weights
            count = _sum(tf.broadcast_to(weights, tuple(values.shape)))
        self.total.assign_add(_sum(values))
        self.count.assign_add(count)

    def result(self) -> Tensor:
        """Return the mean; 0 before the first value."""
        total, count = self.total.value(), self.count.value()
        one = tf.constant(1.0, dtype=self._dtype)
        return total / tf.where(tf.equal(count, tf.zeros_like(count)), one, count)


class MeanMetricWrapper(Mean):
    """The mean of a function of targets and predictions.

    Args:
        fn: ``fn(y_true, y_pred, **kwargs)`` gives one number for each sample.
        name: The key in logs; by default ``mean_metric_wrapper``.
        dtype: Dtype of the state.
        **kwargs: Keyword arguments for ``fn``.

    Example:
        >>> metric = MeanMetricWrapper(lambda y, x: abs(y - x))
        >>> float(metric(tf.constant([1.0]), tf.constant([3.0])))
        2.0
    """

    def __init__(
        self,
        fn: Callable[..., Tensor],
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        stem = _names.snake_case(type(self).__name__)
        super().__init__(name or _names.unique_name(stem), dtype)
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
        return {"name": self.name, "dtype": self.dtype, **self._fn_kwargs}


class RootMeanSquaredError(Mean):
    """The square root of the mean of ``(y_true - y_pred) ** 2``.

    Example:
        >>> float(RootMeanSquaredError()([[1.0]], [[3.0]]))
        2.0
    """

    def __init__(
        self, name: str = "root_mean_squared_error", dtype: Any = None
    ) -> None:
        super().__init__(name, dtype)

    def update_state(  # type: ignore[override]
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        y_pred = floats(y_pred, self._dtype)
        y_true, y_pred = squeeze_pair(floats(y_true, self._dtype), y_pred)
        super().update_state(tf.square(y_pred - y_true), sample_weight)

    def result(self) -> Tensor:
        return tf.sqrt(super().result())


class MeanTensor(Metric):
    """The mean of tensors, element by element, weighed.

    Args:
        shape: The shape of the tensors; None for that of the first.

    Raises:
        ValueError: In ``update_state``: a tensor has another shape; in ``result``:
            there was none yet.

    Example:
        >>> mean = MeanTensor()
        >>> mean.update_state([1.0, 2.0])
        >>> mean.update_state([3.0, 6.0])
        >>> mean.result().numpy().tolist()
        [2.0, 4.0]
    """

    _left_out = ("shape",)

    def __init__(
        self, name: str = "mean_tensor", dtype: Any = None, shape: Any = None
    ) -> None:
        super().__init__(name, dtype)
        self.total: Any = None
        self.count: Any = None
        if shape is not None:
            self._build(tuple(shape))

    def _build(self, shape: tuple[int, ...]) -> None:
        with init_scope():
            self.total = self.add_weight("total", shape)
            self.count = self.add_weight("count", shape)

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        """Take a tensor in.

        Args:
            values: The tensor.
            sample_weight: Weights that go with its leading axes.
        """
        values = floats(values, self._dtype)
        shape = tuple(values.shape)
        if self.total is None:
            self._build(shape)
        if shape != tuple(self.total.shape):
            raise ValueError(
                "MeanTensor input values must always have the same shape. Expected "
                f"shape (set during the first call): {tuple(self.total.shape)}. "
                f"Received: {shape}."
            )
        weights = tf.ones(shape, self._dtype)
        if sample_weight is not None:
            weights = weights * fit_weights(sample_weight, values)
            values = values * weights
        self.total.assign_add(values)
        self.count.assign_add(weights)

    def result(self) -> Tensor:
        """Return the mean; 0 where nothing was weighed."""
        if self.total is None:
            raise ValueError(
                "MeanTensor does not have any value yet. Please call the MeanTensor "
                "instance or use `.update_state(value)` before retrieving the result."
            )
        return tf.math.divide_no_nan(self.total.value(), self.count.value())


class MeanRelativeError(Mean):
    """The mean of ``abs(y_pred - y_true) / normalizer``.

    Args:
        normalizer: The divisor of errors; of a shape that broadcasts. Where it is
            0 the error counts as 0.

    Example:
        >>> float(MeanRelativeError([2.0])([[1.0]], [[3.0]]))
        1.0
    """

    def __init__(
        self, normalizer: Any, name: str | None = None, dtype: Any = None
    ) -> None:
        super().__init__(name or "mean_relative_error", dtype)
        self.normalizer = normalizer

    def update_state(  # type: ignore[override]
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        y_pred = floats(y_pred, self._dtype)
        y_true, y_pred = squeeze_pair(floats(y_true, self._dtype), y_pred)
        by = tf.broadcast_to(floats(self.normalizer, self._dtype), tuple(y_pred.shape))
        error = tf.math.divide_no_nan(tf.abs(y_true - y_pred), by)
        super().update_state(error, sample_weight)

    def get_config(self) -> dict[str, Any]:
        normalizer = np.asarray(self.normalizer).tolist()
        return {**super().get_config(), "normalizer": normalizer}


def floats(values: Any, dtype: Any) -> Tensor:
    """Return values as a tensor of a dtype."""
    tensor = tf.convert_to_tensor(values)
    return tensor if tf.as_dtype(tensor.dtype) == dtype else tf.cast(tensor, dtype)


def _sum(values: Tensor) -> Tensor:
    return tf.reduce_sum(values) if values.shape else values
