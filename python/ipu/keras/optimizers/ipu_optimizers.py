# SPDX-License-Identifier: MIT
"""Optimizers whose state, and whose arithmetic, have dtypes of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu.keras._types import Tensor
from ipu.keras.optimizers.adam import Adam
from ipu.keras.optimizers.optimizer import Optimizer
from ipu.keras.optimizers.sgd import SGD

__all__ = ["AdamIpuOptimizer", "IpuOptimizerBase", "SGDIpuOptimizer"]


def _named(dtype: Any, argument: str) -> str | None:
    """Return a dtype's name; None where it is the variable's."""
    if dtype is None:
        return None
    try:
        name = tf.as_dtype(dtype).name
    except TypeError:
        name = ""
    if name not in ("float16", "float32"):
        raise ValueError(
            f"`{argument}` must be float16 or float32. Received: {dtype!r}."
        )
    return name


class IpuOptimizerBase(Optimizer):
    """The base of optimizers that compute in dtypes of their own.

    Args:
        *args: The arguments of the optimizer that is the other base class.
        optimizer_compute_precisions: The dtype of each stage of the arithmetic, float16
            or float32: a tuple. The operands of an update are cast to it, and each
            result to the dtype of the variable that it goes to.
        outline_apply_gradients: Whether updates share their code on the hardware. It
            changes no number, and nothing here.
        outline_apply_gradients_kwargs: Of that; without effect, too.
        **kwargs: The keywords of that optimizer.

    Raises:
        ValueError: Another number of dtypes, or others.

    Source: ``ipu_tensorflow_addons.keras.optimizers.IpuOptimizerBase``.

    Example:
        >>> opt = SGDIpuOptimizer(0.1, optimizer_compute_precisions=("float16",))
        >>> opt.opt_dtypes
        ('float16',)
    """

    _stages = 1

    def __init__(
        self,
        *args: Any,
        optimizer_compute_precisions: Sequence[Any] | None = None,
        outline_apply_gradients: bool = False,
        outline_apply_gradients_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        given = optimizer_compute_precisions
        if given is None:
            given = ("float32",) * self._stages
        argument = "optimizer_compute_precisions"
        if not isinstance(given, (tuple, list)) or len(given) != self._stages:
            raise ValueError(
                f"`{argument}` of {type(self).__name__} must be a tuple of "
                f"{self._stages} dtype(s). Received: {given!r}."
            )
        self.opt_dtypes = tuple(_named(dtype, argument) or "float32" for dtype in given)
        self._optimizer_compute_precisions = self.opt_dtypes
        self.outline_apply_gradients = bool(outline_apply_gradients)
        self.outline_apply_gradients_kwargs = dict(outline_apply_gradients_kwargs or {})

    def add_slot_with_dtype(
        self, var: Any, slot_name: str, dtype: Any, initializer: Any = "zeros"
    ) -> Any:
        """Create a variable beside a weight, as ``add_slot`` does.

        Args:
            var: The weight.
            slot_name: A name for ``get_slot``.
            dtype: Of the variable; None for the weight's.
            initializer: ``"zeros"``, or any initializer.

        Returns:
            The variable; the existing one where there is one.
        """
        return self.add_slot(var, slot_name, initializer, dtype)

    def _stage(self, value: Any, stage: int = 0) -> Tensor:
        """Return a value in the dtype of a stage of the arithmetic."""
        return tf.cast(value, self.opt_dtypes[stage])

    def _moments(
        self, grad: Tensor, var: Any, decays: tuple[float, float], debiasing: bool
    ) -> tuple[Tensor, Tensor]:
        """Move the running moments of a gradient on.

        Args:
            grad: The gradient.
            var: Its variable, which has slots m and v.
            decays: Of the first and the second moment.
            debiasing: Whether what is given back is corrected for their first values.

        Returns:
            The first and the second moment, in the dtype of the first stage.
        """
        g = self._stage(grad)
        found = []
        for name, decay, new in (
            ("m", decays[0], g),
            ("v", decays[1], tf.square(g)),
        ):
            slot = self.get_slot(var, name)
            moment = self._stage(slot.value()) * decay + new * (1.0 - decay)
            slot.assign(tf.cast(moment, slot.dtype))
            if debiasing:
                step = tf.cast(self._current_step, "float32")
                moment = moment / self._stage(1.0 - tf.pow(decay, step))
            found.append(moment)
        return found[0], found[1]


class SGDIpuOptimizer(IpuOptimizerBase, SGD):
    """Gradient descent whose momentum has a dtype of its own.

    ``v = momentum * v - rate * g; w += v``, computed in the dtype of
    ``optimizer_compute_precisions``; what is added to w is cast to its dtype first.
    Without momentum it is :class:`SGD`.

    Args:
        momentum: In [0, 1].
        nesterov: Whether Nesterov's form is used.
        momentum_accum_dtype: Of the momentum's variable; None for the weight's.
        **kwargs: The arguments of :class:`IpuOptimizerBase` and ``Optimizer``.

    Raises:
        ValueError: A number or a dtype that is not as said.

    Source: ``ipu_tensorflow_addons.keras.optimizers.SGDIpuOptimizer``.

    Example:
        >>> opt = SGDIpuOptimizer(0.5, momentum=0.9, momentum_accum_dtype="float32")
        >>> v = tf.Variable([1.0], dtype="float16")
        >>> _ = opt.apply_gradients([(tf.constant([1.0], tf.float16), v)])
        >>> opt.get_slot(v, "momentum").dtype.name
        'float32'
    """

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        momentum_accum_dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, momentum, nesterov, name, **kwargs)
        self.momentum_accum_dtype = _named(momentum_accum_dtype, "momentum_accum_dtype")

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list if self.momentum else ():
            self.add_slot(var, "momentum", dtype=self.momentum_accum_dtype)

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        if not self.momentum:
            return super()._resource_apply_dense(
                tf.cast(grad, var.dtype), var, apply_state
            )
        slot = self.get_slot(var, "momentum")
        move = self._stage(self._current_rate) * self._stage(grad)
        velocity = self._stage(slot.value()) * self.momentum - move
        change = velocity * self.momentum - move if self.nesterov else velocity
        slot.assign(tf.cast(velocity, slot.dtype))
        return var.assign_add(tf.cast(change, var.dtype))


class AdamIpuOptimizer(IpuOptimizerBase, Adam):
    """Adam whose moments have dtypes of their own.

    With m and v corrected for their first values (``debiasing``):
    ``w -= rate * m / (sqrt(v) + epsilon)``, computed in the dtype of
    ``optimizer_compute_precisions``; what is taken from w is cast to its dtype first.

    Args:
        beta_1, beta_2: Decays of the first and the second moment, in [0, 1).
        amsgrad: Whether the largest second moment so far is used.
        m_dtype: Of the first moment's variable; None for the weight's.
        v_dtype: Of the second moment's.
        vhat_dtype: Of the largest second moment's.
        debiasing: Whether moments are corrected for having begun with 0.
        **kwargs: The arguments of :class:`IpuOptimizerBase` and ``Optimizer``.

    Raises:
        ValueError: A number or a dtype that is not as said.

    Source: ``ipu_tensorflow_addons.keras.optimizers.AdamIpuOptimizer``.

    Example:
        >>> opt = AdamIpuOptimizer(0.5, m_dtype="float16", v_dtype="float32")
        >>> v = tf.Variable([1.0], dtype="float16")
        >>> _ = opt.apply_gradients([(tf.constant([1.0], tf.float16), v)])
        >>> [slot.dtype.name for slot in opt.weights[1:]], float(v[0])
        (['float16', 'float32'], 0.5)
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "Adam",
        m_dtype: Any = None,
        v_dtype: Any = None,
        vhat_dtype: Any = None,
        debiasing: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            learning_rate, beta_1, beta_2, epsilon, amsgrad, name, **kwargs
        )
        self.m_dtype = _named(m_dtype, "m_dtype")
        self.v_dtype = _named(v_dtype, "v_dtype")
        self.vhat_dtype = _named(vhat_dtype, "vhat_dtype")
        self.debiasing = bool(debiasing)

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        decays = self.beta_1, self.beta_2
        first, second = self._moments(grad, var, decays, self.debiasing)
        if self.amsgrad:
            largest = self.get_slot(var, "vhat")
            second = tf.maximum(self._stage(largest.value()), second)
            largest.assign(tf.cast(second, largest.dtype))
        change = first / (tf.sqrt(second) + self._stage(self.epsilon))
        change = self._stage(self._current_rate) * change
        return var.assign_sub(tf.cast(change, var.dtype))
