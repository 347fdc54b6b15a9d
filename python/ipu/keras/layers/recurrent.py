# SPDX-License-Identifier: MIT
"""``SimpleRNN``, ``GRU`` and ``LSTM``.

GRU and LSTM go through all steps as one op, after one product of the whole input,
where the activations are tanh and sigmoid and nothing is dropped of the state; else
step by step. Both ways compute the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu.keras import activations, regularizers
from ipu.keras._arguments import parameters_of
from ipu.keras._recurrence import Steps
from ipu.keras._types import Nest, Tensor
from ipu.keras.layers.rnn import RNN
from ipu.keras.layers.rnn_cells import (
    CELL_SETTINGS,
    GRUCell,
    LSTMCell,
    RecurrentCell,
    SimpleRNNCell,
)
from ipu.tf._ops import recurrent

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import RecurrentOptions

__all__ = ["GRU", "LSTM", "SimpleRNN"]


class OwnCell(RNN):
    """A layer around a cell of its own, whose arguments are among the layer's."""

    cell: Any

    def __init__(self, cell: RecurrentCell, arguments: Mapping[str, Any], /) -> None:
        flags = {
            name: arguments[name]
            for name in parameters_of(RNN.__init__)
            if name in arguments and name != "cell"
        }
        super().__init__(cell, **flags, **arguments["kwargs"])
        penalty = arguments["activity_regularizer"]
        self.activity_regularizer = regularizers.get(penalty)

    def __getattr__(self, name: str) -> Any:
        cell = self.__dict__.get("cell")
        if cell is not None and (name in CELL_SETTINGS or name in _OF_CELLS):
            return getattr(cell, name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}.")

    def _is_one_op(self, training: Any) -> bool:
        """Return whether all steps can be one op, with the same result."""
        cell = self.cell
        drops_state = training and cell.recurrent_dropout > 0
        by_gate = training and cell.dropout > 0 and cell.implementation == 1
        return (
            not self.unroll
            and not drops_state
            and not by_gate
            and cell.activation is activations.tanh
            and cell.recurrent_activation is activations.sigmoid
        )

    def _project(self, inputs: Tensor, bias: Any, training: Any) -> Tensor:
        """Return what the inputs give to the gates, for all steps as one product."""
        cell = self.cell
        first, second, size = tuple(inputs.shape)
        if training and cell.dropout > 0:
            batch = second if self.time_major else first
            shape = (1, batch, size) if self.time_major else (batch, 1, size)
            (mask,) = cell._draw(cell.dropout, shape, training)
            inputs = inputs * mask
        flat = tf.reshape(inputs, (first * second, size))
        x = tf.matmul(flat, cell.kernel)
        if bias is not None:
            x = tf.nn.bias_add(x, bias)
        return tf.reshape(x, (first, second, cell.gates * cell.units))

    def _finish(
        self, steps: Tensor, states: list[Tensor], mask: Tensor | None
    ) -> Steps:
        """Return the outputs of h: those of masked steps are 0, or the ones before.

        Args:
            steps: h of all steps, as the input lies.
            states: The last ones, h first.
            mask: The mask, or None.
        """
        time = 0 if self.time_major else 1
        last = states[0]
        if mask is not None and self.zero_output_for_mask:
            steps = tf.where(tf.expand_dims(mask, -1), steps, tf.zeros_like(steps))
            end = 0 if self.go_backwards else -1
            last = steps[end] if self.time_major else steps[:, end]
        elif mask is not None and self._starts:
            # before the first step that counts there is no output
            counts = tf.cast(mask, "int32")
            seen = tf.cumsum(counts, axis=time, reverse=self.go_backwards) > 0
            steps = tf.where(tf.expand_dims(seen, -1), steps, tf.zeros_like(steps))
            any_seen = tf.reduce_any(mask, axis=time)
            last = tf.where(tf.expand_dims(any_seen, -1), last, tf.zeros_like(last))
        if self.go_backwards and self.return_sequences:
            steps = tf.reverse(steps, [time])
        return Steps(steps, last, states)


_OF_CELLS = frozenset(
    "units reset_after unit_forget_bias implementation filters kernel_size strides "
    "padding data_format dilation_rate".split()
)


class SimpleRNN(OwnCell):
    """``h' = activation(x kernel + bias + h recurrent_kernel)`` over all steps.

    The arguments are those of :class:`LSTM`, except what is about its gates.

    Raises:
        ValueError: As ``RNN``, and where ``units`` is not positive.

    Example:
        >>> SimpleRNN(2)(tf.ones((3, 5, 4))).shape
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
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        **kwargs: Unpack[RecurrentOptions],
    ) -> None:
        kwargs.pop("implementation", None)
        super().__init__(_cell_of(SimpleRNNCell, locals()), locals())


class GRU(OwnCell):
    """Gated recurrent units over all steps (Cho et al. 2014).

    Args:
        activation: Of the candidate: a name, or a function of a tensor.
        recurrent_activation: Of the gates z (update) and r (reset).
        reset_after: Whether the reset gate is applied after the product with the
            state's kernel, which then has a bias of its own, or before it.

    The other arguments are those of :class:`LSTM`.

    Raises:
        ValueError: As ``RNN``, and where ``units`` is not positive.

    Example:
        >>> GRU(2, return_sequences=True)(tf.ones((3, 5, 4))).shape
        (3, 5, 2)
    """

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
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        time_major: bool = False,
        reset_after: bool = True,
        **kwargs: Unpack[RecurrentOptions],
    ) -> None:
        super().__init__(_cell_of(GRUCell, locals()), locals())

    def _go(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        training: Any,
        states: Nest,
        constants: Any,
    ) -> Steps:
        if not self._is_one_op(training):
            return super()._go(inputs, mask, training, states, constants)
        cell = self.cell
        bias = cell.recurrent_bias
        if cell.reset_after and bias is None:
            bias = tf.zeros((3 * cell.units,), self._compute_kind)
        result = recurrent.gru(
            self._project(inputs, cell.input_bias, training),
            cell.recurrent_kernel,
            states[0],
            bias,
            mask,
            self.time_major,
            self.go_backwards,
        )
        return self._finish(result.steps, [result.h], mask)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "implementation": self.cell.implementation}


class LSTM(OwnCell):
    """Long short-term memories over all steps (Hochreiter and Schmidhuber 1997).

    Args:
        units: How long the states h and c and the output are.
        activation: Of the candidate and of c: a name, or a function of a tensor.
        recurrent_activation: Of the gates i (input), f (forget) and o (output).
        use_bias: Whether a bias is added.
        kernel_initializer, recurrent_initializer, bias_initializer: First values of the
            input's kernel, the state's kernel and the bias.
        unit_forget_bias: Whether the bias of gate f starts from ones.
        kernel_regularizer, recurrent_regularizer, bias_regularizer: Penalties on them.
        activity_regularizer: A penalty on the result, divided by the batch size.
        kernel_constraint, recurrent_constraint, bias_constraint: The constraints of
            them after each update.
        dropout: The part of the input that is dropped in training, alike in all steps.
        recurrent_dropout: The part of h that is dropped in training.
        return_sequences: Whether to give the outputs of all steps, or the last one.
        return_state: Whether to give the last h and c, too.
        go_backwards: Whether to begin with the last step.
        stateful: Whether a call goes on from the last one's states.
        time_major: Whether steps come before the batch.
        unroll: Whether the steps are copies of the cell instead of one op.
        **kwargs: The arguments of ``RNN``, and ``implementation`` of the cell.

    Raises:
        ValueError: As ``RNN``, and where ``units`` is not positive.

    Example:
        >>> output, h, c = LSTM(2, return_state=True)(tf.ones((3, 5, 4)))
        >>> c.shape
        (3, 2)
    """

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
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        time_major: bool = False,
        unroll: bool = False,
        **kwargs: Unpack[RecurrentOptions],
    ) -> None:
        super().__init__(_cell_of(LSTMCell, locals()), locals())

    def _go(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        training: Any,
        states: Nest,
        constants: Any,
    ) -> Steps:
        if not self._is_one_op(training):
            return super()._go(inputs, mask, training, states, constants)
        cell = self.cell
        h, c = states
        result = recurrent.lstm(
            self._project(inputs, cell.bias, training),
            cell.recurrent_kernel,
            h,
            c,
            mask,
            self.time_major,
            self.go_backwards,
        )
        return self._finish(result.steps, [result.h, result.c], mask)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "implementation": self.cell.implementation}


def _cell_of(kind: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Make the cell of a layer from the layer's arguments."""
    kwargs = arguments["kwargs"]
    own = {name: arguments[name] for name in parameters_of(kind)}
    for name in ("dtype", "trainable"):
        if name in kwargs:
            own[name] = kwargs[name]
    if "implementation" in kwargs:
        own["implementation"] = kwargs.pop("implementation")
    return kind(**own)
