# SPDX-License-Identifier: MIT
"""Type names that the annotations of this package share."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["Nest", "Shape", "Tensor"]

# A tensor of the front end, of an open trace or with numbers in it.
Tensor: TypeAlias = Any
# A tensor, or tuples, lists and dicts of tensors.
Nest: TypeAlias = Any
# Sizes; None where a size is only known once there are numbers (the batch).
Shape: TypeAlias = "tuple[int | None, ...]"
