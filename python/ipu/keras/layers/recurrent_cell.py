# SPDX-License-Identifier: MIT
"""What recurrent layers ask of cells, and the base of Keras's own cells.

Source: ``tf.keras.layers`` of Keras 2.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu import tf
from ipu.keras._arguments import KernelAttributes, keep, weight_of
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.base_layer import Layer

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
    """Give the states of a cell before its first step: zeros, unless it says others.

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
    """Give the size of a cell's output: that of its first state unless it says more."""
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
        self.built = True

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
        """One mask for each gate, or one for all; None where nothing is dropped."""
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
        """x times the gates ``parts`` of a kernel; each gate may have its own mask."""
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
        """What the input of a step gives to all gates."""
        masks = self._masks("input", inputs, training)
        x = self._product(inputs, self.kernel, masks, slice(None))
        return x if bias is None else tf.nn.bias_add(x, bias)

    def get_initial_state(
        self, inputs: Any = None, batch_size: Any = None, dtype: Any = None
    ) -> Nest:
        """Give the states before the first step: zeros.

        Args:
            inputs: Where batch size and dtype are taken from, or None.
            batch_size: The number of rows, without ``inputs``.
            dtype: The dtype, without ``inputs``.
        """
        if inputs is not None:
            batch_size, dtype = inputs.shape[0], inputs.dtype
        return _zero_states(self.state_size, batch_size, dtype or self._compute_kind)
