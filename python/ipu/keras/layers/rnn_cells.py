# SPDX-License-Identifier: MIT
"""Cells: one step of a recurrent layer.

A cell takes the input of a step and the states before it, and gives its output and the
states after it. The layers that go through all steps are in ``recurrent`` and ``rnn``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu.keras import _functions, _serialization
from ipu.keras._arguments import KernelAttributes, keep, weight_of
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.base_layer import Layer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import CellOptions, PlainLayerOptions

__all__ = ["GRUCell", "LSTMCell", "SimpleRNNCell", "StackedRNNCells"]

# the arguments that all cells, and the layers around them, have
CELL_SETTINGS = frozenset(
    {"activation", "recurrent_activation", "use_bias", "dropout", "recurrent_dropout"}
    | {
        f"{weight}_{kind}"
        for weight in ("kernel", "recurrent", "bias")
        for kind in ("initializer", "regularizer", "constraint")
    }
)


def first_states(cell: Any, batch_size: int, dtype: Any) -> Nest:
    """Return the states of a cell before its first step: zeros, unless it says others.

    Args:
        cell: A cell; its ``get_initial_state`` is asked where it has one.
        batch_size: The number of rows.
        dtype: Their dtype.
    """
    own = getattr(cell, "get_initial_state", None)
    if own is not None:
        return own(inputs=None, batch_size=batch_size, dtype=dtype)
    return _zero_states(cell.state_size, batch_size, dtype)


def _zero_states(sizes: Any, batch_size: int, dtype: Any) -> Nest:
    if isinstance(sizes, (list, tuple)) and not isinstance(sizes, tf.TensorShape):
        return [_zero_states(size, batch_size, dtype) for size in sizes]
    shape = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return tf.zeros((batch_size, *shape), dtype)


def output_size_of(cell: Any) -> Any:
    """Return the size of a cell's output: that of its first state unless it says
    more."""
    size = getattr(cell, "output_size", None)
    if size is None:
        size = cell.state_size
        size = size[0] if isinstance(size, (list, tuple)) else size
    return size


def step(
    cell: Any, inputs: Tensor, states: Nest, training: Any, constants: Any = None
) -> tuple[Tensor, Nest]:
    """Make a step with any cell.

    Args:
        cell: A layer, or an object with ``call``.
        inputs: The input of the step.
        states: The states before it, as the cell has them.
        training: Whether this is training; for cells that ask.
        constants: Further tensors that are the same for all steps, or None.

    Returns:
        The output, and the states after the step.
    """
    more = {} if constants is None else {"constants": constants}
    result: tuple[Tensor, Nest]
    if isinstance(cell, Layer):
        call: Any = cell
        result = call(inputs, states, training=training, **more)
    else:
        result = cell.call(inputs, states, **more)
    return result


class RecurrentCell(Layer, KernelAttributes):
    """What the cells of Keras have in common: a kernel for the input, one for the
    state, a bias, and dropout of either.

    Args:
        arguments: The ``locals()`` of a subclass's constructor.
        units: How long the output is.

    Raises:
        ValueError: ``units`` is not positive.
    """

    gates = 1  # how many parts of `units` columns the kernels have

    # those of the state's kernel are called after it alone
    recurrent_initializer: Any
    recurrent_regularizer: Any
    recurrent_constraint: Any
    recurrent_activation: Any

    def __init__(self, arguments: Mapping[str, Any], units: int, /) -> None:
        super().__init__(**arguments["kwargs"])
        if isinstance(units, bool) or int(units) != units or units <= 0:
            raise ValueError(
                "Received an invalid value for argument `units`, expected a positive "
                f"integer, got {units}."
            )
        names = CELL_SETTINGS & arguments.keys()
        keep(self, {name: arguments[name] for name in names})
        self.units = int(units)
        self.dropout = min(1.0, max(0.0, float(arguments["dropout"])))
        self.recurrent_dropout = min(1.0, max(0.0, arguments["recurrent_dropout"]))
        self.dropout_seed: int | None = None
        self.state_size: Any = self.units
        self.output_size: Any = self.units
        self.kernel: Any = None
        self.recurrent_kernel: Any = None
        self.bias: Any = None
        self._kept: dict[str, list[Tensor] | None] = {}

    def build(self, input_shape: Any) -> None:
        """Create the weights for an input of this shape.

        Raises:
            ValueError: The last size is open.
        """
        size = input_shape[-1]
        if size is None:
            raise ValueError(
                f"The last dimension of the inputs to `{type(self).__name__}` should "
                f"be defined. Received: input_shape={tuple(input_shape)}."
            )
        columns = self.gates * self.units
        self.kernel = self._weight("kernel", (size, columns), "kernel")
        shape = (self.units, columns)
        self.recurrent_kernel = self._weight("recurrent_kernel", shape, "recurrent")
        if self.use_bias:
            self.bias = self._weight("bias", self._bias_shape, "bias")

    def _weight(self, name: str, shape: tuple[int, ...], kind: str) -> Any:
        return weight_of(self, name, shape, kind)

    @property
    def _bias_shape(self) -> tuple[int, ...]:
        return (self.gates * self.units,)

    # --- dropout ------------------------------------------------------------------

    def keep_masks(self, batch: int, size: int, training: Any) -> None:
        """Draw what is dropped, for all steps alike, until ``reset_dropout_mask``.

        Args:
            batch: The number of rows.
            size: How long the input of a step is.
            training: Nothing is dropped where it is false.
        """
        self._kept = {
            "input": self._draw(self.dropout, (batch, size), training),
            "state": self._draw(self.recurrent_dropout, (batch, self.units), training),
        }

    def reset_dropout_mask(self) -> None:
        """Let go of what ``keep_masks`` drew: each further step draws its own."""
        self._kept = {}

    def _draw(
        self, rate: float, shape: tuple[int, ...], training: Any
    ) -> list[Tensor] | None:
        """Return one mask for each gate, or one for all; None where nothing is
        dropped."""
        if not training or rate == 0:
            return None
        count = self.gates if getattr(self, "implementation", 2) == 1 else 1
        ones = tf.ones(shape, self._compute_kind)
        seed = self.dropout_seed
        return [tf.nn.dropout(ones, rate, seed=seed) for _ in range(count)]

    def _masks(self, which: str, x: Tensor, training: Any) -> list[Tensor] | None:
        if which in self._kept:
            return self._kept[which]
        rate = self.dropout if which == "input" else self.recurrent_dropout
        return self._draw(rate, tuple(x.shape), training)

    def _product(
        self, x: Tensor, kernel: Any, masks: list[Tensor] | None, parts: slice
    ) -> Tensor:
        """Return x times the gates ``parts`` of a kernel; each gate may have its own
        mask."""
        n = self.units
        first, last, _ = parts.indices(self.gates)
        if masks is None or len(masks) == 1:
            columns = kernel
            if (first, last) != (0, self.gates):
                columns = kernel[:, first * n : last * n]
            return tf.matmul(x if masks is None else x * masks[0], columns)
        products = [
            tf.matmul(x * masks[gate], kernel[:, gate * n : (gate + 1) * n])
            for gate in range(first, last)
        ]
        return tf.concat(products, -1)

    def _inputs_part(self, inputs: Tensor, bias: Any, training: Any) -> Tensor:
        """Return what the input of a step gives to all gates."""
        masks = self._masks("input", inputs, training)
        x = self._product(inputs, self.kernel, masks, slice(None))
        return x if bias is None else tf.nn.bias_add(x, bias)

    def get_initial_state(
        self, inputs: Any = None, batch_size: Any = None, dtype: Any = None
    ) -> Nest:
        """Return the states before the first step: zeros.

        Args:
            inputs: Where batch size and dtype are taken from, or None.
            batch_size: The number of rows, without ``inputs``.
            dtype: The dtype, without ``inputs``.
        """
        if inputs is not None:
            batch_size, dtype = inputs.shape[0], inputs.dtype
        return _zero_states(self.state_size, batch_size, dtype or self._compute_kind)


class SimpleRNNCell(RecurrentCell):
    """``h' = activation(x kernel + bias + h recurrent_kernel)``.

    The arguments are those of :class:`LSTMCell`, except what is about its gates.

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
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(locals(), units)

    def call(
        self, inputs: Tensor, states: Any, training: Any = None, *_: Any, **kwargs: Any
    ) -> tuple[Tensor, Nest]:
        (h,) = states if isinstance(states, (list, tuple)) else (states,)
        x = self._inputs_part(inputs, self.bias, training)
        masks = self._masks("state", h, training)
        sums = x + self._product(h, self.recurrent_kernel, masks, slice(None))
        output = self.activation(sums)
        return output, [output] if isinstance(states, (list, tuple)) else output


class GRUCell(RecurrentCell):
    """A gated recurrent unit (Cho et al. 2014).

    Args:
        activation: Of the candidate: a name, or a function of a tensor.
        recurrent_activation: Of the gates z (update) and r (reset).
        reset_after: Whether the reset gate is applied after the product with the
            state's kernel, which then has a bias of its own, or before it.

    The other arguments are those of :class:`LSTMCell`.

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
        **kwargs: Unpack[CellOptions],
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
        kernel_initializer, recurrent_initializer, bias_initializer: First values of the
            input's kernel, the state's kernel and the bias.
        unit_forget_bias: Whether the bias of gate f starts from ones.
        kernel_regularizer, recurrent_regularizer, bias_regularizer: Penalties on them.
        kernel_constraint, recurrent_constraint, bias_constraint: The constraints of
            them after each update.
        dropout: The part of the input that is dropped in training.
        recurrent_dropout: The part of h that is dropped in training.
        **kwargs: The arguments of ``Layer``, and ``implementation``: with 1 each gate
            drops its own part, with 2 (the default) all drop the same.

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
        **kwargs: Unpack[CellOptions],
    ) -> None:
        implementation = kwargs.pop("implementation", 2)
        super().__init__(locals(), units)
        self.implementation = _checked(implementation)
        self.unit_forget_bias = unit_forget_bias
        self.state_size = [self.units, self.units]

    def call(
        self, inputs: Tensor, states: Any, training: Any = None, *_: Any, **kwargs: Any
    ) -> tuple[Tensor, Nest]:
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

    Raises:
        ValueError: One of them has no ``call``, or no ``state_size``.

    Example:
        >>> from ipu.keras.layers import RNN
        >>> RNN(StackedRNNCells([LSTMCell(3), LSTMCell(2)]))(tf.ones((4, 5, 6))).shape
        (4, 2)
    """

    def __init__(
        self, cells: Sequence[Any], **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
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
        return tuple(cell.state_size for cell in self.cells)

    @property
    def output_size(self) -> Any:
        """The size of the last cell's output."""
        return output_size_of(self.cells[-1])

    def get_initial_state(
        self, inputs: Any = None, batch_size: Any = None, dtype: Any = None
    ) -> Nest:
        """Return the first states of all cells, a list or tensor for each."""
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
        for cell in self.cells:
            if hasattr(cell, "reset_dropout_mask"):
                cell.reset_dropout_mask()

    def build(self, input_shape: Any) -> None:
        shape = tuple(input_shape)
        for cell in self.cells:
            if isinstance(cell, Layer) and not cell.built:
                cell._weight_scope = self._weight_scope
                cell.build(shape)
            shape = (shape[0], output_size_of(cell))

    def call(
        self, inputs: Tensor, states: Any, training: Any = None, *_: Any, **kwargs: Any
    ) -> tuple[Tensor, Nest]:
        found = []
        for cell, own in zip(self.cells, states, strict=True):
            inputs, after = step(cell, inputs, own, training, kwargs.get("constants"))
            found.append(after)
        return inputs, tuple(found)

    def get_config(self) -> dict[str, Any]:
        cells = [_serialization.serialize_keras_object(cell) for cell in self.cells]
        return {**super().get_config(), "cells": cells}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        cells, make = config["cells"], _functions.make_layer
        made = [make(cell, custom_objects) for cell in cells]
        return cls(**{**config, "cells": made})
