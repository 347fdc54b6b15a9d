# SPDX-License-Identifier: MIT
"""Names: automatic ones for layers, and the nearest match for a misspelt one."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from ipu._text import suggestions
from ipu.tf._graph import mode

T = TypeVar("T")


@functools.cache
def snake_case(name: str) -> str:
    """Turn a class name into the stem of a layer name, as Keras does.

    Args:
        name: A class name in CamelCase.

    Returns:
        The name in lower case with underscores.

    Example:
        >>> snake_case("InputLayer"), snake_case("ReLU")
        ('input_layer', 're_lu')
    """
    name = re.sub(r"\W+", "", name)
    name = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    name = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    return f"private{name}" if name.startswith("_") else name


def unique_name(stem: str, zero_based: bool = True) -> str:
    """Return the next automatic name: ``dense``, ``dense_1``, ``dense_2``, ...

    Args:
        stem: The name without its number.
        zero_based: Whether the first name has no number; else it ends in ``_1``.

    Returns:
        A name that this function has not given before in this thread since
        :func:`reset_uids`.
    """
    number = next_uid(stem)
    if zero_based:
        return stem if number == 1 else f"{stem}_{number - 1}"
    return f"{stem}_{number}"


def next_uid(stem: str) -> int:
    """Return how often this stem has been asked for in this thread, this time included.

    Args:
        stem: What the automatic names of a kind begin with.
    """
    counters = mode.name_counts()
    counters[stem] = counters.get(stem, 0) + 1
    return counters[stem]


def reset_uids() -> None:
    """Start automatic names again from ``dense`` (``backend.clear_session``)."""
    mode.name_counts().clear()


def nearest(
    name: str,
    known: Iterable[str],
    otherwise: str | None = None,
    cutoff: float = 0.6,
) -> str:
    """Say which known name is meant, as the end of an error message.

    Args:
        name: The name that is not known.
        known: The names there are.
        otherwise: What to say where none is near; None: all known names.
        cutoff: How near a name must be, from 0 to 1.

    Returns:
        `` Did you mean 'adam'?``, or what ``otherwise`` says.
    """
    names = sorted(set(known))
    found = suggestions.hint(name, names, cutoff)
    if found:
        return found
    return f" Known names: {', '.join(names)}." if otherwise is None else otherwise


def _bare(name: str) -> str:
    return name.lower().replace("_", "")


def lookup(kind: str, name: str, table: Mapping[str, T]) -> T:
    """Find what a user's string names.

    Args:
        kind: What is looked for ("optimizer"), for the message.
        name: The user's string; compared as it is, then in lower case, and then without
            underscores: Keras 3 finds ``F1Score`` as ``"f1_score"``, too.
        table: Names and what they stand for.

    Returns:
        The entry of the table.
    """
    if name in table:
        return table[name]
    for spelt in (str.lower, _bare):
        wanted = spelt(name)
        for known, entry in table.items():
            if spelt(known) == wanted:
                return entry
    error = ValueError(f"Unknown {kind}: {name!r}.{nearest(name, table)}")
    error.__dict__["_unknown"] = kind, name
    raise error
