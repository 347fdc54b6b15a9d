# SPDX-License-Identifier: MIT
"""Variables that ops keep between the runs of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu import tf
from ipu.tf._functions.tracing import init_scope
from ipu.tf._graph import mode


def zeros_variable(
    name: str, shape: Sequence[int], dtype: Any, trainable: bool = False
) -> Any:
    """Return a variable of zeros that no program has to initialise, also not in a
    graph.

    Args:
        shape: Its shape.
        dtype: Its dtype.
        trainable: Whether optimizers and tapes take it by default.
    """
    kind = tf.as_dtype(dtype)
    zeros = np.zeros(tuple(shape), kind.as_numpy_dtype)
    with init_scope():
        if not mode.has_graph():
            return tf.Variable(zeros, trainable=trainable, name=name, dtype=kind)
        made: Any = tf.Variable(
            zeros, trainable=trainable, name=name, collections=(), use_resource=True
        )
    made.is_automatic = True
    return made
