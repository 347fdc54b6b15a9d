# SPDX-License-Identifier: MIT
"""Inputs of the rows of `benchmarks.ops`, for a number of bytes of the first one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
FLOATS = ("float16", "float32", "float64")
CLASSES = 32  # of one_hot


def square_shape(bytes_: int, dtype: str) -> tuple[int, int]:
    """Two axes of powers of two, the last one not shorter than the first."""
    elements = bytes_ // np.dtype(dtype).itemsize
    rows = 1 << (int(math.log2(elements)) // 2)
    return rows, elements // rows


def values(bytes_: int, dtype: str, seed: int) -> Array:
    """Numbers that no op here makes infinite, denormal or NaN."""
    random = np.random.default_rng(seed)
    shape = square_shape(bytes_, dtype)
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        return random.uniform(0.5, 2.0, shape).astype(dtype)
    return random.integers(1, 100, shape).astype(dtype)


def some(count: int, dtype: str = "float32") -> Callable[[int], list[Array]]:
    """As many inputs of a dtype."""
    return lambda bytes_: [values(bytes_, dtype, seed) for seed in range(count)]


def signed(bytes_: int) -> list[Array]:
    """Normal numbers."""
    random = np.random.default_rng(7)
    return [random.standard_normal(square_shape(bytes_, "float32"), np.float32)]


def near_one(bytes_: int) -> list[Array]:
    """The product of all of them is a number."""
    a = values(bytes_, "float32", 0)
    return [(1.0 + (a - a.mean()) / a.size).astype(np.float32)]


def false(bytes_: int) -> list[Array]:
    """All of it has to be read to know that there is no true one. Written: pages that
    never were are one page, which lies in the cache."""
    return [np.full(square_shape(bytes_, "bool"), False)]


def true(bytes_: int) -> list[Array]:
    return [np.ones(square_shape(bytes_, "bool"), bool)]


def chosen(bytes_: int) -> list[Array]:
    """A condition, and two to choose from."""
    a, b = some(2)(bytes_)
    condition = np.asarray(np.random.default_rng(3).random(a.shape) < 0.5)
    return [condition, a, b]


def with_row(bytes_: int) -> list[Array]:
    a = values(bytes_, "float32", 0)
    return [a, np.ascontiguousarray(values(bytes_, "float32", 1)[0])]


def with_rows(bytes_: int) -> list[Array]:
    """A table, and numbers of its rows, as many as it has, in any order."""
    a = values(bytes_, "float32", 0)
    rows = np.random.default_rng(5).integers(0, len(a), len(a)).astype(np.int32)
    return [a, rows]


def scattered(bytes_: int) -> list[Array]:
    """A table, rows to add to it, and where."""
    table, rows = with_rows(bytes_)
    return [table, rows, values(bytes_, "float32", 2)]


def labels(bytes_: int) -> list[Array]:
    """As many as give a one-hot float32 array of that size."""
    count = bytes_ // 4 // CLASSES
    return [np.random.default_rng(6).integers(0, CLASSES, count).astype(np.int32)]


def like(bytes_: int) -> list[Array]:
    """For ops without inputs: what has the shape of the result."""
    return [np.zeros(square_shape(bytes_, "float32"), np.float32)]
