# SPDX-License-Identifier: MIT
"""The part of ``Layer`` that knows in which dtypes it computes and keeps weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu.keras._types import Nest
from ipu.keras.engine.layer.call_context import current_dtype
from ipu.keras.engine.layer.policy import Policy, policy_of

if TYPE_CHECKING:
    from ipu._core import Tensor


class AutoCastVariable(tf.Variable):
    """A weight that a layer's ``call`` reads in the dtype in which it computes.

    Optimizers, files and the host see it in its own dtype.
    """

    def __ipu_tensor__(self) -> Tensor:
        read = super().__ipu_tensor__()
        wanted = current_dtype()
        return read if wanted in (None, read.dtype) else tf.cast(read, wanted)


class LayerDtypes:
    """The dtype policy of a layer."""

    def _set_policy(self, dtype: Any) -> None:
        self._dtype_policy = policy_of(dtype)
        self._dtype = tf.as_dtype(self._dtype_policy.variable_dtype)
        self._compute_kind = tf.as_dtype(self._dtype_policy.compute_dtype)

    def _dtype_config(self) -> Any:
        """The policy as plain data: a name where it is a dtype's."""
        policy = self._dtype_policy
        if self._compute_kind == self._dtype:
            return policy.name
        return {"class_name": "Policy", "config": policy.get_config()}

    @property
    def dtype(self) -> str:
        """The dtype of the weights, as a name."""
        return str(self._dtype.name)

    variable_dtype = dtype

    @property
    def compute_dtype(self) -> str:
        """The dtype that float inputs are cast to, as a name."""
        return str(self._compute_kind.name)

    @property
    def dtype_policy(self) -> Policy:
        """The dtype policy."""
        return self._dtype_policy

    def _variable_kind(self, dtype: Any, is_cast: bool) -> type[tf.Variable]:
        """The class of a weight of this dtype."""
        is_mixed = self._compute_kind != self._dtype and dtype.is_floating
        return AutoCastVariable if is_mixed and is_cast else tf.Variable

    def _cast(self, inputs: Nest) -> Nest:
        kind = self._compute_kind

        def cast(leaf: Any) -> Any:
            dtype = getattr(leaf, "dtype", None)
            if dtype is None or isinstance(leaf, np.ndarray):
                return leaf
            own = tf.as_dtype(dtype)
            if own.is_floating and own != kind and kind.is_floating:
                return tf.cast(leaf, kind)
            return leaf

        return tf.nest.map_structure(cast, inputs)
