# SPDX-License-Identifier: MIT
"""Type names that the annotations of this package share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from ipu import tf

# A tensor of the front end, of an open trace or with numbers in it.
Tensor: TypeAlias = Any
# A tensor, or tuples, lists and dicts of tensors.
Nest: TypeAlias = Any
# Sizes; None where a size is only known once there are numbers (the batch).
Shape: TypeAlias = "tuple[int | None, ...]"
# What a layer gives a tensor for, as far as types can say.
_Value: TypeAlias = "tf.Tensor | tf.Variable | np.ndarray[Any, Any] | float"
Values: TypeAlias = "_Value | Sequence[_Value]"
