# SPDX-License-Identifier: MIT
"""Shapes that are tried where too little is known to trace a call.

A placeholder may leave open how many axes it has, and ``matmul(x, w)`` wants one size
of an open ``x``. The call is then traced with several shapes, made of the numbers of
axes there are and of the sizes of the other arguments. Some fail. What all others agree
in is known of the result. At most a call is seen as less known than it is: what a
session traces has the shapes that were fed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ipu.tf import nest
from ipu.tf._functions import inference
from ipu.tf.tensor_shape import TensorShape

if TYPE_CHECKING:
    from ipu.tf._graph.operation import GraphTensor

_RANKS = (2, 1, 0, 3, 4)
_MOST_SIZES = 6
# what a tensor of unknown rank is where a size of another one is tried
_UNKNOWN = (TensorShape(()), TensorShape([None, None]))


class Guess(NamedTuple):
    """A tensor with a shape that is tried.

    Attributes:
        shape: Sizes, None for one that varies.
        dtype: The dtype.
        trials: As of an ``inference.Symbol``.
    """

    shape: Any
    dtype: Any
    trials: tuple[Any, ...] = ()


def is_open(tensor: GraphTensor) -> bool:
    """Tell whether a size, or how many there are, or what a size is, is not known."""
    is_unknown_size = tensor.is_size and not tensor.trials and tensor.known is None
    return is_unknown_size or not tensor.shape.is_fully_defined()


def is_settled(result: Any) -> bool:
    """Tell whether no further trial can make a result less known."""
    return all(
        leaf.shape is None and not leaf.is_size
        for leaf in nest.flatten(result)
        if isinstance(leaf, inference.Inferred)
    )


def shapes_to_try(
    arguments: Sequence[Any], are_matrices: bool
) -> Iterator[Callable[[GraphTensor], TensorShape]]:
    """Shapes for the open tensors among a call's arguments.

    Args:
        arguments: The arguments, flat: sizes of arrays, variables and tensors, and
            whole numbers, may be those of what is open.
        are_matrices: Whether tensors of unknown rank have two axes.

    Yields:
        Functions that give a tensor's shape: the shapes of one trial.
    """
    shapes = [getattr(one, "shape", None) for one in arguments]
    known = [TensorShape(shape) for shape in shapes if isinstance(shape, tuple)]
    has_unknown_rank = any(shape.rank is None for shape in known)
    known = [shape for shape in known if shape.rank is not None]
    numbers = [n for n in arguments if type(n) is int and n > 1]
    numbers += [size for shape in known for size in shape if size not in (None, 1)]
    sizes = list(dict.fromkeys(numbers))[:_MOST_SIZES]
    for shape in _shapes(known, sizes) if has_unknown_rank else ():
        if are_matrices and len(shape) != 2:
            continue
        yield lambda tensor, shape=shape: (  # type: ignore[misc]
            shape if tensor.shape.rank is None else tensor.shape
        )
    unknown = _UNKNOWN if has_unknown_rank else _UNKNOWN[:1]  # of captured ones
    for shape, size, axis in itertools.product(unknown, sizes, (-1, 0, 1)):
        yield lambda tensor, shape=shape, size=size, axis=axis: (  # type: ignore[misc]
            _with_size(shape if tensor.shape.rank is None else tensor.shape, size, axis)
        )


def _shapes(known: Sequence[TensorShape], sizes: Sequence[int]) -> list[TensorShape]:
    """Shapes for a tensor of which nothing is known."""
    open_ones = [TensorShape([None] * rank) for rank in _RANKS]
    like_others = [s for shape in known for s in (shape, TensorShape([None, *shape]))]
    with_size = [
        TensorShape(sizes_around)
        for size in sizes
        for rank in (2, 1, 4, 3)
        for sizes_around in ([*[None] * (rank - 1), size], [size, *[None] * (rank - 1)])
    ]
    return list(dict.fromkeys([*like_others, *open_ones, *with_size]))


def _with_size(shape: TensorShape, size: int, axis: int) -> TensorShape:
    """Return a shape with a size in the place of one that is open."""
    found = list(shape)
    if -len(found) <= axis < len(found) and found[axis] is None:
        found[axis] = size
    return TensorShape(found)


def merged(results: Sequence[Any]) -> Any:
    """Return what several trials of a call agree in.

    Args:
        results: The nest of ``Inferred`` of each.

    Raises:
        OpenCountError: They do not even agree in how many tensors there are.
    """
    found = results[0]
    for other in results:
        if len(nest.flatten(other)) != len(nest.flatten(found)):
            raise inference.OpenCountError(
                "How many results there are depends on a shape that is not known. Give "
                "the input one: placeholder(dtype, shape), or call set_shape."
            )
        found = nest.map_structure(_common, found, other)
    return found


def _common(one: Any, other: Any) -> Any:
    if not isinstance(one, inference.Inferred):
        return one
    shape = _common_shape(one.shape, other.shape)
    # sizes that were made of guessed ones are no trials of the next call
    is_size = one.is_size and other.is_size
    return inference.Inferred(shape, one.dtype, is_size=is_size)


def _common_shape(one: Any, other: Any) -> Any:
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))
