# SPDX-License-Identifier: MIT
"""What a notebook shows of tensors, variables and data sets, in a fixed-width font."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu.tf import nest

_MOST_VALUES = 200  # of a tensor that is shown whole


def _fixed(kind: str, about: str, text: str = "") -> str:
    import html  # slow to import

    lines = f"\n{html.escape(text)}" if text else ""
    return f"<pre><b>{kind}</b> {html.escape(about)}{lines}</pre>"


def values_html(kind: str, about: str, values: np.ndarray | None) -> str:
    """Give a tensor or a variable as HTML.

    Args:
        about: Its name, shape and dtype.
        values: Of a large one the corners are shown; None where there are none.
    """
    if values is None:
        return _fixed(kind, about)
    return _fixed(kind, about, np.array2string(values, threshold=_MOST_VALUES))


class _Leaf:
    """A part of an element: its dtype and its shape, without quotes."""

    def __init__(self, spec: Any) -> None:
        dtype = getattr(spec, "dtype", None)
        shape = getattr(spec, "shape", None)
        self._text = repr(spec) if dtype is None else f"{dtype.name} {shape}"

    def __repr__(self) -> str:
        return self._text


def dataset_html(count: int, spec: Any) -> str:
    """Give a data set as HTML: how many elements it has, and what one is.

    Args:
        count: The cardinality: -1 for an endless one, -2 for one that is not known.
    """
    import pprint  # slow to import

    known = {-1: "endless", -2: "of unknown length"}
    about = known.get(count) or f"of {count} element{'s' if count != 1 else ''}"
    return _fixed("Dataset", about, pprint.pformat(nest.map_structure(_Leaf, spec)))
