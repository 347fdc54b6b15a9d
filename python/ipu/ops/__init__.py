# SPDX-License-Identifier: MIT
"""``ipu.ops``: operations that only IPU programs have."""

from __future__ import annotations

from ipu.ops import pipelining_ops

__all__ = ["pipelining_ops"]
