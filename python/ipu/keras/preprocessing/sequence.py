# SPDX-License-Identifier: MIT
"""``ipu.keras.preprocessing.sequence``: lists of different lengths as one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu.keras import _names

__all__ = ["pad_sequences"]


def pad_sequences(
    sequences: Sequence[Any],
    maxlen: int | None = None,
    dtype: Any = "int32",
    padding: str = "pre",
    truncating: str = "pre",
    value: Any = 0.0,
) -> np.ndarray[Any, Any]:
    """Cut or fill sequences to one length.

    Args:
        sequences: Lists of numbers, or of arrays of one shape.
        maxlen: The length; None for that of the longest.
        dtype: Dtype of the result.
        padding: ``"pre"`` fills before, ``"post"`` after.
        truncating: ``"pre"`` cuts at the beginning, ``"post"`` at the end.
        value: What is filled in.

    Returns:
        An array of shape ``(len(sequences), maxlen, ...)``.

    Raises:
        ValueError: An element has no length, or shapes differ.

    Source: ``tf.keras.preprocessing.sequence.pad_sequences`` of Keras 2.6.

    Example:
        >>> pad_sequences([[1], [2, 3, 4]], maxlen=2).tolist()
        [[0, 1], [3, 4]]
    """
    for name, side in (("padding", padding), ("truncating", truncating)):
        if side not in ("pre", "post"):
            raise ValueError(
                f"`{name}` must be 'pre' or 'post'. Received: {name}={side!r}."
            )
    for item in sequences:
        if not hasattr(item, "__len__"):
            raise ValueError(
                "`sequences` must be a list of iterables. Found non-iterable: "
                f"{item!r}."
            )
    lengths = [len(item) for item in sequences]
    size = maxlen if maxlen is not None else max(lengths, default=0)
    shapes = [np.asarray(item).shape[1:] for item in sequences if len(item)]
    shape = shapes[0] if shapes else ()
    if isinstance(value, str) and np.dtype(dtype).kind not in "OSU":
        raise ValueError(
            f"`dtype` {dtype} is not compatible with `value`'s type: {type(value)}. "
            "You should set `dtype=object` for variable length strings."
        )
    result = np.full((len(lengths), size, *shape), value, dtype=dtype)
    for row, item in enumerate(sequences):
        if not len(item) or not size:
            continue
        kept = np.asarray(item[-size:] if truncating == "pre" else item[:size], dtype)
        if kept.shape[1:] != shape:
            raise ValueError(
                f"Shape of sample {kept.shape[1:]} of sequence at position {row} is "
                f"different from expected shape {shape}."
            )
        place = slice(-len(kept), None) if padding == "pre" else slice(len(kept))
        result[row, place] = kept
    return result


__getattr__ = _names.missing(__name__, __all__)
