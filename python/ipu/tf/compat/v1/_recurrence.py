# SPDX-License-Identifier: MIT
"""Cells over sequences: ``tf.nn.dynamic_rnn`` and its kin.

All steps are one operation of a graph. An LSTM without further options is the core's op
over all steps, with the columns of its kernel in the core's order; other cells are
called in a loop of as many turns as there are steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu.ops.rnn_ops import LSTMStateTuple
from ipu.tf import nest
from ipu.tf._functions.blocks import part_of_step
from ipu.tf._graph import mode
from ipu.tf._graph.scopes import get_variable_scope, variable_scope
from ipu.tf._ops.recurrent import lstm
from ipu.tf.compat.v1.rnn_cell import LSTMCell, RNNCell


def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Any, Any]:
    """Take a cell over a sequence.

    Args:
        cell: A cell of ``tf.nn.rnn_cell``.
        inputs: ``(batch, steps, size)``, or ``(steps, batch, size)``.
        sequence_length: How many steps of each row count, ``(batch,)``: after them
            outputs are zero, and the state stays. None: all.
        initial_state: The first state; None: zeros.
        dtype: Of the zeros.
        parallel_iterations, swap_memory: Accepted and not used.
        time_major: Whether steps come before the batch.
        scope: The variable scope; None: ``rnn``.

    Returns:
        The outputs of all steps, and the last state.

    Raises:
        ValueError: There is neither a state nor a dtype; the size of the inputs is not
            known.

    Example:
        >>> with v1.Graph().as_default():
        ...     x = v1.placeholder(v1.float32, [None, 5, 3])
        ...     cell = v1.nn.rnn_cell.GRUCell(4)
        ...     outputs, state = v1.nn.dynamic_rnn(cell, x, dtype=v1.float32)
        ...     print(outputs.shape, state.shape)
        (None, 5, 4) (None, 4)
    """
    x = tf.convert_to_tensor(inputs)
    with variable_scope(scope or "rnn"):
        made: tuple[Any, Any] = _over(
            cell, x, sequence_length, initial_state, dtype, time_major, False, False
        )
        return made


def static_rnn(
    cell: Any,
    inputs: Sequence[Any],
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Return the same for a list with an entry for each step.

    Args:
        cell: As for :func:`dynamic_rnn`.
        inputs: A list of ``(batch, size)``.
        initial_state, dtype, sequence_length, scope: As for :func:`dynamic_rnn`.

    Returns:
        A list of outputs, and the last state.

    Example:
        >>> with v1.Graph().as_default():
        ...     steps = v1.unstack(v1.zeros([2, 5, 3]), axis=1)
        ...     cell = v1.nn.rnn_cell.BasicRNNCell(4)
        ...     outputs, state = v1.nn.static_rnn(cell, steps, dtype=v1.float32)
        ...     print(len(outputs), outputs[0].shape)
        5 (2, 4)
    """
    x = _stacked(inputs)
    with variable_scope(scope or "rnn"):
        made: tuple[list[Any], Any] = _over(
            cell, x, sequence_length, initial_state, dtype, True, False, True
        )
        return made


def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Take a cell over a sequence, and another one from its end to its start.

    Args:
        cell_fw: The cell from the start.
        cell_bw: The cell from the end.
        inputs, sequence_length: As for :func:`dynamic_rnn`.
        initial_state_fw: The first state of ``cell_fw``.
        initial_state_bw: The first state of ``cell_bw``.
        dtype: As for :func:`dynamic_rnn`.
        parallel_iterations, swap_memory: Accepted and not used.
        time_major: As for :func:`dynamic_rnn`.
        scope: The variable scope; None: ``bidirectional_rnn``.

    Returns:
        The two outputs, both in the order of the inputs, and the two last states.

    Example:
        >>> with v1.Graph().as_default():
        ...     cells = [v1.nn.rnn_cell.GRUCell(4) for _ in range(2)]
        ...     x = v1.zeros([2, 5, 3])
        ...     both, _ = v1.nn.bidirectional_dynamic_rnn(*cells, x, dtype="float")
        ...     print(v1.concat(both, 2).shape)
        (2, 5, 8)
    """
    x = tf.convert_to_tensor(inputs)
    results = []
    with variable_scope(scope or "bidirectional_rnn"):
        for cell, state, name in (
            (cell_fw, initial_state_fw, "fw"),
            (cell_bw, initial_state_bw, "bw"),
        ):
            with variable_scope(name):
                backwards = name == "bw"
                results.append(
                    _over(
                        cell,
                        x,
                        sequence_length,
                        state,
                        dtype,
                        time_major,
                        backwards,
                        False,
                    )
                )
    forward, backward = results
    return (forward[0], backward[0]), (forward[1], backward[1])


def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Sequence[Any],
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any, Any]:
    """Return the same for a list with an entry for each step.

    Args:
        cell_fw: The cell from the start.
        cell_bw: The cell from the end.
        inputs: A list of ``(batch, size)``.
        initial_state_fw: The first state of ``cell_fw``.
        initial_state_bw: The first state of ``cell_bw``.
        dtype, sequence_length: As for :func:`dynamic_rnn`.
        scope: The variable scope; None: ``bidirectional_rnn``.

    Returns:
        A list of outputs, both side by side, and the two last states.

    Example:
        >>> with v1.Graph().as_default():
        ...     cells = [v1.nn.rnn_cell.GRUCell(4) for _ in range(2)]
        ...     x = [v1.zeros([2, 3])] * 5
        ...     outputs, _, _ = v1.nn.static_bidirectional_rnn(*cells, x, dtype="float")
        ...     print(len(outputs), outputs[0].shape)
        5 (2, 8)
    """
    (there, back), (first, second) = bidirectional_dynamic_rnn(
        cell_fw,
        cell_bw,
        _stacked(inputs),
        sequence_length,
        initial_state_fw,
        initial_state_bw,
        dtype,
        time_major=True,
        scope=scope,
    )
    return list(tf.unstack(tf.concat([there, back], 2), num=len(inputs))), first, second


def _stacked(inputs: Sequence[Any]) -> Any:
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise TypeError(
            "inputs must be a list with a tensor for each step: "
            f"tf.unstack(x, axis=1). Received: {inputs!r}."
        )
    return tf.stack(list(inputs))


def _over(
    cell: Any,
    x: Any,
    lengths: Any,
    state: Any,
    dtype: Any,
    time_major: bool,
    backwards: bool,
    is_list: bool,
) -> Any:
    """Return a cell over all steps, as one operation of the graph."""
    if state is None and dtype is None:
        raise ValueError(
            "If there is no initial_state, you must give a dtype: it is that of the "
            "zeros in the first state."
        )
    if state is None:
        state = cell.zero_state(tf.shape(x)[1 if time_major else 0], dtype)
    if isinstance(cell, RNNCell) and type(cell).build is not RNNCell.build:
        cell.prepare(x)
    else:  # a step that nothing uses makes the variables
        cell(x[0] if time_major else x[:, 0], state)
    scope = get_variable_scope()
    options = (scope, time_major, backwards, is_list)
    return mode.call_or_keep(_steps, (cell, x, lengths, state, options), {}, "while")


def _steps(cell: Any, x: Any, lengths: Any, state: Any, options: Any) -> Any:
    scope, time_major, backwards, is_list = options
    x = x if time_major else _swapped(x)
    count = x.shape[0]
    if backwards:
        x = _reversed(x, lengths)
    if isinstance(cell, LSTMCell) and cell.is_plain:
        outputs, state = _fused(cell, x, lengths, state)
    else:
        outputs, state = _loop(cell, x, lengths, state, scope)
    if backwards:
        outputs = _reversed(outputs, lengths)
    if is_list:
        return list(tf.unstack(outputs, num=count)), state
    return outputs if time_major else _swapped(outputs), state


def _swapped(x: Any) -> Any:
    return tf.transpose(x, [1, 0, *range(2, len(x.shape))])


def _reversed(x: Any, lengths: Any) -> Any:
    if lengths is None:
        return tf.reverse(x, [0])
    return tf.reverse_sequence(x, lengths, seq_axis=0, batch_axis=1)


def _fused(cell: LSTMCell, x: Any, lengths: Any, state: Any) -> Any:
    """Run all steps as one op, whose gates lie as i, f, c, o; the cell's as i, c, f,
    o."""
    units = cell.units

    def ordered(gates: Any) -> Any:
        i, j, f, o = tf.split(gates, 4, -1)
        return tf.concat([i, f, j, o], -1)

    kernel = ordered(tf.convert_to_tensor(cell.kernel))
    bias = tf.concat(
        [
            part + cell.forget_bias if gate == 2 else part
            for gate, part in enumerate(tf.split(tf.convert_to_tensor(cell.bias), 4))
        ],
        0,
    )
    size = x.shape[2]
    given = tf.matmul(tf.reshape(x, [-1, size]), kernel[:size])
    given = tf.nn.bias_add(given, ordered(bias))
    given = tf.reshape(given, [x.shape[0], x.shape[1], 4 * units])
    is_tuple = isinstance(state, (tuple, list))
    c, h = state if is_tuple else tf.split(state, 2, 1)
    mask = None
    if lengths is not None:
        live = tf.sequence_mask(lengths, int(x.shape[0]))
        mask = tf.transpose(live)
    made = lstm(given, kernel[size:], h, c, mask, time_major=True)
    outputs = made.steps
    if mask is not None:
        outputs = tf.where(tf.expand_dims(mask, -1), outputs, tf.zeros_like(outputs))
    if is_tuple:
        return outputs, LSTMStateTuple(made.c, made.h)
    return outputs, tf.concat([made.c, made.h], 1)


@part_of_step()
def _loop(cell: Any, x: Any, lengths: Any, state: Any, scope: Any) -> Any:
    """Return the cell in a loop."""
    count, batch = int(x.shape[0]), x.shape[1]
    rows = tf.zeros([count, batch, int(cell.output_size)], x.dtype)

    def turn(k: Any, rows: Any, *flat: Any) -> Any:
        before = nest.pack_sequence_as(state, list(flat))
        with variable_scope(scope, reuse=True):
            output, after = cell(x[k], before)
        if lengths is not None:
            live = tf.expand_dims(k < tf.cast(lengths, tf.int32), 1)
            output = tf.where(live, output, tf.zeros_like(output))
            after = nest.map_structure(
                lambda new, old: tf.where(live, new, old), after, before
            )
        rows = tf.tensor_scatter_nd_update(
            rows, tf.reshape(k, (1, 1)), tf.expand_dims(output, 0)
        )
        return (k + 1, rows, *nest.flatten(after))

    found = tf.while_loop(
        lambda k, *_: k < count,
        turn,
        (tf.constant(0), rows, *nest.flatten(state)),
        maximum_iterations=count,
    )
    return found[1], nest.pack_sequence_as(state, list(found[2:]))
