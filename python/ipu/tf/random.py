# SPDX-License-Identifier: MIT
"""``tf.random``: counter-based random numbers.

A number is a function of (seed, step, replica, op, element), never of time or threads:
a program gives the same numbers on every run. ``set_seed`` seeds eager ops and devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu import _core, _devices, _seed
from ipu.tf import ops
from ipu.tf.dtypes import as_dtype, float32
from ipu.tf.ops import Tensor

__all__ = ["normal", "set_seed", "truncated_normal", "uniform"]


def set_seed(seed: int) -> None:
    """Restart the random streams: of eager ops, of initializers, and of devices.

    Example:
        >>> from ipu import tf
        >>> tf.random.set_seed(1)
        >>> first = tf.random.uniform((2,)).numpy()
        >>> tf.random.set_seed(1)
        >>> bool((first == tf.random.uniform((2,)).numpy()).all())
        True
    """
    _seed.set_current(seed)
    _core.set_eager_seed(seed)
    _devices.seed_all(seed)


def _seed_state() -> tuple[int, int]:
    return _seed.current()


def _draw(op: str, shape: Sequence[int], dtype: Any, seed: int | None) -> Tensor:
    return _core.apply(
        op,
        (),
        {
            "shape": [int(s) for s in shape],
            "dtype": as_dtype(dtype).name,
            "seed": seed,
        },
    )


def uniform(
    shape: Sequence[int],
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Numbers drawn evenly from [minval, maxval); integers where ``dtype`` is one.

    Args:
        shape: The result's shape.
        minval: The least value.
        maxval: The end, not included; 1 for floats, required for integers.
        dtype: float32, float16 or int32.
        seed: The op's own seed, or None.
        name: Accepted and not used.
    """
    kind = as_dtype(dtype)
    if kind.is_integer:
        if maxval is None:
            raise ValueError("Must specify maxval for integer dtype.")
        drawn = _draw("random_uniform", shape, float32, seed)
        span = ops.floor(drawn * float(int(maxval) - int(minval)))
        return ops.cast(span, kind) + int(minval)
    high = 1.0 if maxval is None else maxval
    drawn = _draw("random_uniform", shape, kind, seed)
    if isinstance(minval, (int, float)) and isinstance(high, (int, float)):
        if minval == 0 and high == 1:
            return drawn
        return drawn * float(high - minval) + float(minval)
    return ops.add(drawn * (high - minval), minval)


def normal(
    shape: Sequence[int],
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Numbers from the normal distribution with ``mean`` and ``stddev``."""
    return ops.add(_draw("random_normal", shape, dtype, seed) * stddev, mean)


def truncated_normal(
    shape: Sequence[int],
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """As ``normal``; what is more than two deviations from the mean is drawn again."""
    return ops.add(_draw("truncated_normal", shape, dtype, seed) * stddev, mean)
