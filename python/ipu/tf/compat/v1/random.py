# SPDX-License-Identifier: MIT
"""``tf.compat.v1.random``: that of TensorFlow 2, and ``set_random_seed``.

Example:
    >>> from ipu.tf.compat import v1
    >>> v1.random.set_random_seed(3)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.exports import export
from ipu.tf import random as _random

set_random_seed = _random.set_seed

if TYPE_CHECKING:
    from ipu.tf.random import *  # noqa: F403
else:
    _LAZY = {n: f"ipu.tf.random:{n}" for n in dir(_random) if not n.startswith("_")}
    export(__name__, ["set_random_seed", *_LAZY], _LAZY)
