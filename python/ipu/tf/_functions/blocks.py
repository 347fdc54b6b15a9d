# SPDX-License-Identifier: MIT
"""What control flow in Python shares: structures of tensors, and blocks of a trace.

A *value* is a nest whose leaves are tensors or what can be made one. A leaf may also be
a ``TensorArray``, which stands for one tensor, its rows; or, while nothing is known of
its elements, for none: then it is *pending*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ipu import _core
from ipu._core import Tensor
from ipu._device.thread_state import entered, here
from ipu.tf import nest


class Flat(NamedTuple):
    """A value taken apart.

    Attributes:
        structure: The nest, with arrays, and None where that is.
        counts: For each leaf of it how many tensors it stands for.
        tensors: All tensors, in order.
    """

    structure: Any
    counts: list[int]
    tensors: list[Tensor]

    def pack(self, tensors: Sequence[Tensor]) -> Any:
        """Return a value of this structure with other tensors."""
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
    """Return the outputs of a node: none, one tensor or a tuple of them, as a tuple."""
    if values is None:
        return ()
    return values if isinstance(values, tuple) else (values,)


def flatten(value: Any, what: str) -> Flat:
    """Take a value apart; everything in it but arrays and None becomes a tensor.

    Args:
        value: A nest.
        what: What the value is, for errors: "loop_vars", "the result of true_fn".
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
    """Yield each leaf of a nest with the expression that selects it: ``("[0]['x']",
    1)``."""
    if not nest.is_nested(value):
        yield path, value
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from leaf_paths(value[key], f"{path}[{key!r}]")
    else:
        for index, item in enumerate(value):
            yield from leaf_paths(item, f"{path}[{index}]")


def describe(value: Any) -> str:
    """Return a nest with dtypes and shapes in place of its tensors, for errors."""

    def text(leaf: Any) -> str:
        if hasattr(leaf, "dtype") and hasattr(leaf, "shape"):
            return f"{leaf.dtype.name}{list(leaf.shape)}"
        return repr(leaf)

    return str(nest.map_structure(text, value)).replace("'", "")


def is_known(value: Any) -> bool:
    """Return whether ``value`` can be looked at now: it is not a tensor of a trace."""
    if isinstance(value, Tensor):
        return not value.is_symbolic
    return not hasattr(value, "__ipu_tensor__") or _core.open_trace() is None


@contextmanager
def counting(index: Tensor, iterations: Any) -> Iterator[None]:
    """Trace the body of a loop: ``index`` goes from 0 to ``iterations - 1``.

    Args:
        index: The number of the iteration.
        iterations: How many there are; unless that is an int, nothing is known of the
            index.
    """
    trace = _core.open_trace()
    if trace is None or not isinstance(iterations, int):
        yield
        return
    root = trace.linear(index)[0]
    here.last_iterations[root] = iterations - 1
    try:
        yield
    finally:
        del here.last_iterations[root]


def last_value(index: Tensor) -> int | None:
    """Return the largest value of a scalar that grows with one loop's iterations, or
    None."""
    trace = _core.open_trace()
    if trace is None or index.dtype.name != "int32" or not trace.sees(index):
        return None
    root, scale, offset = trace.linear(index)
    last = here.last_iterations.get(root)
    return None if last is None or scale < 0 else scale * last + offset


def is_pending(leaf: Any) -> bool:
    """Return whether a leaf is an array that stands for no tensor yet."""
    return bool(getattr(leaf, "_ipu_pending", False))


def tensor_names(
    flat: Flat, names: Sequence[str] | None, argument: str = "loop_vars"
) -> list[str]:
    """Return what to call each tensor of ``flat`` in errors.

    Args:
        flat: The loop variables, a sequence at the top.
        names: Their names in the program, or None: ``loop_vars[0]`` and so on.
        argument: The name of the sequence.
    """
    result: list[str] = []
    counts = iter(flat.counts)
    for index, variable in enumerate(flat.structure):
        known = names is not None and index < len(names)
        name = f"'{names[index]}'" if known and names else f"{argument}[{index}]"
        for path, _ in leaf_paths(variable):
            result.extend([f"{name}{path}"] * next(counts))
    return result


@contextmanager
def block(trace: _core.Trace) -> Iterator[int]:
    """Open a block of the trace, inside the ``with``."""
    index = trace.open_block()
    try:
        yield index
    except BaseException:
        trace.close_block(index, True)
        raise
    trace.close_block(index)


@contextmanager
def loop_body(trace: _core.Trace) -> Iterator[int]:
    """Open a block of the trace that a loop repeats."""
    open_one = (trace, list(_core.tapes()))
    with entered(here.loop_bodies, open_one), block(trace) as index:
        yield index


def add_results(trace: _core.Trace, index: int, tensors: Sequence[Tensor]) -> None:
    """Make ``tensors`` the results of an open block."""
    for tensor in tensors:
        trace.result(tensor, index)


@contextmanager
def part_of_step() -> Iterator[None]:
    """Open a block in which loops that are traced are parts of a step.

    An iteration of an outermost loop is a step: it draws random numbers of its own, and
    a run may be stopped after it. The loop of a recurrent layer is a part of a step
    instead, whether or not there is a loop of steps around it.
    """
    with here.setting(parts_of_step=here.parts_of_step + 1):
        yield


def loop_attrs(**attrs: Any) -> dict[str, Any]:
    """Return the attributes of a loop that is being traced: these, and what it is."""
    return {**attrs, "is_part": True} if here.parts_of_step else attrs
