# SPDX-License-Identifier: MIT
"""The bases of optimizers that are made of another one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ipu import tf
from ipu.keras._types import Tensor
from ipu.keras.optimizers.optimizer import Optimizer
from ipu.tf._functions.tracing import init_scope
from ipu.tf._gradients import slices


class WrappingOptimizer(Optimizer):
    """An optimizer around another one, which has rate, step number and slots.

    Args:
        inner: The optimizer.
    """

    _argument = "opt"  # the name of the inner optimizer in configurations

    def __init__(self, inner: Optimizer, name: str) -> None:
        self._own_version = 0
        super().__init__(name=name)
        self._inner = inner

    @property
    def _version(self) -> Any:
        return (self._own_version, self._inner._version)

    @_version.setter
    def _version(self, value: Any) -> None:
        self._own_version += 1

    @property
    def _clips(self) -> bool:
        return self._inner._clips

    @property
    def learning_rate(self) -> Any:
        """The inner optimizer's rate."""
        return self._inner.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if "_inner" in self.__dict__:  # the base class sets a rate before that
            self._inner.learning_rate = value

    lr = learning_rate

    def scale_loss(self, loss: Any) -> Any:
        return self._inner.scale_loss(loss)

    def finalize_variable_values(self, var_list: Iterable[Any]) -> None:
        self._inner.finalize_variable_values(var_list)

    @property
    def iterations(self) -> Any:
        """How often the inner optimizer has updated weights."""
        return self._inner.iterations

    def get_slot(self, var: Any, slot_name: str) -> Any:
        return self._inner.get_slot(var, slot_name)

    def get_slot_names(self) -> list[str]:
        return self._inner.get_slot_names()

    def _create_all_weights(self, var_list: Sequence[Any]) -> None:
        self._inner._create_all_weights(var_list)

    def _made_variables(self) -> list[Any]:
        return self._inner._made_variables()

    def _checkpoint_parts(self, names: Mapping[int, str]) -> dict[str, Any]:
        parts = self._inner._checkpoint_parts(names)
        listed = {id(one) for one in parts.values()}
        others = [one for one in self._made_variables() if id(one) not in listed]
        return parts | {f"wrapper/{number}": one for number, one in enumerate(others)}

    @property
    def weights(self) -> list[Any]:
        """The inner optimizer's."""
        return self._inner.weights

    def get_config(self) -> dict[str, Any]:
        from ipu.keras import optimizers

        return {self._argument: optimizers.serialize(self._inner), "name": self._name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        from ipu.keras import optimizers

        make: Any = cls
        inner = optimizers.deserialize(config[cls._argument])
        return make(**{**config, cls._argument: inner})


class ScalingOptimizer(WrappingOptimizer):
    """An optimizer around another one, with a factor for the loss.

    Gradients are those of the loss times a factor, which a subclass gives as
    ``_factor()``. It makes variables of its own by ``_state_variable``.

    Args:
        inner: The optimizer.
    """

    def __init__(self, inner: Optimizer, name: str) -> None:
        self._state: dict[str, Any] = {}
        super().__init__(inner, name)

    def _state_variable(self, name: str, first: Any) -> Any:
        """Return the variable of that name, made when it is first asked for."""
        if name not in self._state:
            with init_scope():
                self._state[name] = tf.Variable(
                    first,
                    trainable=False,
                    name=f"{self._name}/{name}",
                    dtype=np.asarray(first).dtype.name,
                )
        return self._state[name]

    def _make_state(self) -> None:
        """Make the variables; a subclass asks for each."""
        raise NotImplementedError

    def _factor(self) -> Tensor:
        """Return what the loss is multiplied by, a float32 scalar."""
        raise NotImplementedError

    def _create_all_weights(self, var_list: Sequence[Any]) -> None:
        self._make_state()
        super()._create_all_weights(var_list)

    def _made_variables(self) -> list[Any]:
        return [*super()._made_variables(), *self._state.values()]

    @property
    def weights(self) -> list[Any]:
        """The inner optimizer's, then those of the factor."""
        self._make_state()
        return [*super().weights, *self._state.values()]

    # --- gradients ------------------------------------------------------------------

    def get_scaled_loss(self, loss: Any) -> Any:
        """Multiply a loss by the factor.

        Args:
            loss: A tensor; or a function without arguments that gives one.

        Returns:
            A tensor of its dtype; a function of a function.
        """
        if callable(loss):
            return lambda: self.get_scaled_loss(loss())
        value = tf.convert_to_tensor(loss)
        return self._inner.scale_loss(value * tf.cast(self._factor(), value.dtype))

    def scale_loss(self, loss: Any) -> Any:
        """Multiply a loss by the factor, for ``apply``."""
        return self.get_scaled_loss(loss)

    def apply(self, grads: Iterable[Any], trainable_variables: Any = None) -> Any:
        """Change variables by gradients of a scaled loss; see ``Optimizer``."""
        return super().apply(self._finished(list(grads)), trainable_variables)

    def _changed(
        self, function: Callable[[Tensor], Tensor], gradients: Sequence[Any]
    ) -> list[Any]:
        """Return a function of each element of gradients, tensors or None."""
        if self._clips:  # row by row
            function = functools.partial(slices.mapped, function)
        return [None if g is None else function(g) for g in gradients]

    def _finished(self, gradients: list[Any]) -> list[Any]:
        """Return what gradients of the scaled loss are made into before they are given
        away; a subclass may define it."""
        return gradients

    def _first(self, value: Tensor, grad_loss: Any) -> Tensor:
        """Return what a gradient begins with: a factor of the loss is one of that."""
        factor = self._inner.scale_loss(tf.cast(self._factor(), value.dtype))
        if grad_loss is not None:
            return factor * grad_loss
        return tf.fill(value.shape, factor) if value.shape else factor

    def get_gradients(
        self, loss: Tensor, params: Sequence[Any], grad_loss: Any = None
    ) -> list[Any]:
        """Return the gradients of a loss, in a trace; see ``compute_gradients``."""
        first = self._first(loss, grad_loss)
        return self._finished(list(tf.gradients(loss, list(params), first)))

    def compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        """Return the pairs that ``apply_gradients`` takes.

        Args:
            loss: A scalar tensor of the open trace, or a callable that gives one; not
                scaled.
            var_list: The variables, or a callable that gives them.
            grad_loss: The gradient of the loss, None for 1.
            tape: A ``GradientTape`` that recorded the loss; None where a trace is open.

        Returns:
            A pair of gradient and variable for each variable.
        """
        if tape is None:
            return super().compute_gradients(loss, var_list, grad_loss)
        value = loss() if callable(loss) else loss
        first = self._first(value, grad_loss)
        pairs = super().compute_gradients(value, var_list, first, tape)
        gradients = self._finished([gradient for gradient, _ in pairs])
        return [
            (g, variable) for g, (_, variable) in zip(gradients, pairs, strict=True)
        ]
