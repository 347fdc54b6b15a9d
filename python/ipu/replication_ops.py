# SPDX-License-Identifier: MIT
"""``ipu.replication_ops`` is ``ipu.ops.replication_ops``: the same module."""

import sys

from ipu.ops import replication_ops
from ipu.ops.replication_ops import *

sys.modules[__name__] = replication_ops
