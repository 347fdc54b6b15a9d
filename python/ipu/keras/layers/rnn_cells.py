# SPDX-License-Identifier: MIT
"""Cells: one step of a recurrent layer.

A cell takes the input of a step and the states before it, and gives its output and the
states behind it. The layers that go through all steps are in ``recurrent`` and ``rnn``.

Source: ``tf.keras.layers`` of Keras 2.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu.keras import _serialization
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.base_layer import Layer
from ipu.keras.layers.recurrent_cell import (
    RecurrentCell,
    first_states,
    output_size_of,
    step,
)

__all__ = ["GRUCell", "LSTMCell", "SimpleRNNCell", "StackedRNNCells"]


class SimpleRNNCell(RecurrentCell):
    """``h' = activation(x kernel + bias + h recurrent_kernel)``.

    Args:
        units: How long state and output are.
        activation: A name, or a function of a tensor.
        use_bias: Whether a bias is added.
        kernel_initializer: First values of the input's kernel.
        recurrent_initializer: First values of the state's kernel.
        bias_initializer: First values of the bias.
        kernel_regularizer: A penalty on the input's kernel.
        recurrent_regularizer: A penalty on the state's kernel.
        bias_regularizer: A penalty on the bias.
        kernel_constraint: What is made of the input's kernel after each update.
        recurrent_constraint: What is made of the state's kernel after each update.
        bias_constraint: What is made of the bias after each update.
        dropout: The part of the input that is dropped in training.
        recurrent_dropout: The part of the state that is dropped in training.
        **kwargs: What ``Layer`` takes.

    Raises:
        ValueError: ``units`` is not positive.

    Example:
        >>> cell = SimpleRNNCell(2)
        >>> output, states = cell(tf.ones((3, 4)), [tf.zeros((3, 2))])
        >>> output.shape
        (3, 2)
    """

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(locals(), units)

    def call(
        self, inputs: Tensor, states: Any, training: Any = None, *_: Any, **kwargs: Any
    ) -> tuple[Tensor, Nest]:
        """Make a step: the output, and the states behind it."""
        (h,) = states if isinstance(states, (list, tuple)) else (states,)
        x = self._inputs_part(inputs, self.bias, training)
        masks = self._masks("state", h, training)
        sums = x + self._product(h, self.recurrent_kernel, masks, slice(None))
        output = self.activation(sums)
        return output, [output] if isinstance(states, (list, tuple)) else output


class GRUCell(RecurrentCell):
    """A gated recurrent unit (Cho et al. 2014).

    Args:
        units: How long state and output are.
        activation: Of the candidate: a name, or a function of a tensor.
        recurrent_activation: Of the gates z (update) and r (reset).
        use_bias: Whether biases are added.
        kernel_initializer: First values of the input's kernel.
        recurrent_initializer: First values of the state's kernel.
        bias_initializer: First values of the biases.
        kernel_regularizer: A penalty on the input's kernel.
        recurrent_regularizer: A penalty on the state's kernel.
        bias_regularizer: A penalty on the biases.
        kernel_constraint: What is made of the input's kernel after each update.
        recurrent_constraint: What is made of the state's kernel after each update.
        bias_constraint: What is made of the biases after each update.
        dropout: The part of the input that is dropped in training.
        recurrent_dropout: The part of the state that is dropped in training.
        reset_after: Whether the reset gate is applied after the product with the
            state's kernel, which then has a bias of its own, or before it.
        **kwargs: What ``Layer`` takes, and ``implementation``: with 1 each gate drops
            its own part, with 2 (the default) all drop the same.

    Raises:
        ValueError: ``units`` is not positive.

    Example:
        >>> output, states = GRUCell(2)(tf.ones((3, 4)), [tf.zeros((3, 2))])
        >>> output.shape
        (3, 2)
    """

    gates = 3

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        **kwargs: Any,
    ) -> None:
        implementation = kwargs.pop("implementation", 2)
        super().__init__(locals(), units)
        self.implementation = _checked(implementation)
        self.reset_after = reset_after

    @property
    def _bias_shape(self) -> tuple[int, ...]:
        columns = 3 * self.units
        return (2, columns) if self.reset_after else (columns,)

    @property
    def input_bias(self) -> Any:
        """The bias of the input's product, or None."""
        return self.bias[0] if self.use_bias and self.reset_after else self.bias

    @property
    def recurrent_bias(self) -> Any:
        """The bias of the state's product with ``reset_after``, or None."""
        return self.bias[1] if self.use_bias and self.reset_after else None

    def call(
        self, inputs: Tensor, states: Any, training: Any = None, *_: Any, **kwargs: Any
    ) -> tuple[Tensor, Nest]:
        """Make a step: the output, and the states behind it."""
        (h,) = states if isinstance(states, (list, tuple)) else (states,)
        n = self.units
        x = self._inputs_part(inputs, self.input_bias, training)
        masks = self._masks("state", h, training)
        kernel = self.recurrent_kernel
        if self.reset_after:
            product = self._product(h, kernel, masks, slice(None))
            if self.recurrent_bias is not None:
                product = tf.nn.bias_add(product, self.recurrent_bias)
            both = self.recurrent_activation(x[:, : 2 * n] + product[:, : 2 * n])
            z, r = both[:, :n], both[:, n:]
            candidate = self.activation(x[:, 2 * n :] + r * product[:, 2 * n :])
        else:
            product = self._product(h, kernel, masks, slice(0, 2))
            both = self.recurrent_activation(x[:, : 2 * n] + product)
            z, r = both[:, :n], both[:, n:]
            inner = self._product(r * h, kernel, masks, slice(2, 3))
            candidate = self.activation(x[:, 2 * n :] + inner)
        output = z * h + (1.0 - z) * candidate
        return output, [output] if isinstance(states, (list, tuple)) else output

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal cell."""
        return {**super().get_config(), "implementation": self.implementation}


class LSTMBias(RecurrentCell):
    """A cell of gates i, f, c, o whose bias of gate f may start from ones."""

    unit_forget_bias: bool

    def _weight(self, name: str, shape: tuple[int, ...], kind: str) -> Any:
        if name != "bias" or not self.unit_forget_bias:
            return super()._weight(name, shape, kind)
        given = self.bias_initializer
        n = self.units

        def initial(shape: Any, dtype: Any = None, **_: Any) -> Tensor:
            parts = [given((n,), dtype=dtype), tf.ones((n,), dtype)]
            return tf.concat([*parts, given((2 * n,), dtype=dtype)], 0)

        return self.add_weight(
            name,
            shape,
            initializer=initial,
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
        )


class LSTMCell(LSTMBias):
    """A long short-term memory (Hochreiter and Schmidhuber 1997).

    Args:
        units: How long the states h and c and the output are.
        activation: Of the candidate and of c: a name, or a function of a tensor.
        recurrent_activation: Of the gates i (input), f (forget) and o (output).
        use_bias: Whether a bias is added.
        kernel_initializer: First values of the input's kernel.
        recurrent_initializer: First values of the state's kernel.
        bias_initializer: First values of the bias.
        unit_forget_bias: Whether the bias of gate f starts from ones.
        kernel_regularizer: A penalty on the input's kernel.
        recurrent_regularizer: A penalty on the state's kernel.
        bias_regularizer: A penalty on the bias.
        kernel_constraint: What is made of the input's kernel after each update.
        recurrent_constraint: What is made of the state's kernel after each update.
        bias_constraint: What is made of the bias after each update.
        dropout: The part of the input that is dropped in training.
        recurrent_dropout: The part of h that is dropped in training.
        **kwargs: What ``Layer`` takes, and ``implementation``: with 1 each gate drops
            its own part, with 2 (the default) all drop the same.

    Raises:
        ValueError: ``units`` is not positive.

    Example:
        >>> zeros = [tf.zeros((3, 2)), tf.zeros((3, 2))]
        >>> output, (h, c) = LSTMCell(2)(tf.ones((3, 4)), zeros)
        >>> output.shape
        (3, 2)
    """

    gates = 4

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        implementation = kwargs.pop("implementation", 2)
        super().__init__(locals(), units)
        self.implementation = _checked(implementation)
        self.unit_forget_bias = unit_forget_bias
        self.state_size = [self.units, self.units]

    def call(
        self, inputs: Tensor, states: Any, training: Any = None, *_: Any, **kwargs: Any
    ) -> tuple[Tensor, Nest]:
        """Make a step: the output, and the states h and c behind it."""
        h, c = states
        n = self.units
        x = self._inputs_part(inputs, self.bias, training)
        masks = self._masks("state", h, training)
        sums = x + self._product(h, self.recurrent_kernel, masks, slice(None))
        both = self.recurrent_activation(sums[:, : 2 * n])
        candidate = self.activation(sums[:, 2 * n : 3 * n])
        o = self.recurrent_activation(sums[:, 3 * n :])
        c = both[:, n:] * c + both[:, :n] * candidate
        h = o * self.activation(c)
        return h, [h, c]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal cell."""
        return {**super().get_config(), "implementation": self.implementation}


def _checked(implementation: Any) -> int:
    if implementation not in (0, 1, 2):
        raise ValueError(
            f"`implementation` must be 1 or 2. Received: {implementation!r}."
        )
    return int(implementation)


class StackedRNNCells(Layer):
    """Cells on top of each other, as one cell: the output of one is the input of the
    next.

    Args:
        cells: The cells, the lowest first.
        **kwargs: What ``Layer`` takes.

    Raises:
        ValueError: One of them has no ``call``, or no ``state_size``.

    Example:
        >>> from ipu.keras.layers import RNN
        >>> RNN(StackedRNNCells([LSTMCell(3), LSTMCell(2)]))(tf.ones((4, 5, 6))).shape
        (4, 2)
    """

    def __init__(self, cells: Sequence[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for cell in cells:
            if not hasattr(cell, "call"):
                raise ValueError(
                    f"All cells must have a `call` method. Received: {cell!r}."
                )
            if not hasattr(cell, "state_size"):
                raise ValueError(
                    f"All cells must have a `state_size` attribute. Received: {cell!r}."
                )
        self.cells = list(cells)

    @property
    def state_size(self) -> tuple[Any, ...]:
        """The sizes of the states of all cells."""
        return tuple(cell.state_size for cell in self.cells)

    @property
    def output_size(self) -> Any:
        """The size of the last cell's output."""
        return output_size_of(self.cells[-1])

    def get_initial_state(
        self, inputs: Any = None, batch_size: Any = None, dtype: Any = None
    ) -> Nest:
        """Give the first states of all cells, a list or tensor for each."""
        if inputs is not None:
            batch_size, dtype = inputs.shape[0], inputs.dtype
        return tuple(first_states(cell, batch_size, dtype) for cell in self.cells)

    def keep_masks(self, batch: int, size: int, training: Any) -> None:
        """Have each cell draw what it drops, for all steps alike."""
        for cell in self.cells:
            if hasattr(cell, "keep_masks"):
                cell.keep_masks(batch, size, training)
            size = output_size_of(cell)

    def reset_dropout_mask(self) -> None:
        """Have each cell let go of that."""
        for cell in self.cells:
            if hasattr(cell, "reset_dropout_mask"):
                cell.reset_dropout_mask()

    def build(self, input_shape: Any) -> None:
        """Build each cell for the output of the one below."""
        shape = tuple(input_shape)
        for cell in self.cells:
            if isinstance(cell, Layer) and not cell.built:
                cell._weight_scope = self._weight_scope
                cell.build(shape)
                cell.built = True
            shape = (shape[0], output_size_of(cell))
        self.built = True

    def call(
        self, inputs: Tensor, states: Any, training: Any = None, *_: Any, **kwargs: Any
    ) -> tuple[Tensor, Nest]:
        """Make a step with each cell."""
        found = []
        for cell, own in zip(self.cells, states, strict=True):
            inputs, after = step(cell, inputs, own, training, kwargs.get("constants"))
            found.append(after)
        return inputs, tuple(found)

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make equal cells."""
        cells = [_serialization.serialize_keras_object(cell) for cell in self.cells]
        return {**super().get_config(), "cells": cells}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Make cells from what ``get_config`` gave."""
        from ipu.keras import layers

        made = [layers.deserialize(cell, custom_objects) for cell in config["cells"]]
        return cls(**{**config, "cells": made})
