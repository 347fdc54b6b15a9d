# SPDX-License-Identifier: MIT
"""``tf.compat.v1.nn``: that of TensorFlow 2, and a name of the first one.

Example:
    >>> from ipu.tf.compat import v1
    >>> v1.nn.relu([-1.0, 2.0]).numpy().tolist()
    [0.0, 2.0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._faces import face
from ipu.tf import nn as _nn
from ipu.tf.nn import softmax_cross_entropy_with_logits as _softmax_cross_entropy

softmax_cross_entropy_with_logits_v2 = _softmax_cross_entropy

__all__ = ["softmax_cross_entropy_with_logits_v2"]


if TYPE_CHECKING:
    from ipu.tf.nn import *  # noqa: F403
else:
    _LAZY = {name: f"ipu.tf.nn:{name}" for name in _nn.__all__ if name not in __all__}
    __getattr__, __dir__ = face(__name__, [*__all__, *_LAZY], _LAZY)
