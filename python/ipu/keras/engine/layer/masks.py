# SPDX-License-Identifier: MIT
"""Remembers which time steps of a tensor count: the masks of Keras.

``Embedding(mask_zero=True)`` and ``Masking`` make a mask, layers that support masking
hand it on to their results, and what averages over time or computes a loss leaves the
masked steps out.
"""

from __future__ import annotations

from ipu import tf
from ipu.keras._types import Nest, Tensor
from ipu.tf._tensor.notes import note, noted


def set_mask(tensor: Tensor, mask: Tensor) -> None:
    """Note the mask of a tensor: true where a step counts."""
    note(tensor, "mask", mask)


def mask_of(tensor: Tensor) -> Tensor | None:
    """Give the mask of a tensor, None where every step counts."""
    mask: Tensor | None = noted(tensor, "mask")
    return mask


def masks_of(tensors: Nest) -> Nest:
    """Give the masks of a nest of tensors; one None where none of them has any."""
    if not tf.nest.is_nested(tensors):
        return mask_of(tensors)
    found = [mask_of(tensor) for tensor in tf.nest.flatten(tensors)]
    if all(mask is None for mask in found):
        return None
    return found
