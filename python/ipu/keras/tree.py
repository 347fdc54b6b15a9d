# SPDX-License-Identifier: MIT
"""``ipu.keras.tree``: structures of lists, tuples and dicts, as ``tf.nest`` has them.

Leaves are in the order of ``tf.nest``: dicts by sorted key.
"""

from __future__ import annotations

from collections import abc
from typing import Any

from ipu._text.exports import export, offered
from ipu.tf import nest
from ipu.tf.nest import is_nested as is_nested


class MAP_TO_NONE:
    """What the function of :func:`traverse` gives for None: None keeps what is there.

    Example:
        >>> traverse(lambda x: MAP_TO_NONE if x == 2 else None, [1, 2])
        [1, None]
    """


def flatten(structure: Any) -> list[Any]:
    """List the leaves of a structure.

    Args:
        structure: A structure or a single leaf.

    Raises:
        TypeError: The keys of a dict cannot be sorted.

    Example:
        >>> flatten({"b": 2, "a": (1, [3])})
        [1, 3, 2]
    """
    return nest.flatten(structure)


def flatten_with_path(structure: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """List the leaves of a structure, each after the keys and indices that lead to it.

    Args:
        structure: A structure or a single leaf, whose path is empty.

    Example:
        >>> flatten_with_path({"b": 2, "a": (1, [3])})
        [(('a', 0), 1), (('a', 1, 0), 3), (('b',), 2)]
    """
    children = nest._children(structure)
    if children is None:
        return [((), structure)]
    if hasattr(structure, "keys"):
        keys: Any = nest._sorted_keys(structure)
    else:
        keys = getattr(structure, "_fields", range(len(children)))
    return [
        ((key, *path), leaf)
        for key, child in zip(keys, children, strict=True)
        for path, leaf in flatten_with_path(child)
    ]


def pack_sequence_as(structure: Any, flat_sequence: Any) -> Any:
    """Put leaves into the form of a structure; the inverse of :func:`flatten`.

    Args:
        structure: The structure whose form is wanted.
        flat_sequence: A list or tuple of as many leaves, in flat order.

    Raises:
        TypeError: ``flat_sequence`` is not a sequence.
        ValueError: The number of leaves differs.

    Example:
        >>> pack_sequence_as({"b": 0, "a": (0, 0)}, [1, 2, 3])
        {'b': 3, 'a': (1, 2)}
    """
    return nest.pack_sequence_as(structure, flat_sequence)


def map_structure(func: abc.Callable[..., Any], *structures: Any) -> Any:
    """Call a function on each leaf, or on the leaves in the same place of several.

    Args:
        func: Called with one leaf of every structure.
        *structures: One structure or more, all of the same form.

    Returns:
        The results, in the form of the first structure.

    Raises:
        TypeError: ``func`` cannot be called, or the kinds of two containers differ.
        ValueError: No structure was given, or the forms differ.

    Example:
        >>> map_structure(lambda a, b: a + b, {"x": 1, "y": (2,)}, {"x": 3, "y": (4,)})
        {'x': 4, 'y': (6,)}
    """
    return nest.map_structure(func, *structures)


def map_structure_up_to(
    shallow_structure: Any, func: abc.Callable[..., Any], *structures: Any
) -> Any:
    """Call a function on what structures have where another one has its leaves.

    Args:
        shallow_structure: The structure whose form the result has.
        func: Called with one part of every structure.
        *structures: One structure or more that have at least that form.

    Raises:
        ValueError: A structure does not have that form.

    Example:
        >>> map_structure_up_to(("x", "y"), len, ([1, 2], [3]))
        (2, 1)
    """
    if not structures:
        raise ValueError("Must provide at least one structure. Received: none.")

    def parts(shallow: Any, deep: Any) -> list[Any]:
        wanted, found = nest._children(shallow), nest._children(deep)
        if wanted is None:
            return [deep]
        if found is None or len(wanted) != len(found):
            raise ValueError(
                "A structure does not have the form of `shallow_structure`. Received: "
                f"{deep!r} where that has {shallow!r}."
            )
        pairs = zip(wanted, found, strict=True)
        return [part for one, other in pairs for part in parts(one, other)]

    columns = [parts(shallow_structure, one) for one in structures]
    results = [func(*leaves) for leaves in zip(*columns, strict=True)]
    return nest.pack_sequence_as(shallow_structure, results)


def map_shape_structure(func: abc.Callable[[Any], Any], structure: Any) -> Any:
    """Call a function on each shape: a list or tuple of sizes and None is a leaf.

    Args:
        func: Called with each shape.
        structure: Shapes in lists, tuples and dicts.

    Example:
        >>> map_shape_structure(len, {"a": (None, 3), "b": [(2,), (4, 5, 6)]})
        {'a': 2, 'b': [1, 3]}
    """

    def visit(part: Any) -> Any:
        is_shape = isinstance(part, (list, tuple)) and all(
            size is None or isinstance(size, int) for size in part
        )
        return _Kept(func(part)) if is_shape else None

    return _without_marks(traverse(visit, structure))


class _Kept:
    """A result that is not looked into."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _without_marks(structure: Any) -> Any:
    return nest.map_structure(
        lambda leaf: leaf.value if isinstance(leaf, _Kept) else leaf, structure
    )


def traverse(
    func: abc.Callable[[Any], Any], structure: Any, top_down: bool = True
) -> Any:
    """Call a function on every part of a structure, containers too.

    Args:
        func: Gives what takes the place of a part; None keeps it, ``MAP_TO_NONE`` puts
            None there.
        structure: A structure or a single leaf.
        top_down: Whether a container comes before what is in it; what ``func`` gives
            for it is not looked into then.

    Returns:
        A structure with the new parts.

    Raises:
        TypeError: ``func`` cannot be called.

    Example:
        >>> traverse(lambda x: -x if type(x) is int else None, [1, [2]], False)
        [-1, [-2]]
    """
    if not callable(func):
        raise TypeError(f"func must be callable. Received: {func!r}.")
    found = func(structure) if top_down else None
    if found is None:
        children = nest._children(structure)
        if children is not None:
            visited = [traverse(func, child, top_down) for child in children]
            structure = nest._rebuild(structure, visited)
        found = None if top_down else func(structure)
    if found is MAP_TO_NONE:
        return None
    return structure if found is None else found


def lists_to_tuples(structure: Any) -> Any:
    """Return a structure with tuples in the place of its lists.

    Example:
        >>> lists_to_tuples({"a": [1, [2]]})
        {'a': (1, (2,))}
    """
    return traverse(lambda x: tuple(x) if type(x) is list else None, structure, False)


def assert_same_structure(a: Any, b: Any, check_types: bool = True) -> None:
    """Raise unless two structures have the same form.

    Args:
        a: A structure.
        b: The structure to compare with.
        check_types: Whether a tuple differs from a list.

    Raises:
        ValueError: The numbers of elements, the keys or the nesting differ.
        TypeError: The kinds of two containers differ and ``check_types`` is True.

    Example:
        >>> assert_same_structure({"a": (1, 2)}, {"a": (3, 4)})
    """
    nest.assert_same_structure(a, b, check_types)


def assert_same_paths(a: Any, b: Any) -> None:
    """Raise unless the same keys and indices lead to the leaves of two structures.

    Args:
        a: A structure.
        b: The structure to compare with; its containers may be of other kinds.

    Raises:
        ValueError: A path of one is missing in the other.

    Example:
        >>> assert_same_paths([1, 2], (3, 4))
    """
    first, second = ({path for path, _ in flatten_with_path(one)} for one in (a, b))
    if first != second:
        raise ValueError(
            "The two structures do not have the same paths. Only one of them has: "
            f"{sorted(first ^ second, key=str)}."
        )


export(__name__, offered(__name__))
