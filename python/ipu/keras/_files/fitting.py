# SPDX-License-Identifier: MIT
"""Arrays of a file for the variables of a model: all of them fit, or none is set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_SHOWN = 10  # differences that a message lists


def misfit(path: str, model_name: str, lines: Sequence[str]) -> ValueError:
    """The error for a file of another architecture, with what differs."""
    shown = [f"  {line}" for line in lines[:_SHOWN]]
    if len(lines) > _SHOWN:
        shown.append(f"  and {len(lines) - _SHOWN} more")
    text = "\n".join(shown)
    return ValueError(
        f"The file {path!r} does not fit model {model_name!r}, nothing was loaded:\n"
        f"{text}"
    )


def fitted(
    wanted: Mapping[str, Any], arrays: Mapping[str, Array], path: str, model_name: str
) -> list[tuple[Any, Array]]:
    """Pair variables with arrays of the same key."""
    lines = []
    pairs = []
    for key, variable in wanted.items():
        shape = tuple(variable.shape)
        kind = np.dtype(variable.dtype.as_numpy_dtype)
        if key not in arrays:
            lines.append(f"{key}: {kind} of shape {shape}; not in the file")
            continue
        array = arrays[key]
        if shape != array.shape or not _same_kind(kind, array.dtype):
            lines.append(
                f"{key}: {kind} of shape {shape}; the file has {array.dtype} of shape "
                f"{array.shape}"
            )
            continue
        pairs.append((variable, array.astype(kind, copy=False)))
    lines += [
        f"{key}: not in the model; the file has {array.dtype} of shape {array.shape}"
        for key, array in arrays.items()
        if key not in wanted
    ]
    if len(arrays) != len(wanted):
        count = f"It has {len(arrays)} weights, the model {len(wanted)}."
        lines.insert(0, count)
    if lines:
        raise misfit(path, model_name, lines)
    return pairs


def _same_kind(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    integers = "iu"
    return one.kind == other.kind or (one.kind in integers and other.kind in integers)


def assign(pairs: Sequence[tuple[Any, Array]]) -> None:
    """Set variables to the arrays that belong to them."""
    for variable, array in pairs:
        variable.assign(array)
