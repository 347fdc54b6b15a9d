# SPDX-License-Identifier: MIT
"""What loss objects are made from: a function for samples, then a reduction.

Source: ``tf.keras.losses`` of Keras 2.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu import tf
from ipu._text.tracebacks import boundaries
from ipu.keras import _names
from ipu.keras._arguments import Configured, config_of
from ipu.keras._shape_fitting import fit_weights, squeeze_pair
from ipu.keras._types import Tensor


class Reduction:
    """How the losses of the samples become one number.

    Example:
        >>> from ipu import keras
        >>> loss = keras.losses.MeanSquaredError(reduction=Reduction.SUM)
        >>> float(loss([[1.0], [1.0]], [[3.0], [3.0]]))
        8.0
    """

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


@boundaries("__call__")
class Loss(Configured):
    """Base class of losses: ``call`` for samples, then a reduction.

    Args:
        reduction: A value of ``Reduction``; AUTO means SUM_OVER_BATCH_SIZE, the mean.
        name: A name for messages.

    Raises:
        ValueError: ``reduction`` is not a value of ``Reduction``.

    Example:
        >>> class Hinge(Loss):
        ...     def call(self, y_true, y_pred):
        ...         return tf.reduce_mean(tf.nn.relu(1.0 - y_true * y_pred), axis=-1)
        ...
        >>> float(Hinge()(tf.constant([[1.0, -1.0]]), tf.constant([[0.5, 0.5]])))
        1.0
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
        shared = {"reduction": self.reduction, "name": self.name}
        return shared | config_of(self, Loss)


class LossFunctionWrapper(Loss):
    """A loss object around a loss function.

    Args:
        fn: ``fn(y_true, y_pred, **kwargs)`` gives the loss of each sample.
        reduction: A value of ``Reduction``.
        name: A name; the function's by default.
        **kwargs: Keyword arguments for ``fn``.

    Example:
        >>> def distance(y_true, y_pred):
        ...     return tf.reduce_max(abs(y_true - y_pred), axis=-1)
        ...
        >>> loss = LossFunctionWrapper(distance, name="distance")
        >>> float(loss(tf.constant([[1.0, 5.0]]), tf.constant([[2.0, 2.0]])))
        3.0
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
        return {"reduction": self.reduction, "name": self.name, **self._fn_kwargs}


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
