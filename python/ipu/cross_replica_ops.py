# SPDX-License-Identifier: MIT
"""``ipu.cross_replica_ops`` is ``ipu.ops.cross_replica_ops``: the same module."""

import sys

from ipu.ops import cross_replica_ops
from ipu.ops.cross_replica_ops import *

sys.modules[__name__] = cross_replica_ops
