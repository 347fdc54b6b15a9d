# SPDX-License-Identifier: MIT
"""``ipu.keras.optimizers.AdamW`` (Loshchilov and Hutter 2019)."""

from __future__ import annotations

import math
from typing import Any

from ipu.keras.optimizers.adam import Adam
from ipu.keras.optimizers.optimizer import Baked

__all__ = ["AdamW"]


def _checked(weight_decay: Any) -> float:
    try:
        share = float(weight_decay)
    except (TypeError, ValueError):
        share = math.nan
    if not share >= 0:
        raise ValueError(
            f"Expected weight_decay >= 0. Received: weight_decay={weight_decay!r}. "
            "For weights that do not decay use Adam."
        )
    return share


class AdamW(Adam):
    """Adam with weights that decay by themselves, whatever the gradients' moments.

    Before each update of :class:`Adam`: ``w -= w weight_decay rate``.

    Args:
        weight_decay: The share that a weight loses in a step, times the rate.
        beta_1, beta_2: Decays of the first and the second moment, in [0, 1).
        amsgrad: Whether the largest second moment so far is used.

    Raises:
        ValueError: ``weight_decay`` is not a number >= 0.

    Source: ``tf.keras.optimizers.AdamW`` of Keras 2.11 and 3.

    Example:
        >>> optimizer = keras.optimizers.AdamW(0.5, weight_decay=0.1)
        >>> optimizer.exclude_from_weight_decay(var_names=["bias"])
        >>> v = tf.Variable([2.0])
        >>> _ = optimizer.apply_gradients([(tf.constant([0.0]), v)])
        >>> round(float(v[0]), 4)
        1.9
    """

    weight_decay = Baked(
        "The share that a weight loses in a step, times the rate.", _checked
    )

    def __init__(
        self,
        learning_rate: Any = 0.001,
        weight_decay: float = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "AdamW",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            *(learning_rate, beta_1, beta_2, epsilon, amsgrad, name),
            weight_decay=_checked(weight_decay),
            **kwargs,
        )
