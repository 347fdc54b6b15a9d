# SPDX-License-Identifier: MIT
"""The lines of the table, and how its files write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Entry:
    """Where the names of one module come from.

    Attributes:
        sources: ``ipu`` modules, searched in order; one that is not there is skipped.
        names: Names that come from elsewhere: "module:attribute", or a module. They
            win over the sources.
    """

    sources: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)


def entry(*sources: str, **names: str) -> Entry:
    """Return an :class:`Entry` of these sources and names."""
    return Entry(sources, names)


def renamed(module: str, words: str) -> dict[str, str]:
    """Return names out of one module.

    Args:
        module: The ``ipu`` module.
        words: ``name`` or ``name=attribute``, separated by white space.

    Returns:
        What :attr:`Entry.names` holds.

    Example:
        >>> renamed("ipu.tf.random", "random_uniform=uniform")
        {'random_uniform': 'ipu.tf.random:uniform'}
    """
    made = {}
    for word in words.split():
        name, _, attribute = word.partition("=")
        made[name] = f"{module}:{attribute or name}"
    return made
