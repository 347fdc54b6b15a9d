# SPDX-License-Identifier: MIT
"""How many IPUs a test has."""

from __future__ import annotations

import ipu


def attach(ipus: int, allow_recompute: bool = False) -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.allow_recompute = allow_recompute
    config.configure_ipu_system()
