# SPDX-License-Identifier: MIT
"""``tf.summary.experimental``: the step of summaries that are given none."""

from __future__ import annotations

from typing import Any

from ipu._device.thread_state import here
from ipu._text.exports import export

__all__ = ["get_step", "set_step"]


def get_step() -> Any:
    """Return the step of summaries that are given none, of this thread; None: there is
    none.

    Example:
        >>> tf.summary.experimental.set_step(3)
        >>> tf.summary.experimental.get_step()
        3
        >>> tf.summary.experimental.set_step(None)
    """
    return here.summary_step


def set_step(step: Any) -> None:
    """Set the step of summaries that are given none.

    Args:
        step: A number, or a ``tf.Variable`` or tensor, which is read for each summary;
            None: none.

    Example:
        >>> step = tf.Variable(0)
        >>> tf.summary.experimental.set_step(step)
        >>> tf.summary.experimental.get_step() is step
        True
        >>> tf.summary.experimental.set_step(None)
    """
    here.summary_step = step


export(__name__)
