# SPDX-License-Identifier: MIT
"""The global step, and rates that follow it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import tf
from ipu.tf import _graph_mode
from ipu.tf._graph.graph import Graph
from ipu.tf.compat.v1._variables import get_variable

__all__ = [
    "create_global_step",
    "exponential_decay",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
]


def _graph(graph: Any) -> Graph:
    return graph or _graph_mode.current() or _graph_mode.default()


def get_global_step(graph: Any = None) -> Any:
    """The variable that counts updates, or None.

    Args:
        graph: The graph; None: the default one.

    Source: ``tf.compat.v1.train.get_global_step``.

    Example:
        >>> from ipu.tf.compat import v1
        >>> with v1.Graph().as_default():
        ...     print(v1.train.get_global_step())
        None
    """
    found = _graph(graph).get_collection("global_step")
    return found[0] if found else None


def create_global_step(graph: Any = None) -> Any:
    """Make the variable that counts updates.

    Args:
        graph: The graph; None: the default one.

    Raises:
        ValueError: It is there already.

    Source: ``tf.compat.v1.train.create_global_step``.

    Example:
        >>> from ipu.tf.compat import v1
        >>> with v1.Graph().as_default():
        ...     v1.train.create_global_step().name
        'global_step:0'
    """
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with _graph(graph).as_default() as here:
        scope, names = here.store.scope, here.names.scope
        here.store.scope, here.names.scope = type(scope)(), ""
        here.store.scope.use_resource = scope.use_resource
        try:
            return get_variable(
                "global_step",
                shape=[],
                dtype="int32",
                initializer=lambda shape, dtype: np.zeros(shape, np.int32),
                trainable=False,
                collections=["variables", "global_step"],
            )
        finally:
            here.store.scope, here.names.scope = scope, names


def get_or_create_global_step(graph: Any = None) -> Any:
    """The variable that counts updates, made where it is not there.

    Make it where the device is the CPU: ``with tf.device("cpu"):``. It is of int32,
    which is the widest integer of a device.

    Args:
        graph: The graph; None: the default one.

    Source: ``tf.compat.v1.train.get_or_create_global_step``.

    Example:
        >>> from ipu.tf.compat import v1
        >>> with v1.Graph().as_default():
        ...     with v1.device("cpu"):
        ...         step = v1.train.get_or_create_global_step()
        ...     step is v1.train.get_global_step()
        True
    """
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """The number of updates as a Python int.

    Args:
        sess: The session.
        global_step_tensor: The variable.

    Source: ``tf.compat.v1.train.global_step``.

    Example:
        >>> from ipu.tf.compat import v1
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     step = v1.train.get_or_create_global_step()
        ...     session.run(v1.global_variables_initializer())
        ...     v1.train.global_step(session, step)
        0
    """
    return int(sess.run(global_step_tensor))


def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """A rate that decays: ``learning_rate * decay_rate ** (step / decay_steps)``.

    Args:
        learning_rate: The rate at the start.
        global_step: The step, a tensor or variable.
        decay_steps: After how many steps it is multiplied by ``decay_rate``.
        decay_rate: The factor.
        staircase: Whether the exponent is cut to whole numbers.
        name: Accepted and not used.

    Source: ``tf.compat.v1.train.exponential_decay``.

    Example:
        >>> from ipu.tf.compat import v1
        >>> round(float(v1.train.exponential_decay(1.0, 20, 10, 0.5)), 6)
        0.25
    """
    del name
    steps = tf.cast(global_step, "float32") / float(decay_steps)
    if staircase:
        steps = tf.floor(steps)
    return tf.multiply(learning_rate, tf.pow(float(decay_rate), steps))
