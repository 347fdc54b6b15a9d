# SPDX-License-Identifier: MIT
"""``tf.autograph.experimental``."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ipu._text.exports import export
from ipu.tf.autograph._calls import do_not_convert

__all__ = ["Feature", "do_not_convert", "set_loop_options"]


class Feature(Enum):
    """Names of optional conversions; accepted, without effect.

    Example:
        >>> [feature.name for feature in Feature][:3]
        ['ALL', 'AUTO_CONTROL_DEPS', 'ASSERT_STATEMENTS']
    """

    ALL = "ALL"
    AUTO_CONTROL_DEPS = "AUTO_CONTROL_DEPS"
    ASSERT_STATEMENTS = "ASSERT_STATEMENTS"
    BUILTIN_FUNCTIONS = "BUILTIN_FUNCTIONS"
    EQUALITY_OPERATORS = "EQUALITY_OPERATORS"
    LISTS = "LISTS"
    NAME_SCOPES = "NAME_SCOPES"


def set_loop_options(
    parallel_iterations: Any = None,
    swap_memory: Any = None,
    maximum_iterations: Any = None,
    shape_invariants: Any = None,
) -> dict[str, Any]:
    """Return options of the loop in whose body this is the first statement.

    Args:
        parallel_iterations, swap_memory: Accepted and not used.
        maximum_iterations: An upper bound of the number of iterations; a loop that is
            differentiated needs one where its trip count is not known on entry.
        shape_invariants: Accepted and not used: shapes do not change in a loop.

    Example:
        >>> @tf.function
        ... def halve(x):
        ...     while x > 1.0:
        ...         tf.autograph.experimental.set_loop_options(maximum_iterations=9)
        ...         x = x / 2.0
        ...     return x
        >>> float(halve(tf.constant(8.0)))
        1.0
    """
    return {"maximum_iterations": maximum_iterations}


export(__name__)
