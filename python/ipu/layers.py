# SPDX-License-Identifier: MIT
"""``ipu.layers``: the IPU's own versions of Keras layers, with its own restrictions.

Source: ``ipu.layers``, ``ipu.keras.layers`` of SDK 1.4 to 3.4, IPU TensorFlow Addons.
"""

from __future__ import annotations

from typing import Any

from ipu._layers.ctc import CTCInferenceLayer, CTCPredictionsLayer
from ipu._layers.effective_transformer import EffectiveTransformer
from ipu._layers.recurrent import GRU, LSTM
from ipu._text.exports import export
from ipu._text.refusals import refuse_given
from ipu._text.suggestions import refuse_unknown
from ipu.keras.layers import (
    Dropout,
    Embedding as _Embedding,
    GroupNorm,
    GroupNormalization,
    InstanceNorm,
    InstanceNormalization,
    Layer,
    SerialDense,
)
from ipu.keras.layers.gradient_capture import (
    CaptureActivationGradients,
    CaptureUpstreamGradients,
)
from ipu.ops import cross_replica_ops
from ipu.ops.pipelining_ops import recomputation_checkpoint

__all__ = [
    "GRU",
    "LSTM",
    "AssumeEqualAcrossReplicas",
    "CTCInferenceLayer",
    "CTCPredictionsLayer",
    "CaptureActivationGradients",
    "CaptureUpstreamGradients",
    "Dropout",
    "EffectiveTransformer",
    "Embedding",
    "GroupNorm",
    "GroupNormalization",
    "InstanceNorm",
    "InstanceNormalization",
    "LayerNorm",
    "LayerNormalization",
    "PopnnGRU",
    "PopnnLSTM",
    "RecomputationCheckpoint",
    "SerialDense",
]


class Embedding(_Embedding):
    """``keras.layers.Embedding`` for inputs ``(batch, steps)``, without its extras.

    Args:
        input_dim: How many rows; inputs are in ``[0, input_dim)``.
        output_dim: How long a row is.
        embeddings_initializer: First values of the table.
        embeddings_regularizer, activity_regularizer, embeddings_constraint,
            mask_zero, input_length: Not supported.
        serialization_factor: In how many parts hardware would keep the table.

    Raises:
        NotImplementedError: An argument is not supported.
        ValueError: When built: the input has not two axes.

    Example:
        >>> Embedding(3, 2)(np.array([[0, 2]])).shape
        (1, 2, 2)
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        activity_regularizer: Any = None,
        embeddings_constraint: Any = None,
        mask_zero: bool = False,
        input_length: Any = None,
        serialization_factor: int = 1,
        **kwargs: Any,
    ) -> None:
        unsupported = {
            "embeddings_regularizer": embeddings_regularizer,
            "activity_regularizer": activity_regularizer,
            "embeddings_constraint": embeddings_constraint,
            "mask_zero": mask_zero,
            "input_length": input_length,
        }
        refuse_given(f"{__name__}.Embedding", **unsupported)
        super().__init__(
            input_dim,
            output_dim,
            embeddings_initializer,
            serialization_factor=serialization_factor,
            **kwargs,
        )

    def build(self, input_shape: Any) -> None:
        """Create the table.

        Raises:
            ValueError: The input has not two axes.
        """
        if len(input_shape) != 2:
            raise ValueError(
                "The input of ipu.layers.Embedding must have two axes, batch and "
                f"steps. Received: input_shape={tuple(input_shape)}."
            )
        super().build(input_shape)


class LayerNormalization(GroupNormalization):
    """Brings each sample to mean 0 and variance 1 over all its axes.

    Args:
        dtype: Dtype of weights and computation.
        axis: The axis of the channels, which have a factor and a shift each.
        epsilon: Added to the variance.
        center: Whether there is a shift for each channel.
        scale: Whether there is a factor for each channel.
        beta_initializer: First values of the shift.
        gamma_initializer: First values of the factor.
        beta_regularizer, gamma_regularizer, beta_constraint, gamma_constraint: Not
            supported.
        trainable: Whether optimizers change factor and shift.
        name: A name.

    Raises:
        NotImplementedError: An argument is not supported.

    Example:
        >>> layer = LayerNormalization(epsilon=0.0)
        >>> layer(np.array([[1.0, 3.0]])).numpy().tolist()
        [[-1.0, 1.0]]
    """

    _left_out = (
        "beta_constraint",
        "beta_regularizer",
        "channels_axis",
        "gamma_constraint",
        "gamma_regularizer",
        "groups",
        "strided_channel_grouping",
    )

    def __init__(
        self,
        dtype: Any = "float32",
        axis: int = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        unsupported = {
            "beta_regularizer": beta_regularizer,
            "gamma_regularizer": gamma_regularizer,
            "beta_constraint": beta_constraint,
            "gamma_constraint": gamma_constraint,
        }
        refuse_given(f"{__name__}.LayerNormalization", **unsupported)
        super().__init__(
            dtype,
            1,
            axis,
            center,
            scale,
            epsilon,
            beta_initializer,
            gamma_initializer,
            trainable=trainable,
            name=name,
            **kwargs,
        )
        self.axis = axis


LayerNorm = LayerNormalization
PopnnGRU = GRU
PopnnLSTM = LSTM


class AssumeEqualAcrossReplicas(Layer):
    """Gives its inputs as they are; says that they are the same in all replicas.

    Args:
        inplace: Accepted and not used.

    Source: ``ipu.keras.layers.AssumeEqualAcrossReplicas`` of SDK 2.3 to 3.4.

    Example:
        >>> AssumeEqualAcrossReplicas()(np.ones(2)).numpy().tolist()
        [1.0, 1.0]
    """

    def __init__(self, inplace: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inplace = inplace

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Hand the inputs on."""
        refuse_unknown(type(self).__name__, kwargs, ("mask", "training"))
        return cross_replica_ops.assume_equal_across_replicas(inputs, self.inplace)


class RecomputationCheckpoint(Layer):
    """Gives its inputs as they are; a recomputing pipeline keeps them.

    Source: ``ipu.keras.layers.RecomputationCheckpoint`` of SDK 2.4 to 3.4; see
    ``pipelining_ops.recomputation_checkpoint``.

    Example:
        >>> RecomputationCheckpoint()(np.ones(2)).numpy().tolist()
        [1.0, 1.0]
    """

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Mark the inputs."""
        refuse_unknown(type(self).__name__, kwargs, ("mask", "training"))
        return recomputation_checkpoint(inputs)


export(__name__)
