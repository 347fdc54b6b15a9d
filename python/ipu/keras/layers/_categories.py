# SPDX-License-Identifier: MIT
"""Numbers of categories as vectors: one-hot, multi-hot, counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def checked_mode(mode: Any, modes: tuple[str, ...], owner: str) -> str:
    """Return an output mode."""
    if mode == "binary" and "multi_hot" in modes:
        return "multi_hot"  # its name before Keras 2.6
    if mode not in modes:
        raise ValueError(
            f"`output_mode` of {owner} must be one of {', '.join(map(repr, modes))}. "
            f"Received: output_mode={mode!r}."
        )
    return str(mode)


def encoded_shape(shape: tuple[int | None, ...], mode: str, width: int) -> Any:
    """Return the shape of what :func:`encoded` gives for numbers of a shape."""
    if mode == "int":
        return shape
    is_row = len(shape) > 1 and shape[-1] == 1
    if mode == "one_hot" and not is_row:
        return (*shape, width)
    return (*shape[:-1], width)


def encoded(
    ids: np.ndarray[Any, Any],
    mode: str,
    width: int,
    weights: np.ndarray[Any, Any] | None = None,
) -> np.ndarray[Any, Any]:
    """Return numbers as vectors.

    Args:
        ids: Integers; those below 0 count nowhere.
        mode: "one_hot" for a vector of each number; "multi_hot", "count" or "tf_idf"
            for one of all numbers along the last axis.
        width: The length of a vector.
        weights: A factor for each place, of ``"tf_idf"``.

    Returns:
        float32.

    Example:
        >>> encoded(np.array([[0, 2, 2]]), "count", 4).tolist()
        [[1.0, 0.0, 2.0, 0.0]]
    """
    shape = encoded_shape(ids.shape, mode, width)
    vectors = math.prod(shape[:-1])
    rows = ids.reshape(vectors, ids.size // vectors if vectors else 0)
    made = np.zeros((len(rows), width), np.float32)
    kept = rows >= 0
    np.add.at(made, (np.nonzero(kept)[0], rows[kept]), 1.0)
    if mode in ("one_hot", "multi_hot"):
        np.minimum(made, 1.0, out=made)
    elif weights is not None:
        made[:, : len(weights)] *= weights
    shaped: np.ndarray[Any, Any] = made.reshape(shape)
    return shaped
