# SPDX-License-Identifier: MIT
"""``ConvLSTM1D``, ``ConvLSTM2D`` and ``ConvLSTM3D``.

Source: ``keras/layers/convolutional_recurrent.py`` of Keras 2.6; Shi and others,
"Convolutional LSTM Network", 2015.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ipu import tf
from ipu.keras._backend_state import state
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.base_layer import InputSpec
from ipu.keras.layers._spatial import sizes_argument
from ipu.keras.layers.recurrent import OwnCell
from ipu.keras.layers.rnn_cells import LSTMBias

__all__ = ["ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"]

_FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


class ConvLSTMCell(LSTMBias):
    """A step of an LSTM whose products are convolutions.

    Args:
        rank: How many spatial axes there are.
        arguments: Those of the layer. Its window, ``kernel_size``, ``strides``,
            ``padding``, ``data_format`` and ``dilation_rate``, is that of the input's
            convolution; that of the state has the same kernel size and keeps the size.

    Raises:
        ValueError: An argument has not the form that Keras asks for.
    """

    gates = 4

    def __init__(self, rank: int, arguments: Mapping[str, Any], /) -> None:
        super().__init__({**arguments, "kwargs": {}}, arguments["filters"])
        layer = f"ConvLSTM{rank}D"
        self.rank = rank
        self.filters = self.units
        self.kernel_size, self.strides, self.dilation_rate = (
            sizes_argument(layer, name, arguments[name], rank)
            for name in ("kernel_size", "strides", "dilation_rate")
        )
        self.padding = str(arguments["padding"]).lower()
        if self.padding not in ("valid", "same"):
            raise ValueError(
                f"The `padding` argument of {layer} must be 'valid' or 'same'. "
                f"Received: padding={arguments['padding']!r}."
            )
        self.data_format = arguments["data_format"] or state.image_data_format
        if self.data_format not in ("channels_last", "channels_first"):
            raise ValueError(
                f"The `data_format` argument of {layer} must be 'channels_last' or "
                f"'channels_first'. Received: data_format={self.data_format!r}."
            )
        self.unit_forget_bias = arguments["unit_forget_bias"]
        self._input_shape: tuple[int, ...] = ()

    @property
    def _axis(self) -> int:
        """Of the channels of an input without its batch."""
        return 0 if self.data_format == "channels_first" else self.rank

    def build(self, input_shape: Any) -> None:
        """Create the weights for the input of a step: its batch, then its axes.

        Raises:
            ValueError: A size is open, or the window does not fit.
        """
        shape = tuple(input_shape)[1:]
        if len(shape) != self.rank + 1 or None in shape:
            raise ValueError(
                f"ConvLSTM{self.rank}D needs an input of (batch, steps, "
                f"{self.rank} sizes and channels), all of them known after the batch. "
                f"Received: a step of shape {tuple(input_shape)}."
            )
        channels = shape[self._axis]
        sizes = [size for axis, size in enumerate(shape) if axis != self._axis]
        columns = 4 * self.filters
        kernel = (*self.kernel_size, channels, columns)
        self.kernel = self._weight("kernel", kernel, "kernel")
        kernel = (*self.kernel_size, self.filters, columns)
        self.recurrent_kernel = self._weight("recurrent_kernel", kernel, "recurrent")
        if self.use_bias:
            self.bias = self._weight("bias", (columns,), "bias")
        self._input_shape = shape
        made = [self._made(axis, size) for axis, size in enumerate(sizes)]
        made.insert(self._axis, self.filters)
        self.output_size = tuple(made)
        self.state_size = [tf.TensorShape(made)] * 2

    def _made(self, axis: int, size: int) -> int:
        """Return how large the output is along a spatial axis."""
        reach = self.dilation_rate[axis] * (self.kernel_size[axis] - 1)
        left = size if self.padding == "same" else size - reach
        if left < 1:
            raise ValueError(
                f"The window of ConvLSTM{self.rank}D reaches over {reach + 1} elements "
                f"of axis {axis}, which has {size}. Received: "
                f"kernel_size={self.kernel_size}, padding={self.padding!r}."
            )
        return math.ceil(left / self.strides[axis])

    def keep_masks(self, batch: int, size: int, training: Any) -> None:
        """Draw what is dropped, for all steps alike, until ``reset_dropout_mask``."""
        del size
        inputs, states = (batch, *self._input_shape), (batch, *self.output_size)
        self._kept = {
            "input": self._draw(self.dropout, inputs, training),
            "state": self._draw(self.recurrent_dropout, states, training),
        }

    def get_initial_state(
        self, inputs: Any = None, batch_size: Any = None, dtype: Any = None
    ) -> Nest:
        """Return the states before the first step: zeros."""
        if inputs is not None:
            batch_size, dtype = inputs.shape[0], inputs.dtype
        shape = (batch_size, *self.output_size)
        return [tf.zeros(shape, dtype or self._compute_kind)] * 2

    def _convolved(
        self, x: Tensor, kernel: Any, masks: list[Tensor] | None, of_input: bool
    ) -> list[Tensor]:
        """Return what x gives to each gate."""
        options: dict[str, Any] = {
            "strides": self.strides if of_input else (1,) * self.rank,
            "padding": self.padding.upper() if of_input else "SAME",
            "dilations": self.dilation_rate if of_input else (1,) * self.rank,
            "data_format": _FORMATS[self.rank][self._axis == 0],
        }
        if masks is None or len(masks) == 1:
            x = x if masks is None else x * masks[0]
            made = tf.nn.convolution(x, kernel, **options)
            return list(tf.split(made, 4, axis=1 + self._axis))
        parts = tf.split(kernel, 4, axis=-1)
        pairs = zip(masks, parts, strict=True)
        return [tf.nn.convolution(x * mask, part, **options) for mask, part in pairs]

    def call(
        self, inputs: Tensor, states: Any, training: Any = None, *_: Any, **kwargs: Any
    ) -> tuple[Tensor, Nest]:
        h, c = states
        masks = self._masks("input", inputs, training)
        of_input = self._convolved(inputs, self.kernel, masks, True)
        masks = self._masks("state", h, training)
        of_state = self._convolved(h, self.recurrent_kernel, masks, False)
        gates = [a + b for a, b in zip(of_input, of_state, strict=True)]
        if self.use_bias:
            shape = [1] * (self.rank + 1)
            shape[self._axis] = self.filters
            biases = tf.split(self.bias.value(), 4)
            gates = [
                gate + tf.reshape(bias, shape)
                for gate, bias in zip(gates, biases, strict=True)
            ]
        i, f, o = (self.recurrent_activation(gates[k]) for k in (0, 1, 3))
        c = f * c + i * self.activation(gates[2])
        h = o * self.activation(c)
        return h, [h, c]


class _ConvLSTM(OwnCell):
    """An LSTM over steps that have one to three spatial axes.

    Args:
        filters: How many channels states and output have.
        kernel_size: Of both convolutions: a number, or one for each spatial axis.
        strides: Of the input's convolution. That of the state keeps its size.
        padding: ``"valid"`` or ``"same"``, of the input's convolution.
        data_format: ``"channels_last"`` or ``"channels_first"``; None for Keras's own.
        dilation_rate: Steps between the elements under the input's window.
        dropout: The part of the input that is dropped in training, by gate.
        recurrent_dropout: The part of the state that is dropped in training, by gate.

    The other arguments are those of :class:`LSTM`.

    Raises:
        ValueError: An argument has not the form that Keras asks for; at the first
            call: sizes after the batch are open, or the window does not fit.
    """

    _rank = 0

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        activation: Any = "tanh",
        recurrent_activation: Any = "hard_sigmoid",
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
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("unroll", False)
        cell = ConvLSTMCell(self._rank, locals())
        cell.implementation = 1  # each gate drops its own part
        super().__init__(cell, locals())
        self.input_spec = InputSpec(ndim=self._rank + 3)


class ConvLSTM1D(_ConvLSTM):
    """An LSTM whose products are convolutions, over steps of sequences.

    Its input is ``(batch, steps, length, channels)``; the
    arguments are those of ``ConvLSTM2D`` of Keras.

    Example:
        >>> ConvLSTM1D(2, 3)(tf.ones((1, 4, 5, 3))).shape
        (1, 3, 2)
    """

    _rank = 1


class ConvLSTM2D(_ConvLSTM):
    """An LSTM whose products are convolutions, over steps of images.

    Its input is ``(batch, steps, height, width, channels)``; the
    arguments are those of ``ConvLSTM2D`` of Keras.

    Example:
        >>> ConvLSTM2D(2, 3)(tf.ones((1, 4, 5, 5, 3))).shape
        (1, 3, 3, 2)
    """

    _rank = 2


class ConvLSTM3D(_ConvLSTM):
    """An LSTM whose products are convolutions, over steps of volumes.

    Its input is ``(batch, steps, depth, height, width, channels)``; the
    arguments are those of ``ConvLSTM2D`` of Keras.

    Example:
        >>> ConvLSTM3D(2, 3)(tf.ones((1, 4, 5, 5, 5, 3))).shape
        (1, 3, 3, 3, 2)
    """

    _rank = 3
