# SPDX-License-Identifier: MIT
"""Functions whose arguments were called otherwise in TensorFlow 1."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ipu import tf

__all__ = [
    "argmax",
    "argmin",
    "expand_dims",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "renamed",
    "squeeze",
]


def renamed(function: Callable[..., Any], **old: str) -> Callable[..., Any]:
    """A function that also takes arguments under older names.

    Args:
        function: The function.
        **old: For each older name the present one.

    Example:
        >>> total = renamed(tf.reduce_sum, keep_dims="keepdims")
        >>> total([1.0, 2.0], keep_dims=True).shape
        (1,)
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for before, now in old.items():
            if before in kwargs:
                value = kwargs.pop(before)
                if value is not None:
                    kwargs[now] = value
        return function(*args, **kwargs)

    call.__signature__ = _with_older(inspect.signature(function), old)  # type: ignore[attr-defined]
    return call


def _with_older(now: inspect.Signature, old: dict[str, str]) -> inspect.Signature:
    """A signature that has older names as well, for who asks what may be given."""
    present = list(now.parameters.values())
    first = min(present.index(now.parameters[name]) for name in set(old.values()))
    for place, one in enumerate(present):
        # what follows a parameter with a default has one as well
        if place >= first and one.default is inspect.Parameter.empty:
            present[place] = one.replace(default=None)
    older = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in old
    ]
    return now.replace(parameters=[*present, *older])


_REDUCING = {"reduction_indices": "axis", "keep_dims": "keepdims"}

reduce_all = renamed(tf.reduce_all, **_REDUCING)
reduce_any = renamed(tf.reduce_any, **_REDUCING)
reduce_max = renamed(tf.reduce_max, **_REDUCING)
reduce_mean = renamed(tf.reduce_mean, **_REDUCING)
reduce_min = renamed(tf.reduce_min, **_REDUCING)
reduce_prod = renamed(tf.reduce_prod, **_REDUCING)
reduce_sum = renamed(tf.reduce_sum, **_REDUCING)
argmax = renamed(tf.argmax, dimension="axis")
argmin = renamed(tf.argmin, dimension="axis")
expand_dims = renamed(tf.expand_dims, dim="axis")
squeeze = renamed(tf.squeeze, squeeze_dims="axis")
