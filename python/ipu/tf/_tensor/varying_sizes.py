# SPDX-License-Identifier: MIT
"""Which sizes vary: a function on the host is called twice for one element, the second
time with sizes that depend on contents made one larger. What differs varies; sizes that
the function itself says do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ipu._device.thread_state import here


class Others:
    """A call with other sizes.

    Attributes:
        made_larger: What the sizes were that it has one larger.
        said: Sizes of shapes that the function said, and tensors did not have.
    """

    def __init__(self) -> None:
        self.made_larger: set[int] = set()
        self.said: set[int] = set()
        self._fixed: set[int] = set()

    def varies(self, size: int) -> bool:
        """Return whether such a size is made one larger."""
        if size not in self._fixed:
            self.made_larger.add(size)
        return size not in self._fixed

    def fix(self) -> bool:
        """Leave the sizes that were said as they are, in the next call; return whether
        that changes it."""
        new = self.said & self.made_larger
        self._fixed |= new
        self.made_larger -= new
        return bool(new)


@contextmanager
def others() -> Iterator[Others]:
    """Make sizes that vary one larger meanwhile."""
    call = Others()
    with here.setting(varying_sizes=call):
        yield call


def say(sizes: Sequence[int | None]) -> None:
    """Note a shape that a function says a tensor has, which has another one."""
    if here.varying_sizes is not None:
        here.varying_sizes.said.update(size for size in sizes if size is not None)


def varying(array: np.ndarray[Any, Any], *axes: int) -> np.ndarray[Any, Any]:
    """Return an array whose sizes along these axes depend on what is in the data.

    Args:
        axes: Its axes of sizes that another element may have otherwise.
    """
    call = here.varying_sizes
    if call is None:
        return array
    more = [
        (0, int(axis in axes and call.varies(size)))
        for axis, size in enumerate(array.shape)
    ]
    if array.size:
        return np.pad(array, more, "edge")
    sizes_made = [
        size + after for size, (_, after) in zip(array.shape, more, strict=True)
    ]
    return np.full(sizes_made, b"" if array.dtype.kind == "O" else 0, array.dtype)
