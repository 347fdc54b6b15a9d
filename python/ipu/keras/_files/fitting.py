# SPDX-License-Identifier: MIT
"""Arrays of a file for the variables of a model: all of them fit, or none is set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ipu._text.user_warnings import warn_user

Array = np.ndarray[Any, Any]
_SHOWN = 10  # differences that a message lists


class Rule(NamedTuple):
    """Which weights of a file a model gets.

    Attributes:
        by_name: Those of layers of the same name, and no others.
        skip_mismatch: Whether layers that do not fit stay as they are.
    """

    by_name: bool = False
    skip_mismatch: bool = False


WHOLE = Rule()


def misfit(path: str, model_name: str, lines: Sequence[str]) -> ValueError:
    """Return the error for a file of another architecture, with what differs."""
    return ValueError(
        f"The file {path!r} does not fit model {model_name!r}, nothing was loaded:\n"
        f"{_listed(lines)}"
    )


def _listed(lines: Sequence[str]) -> str:
    shown = [f"  {line}" for line in lines[:_SHOWN]]
    if len(lines) > _SHOWN:
        shown.append(f"  and {len(lines) - _SHOWN} more")
    return "\n".join(shown)


def fitted(
    wanted: Mapping[str, Any],
    arrays: Mapping[str, Array],
    path: str,
    model_name: str,
    rule: Rule = WHOLE,
) -> list[tuple[Any, Array]]:
    """Pair variables with arrays of the same key, ``layer/variable``."""
    if rule.by_name:
        there = {_layer_of(key) for key in wanted} & {_layer_of(key) for key in arrays}
        wanted, arrays = (
            {key: one for key, one in found.items() if _layer_of(key) in there}
            for found in (wanted, arrays)
        )
        if not there:
            warn_user(
                f"No layer of model {model_name!r} has a name that is in the file "
                f"{path!r}: nothing was loaded."
            )
    lines = []
    wrong: set[str] = set()  # layers that do not fit
    pairs = []
    for key, variable in wanted.items():
        shape = tuple(variable.shape)
        kind = np.dtype(variable.dtype.as_numpy_dtype)
        if key not in arrays:
            lines.append(f"{key}: {kind} of shape {shape}; not in the file")
            wrong.add(_layer_of(key))
            continue
        array = arrays[key]
        if shape != array.shape or not _same_kind(kind, array.dtype):
            lines.append(
                f"{key}: {kind} of shape {shape}; the file has {array.dtype} of shape "
                f"{array.shape}"
            )
            wrong.add(_layer_of(key))
            continue
        pairs.append((key, (variable, array.astype(kind, copy=False))))
    for key, array in arrays.items():
        if key not in wanted:
            held = f"the file has {array.dtype} of shape {array.shape}"
            lines.append(f"{key}: not in the model; {held}")
            wrong.add(_layer_of(key))
    if lines and rule.skip_mismatch:
        warn_user(
            f"Layers of model {model_name!r} that do not fit the file {path!r} stay as "
            f"they are:\n{_listed(lines)}"
        )
        return [pair for key, pair in pairs if _layer_of(key) not in wrong]
    if len(arrays) != len(wanted):
        count = f"It has {len(arrays)} weights, the model {len(wanted)}."
        lines.insert(0, count)
    if lines:
        raise misfit(path, model_name, lines)
    return [pair for _, pair in pairs]


def _layer_of(key: str) -> str:
    return key.rpartition("/")[0]


def _same_kind(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    integers = "iu"
    return one.kind == other.kind or (one.kind in integers and other.kind in integers)


def assign(pairs: Sequence[tuple[Any, Array]]) -> None:
    """Set variables to the arrays that belong to them."""
    for variable, array in pairs:
        variable.assign(array)
