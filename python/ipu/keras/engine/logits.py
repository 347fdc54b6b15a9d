# SPDX-License-Identifier: MIT
"""Remembers which logits a softmax or sigmoid was computed from.

A cross-entropy of softmax outputs is computed from the logits behind them: this is
exact where the probabilities have rounded to 0 or 1, and it is what Keras does, also
where the user says ``from_logits=True`` of a tensor that is none.

Tensors are plain C objects, so the memory is a table beside them. It holds the last
few activations only: a loss looks at the output of the model that was just called.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Literal, NamedTuple

from ipu.keras._types import Tensor

__all__ = ["forget_logits", "logits_of", "remember_logits"]

Kind = Literal["softmax", "sigmoid"]

_KEPT = 16


class _Entry(NamedTuple):
    activation: Tensor  # holding it keeps its id taken
    logits: Tensor
    kind: Kind


class _Memory(threading.local):
    def __init__(self) -> None:
        self.table: OrderedDict[int, _Entry] = OrderedDict()


_memory = _Memory()


def remember_logits(activation: Tensor, logits: Tensor, kind: Kind) -> None:
    """Note that ``activation`` is the softmax or sigmoid of ``logits``."""
    table = _memory.table
    table[id(activation)] = _Entry(activation, logits, kind)
    while len(table) > _KEPT:
        table.popitem(last=False)


def logits_of(tensor: Tensor, kind: Kind) -> Tensor | None:
    """Give the logits that ``tensor`` was made from, or None where it was not.

    Args:
        tensor: The output of a model.
        kind: The activation that it must have been made by.
    """
    entry = _memory.table.get(id(tensor))
    if entry is None or entry.activation is not tensor or entry.kind != kind:
        return None
    return entry.logits


def forget_logits() -> None:
    """Let go of everything (at the end of a trace)."""
    _memory.table.clear()
