# SPDX-License-Identifier: MIT
"""``ipu.keras.optimizers.Optimizer``: the base class of optimizers.

The learning rate and the step number are device variables: assigning a rate needs no
new program, and a schedule follows the steps inside an execution. Other numbers, such
as the momentum, are part of the program; changing one makes models trace again.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from ipu import _core, tf
from ipu._device.placement import current_device, on_host
from ipu._device.thread_state import here
from ipu._text.tracebacks import boundaries
from ipu._text.user_warnings import warn_user
from ipu.keras import _names, _serialization
from ipu.keras._arguments import Configured, arguments_of, config_of
from ipu.keras._types import Tensor
from ipu.keras.optimizers import schedules
from ipu.keras.optimizers._aggregation import is_aggregated
from ipu.keras.optimizers._current import CurrentRate, unwrapped
from ipu.keras.optimizers.schedules import LearningRateSchedule
from ipu.ops import cross_replica_ops
from ipu.tf._functions import function, restores
from ipu.tf._functions.tracing import init_scope
from ipu.tf._gradients import lookups, slices as _slices
from ipu.tf._graph.reached import tied
from ipu.tf._tensor.notes import note
from ipu.tf.autograph import convert_call

__all__ = ["Optimizer"]

_KEYWORDS = (
    "clipnorm",
    "clipvalue",
    "decay",
    "ema_momentum",
    "ema_overwrite_frequency",
    "global_clipnorm",
    "gradient_accumulation_steps",
    "gradient_transformers",
    "loss_scale_factor",
    "lr",
    "use_ema",
    "weight_decay",
)
_IN_CONFIG = (
    *("clipnorm", "clipvalue", "ema_overwrite_frequency", "global_clipnorm"),
    *("gradient_accumulation_steps", "loss_scale_factor"),
)
_EAGER_PROGRAMS = 16  # small programs of calls outside of functions that are kept


class Baked:
    """A number that is part of programs: another one makes models trace again.

    Args:
        doc: Its description.
        checked: Gives the number of what was assigned.
    """

    def __init__(self, doc: str, checked: Callable[[Any], float] = float) -> None:
        self.__doc__, self._checked = doc, checked

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    @overload
    def __get__(self, instance: None, owner: type) -> Baked: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> float: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else instance.__dict__[self._name]

    def __set__(self, instance: Any, value: Any) -> None:
        instance._set_baked(self._name, self._checked(value))


def checked_epsilon(value: float | None) -> float:
    """Return what keeps a division finite: Keras's own number for None."""
    return float(1e-7 if value is None else value)


def _checked_or_none(
    given: dict[str, Any], key: str, kind: type[int] | type[float]
) -> Any:
    """Return a number above 0 among keywords, or None."""
    value = given.get(key)
    if value is None:
        return None
    is_number = isinstance(value, (int, np.integer)) or (
        kind is float and isinstance(value, (float, np.floating))
    )
    if not is_number or isinstance(value, bool) or value <= 0:
        what = "an integer" if kind is int else "a number"
        raise ValueError(
            f"`{key}` must be {what} above 0, or None. Received: {key}={value!r}."
        )
    return kind(value)


def checked_decays(beta_1: float, beta_2: float) -> tuple[float, float]:
    """Return the decays of two moments.

    Raises:
        ValueError: One is not in [0, 1).
    """
    for key, value in (("beta_1", beta_1), ("beta_2", beta_2)):
        if not 0 <= value < 1:
            raise ValueError(f"`{key}` must be in [0, 1). Received: {value!r}.")
    return float(beta_1), float(beta_2)


class Variables(list[Any]):
    """Variables: an attribute in Keras 3, a method in Keras 2."""

    def __call__(self) -> list[Any]:
        return self


@boundaries("minimize", "apply_gradients", "compute_gradients")
class Optimizer(Configured):
    """Base class: a subclass defines ``_resource_apply_dense`` or ``update_step``.

    Args:
        learning_rate: A number, a ``LearningRateSchedule``, a callable without
            arguments, or a tensor of the function that makes the optimizer.
        name: A name.
        **kwargs: ``clipnorm`` (largest norm of each gradient), ``global_clipnorm``
            (of all together), ``clipvalue`` (largest magnitude of an element),
            ``decay`` (``rate / (1 + decay * iterations)``), ``lr`` (the learning rate),
            ``gradient_transformers`` (functions from pairs of gradient and variable to
            such pairs, applied in order).
            ``weight_decay``: before an update, ``w -= w * weight_decay * rate``.
            ``gradient_accumulation_steps``: the mean gradient of so many calls, two or
            more, makes one update.
            ``loss_scale_factor``: ``minimize`` and ``scale_loss`` multiply the loss by
            it, and an update divides gradients by it.
            ``use_ema``: keep a moving average of each weight,
            ``a = ema_momentum * a + (1 - ema_momentum) * w`` after each call, with
            ``ema_momentum`` 0.99 by default. Weights become their averages every
            ``ema_overwrite_frequency`` updates where that is given, and when ``fit``
            ends.

    Raises:
        TypeError: An unknown keyword.
        ValueError: A negative rate or clip, or another number that is not as said.

    Example:
        >>> class SignDescent(Optimizer):
        ...     def _resource_apply_dense(self, grad, var):
        ...         var.assign_sub(self.learning_rate * tf.sign(grad))
        ...
        >>> w = tf.Variable([1.0, 1.0])
        >>> _ = SignDescent(0.25).apply_gradients([(tf.constant([9.0, -0.1]), w)])
        >>> w.numpy().tolist()
        [0.75, 1.25]
    """

    _is_optimizer_v2 = True  # pipelines ask

    def __init__(
        self, learning_rate: Any = 0.001, name: str | None = None, **kwargs: Any
    ) -> None:
        if isinstance(learning_rate, str) and name is None:
            # subclasses written for Keras give the base class a name alone
            learning_rate, name = 0.001, learning_rate
        for key, value in kwargs.items():
            if key not in _KEYWORDS:
                own = inspect.signature(type(self)).parameters
                known = (*_KEYWORDS, "learning_rate", "name", *own)
                raise TypeError(
                    f"Unexpected keyword argument passed to optimizer: {key!r}."
                    f"{_names.nearest(key, set(known) - {'kwargs', 'self'})}"
                )
            if key in ("gradient_transformers", "use_ema"):
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
        self._version = 0  # changes with whatever is baked into a program
        self.loss_scale_factor = _checked_or_none(kwargs, "loss_scale_factor", float)
        steps = _checked_or_none(kwargs, "gradient_accumulation_steps", int)
        if steps is not None and steps < 2:
            raise ValueError(
                "`gradient_accumulation_steps` must be an integer >= 2, or None for an "
                f"update in each step. Received: gradient_accumulation_steps={steps}."
            )
        self.gradient_accumulation_steps = steps
        self._accumulated: Any = None  # how many gradients are
        self.use_ema = bool(kwargs.get("use_ema"))
        self.ema_momentum = float(kwargs.get("ema_momentum", 0.99))
        if self.ema_momentum > 1:
            raise ValueError(
                "`ema_momentum` must be in the range [0, 1]. Received: ema_momentum="
                f"{self.ema_momentum}."
            )
        self.ema_overwrite_frequency = _checked_or_none(
            kwargs, "ema_overwrite_frequency", int
        )
        # a subclass of before may decay weights by itself, by the same attribute
        self._decays_weights = kwargs.get("weight_decay") is not None
        self.weight_decay = kwargs.get("weight_decay")
        self._kept_names: list[str] = []
        self._kept: list[Any] = []  # variables, which compare their elements
        self._rate: Any = None
        self._rate_variable: Any = None
        self._iterations: Any = None
        self._current_rate: Any = None
        self._current_step: Any = None
        self._slots: dict[int, dict[str, Any]] = {}
        self._slot_order: list[Any] = []
        self._slot_owners: list[Any] = []  # keeps ids of owners taken
        self._eager: dict[Any, Any] = {}
        self._rows: dict[int, Tensor] = {}  # given to a small program
        self.learning_rate = kwargs.get("lr", learning_rate)

    @property
    def name(self) -> str:
        """The name of the optimizer."""
        return self._name

    # --- learning rate and step number --------------------------------------------

    @property
    def learning_rate(self) -> Any:
        """The rate: a float32 ``tf.Variable``, the schedule, or the function's tensor.

        ``float`` and ``numpy()`` give the number of the next step, of a schedule, too.
        Assign a number at any time; models do not trace again. Assigning a schedule, or
        a number in place of one, does.
        """
        if isinstance(self._rate, LearningRateSchedule):
            return CurrentRate(self._rate, self)
        if isinstance(self._rate, tf.Tensor):
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
        value = unwrapped(value)
        was_number = isinstance(self._rate, (float, type(None)))
        is_of_function = isinstance(value, tf.Tensor) and value.is_symbolic
        if is_of_function or isinstance(value, LearningRateSchedule):
            self._rate = value
            self._version += 1
            return
        if callable(value) and not isinstance(value, tf.Variable):
            value = value()
        try:
            number = float(value.numpy()) if hasattr(value, "numpy") else float(value)
        except (TypeError, ValueError):
            raise TypeError(
                "`learning_rate` must be a number or a LearningRateSchedule. Received: "
                f"learning_rate={value!r}."
            ) from None
        if number < 0:
            raise ValueError(
                f"Expected learning_rate >= 0. Received: learning_rate={number}."
            )
        self._rate = number
        if self._rate_variable is not None:
            self._rate_variable.assign(np.float32(number))
        if not was_number:
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
        """Return the rate of this step, a float32 scalar; in a trace."""
        if isinstance(self._rate, LearningRateSchedule):
            # Keras 2 gives schedules the step as a float
            step = tf.cast(self.iterations.value(), "float32")
            rate = tf.cast(convert_call(self._rate)(step), "float32")
        elif isinstance(self._rate, tf.Tensor):
            rate = tf.cast(self._rate, "float32")
        else:
            rate = self.learning_rate.value()
        if self._decay:
            done = tf.cast(self.iterations.value(), "float32")
            rate = rate / (1.0 + self._decay * done)
        return rate

    def _decayed_lr(self, var_dtype: Any = "float32") -> Tensor:
        """Return the rate of this step in a dtype, as subclasses for Keras ask for
        it."""
        rate = self._current_rate
        return tf.cast(self._decayed_rate() if rate is None else rate, var_dtype)

    def _set_hyper(self, name: str, value: Any) -> None:
        """Keep a number of a subclass for Keras; ``learning_rate`` is the rate."""
        if name == "learning_rate":
            self.learning_rate = value
        else:
            self._set_baked(f"_hyper_{name}", value)

    def _get_hyper(self, name: str, dtype: Any = None) -> Any:
        """Return what ``_set_hyper`` kept, as a tensor where a dtype is given."""
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

    # --- what Keras 3 adds ----------------------------------------------------------

    def scale_loss(self, loss: Any) -> Any:
        """Multiply a loss by ``loss_scale_factor``, where there is one.

        Args:
            loss: A tensor.

        Returns:
            What a step of your own asks the gradients of, for ``apply``.
        """
        factor = self.loss_scale_factor
        return loss if factor is None else tf.convert_to_tensor(loss) * factor

    def apply(self, grads: Iterable[Any], trainable_variables: Any = None) -> Any:
        """Change variables by their gradients, which come in a list of their own.

        Args:
            grads: A gradient of ``scale_loss(loss)`` for each variable, or None.
            trainable_variables: The variables; None for those given to ``build``.

        Returns:
            The step number after the update.

        Raises:
            ValueError: There are not as many gradients as variables.

        Source: ``keras.optimizers.Optimizer.apply`` of Keras 3.
        """
        gradients = list(grads)
        variables = list(
            self._built_for if trainable_variables is None else trainable_variables
        )
        if len(gradients) != len(variables):
            raise ValueError(
                "`apply` takes as many gradients as variables. Received: "
                f"{len(gradients)} gradients and {len(variables)} variables. Give "
                "`trainable_variables`, or call build(variables) first."
            )
        return self.apply_gradients(zip(gradients, variables, strict=True))

    def build(self, variables: Iterable[Any]) -> None:
        """Create what updates of variables need, before the first one.

        Args:
            variables: The variables, which ``apply`` then knows.
        """
        self._built_for = list(variables)
        self.built = True
        self._create_all_weights(self._built_for)
        restores.go_on()

    built = False
    _built_for: Sequence[Any] = ()

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Any) -> None:
        """Change one variable: what a subclass in the way of Keras 3 defines.

        Args:
            gradient: Its gradient.
            variable: The variable.
            learning_rate: The rate of this step, a float32 scalar.

        Example:
            >>> class Momentum(Optimizer):
            ...     def build(self, variables):
            ...         if not self.built:
            ...             super().build(variables)
            ...             self.sums = self.add_optimizer_variables(variables, "sum")
            ...
            ...     def update_step(self, gradient, variable, learning_rate):
            ...         total = self.sums[self._get_variable_index(variable)]
            ...         self.assign(total, 0.5 * total + gradient)
            ...         self.assign_sub(variable, learning_rate * total)
            ...
            >>> w, optimizer = tf.Variable([1.0, 2.0]), Momentum(0.5)
            >>> for _ in range(2):
            ...     _ = optimizer.apply_gradients([(tf.constant([1.0, 2.0]), w)])
            ...
            >>> w.numpy().tolist()
            [-0.25, -0.5]
        """
        del gradient, variable, learning_rate
        raise NotImplementedError(
            f"{type(self).__name__} must define update_step(gradient, variable, "
            "learning_rate), or _resource_apply_dense(grad, var)."
        )

    def _get_variable_index(self, variable: Any) -> int:
        """Return which of the variables given to ``build`` it is."""
        for number, one in enumerate(self._built_for):
            if one is variable:
                return number
        raise ValueError(
            f"The optimizer {self._name!r} was built for other variables than "
            f"{variable.name!r}. Give all of them to build(variables) first."
        )

    def add_variable_from_reference(
        self,
        reference_variable: Any,
        name: str | None = None,
        initializer: Any = "zeros",
    ) -> Any:
        """Create a variable beside a weight, of its shape; see ``add_slot``.

        Args:
            reference_variable: The weight.
            name: Its role for the weight, such as ``"momentum"``.
            initializer: ``"zeros"``, or any initializer.
        """
        if name is None:
            name = f"slot_{len(self._slots.get(id(reference_variable), {}))}"
        return self.add_slot(reference_variable, name, initializer)

    def add_optimizer_variables(
        self, trainable_variables: Iterable[Any], name: str, initializer: Any = "zeros"
    ) -> list[Any]:
        """Create a variable beside each of the weights; see ``add_slot``."""
        return [
            self.add_variable_from_reference(one, name, initializer)
            for one in trainable_variables
        ]

    def add_variable(
        self,
        shape: Any,
        initializer: Any = "zeros",
        dtype: Any = None,
        aggregation: str = "none",
        layout: Any = None,
        name: str | None = None,
    ) -> Any:
        """Create a variable that belongs to no weight, such as a count.

        Args:
            shape: Its sizes.
            initializer: ``"zeros"``, or any initializer.
            dtype: Its dtype; None for float32.
            name: Its name.
        """
        from ipu.keras import initializers

        del aggregation, layout
        function = initializers.get(initializer)
        assert function is not None
        kind = tf.as_dtype(dtype or "float32")
        with init_scope():
            made = tf.Variable(
                function(tuple(shape), dtype=kind),
                trainable=False,
                name=f"{self._name}/{name or 'variable'}",
                dtype=kind,
            )
        self._slot_order.append(made)
        return made

    def assign(self, variable: Any, value: Any) -> None:
        """Set a variable, in ``update_step``."""
        variable.assign(tf.cast(value, variable.dtype))

    def assign_add(self, variable: Any, value: Any) -> None:
        """Add to a variable, in ``update_step``."""
        variable.assign_add(tf.cast(value, variable.dtype))

    def assign_sub(self, variable: Any, value: Any) -> None:
        """Subtract from a variable, in ``update_step``."""
        variable.assign_sub(tf.cast(value, variable.dtype))

    def exclude_from_weight_decay(
        self, var_list: Sequence[Any] | None = None, var_names: Any = None
    ) -> None:
        """Keep variables from decaying.

        Args:
            var_list: The variables.
            var_names: Regular expressions, or one: variables that one is found in the
                name of.
        """
        names = [var_names] if isinstance(var_names, str) else list(var_names or ())
        self._kept += var_list or ()
        self._kept_names += names
        self._version += 1

    def _decays(self, var: Any) -> bool:
        """Return whether a variable is not excluded from the decay of weights."""
        if any(one is var for one in self._kept):
            return False
        name = str(var.name)
        return not any(re.search(pattern, name) for pattern in self._kept_names)

    def finalize_variable_values(self, var_list: Iterable[Any]) -> None:
        """Set variables to their moving averages, where ``use_ema`` is set.

        Args:
            var_list: Variables that were updated; ``fit`` ends with the trainable ones.
        """
        for var in var_list if self.use_ema else ():
            if "average" in self._slots.get(id(var), {}):
                var.assign(self.get_slot(var, "average").value())

    def _add_up(self, gradients: list[Any], variables: list[Any]) -> Any:
        """Add gradients up; the last of an update brings it about."""
        sums = [self.get_slot(var, "gradient_accumulator") for var in variables]
        for total, gradient in zip(sums, gradients, strict=True):
            total.assign_add(tf.cast(gradient, total.dtype))
        steps = self.gradient_accumulation_steps
        assert steps is not None
        self._accumulated.assign_add(tf.constant(1, dtype="int32"))
        rows, self._rows = self._rows, {}  # sums are of all rows

        def update() -> Tensor:
            self._update([total.value() / float(steps) for total in sums], variables)
            for total in sums:
                total.assign(tf.zeros_like(total.value()))
            self._accumulated.assign(tf.constant(0, dtype="int32"))
            return self.iterations.value()

        try:
            is_due = tf.equal(self._accumulated.value(), steps)
            return tf.cond(is_due, update, lambda: self.iterations.value())
        finally:
            self._rows = rows

    def _average(self, variables: Sequence[Any], step: Tensor) -> None:
        """Take weights into their moving averages, after a step (counted from 0)."""
        kept = tf.cast(tf.not_equal(step, 0), "float32") * self.ema_momentum
        every = self.ema_overwrite_frequency
        for var in variables:
            average = self.get_slot(var, "average")
            share = tf.cast(kept, average.dtype)
            mean = share * average.value() + (1.0 - share) * var.value()
            average.assign(mean)
            if every:
                is_due = tf.equal(tf.math.floormod(step + 1, every), 0)
                var.assign(tf.where(is_due, average.value(), var.value()))

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
            tape: A ``GradientTape`` that recorded the loss; None where a trace is open.

        Returns:
            The result of ``apply_gradients``.
        """
        del name
        variables = list(var_list() if callable(var_list) else var_list)
        if tape is None and not function.in_trace():
            if not callable(loss):
                raise ValueError(
                    "`tape` is required when a Tensor loss is passed outside of a "
                    f"traced function. Received: loss={loss!r}. Pass a callable."
                )
            from ipu.tf.gradient_tape import GradientTape

            with GradientTape() as tape:
                loss = loss()
        return self.apply_gradients(
            self._compute_gradients(loss, variables, grad_loss, tape)
        )

    def get_gradients(
        self, loss: Tensor, params: Sequence[Any], grad_loss: Any = None
    ) -> list[Any]:
        """Return the gradients of a loss, in a trace.

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
        """Return the pairs that ``apply_gradients`` takes.

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
        if self.loss_scale_factor is not None:
            first = tf.ones_like(value) if grad_loss is None else grad_loss
            grad_loss = self.scale_loss(first)
        if tape is not None:
            gradients = tape.gradient(value, variables, grad_loss)
        else:
            gradients = self.get_gradients(value, variables, grad_loss)
        return list(zip(gradients, variables, strict=True))

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        """Call ``compute_gradients``, by its name in Keras 2.6."""
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
            experimental_aggregate_gradients: Whether gradients are added up over the
                replicas of the program first. Else each replica goes its own way.

        Returns:
            The step number after the update.

        Raises:
            ValueError: There is no gradient at all.
            TypeError: The second of a pair is not a variable.
        """
        del name
        pairs = list(grads_and_vars)
        for grad, var in pairs:
            if not isinstance(var, tf.Variable):
                swapped = isinstance(grad, tf.Variable)
                raise TypeError(
                    "apply_gradients takes pairs of a gradient and its variable. "
                    f"Received: {grad!r} and {var!r}."
                    + (" Write zip(gradients, variables)." if swapped else "")
                )
        kept = [(grad, var) for grad, var in pairs if grad is not None]
        missing = [str(var.name) for grad, var in pairs if grad is None]
        if not kept:
            raise ValueError(
                f"No gradients provided for any variable: {missing}. The loss does not "
                "depend on the variables."
            )
        if missing:
            warn_user(
                f"Gradients do not exist for variables {missing} when minimizing the "
                "loss."
            )
        gradients = [grad for grad, _ in kept]
        variables = [var for _, var in kept]
        self._create_all_weights(variables)
        restores.go_on()
        if not function.in_trace():
            return self._run_once(gradients, variables)
        trace = _core.open_trace()
        begin = 0 if trace is None else trace.node_count
        if not experimental_aggregate_gradients or not _may_have_replicas():
            return tied(self._trace_apply(gradients, variables), begin)
        taken = _taken(gradients, variables)
        self._rows = {key: _any_replica(rows) for key, rows in taken.items()}
        try:
            summed = [cross_replica_ops.cross_replica_sum(g) for g in gradients]
            return tied(self._trace_apply(summed, variables), begin)
        finally:
            self._rows = {}

    def _trace_apply(self, gradients: list[Any], variables: list[Any]) -> Any:
        with here.setting(is_update=True):
            return self._apply(gradients, variables)

    def _apply(self, gradients: list[Any], variables: list[Any]) -> Any:
        step = self.iterations.value()
        if self.gradient_accumulation_steps is not None:
            done = self._add_up(gradients, variables)
        else:
            done = self._update(gradients, variables)
        if self.use_ema:
            self._average(variables, step)
        return done

    def _update(self, gradients: list[Any], variables: list[Any]) -> Any:
        taken = self._rows or _taken(gradients, variables)
        if self.loss_scale_factor is not None:
            share = 1.0 / self.loss_scale_factor
            gradients = [_slices.mapped(lambda g: g * share, g) for g in gradients]
        gradients = self._clipped(gradients)
        pairs = list(zip(gradients, variables, strict=True))
        for transform in self.gradient_transformers:
            pairs = list(transform(pairs))
        self._current_rate = self._decayed_rate()
        self._current_step = self.iterations.value() + tf.constant(1, dtype="int32")
        try:
            for gradient, variable in pairs:
                if self._decays_weights and self._decays(variable):
                    rate = tf.cast(self._current_rate, variable.dtype)
                    variable.assign_sub(variable * self.weight_decay * rate)
                rows = taken.get(id(variable))
                if rows is None:
                    self._resource_apply_dense(gradient, variable)
                else:
                    self._apply_to_rows(gradient, variable, rows)
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
        self.update_step(grad, var, self._current_rate)

    def _apply_to_rows(self, grad: Tensor, var: Any, rows: Tensor) -> None:
        """Change a table of which some rows were looked up, as Keras does then."""
        shape = (var.shape[0],) + (1,) * (len(var.shape) - 1)
        rows = tf.reshape(rows, shape)
        kept = [(one, one.value()) for one in self._changed_by_rows(var)]
        self._resource_apply_dense(grad, var)
        for one, before in kept:
            one.assign(tf.where(rows, one.value(), before))

    def _changed_by_rows(self, var: Any) -> list[Any]:
        """Return the variables of an update of which rows without a gradient stay as
        they are.

        The rest decays there, or moves on, as in an update with a gradient of zero.
        """
        del var
        return []

    def _run_once(self, gradients: list[Any], variables: list[Any]) -> Any:
        """Run an update outside of a trace, as a small program."""
        taken = _taken(gradients, variables)
        key = (self._version, tuple((id(v), id(v) in taken) for v in variables))
        slices = [_slices.slices_of(gradient) for gradient in gradients]
        if not self._clips:
            slices = [None] * len(gradients)
        program = self._eager.get(key)
        if program is None:
            tables = list(taken)

            def apply(given: Any, rows: Any, slices: Any) -> Any:
                self._rows = dict(zip(tables, rows, strict=True))
                for gradient, parts in zip(given, slices, strict=True):
                    if parts is not None:
                        found = [_slices.Slices(*part) for part in parts]
                        note(gradient, "slices", found)
                try:
                    return self._trace_apply(list(given), variables)
                finally:
                    self._rows = {}

            program = function.DeviceFunction(apply)
            if len(self._eager) == _EAGER_PROGRAMS:
                self._eager.pop(next(iter(self._eager)))
            self._eager[key] = program
        return program(tuple(gradients), tuple(taken.values()), tuple(slices))

    @property
    def _clips(self) -> bool:
        # each is a function of rows, where some were looked up
        limits: tuple[Any, ...] = (self.clipvalue, self.clipnorm)
        limits += (self.global_clipnorm, self.loss_scale_factor)
        return any(limit is not None for limit in limits)

    def _clipped(self, gradients: list[Any]) -> list[Any]:
        """Return gradients within the limits; rows that were looked up twice count
        twice."""
        if self.clipvalue is not None:
            limit = float(self.clipvalue)

            def clip(g: Tensor) -> Tensor:
                return tf.minimum(
                    tf.maximum(g, tf.constant(-limit, dtype=g.dtype)),
                    tf.constant(limit, dtype=g.dtype),
                )

            gradients = [_slices.mapped(clip, g) for g in gradients]
        if self.clipnorm is not None:
            gradients = [
                _scaled(g, _shrink(_square_of(g), self.clipnorm)) for g in gradients
            ]
        if self.global_clipnorm is not None:
            total = _sum([_square_of(g) for g in gradients])
            factor = _shrink(total, self.global_clipnorm)
            gradients = [_scaled(g, factor) for g in gradients]
        return gradients

    # --- variables ------------------------------------------------------------------

    @property
    def _own_slots(self) -> tuple[str, ...]:
        """The names of the slots that each weight has."""
        return ()

    def add_slot(
        self,
        var: Any,
        slot_name: str,
        initializer: Any = "zeros",
        dtype: Any = None,
        shape: Any = None,
    ) -> Any:
        """Create a variable beside a weight, such as its momentum.

        Args:
            var: The weight.
            slot_name: A name for ``get_slot``.
            initializer: ``"zeros"``, or any initializer.
            dtype: Of the variable; None for what the optimizer has in an attribute such
                as ``m_dtype``, or the weight's.
            shape: Its sizes; None for the weight's.

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
            wanted = dtype or getattr(self, f"{slot_name}_dtype", None)
            kind = var.dtype if wanted is None else tf.as_dtype(wanted)
            with init_scope():
                slots[slot_name] = tf.Variable(
                    function(tuple(var.shape if shape is None else shape), dtype=kind),
                    trainable=False,
                    name=self._slot_variable_name(stem, slot_name),
                    dtype=kind,
                )
            self._slot_order.append(slots[slot_name])
        return slots[slot_name]

    def _slot_variable_name(self, stem: str, slot_name: str) -> str:
        """Return what the variable beside a weight is called."""
        return f"{self._name}/{stem}/{slot_name}"

    def get_slot(self, var: Any, slot_name: str) -> Any:
        """Return the variable that ``add_slot`` made.

        Raises:
            ValueError: There is nothing of that name.
        """
        slots = self._slots.get(id(var), {})
        if slot_name not in slots:
            raise ValueError(
                f"There is no slot {slot_name!r} of variable {var.name!r}."
                f"{_names.nearest(slot_name, slots)}"
            )
        return slots[slot_name]

    def _with_slots(self, var: Any) -> list[Any]:
        """Return a weight and all that is beside it."""
        return [var, *self._slots.get(id(var), {}).values()]

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots."""
        return list(dict.fromkeys(name for s in self._slots.values() for name in s))

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        """Create the slots of weights; a subclass may call ``add_slot`` itself."""
        # one kind after the other: the order of Keras's weights
        for name in self._own_slots:
            for var in var_list:
                self.add_slot(var, name)

    def _create_all_weights(self, var_list: Sequence[Any]) -> None:
        """Create everything that an update needs, before a program is traced."""
        _ = self.iterations, self.learning_rate
        names = ["average"] if self.use_ema else []
        if self.gradient_accumulation_steps is not None:
            names.append("gradient_accumulator")
            if self._accumulated is None:
                with init_scope():
                    self._accumulated = tf.Variable(
                        np.int32(0),
                        trainable=False,
                        name=f"{self._name}/accumulated",
                        dtype="int32",
                    )
                self._slot_order.append(self._accumulated)
        for name in names:
            for var in var_list:
                self.add_slot(var, name)
        self._create_slots(var_list)
        if not self.built and type(self).build is not Optimizer.build:
            self.build(var_list)  # in the way of Keras 3, where it makes the slots

    def _made_variables(self) -> list[Any]:
        """Return the variables that exist already."""
        single = [self._iterations, self._rate_variable]
        return [v for v in single if v is not None] + self._slot_order

    def _checkpoint_parts(self, names: Mapping[int, str]) -> dict[str, Any]:
        """Return what ``tf.train.Checkpoint`` keeps of the optimizer, by name.

        Args:
            names: By the identities of weights, their names in the checkpoint.
        """
        parts = {"iterations": self.iterations}
        if isinstance(self.learning_rate, tf.Variable):
            parts["learning_rate"] = self.learning_rate
        for weight in self._slot_owners:
            name = names.get(id(weight), str(weight.name).split(":")[0])
            for slot_name, slot in self._slots[id(weight)].items():
                parts[f"slots/{slot_name}/{name}"] = slot
        listed = {id(one) for one in parts.values()}
        others = [one for one in self._made_variables() if id(one) not in listed]
        return parts | {f"others/{number}": one for number, one in enumerate(others)}

    @property
    def weights(self) -> list[Any]:
        """The step number and all slots, in the order they were made."""
        return [self.iterations, *self._slot_order]

    @property
    def variables(self) -> Variables:
        """The same as ``weights``; in Keras 2 it is called."""
        return Variables(self.weights)

    def get_weights(self) -> list[np.ndarray[Any, Any]]:
        """Copy the step number and all slots to the host."""
        return [variable.numpy() for variable in self.weights]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Set the step number and all slots.

        Args:
            weights: The result of ``get_weights``.

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

    def _resume(self, state: Sequence[Any], trained: Sequence[Any]) -> None:
        """Set the step number and all slots to those of an equal optimizer.

        Args:
            state: The result of its ``get_weights``; the step number alone where it
                made no slot.
            trained: The weights that it changes.
        """
        if len(state) > len(self.weights):
            self._create_all_weights(trained)
        self.set_weights(state)

    # --- configuration --------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal optimizer."""
        config: dict[str, Any] = {"name": self._name}
        rate = self._rate
        if (
            not isinstance(rate, LearningRateSchedule)
            and self._rate_variable is not None
        ):
            rate = float(self._rate_variable.numpy())
        if isinstance(rate, LearningRateSchedule):
            rate = schedules.serialize(rate)
        config["learning_rate"] = rate
        for key in _IN_CONFIG:
            if getattr(self, key) is not None:
                config[key] = getattr(self, key)
        if self.use_ema:
            config["use_ema"], config["ema_momentum"] = True, self.ema_momentum
        if self._decays_weights:
            config["weight_decay"] = self.weight_decay
        kept = [f"^{re.escape(str(one.name))}$" for one in self._kept]
        if kept or self._kept_names:
            config["exclude_from_weight_decay"] = [*self._kept_names, *kept]
        if self._decay:
            config["decay"] = self._decay
        if self.gradient_transformers:
            config["gradient_transformers"] = list(self.gradient_transformers)
        return config | config_of(self, Optimizer)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Optimizer:
        """Make one from what ``get_config`` gave."""
        rate = config.get("learning_rate")
        kept = config.get("exclude_from_weight_decay")
        kind: Any = cls
        if kept is not None and "exclude_from_weight_decay" not in arguments_of(kind):
            config = {k: v for k, v in config.items() if v is not kept}
            made = cls.from_config(config)
            made.exclude_from_weight_decay(var_names=kept)
            return made
        if _serialization.is_config(rate):
            config = {**config, "learning_rate": schedules.deserialize(rate)}
        return cls(**config)


def _taken(gradients: list[Any], variables: list[Any]) -> dict[int, Tensor]:
    """Return the rows of those variables of which only some were looked up, by id."""
    found = {
        id(variable): lookups.taken_rows(gradient, variable.shape[0])
        for gradient, variable in zip(gradients, variables, strict=True)
        if len(variable.shape) > 0
    }
    return {key: rows for key, rows in found.items() if rows is not None}


def _may_have_replicas() -> bool:
    """Return whether the program that is being traced may be replicated, and nobody
    else sees to the gradients of the replicas."""
    device = current_device()
    has_several = device.num_ipus * device.process_count > 1
    return not on_host() and has_several and not is_aggregated()


def _any_replica(rows: Tensor) -> Tensor:
    """Return which rows were looked up in any replica."""
    counts = cross_replica_ops.cross_replica_sum(tf.cast(rows, "float32"))
    return tf.greater(counts, 0.0)


def _sum(terms: Sequence[Tensor]) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _square_of(gradient: Any) -> Tensor:
    """Return the square of a gradient's norm."""
    slices = _slices.slices_of(gradient)
    parts = [gradient] if slices is None else [one.values for one in slices]
    return _sum([tf.reduce_sum(tf.square(part)) for part in parts])


def _scaled(gradient: Any, factor: Tensor) -> Tensor:
    return _slices.mapped(lambda g: g * factor, gradient)


def _shrink(square: Tensor, limit: float) -> Tensor:
    """Return the factor that brings a norm down to ``limit``, at most 1."""
    bound = tf.constant(float(limit), dtype=square.dtype)
    return bound / tf.maximum(tf.sqrt(square), bound)
