# SPDX-License-Identifier: MIT
"""The numbers and names that ``ipu.keras.backend`` lets programs change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipu.keras.engine.layer.policy import Policy


@dataclass
class _State:
    """Settings for layers and losses that are made, or traced, from now on.

    Attributes:
        epsilon: The least divisor, and least argument of a logarithm, of losses.
        floatx: The dtype of layers that are not told any.
        image_data_format: Where the channels of images are.
        policy: The dtype policy of layers that are not told any; None for ``floatx``.
        is_interactive: Whether the progress of runs is shown, and not logged.
        trusts_files: Whether files may bring code.
    """

    epsilon: float = 1e-7
    floatx: str = "float32"
    image_data_format: str = "channels_last"
    policy: Policy | None = None
    is_interactive: bool = True
    trusts_files: bool = False


state = _State()


def is_channels_first(data_format: str | None) -> bool:
    """Return what a ``data_format`` argument means; None is the setting."""
    found = state.image_data_format if data_format is None else data_format
    if found not in ("channels_first", "channels_last"):
        raise ValueError(f"Unknown data_format: {found}")
    return found == "channels_first"
