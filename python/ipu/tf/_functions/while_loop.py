# SPDX-License-Identifier: MIT
"""The loop variables of a traced loop: parameters, results and their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu.tf import nest
from ipu.tf._functions.blocks import (
    Flat,
    add_results,
    as_tuple,
    block,
    describe,
    flatten,
    is_pending,
    loop_attrs,
    loop_body,
    tensor_names,
)
from ipu.tf._tensor import open_sizes
from ipu.tf.tensor_shape import TensorShape


def check_structure(before: Any, after: Any, names: Sequence[str] | None) -> None:
    try:
        nest.assert_same_structure(list(before), list(after))
    except (TypeError, ValueError) as error:
        called = "" if names is None else f" ({', '.join(names)})"
        raise type(error)(
            f"The body of a loop must give the structure of loop_vars{called}: "
            f"{describe(tuple(before))}. Received: {describe(tuple(after))}. {error}"
        ) from None


def check_types(before: Flat, after: Flat, names: list[str]) -> None:
    """Check that each loop variable keeps dtype and shape."""
    if before.counts != after.counts:
        raise ValueError(
            "The body of a loop must give the structure of loop_vars: "
            f"{describe(before.structure)}. Received: {describe(after.structure)}."
        )
    for name, old, new in zip(names, before.tensors, after.tensors, strict=True):
        if old.dtype != new.dtype:
            raise TypeError(
                f"{name} has dtype {old.dtype.name} before the loop, but dtype "
                f"{new.dtype.name} after one iteration. Convert it with tf.cast."
            )
        if old.shape != new.shape:
            error = ValueError(
                f"{name} has shape {old.shape} before the loop, but shape {new.shape} "
                "after one iteration. Shapes are fixed when a function is compiled for "
                "the device: keep the shape, for instance with a tensor of the largest "
                "size that is filled step by step."
            )
            raise open_sizes.about_values(error)


def body_values(returned: Any, count: int) -> Sequence[Any]:
    """Return what a body returned, one entry for each loop variable."""
    if isinstance(returned, (list, tuple)) and not hasattr(returned, "_fields"):
        return returned
    if count == 1:
        return (returned,)
    if returned is None:
        return ()
    return tuple(returned) if isinstance(returned, tuple) else (returned,)


def as_predicate(value: Any, what: str) -> Tensor:
    """Return a bool as a scalar; one element counts as it, however many axes it has."""
    tensor = Tensor(value)
    if tensor.dtype.is_bool and tensor.shape and set(tensor.shape) == {1}:
        tensor = _core.apply("reshape", (tensor,), {"shape": []})
    if not tensor.dtype.is_bool or tensor.shape != ():
        raise TypeError(
            f"{what} must be a scalar bool. Received: {tensor.dtype.name} of shape "
            f"{tensor.shape}. Compare it, or use tf.reduce_all or tf.reduce_any."
        )
    return tensor


def _up_to(structure: Any, other: Any) -> Iterator[Any]:
    """Yield what stands in another nest where a structure has its leaves."""
    if not nest.is_nested(structure):
        yield other
    elif isinstance(structure, Mapping):
        for key in sorted(structure):
            yield from _up_to(structure[key], other[key])
    else:
        for one, two in zip(structure, other, strict=True):
            yield from _up_to(one, two)


def with_open_sizes(start: Flat, invariants: Any) -> Flat:
    """Loop variables whose sizes may change, where sizes are guessed.

    Args:
        start: The values of the first iteration.
        invariants: For each loop variable what stays of its shape.
    """
    if open_sizes.take() is None:
        return start
    shapes = list(_up_to(start.structure, invariants))
    tensors = iter(start.tensors)
    made: list[Tensor] = []
    for leaf, count, shape in zip(
        nest.flatten(start.structure), start.counts, shapes, strict=True
    ):
        for tensor in [next(tensors) for _ in range(count)]:
            stays = TensorShape(getattr(shape, "shape", shape))
            is_array = hasattr(leaf, "_ipu_flatten")
            if is_array or stays.rank is None or stays.is_fully_defined():
                made.append(tensor)
            else:
                made.append(open_sizes.guessed((tensor.dtype, tuple(stays))))
    return Flat(start.pack(made), start.counts, made)


def _kept(before: Flat, after: Flat) -> Flat:
    """Return what a body gave, with the shapes before it where sizes are guessed."""
    kept = [
        open_sizes.stand_in(old.dtype, old.shape)
        if open_sizes.is_guess(*old.shape)
        and old.dtype == new.dtype
        and len(old.shape) == len(new.shape)
        else new
        for old, new in zip(before.tensors, after.tensors, strict=True)
    ]
    return Flat(after.structure, after.counts, kept)


class Carried:
    """The loop variables of a loop that is being traced, and its blocks.

    An array of which nothing is known becomes a tensor when a block first writes to it:
    then each block gets a parameter for its rows, after all others.

    Args:
        trace: The open trace.
        start: The values of the first iteration; its structure is a sequence.
        names: The names of them in errors, or None.
    """

    def __init__(
        self, trace: _core.Trace, start: Flat, names: Sequence[str] | None = None
    ) -> None:
        self.trace = trace
        self.start = start
        self.names = names
        self._types = [(t.dtype.name, t.shape) for t in start.tensors]
        self._leaves = nest.flatten(start.structure)
        self._late: dict[int, dict[int, Tensor]] = {}  # leaf -> block -> rows
        self._blocks: list[int] = []

    def open(self, index: int) -> Any:
        """Return the loop variables as parameters of block ``index``, which is open."""
        self._blocks.append(index)
        values = [self.trace.parameter(type, index) for type in self._types]
        for rows in self._late.values():
            known = next(iter(rows.values()))
            rows[index] = self.trace.parameter((known.dtype.name, known.shape), index)
        leaves = nest.flatten(self.start.pack(values))
        for leaf, array in enumerate(leaves):
            if is_pending(array):
                leaves[leaf] = array._ipu_supply(partial(self._rows, leaf, index))
        return nest.pack_sequence_as(self.start.structure, leaves)

    def _rows(self, leaf: int, index: int, shape: tuple[int, ...]) -> Tensor:
        if leaf not in self._late:
            array = self._leaves[leaf]
            type = (array.dtype.name, (len(array), *shape))
            self._late[leaf] = {
                block: self.trace.parameter(type, block) for block in self._blocks
            }
        return self._late[leaf][index]

    def close(self, index: int, returned: Any) -> None:
        """Make what the body returned the results of its block, ``index``."""
        after = body_values(returned, len(self.start.structure))
        check_structure(self.start.structure, after, self.names)
        leaves = nest.flatten(list(after))
        for leaf, array in enumerate(leaves):
            if is_pending(self._leaves[leaf]):
                if array._ipu_flatten():
                    self._rows(leaf, index, array.element_shape)
                # what is carried after the others, or not at all
                leaves[leaf] = None
        end = flatten(
            nest.pack_sequence_as(list(self.start.structure), leaves),
            "the result of body",
        )
        if len(end.tensors) == len(self.start.tensors):
            end = _kept(self.start, end)
        check_types(self.start, end, tensor_names(self.start, self.names))
        add_results(self.trace, index, end.tensors)
        arrays = nest.flatten(list(after))
        for leaf, rows in self._late.items():
            shape = tuple(rows[index].shape[1:])
            add_results(self.trace, index, [arrays[leaf]._ipu_settle(shape)])

    def initial(self) -> list[Tensor]:
        """Return the inputs of the loop's node, once its body is closed."""
        late = [
            self._leaves[leaf]._ipu_settle(tuple(next(iter(rows.values())).shape[1:]))
            for leaf, rows in self._late.items()
        ]
        return [*self.start.tensors, *late]

    def final(self, outputs: Sequence[Tensor]) -> Any:
        """Return the loop's result: the structure with the outputs of its node."""
        count = len(self.start.tensors)
        leaves = nest.flatten(self.start.pack(outputs[:count]))
        for leaf, rows in zip(self._late, outputs[count:], strict=True):
            leaves[leaf] = self._leaves[leaf]._ipu_unflatten([rows])
        return nest.pack_sequence_as(self.start.structure, leaves)


def traced_while(
    trace: _core.Trace,
    cond: Callable[..., Any],
    body: Callable[..., Any],
    start: Flat,
    limit: int,
    names: Sequence[str] | None,
) -> Any:
    """Add a ``while`` node.

    Args:
        trace: The open trace.
        cond: ``cond(*loop_vars) -> bool``.
        body: ``body(*loop_vars) -> loop_vars``.
        start: The values of the first iteration; its structure is a sequence.
        limit: The most iterations; -1: any number.
        names: The names of the loop variables in errors, or None.

    Returns:
        The final values, in the structure of ``start``.
    """
    carried = Carried(trace, start, names)
    with block(trace) as condition:
        predicate = as_predicate(cond(*carried.open(condition)), "The result of cond")
        add_results(trace, condition, [predicate])
    with loop_body(trace) as inner:
        carried.close(inner, body(*carried.open(inner)))
    attrs = loop_attrs(condition=condition, body=inner, maximum_iterations=limit)
    outputs = as_tuple(trace.node("while", carried.initial(), attrs, ()))
    return carried.final(outputs)
