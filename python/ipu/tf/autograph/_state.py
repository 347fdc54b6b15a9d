# SPDX-License-Identifier: MIT
"""The variables of a loop or branch as a flat list of tensors, and back.

Tensors, arrays, Python numbers and carriers (``TensorArray``) are carried; anything
else (a model, a string, None) stays as it is and must not change. A ``TensorArray``
to which nothing was written becomes a tensor when the body first writes to it: its rows
are carried after all tensors that the loop begins with, from zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from ipu import _core
from ipu._core import Tensor
from ipu.tf import nest
from ipu.tf._functions.blocks import is_pending
from ipu.tf._ops import creation
from ipu.tf.autograph._iterate import is_tensor
from ipu.tf.autograph._jumps import RETURNED, VALUE, is_jump_flag
from ipu.tf.autograph._undefined import Undefined, no_value
from ipu.tf.variable import Variable


def is_value(leaf: Any) -> bool:
    """Return whether a leaf is made of tensors of the program."""
    return isinstance(
        leaf, (Tensor, Variable, bool, int, float, np.ndarray, np.generic)
    ) or hasattr(type(leaf), "_ipu_flatten")


def tensors_of(leaf: Any, like: Tensor | None = None) -> list[Tensor]:
    """Return the tensors of a leaf; a number takes the dtype of ``like`` where it
    fits."""
    if hasattr(leaf, "_ipu_flatten"):
        return list(leaf._ipu_flatten())
    number = isinstance(leaf, (int, float))
    if (
        number
        and like is not None
        and (like.dtype.is_floating or isinstance(leaf, int))
    ):
        return [Tensor(leaf, like.dtype.name)]
    return [Tensor(leaf)]


def rebuilt(leaf: Any, tensors: Iterator[Tensor]) -> Any:
    """Return a leaf of the same kind with other tensors."""
    if not is_value(leaf):
        return leaf
    if hasattr(leaf, "_ipu_unflatten"):
        return leaf._ipu_unflatten([next(tensors) for _ in leaf._ipu_flatten()])
    return next(tensors)


def shown(name: str) -> str:
    """Return a variable's name in an error."""
    return "the return value" if name == VALUE else f"'{name}'"


def _leaf_names(name: str, value: Any, count: int) -> list[str]:
    if not nest.is_nested(value):
        return [name]
    return [f"{name}[{i}]" for i in range(count)]


class LoopState:
    """The variables of a loop.

    Args:
        where: The loop's place, "file:line".

    Attributes:
        tensors: The carried tensors' values before the loop.
    """

    def __init__(self, names: Sequence[str], values: Sequence[Any], where: str) -> None:
        self._names = names
        self._values = list(values)
        self._where = where
        self._late: list[int] = []  # their tensors come after all others
        self._leaves = [
            [] if isinstance(value, Undefined) else nest.flatten(value)
            for value in values
        ]
        self.tensors = [
            tensor
            for leaves in self._leaves
            for leaf in leaves
            if is_value(leaf)
            for tensor in tensors_of(leaf)
        ]
        self._pending = [
            (i, k)
            for i, leaves in enumerate(self._leaves)
            for k, leaf in enumerate(leaves)
            if is_pending(leaf)
        ]
        # of those that the body needs, the rows at the beginning of a turn
        self._rows: dict[tuple[int, int], Tensor] = {}

    def pack(self, tensors: Sequence[Tensor]) -> list[Any]:
        """Return the variables' values with these tensors in them."""
        rest = iter(tensors)
        new = [
            leaves if i in self._late else [rebuilt(leaf, rest) for leaf in leaves]
            for i, leaves in enumerate(self._leaves)
        ]
        for i, k in self._rows:
            new[i][k] = self._leaves[i][k]._ipu_unflatten([next(rest)])
        for i in self._late:
            new[i] = [rebuilt(leaf, rest) for leaf in self._leaves[i]]
        return self._packed(new)

    def _packed(self, new: list[list[Any]]) -> list[Any]:
        return [
            value
            if isinstance(value, Undefined)
            else nest.pack_sequence_as(value, leaves)
            for value, leaves in zip(self._values, new, strict=True)
        ]

    def open(self, body: int, tensors: Sequence[Tensor]) -> list[Any]:
        """Return the variables at the beginning of block ``body``, from its
        parameters."""
        rest = iter(tensors)
        new = [[rebuilt(leaf, rest) for leaf in leaves] for leaves in self._leaves]
        for i, k in self._pending:
            supply = partial(self._supply, body, (i, k))
            new[i][k] = self._leaves[i][k]._ipu_supply(supply)
        return self._packed(new)

    def _supply(self, body: int, at: tuple[int, int], shape: tuple[int, ...]) -> Tensor:
        trace = _core.open_trace()
        if at not in self._rows and trace is not None:
            array = self._leaves[at[0]][at[1]]
            type = (array.dtype.name, (len(array), *shape))
            self._rows[at] = trace.parameter(type, body)
        return self._rows[at]

    def arrays(self, body: int, values: Sequence[Any]) -> list[Tensor]:
        """Return the rows after an iteration of arrays that had none before the
        loop."""
        for i, k in self._pending:
            array = nest.flatten(values[i])[k]
            if array._ipu_flatten():
                self._supply(body, (i, k), array.element_shape)
        return [
            nest.flatten(values[i])[k]._ipu_settle(tuple(rows.shape[1:]))
            for (i, k), rows in self._rows.items()
        ]

    def initial_arrays(self) -> list[Tensor]:
        """Return the rows with which the loop begins, in the order of
        :meth:`arrays`."""
        return [  # of copies: the arrays themselves stay without rows
            self._leaves[i][k]._ipu_unflatten([])._ipu_settle(tuple(rows.shape[1:]))
            for (i, k), rows in self._rows.items()
        ]

    def next(self, values: Sequence[Any]) -> list[Tensor]:
        """Return the carried tensors after one iteration.

        Raises:
            ValueError: A variable changed its shape, or became something else.
            TypeError: A variable changed its dtype or structure.
        """
        tensors: list[Tensor] = []
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
                    "does not have the same nested structure after one iteration: "
                    f"{error}",
                )
            labels = _leaf_names(name, before, len(leaves))
            for label, old, leaf in zip(
                labels, leaves, nest.flatten(after), strict=True
            ):
                if is_pending(old) and hasattr(leaf, "_ipu_settle"):
                    continue
                if is_value(old):
                    tensors += self._carried(label, old, leaf)
                elif leaf is not old and (is_value(leaf) or leaf != old):
                    self._changed(label, old, leaf)
        return tensors

    def late(self, values: Sequence[Any]) -> list[Tensor]:
        """Return the tensors of a value that the function returns from inside the loop.

        It has none before the loop; from now on it is carried too, from zeros, which
        nobody sees, since what returns also leaves the loop.
        """
        found: list[Tensor] = []
        for i, (name, value) in enumerate(zip(self._names, values, strict=True)):
            if name != VALUE or self._values[i] is not no_value or value is no_value:
                continue
            self._late.append(i)
            self._values[i] = value
            self._leaves[i] = nest.flatten(value)
            for leaf in self._leaves[i]:
                if is_value(leaf):
                    found += tensors_of(leaf)
        return found

    def _carried(self, name: str, old: Any, leaf: Any) -> list[Tensor]:
        if not is_value(leaf):
            self._fail(
                ValueError, name, f"is a tensor before the loop and {leaf!r} after it"
            )
        before = tensors_of(old)
        after = tensors_of(leaf, before[0] if len(before) == 1 else None)
        if len(before) != len(after):
            self._fail(TypeError, name, "is another kind of value after one iteration")
        for a, b in zip(before, after, strict=True):
            self._check(name, a, b)
        return after

    def _check(self, name: str, before: Tensor, after: Tensor) -> None:
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
        """Return the variables' values after the loop."""
        return [
            Undefined(
                name,
                f"It is assigned inside the loop at {self._where} and exists only "
                f"there: '{name}' must be defined before the loop, with the shape and "
                "dtype that it has after it.",
            )
            if isinstance(value, Undefined) and value is not no_value
            else value
            for name, value in zip(self._names, self.pack(tensors), strict=True)
        ]


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
    """Return whether a branch has left the code around it for certain."""
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
