# SPDX-License-Identifier: MIT
"""Data that nobody reads: what ``--use_synthetic_data`` puts in place of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu._config.flags import flags

_Type = tuple[str, tuple[int, ...]]


def synthetic_dataset(types: Sequence[_Type]) -> Any:
    """Return an endless ``_core.Dataset`` of one element.

    Args:
        types: dtype and shape of each component.
    """
    chosen = flags().synthetic_data_initializer
    generator = np.random.default_rng(0)

    def component(kind: _Type) -> Any:
        dtype, shape = kind
        if not chosen or chosen.lstrip("+-").isdigit():
            return np.full(shape, int(chosen or 0)).astype(dtype)
        if not np.issubdtype(np.dtype(dtype), np.floating):
            return generator.integers(0, 2, shape).astype(dtype)
        if chosen == "normal":
            return generator.standard_normal(shape).astype(dtype)
        return generator.random(shape).astype(dtype)

    element = tuple(component(kind) for kind in types)
    return _core.Dataset.tensors(element).repeat(-1)
