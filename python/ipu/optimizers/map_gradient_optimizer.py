# SPDX-License-Identifier: MIT
"""A function of each gradient: ``ipu.optimizers.map_gradient_optimizer``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ipu._text.exports import export
from ipu.optimizers._wrapper import IpuOptimizer, Pair

Mapping = Callable[[Any, Any], Any]


def _mapped(mapping: Mapping, pairs: Sequence[Pair]) -> list[Pair]:
    return [
        (None if gradient is None else mapping(gradient, variable), variable)
        for gradient, variable in pairs
    ]


class MapGradientOptimizer(IpuOptimizer):
    """An optimizer whose ``compute_gradients`` gives a function of the gradients.

    Args:
        wrapped_optimizer: The optimizer that computes and applies gradients.
        gradient_mapping_function: ``function(gradient, variable)`` gives the gradient
            in its place.
        name: A name.

    Example:
        >>> v = tf.Variable(2.0)
        >>> decay = lambda gradient, variable: gradient + 0.5 * variable
        >>> opt = MapGradientOptimizer(keras.optimizers.SGD(1.0), decay)
        >>> @tf.function(jit_compile=True)
        ... def gradient():
        ...     [(value, _)] = opt.compute_gradients(3.0 * v, [v])
        ...     return value
        >>> float(gradient())
        4.0

    Source: ``ipu.optimizers.MapGradientOptimizer``.
    """

    def __init__(
        self,
        wrapped_optimizer: Any,
        gradient_mapping_function: Mapping,
        name: str = "MapGradientOptimizer",
    ) -> None:
        super().__init__(wrapped_optimizer, name)
        self._mapping = gradient_mapping_function

    def compute_gradients(
        self, loss: Any, var_list: Any = None, **kwargs: Any
    ) -> list[Pair]:
        """Compute the gradients of the wrapped optimizer, then map them."""
        pairs = super().compute_gradients(loss, var_list, **kwargs)
        return _mapped(self._mapping, pairs)


class _MapGradientOptimizerInvertedChaining(MapGradientOptimizer):
    """One that maps what it is given to apply, after what wraps it has changed it."""

    def compute_gradients(
        self, loss: Any, var_list: Any = None, **kwargs: Any
    ) -> list[Pair]:
        """Compute the gradients of the wrapped optimizer."""
        return IpuOptimizer.compute_gradients(self, loss, var_list, **kwargs)

    def _apply(self, pairs: Sequence[Pair], global_step: Any) -> Any:
        return super()._apply(_mapped(self._mapping, pairs), global_step)


export(__name__)
