# SPDX-License-Identifier: MIT
"""Which sizes vary: a function on the host is called twice for one element, the second
time with sizes that depend on contents made one larger. What differs varies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ipu._device.thread_state import here


@contextmanager
def others() -> Iterator[set[int]]:
    """Make sizes that vary one larger meanwhile; give the set of what they are."""
    sizes: set[int] = set()
    with here.setting(varying_sizes=sizes):
        yield sizes


def varying(array: np.ndarray[Any, Any], *axes: int) -> np.ndarray[Any, Any]:
    """Return an array whose sizes along these axes depend on what is in the data.

    Args:
        axes: Its axes of sizes that another element may have otherwise.
    """
    sizes = here.varying_sizes
    if sizes is None:
        return array
    sizes.update(array.shape[axis] for axis in axes)
    more = [(0, 1 if axis in axes else 0) for axis in range(array.ndim)]
    if array.size:
        return np.pad(array, more, "edge")
    sizes_made = [
        size + after for size, (_, after) in zip(array.shape, more, strict=True)
    ]
    return np.full(sizes_made, b"" if array.dtype.kind == "O" else 0, array.dtype)
