# SPDX-License-Identifier: MIT
"""``ipu.keras.mixed_precision``: computing in float16, with weights in float32.

Example:
    >>> policy = keras.mixed_precision.Policy("mixed_float16")
    >>> layer = keras.layers.Dense(2, dtype=policy)
    >>> layer.compute_dtype, layer.variable_dtype
    ('float16', 'float32')
"""

from __future__ import annotations

from ipu._text.exports import export
from ipu.keras.engine.layer.policy import Policy, global_policy, set_global_policy
from ipu.keras.optimizers.loss_scale import LossScaleOptimizer

__all__ = [
    "DTypePolicy",
    "LossScaleOptimizer",
    "Policy",
    "dtype_policy",
    "global_policy",
    "set_dtype_policy",
    "set_global_policy",
]

# names of Keras 3
DTypePolicy = Policy
dtype_policy = global_policy
set_dtype_policy = set_global_policy

export(__name__)
