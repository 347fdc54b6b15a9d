# SPDX-License-Identifier: MIT
"""``ipu.tf.nest``: structures of tuples, lists, dicts and named tuples.

A *structure* is a leaf (anything else: a tensor, a number, a string, an array) or
one of those containers with structures inside. The order of leaves is TensorFlow's:
sequences in their own order, dicts by sorted key whatever the order of insertion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ipu._core import Tensor
from ipu._text.exports import export

# what leaves mostly are; asking whether they are mappings takes long
_LEAVES = frozenset({Tensor, np.ndarray, bool, int, float, str, type(None)})


def is_nested(structure: Any) -> bool:
    """Return whether ``structure`` is a container rather than a leaf.

    Args:
        structure: Anything.

    Returns:
        True for tuples (named ones too), lists and mappings, also empty ones;
        False for everything else, including strings and NumPy arrays.

    Example:
        >>> is_nested((1, 2)), is_nested("ab"), is_nested({})
        (True, False, True)
    """
    if type(structure) in _LEAVES:
        return False
    return isinstance(structure, (tuple, list, Mapping))


def _is_namedtuple(structure: Any) -> bool:
    return isinstance(structure, tuple) and hasattr(structure, "_fields")


def _sorted_keys(structure: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(structure)
    except TypeError:
        raise TypeError(
            "nest only supports dicts with sortable keys. "
            f"Received: keys {list(structure)!r}. Use keys of one type."
        ) from None


def _children(structure: Any) -> Sequence[Any] | None:
    """Return what is in a container, in flat order; None for a leaf."""
    kind = type(structure)
    if kind is tuple or kind is list:
        return cast("Sequence[Any]", structure)
    if kind is dict or (kind not in _LEAVES and isinstance(structure, Mapping)):
        return [structure[key] for key in _sorted_keys(structure)]
    return list(structure) if isinstance(structure, (tuple, list)) else None


def _rebuild(structure: Any, children: Sequence[Any]) -> Any:
    """Return a container like ``structure``, with ``children`` in flat order."""
    kind: Any = type(structure)
    if kind is dict or isinstance(structure, Mapping):
        values = dict(zip(_sorted_keys(structure), children, strict=True))
        ordered = [(key, values[key]) for key in structure]
        if kind is dict:
            return dict(ordered)
        if hasattr(structure, "default_factory"):
            return kind(structure.default_factory, ordered)
        return kind(ordered)
    if _is_namedtuple(structure):
        return type(structure)(*children)
    if type(structure) is tuple:
        return tuple(children)
    if type(structure) is list:
        return list(children)
    return type(structure)(children)


def _collect(structure: Any, leaves: list[Any]) -> None:
    children = _children(structure)
    if children is None:
        leaves.append(structure)
        return
    for child in children:
        if type(child) in _LEAVES:
            leaves.append(child)
        else:
            _collect(child, leaves)


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """List the leaves of a structure, dict values by sorted key.

    Args:
        structure: A structure or a single leaf.
        expand_composites: Accepted for compatibility; there are no composites here.

    Returns:
        The leaves, a list; a single leaf gives a list of one.

    Raises:
        TypeError: The keys of a dict cannot be sorted.

    Example:
        >>> flatten({"b": 2, "a": (1, [3])})
        [1, 3, 2]
    """
    leaves: list[Any] = []
    _collect(structure, leaves)
    return leaves


def _pack(structure: Any, leaves: Iterator[Any]) -> Any:
    children = _children(structure)
    if children is None:
        return next(leaves)
    packed = [
        next(leaves) if type(child) in _LEAVES else _pack(child, leaves)
        for child in children
    ]
    return _rebuild(structure, packed)


def pack_sequence_as(
    structure: Any, flat_sequence: Sequence[Any], expand_composites: bool = False
) -> Any:
    """Put leaves into the form of a structure; the inverse of :func:`flatten`.

    Args:
        structure: The structure whose form is wanted; its leaves are not used.
        flat_sequence: As many leaves as ``structure`` has, in flat order.
        expand_composites: Accepted for compatibility; there are no composites here.

    Returns:
        Containers of the same kinds and keys as ``structure``. Where it is a leaf,
        the only element of ``flat_sequence``.

    Raises:
        TypeError: ``flat_sequence`` is not a sequence.
        ValueError: The number of leaves differs.

    Example:
        >>> pack_sequence_as({"b": 0, "a": (0, 0)}, [1, 2, 3])
        {'b': 3, 'a': (1, 2)}
    """
    if not isinstance(flat_sequence, (list, tuple)):
        raise TypeError(
            "Attempted to pack a flat_sequence that is not a list or a tuple. "
            f"Received: {flat_sequence!r}. Pass list(flat_sequence)."
        )
    count = len(flatten(structure))
    if count != len(flat_sequence):
        raise ValueError(
            "Could not pack sequence. Structure had "
            f"{count} elements, but flat_sequence had {len(flat_sequence)} elements. "
            f"Structure: {structure!r}, flat_sequence: {flat_sequence!r}."
        )
    return _pack(structure, iter(flat_sequence))


def _same_kind(first: Any, second: Any) -> bool:
    if type(first) is type(second):
        return True
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return True
    # Two named tuples made separately count as one type where names and fields agree.
    return (
        _is_namedtuple(first)
        and _is_namedtuple(second)
        and type(first).__name__ == type(second).__name__
        and first._fields == second._fields
    )


def _check(first: Any, second: Any, check_types: bool, path: str) -> None:
    lefts, rights = _children(first), _children(second)
    if (lefts is None) != (rights is None):
        nested, leaf = (second, first) if lefts is None else (first, second)
        raise ValueError(
            "The two structures don't have the same nested structure: at "
            f"{path or 'the top'} one has the container {nested!r} and the other "
            f"the leaf {leaf!r}."
        )
    if lefts is None or rights is None:
        return
    if check_types and not _same_kind(first, second):
        raise TypeError(
            "The two structures don't have the same sequence type: at "
            f"{path or 'the top'} one is a {type(first).__name__} and the other a "
            f"{type(second).__name__}. Make both the same kind of container."
        )
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        if set(first) != set(second):
            raise ValueError(
                "The two structures don't have the same set of keys: at "
                f"{path or 'the top'} {list(first)!r} against {list(second)!r}."
            )
        for key in first:
            _check(first[key], second[key], check_types, f"{path}[{key!r}]")
        return
    if len(first) != len(second):
        raise ValueError(
            "The two structures don't have the same number of elements: at "
            f"{path or 'the top'} {len(first)} against {len(second)}."
        )
    for index, (left, right) in enumerate(zip(lefts, rights, strict=True)):
        _check(left, right, check_types, f"{path}[{index}]")


def assert_same_structure(
    nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Raise unless two structures have the same form.

    Args:
        nest1: A structure.
        nest2: The structure to compare with.
        check_types: Whether the containers must be of the same kind too, so that a
            tuple differs from a list. All mappings count as one kind, and named
            tuples of the same name and fields.
        expand_composites: Accepted for compatibility; there are no composites here.

    Raises:
        ValueError: The numbers of elements, the keys or the nesting differ.
        TypeError: The kinds of two containers differ and ``check_types`` is True.

    Example:
        >>> assert_same_structure({"a": (1, 2)}, {"a": (3, 4)})
        >>> assert_same_structure([1, 2], (3, 4), check_types=False)
    """
    _check(nest1, nest2, check_types, "")


def map_structure(
    func: Callable[..., Any],
    *structure: Any,
    check_types: bool = True,
    expand_composites: bool = False,
) -> Any:
    """Call a function on each leaf, or on the leaves in the same place of several.

    Args:
        func: Called with one leaf of every structure, in flat order.
        *structure: One structure or more, all of the same form.
        check_types: As in :func:`assert_same_structure`.
        expand_composites: Accepted for compatibility; there are no composites here.

    Returns:
        The results, in the form of the first structure.

    Raises:
        TypeError: ``func`` cannot be called, or the kinds of two containers differ.
        ValueError: No structure was given, or the forms differ.

    Example:
        >>> map_structure(lambda a, b: a + b, {"x": 1, "y": (2,)}, {"x": 3, "y": (4,)})
        {'x': 4, 'y': (6,)}
    """
    if not callable(func):
        raise TypeError(f"func must be callable. Received: {func!r}.")
    if not structure:
        raise ValueError("Must provide at least one structure. Received: none.")
    for other in structure[1:]:
        assert_same_structure(
            structure[0], other, check_types, expand_composites=expand_composites
        )
    columns = zip(*(flatten(one) for one in structure), strict=True)
    return pack_sequence_as(structure[0], [func(*leaves) for leaves in columns])


export(__name__)
