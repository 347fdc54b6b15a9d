# SPDX-License-Identifier: MIT
"""``Lion``, ``Adafactor``, ``Lamb`` and ``Muon``: optimizers that Keras 3 adds."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu.keras._types import Tensor
from ipu.keras.optimizers.adam import Adam
from ipu.keras.optimizers.optimizer import Baked, Optimizer, checked_decays

__all__ = ["Adafactor", "Lamb", "Lion", "Muon"]


class Lion(Optimizer):
    """Steps by the sign of a moving gradient (Chen et al. 2023).

    ``w -= rate * sign(beta_1 m + (1 - beta_1) g)``, then
    ``m = beta_2 m + (1 - beta_2) g``.

    Args:
        beta_1: Of the mean whose sign is taken, in [0, 1).
        beta_2: Of the mean that is kept, in [0, 1).

    Source: ``keras.optimizers.Lion`` of Keras 3.

    Example:
        >>> w = tf.Variable([1.0, 1.0])
        >>> _ = Lion(0.25).apply_gradients([(tf.constant([9.0, -0.1]), w)])
        >>> w.numpy().tolist()
        [0.75, 1.25]
    """

    beta_1 = Baked("Of the mean whose sign is taken.")
    beta_2 = Baked("Of the mean that is kept.")
    _own_slots = ("m",)

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        name: str = "Lion",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name, **kwargs)
        self.beta_1, self.beta_2 = checked_decays(beta_1, beta_2)

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        m = self.get_slot(var, "m")
        mean = self.beta_1 * m.value() + (1.0 - self.beta_1) * grad
        var.assign_sub(tf.cast(self._current_rate, var.dtype) * tf.sign(mean))
        return m.assign(self.beta_2 * m.value() + (1.0 - self.beta_2) * grad)


class Adafactor(Optimizer):
    """Steps scaled by means of rows and columns (Shazeer and Stern 2018).

    A matrix keeps the means of its squared gradients by row and by column in place of
    a moment for each element; a vector keeps each. Steps are relative to the weights.

    Args:
        beta_2_decay: The power of the step number in the decay of the means.
        epsilon_1: The number that is added to squared gradients.
        epsilon_2: The smallest scale of the weights.
        clip_threshold: The largest root mean square of a step before it is scaled.
        relative_step: Accepted without effect: the rate is at most ``1 / sqrt(step)``
            in any case, as in Keras.

    Source: ``keras.optimizers.Adafactor`` of Keras 3.

    Example:
        >>> w = tf.Variable([[1.0, 1.0]])
        >>> _ = Adafactor(0.5).apply_gradients([(tf.constant([[3.0, -3.0]]), w)])
        >>> w.numpy().tolist()
        [[0.5, 1.5]]
    """

    beta_2_decay = Baked("The power of the step number in the decay of the means.")
    epsilon_1 = Baked("What is added to squared gradients.")
    epsilon_2 = Baked("The smallest scale of the weights.")
    clip_threshold = Baked("The largest root mean square of a step.")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_2_decay: float = -0.8,
        epsilon_1: float = 1e-30,
        epsilon_2: float = 1e-3,
        clip_threshold: float = 1.0,
        relative_step: bool = True,
        name: str = "Adafactor",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name, **kwargs)
        self.beta_2_decay = beta_2_decay
        self.epsilon_1, self.epsilon_2 = epsilon_1, epsilon_2
        self.clip_threshold = clip_threshold
        self.relative_step = bool(relative_step)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            sizes = tuple(var.shape)
            if len(sizes) < 2:
                self.add_slot(var, "velocity")
            else:
                self.add_slot(var, "row", shape=sizes[:-1])
                self.add_slot(var, "column", shape=sizes[:-2] + sizes[-1:])

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        kind = var.dtype
        step = tf.cast(self._current_step, "float32")
        rate = tf.minimum(self._current_rate, 1.0 / tf.sqrt(step))
        scale = tf.maximum(self.epsilon_2, _rms(tf.cast(var.value(), "float32")))
        square = tf.square(grad) + tf.constant(self.epsilon_1, dtype=kind)
        decay = tf.cast(1.0 - tf.pow(step, self.beta_2_decay), kind)

        def taken(name: str, values: Tensor) -> Tensor:
            slot = self.get_slot(var, name)
            slot.assign(decay * slot.value() + (1.0 - decay) * values)
            value: Tensor = slot.value()
            return value

        if len(var.shape) < 2:
            velocity = taken("velocity", square)
        else:
            rows = taken("row", tf.reduce_mean(square, axis=-1))
            columns = taken("column", tf.reduce_mean(square, axis=-2))
            share = rows / tf.reduce_mean(rows, axis=-1, keepdims=True)
            velocity = tf.expand_dims(share, -1) * tf.expand_dims(columns, -2)
        change = grad / tf.sqrt(velocity)
        change = change / tf.maximum(
            tf.constant(1.0, dtype=kind), _rms(change) / self.clip_threshold
        )
        return var.assign_sub(tf.cast(scale * rate, kind) * change)


def _rms(values: Tensor) -> Tensor:
    return tf.sqrt(tf.reduce_mean(tf.square(values)))


class Lamb(Optimizer):
    """Adam whose steps are as long as the weights say (You et al. 2020).

    ``u = m / (sqrt(v) + epsilon)`` with corrected moments;
    ``w -= rate * |w| / |u| * u``, with the ratio 1 where a norm is 0.

    Args:
        beta_1, beta_2: Decays of the first and the second moment, in [0, 1).

    Source: ``keras.optimizers.Lamb`` of Keras 3. :class:`LAMBIpuOptimizer` does more.

    Example:
        >>> w = tf.Variable([3.0, 4.0])
        >>> _ = Lamb(0.5).apply_gradients([(tf.constant([1.0, 0.0]), w)])
        >>> [round(x, 3) for x in w.numpy().tolist()]
        [0.5, 4.0]
    """

    beta_1 = Baked("Decay of the first moment.")
    beta_2 = Baked("Decay of the second moment.")
    epsilon = Baked("What is added to the divisor.")
    _own_slots = ("m", "v")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        name: str = "Lamb",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name, **kwargs)
        self.beta_1, self.beta_2 = checked_decays(beta_1, beta_2)
        self.epsilon = epsilon

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        step = tf.cast(self._current_step, "float32")
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m.assign(m + (grad - m) * (1.0 - self.beta_1))
        v.assign(v + (tf.square(grad) - v) * (1.0 - self.beta_2))
        first = m.value() / tf.cast(1.0 - tf.pow(self.beta_1, step), var.dtype)
        second = v.value() / tf.cast(1.0 - tf.pow(self.beta_2, step), var.dtype)
        change = first / (tf.sqrt(second) + self.epsilon)
        of_weight, of_change = tf.norm(var.value()), tf.norm(change)
        one = tf.ones_like(of_weight)
        may = tf.logical_and(of_weight > 0.0, of_change > 0.0)
        ratio = tf.where(may, of_weight / tf.where(may, of_change, one), one)
        return var.assign_sub(tf.cast(self._current_rate, var.dtype) * ratio * change)


class Muon(Adam):
    """Steps along the nearest orthogonal matrix of a moving gradient (Jordan 2024).

    Matrices, and weights of three axes, which are flattened after the first, move by
    ``rate * rms_rate * sqrt(the larger size)`` times that matrix, which ``ns_steps`` of
    Newton and Schulz approximate. All other weights are changed as by AdamW.

    Args:
        adam_beta_1, adam_beta_2: Decays of Adam's moments, in [0, 1).
        adam_weight_decay: The decay of weights that Adam changes; None for 0.
        weight_decay: That of the others.
        exclude_layers: Regular expressions: weights that one is found in the name of
            are Adam's.
        exclude_embeddings: Whether weights with "embedding" in their name are Adam's.
        muon_a, muon_b, muon_c: The coefficients of a step of Newton and Schulz.
        adam_lr_ratio: Adam's rate over the rate.
        momentum: How much of the moving gradient is kept.
        ns_steps: How many steps approximate the matrix.
        nesterov: Whether the gradient is added once more.
        rms_rate: The root mean square of a step over the rate.

    Source: ``keras.optimizers.Muon`` of Keras 3.

    Example:
        >>> w = tf.Variable([[1.0, 0.0], [0.0, 1.0]])
        >>> gradient = tf.constant([[2.0, 0.0], [0.0, 2.0]])
        >>> _ = Muon(0.1, weight_decay=0.0).apply_gradients([(gradient, w)])
        >>> [f"{x:.2f}" for x in w.numpy()[0]]
        ['0.97', '0.00']
    """

    momentum = Baked("How much of the moving gradient is kept.")
    _left_out = ("amsgrad", "beta_1", "beta_2")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        adam_beta_1: float = 0.9,
        adam_beta_2: float = 0.999,
        adam_weight_decay: float | None = 0.004,
        epsilon: float = 1e-7,
        weight_decay: float | None = 0.004,
        name: str = "Muon",
        exclude_layers: Sequence[str] | None = None,
        exclude_embeddings: bool = True,
        muon_a: float = 3.4445,
        muon_b: float = -4.775,
        muon_c: float = 2.0315,
        adam_lr_ratio: float = 1.0,
        momentum: float = 0.95,
        ns_steps: int = 5,
        nesterov: bool = True,
        rms_rate: float = 0.2,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            *(learning_rate, adam_beta_1, adam_beta_2, epsilon),
            name=name,
            weight_decay=weight_decay,
            **kwargs,
        )
        self.adam_beta_1, self.adam_beta_2 = self.beta_1, self.beta_2
        self.adam_weight_decay = adam_weight_decay
        self.exclude_layers = list(exclude_layers or ())
        self.exclude_embeddings = bool(exclude_embeddings)
        self.muon_a, self.muon_b, self.muon_c = muon_a, muon_b, muon_c
        self.adam_lr_ratio = adam_lr_ratio
        self.momentum = momentum
        self.ns_steps = int(ns_steps)
        self.nesterov = bool(nesterov)
        self.rms_rate = rms_rate

    def _is_adams(self, var: Any) -> bool:
        name = str(var.name)
        return (
            not 1 < len(var.shape) < 4
            or (self.exclude_embeddings and "embedding" in name.lower())
            or any(re.search(pattern, name) for pattern in self.exclude_layers)
        )

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for name in ("m", "v"):
            for var in var_list:
                if name == "m" or self._is_adams(var):
                    self.add_slot(var, name)

    def _decays(self, var: Any) -> bool:
        return not self._is_adams(var) and super()._decays(var)

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        rate = self._current_rate
        if self._is_adams(var):
            if self.adam_weight_decay and super()._decays(var):
                share = tf.cast(rate, var.dtype)
                var.assign_sub(var * self.adam_weight_decay * share)
            self._current_rate = rate * self.adam_lr_ratio
            try:
                return super()._resource_apply_dense(grad, var, apply_state)
            finally:
                self._current_rate = rate
        m = self.get_slot(var, "m")
        m.assign(self.momentum * m.value() + grad)
        change = grad + self.momentum * m.value() if self.nesterov else m.value()
        size = self.rms_rate * math.sqrt(max(tuple(var.shape)))
        step = tf.cast(rate, var.dtype) * self._orthogonal(change) * size
        return var.assign_sub(step)

    def _orthogonal(self, matrix: Tensor) -> Tensor:
        """Return the nearest orthogonal matrix, about."""
        shape = tuple(matrix.shape)
        x = tf.reshape(matrix, (shape[0], -1))
        is_high = x.shape[0] > x.shape[1]
        x = tf.transpose(x) if is_high else x
        x = x / (tf.norm(x) + 1e-7)
        for _ in range(self.ns_steps):
            a = tf.matmul(x, x, transpose_b=True)
            b = self.muon_b * a + self.muon_c * tf.matmul(a, a)
            x = self.muon_a * x + tf.matmul(b, x)
        return tf.reshape(tf.transpose(x) if is_high else x, shape)
