# SPDX-License-Identifier: MIT
"""The base of optimizers that wrap another one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ipu.tf._functions.scopes import group
from ipu.tf._graph import mode

Pair = tuple[Any, Any]


class IpuOptimizer:
    """An optimizer around another one, which it hands everything on to.

    A subclass changes what ``compute_gradients`` gives or what ``apply_gradients`` is
    given. Gradients are reduced over replicas as the wrapped one does by itself.

    Args:
        opt: The optimizer: one of ``ipu.keras.optimizers``, of TensorFlow 1, or
            another wrapper.
        name: A name.

    Raises:
        TypeError: ``opt`` is not an optimizer.

    Example:
        >>> IpuOptimizer(keras.optimizers.SGD(0.1), "mine").name
        'mine'

    Source: ``ipu.optimizers.IpuOptimizer``.
    """

    def __init__(self, opt: Any, name: str | None = None) -> None:
        if not hasattr(opt, "apply_gradients"):
            raise TypeError(
                f"{type(self).__name__} wraps an optimizer, such as keras.optimizers."
                f"SGD. Received: {opt!r}."
            )
        self._opt = opt
        self._name = type(self).__name__ if name is None else name

    @property
    def name(self) -> str:
        """The name of the optimizer."""
        return self._name

    def get_name(self) -> str:
        """Return the name of the optimizer."""
        return self._name

    def compute_gradients(
        self, loss: Any, var_list: Any = None, **kwargs: Any
    ) -> list[Pair]:
        """Return the pairs that ``apply_gradients`` takes.

        Args:
            loss: A scalar tensor of the open trace, or a callable that gives one.
            var_list: The variables.
            **kwargs: ``grad_loss``, the gradient of the loss; others have no effect.

        Returns:
            A pair of gradient and variable for each variable.

        Raises:
            ValueError: ``var_list`` is not given.
        """
        if var_list is None:
            var_list = mode.trainable_variables()
        if var_list is None:
            raise ValueError(
                "`var_list` must be given: without a graph nothing else says which "
                "variables to train. Pass model.trainable_variables."
            )
        more = {"grad_loss": kwargs["grad_loss"]} if "grad_loss" in kwargs else {}
        pairs: list[Pair] = self._opt.compute_gradients(loss, var_list, **more)
        return pairs

    def apply_gradients(
        self,
        grads_and_vars: Iterable[Pair],
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        """Change variables by their gradients.

        Args:
            grads_and_vars: Pairs of a gradient and a variable.
            global_step: A variable to count up by one, or None.
            name: Accepted and not used.
        """
        del name
        return self._apply(list(grads_and_vars), global_step)

    def _apply(self, pairs: Sequence[Pair], global_step: Any) -> Any:
        """Return the wrapped optimizer's update, and the count of updates."""
        result = self._opt.apply_gradients(pairs)
        if global_step is not None:
            counted = global_step.assign_add(1)
            if mode.building() is not None:
                return group(result, counted)
        return result

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Make a loss smaller: compute gradients and apply them.

        Args:
            loss: A scalar tensor of the open trace, or a callable that gives one.
            global_step: A variable to count up by one, or None.
            var_list: The variables.
            *args: What TensorFlow 1 takes besides, without effect.
            **kwargs: ``grad_loss``, the gradient of the loss; others have no effect.

        Raises:
            ValueError: ``var_list`` is not given.
        """
        del args
        pairs = self.compute_gradients(loss, var_list, **kwargs)
        return self.apply_gradients(pairs, global_step=global_step)

    def get_slot(self, var: Any, name: str) -> Any:
        """Return the wrapped optimizer's slot of that name for a variable."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Return the names of the wrapped optimizer's slots."""
        names: list[str] = self._opt.get_slot_names()
        return names

    def variables(self) -> Any:
        """Return the wrapped optimizer's variables."""
        variables = self._opt.variables
        return variables() if callable(variables) else variables
