# SPDX-License-Identifier: MIT
"""Warnings that name the line of the user's program, however deep they come from."""

from __future__ import annotations

import warnings

from ipu._text.missing import user_line


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn about the innermost line that is not of this package.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as seen:
        ...     warnings.simplefilter("always")
        ...     warn_user("mind the step")
        >>> str(seen[0].message)
        'mind the step'
    """
    place = user_line()
    if place is None:
        warnings.warn(message, category, stacklevel=2)
    else:
        warnings.warn_explicit(message, category, *place)
