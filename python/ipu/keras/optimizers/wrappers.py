# SPDX-License-Identifier: MIT
"""Optimizers around others: gradients averaged, changed, or accumulated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ipu import cross_replica_ops, tf
from ipu._loops.optimizer_state import StatePlaces
from ipu._loops.training_loop import Update, accumulate_here
from ipu._text.errors import FailedPreconditionError
from ipu._text.exports import export
from ipu._text.refusals import refuse_call
from ipu.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu.keras._types import Tensor
from ipu.keras.optimizers._aggregation import aggregated, is_aggregated
from ipu.keras.optimizers._wrapping import WrappingOptimizer
from ipu.keras.optimizers.als import MEMBERS, ALSOptimizer
from ipu.keras.optimizers.optimizer import Optimizer
from ipu.tf._functions import function

Pairs = Iterable[tuple[Any, Any]]


class IpuOptimizer(WrappingOptimizer):
    """The base of optimizers around one of ``keras.optimizers``.

    A subclass defines ``preprocess_gradients(grad, var)``, which gives what the wrapped
    optimizer gets for a gradient.

    Args:
        opt: The optimizer.

    Raises:
        TypeError: ``opt`` is not an optimizer of Keras.

    Example:
        >>> float(IpuOptimizer(keras.optimizers.SGD(0.5)).learning_rate)
        0.5
    """

    def __init__(self, opt: Optimizer, name: str | None = None) -> None:
        if not isinstance(opt, Optimizer):
            raise TypeError(
                f"{type(self).__name__} wraps one of keras.optimizers. Received: "
                f"{opt!r}."
            )
        super().__init__(opt, name or type(self).__name__)

    def preprocess_gradients(self, grad: Tensor, var: Any) -> Tensor:
        """Return what the wrapped optimizer gets for a gradient.

        Args:
            grad: The gradient.
            var: Its variable.
        """
        del var
        return grad

    def get_gradients(
        self, loss: Tensor, params: Any, grad_loss: Any = None
    ) -> list[Any]:
        """Return the gradients of a loss, in a trace, as the wrapped optimizer does."""
        return self._inner.get_gradients(loss, params, grad_loss)

    def compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        """Return the pairs that ``apply_gradients`` takes, as the wrapped one does."""
        return self._inner.compute_gradients(loss, var_list, grad_loss, tape)

    def _trace_apply(self, gradients: list[Any], variables: list[Any]) -> Any:
        changed = [
            self.preprocess_gradients(gradient, variable)
            for gradient, variable in zip(gradients, variables, strict=True)
        ]
        self._inner._rows = self._rows
        try:
            return self._inner._trace_apply(changed, variables)
        finally:
            self._inner._rows = {}


class CrossReplicaOptimizer(IpuOptimizer):
    """An optimizer that gets the mean of the replicas' gradients, and not their sum.

    Args:
        opt: The optimizer.

    Source: ``ipu.keras.optimizers.CrossReplicaOptimizer``.

    Example:
        >>> opt = CrossReplicaOptimizer(keras.optimizers.SGD(0.5))
        >>> v = tf.Variable(1.0)
        >>> _ = opt.apply_gradients([(tf.constant(2.0), v)])
        >>> float(v)
        0.0
    """

    def __init__(self, opt: Optimizer, name: str = "CrossReplicaOptimizer") -> None:
        super().__init__(opt, name)

    def apply_gradients(
        self,
        grads_and_vars: Pairs,
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        """Change variables by the replicas' mean gradients; see ``Optimizer``."""
        with aggregated():
            return super().apply_gradients(
                grads_and_vars, name, experimental_aggregate_gradients
            )

    def preprocess_gradients(self, grad: Tensor, var: Any) -> Tensor:
        """Return the mean over the replicas."""
        del var
        mean: Tensor = cross_replica_ops.cross_replica_mean(grad)
        return mean


class MapGradientOptimizer(IpuOptimizer):
    """An optimizer that gets a function of each gradient.

    Args:
        wrapped_optimizer: The optimizer.
        gradient_mapping_function: ``function(gradient, variable) -> gradient``.

    Source: ``ipu.keras.optimizers.MapGradientOptimizer``.

    Example:
        >>> def decay(gradient, variable):
        ...     return gradient + 0.01 * variable
        >>> opt = MapGradientOptimizer(keras.optimizers.SGD(1.0), decay)
        >>> v = tf.Variable(1.0)
        >>> _ = opt.apply_gradients([(tf.constant(0.0), v)])
        >>> round(float(v), 4)
        0.99
    """

    def __init__(
        self,
        wrapped_optimizer: Optimizer,
        gradient_mapping_function: Callable[[Tensor, Any], Tensor],
        name: str = "MapGradientOptimizer",
    ) -> None:
        super().__init__(wrapped_optimizer, name)
        self._map = gradient_mapping_function

    def preprocess_gradients(self, grad: Tensor, var: Any) -> Tensor:
        """Return what the function gives."""
        return self._map(grad, var)

    def get_config(self) -> dict[str, Any]:
        """Raise: a function is not plain data, so there is no configuration.

        Raises:
            NotImplementedError: Always.
        """
        refuse_call(f"{__name__}.MapGradientOptimizer.get_config")


class GradientAccumulationOptimizer(IpuOptimizer):
    """One update of the wrapped optimizer for several mini-batches.

    It is used in the body of a loop on the device: the gradients of
    ``num_mini_batches`` turns become one. With 1, the wrapped optimizer itself is made.

    Args:
        opt: The optimizer.
        num_mini_batches: Turns of an update; the loop's number of iterations, which is
            a Python int, must be a multiple.
        offload_weight_update_variables: Whether the state of ``opt`` lies in remote
            memory.
        replicated_optimizer_state_sharding: Whether each replica has a part of that
            state, and updates that part of the variables; None: where it is offloaded.
        dtype: Of the accumulators, and of the gradients that ``opt`` is given: None for
            the variable's, a dtype, or ``callable(variable) -> dtype``.
        reduction_method: How the gradients become one: a
            ``GradientAccumulationReductionMethod`` or its name.

    Raises:
        ValueError: ``num_mini_batches`` is not a positive number, or no such method.
        FailedPreconditionError: When gradients are applied: outside of such a loop,
            twice in it, or in one whose number of iterations is not a multiple.

    Example:
        >>> from ipu import keras, loops, tf
        >>> v = tf.Variable(0.0)
        >>> opt = GradientAccumulationOptimizer(keras.optimizers.SGD(1.0), 4)
        >>> def body(x):
        ...     opt.minimize(-x * v, var_list=[v])
        ...     return x + 1.0
        >>> @tf.function(jit_compile=True)
        ... def train():
        ...     return loops.repeat(8, body, [tf.constant(1.0)])
        >>> _ = train()
        >>> float(v), int(opt.iterations)  # 1 + 2 + 3 + 4, then 5 + 6 + 7 + 8
        (36.0, 2)
    """

    def __new__(
        cls, opt: Any = None, num_mini_batches: Any = None, *_: Any, **__: Any
    ) -> Any:
        """Return the optimizer itself for one mini-batch: there is nothing to
        accumulate."""
        is_one = type(num_mini_batches) is int and num_mini_batches == 1
        return opt if is_one else super().__new__(cls)

    def __init__(
        self,
        opt: Optimizer,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool | None = False,
        dtype: Any = None,
        reduction_method: Any = Method.SUM,
        name: str = "GradientAccumulationOptimizer",
    ) -> None:
        if opt is self:  # one of these, of one mini-batch: it is made already
            return
        super().__init__(opt, name)
        is_count = type(num_mini_batches) is int and num_mini_batches > 0
        if not is_count:
            raise ValueError(
                "num_mini_batches must be a positive number. Received: "
                f"{num_mini_batches!r}."
            )
        self._num_mini_batches = num_mini_batches
        self._dtype = dtype
        self._method = Method.parse(reduction_method)
        self._offload = offload_weight_update_variables
        self._share = replicated_optimizer_state_sharding
        self._is_first = False  # nobody else has seen to the replicas

    def apply_gradients(
        self,
        grads_and_vars: Pairs,
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        """Accumulate gradients; the wrapped optimizer gets them once an update.

        Args:
            grads_and_vars: Pairs of a gradient and a variable.
            experimental_aggregate_gradients: Whether accumulated gradients are added up
                over the replicas.

        Returns:
            The number of updates so far.

        Raises:
            FailedPreconditionError: As said above.
        """
        if not function.in_trace():
            raise FailedPreconditionError(
                f"Detected a gradient accumulation operation with "
                f"{self._num_mini_batches} number of mini batches which is not inside "
                "a training loop. Apply the gradients in the body of ipu.loops.repeat, "
                "in a @tf.function."
            )
        self._is_first = experimental_aggregate_gradients and not is_aggregated()
        try:
            with aggregated():
                return super().apply_gradients(grads_and_vars, name)
        finally:
            self._is_first = False

    def _trace_apply(self, gradients: list[Any], variables: list[Any]) -> Any:
        pairs = list(zip(gradients, variables, strict=True))
        self._accumulate(pairs, self._inner.apply_gradients)
        return self.iterations.value()

    def _accumulate(self, pairs: list[Any], apply: Callable[[Any], Any]) -> None:
        reduces = self._is_first

        def update(accumulated: Any) -> None:
            with aggregated(not reduces):
                apply(accumulated)
            weights = [variable for _, variable in pairs]
            StatePlaces.of(self._offload, self._share).settle(self._inner, weights)

        accumulate_here(
            Update(self._num_mini_batches, pairs, self._method, self._dtype, update)
        )

    def get_config(self) -> dict[str, Any]:
        if callable(self._dtype) and not isinstance(self._dtype, (type, tf.DType)):
            raise NotImplementedError(
                f"{type(self).__name__} has no configuration where `dtype` is a "
                "function, which is not plain data."
            )
        return {
            **super().get_config(),
            "num_mini_batches": self._num_mini_batches,
            "offload_weight_update_variables": self._offload,
            "replicated_optimizer_state_sharding": self._share,
            "dtype": None if self._dtype is None else tf.as_dtype(self._dtype).name,
            "reduction_method": self._method.name,
        }


class ALSGradientAccumulationOptimizer(GradientAccumulationOptimizer):
    """Accumulation around an ``ALSOptimizer``, which sees accumulated gradients.

    Args:
        als_optimizer: An ``ALSOptimizer``.

    The other arguments are those of :class:`GradientAccumulationOptimizer`. The
    histogram counts accumulators of float16 alone. What the ``ALSOptimizer`` knows
    (``loss_scaling_factor``, ``update_frequency``, ...) can be read here, too, and set
    there: it is ``als_optimizer``.

    Raises:
        ValueError: ``als_optimizer`` is not an ``ALSOptimizer``.

    Example:
        >>> als = keras.optimizers.ALSOptimizer(keras.optimizers.SGD(0.1), 4)
        >>> opt = ALSGradientAccumulationOptimizer(als, 8)
        >>> float(opt.get_scaled_loss(2.0))
        8.0
    """

    supports_captured_grads = True
    _argument = "als_optimizer"
    _inner: ALSOptimizer

    def __new__(
        cls, als_optimizer: Any = None, num_mini_batches: Any = None, *_: Any, **__: Any
    ) -> Any:
        """Return the optimizer itself for one mini-batch: there is nothing to
        accumulate."""
        is_copy = als_optimizer is None and num_mini_batches is None
        if not is_copy and not isinstance(als_optimizer, ALSOptimizer):
            raise ValueError(
                "ALSGradientAccumulationOptimizer can only be used with instances of "
                f"ALSOptimizer. Received: {als_optimizer!r}."
            )
        return super().__new__(cls, als_optimizer, num_mini_batches)

    def __init__(
        self,
        als_optimizer: ALSOptimizer,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool | None = False,
        dtype: Any = None,
        reduction_method: Any = Method.SUM,
        name: str = "ALSGradientAccumulationOptimizer",
    ) -> None:
        self._captured: list[tuple[str, Tensor]] = []
        super().__init__(
            als_optimizer,
            num_mini_batches,
            offload_weight_update_variables,
            replicated_optimizer_state_sharding,
            dtype,
            reduction_method,
            name,
        )

    @property
    def als_optimizer(self) -> ALSOptimizer:
        """The ``ALSOptimizer``."""
        return self._inner

    def __getattr__(self, name: str) -> Any:
        if name in MEMBERS and "_inner" in self.__dict__:
            return getattr(self._inner, name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in MEMBERS:
            raise AttributeError(
                f"{name} is the ALSOptimizer's. Set it there: "
                f"optimizer.als_optimizer.{name} = {value!r}."
            )
        super().__setattr__(name, value)

    def get_scaled_loss(self, loss: Any) -> Any:
        """Multiply a loss by the factor; see ``ALSOptimizer``."""
        return self._inner.get_scaled_loss(loss)

    def apply_gradients(  # type: ignore[override]
        self,
        grads_and_vars: Pairs,
        captured_grads: Mapping[str, Any] | None = None,
        global_step: Any = None,
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        """Accumulate gradients; the ``ALSOptimizer`` gets them once an update.

        Args:
            grads_and_vars: Pairs of a gradient and a variable.
            captured_grads: More gradients to count, which are accumulated too.
            global_step: A variable to count up by one in each mini-batch, or None.
            experimental_aggregate_gradients: As of any optimizer.

        Returns:
            The number of updates so far.
        """
        self._captured = [
            (f"{tag}_{number}", gradient)
            for tag, found in (captured_grads or {}).items()
            for number, gradient in enumerate(tf.nest.flatten(found))
        ]
        try:
            result = super().apply_gradients(
                grads_and_vars, name, experimental_aggregate_gradients
            )
        finally:
            self._captured = []
        if global_step is not None:
            global_step.assign_add(1)
        return result

    def _trace_apply(self, gradients: list[Any], variables: list[Any]) -> Any:
        captured = self._captured
        count = len(variables)

        def apply(accumulated: Any) -> Any:
            found = zip(captured, accumulated[count:], strict=True)
            more = {tag: gradient for (tag, _), (gradient, _) in found}
            return self._inner.apply_gradients(accumulated[:count], more)

        pairs = list(zip(gradients, variables, strict=True))
        self._accumulate([*pairs, *((g, g) for _, g in captured)], apply)
        return self.iterations.value()


export(__name__)
