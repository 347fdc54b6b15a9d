# SPDX-License-Identifier: MIT
"""What stands for an effect where a program wants to hold on to it."""

from __future__ import annotations

from typing import Any


class Operation:
    """A step of a traced program that gives no tensor: a loop, an enqueue.

    Programs return it, or hand it to ``tf.group`` and ``tf.control_dependencies``.
    Effects keep their order by themselves; only in a function that is compiled in a
    graph of TensorFlow 1 does it matter who holds on to it (``reached.py``). A
    function that returns one gives None in its place.

    Args:
        type: What it does: ``"IPULoop"``.
        name: What it is called in the program.

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
