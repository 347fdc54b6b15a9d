# SPDX-License-Identifier: MIT
"""``ipu.keras.optimizers.LAMBIpuOptimizer`` (You et al. 2020)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu.keras._types import Tensor
from ipu.keras.optimizers.ipu_optimizers import IpuOptimizerBase, _named
from ipu.keras.optimizers.optimizer import checked_decays

__all__ = ["LAMBIpuOptimizer"]


class LAMBIpuOptimizer(IpuOptimizerBase):
    """Adam whose steps are as long as the weights say, layer by layer.

    ``u = m / (sqrt(v) + epsilon) + weight_decay_rate * w``, with moments corrected for
    their first values; ``w -= rate * |w| / |u| * u``. The ratio is 1 where a norm is 0.

    Args:
        beta_1, beta_2: Decays of the first and the second moment, in [0, 1).
        weight_decay_rate: The share of the weights in u.
        exclude_from_weight_decay: Regular expressions: variables that one is found in
            the name of do without it.
        exclude_from_layer_adaptation: The same for the ratio.
        debiasing: Whether moments are corrected for having begun with 0.
        m_dtype: Of the first moment's variable, float16 or float32; None for the
            weight's.
        v_dtype: Of the second moment's.
        weight_norm_clip: The most that the norm of ``w`` is; None for no limit.
        optimizer_compute_precisions: Two dtypes: of u and the norms, and of the last
            product.
        **kwargs: The arguments of :class:`IpuOptimizerBase` and ``Optimizer``.

    Raises:
        ValueError: A number or a dtype that is not as said.

    Source: ``ipu_tensorflow_addons.keras.optimizers.LAMBIpuOptimizer``.

    Example:
        >>> opt = LAMBIpuOptimizer(0.5, exclude_from_weight_decay=["bias"])
        >>> v = tf.Variable([3.0, 4.0])
        >>> _ = opt.apply_gradients([(tf.constant([1.0, 0.0]), v)])
        >>> [round(x, 3) for x in v.numpy().tolist()]  # a step of half the norm
        [0.5, 4.0]
    """

    _stages = 2
    _own_slots = ("m", "v")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay_rate: float = 0.0,
        exclude_from_weight_decay: Sequence[str] | None = None,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        name: str = "LAMB",
        debiasing: bool = True,
        m_dtype: Any = None,
        v_dtype: Any = None,
        weight_norm_clip: float | None = None,
        optimizer_compute_precisions: Sequence[Any] = ("float32", "float32"),
        **kwargs: Any,
    ) -> None:
        super().__init__(
            learning_rate,
            name,
            optimizer_compute_precisions=optimizer_compute_precisions,
            **kwargs,
        )
        self.beta_1, self.beta_2 = checked_decays(beta_1, beta_2)
        self.epsilon = float(epsilon or 1e-7)
        self.weight_decay_rate = float(weight_decay_rate)
        self._exclude_from_weight_decay = exclude_from_weight_decay
        self.exclude_from_layer_adaptation = exclude_from_layer_adaptation
        self.debiasing = bool(debiasing)
        self.m_dtype = _named(m_dtype, "m_dtype")
        self.v_dtype = _named(v_dtype, "v_dtype")
        self.weight_norm_clip = weight_norm_clip

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        decays = self.beta_1, self.beta_2
        first, second = self._moments(grad, var, decays, self.debiasing)
        change = first / (tf.sqrt(second) + self._stage(self.epsilon))
        weights = self._stage(var.value())
        kept = _is_among(var, self._exclude_from_weight_decay)
        if not kept and self._decays(var):
            change = change + weights * self.weight_decay_rate
        rate = self._stage(self._current_rate)
        if not _is_among(var, self.exclude_from_layer_adaptation):
            rate = rate * self._ratio(weights, change)
        step = self._stage(rate, 1) * self._stage(change, 1)
        return var.assign_sub(tf.cast(step, var.dtype))

    def _ratio(self, weights: Tensor, change: Tensor) -> Tensor:
        """Return the weights' norm over that of their change; 1 where one is 0."""
        of_weights, of_change = tf.norm(weights), tf.norm(change)
        if self.weight_norm_clip is not None:
            of_weights = tf.minimum(of_weights, self._stage(self.weight_norm_clip))
        has_both = tf.logical_and(of_weights > 0.0, of_change > 0.0)
        one = tf.ones_like(of_change)
        return tf.where(has_both, of_weights / tf.where(has_both, of_change, one), one)


def _is_among(var: Any, patterns: Sequence[str] | None) -> bool:
    name = str(var.name).split(":")[0]
    return any(re.search(pattern, name) for pattern in patterns or ())
