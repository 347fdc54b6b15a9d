# SPDX-License-Identifier: MIT
"""What a module shows: the names it lists, to ``dir()`` and to completion.

A public module ends with::

    if not TYPE_CHECKING:
        __getattr__, __dir__ = face(__name__, __all__)

Type checkers do not see these two, so that they find names that are not there.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ipu._text import later
from ipu._text.missing import MissingNameError
from ipu._text.tracebacks import boundary

__all__ = ["face"]


def face(
    module: str,
    known: Sequence[str],
    lazy: Mapping[str, str | Callable[[], Any]] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make a module's ``__getattr__`` and ``__dir__``.

    Args:
        module: The name of the module.
        known: Its public names.
        lazy: Of names that are found when they are used, where: a module,
            ``module:attribute``, or a function that gives it.

    Returns:
        A function of a name, which raises AttributeError with the nearest name for one
        that is not there; and one that gives the public names.
    """
    found = dict(lazy or {})
    title = module.removeprefix("ipu.") if module.startswith("ipu.tf") else module

    @boundary
    def of_module(name: str) -> Any:
        if name in found:
            place = found[name]
            if not isinstance(place, str):
                return place()
            home, _, attribute = place.partition(":")
            loaded = importlib.import_module(home)
            value = getattr(loaded, attribute) if attribute else loaded
            if name in known:
                setattr(sys.modules[module], name, value)  # found at once from now on
            return value
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if (
            module.startswith("ipu.keras")
            and not later.lookup(f"{module}.{name}", known).topic
        ):
            from ipu.keras._names import nearest

            hint = nearest(name, known, f" See {module}.__all__.", cutoff=0.75)
            raise AttributeError(f"module {module!r} has no attribute {name!r}.{hint}")
        raise MissingNameError(f"{title}.{name}", known)

    return of_module, lambda: sorted(set(known))
