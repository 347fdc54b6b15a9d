# SPDX-License-Identifier: MIT
"""``tf.compat.v1.train``: the optimizers of TensorFlow 1.

They serve code of TensorFlow 2: ``model.compile(GradientDescentOptimizer(0.1))``. Their
numbers are those of Keras's, but for ``RMSPropOptimizer``, which starts its mean at one
and divides otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ipu import tf
from ipu.keras import optimizers
from ipu.tf import _function

__all__ = [
    "AdamOptimizer",
    "GradientDescentOptimizer",
    "MomentumOptimizer",
    "Optimizer",
    "RMSPropOptimizer",
]


class Optimizer(optimizers.Optimizer):
    """The arguments of TensorFlow 1's methods over those of a Keras optimizer.

    A program's own optimizer is a subclass that wraps another one and overrides
    ``compute_gradients`` or ``apply_gradients``; ``minimize`` calls both.

    Args:
        use_locking: Accepted without effect.
        name: A name.
    """

    _is_tf1_optimizer = True

    def __init__(self, use_locking: bool = False, name: str = "Optimizer") -> None:
        del use_locking
        optimizers.Optimizer.__init__(self, name=name)

    @property
    def _learning_rate(self) -> Any:
        return self.learning_rate

    @_learning_rate.setter
    def _learning_rate(self, value: Any) -> None:
        self.learning_rate = value

    def minimize(  # type: ignore[override]
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = 1,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:
        """Make a loss smaller: compute gradients and apply them.

        Args:
            loss: A scalar tensor of the function being traced, or a callable.
            global_step: A variable to count up, or None.
            var_list: The variables.
            gate_gradients: Accepted without effect.
            aggregation_method: Accepted without effect.
            colocate_gradients_with_ops: Accepted without effect.
            name: Accepted without effect.
            grad_loss: The gradient of the loss, None for 1.

        Raises:
            ValueError: ``var_list`` is not given.
        """
        del gate_gradients, aggregation_method, colocate_gradients_with_ops
        if isinstance(global_step, (list, tuple)):  # the order of Keras
            global_step, var_list = None, global_step
        del name
        variables = _named(var_list)
        if not _function.in_trace():
            result = super().minimize(loss, variables, grad_loss)
            _count(global_step)
            return result
        more = {} if grad_loss is None else {"grad_loss": grad_loss}
        pairs = self.compute_gradients(loss, var_list=variables, **more)
        return self.apply_gradients(pairs, global_step=global_step)

    def apply_gradients(  # type: ignore[override]
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Apply gradients to variables.

        Args:
            grads_and_vars: Pairs of a gradient and its variable.
            global_step: A variable to count up, or None.
            name: Accepted without effect.
            **kwargs: What Keras's optimizers take.
        """
        result = super().apply_gradients(grads_and_vars, name, **kwargs)
        _count(global_step)
        return result


def _named(var_list: Sequence[Any] | None) -> Sequence[Any]:
    if var_list is None:
        raise ValueError(
            "`var_list` must be given: without a graph nothing else says which "
            "variables to train. Pass model.trainable_variables."
        )
    return var_list


def _count(global_step: Any) -> None:
    if global_step is not None:
        global_step.assign_add(1)


class GradientDescentOptimizer(Optimizer, optimizers.SGD):
    """Gradient descent.

    Args:
        learning_rate: The rate.
        use_locking: Accepted without effect.
        name: A name.
    """

    def __init__(
        self,
        learning_rate: Any,
        use_locking: bool = False,
        name: str = "GradientDescent",
    ) -> None:
        del use_locking
        optimizers.SGD.__init__(self, learning_rate, name=name)


class MomentumOptimizer(Optimizer, optimizers.SGD):
    """Gradient descent with momentum.

    Args:
        learning_rate: The rate.
        momentum: In [0, 1].
        use_locking: Accepted without effect.
        name: A name.
        use_nesterov: Whether Nesterov's form is used.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: float,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        del use_locking
        optimizers.SGD.__init__(self, learning_rate, momentum, use_nesterov, name=name)


class AdamOptimizer(Optimizer, optimizers.Adam):
    """Adam.

    Args:
        learning_rate: The rate.
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        epsilon: Added to the root of the second moment.
        use_locking: Accepted without effect.
        name: A name.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        del use_locking
        optimizers.Adam.__init__(self, learning_rate, beta1, beta2, epsilon, name=name)


class RMSPropOptimizer(Optimizer, optimizers.RMSprop):
    """Gradients divided by the root of their running mean square.

    ``r = decay r + (1 - decay) g g``, from one on; ``v = momentum v + rate g / sqrt(r +
    epsilon); w -= v``. With ``centered`` the square of the mean is taken off ``r``.

    Args:
        learning_rate: The rate.
        decay: Of the running means.
        momentum: The part of the last change that is kept.
        epsilon: Keeps the division finite.
        use_locking: Accepted without effect.
        centered: Whether the variance is used.
        name: A name.
    """

    def __init__(
        self,
        learning_rate: Any,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        del use_locking
        optimizers.RMSprop.__init__(
            self, learning_rate, decay, momentum, epsilon, centered, name=name
        )

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self.add_slot(var, "rms", "ones")
            self.add_slot(var, "momentum")
            if self.centered:
                self.add_slot(var, "mg")

    def _resource_apply_dense(
        self, grad: Any, var: Any, apply_state: Any = None
    ) -> Any:
        rate = tf.cast(self._current_rate, grad.dtype)
        step = rate * grad / tf.sqrt(self._spread(grad, var) + self.epsilon)
        slot = self.get_slot(var, "momentum")
        change = self.momentum * slot.value() + step
        slot.assign(change)
        return var.assign_sub(change)
