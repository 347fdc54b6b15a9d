# SPDX-License-Identifier: MIT
"""The arguments of queues, as every release of the API spelled them.

The first release named queues: its second argument is a string, and the order of what
follows differs. Later ones number devices there. Keywords are told apart by their
names, so all of them are accepted at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ipu._text.arguments import as_int
from ipu._text.suggestions import hint


def named(
    what: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    order: Sequence[str],
    first_order: Sequence[str],
) -> dict[str, Any]:
    """Put names to the arguments of a queue.

    Args:
        what: The class, for errors.
        args: The positional arguments.
        kwargs: The others.
        order: Names by position.
        first_order: Names by position where the first one is a string, the feed's name.

    Returns:
        All arguments that were given, by name.
    """
    places = first_order if args and isinstance(args[0], str) else order
    if len(args) > len(places):
        raise TypeError(
            f"{what} takes at most {len(places)} of these arguments: "
            f"{', '.join(places)}. Received: {len(args)}."
        )
    given = dict(zip(places, args, strict=False))
    known = {*order, *first_order}
    for key, value in kwargs.items():
        if key in given:
            raise TypeError(f"{what} got multiple values for argument {key!r}.")
        if key not in known:
            raise TypeError(
                f"{what} got an unexpected keyword argument {key!r}.{hint(key, known)}"
            )
        given[key] = value
    return given


def checked_ordinal(value: Any) -> int | None:
    """Return the device's number, or None for the current one."""
    if value is None:
        return None
    value = as_int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(
            "Device ordinal must be an integer >= 0, or None for the device of the "
            f"current strategy. Received: device_ordinal={value!r}."
        )
    return value
