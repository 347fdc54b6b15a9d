# SPDX-License-Identifier: MIT
"""The variables that two branches leave, as results of equal types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu._core import Tensor
from ipu.tf import nest
from ipu.tf._ops import creation
from ipu.tf.autograph._iterate import is_tensor
from ipu.tf.autograph._jumps import RETURNED, VALUE, is_jump_flag
from ipu.tf.autograph._state import is_value, rebuilt, shown, tensors_of
from ipu.tf.autograph._undefined import Undefined, no_value


class Branches:
    """Matches the variables that two branches leave.

    Args:
        main: Their values at the end of the first branch.
        orelse: At the end of the second one.
        where: The place of the ``if``, "file:line".

    Raises:
        ValueError: A variable has a value in one branch alone.
        TypeError: Its dtype, shape or structure differs.
    """

    def __init__(
        self,
        names: Sequence[str],
        main: Sequence[Any],
        orelse: Sequence[Any],
        where: str,
    ) -> None:
        self._where = where
        self._jumped = (_has_jumped(names, main), _has_jumped(names, orelse))
        self._values: list[Any] = []  # of either branch: the structure of the result
        self._pairs: list[tuple[Any, Any]] = []  # leaves that become results
        for name, a, b in zip(names, main, orelse, strict=True):
            self._values.append(self._match(name, a, b))

    def _match(self, name: str, a: Any, b: Any) -> Any:
        if isinstance(a, Undefined) or isinstance(b, Undefined):
            return self._match_undefined(name, a, b)
        try:
            nest.assert_same_structure(a, b)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{shown(name)} does not have the same nested structure in the two "
                f"branches of the `if` at {self._where}: {error}"
            ) from None
        for x, y in zip(nest.flatten(a), nest.flatten(b), strict=True):
            if is_value(x) and is_value(y):
                self._match_leaves(name, x, y)
            elif x is not y and (is_value(x) or is_value(y) or x != y):
                raise TypeError(
                    f"{shown(name)} is {x!r} in the main branch and {y!r} in the else "
                    f"branch of the `if` at {self._where}. A condition that is a "
                    "tensor can choose between tensors and numbers alone."
                )
        return a

    def _match_leaves(self, name: str, x: Any, y: Any) -> None:
        for what in ("dtype", "shape"):
            for s, t in zip(_types(x, y), _types(y, x), strict=True):
                if getattr(s, what) != getattr(t, what):
                    raise TypeError(
                        f"{shown(name)} has {what} {_text(getattr(s, what))} in the "
                        f"main branch, but {what} {_text(getattr(t, what))} in the "
                        f"else branch of the `if` at {self._where}."
                    )
        self._pairs.append((x, y))

    def _match_undefined(self, name: str, a: Any, b: Any) -> Any:
        if isinstance(a, Undefined) and isinstance(b, Undefined):
            if a is no_value:
                return no_value
            text = f"It is assigned only inside a branch at {self._where}."
            return Undefined(name, text)
        missing = 0 if isinstance(a, Undefined) else 1
        if not self._jumped[missing] and name != VALUE:
            label = "else" if missing else "main"
            raise ValueError(
                f"{shown(name)} must also be initialized in the {label} branch of the "
                f"`if` at {self._where}: its condition is a tensor, so both branches "
                "must assign it, or it must have a value before."
            )
        value = b if missing == 0 else a
        for leaf in nest.flatten(value):
            if is_value(leaf):
                fill = _Fill(leaf)
                self._pairs.append((fill, leaf) if missing == 0 else (leaf, fill))
        return value

    def first(self) -> list[Tensor]:
        """Return the results of the first branch; called while its block is open."""
        return [t for x, y in self._pairs for t in _tensors(x, y)]

    def second(self) -> list[Tensor]:
        """Return the results of the second one."""
        return [t for x, y in self._pairs for t in _tensors(y, x)]

    def joined(self, results: Sequence[Tensor]) -> list[Any]:
        """Return the variables after the ``if``."""
        rest = iter(results)
        return [
            value
            if isinstance(value, Undefined)
            else nest.pack_sequence_as(
                value, [rebuilt(leaf, rest) for leaf in nest.flatten(value)]
            )
            for value in self._values
        ]


class _Fill:
    """Zeros in place of a leaf that only the other branch has: nobody reads them."""

    def __init__(self, leaf: Any) -> None:
        self._types = [(t.shape, t.dtype) for t in tensors_of(leaf)]

    def make(self) -> list[Tensor]:
        return [creation.zeros(shape, dtype) for shape, dtype in self._types]


def _has_jumped(names: Sequence[str], values: Sequence[Any]) -> bool:
    """Whether a branch has left the code around it for certain."""
    return any(
        value is True and (name == RETURNED or is_jump_flag(name))
        for name, value in zip(names, values, strict=True)
    )


def _number_like(leaf: Any) -> Tensor | None:
    """Return what decides the dtype of a number in the other branch."""
    return Tensor(leaf) if is_tensor(leaf) else None


def _tensors(leaf: Any, other: Any) -> list[Tensor]:
    if isinstance(leaf, _Fill):
        return leaf.make()
    like = None if isinstance(other, _Fill) else _number_like(other)
    return tensors_of(leaf, like)


def _types(leaf: Any, other: Any) -> list[Tensor]:
    return tensors_of(leaf, _number_like(other))


def _text(value: Any) -> str:
    return str(getattr(value, "name", value))
