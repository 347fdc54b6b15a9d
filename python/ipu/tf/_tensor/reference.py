# SPDX-License-Identifier: MIT
"""What stands for a tensor or variable in sets and dicts: itself, not its values."""

from __future__ import annotations

from typing import Any


class Reference:
    """A tensor or variable by identity; it is hashable.

    ``==`` of tensors and variables compares their elements, so they are not keys
    themselves. ``x.ref()`` makes one, :meth:`deref` gives ``x`` back.

    Example:
        >>> v = tf.Variable(1.0)
        >>> {v.ref(): "weight"}[v.ref()]
        'weight'
    """

    __slots__ = ("_referent",)

    def __init__(self, referent: Any) -> None:
        self._referent = referent

    def deref(self) -> Any:
        """Give the object itself."""
        return self._referent

    def __hash__(self) -> int:
        return id(self._referent)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._referent is other._referent

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._referent!r}>"
