# SPDX-License-Identifier: MIT
"""What control flow in Python shares: structures of tensors, and blocks of a trace.

A *value* is a nest whose leaves are tensors or what can be made one. A leaf may also be
a carrier: an object that stands for a few tensors (``TensorArray``). It has the method
``_ipu_flatten() -> list[Tensor]`` and ``_ipu_unflatten(tensors) -> object``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ipu import _core
from ipu.tf import nest
from ipu.tf.ops import Tensor

__all__ = [
    "Flat",
    "add_results",
    "as_tuple",
    "block",
    "carried_types",
    "describe",
    "flatten",
    "is_known",
    "leaf_paths",
]


class Flat(NamedTuple):
    """A value taken apart.

    Attributes:
        structure: The nest, with a carrier, or None, where there is one.
        counts: For each leaf of it how many tensors it stands for.
        tensors: All tensors, in order.
    """

    structure: Any
    counts: list[int]
    tensors: list[Tensor]

    def pack(self, tensors: Sequence[Tensor]) -> Any:
        """A value of this structure with other tensors."""
        remaining = iter(tensors)
        leaves: list[Any] = []
        for leaf, count in zip(nest.flatten(self.structure), self.counts, strict=True):
            own = [next(remaining) for _ in range(count)]
            if hasattr(leaf, "_ipu_unflatten"):
                leaves.append(leaf._ipu_unflatten(own))
            else:
                leaves.append(own[0] if own else leaf)
        return nest.pack_sequence_as(self.structure, leaves)


def as_tuple(values: Any) -> tuple[Tensor, ...]:
    """The outputs of a node: none, one tensor or a tuple of them, as a tuple."""
    if values is None:
        return ()
    return values if isinstance(values, tuple) else (values,)


def flatten(value: Any, what: str) -> Flat:
    """Take a value apart; everything in it but carriers and None becomes a tensor.

    Args:
        value: A nest.
        what: What the value is, for errors: "loop_vars", "the result of true_fn".

    Raises:
        TypeError: A leaf cannot be made a tensor.
    """
    counts: list[int] = []
    tensors: list[Tensor] = []
    for path, leaf in leaf_paths(value):
        own: list[Tensor]
        if leaf is None:
            own = []
        elif hasattr(leaf, "_ipu_flatten"):
            own = leaf._ipu_flatten()
        else:
            try:
                own = [Tensor(leaf)]
            except (TypeError, ValueError) as error:
                raise TypeError(
                    f"{what}{path} must be a tensor or something that can be made one. "
                    f"Received: {leaf!r} ({error})"
                ) from None
        counts.append(len(own))
        tensors.extend(own)
    return Flat(value, counts, tensors)


def leaf_paths(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each leaf of a nest with the expression that selects it: ``("[0]['x']", 1)``."""
    if not nest.is_nested(value):
        yield path, value
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from leaf_paths(value[key], f"{path}[{key!r}]")
    else:
        for index, item in enumerate(value):
            yield from leaf_paths(item, f"{path}[{index}]")


def describe(value: Any) -> str:
    """A nest with dtypes and shapes in place of its tensors, for errors."""

    def text(leaf: Any) -> str:
        if hasattr(leaf, "dtype") and hasattr(leaf, "shape"):
            return f"{leaf.dtype.name}{list(leaf.shape)}"
        return repr(leaf)

    return str(nest.map_structure(text, value)).replace("'", "")


def is_known(value: Any) -> bool:
    """Whether ``value`` can be looked at now: it is not a tensor of a trace."""
    if isinstance(value, Tensor):
        return not value.is_symbolic
    return not hasattr(value, "__ipu_tensor__") or _core.open_trace() is None


def carried_types(flat: Flat, name: Callable[[int, str], str]) -> list[str]:
    """For each tensor of ``flat`` the name of the variable that it belongs to.

    Args:
        flat: The loop variables, a sequence at the top.
        name: Gives the name of variable ``index`` at ``path`` inside of it.
    """
    names: list[str] = []
    for index, variable in enumerate(flat.structure):
        for path, leaf in leaf_paths(variable):
            count = 0 if leaf is None else 1
            if hasattr(leaf, "_ipu_flatten"):
                count = len(leaf._ipu_flatten())
            names.extend([name(index, path)] * count)
    return names


@contextmanager
def block(trace: _core.Trace) -> Iterator[int]:
    """A block of the trace that is open inside the ``with``."""
    index = trace.open_block()
    try:
        yield index
    finally:
        trace.close_block(index)


def add_results(trace: _core.Trace, index: int, tensors: Sequence[Tensor]) -> None:
    """Make ``tensors`` the results of an open block."""
    for tensor in tensors:
        trace.result(tensor, index)
