# SPDX-License-Identifier: MIT
"""Attributes that change inside a loop or branch of the program.

Those that the statement's own function assigns are variables of the loop or branch and
leave it properly. One that a function called from there assigns is not seen by the
statement: its new value would be a tensor of the block, lost outside of it, and in a
loop the next turn would not see it. That is an error where the attribute held a value
before; else its new value is marked as one that exists in the block alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu._device.thread_state import here
from ipu.tf.autograph._notes import user_line
from ipu.tf.autograph._undefined import Undefined

_Store = tuple[Any, str, Any, str]  # object, attribute, value before, place


def storing(owner: Any, attribute: str) -> None:
    """Called before ``owner.attribute`` is assigned in converted code."""
    if not here.stores:
        return
    key = (id(owner), attribute)
    for frame in here.stores:
        if key not in frame:
            before = getattr(owner, attribute, None)
            frame[key] = (owner, attribute, before, user_line())


def _is_lost(trace: _core.Trace, value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_symbolic and not trace.sees(value)


@contextmanager
def watched_stores(what: str, where: str) -> Iterator[None]:
    """Look at the attributes that are assigned while a block is traced.

    Args:
        what: "loop" or "if".

    Raises:
        ValueError: One held a value, and its new one would be lost.
    """
    trace = _core.open_trace()
    assert trace is not None
    stores: dict[tuple[int, str], _Store] = {}
    here.stores.append(stores)
    try:
        yield
    finally:
        here.stores.pop()
    for owner, attribute, before, place in stores.values():
        if not _is_lost(trace, getattr(owner, attribute, None)):
            continue
        name = f"{type(owner).__name__}.{attribute}"
        held = isinstance(before, (Tensor, bool, int, float))
        if held and not _is_lost(trace, before):
            raise ValueError(
                f"'{name}' is changed at {place}, in a function that the {what} at "
                f"{where} calls, and its new value would be lost outside of the "
                f"{what}. Return the new value and assign it in the {what} itself, or "
                "use a tf.Variable."
            )
        text = f"It is assigned at {place}, inside the {what} at {where}, and exists "
        setattr(owner, attribute, Undefined(name, text + "only there."))
