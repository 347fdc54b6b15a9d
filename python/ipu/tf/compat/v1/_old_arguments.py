# SPDX-License-Identifier: MIT
"""Functions whose arguments were called otherwise in TensorFlow 1."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ipu import tf


def renamed(function: Callable[..., Any], **old: str) -> Callable[..., Any]:
    """A function that also takes arguments under older names.

    Args:
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
cond = renamed(tf.cond, fn1="true_fn", fn2="false_fn")


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Repeat ``body`` while ``cond`` is true.

    Args:
        cond: As for ``tf.while_loop``, like what follows.
        body, loop_vars, shape_invariants, parallel_iterations, back_prop, swap_memory,
            name, maximum_iterations: As there.
        return_same_structure: Whether a single loop variable comes back in a list, as
            it was given.

    Example:
        >>> int(while_loop(lambda i: i < 10, lambda i: i * 2 + 1, [0]))
        15
    """
    found = tf.while_loop(
        cond,
        body,
        loop_vars,
        shape_invariants,
        parallel_iterations,
        back_prop,
        swap_memory,
        maximum_iterations,
        name,
    )
    is_single = isinstance(loop_vars, (list, tuple)) and len(loop_vars) == 1
    return found[0] if is_single and not return_same_structure else found
