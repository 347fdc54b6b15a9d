# SPDX-License-Identifier: MIT
"""``ipu.rnn_ops`` is ``ipu.ops.rnn_ops``: the same module."""

import sys

from ipu.ops import rnn_ops
from ipu.ops.rnn_ops import *

sys.modules[__name__] = rnn_ops
