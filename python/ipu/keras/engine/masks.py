# SPDX-License-Identifier: MIT
"""Remembers which time steps of a tensor count: the masks of Keras.

``Embedding(mask_zero=True)`` and ``Masking`` make a mask, layers that support masking
hand it on to their results, and what averages over time or computes a loss leaves the
masked steps out.

Tensors are plain C objects, so the memory is a table beside them. It holds the masks of
the last tensors only, which is enough for the layers of a model and the loss after it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from ipu import tf
from ipu.keras._types import Nest, Tensor

__all__ = ["any_masks", "forget_masks", "mask_of", "masks_of", "set_mask"]

_KEPT = 512


class _Memory(threading.local):
    def __init__(self) -> None:
        # the tensor is held too: its id stays taken
        self.table: OrderedDict[int, tuple[Tensor, Tensor]] = OrderedDict()


_memory = _Memory()


def any_masks() -> bool:
    """Tell whether any tensor of this thread has a mask."""
    return bool(_memory.table)


def set_mask(tensor: Tensor, mask: Tensor) -> None:
    """Note the mask of a tensor: true where a step counts."""
    table = _memory.table
    table[id(tensor)] = (tensor, mask)
    while len(table) > _KEPT:
        table.popitem(last=False)


def mask_of(tensor: Tensor) -> Tensor | None:
    """Give the mask of a tensor, None where every step counts."""
    entry = _memory.table.get(id(tensor))
    return entry[1] if entry is not None and entry[0] is tensor else None


def masks_of(tensors: Nest) -> Nest:
    """Give the masks of a nest of tensors; one None where none of them has any."""
    if not _memory.table:
        return None
    if not tf.nest.is_nested(tensors):
        return mask_of(tensors)
    found = [mask_of(tensor) for tensor in tf.nest.flatten(tensors)]
    if all(mask is None for mask in found):
        return None
    return found


def forget_masks() -> None:
    """Let go of everything (at the end of a trace)."""
    _memory.table.clear()
