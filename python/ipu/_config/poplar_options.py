# SPDX-License-Identifier: MIT
"""Legal options of the hardware's libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PARTIALS = ("half", "float")


def check_poplar_options(where: str, options: Mapping[str, Any]) -> None:
    """Check options of convolutions and matrix products, as far as they are known.

    Example:
        >>> check_poplar_options("matmuls.poplar_options", {"partialsType": "half"})
    """
    partials = options.get("partialsType", "float")
    if partials not in _PARTIALS:
        raise ValueError(
            f'{where}["partialsType"] must be "half" or "float". Received: '
            f"{partials!r}."
        )
    share = options.get("availableMemoryProportion", 0.6)
    try:
        is_share = 0.0 <= float(share) <= 1.0
    except (TypeError, ValueError):
        is_share = False
    if not is_share:
        raise ValueError(
            f'{where}["availableMemoryProportion"] must be a number from 0 to 1, or '
            f"its text. Received: {share!r}."
        )
