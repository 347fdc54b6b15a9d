# SPDX-License-Identifier: MIT
"""The variables of an optimizer: step number, rate, and slots beside weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu.keras import _names
from ipu.tf._functions.tracing import init_scope


class Slots:
    """Mixed into ``Optimizer``."""

    if TYPE_CHECKING:
        _name: str
        _iterations: Any
        _rate_variable: Any
        iterations: Any
        learning_rate: Any

    # the names of the slots that each weight has
    _own_slots: tuple[str, ...] = ()

    def _init_slots(self) -> None:
        self._slots: dict[int, dict[str, Any]] = {}
        self._slot_order: list[Any] = []
        self._slot_owners: list[Any] = []  # keeps ids of owners taken

    def add_slot(
        self,
        var: Any,
        slot_name: str,
        initializer: Any = "zeros",
        dtype: Any = None,
    ) -> Any:
        """Create a variable beside a weight, such as its momentum.

        Args:
            var: The weight.
            slot_name: A name for ``get_slot``.
            initializer: ``"zeros"``, or any initializer.
            dtype: Of the variable; None for the weight's.

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
            kind = var.dtype if dtype is None else tf.as_dtype(dtype)
            with init_scope():
                slots[slot_name] = tf.Variable(
                    function(tuple(var.shape), dtype=kind),
                    trainable=False,
                    name=self._slot_variable_name(stem, slot_name),
                    dtype=kind,
                )
            self._slot_order.append(slots[slot_name])
        return slots[slot_name]

    def _slot_variable_name(self, stem: str, slot_name: str) -> str:
        """What the variable beside a weight is called."""
        return f"{self._name}/{stem}/{slot_name}"

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

    def _with_slots(self, var: Any) -> list[Any]:
        """A weight and all that is beside it."""
        return [var, *self._slots.get(id(var), {}).values()]

    def get_slot_names(self) -> list[str]:
        """Give the names of the slots."""
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

    def _resume(self, state: Sequence[Any], trained: Sequence[Any]) -> None:
        """Set the step number and all slots to those of an equal optimizer.

        Args:
            state: What its ``get_weights`` gave; the step number alone where it made no
                slot.
            trained: The weights that it changes.
        """
        if len(state) > len(self.weights):
            self._create_all_weights(trained)
        self.set_weights(state)
