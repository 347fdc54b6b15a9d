# SPDX-License-Identifier: MIT
"""Scaled dot-product attention as one op, which stores no scores."""

from __future__ import annotations

from typing import Any

from ipu._core import Tensor
from ipu.tf._tensor.convert import apply

_KEYS = (-(2**31), 2**31 - 1)


def serves(query: Tensor, mask: Any = None) -> bool:
    """Return whether the op has a fast kernel for these operands.

    Args:
        query: Its dtype says it: float32 or float16.
        mask: None or a tensor, which has to be bool.

    Returns:
        False where the single ops are better.

    Example:
        >>> serves(Tensor([[1.0]]))
        True
    """
    fits = mask is None or Tensor(mask).dtype_name == "bool"
    return fits and query.dtype_name in ("float32", "float16")


def attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    causal: bool = False,
    scale: float = 1.0,
    dropout: float = 0.0,
    seed: int | None = None,
) -> Tensor:
    """Return ``softmax(query key^T scale) value``, a few rows of the scores at a time.

    The bits are those of the single ops. Gradients make the scores again.

    Args:
        query: [batch, heads, queries, size].
        key: [batch, heads, keys, size].
        value: [batch, heads, keys, value size].
        mask: Bool, [batch, heads, queries, keys], or 1 in any of the first three axes:
            -1e9 is added to scores where it is false. None: everywhere true.
        causal: Whether it is added too where the key comes after the query.
        scale: The factor of scores.
        dropout: The share of the weights that is dropped, in [0, 1); the others are
            multiplied by 1 / (1 - dropout).
        seed: Of what is dropped, or None.

    Returns:
        [batch, heads, queries, value size].

    Raises:
        InvalidArgumentError: Shapes do not fit, or the share is not in [0, 1).
        TypeError: The mask is not bool.

    Example:
        >>> x = Tensor([[[[1.0, 0.0], [1.0, 0.0]]]])
        >>> attention(x, x, x, causal=True).numpy().tolist()
        [[[[1.0, 0.0], [1.0, 0.0]]]]
    """
    operands = [Tensor(query), Tensor(key), Tensor(value)]
    given = 0
    if mask is not None:
        operands.append(Tensor(mask))
        given |= 1
    if dropout > 0:
        operands.append(_new_key(seed))
        given |= 2
    attributes = {
        "scale": float(scale),
        "causal": bool(causal),
        "rate": float(dropout),
        "given": given,
    }
    return apply("attention", tuple(operands), attributes)


def _new_key(seed: int | None) -> Tensor:
    """Return what the dropped weights are a function of, anew in each step."""
    ends = tuple(Tensor(end, "int32") for end in _KEYS)
    return apply("random_integer", ends, {"shape": (2,), "seed": seed})
