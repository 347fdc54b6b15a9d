# SPDX-License-Identifier: MIT
"""The IPU's normalisations: statistics of groups of channels, sample by sample.

Source: ``ipu.layers`` and ``ipu.keras.layers`` of SDK 1.4 to 3.4.
"""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras import initializers
from ipu.keras._types import Tensor
from ipu.keras.engine.base_layer import InputSpec, Layer
from ipu.tf._ops.normalizations import normalize_groups

__all__ = ["GroupNorm", "GroupNormalization", "InstanceNorm", "InstanceNormalization"]


class GroupNormalization(Layer):
    """Brings each group of channels of a sample to mean 0 and variance 1.

    Args:
        dtype: Dtype of weights and computation.
        groups: How many groups; their number divides that of the channels.
        channels_axis: The axis of the channels: 1 or the last.
        center: Whether there is a shift for each channel, ``beta``.
        scale: Whether there is a factor for each channel, ``gamma``.
        epsilon: Added to the variance, which is the biased one.
        beta_initializer: First values of the shift; None for zeros.
        gamma_initializer: First values of the factor; None for ones.
        strided_channel_grouping: Whether channel ``c`` is in group ``c % groups``, as
            is fast on the hardware; else groups are neighbouring channels.
        trainable: Whether optimizers change factor and shift.
        name: A name.

    Raises:
        ValueError: When built: the axis is neither, or the groups do not divide the
            channels.

    Example:
        >>> layer = GroupNormalization(groups=1, epsilon=0.0)
        >>> layer(tf.constant([[1.0, 3.0]])).numpy().tolist()
        [[-1.0, 1.0]]
    """

    def __init__(
        self,
        dtype: Any = "float32",
        groups: int = 2,
        channels_axis: int = -1,
        center: bool = True,
        scale: bool = True,
        epsilon: float = 1e-3,
        beta_initializer: Any = None,
        gamma_initializer: Any = None,
        strided_channel_grouping: bool = True,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable=trainable, name=name, dtype=dtype, **kwargs)
        self.groups = groups
        self.channels_axis = channels_axis
        self.center = center
        self.scale = scale
        self.epsilon = epsilon
        self.beta_initializer = initializers.get(beta_initializer or "zeros")
        self.gamma_initializer = initializers.get(gamma_initializer or "ones")
        self.strided_channel_grouping = strided_channel_grouping
        self.beta: Any = None
        self.gamma: Any = None

    def _groups_of(self, channels: int) -> int:
        return self.groups

    def build(self, input_shape: Any) -> None:
        """Create factor and shift.

        Raises:
            ValueError: The axis is not 1 or the last, its size is open, or the groups
                do not divide it.
        """
        rank = len(input_shape)
        if not -rank <= self.channels_axis < rank:
            raise ValueError(
                "Axis is out of bounds. "
                f"Received: channels_axis={self.channels_axis}, {rank} axes."
            )
        axis = self.channels_axis % rank
        if axis not in (1, rank - 1):
            raise ValueError(
                "Unsupported data format: the channels must be in axis 1 or the last. "
                f"Received: channels_axis={self.channels_axis}, {rank} axes."
            )
        channels = input_shape[axis]
        if channels is None:
            raise ValueError(
                f"Inputs of {self.name} have an undefined channel dimension. "
                f"Received: input_shape={tuple(input_shape)}."
            )
        groups = self._groups_of(channels)
        if not 1 <= groups <= channels:
            raise ValueError(f"Invalid groups {groups} for {channels} channels.")
        if channels % groups:
            raise ValueError(
                f"{channels} channels is not commensurate with {groups} groups."
            )
        self._axis, self._count = axis, groups
        if self.scale:
            self.gamma = self.add_weight(
                "gamma", (channels,), initializer=self.gamma_initializer
            )
        if self.center:
            self.beta = self.add_weight(
                "beta", (channels,), initializer=self.beta_initializer
            )
        self.input_spec = InputSpec(ndim=rank, axes={axis: channels})

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return normalize_groups(
            tf.cast(inputs, self._compute_kind),
            self._axis,
            self._count,
            self.strided_channel_grouping,
            None if self.gamma is None else self.gamma.value(),
            None if self.beta is None else self.beta.value(),
            self.epsilon,
        )


class InstanceNormalization(GroupNormalization):
    """Brings each channel of a sample to mean 0 and variance 1.

    Args:
        dtype: Dtype of weights and computation.
        **kwargs: The arguments of ``GroupNormalization`` but ``groups``.

    Example:
        >>> InstanceNormalization()(tf.ones((2, 4, 4, 3))).shape
        (2, 4, 4, 3)
    """

    def __init__(self, dtype: Any = "float32", **kwargs: Any) -> None:
        kwargs.pop("groups", None)
        super().__init__(dtype, **kwargs)

    def _groups_of(self, channels: int) -> int:
        return channels


GroupNorm = GroupNormalization
InstanceNorm = InstanceNormalization
