# SPDX-License-Identifier: MIT
"""``ipu.grad_util_ops`` is ``ipu.ops.grad_util_ops``: the same module."""

import sys

from ipu.ops import grad_util_ops
from ipu.ops.grad_util_ops import *

sys.modules[__name__] = grad_util_ops
