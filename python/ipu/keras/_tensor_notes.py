# SPDX-License-Identifier: MIT
"""What is remembered of tensors: their masks, and the logits of probabilities.

``Embedding(mask_zero=True)`` and ``Masking`` make a mask, layers that support masking
hand it on to their results, and what averages over time or computes a loss leaves the
masked steps out.

A cross-entropy of softmax outputs is computed from those logits: this is
exact where the probabilities have rounded to 0 or 1, and it is what Keras does, also
where the user says ``from_logits=True`` of a tensor that is not logits.
"""

from __future__ import annotations

from typing import Literal

from ipu import tf
from ipu.keras._types import Nest, Tensor
from ipu.tf._tensor.notes import note, noted


def set_mask(tensor: Tensor, mask: Tensor) -> None:
    """Note the mask of a tensor: true where a step counts."""
    note(tensor, "mask", mask)


def mask_of(tensor: Tensor) -> Tensor | None:
    """Return the mask of a tensor, None where every step counts."""
    mask: Tensor | None = noted(tensor, "mask")
    return mask


def masks_of(tensors: Nest) -> Nest:
    """Return the masks of a nest of tensors; one None where none of them has any."""
    if not tf.nest.is_nested(tensors):
        return mask_of(tensors)
    found = [mask_of(tensor) for tensor in tf.nest.flatten(tensors)]
    if all(mask is None for mask in found):
        return None
    return found


Kind = Literal["softmax", "sigmoid"]


def remember_logits(activation: Tensor, logits: Tensor, kind: Kind) -> None:
    """Note that ``activation`` is the softmax or sigmoid of ``logits``."""
    note(activation, "logits", (logits, kind))


def logits_of(tensor: Tensor, kind: Kind) -> Tensor | None:
    """Return the logits that ``tensor`` was made from, or None where it was not.

    Args:
        tensor: The output of a model.
        kind: The activation that it must have been made by.
    """
    logits, made_by = noted(tensor, "logits") or (None, kind)
    return logits if made_by == kind else None
