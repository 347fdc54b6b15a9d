# SPDX-License-Identifier: MIT
"""The activations of ``tf.nn``: a few element-wise ops each, which fuse into one."""

from __future__ import annotations

import math
from typing import Any

from ipu.tf._ops.elementwise import expm1, sigmoid, tanh
from ipu.tf._ops.shapes import concat
from ipu.tf._tensor.convert import Tensor, apply, like
from ipu.tf._tensor.dispatch import op


@op
def relu6(features: Any, name: str | None = None) -> Tensor:
    """Return ``min(max(x, 0), 6)``.

    Example:
        >>> tf.nn.relu6([-1.0, 3.0, 9.0]).numpy().tolist()
        [0.0, 3.0, 6.0]
    """
    x = Tensor(features)
    return apply("minimum", (like(6, x), apply("relu", (x,))))


@op
def crelu(features: Any, axis: int = -1, name: str | None = None) -> Tensor:
    """Join relu of ``x`` and of ``-x`` along ``axis``.

    Example:
        >>> tf.nn.crelu([-1.0, 2.0]).numpy().tolist()
        [0.0, 2.0, 1.0, 0.0]
    """
    x = Tensor(features)
    return concat([apply("relu", (x,)), apply("relu", (-x,))], axis)


@op
def leaky_relu(features: Any, alpha: Any = 0.2, name: str | None = None) -> Tensor:
    """Return ``x`` above 0, ``alpha * x`` below.

    Example:
        >>> tf.nn.leaky_relu([-1.0, 2.0], alpha=0.5).numpy().tolist()
        [-0.5, 2.0]
    """
    x = Tensor(features)
    x = apply("cast", (x,), {"dtype": "float32"}) if x.dtype.is_integer else x
    return apply("select", (x > 0, x, x * like(alpha, x)))


def _elu(x: Tensor, alpha: float) -> Tensor:
    below = expm1(apply("minimum", (x, like(0, x))))
    # at 0 the slope is that of the line, as TensorFlow has it
    return apply("select", (x >= 0, x, below if alpha == 1.0 else below * alpha))


@op
def elu(features: Any, name: str | None = None) -> Tensor:
    """Return ``x`` above 0, ``exp(x) - 1`` below.

    Example:
        >>> tf.nn.elu([-1.0, 2.0]).numpy().tolist()
        [-0.632, 2.0]
    """
    return _elu(Tensor(features), 1.0)


@op
def selu(features: Any, name: str | None = None) -> Tensor:
    """Return the self-normalising form of elu (Klambauer and others, 2017).

    Example:
        >>> tf.nn.selu([-1.0, 1.0]).numpy().tolist()
        [-1.111, 1.051]
    """
    return _elu(Tensor(features), 1.6732632423543772) * 1.0507009873554805


@op
def gelu(features: Any, approximate: bool = False, name: str | None = None) -> Tensor:
    """Return ``x`` times the normal distribution at ``x``.

    Args:
        features: A floating-point tensor.
        approximate: Use tanh in place of erf.

    Example:
        >>> tf.nn.gelu([-1.0, 1.0]).numpy().tolist()
        [-0.159, 0.841]
    """
    x = Tensor(features)
    if approximate:
        cube = x * x * x
        inner = (x + cube * 0.044715) * math.sqrt(2.0 / math.pi)
        return x * 0.5 * (tanh(inner) + 1.0)
    return apply("gelu", (x,))


@op
def silu(features: Any, beta: Any = 1.0, name: str | None = None) -> Tensor:
    """Return ``x * sigmoid(beta * x)``.

    Example:
        >>> tf.nn.silu([0.0, 1.0]).numpy().tolist()
        [0.0, 0.731]
    """
    x = Tensor(features)
    plain = isinstance(beta, (int, float)) and beta == 1.0
    return x * sigmoid(x if plain else x * like(beta, x))


@op
def swish(features: Any, beta: Any = 1.0, name: str | None = None) -> Tensor:
    """Return the same as :func:`silu`.

    Example:
        >>> tf.nn.swish([1.0]).numpy().tolist()
        [0.731]
    """
    return silu(features, beta)


@op
def hard_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """Return ``0.2 x + 0.5``, kept within 0 and 1.

    Example:
        >>> tf.nn.hard_sigmoid([-9.0, 0.0, 9.0]).numpy().tolist()
        [0.0, 0.5, 1.0]
    """
    value = Tensor(x)
    line = value * 0.2 + 0.5
    low = apply("maximum", (line, like(0, value)))
    return apply("minimum", (low, like(1, value)))


@op
def softsign(features: Any, name: str | None = None) -> Tensor:
    """Return ``x / (1 + |x|)``.

    Example:
        >>> tf.nn.softsign([-1.0, 3.0]).numpy().tolist()
        [-0.5, 0.75]
    """
    x = Tensor(features)
    return x / (apply("abs", (x,)) + 1.0)
