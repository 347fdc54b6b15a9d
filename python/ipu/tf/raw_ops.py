# SPDX-License-Identifier: MIT
"""``tf.raw_ops``: the few that programs call by these names. Keyword arguments only."""

from __future__ import annotations

from typing import Any

from ipu.tf._convert import Tensor, apply, pair
from ipu.tf._dispatch import op

__all__ = ["ReluGrad", "SigmoidGrad", "TanhGrad"]


@op
def ReluGrad(*, gradients: Any, features: Any, name: str | None = None) -> Tensor:
    """The gradient of relu: ``gradients`` where ``features`` is above 0, else 0.

    Args:
        gradients: With respect to relu's result.
        features: Its input or its result.
        name: Accepted and not used.

    Example:
        >>> tf.raw_ops.ReluGrad(gradients=[1.0, 1.0], features=[-1.0, 2.0]).numpy()
        array([0., 1.], dtype=float32)
    """
    return apply("relu_grad", pair(features, gradients))


@op
def TanhGrad(*, y: Any, dy: Any, name: str | None = None) -> Tensor:
    """The gradient of tanh in terms of its result ``y``: ``dy * (1 - y * y)``.

    Example:
        >>> tf.raw_ops.TanhGrad(y=[0.5], dy=[2.0]).numpy().tolist()
        [1.5]
    """
    return apply("tanh_grad", pair(y, dy))


@op
def SigmoidGrad(*, y: Any, dy: Any, name: str | None = None) -> Tensor:
    """The gradient of sigmoid in terms of its result ``y``: ``dy * y * (1 - y)``.

    Example:
        >>> tf.raw_ops.SigmoidGrad(y=[0.5], dy=[2.0]).numpy().tolist()
        [0.5]
    """
    return apply("sigmoid_grad", pair(y, dy))
