# SPDX-License-Identifier: MIT
"""Packages that are there for a part of the users only."""

from __future__ import annotations

import importlib
from typing import Any


def extra(module: str, what: str, name: str, package: str) -> Any:
    """Import a module of an extra.

    Args:
        name: The extra of `ipu` that it is in.
        package: What it is called where packages are installed from.

    Raises:
        ImportError: It is not installed; says how to get it.

    Example:
        >>> extra("json", "This", "none", "none").dumps([1])
        '[1]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{what} needs the package {package}. Install it: "
            f"pip install 'ipu[{name}]', or pip install {package}."
        ) from error
