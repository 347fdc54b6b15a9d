# SPDX-License-Identifier: MIT
"""``ipu.keras.losses``: what training makes small.

A loss function gives one number for each sample, a loss object reduces them to one.

Source: ``tf.keras.losses`` of Keras 2.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from ipu.keras._types import Tensor

__all__ = [
    "BinaryCrossentropy",
    "CategoricalCrossentropy",
    "Loss",
    "LossFunctionWrapper",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "Reduction",
    "SparseCategoricalCrossentropy",
    "binary_crossentropy",
    "categorical_crossentropy",
    "get",
    "mean_absolute_error",
    "mean_squared_error",
    "sparse_categorical_crossentropy",
]


class Reduction:
    """How the losses of the samples become one number."""

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


class Loss:
    """Base class of losses: ``call`` for samples, then a reduction.

    Args:
        reduction: A value of ``Reduction``; AUTO means SUM_OVER_BATCH_SIZE, the mean.
        name: A name for messages.

    Raises:
        ValueError: ``reduction`` is no value of ``Reduction``.
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
        return reduce_weighted(losses, sample_weight, self.reduction)

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal loss."""
        return {"reduction": self.reduction, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Loss:
        """Make one from what ``get_config`` gave."""
        return cls(**config)


class LossFunctionWrapper(Loss):
    """A loss object around a loss function.

    Args:
        fn: ``fn(y_true, y_pred, **kwargs)`` gives the loss of each sample.
        reduction: A value of ``Reduction``.
        name: A name; the function's by default.
        **kwargs: Keyword arguments for ``fn``.
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
        """Call the function."""
        y_true, y_pred = squeeze_pair(y_true, y_pred)
        return self.fn(y_true, y_pred, **self._fn_kwargs)

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal loss."""
        return {**super().get_config(), **self._fn_kwargs}


class MeanSquaredError(LossFunctionWrapper):
    """The mean of ``(y_true - y_pred) ** 2``.

    Args:
        reduction: A value of ``Reduction``.
        name: A name.

    Example:
        >>> float(MeanSquaredError()([[0.0, 1.0]], [[1.0, 1.0]]))
        0.5
    """

    def __init__(
        self, reduction: str = Reduction.AUTO, name: str = "mean_squared_error"
    ) -> None:
        super().__init__(mean_squared_error, reduction, name)


class MeanAbsoluteError(LossFunctionWrapper):
    """The mean of ``abs(y_true - y_pred)``.

    Args:
        reduction: A value of ``Reduction``.
        name: A name.
    """

    def __init__(
        self, reduction: str = Reduction.AUTO, name: str = "mean_absolute_error"
    ) -> None:
        super().__init__(mean_absolute_error, reduction, name)


class BinaryCrossentropy(LossFunctionWrapper):
    """Cross-entropy of yes-or-no targets.

    Args:
        from_logits: Whether ``y_pred`` are logits rather than probabilities.
        label_smoothing: In [0, 1]: draws targets towards one half.
        axis: The axis of the mean.
        reduction: A value of ``Reduction``.
        name: A name.
    """

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str = Reduction.AUTO,
        name: str = "binary_crossentropy",
    ) -> None:
        super().__init__(
            binary_crossentropy,
            reduction,
            name,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
            axis=axis,
        )


class CategoricalCrossentropy(LossFunctionWrapper):
    """Cross-entropy of targets given as one probability for each class.

    Args:
        from_logits: Whether ``y_pred`` are logits rather than probabilities.
        label_smoothing: In [0, 1]: draws targets towards the uniform distribution.
        axis: The axis of the classes.
        reduction: A value of ``Reduction``.
        name: A name.
    """

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str = Reduction.AUTO,
        name: str = "categorical_crossentropy",
    ) -> None:
        super().__init__(
            categorical_crossentropy,
            reduction,
            name,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
            axis=axis,
        )


class SparseCategoricalCrossentropy(LossFunctionWrapper):
    """Cross-entropy of targets given as class numbers.

    Args:
        from_logits: Whether ``y_pred`` are logits rather than probabilities.
        reduction: A value of ``Reduction``.
        name: A name.

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


def reduce_weighted(losses: Tensor, sample_weight: Any, reduction: str) -> Tensor:
    """Weigh and reduce the losses of the samples.

    Args:
        losses: A float tensor.
        sample_weight: None, or weights that go with the leading axes of ``losses``.
        reduction: A value of ``Reduction``.

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


MSE = mse = mean_squared_error
MAE = mae = mean_absolute_error

_TABLE: dict[str, Any] = {
    "BinaryCrossentropy": BinaryCrossentropy,
    "CategoricalCrossentropy": CategoricalCrossentropy,
    "MAE": mean_absolute_error,
    "MSE": mean_squared_error,
    "MeanAbsoluteError": MeanAbsoluteError,
    "MeanSquaredError": MeanSquaredError,
    "SparseCategoricalCrossentropy": SparseCategoricalCrossentropy,
    "binary_crossentropy": binary_crossentropy,
    "categorical_crossentropy": categorical_crossentropy,
    "mae": mean_absolute_error,
    "mean_absolute_error": mean_absolute_error,
    "mean_squared_error": mean_squared_error,
    "mse": mean_squared_error,
    "sparse_categorical_crossentropy": sparse_categorical_crossentropy,
}


def get(identifier: Any) -> Any:
    """Give the loss that an argument names.

    Args:
        identifier: None, a name such as ``"mse"``, a loss or a loss function.

    Returns:
        None, a ``Loss``, or a function ``(y_true, y_pred)``.

    Raises:
        ValueError: There is no loss of that name; the nearest is offered.
        TypeError: It is none of these.
    """
    if identifier is None:
        return None
    if isinstance(identifier, str):
        found = _names.lookup("loss function", identifier, _TABLE)
        return found() if isinstance(found, type) else found
    if isinstance(identifier, type) and issubclass(identifier, Loss):
        return identifier()
    if callable(identifier):
        return identifier
    raise TypeError(
        "A loss must be None, a name, a Loss or a function (y_true, y_pred). "
        f"Received: {identifier!r} ({type(identifier).__name__})."
    )


__getattr__ = _names.missing(__name__, __all__)
