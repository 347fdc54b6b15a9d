# SPDX-License-Identifier: MIT
"""The cells of ``tf.nn.rnn_cell`` that are made of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu._text.refusals import refuse_given
from ipu.ops.rnn_ops import LSTMStateTuple
from ipu.tf import nest
from ipu.tf.compat.v1._cells import RNNCell
from ipu.tf.compat.v1._dropout import drop
from ipu.tf.compat.v1._variables import variable_scope


class MultiRNNCell(RNNCell):
    """Cells on top of each other.

    Args:
        cells: The cells, the lowest one first.
        state_is_tuple: Must be True: the state is a tuple of theirs.

    Raises:
        ValueError: There are no cells, or ``state_is_tuple`` is False.

    Example:
        >>> cells = [v1.nn.rnn_cell.GRUCell(size) for size in (3, 2)]
        >>> MultiRNNCell(cells).state_size
        (3, 2)
    """

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not state_is_tuple:
            raise ValueError(
                "state_is_tuple=False is not there: the state is a tuple of those of "
                "the cells."
            )
        if len({id(cell) for cell in cells}) < len(cells):
            raise ValueError(
                "The same cell object is there twice, and its variables would be "
                "shared. Make one cell for each layer: "
                "[make_cell() for _ in range(layers)]."
            )
        self._cells = list(cells)

    @property
    def state_size(self) -> tuple[Any, ...]:
        """Those of the cells."""
        return tuple(cell.state_size for cell in self._cells)

    @property
    def output_size(self) -> int:
        """That of the last cell."""
        return int(self._cells[-1].output_size)

    @property
    def variables(self) -> list[Any]:
        """Those of the cells."""
        return [variable for cell in self._cells for variable in cell.variables]

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        after = []
        for index, (cell, before) in enumerate(zip(self._cells, state, strict=True)):
            with variable_scope(f"cell_{index}"):
                inputs, new = cell(inputs, before)
            after.append(new)
        return inputs, tuple(after)


class DropoutWrapper(RNNCell):
    """A cell whose inputs and outputs are dropped in part.

    Args:
        cell: The cell.
        input_keep_prob: The share of the inputs that is kept, a number or a tensor.
        output_keep_prob: The same of the outputs.
        state_keep_prob: The same of the state that goes to the next step; of an
            ``LSTMStateTuple`` h alone.
        variational_recurrent: Must be False.
        input_size, dtype: Accepted and not used.
        seed: Of the random numbers.

    Raises:
        NotImplementedError: ``variational_recurrent``.

    Example:
        >>> cell = v1.nn.rnn_cell.GRUCell(3)
        >>> DropoutWrapper(cell, output_keep_prob=0.5).output_size
        3
    """

    def __init__(
        self,
        cell: Any,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        refuse_given(
            f"{__name__}.DropoutWrapper", variational_recurrent=variational_recurrent
        )
        self._cell = cell
        self._kept = input_keep_prob, output_keep_prob, state_keep_prob
        self._seed = seed

    @property
    def state_size(self) -> Any:
        """That of the cell."""
        return self._cell.state_size

    @property
    def output_size(self) -> int:
        """That of the cell."""
        return int(self._cell.output_size)

    @property
    def variables(self) -> list[Any]:
        """Those of the cell."""
        return list(self._cell.variables)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """That of the cell."""
        return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Take a step."""
        of_inputs, of_outputs, of_state = self._kept
        output, after = self._cell(self._drop(inputs, of_inputs), state, scope)
        if isinstance(after, LSTMStateTuple):
            after = LSTMStateTuple(after.c, self._drop(after.h, of_state))
        else:
            after = nest.map_structure(lambda one: self._drop(one, of_state), after)
        return self._drop(output, of_outputs), after

    def _drop(self, x: Any, kept: Any) -> Any:
        if not tf.is_tensor(kept) and kept == 1.0:
            return x
        return drop(x, 1.0 - kept, None, self._seed)
