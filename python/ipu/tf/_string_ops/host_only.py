# SPDX-License-Identifier: MIT
"""What the host alone computes: strings, and functions of Python.

Such a call is not an op of the core, so it cannot be a part of a program. A data set's
``map`` notices that, and calls the function for each element instead.
"""

from __future__ import annotations

from typing import Any

from ipu import _core


class HostOnlyError(NotImplementedError):
    """A traced function calls something that works on the host alone."""


class NoShapeError(HostOnlyError, ValueError):
    """A tensor of a traced function has a shape that only a run can tell."""


def on_host(what: str, *values: Any) -> None:
    """Refuse values of a function that is being traced.

    Raises:
        HostOnlyError: One of them is a value of a traced function.
    """
    for value in values:
        if isinstance(value, _core.Tensor) and value.is_symbolic:
            raise HostOnlyError(
                f"{what} works on the host, not inside of a traced function. "
                f"Received: {value!r}. Call it in Dataset.map, or before the function "
                "is called."
            )
