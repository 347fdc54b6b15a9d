# SPDX-License-Identifier: MIT
"""How ops that are made in rows are called, for type checkers and editors."""

from __future__ import annotations

from typing import Any, Protocol

from ipu._core import Tensor


class Unary(Protocol):
    """An op of one tensor."""

    def __call__(self, x: Any, name: str | None = None) -> Tensor: ...


class Binary(Protocol):
    """An op of two tensors, which are broadcast."""

    def __call__(self, x: Any, y: Any, name: str | None = None) -> Tensor: ...


class Reduction(Protocol):
    """An op over some of the axes of a tensor."""

    def __call__(
        self,
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool = False,
        name: str = "",
    ) -> Tensor: ...
