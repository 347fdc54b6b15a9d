# SPDX-License-Identifier: MIT
"""``ipu.pipelining_ops`` is ``ipu.ops.pipelining_ops``: the same module."""

import sys

from ipu.ops import pipelining_ops
from ipu.ops.pipelining_ops import *

sys.modules[__name__] = pipelining_ops
