# SPDX-License-Identifier: MIT
"""What stands for an effect, and for a tensor in sets and dicts: itself."""

from __future__ import annotations

from typing import Any


class Operation:
    """A step of a traced program that gives no tensor: a loop, an enqueue.

    Programs return it, or hand it to ``tf.group`` and ``tf.control_dependencies``.
    Effects keep their order by themselves; only in a function that is compiled in a
    graph of TensorFlow 1 does it matter who holds on to it (``reached.py``). A
    function that returns one gives None in its place.

    Args:
        type: Its kind: ``"IPULoop"``.
        name: Its name in the program.

    Attributes:
        spans: The nodes that it stands for: pairs of a first number and one past the
            last.
    """

    def __init__(self, type: str, name: str = "") -> None:
        self.type = type
        self.name = name or type
        self.spans: list[tuple[int, int]] = []

    @property
    def outputs(self) -> list[Any]:
        """Its tensors: none."""
        return []

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"


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
        """Return the object itself."""
        return self._referent

    def __hash__(self) -> int:
        return id(self._referent)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._referent is other._referent

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._referent!r}>"
