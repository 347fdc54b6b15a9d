# SPDX-License-Identifier: MIT
"""The global step, and rates that follow it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu import tf
from ipu.tf._graph import mode
from ipu.tf._graph.graph import Graph
from ipu.tf._graph.scopes import get_variable


def _graph(graph: Any) -> Graph:
    return graph or mode.current() or mode.default()


def get_global_step(graph: Any = None) -> Any:
    """Return the variable that counts updates, or None.

    Args:
        graph: The graph; None: the default one.

    Example:
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

    Example:
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
    """Return the variable that counts updates, made where it is not there.

    Make it where the device is the CPU: ``with tf.device("cpu"):``. It is of int32,
    which is the widest integer of a device.

    Args:
        graph: The graph; None: the default one.

    Example:
        >>> with v1.Graph().as_default():
        ...     with v1.device("cpu"):
        ...         step = v1.train.get_or_create_global_step()
        ...     step is v1.train.get_global_step()
        True
    """
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """Return the number of updates as a Python int.

    Args:
        sess: The session.
        global_step_tensor: The variable.

    Example:
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
    """Return a rate that decays: ``learning_rate * decay_rate ** (step /
    decay_steps)``.

    Args:
        learning_rate: The rate at the start.
        global_step: The step, a tensor or variable.
        decay_steps: After how many steps it is multiplied by ``decay_rate``.
        decay_rate: The factor.
        staircase: Whether the exponent is cut to whole numbers.

    Example:
        >>> round(float(v1.train.exponential_decay(1.0, 20, 10, 0.5)), 6)
        0.25
    """
    steps = tf.cast(global_step, "float32") / float(decay_steps)
    if staircase:
        steps = tf.floor(steps)
    return tf.multiply(learning_rate, tf.pow(float(decay_rate), steps))


def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """Return a rate that decays: ``learning_rate / (1 + decay_rate * step /
    decay_steps)``.

    Args:
        learning_rate: The rate at the start.
        global_step: The step, a tensor or variable.
        decay_steps: The steps that count as one.
        decay_rate: How fast it decays.
        staircase: Whether the quotient is cut to whole numbers.

    Example:
        >>> round(float(v1.train.inverse_time_decay(1.0, 20, 10, 0.5)), 6)
        0.5
    """
    steps = tf.cast(global_step, "float32") / float(decay_steps)
    if staircase:
        steps = tf.floor(steps)
    return tf.divide(learning_rate, 1.0 + float(decay_rate) * steps)


def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Any:
    """Return a rate that goes to another one, and stays there.

    Args:
        learning_rate: The rate at the start.
        global_step: The step, a tensor or variable.
        decay_steps: The steps on the way.
        end_learning_rate: The rate at the end.
        power: Of the way that is left.
        cycle: Whether it begins again, over more steps each time.

    Example:
        >>> round(float(v1.train.polynomial_decay(1.0, 5, 10, 0.0)), 6)
        0.5
    """
    step: Any = tf.cast(global_step, "float32")
    whole: Any = float(decay_steps)
    if cycle:
        whole = whole * tf.maximum(tf.math.ceil(step / whole), 1.0)
    else:
        step = tf.minimum(step, whole)
    left = tf.pow(1.0 - step / whole, power)
    return (learning_rate - end_learning_rate) * left + end_learning_rate


def piecewise_constant(
    x: Any, boundaries: Sequence[Any], values: Sequence[float], name: str | None = None
) -> Any:
    """Return a rate for each part of the steps.

    Args:
        x: The step, a tensor or variable.
        boundaries: The last step of each part but the last one.
        values: The rates, one more than boundaries.

    Raises:
        ValueError: There are more or fewer.

    Example:
        >>> float(v1.train.piecewise_constant(11, [10, 20], [1.0, 0.5, 0.25]))
        0.5
    """
    if len(values) != len(boundaries) + 1:
        raise ValueError(
            "The length of boundaries should be 1 less than the length of values. "
            f"Received: {len(boundaries)} and {len(values)}."
        )
    step = tf.cast(x, "float32")
    rate: Any = tf.constant(float(values[0]))
    for border, value in zip(boundaries, values[1:], strict=True):
        rate = tf.where(step > float(border), float(value), rate)
    return rate


piecewise_constant_decay = piecewise_constant


def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """Return a rate that decays: ``learning_rate * exp(-decay_rate * step /
    decay_steps)``.

    Args:
        learning_rate: The rate at the start.
        global_step: The step, a tensor or variable.
        decay_steps: The steps that count as one.
        decay_rate: How fast it decays.
        staircase: Whether the quotient is cut to whole numbers.

    Example:
        >>> round(float(v1.train.natural_exp_decay(1.0, 20, 10, 0.5)), 4)
        0.3679
    """
    steps: Any = tf.cast(global_step, "float32") / float(decay_steps)
    if staircase:
        steps = tf.floor(steps)
    return tf.multiply(learning_rate, tf.exp(-float(decay_rate) * steps))


def _cosine(share: Any) -> Any:
    """Return a factor that goes from 1 to 0 along half a turn."""
    return 0.5 * (1.0 + tf.cos(math.pi * share))


def cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    alpha: float = 0.0,
    name: str | None = None,
) -> Any:
    """Return a rate that goes down along half a turn of a cosine, and stays there.

    Args:
        learning_rate: The rate at the start.
        global_step: The step, a tensor or variable.
        decay_steps: The steps on the way.
        alpha: The rate at the end, as a share of the first one.

    Example:
        >>> round(float(v1.train.cosine_decay(1.0, 5, 10)), 4)
        0.5
    """
    whole = float(decay_steps)
    step: Any = tf.minimum(tf.cast(global_step, "float32"), whole)
    return tf.multiply(learning_rate, (1.0 - alpha) * _cosine(step / whole) + alpha)


def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: float = 2.0,
    m_mul: float = 1.0,
    alpha: float = 0.0,
    name: str | None = None,
) -> Any:
    """Return a rate that goes down along a cosine, and begins again.

    Args:
        learning_rate: The rate at the start.
        global_step: The step, a tensor or variable.
        first_decay_steps: The steps of the first way down.
        t_mul: How much longer each way is than the one before.
        m_mul: How much larger the rate is that it begins with.
        alpha: The rate at the end, as a share of the first one.

    Example:
        >>> round(float(v1.train.cosine_decay_restarts(1.0, 10, 10)), 4)
        1.0
    """
    done: Any = tf.cast(global_step, "float32") / float(first_decay_steps)
    if t_mul == 1.0:
        turn = tf.floor(done)
        share = done - turn
    else:
        grown: Any = tf.math.log(1.0 - done * (1.0 - t_mul)) / math.log(t_mul)
        turn = tf.floor(grown)
        before = (1.0 - tf.pow(float(t_mul), turn)) / (1.0 - t_mul)
        share = (done - before) / tf.pow(float(t_mul), turn)
    rate = tf.pow(float(m_mul), turn) * _cosine(share)
    return tf.multiply(learning_rate, (1.0 - alpha) * rate + alpha)


def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Any:
    """Return a rate that goes down along a line times a cosine.

    Args:
        learning_rate: The rate at the start.
        global_step: The step, a tensor or variable.
        decay_steps: The steps on the way.
        num_periods: How many turns the cosine takes.
        alpha: Added to the line.
        beta: Added to the product.

    Example:
        >>> round(float(v1.train.linear_cosine_decay(1.0, 5, 10)), 4)
        0.251
    """
    whole = float(decay_steps)
    share: Any = tf.minimum(tf.cast(global_step, "float32"), whole) / whole
    wave = _cosine(2.0 * num_periods * share)
    return tf.multiply(learning_rate, (alpha + 1.0 - share) * wave + beta)
