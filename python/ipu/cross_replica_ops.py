# SPDX-License-Identifier: MIT
"""``ipu.cross_replica_ops`` is ``ipu.ops.cross_replica_ops``: the same module."""

import sys

from ipu.ops import cross_replica_ops

sys.modules[__name__] = cross_replica_ops
