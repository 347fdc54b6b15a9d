# SPDX-License-Identifier: MIT
"""``tf.compat.v1.nn.rnn_cell``: one step of a recurrent layer, as an object.

A cell makes its variables when it is first called, in the variable scope that is in
force then. Steps over a sequence are taken by ``tf.nn.dynamic_rnn`` and its kin.

Example:
    >>> from ipu.tf.compat import v1
    >>> with v1.Graph().as_default():
    ...     cell = v1.nn.rnn_cell.BasicLSTMCell(4)
    ...     output, state = cell(v1.zeros([2, 3]), cell.zero_state(2, v1.float32))
    ...     print(output.shape, state.c.shape, [v.name for v in cell.variables])
    (2, 4) (2, 4) ['basic_lstm_cell/kernel:0', 'basic_lstm_cell/bias:0']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ipu import tf
from ipu._text.exports import defined, export
from ipu._text.refusals import refuse_given
from ipu.ops.rnn_ops import LSTMStateTuple as LSTMStateTuple
from ipu.tf import nest
from ipu.tf._graph.scopes import get_variable, variable_scope
from ipu.tf.compat.v1._dropout import drop

Activation = Callable[[Any], Any]


def _last_size(shape: Any, cell: RNNCell) -> int:
    size = shape[-1] if len(shape) else None
    if size is None:
        raise ValueError(
            f"Expected inputs.shape[-1] to be known, saw shape: {shape}. "
            f"{type(cell).__name__} needs it for the shapes of its variables: give the "
            "placeholder a shape, with None for sizes that vary."
        )
    return int(size)


def _snake(name: str) -> str:
    """Return ``BasicLSTMCell`` as ``basic_lstm_cell``."""
    border = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
    return re.sub(border, "_", name).lower()


class RNNCell:
    """One step; a cell of your own overrides ``call`` and the two sizes.

    Args:
        name: The variable scope; None: after the class.
        dtype: Of the variables; None: that of the inputs.
        reuse: Whether the variables have to be there already.
        trainable: Whether optimizers take the variables by default.

    Example:
        >>> class Adder(v1.nn.rnn_cell.RNNCell):
        ...     state_size = output_size = 2
        ...     def call(self, inputs, state):
        ...         return inputs + state, inputs + state
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     ones = v1.ones([1, 3, 2])
        ...     outputs, _ = v1.nn.dynamic_rnn(Adder(), ones, dtype=v1.float32)
        ...     print(session.run(outputs)[0, :, 0])
        [1. 2. 3.]
    """

    def __init__(
        self,
        name: str | None = None,
        dtype: Any = None,
        reuse: Any = None,
        trainable: bool = True,
    ) -> None:
        self.name = name or _snake(type(self).__name__)
        self.trainable = trainable
        self._dtype = dtype
        self._reuse = reuse
        self._variables: list[Any] = []
        self.built = False

    # a subclass may not call __init__
    _reuse: Any = None
    _dtype: Any = None
    _variables: Sequence[Any] = ()
    built = False
    trainable = True

    @property
    def state_size(self) -> Any:
        """The size of the state, or a nest of them."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self) -> int:
        """The size of the output."""
        raise NotImplementedError("Abstract method")

    @property
    def variables(self) -> list[Any]:
        """The variables, once it was called."""
        return list(self._variables)

    weights = variables

    @property
    def trainable_variables(self) -> list[Any]:
        """Those that optimizers take by default."""
        return [variable for variable in self._variables if variable.trainable]

    trainable_weights = trainable_variables

    def build(self, inputs_shape: Any) -> None:
        """Make the variables; in the cell's own scope."""

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return one step: the output and the next state."""
        raise NotImplementedError("Abstract method")

    def prepare(self, inputs: Any) -> None:
        """Make the variables for inputs like these, where they are not there."""
        if not self.built:
            with self._scope(None):
                self.build(inputs.shape)
            self.built = True

    def _scope(self, scope: Any) -> Any:
        name = getattr(self, "name", None) or _snake(type(self).__name__)
        return variable_scope(scope or name, reuse=self._reuse)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Take a step.

        Args:
            inputs: ``(batch, size)``.
            state: The state before it.
            scope: The variable scope of the first call; None: the cell's name.

        Returns:
            The output and the state after it.
        """
        inputs = tf.convert_to_tensor(inputs)
        with self._scope(scope):
            if not self.built:
                self.build(inputs.shape)
                self.built = True
            return self.call(inputs, state)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return a state of zeros.

        Args:
            batch_size: A number, or a tensor of it.
            dtype: Of the state.
        """
        return nest.map_structure(
            lambda size: tf.zeros([batch_size, int(size)], dtype), self.state_size
        )

    def _kernel(self, name: str, shape: Sequence[int], first: Any) -> Any:
        made = get_variable(
            name, list(shape), self._dtype, first, trainable=self.trainable
        )
        self._variables = [*self._variables, made]
        return made


class BasicRNNCell(RNNCell):
    """``output = state = tanh([inputs, state] @ kernel + bias)``.

    Args:
        num_units: The size of the state.
        activation: In place of tanh.
        reuse, name, dtype: As for :class:`RNNCell`.

    Example:
        >>> BasicRNNCell(3).state_size
        3
    """

    def __init__(
        self,
        num_units: int,
        activation: Activation | None = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name, dtype, reuse)
        self._units = int(num_units)
        self._activation = activation or tf.tanh

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._units

    def build(self, inputs_shape: Any) -> None:
        """Make the variables."""
        size = _last_size(inputs_shape, self) + self._units
        self.kernel = self._kernel("kernel", [size, self._units], None)
        self.bias = self._kernel("bias", [self._units], "zeros")

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return one step."""
        made = tf.matmul(tf.concat([inputs, state], 1), self.kernel)
        output = self._activation(tf.nn.bias_add(made, self.bias))
        return output, output


class GRUCell(RNNCell):
    """A gated recurrent unit, with the reset gate in front of the product.

    Args:
        num_units: The size of the state.
        activation: Of the candidate; None: tanh.
        reuse: As for :class:`RNNCell`.
        kernel_initializer: Of both kernels; None: the variable scope's.
        bias_initializer: Of both biases; None: ones for the gates, zeros.
        name, dtype: As for :class:`RNNCell`.

    Example:
        >>> GRUCell(3).output_size
        3
    """

    def __init__(
        self,
        num_units: int,
        activation: Activation | None = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name, dtype, reuse)
        self._units = int(num_units)
        self._activation = activation or tf.tanh
        self._first = kernel_initializer, bias_initializer

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._units

    def build(self, inputs_shape: Any) -> None:
        """Make the variables."""
        units = self._units
        size = _last_size(inputs_shape, self) + units
        kernel, bias = self._first
        gate_bias = "ones" if bias is None else bias
        self.gate_kernel = self._kernel("gates/kernel", [size, 2 * units], kernel)
        self.gate_bias = self._kernel("gates/bias", [2 * units], gate_bias)
        self.candidate_kernel = self._kernel("candidate/kernel", [size, units], kernel)
        self.candidate_bias = self._kernel("candidate/bias", [units], bias or "zeros")

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return one step."""
        gates = tf.matmul(tf.concat([inputs, state], 1), self.gate_kernel)
        gates = tf.sigmoid(tf.nn.bias_add(gates, self.gate_bias))
        reset, update = tf.split(gates, 2, 1)
        made = tf.concat([inputs, reset * state], 1)
        made = tf.nn.bias_add(
            tf.matmul(made, self.candidate_kernel), self.candidate_bias
        )
        output = update * state + (1.0 - update) * self._activation(made)
        return output, output


class LSTMCell(RNNCell):
    """A long short-term memory.

    Args:
        num_units: The size of the memory.
        use_peepholes: Whether gates see the memory.
        cell_clip: The bound that the memory is clipped to, or None.
        initializer: Of the kernels; None: the variable scope's.
        num_proj: The size that the output is projected to, or None.
        proj_clip: The bound that the projected output is clipped to, or None.
        num_unit_shards, num_proj_shards: Accepted and not used.
        forget_bias: Added to the forget gate.
        state_is_tuple: Whether the state is an ``LSTMStateTuple``; else both halves lie
            side by side.
        activation: None: tanh.
        reuse, name, dtype: As for :class:`RNNCell`.

    Example:
        >>> LSTMCell(3, num_proj=2).state_size
        LSTMStateTuple(c=3, h=2)
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: Any = None,
        num_proj_shards: Any = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation | None = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name, dtype, reuse)
        self.units = int(num_units)
        self.forget_bias = forget_bias
        self._peepholes = use_peepholes
        self._clip = cell_clip
        self._initializer = initializer
        self._projected = num_proj
        self._projection_clip = proj_clip
        self._is_tuple = state_is_tuple
        self._activation = activation

    @property
    def state_size(self) -> Any:
        """The sizes of memory and output, or their sum."""
        size = LSTMStateTuple(self.units, self.output_size)
        return size if self._is_tuple else sum(size)

    @property
    def output_size(self) -> int:
        """The size of the output."""
        return self._projected or self.units

    @property
    def is_plain(self) -> bool:
        """Whether it is what the core has as one op over all steps."""
        is_bare = not self._peepholes and self._clip is None and not self._projected
        return is_bare and self._activation in (None, tf.tanh, tf.nn.tanh)

    def build(self, inputs_shape: Any) -> None:
        """Make the variables."""
        units = self.units
        size = _last_size(inputs_shape, self) + self.output_size
        self.kernel = self._kernel("kernel", [size, 4 * units], self._initializer)
        self.bias = self._kernel("bias", [4 * units], "zeros")
        if self._peepholes:
            names = ("w_f_diag", "w_i_diag", "w_o_diag")
            self.diagonals = [
                self._kernel(name, [units], self._initializer) for name in names
            ]
        if self._projected:
            self.projection = self._kernel(
                "projection/kernel", [units, self._projected], self._initializer
            )

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return one step."""
        act = self._activation or tf.tanh
        if self._is_tuple:
            c, h = state
        else:
            c, h = tf.split(state, [self.units, self.output_size], 1)
        gates = tf.matmul(tf.concat([inputs, h], 1), self.kernel)
        i, j, f, o = tf.split(tf.nn.bias_add(gates, self.bias), 4, 1)
        f = f + self.forget_bias
        if self._peepholes:
            f = f + self.diagonals[0] * c
            i = i + self.diagonals[1] * c
        new_c = tf.sigmoid(f) * c + tf.sigmoid(i) * act(j)
        if self._clip is not None:
            new_c = tf.clip_by_value(new_c, -self._clip, self._clip)
        if self._peepholes:
            o = o + self.diagonals[2] * new_c
        new_h = tf.sigmoid(o) * act(new_c)
        if self._projected:
            new_h = tf.matmul(new_h, self.projection)
            if self._projection_clip is not None:
                most = self._projection_clip
                new_h = tf.clip_by_value(new_h, -most, most)
        if self._is_tuple:
            return new_h, LSTMStateTuple(new_c, new_h)
        return new_h, tf.concat([new_c, new_h], 1)


class BasicLSTMCell(LSTMCell):
    """A long short-term memory without further options.

    Args:
        num_units: The size of the memory.
        forget_bias, state_is_tuple, activation: As for :class:`LSTMCell`.
        reuse, name, dtype: As for :class:`RNNCell`.

    Example:
        >>> BasicLSTMCell(3).state_size
        LSTMStateTuple(c=3, h=3)
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation | None = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_units,
            forget_bias=forget_bias,
            state_is_tuple=state_is_tuple,
            activation=activation,
            reuse=reuse,
            name=name,
            dtype=dtype,
        )


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
        """Return one step."""
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
        """Return the zero state of the cell."""
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


export(__name__, defined(__name__, ["LSTMStateTuple"]))
