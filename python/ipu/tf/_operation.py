# SPDX-License-Identifier: MIT
"""What stands for an effect where a program wants to hold on to it."""

from __future__ import annotations

from typing import Any

__all__ = ["Operation"]


class Operation:
    """A step of a traced program that gives no tensor: a loop, an enqueue.

    Programs return it, or hand it to ``tf.group`` and ``tf.control_dependencies``. In
    the functions of this package effects keep their order by themselves, so it carries
    nothing but its name. A function that returns one gives None in its place.

    Args:
        type: What it does: ``"IPULoop"``.
        name: What it is called in the program.
    """

    def __init__(self, type: str, name: str = "") -> None:
        self.type = type
        self.name = name or type

    @property
    def outputs(self) -> list[Any]:
        """Its tensors: none."""
        return []

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"
