# SPDX-License-Identifier: MIT
"""The optimizers of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ipu import _core, tf
from ipu._device import placement, strategy_state
from ipu._device.strategy_state import ReduceOp
from ipu._text.suggestions import refuse_unknown
from ipu.keras import optimizers
from ipu.tf._functions import function
from ipu.tf._functions.tracing import current_build
from ipu.tf._graph import mode
from ipu.tf._graph.frame import is_symbol
from ipu.tf._graph.reached import operation
from ipu.tf._graph.record import add_traced
from ipu.tf._tensor.operation import Operation


class Optimizer(optimizers.Optimizer):
    """The arguments of TensorFlow 1's methods over those of a Keras optimizer.

    A program's own optimizer is a subclass that wraps another one and overrides
    ``compute_gradients`` or ``apply_gradients``; ``minimize`` calls both.

    Args:
        use_locking: Accepted without effect.

    Example:
        >>> issubclass(v1.train.AdamOptimizer, v1.train.Optimizer)
        True
    """

    GATE_NONE, GATE_OP, GATE_GRAPH = range(3)

    _is_tf1_optimizer = True
    # the rate, where it is a tensor of a graph
    _graph_rate: Any = None
    # whether the number of updates is part of the state, as for Adam
    _counts_updates = False

    def __init__(self, use_locking: bool = False, name: str = "Optimizer") -> None:
        optimizers.Optimizer.__init__(self, name=name)

    def get_name(self) -> str:
        """Return its name."""
        return self._name

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots, sorted."""
        return sorted(super().get_slot_names())

    @property
    def learning_rate(self) -> Any:
        """The rate: what was given in a graph, else as for Keras's optimizers."""
        if self._graph_rate is not None:
            return self._graph_rate
        return optimizers.Optimizer.learning_rate.fget(self)  # type: ignore[attr-defined]

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self._graph_rate = None
        value = value() if callable(value) and mode.has_graph() else value
        if is_symbol(value) or (mode.has_graph() and isinstance(value, tf.Variable)):
            self._graph_rate = value
            self._rate = 0.0
            return
        optimizers.Optimizer.learning_rate.fset(self, value)  # type: ignore[attr-defined]

    def _decayed_rate(self) -> Any:
        if self._graph_rate is not None:
            return tf.cast(tf.convert_to_tensor(self._graph_rate), "float32")
        if mode.has_graph() and isinstance(self._rate, float):
            return tf.constant(self._rate, "float32")
        return super()._decayed_rate()

    @property
    def iterations(self) -> Any:
        """How often weights were updated."""
        if self._iterations is None and mode.has_graph():
            with function.init_scope():
                self._iterations = tf.Variable(
                    0,
                    trainable=False,
                    name=f"{self._name}/iter",
                    dtype="int32",
                    collections=None if self._counts_updates else (),
                    use_resource=True,
                )
            self._iterations.is_automatic = not self._counts_updates
        return optimizers.Optimizer.iterations.fget(self)  # type: ignore[attr-defined]

    def _create_all_weights(self, var_list: Sequence[Any]) -> None:
        graph = mode.current() if mode.has_graph() else None
        if graph is None:
            super()._create_all_weights(var_list)
            return
        scope = graph.store.scope
        before, scope.use_resource = scope.use_resource, True
        try:
            _ = self.iterations
            self._create_slots(var_list)
        finally:
            scope.use_resource = before

    # --- what optimizers of your own define and call ----------------------------------

    def _prepare(self) -> None:
        """Make what :meth:`_apply_dense` needs: called before an update."""

    def _finish(self, update_ops: Any, name_scope: str) -> Any:
        """Do what comes after the updates of all variables."""

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        """Update a variable; subclasses define it, or ``_resource_apply_dense``."""
        return super()._resource_apply_dense(grad, var)

    def _resource_apply_dense(
        self, grad: Any, var: Any, apply_state: Any = None
    ) -> Any:
        return self._apply_dense(grad, var)

    def _zeros_slot(self, var: Any, slot_name: str, op_name: str) -> Any:
        """Return a slot of zeros, made where it is not there."""
        return self.add_slot(var, slot_name)

    def _get_or_make_slot(
        self, var: Any, val: Any, slot_name: str, op_name: str
    ) -> Any:
        """Return a slot whose first value is ``val``, made where it is not there."""
        return self.add_slot(var, slot_name, lambda shape, dtype: val)

    def _slot_variable_name(self, stem: str, slot_name: str) -> str:
        if mode.has_graph():
            return f"{stem}/{self._name}"
        return super()._slot_variable_name(stem, slot_name)

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
            gate_gradients, aggregation_method, colocate_gradients_with_ops: Accepted
                without effect.
            grad_loss: The gradient of the loss, None for 1.

        Returns:
            An operation in functions and graphs.

        Raises:
            ValueError: ``var_list`` is not given, and there is no graph; or the loss
                depends on none of the variables.
        """
        if isinstance(global_step, (list, tuple)):  # the order of Keras
            global_step, var_list = None, global_step
        variables = _named(var_list)
        if mode.building() is not None:
            more = {} if grad_loss is None else {"grad_loss": grad_loss}
            pairs = self.compute_gradients(loss, var_list=variables, **more)
            self._check_gradients(pairs, loss)
            return self.apply_gradients(pairs, global_step, name)
        if not function.in_trace():
            result = super().minimize(loss, variables, grad_loss)
            _count(global_step)
            return result
        more = {} if grad_loss is None else {"grad_loss": grad_loss}
        pairs = self.compute_gradients(loss, var_list=variables, **more)
        if mode.has_graph():
            self._check_gradients(pairs, loss)
        return self.apply_gradients(pairs, global_step=global_step)

    @staticmethod
    def _check_gradients(pairs: Iterable[tuple[Any, Any]], loss: Any) -> None:
        found = list(pairs)
        if all(gradient is None for gradient, _ in found):
            names = [str(variable.name) for _, variable in found]
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that "
                f"do not support gradients, between variables {names} and loss {loss}."
            )

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        grad_loss: Any = None,
        tape: Any = None,
        **unused: Any,
    ) -> list[tuple[Any, Any]]:
        """Return the pairs that ``apply_gradients`` takes.

        Args:
            loss: A scalar tensor, or a callable that gives one.
            var_list: The variables; None: the trainable ones of the graph.
            grad_loss: The gradient of the loss, None for 1.
            tape: A ``GradientTape`` that recorded the loss, outside of functions and
                graphs.
            **unused: ``gate_gradients`` and others of TensorFlow 1, without effect.

        Returns:
            A pair of gradient and variable for each variable; the gradient is None
            where the loss does not depend on it.
        """
        refuse_unknown(
            "compute_gradients",
            unused,
            ("aggregation_method", "colocate_gradients_with_ops", "gate_gradients"),
        )
        variables = list(_named(var_list))
        graph = mode.building()
        if graph is None:
            return super().compute_gradients(loss, variables, grad_loss, tape)
        weights = None if grad_loss is None else [grad_loss]
        found = graph.gradients(
            [loss() if callable(loss) else loss], variables, weights
        )
        return list(zip(found, variables, strict=True))

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
            **kwargs: The arguments of Keras's optimizers.

        Returns:
            An operation in functions and graphs.

        Raises:
            ValueError: There is no gradient at all.
        """
        if not mode.has_graph():
            result = super().apply_gradients(grads_and_vars, name, **kwargs)
            _count(global_step)
            if not function.in_trace():
                return result
            if not self._slot_order and not self._counts_updates:
                # without a state of its own it may be made in the function
                notes = current_build().notes
                notes.setdefault("optimizers", []).append(self)
            return Operation("NoOp", self._name)
        pairs = [pair for pair in grads_and_vars if pair[0] is not None]
        if not pairs:
            raise ValueError("No gradients provided for any variable.")
        # in a graph every replica goes its own way: CrossReplicaOptimizer adds them up,
        # or a strategy for several processes
        strategy = strategy_state.get_strategy()
        adds_up = strategy is not None and strategy._adds_up_in_graphs
        kwargs["experimental_aggregate_gradients"] = adds_up
        graph = mode.building()
        if graph is None:
            trace = _core.open_trace()
            begin = 0 if trace is None else trace.node_count
            super().apply_gradients(pairs, name, **kwargs)
            _count(global_step)
            return operation("NoOp", begin, self._name)
        variables = [variable for _, variable in pairs]
        if strategy is not None and adds_up and placement.graph_ordinal() is None:
            given = [tf.convert_to_tensor(gradient) for gradient, _ in pairs]
            summed = strategy.reduce(ReduceOp.SUM, given)
            pairs = list(zip(summed, variables, strict=True))
        self._create_all_weights(variables)

        def update(*gradients: Any) -> None:
            given = zip(gradients, variables, strict=True)
            self._prepare()
            super(Optimizer, self).apply_gradients(given, name, **kwargs)
            self._finish([tf.no_op()], name or self._name)
            _count(global_step)

        op = graph.add(
            "ApplyGradients",
            update,
            tuple(gradient for gradient, _ in pairs),
            name=name or self._name,
        )
        return add_traced(op, host=True)


def _named(var_list: Sequence[Any] | None) -> Sequence[Any]:
    if var_list is not None:
        return var_list
    found = mode.trainable_variables()
    if found is not None:
        return found
    raise ValueError(
        "`var_list` must be given: without a graph nothing else says which "
        "variables to train. Pass model.trainable_variables."
    )


def _count(global_step: Any) -> None:
    if global_step is not None:
        global_step.assign_add(1)


class GradientDescentOptimizer(Optimizer, optimizers.SGD):
    """Gradient descent.

    Args:
        learning_rate: The rate.
        use_locking: Accepted without effect.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     step = v1.train.GradientDescentOptimizer(0.1).minimize(w * w)
        ...     session.run(v1.global_variables_initializer())
        ...     session.run(step)
        ...     print(bool(session.run(w) < 1.0))
        True
    """

    _resource_apply_dense = optimizers.SGD._resource_apply_dense

    def __init__(
        self,
        learning_rate: Any,
        use_locking: bool = False,
        name: str = "GradientDescent",
    ) -> None:
        optimizers.SGD.__init__(self, learning_rate, name=name)


class MomentumOptimizer(Optimizer, optimizers.SGD):
    """Gradient descent with momentum.

    ``a = momentum a + g; w -= rate a``; in Nesterov's form
    ``w -= rate g + rate momentum a``. The slot ``a`` is free of the rate, so that a
    changed rate holds for what was gathered before as well.

    Args:
        learning_rate: The rate.
        momentum: In [0, 1], a number; in a graph also a tensor.
        use_locking: Accepted without effect.
        use_nesterov: Whether Nesterov's form is used.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     step = v1.train.MomentumOptimizer(0.1, 0.9).minimize(w * w)
        ...     session.run(v1.global_variables_initializer())
        ...     session.run(step)
        ...     print(bool(session.run(w) < 1.0))
        True
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        momentum = momentum() if callable(momentum) else momentum
        is_number = isinstance(momentum, (int, float, np.number))
        number = float(momentum) if is_number else 0.0
        optimizers.SGD.__init__(self, learning_rate, number, use_nesterov, name=name)
        if not is_number:
            self._momentum = momentum

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self.add_slot(var, "momentum")

    def _changed_by_rows(self, var: Any) -> list[Any]:
        return self._with_slots(var)

    def _resource_apply_dense(
        self, grad: Any, var: Any, apply_state: Any = None
    ) -> Any:
        rate = tf.cast(self._current_rate, grad.dtype)
        kept: Any = tf.cast(tf.convert_to_tensor(self._momentum), grad.dtype)
        slot = self.get_slot(var, "momentum")
        gathered = kept * slot.value() + grad
        slot.assign(gathered)
        if self.nesterov:
            return var.assign_sub(rate * grad + rate * (kept * gathered))
        return var.assign_sub(rate * gathered)


class AdamOptimizer(Optimizer, optimizers.Adam):
    """Adam.

    Args:
        learning_rate: The rate.
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        epsilon: Added to the root of the second moment.
        use_locking: Accepted without effect.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     step = v1.train.AdamOptimizer(0.001).minimize(w * w)
        ...     session.run(v1.global_variables_initializer())
        ...     session.run(step)
        ...     print(bool(session.run(w) < 1.0))
        True
    """

    _counts_updates = True
    _resource_apply_dense = optimizers.Adam._resource_apply_dense

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
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

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     step = v1.train.RMSPropOptimizer(0.001).minimize(w * w)
        ...     session.run(v1.global_variables_initializer())
        ...     session.run(step)
        ...     print(bool(session.run(w) < 1.0))
        True
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
        optimizers.RMSprop.__init__(
            self, learning_rate, decay, momentum, epsilon, centered, name=name
        )

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self.add_slot(var, "rms", "ones")
            self.add_slot(var, "momentum")
            if self.centered:
                self.add_slot(var, "mg")

    def _changed_by_rows(self, var: Any) -> list[Any]:
        return self._with_slots(var)

    def _resource_apply_dense(
        self, grad: Any, var: Any, apply_state: Any = None
    ) -> Any:
        rate = tf.cast(self._current_rate, grad.dtype)
        step = rate * grad / tf.sqrt(self._spread(grad, var) + self.epsilon)
        slot = self.get_slot(var, "momentum")
        change = self.momentum * slot.value() + step
        slot.assign(change)
        return var.assign_sub(change)


class AdagradOptimizer(Optimizer, optimizers.Adagrad):
    """Steps divided by the root of the sum of all squared gradients.

    Args:
        learning_rate: The rate.
        initial_accumulator_value: The first value of the sum.
        use_locking: Accepted without effect.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     step = v1.train.AdagradOptimizer(0.1).minimize(w * w)
        ...     session.run(v1.global_variables_initializer())
        ...     session.run(step)
        ...     print(bool(session.run(w) < 1.0))
        True
    """

    _resource_apply_dense = optimizers.Adagrad._resource_apply_dense

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        optimizers.Adagrad.__init__(
            self, learning_rate, initial_accumulator_value, name=name
        )
        self.epsilon = 0.0


class AdadeltaOptimizer(Optimizer, optimizers.Adadelta):
    """Steps scaled by running squares of steps and gradients.

    Args:
        learning_rate: The rate.
        rho: Decay of the running squares.
        epsilon: Keeps the division finite.
        use_locking: Accepted without effect.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     step = v1.train.AdadeltaOptimizer(0.1).minimize(w * w)
        ...     session.run(v1.global_variables_initializer())
        ...     session.run(step)
        ...     print(bool(session.run(w) < 1.0))
        True
    """

    _resource_apply_dense = optimizers.Adadelta._resource_apply_dense

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        optimizers.Adadelta.__init__(self, learning_rate, rho, epsilon, name=name)


class FtrlOptimizer(Optimizer, optimizers.Ftrl):
    """Follow the regularized leader.

    Args:
        learning_rate: The rate.
        learning_rate_power, initial_accumulator_value, l1_regularization_strength,
            l2_regularization_strength, l2_shrinkage_regularization_strength, beta: As
            for ``keras.optimizers.Ftrl``.
        use_locking, accum_name, linear_name: Accepted without effect.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     step = v1.train.FtrlOptimizer(0.1).minimize(w * w)
        ...     session.run(v1.global_variables_initializer())
        ...     session.run(step)
        ...     print(bool(session.run(w) < 1.0))
        True
    """

    _resource_apply_dense = optimizers.Ftrl._resource_apply_dense

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float = 0.0,
    ) -> None:
        optimizers.Ftrl.__init__(
            self,
            learning_rate,
            learning_rate_power,
            initial_accumulator_value,
            l1_regularization_strength,
            l2_regularization_strength,
            name,
            l2_shrinkage_regularization_strength,
            beta,
        )


class ExponentialMovingAverage:
    """Running averages of variables and tensors of a graph, each in its shadow.

    ``shadow -= (1 - decay) (shadow - value)``.

    Args:
        decay: How much of the shadow is kept.
        num_updates: A count, or a tensor of it; ``(1 + n) / (10 + n)`` is then the
            decay while that is smaller. None: ``decay`` is what it is.
        zero_debias: Whether averages of tensors, which start from 0, are divided by
            what that start leaves out.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     average = v1.train.ExponentialMovingAverage(0.5)
        ...     update = average.apply([w])
        ...     session.run(v1.global_variables_initializer())
        ...     w.load(3.0, session)
        ...     session.run(update)
        ...     print(session.run(average.average(w)))
        2.0
    """

    def __init__(
        self,
        decay: float,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self._decay, self._num_updates = decay, num_updates
        self._zero_debias, self.name = zero_debias, name
        self._shadows: dict[int, Any] = {}
        self._kept: list[Any] = []  # ids stay theirs

    def apply(self, var_list: Sequence[Any] | None = None) -> Any:
        """Return an operation that updates the averages.

        Args:
            var_list: Variables, which the averages start from, and tensors, whose
                averages start from 0; None: the trainable variables.
        """
        graph = mode.current() or mode.default()
        given = graph.get_collection("trainable_variables")
        given = given if var_list is None else list(var_list)
        decay: Any = self._decay
        if self._num_updates is not None:
            count = tf.cast(self._num_updates, "float32")
            decay = tf.minimum(decay, (1.0 + count) / (10.0 + count))
        updates = []
        for one in given:
            if id(one) not in self._shadows:
                self._add(one)
            updates.append(self._updated(one, decay))
        return tf.group(*updates)

    def _add(self, one: Any) -> None:
        is_variable = isinstance(one, tf.Variable)
        first = one.initialized_value() if is_variable else tf.zeros(one.shape)
        names = (mode.current() or mode.default()).name_scope(None)
        lists = ["variables", *(["moving_average_variables"] if is_variable else ())]
        with names, function.init_scope():
            stem = one.op.name if hasattr(one, "op") else one.name.split(":")[0]
            shadow = tf.Variable(
                first,
                trainable=False,
                name=f"{stem}/{self.name}",
                collections=["variables"],
            )
            left = None
            if self._zero_debias and not is_variable:
                # the part of the start that is left
                left = tf.Variable(
                    1.0, trainable=False, name=f"{stem}/{self.name}/left"
                )
        graph = mode.current() or mode.default()
        if len(lists) > 1 and one not in graph.get_collection(lists[1]):
            graph.add_to_collection(lists[1], one)
        self._shadows[id(one)] = (shadow, left)
        self._kept.append(one)

    def _updated(self, one: Any, decay: Any) -> Any:
        shadow, left = self._shadows[id(one)]
        changed = shadow.assign_sub((shadow - one) * (1.0 - decay))
        return changed if left is None else tf.group(changed, left.assign(left * decay))

    def average(self, var: Any) -> Any:
        """Return the average of a variable or tensor; None where it has none."""
        shadow, left = self._shadows.get(id(var), (None, None))
        return shadow if left is None else shadow / (1.0 - left)

    def average_name(self, var: Any) -> str:
        """Return the name of the variable that holds an average."""
        stem = var.op.name if hasattr(var, "op") else var.name.split(":")[0]
        return f"{stem}/{self.name}"

    def variables_to_restore(self, moving_avg_variables: Any = None) -> dict[str, Any]:
        """Return what a ``Saver`` reads averages into the variables themselves with.

        Args:
            moving_avg_variables: Those that have averages; None: the trainable ones and
                those of the list ``moving_average_variables``.
        """
        graph = mode.current() or mode.default()
        averaged = moving_avg_variables
        if averaged is None:
            averaged = graph.get_collection("trainable_variables")
            averaged += graph.get_collection("moving_average_variables")
        found = {self.average_name(one): one for one in averaged}
        known = {id(one) for one in averaged}
        for one in graph.get_collection("variables"):
            if id(one) not in known and one.op.name not in found:
                found[one.op.name] = one
        return found
