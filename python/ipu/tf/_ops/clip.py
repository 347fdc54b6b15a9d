# SPDX-License-Identifier: MIT
"""Values and gradients kept within limits."""

from __future__ import annotations

from typing import Any

from ipu._text.arguments import checked_list
from ipu.tf._gradients import slices as _slices
from ipu.tf._ops.reductions import reduce_sum
from ipu.tf._tensor.convert import Tensor, apply, like
from ipu.tf._tensor.dispatch import op


@op
def clip_by_value(
    t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None
) -> Tensor:
    """Return elements below the least value become it, elements above the largest
    become that.

    Args:
        t: Anything that converts to a tensor.
        clip_value_min: A number or tensor that broadcasts to ``t``.
        clip_value_max: The same.

    Example:
        >>> tf.clip_by_value([-3.0, 0.5, 9.0], 0.0, 1.0).numpy().tolist()
        [0.0, 0.5, 1.0]
    """
    limits = clip_value_min, clip_value_max
    has_rows = _slices.slices_of(t) is not None
    if has_rows and all(Tensor(limit).ndim == 0 for limit in limits):
        return _slices.mapped(lambda rows: clip_by_value(rows, *limits), t)
    value = Tensor(t)
    below = apply("minimum", (value, like(clip_value_max, value)))
    result = apply("maximum", (below, like(clip_value_min, value)))
    if result.shape != value.shape:
        raise ValueError(
            f"The limits must broadcast to shape {value.shape}; the result would have "
            f"shape {result.shape}."
        )
    return result


@op
def clip_by_norm(
    t: Any, clip_norm: Any, axes: Any = None, name: str | None = None
) -> Tensor:
    """Return ``t`` scaled down where its Euclidean norm is above ``clip_norm``.

    Args:
        t: A floating-point tensor.
        clip_norm: The largest norm.
        axes: The axes that the norm is taken over; None for all.

    Example:
        >>> tf.clip_by_norm([3.0, 4.0], 1.0).numpy().tolist()
        [0.6, 0.8]
    """
    value = Tensor(t)
    limit = like(clip_norm, value)
    if axes is None and _slices.slices_of(t) is not None:
        norm = apply("sqrt", (_square(t),))
        return _scaled(t, limit / apply("maximum", (norm, limit)))
    squares = reduce_sum(value * value, axes, keepdims=True)
    some = apply("less", (like(0, squares), squares))
    safe = apply("select", (some, squares, like(1, squares)))
    norm = apply("select", (some, apply("sqrt", (safe,)), squares))
    return value * limit / apply("maximum", (norm, limit))


@op
def global_norm(t_list: Any, name: str | None = None) -> Tensor:
    """Return the Euclidean norm of all elements of a list of tensors; None items do not
    count.

    Example:
        >>> float(tf.linalg.global_norm([[3.0], None, [4.0]]))
        5.0
    """
    tensors = [t for t in checked_list("t_list", t_list) if t is not None]
    if not tensors:
        raise ValueError("global_norm needs at least one tensor.")
    total = _square(tensors[0])
    for tensor in tensors[1:]:
        total = total + _square(tensor)
    return apply("sqrt", (total,))


def _square(t: Any) -> Tensor:
    """Return the square of a norm; rows that were looked up twice count twice."""
    slices = _slices.slices_of(t)
    parts = [Tensor(t)] if slices is None else [one.values for one in slices]
    total = reduce_sum(apply("square", (parts[0],)))
    for part in parts[1:]:
        total = total + reduce_sum(apply("square", (part,)))
    return total


@op
def clip_by_global_norm(
    t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Tensor | None], Tensor]:
    """Return a list of tensors scaled down together where their joint norm is too
    large.

    Args:
        t_list: Tensors; None items stay None.
        clip_norm: The largest norm.
        use_norm: The joint norm, where it is known already.

    Returns:
        ``(tensors, norm)``. If the norm is not finite, all elements become NaN.

    Example:
        >>> clipped, norm = tf.clip_by_global_norm([[3.0], [4.0]], 1.0)
        >>> [t.numpy().tolist() for t in clipped], float(norm)
        ([[0.6], [0.8]], 5.0)
    """
    norm = global_norm(t_list) if use_norm is None else Tensor(use_norm)
    limit = like(clip_norm, norm)
    one = like(1.0, norm)
    scale = limit * apply("minimum", (one / norm, one / limit))
    scale = scale + (norm - norm)  # NaN where the norm is not a finite number
    clipped = [
        None if t is None else _scaled(t, _as_dtype_of(scale, Tensor(t)))
        for t in t_list
    ]
    return clipped, norm


def _scaled(t: Any, factor: Tensor) -> Tensor:
    return _slices.mapped(lambda rows: rows * factor, Tensor(t))


def _as_dtype_of(scale: Tensor, tensor: Tensor) -> Tensor:
    """Return ``scale`` in the dtype of ``tensor``."""
    if scale.dtype == tensor.dtype:
        return scale
    return apply("cast", (scale,), {"dtype": tensor.dtype_name})
