# SPDX-License-Identifier: MIT
"""The variables of a loop or branch as a flat list of tensors, and back.

Tensors, arrays and Python numbers are carried; anything else (a model, a string, None)
stays as it is and must not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ipu.tf import nest
from ipu.tf.autograph._jumps import VALUE
from ipu.tf.autograph._undefined import Undefined
from ipu.tf.ops import Tensor
from ipu.tf.variable import Variable

__all__ = ["LoopState", "is_value", "shown"]


def is_value(leaf: Any) -> bool:
    """Whether a leaf becomes a tensor of the program."""
    return isinstance(
        leaf, (Tensor, Variable, bool, int, float, np.ndarray, np.generic)
    )


def shown(name: str) -> str:
    """A variable's name in an error."""
    return "the return value" if name == VALUE else f"'{name}'"


def _leaf_names(name: str, structure: Any, count: int) -> list[str]:
    return [name] if count == 1 and not nest.is_nested(structure) else [
        f"{name}[{i}]" for i in range(count)
    ]


class LoopState:
    """The variables of a loop.

    Args:
        names: Their names.
        values: Their values before the loop.
        where: The loop's place, "file:line".

    Attributes:
        tensors: The carried tensors' values before the loop.
    """

    def __init__(
        self, names: Sequence[str], values: Sequence[Any], where: str
    ) -> None:
        self._names = names
        self._values = values
        self._where = where
        self.tensors: list[Tensor] = []
        self._leaves = [
            [] if isinstance(value, Undefined) else nest.flatten(value)
            for value in values
        ]
        for leaves in self._leaves:
            for leaf in leaves:
                if is_value(leaf):
                    self.tensors.append(Tensor(leaf))

    def pack(self, tensors: Sequence[Tensor]) -> list[Any]:
        """The variables' values with these tensors in them."""
        rest = iter(tensors)
        packed = []
        for value, leaves in zip(self._values, self._leaves, strict=True):
            if isinstance(value, Undefined):
                packed.append(value)
                continue
            new = [next(rest) if is_value(leaf) else leaf for leaf in leaves]
            packed.append(nest.pack_sequence_as(value, new))
        return packed

    def next(self, values: Sequence[Any]) -> list[Tensor]:
        """The carried tensors after one iteration.

        Raises:
            ValueError: A variable changed its shape, or became something else.
            TypeError: A variable changed its dtype or structure.
        """
        tensors: list[Tensor] = []
        rest = iter(self.tensors)
        for name, before, leaves, after in zip(
            self._names, self._values, self._leaves, values, strict=True
        ):
            if isinstance(before, Undefined):
                continue
            if isinstance(after, Undefined):
                self._fail(ValueError, name, "has no value at the end of an iteration")
            try:
                nest.assert_same_structure(before, after)
            except (TypeError, ValueError) as error:
                self._fail(
                    TypeError,
                    name,
                    f"does not have the same nested structure after one iteration: "
                    f"{error}",
                )
            new = nest.flatten(after)
            labels = _leaf_names(name, before, len(leaves))
            for label, old, leaf in zip(labels, leaves, new, strict=True):
                if is_value(old):
                    tensors.append(self._carried(label, next(rest), leaf))
                elif leaf is not old and leaf != old:
                    self._changed(label, old, leaf)
        return tensors

    def _carried(self, name: str, before: Tensor, leaf: Any) -> Tensor:
        if not is_value(leaf):
            self._fail(
                ValueError, name, f"is a tensor before the loop and {leaf!r} after it"
            )
        if isinstance(leaf, (int, float)) and not (
            isinstance(leaf, float) and not before.dtype.is_floating
        ):
            after = Tensor(leaf, before.dtype.name)
        else:
            after = Tensor(leaf)
        if after.dtype != before.dtype:
            self._fail(
                TypeError,
                name,
                f"has dtype {before.dtype.name} before the loop, but dtype "
                f"{after.dtype.name} after one iteration. Give it the dtype it ends "
                "with before the loop, or convert it with tf.cast",
            )
        if after.shape != before.shape:
            self._fail(
                ValueError,
                name,
                f"has shape {before.shape} before the loop, but shape {after.shape} "
                "after one iteration. A variable must keep its shape in a loop that "
                "runs on the device; loop over a Python range to unroll it",
            )
        return after

    def _changed(self, name: str, before: Any, after: Any) -> NoReturn:
        if before is None:
            self._fail(
                ValueError,
                name,
                "is not allowed to be None before the loop: it is a tensor after one "
                "iteration. Give it a tensor of that shape and dtype first",
            )
        self._fail(
            ValueError,
            name,
            f"is {before!r} before the loop and {after!r} after one iteration. Only "
            "tensors and numbers can change in a loop that runs on the device",
        )

    def _fail(self, kind: type[Exception], name: str, text: str) -> NoReturn:
        raise kind(f"{shown(name)} {text} (the loop at {self._where}).")

    def final(self, tensors: Sequence[Tensor]) -> list[Any]:
        """The variables' values after the loop."""
        return [
            Undefined(
                name,
                f"It is assigned inside the loop at {self._where} and exists only "
                "there: '" + name + "' must be defined before the loop, with the "
                "shape and dtype that it has after it.",
            )
            if isinstance(value, Undefined)
            else value
            for name, value in zip(self._names, self.pack(tensors), strict=True)
        ]
