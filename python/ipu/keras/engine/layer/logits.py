# SPDX-License-Identifier: MIT
"""Remembers which logits a softmax or sigmoid was computed from.

A cross-entropy of softmax outputs is computed from the logits behind them: this is
exact where the probabilities have rounded to 0 or 1, and it is what Keras does, also
where the user says ``from_logits=True`` of a tensor that is none.
"""

from __future__ import annotations

from typing import Literal

from ipu.keras._types import Tensor
from ipu.tf._tensor.notes import note, noted

Kind = Literal["softmax", "sigmoid"]


def remember_logits(activation: Tensor, logits: Tensor, kind: Kind) -> None:
    """Note that ``activation`` is the softmax or sigmoid of ``logits``."""
    note(activation, "logits", (logits, kind))


def logits_of(tensor: Tensor, kind: Kind) -> Tensor | None:
    """Give the logits that ``tensor`` was made from, or None where it was not.

    Args:
        tensor: The output of a model.
        kind: The activation that it must have been made by.
    """
    logits, made_by = noted(tensor, "logits") or (None, kind)
    return logits if made_by == kind else None
