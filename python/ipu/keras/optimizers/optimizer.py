# SPDX-License-Identifier: MIT
"""``ipu.keras.optimizers.Optimizer``: the base class of optimizers.

The learning rate and the step number are device variables: assigning a rate needs no
new program, and a schedule follows the steps inside an execution. Other numbers, such
as the momentum, are part of the program; changing one makes models trace again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ipu import tf
from ipu.keras import _names
from ipu.keras._types import Tensor
from ipu.keras.optimizers.schedules import LearningRateSchedule
from ipu.tf import _function
from ipu.tf._tracing import init_scope

__all__ = ["Optimizer"]

_KEYWORDS = (
    "clipnorm",
    "clipvalue",
    "decay",
    "global_clipnorm",
    "gradient_transformers",
    "lr",
)
_EAGER_PROGRAMS = 16  # small programs of calls outside of functions that are kept


class Optimizer:
    """Base class: a subclass defines ``_resource_apply_dense(grad, var)``.

    Args:
        learning_rate: A number, a ``LearningRateSchedule``, or a callable without
            arguments.
        name: A name.
        **kwargs: ``clipnorm`` (largest norm of each gradient), ``global_clipnorm``
            (of all together), ``clipvalue`` (largest magnitude of an element),
            ``decay`` (``rate / (1 + decay * iterations)``), ``lr`` (the learning rate),
            ``gradient_transformers`` (functions from pairs of gradient and variable to
            such pairs, applied in order).

    Raises:
        TypeError: An unknown keyword.
        ValueError: A negative rate or clip.

    Source: ``tf.keras.optimizers.Optimizer`` of Keras 2.6.
    """

    def __init__(
        self, learning_rate: Any = 0.001, name: str | None = None, **kwargs: Any
    ) -> None:
        if isinstance(learning_rate, str) and name is None:
            # subclasses written for Keras give the base class a name alone
            learning_rate, name = 0.001, learning_rate
        for key, value in kwargs.items():
            if key not in _KEYWORDS:
                raise TypeError(
                    f"Unexpected keyword argument passed to optimizer: {key!r}."
                    f"{_names.nearest(key, (*_KEYWORDS, 'learning_rate', 'name'))}"
                )
            if key == "gradient_transformers":
                continue
            if value is not None and not callable(value) and value < 0:
                raise ValueError(f"Expected {key} >= 0. Received: {key}={value!r}.")
        self._name = name or type(self).__name__
        self.gradient_transformers = list(kwargs.get("gradient_transformers") or ())
        self.clipnorm = kwargs.get("clipnorm")
        self.clipvalue = kwargs.get("clipvalue")
        self.global_clipnorm = kwargs.get("global_clipnorm")
        self._decay = float(kwargs.get("decay") or 0.0)
        if self.clipnorm is not None and self.global_clipnorm is not None:
            raise ValueError(
                "At most one of `clipnorm` and `global_clipnorm` may be set. Received: "
                f"clipnorm={self.clipnorm}, global_clipnorm={self.global_clipnorm}."
            )
        self._rate: Any = None
        self._rate_variable: Any = None
        self._iterations: Any = None
        self._current_rate: Any = None
        self._current_step: Any = None
        self._version = 0  # changes with whatever is baked into a program
        self._slots: dict[int, dict[str, Any]] = {}
        self._slot_order: list[Any] = []
        self._slot_owners: list[Any] = []  # keeps ids of owners taken
        self._eager: dict[Any, Any] = {}
        self.learning_rate = kwargs.get("lr", learning_rate)

    @property
    def name(self) -> str:
        """The name of the optimizer."""
        return self._name

    # --- learning rate and step number --------------------------------------------

    @property
    def learning_rate(self) -> Any:
        """The rate: a float32 ``tf.Variable``, or the schedule.

        Assign a number at any time; models do not trace again. Assigning a schedule, or
        a number in place of one, does.
        """
        if isinstance(self._rate, LearningRateSchedule):
            return self._rate
        if self._rate_variable is None:
            with init_scope():
                self._rate_variable = tf.Variable(
                    np.float32(self._rate),
                    trainable=False,
                    name=f"{self._name}/learning_rate",
                    dtype="float32",
                )
        return self._rate_variable

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        was_schedule = isinstance(self._rate, LearningRateSchedule)
        if isinstance(value, LearningRateSchedule):
            self._rate = value
            self._version += 1
            return
        if callable(value) and not isinstance(value, tf.Variable):
            value = value()
        number = float(value.numpy()) if hasattr(value, "numpy") else float(value)
        if number < 0:
            raise ValueError(
                f"Expected learning_rate >= 0. Received: learning_rate={number}."
            )
        self._rate = number
        if self._rate_variable is not None:
            self._rate_variable.assign(np.float32(number))
        if was_schedule:
            self._version += 1

    lr = learning_rate

    @property
    def iterations(self) -> Any:
        """How often weights were updated: an int32 ``tf.Variable``."""
        if self._iterations is None:
            with init_scope():
                self._iterations = tf.Variable(
                    np.int32(0),
                    trainable=False,
                    name=f"{self._name}/iter",
                    dtype="int32",
                )
        return self._iterations

    def _decayed_rate(self) -> Tensor:
        """The rate of this step, a float32 scalar; in a trace."""
        if isinstance(self._rate, LearningRateSchedule):
            rate = self._rate(self.iterations.value())
        else:
            rate = self.learning_rate.value()
        if self._decay:
            done = tf.cast(self.iterations.value(), "float32")
            rate = rate / (1.0 + self._decay * done)
        return rate

    def _decayed_lr(self, var_dtype: Any = "float32") -> Tensor:
        """The rate of this step in a dtype, as subclasses for Keras ask for it."""
        rate = self._current_rate
        return tf.cast(self._decayed_rate() if rate is None else rate, var_dtype)

    def _set_hyper(self, name: str, value: Any) -> None:
        """Keep a number of a subclass for Keras; ``learning_rate`` is the rate."""
        if name == "learning_rate":
            self.learning_rate = value
        else:
            self._set_baked(f"_hyper_{name}", value)

    def _get_hyper(self, name: str, dtype: Any = None) -> Any:
        """Give what ``_set_hyper`` kept, as a tensor where a dtype is given."""
        if name == "learning_rate":
            value = self.learning_rate
        else:
            value = self.__dict__[f"_hyper_{name}"]
        value = value() if callable(value) else value
        return value if dtype is None else tf.cast(value, dtype)

    def _set_baked(self, name: str, value: Any) -> None:
        """Set a number that is part of programs."""
        if name in self.__dict__ and self.__dict__[name] != value:
            self._version += 1
        self.__dict__[name] = value

    # --- slots ----------------------------------------------------------------------

    def add_slot(self, var: Any, slot_name: str, initializer: Any = "zeros") -> Any:
        """Create a variable beside a weight, such as its momentum.

        Args:
            var: The weight.
            slot_name: A name for ``get_slot``.
            initializer: ``"zeros"``, or any initializer.

        Returns:
            The variable; the existing one where there is one.
        """
        slots = self._slots.get(id(var))
        if slots is None:
            slots = self._slots[id(var)] = {}
            self._slot_owners.append(var)
        if slot_name not in slots:
            from ipu.keras import initializers

            function = initializers.get(initializer)
            assert function is not None
            stem = str(var.name).split(":")[0]
            with init_scope():
                slots[slot_name] = tf.Variable(
                    function(tuple(var.shape), dtype=var.dtype),
                    trainable=False,
                    name=f"{self._name}/{stem}/{slot_name}",
                    dtype=var.dtype,
                )
            self._slot_order.append(slots[slot_name])
        return slots[slot_name]

    def get_slot(self, var: Any, slot_name: str) -> Any:
        """Give the variable that ``add_slot`` made.

        Raises:
            ValueError: There is none of that name.
        """
        slots = self._slots.get(id(var), {})
        if slot_name not in slots:
            raise ValueError(
                f"There is no slot {slot_name!r} of variable {var.name!r}."
                f"{_names.nearest(slot_name, slots)}"
            )
        return slots[slot_name]

    def get_slot_names(self) -> list[str]:
        """Give the names of the slots."""
        return list(dict.fromkeys(name for s in self._slots.values() for name in s))

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        """Create the slots of weights; a subclass calls ``add_slot``."""

    def _create_all_weights(self, var_list: Sequence[Any]) -> None:
        """Create everything that an update needs, before a program is traced."""
        _ = self.iterations, self.learning_rate
        self._create_slots(var_list)

    def _made_variables(self) -> list[Any]:
        """The variables that exist already."""
        single = [self._iterations, self._rate_variable]
        return [v for v in single if v is not None] + self._slot_order

    @property
    def weights(self) -> list[Any]:
        """The step number and all slots, in the order they were made."""
        return [self.iterations, *self._slot_order]

    def variables(self) -> list[Any]:
        """The same as ``weights``."""
        return self.weights

    def get_weights(self) -> list[np.ndarray[Any, Any]]:
        """Copy the step number and all slots to the host."""
        return [variable.numpy() for variable in self.weights]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Set the step number and all slots.

        Args:
            weights: What ``get_weights`` gave.

        Raises:
            ValueError: Their number or a shape differs; then nothing is changed.
        """
        variables = self.weights
        arrays = [np.asarray(weight) for weight in weights]
        if [a.shape for a in arrays] != [tuple(v.shape) for v in variables]:
            raise ValueError(
                f"You called `set_weights(weights)` on optimizer {self._name!r} with "
                f"{len(arrays)} weights of shapes {[a.shape for a in arrays]}, but it "
                f"expects {len(variables)} of {[tuple(v.shape) for v in variables]}."
            )
        for variable, array in zip(variables, arrays, strict=True):
            variable.assign(array.astype(variable.dtype.as_numpy_dtype, copy=False))

    # --- updates --------------------------------------------------------------------

    def minimize(
        self,
        loss: Any,
        var_list: Any,
        grad_loss: Any = None,
        name: str | None = None,
        tape: Any = None,
    ) -> Any:
        """Make a loss smaller: compute gradients and apply them.

        Args:
            loss: A scalar tensor of the open trace, or a callable that gives one.
            var_list: The variables to change, or a callable that gives them.
            grad_loss: The gradient of the loss, None for 1.
            name: Ignored.
            tape: A ``GradientTape`` that recorded the loss; None where a trace is open.

        Returns:
            What ``apply_gradients`` gives.
        """
        del name
        variables = list(var_list() if callable(var_list) else var_list)
        if tape is None and not _function.in_trace():
            if not callable(loss):
                raise ValueError(
                    "`tape` is required when a Tensor loss is passed outside of a "
                    f"traced function. Received: loss={loss!r}. Pass a callable."
                )
            self._create_all_weights(variables)
            return self._run_once(
                ("minimize", loss), self._trace_minimize, loss, variables
            )
        return self._trace_minimize(loss, variables, grad_loss, tape)

    def _trace_minimize(
        self,
        loss: Any,
        variables: list[Any],
        grad_loss: Any = None,
        tape: Any = None,
    ) -> Any:
        return self.apply_gradients(
            self._compute_gradients(loss, variables, grad_loss, tape)
        )

    def get_gradients(
        self, loss: Tensor, params: Sequence[Any], grad_loss: Any = None
    ) -> list[Any]:
        """Give the gradients of a loss, in a trace.

        Args:
            loss: A tensor of the open trace.
            params: Variables.
            grad_loss: The gradient of the loss, None for 1.

        Returns:
            A tensor for each variable, None where the loss does not depend on it.
        """
        return list(tf.gradients(loss, list(params), grad_loss))

    def compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        """Give the pairs that ``apply_gradients`` takes.

        Args:
            loss: A scalar tensor of the open trace, or a callable that gives one.
            var_list: The variables, or a callable that gives them.
            grad_loss: The gradient of the loss, None for 1.
            tape: A ``GradientTape`` that recorded the loss; None where a trace is open.

        Returns:
            A pair of gradient and variable for each variable.
        """
        variables = list(var_list() if callable(var_list) else var_list)
        value = loss() if callable(loss) else loss
        if tape is not None:
            gradients = tape.gradient(value, variables, grad_loss)
        else:
            gradients = self.get_gradients(value, variables, grad_loss)
        return list(zip(gradients, variables, strict=True))

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        """The name of ``compute_gradients`` in Keras 2.6."""
        return self.compute_gradients(loss, var_list, grad_loss, tape)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        """Change variables by their gradients.

        Args:
            grads_and_vars: Pairs of a gradient and a variable; pairs whose gradient is
                None are left out with a warning.
            name: Ignored.
            experimental_aggregate_gradients: Ignored while there is one replica.

        Returns:
            The step number after the update.

        Raises:
            ValueError: There is no gradient at all.
        """
        del name, experimental_aggregate_gradients
        pairs = list(grads_and_vars)
        kept = [(grad, var) for grad, var in pairs if grad is not None]
        missing = [str(var.name) for grad, var in pairs if grad is None]
        if not kept:
            raise ValueError(
                f"No gradients provided for any variable: {missing}. The loss does not "
                "depend on the variables."
            )
        if missing:
            warnings.warn(
                f"Gradients do not exist for variables {missing} when minimizing the "
                "loss.",
                stacklevel=2,
            )
        gradients = [grad for grad, _ in kept]
        variables = [var for _, var in kept]
        self._create_all_weights(variables)
        if not _function.in_trace():
            return self._run_once(("apply",), self._trace_apply, gradients, variables)
        return self._trace_apply(gradients, variables)

    def _trace_apply(self, gradients: list[Any], variables: list[Any]) -> Any:
        gradients = self._clipped(gradients)
        pairs = list(zip(gradients, variables, strict=True))
        for transform in self.gradient_transformers:
            pairs = list(transform(pairs))
        self._current_rate = self._decayed_rate()
        self._current_step = self.iterations.value() + tf.constant(1, dtype="int32")
        try:
            for gradient, variable in pairs:
                self._resource_apply_dense(gradient, variable)
                constraint = getattr(variable, "constraint", None)
                if constraint is not None:
                    variable.assign(constraint(variable.value()))
        finally:
            self._current_rate = self._current_step = None
        self.iterations.assign_add(tf.constant(1, dtype="int32"))
        return self.iterations.value()

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        """Change one variable.

        ``self._current_rate`` is the rate of this step, and ``self._current_step`` its
        number as an int32 scalar, from 1.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define _resource_apply_dense(grad, var)."
        )

    def _run_once(
        self, key: tuple[Any, ...], function: Callable[..., Any], *args: Any
    ) -> Any:
        """Run an update outside of a trace, as a small program."""
        variables = args[1]
        full_key = (*key, self._version, tuple(id(v) for v in variables))
        program = self._eager.get(full_key)
        if program is None:
            if key[0] == "minimize":
                program = _function.DeviceFunction(lambda: function(*args))
            else:
                program = _function.DeviceFunction(
                    lambda *gradients: function(list(gradients), variables)
                )
            if len(self._eager) == _EAGER_PROGRAMS:
                self._eager.pop(next(iter(self._eager)))
            self._eager[full_key] = program
        return program() if key[0] == "minimize" else program(*args[0])

    def _clipped(self, gradients: list[Any]) -> list[Any]:
        if self.clipvalue is not None:
            limit = float(self.clipvalue)
            gradients = [
                tf.minimum(
                    tf.maximum(g, tf.constant(-limit, dtype=g.dtype)),
                    tf.constant(limit, dtype=g.dtype),
                )
                for g in gradients
            ]
        if self.clipnorm is not None:
            gradients = [
                g * _shrink(tf.reduce_sum(tf.square(g)), self.clipnorm)
                for g in gradients
            ]
        if self.global_clipnorm is not None:
            squares = [tf.reduce_sum(tf.square(g)) for g in gradients]
            total = squares[0]
            for square in squares[1:]:
                total = total + square
            factor = _shrink(total, self.global_clipnorm)
            gradients = [g * factor for g in gradients]
        return gradients

    # --- configuration --------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal optimizer."""
        config: dict[str, Any] = {"name": self._name}
        rate = self._rate
        if (
            not isinstance(rate, LearningRateSchedule)
            and self._rate_variable is not None
        ):
            rate = float(self._rate_variable.numpy())
        config["learning_rate"] = rate
        for key in ("clipnorm", "clipvalue", "global_clipnorm"):
            if getattr(self, key) is not None:
                config[key] = getattr(self, key)
        if self._decay:
            config["decay"] = self._decay
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Optimizer:
        """Make one from what ``get_config`` gave."""
        return cls(**config)


def _shrink(square: Tensor, limit: float) -> Tensor:
    """The factor that brings a norm down to ``limit``, at most 1."""
    bound = tf.constant(float(limit), dtype=square.dtype)
    return bound / tf.maximum(tf.sqrt(square), bound)
