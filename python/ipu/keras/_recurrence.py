# SPDX-License-Identifier: MIT
"""``rnn``: a function applied to all steps, each with the states of the one before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ipu import tf
from ipu._text.arguments import checked_tensor
from ipu.keras._types import Nest, Tensor


class Steps(NamedTuple):
    """The results of a pass over all steps.

    Attributes:
        outputs: The outputs, as the input lies; None where nobody asked for them.
        last: The last output.
        states: The last states.
    """

    outputs: Nest
    last: Nest
    states: Nest


def rnn(
    step_function: Callable[[Any, Any], tuple[Any, Any]],
    inputs: Any,
    initial_states: Any,
    go_backwards: bool = False,
    mask: Any = None,
    constants: Any = None,
    unroll: bool = False,
    input_length: int | None = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
    return_all_outputs: bool = True,
) -> tuple[Any, Any, Any]:
    """Apply a function to all steps of series, one after the other.

    Args:
        step_function: It takes the inputs of a step and the list of states, the
            constants after them, and returns the output, a tensor or a nest, and the
            states after the step.
        inputs: A tensor ``(batch, steps, ...)``, or a nest of those.
        initial_states: The list of states before the first step.
        go_backwards: Whether to begin with the last step; the outputs lie in the order
            in which they are made.
        mask: Bool ``(batch, steps)`` or ``(batch, steps, 1)``: where it is false the
            states stay, and the output is the one before.
        constants: Tensors that are the same for all steps.
        unroll: Whether the steps are copies of the function instead of a loop.
        input_length: Accepted and not used: the number of steps is that of the inputs.
        time_major: Whether steps come before the batch, also in the mask and outputs.
        zero_output_for_mask: Whether the output of a masked step is 0.
        return_all_outputs: Whether the second result has all steps; else the last one
            alone, as one step.

    Returns:
        The last output, the outputs of all steps, and the states after the last one.

    Raises:
        ValueError: ``step_function`` is not one; inputs have no axis of steps, no
            step, or other steps than the mask or than each other.

    Source: ``tf.keras.backend.rnn``.

    Example:
        >>> def add(x, states):
        ...     return states[0] + x, [states[0] + x]
        >>> last, sums, states = rnn(add, tf.ones((2, 3, 1)), [tf.zeros((2, 1))])
        >>> sums[0, :, 0].numpy().tolist()
        [1.0, 2.0, 3.0]
    """
    del input_length
    if not callable(step_function):
        raise ValueError(
            "rnn takes a function of a step's inputs and the states before it. "
            f"Received: step_function={step_function!r}."
        )
    inputs = tf.nest.map_structure(partial(checked_tensor, "inputs"), inputs)
    leading = {tuple(x.shape)[:2] for x in tf.nest.flatten(inputs)}
    order = "(steps, batch, ...)" if time_major else "(batch, steps, ...)"
    counts = {sizes[0 if time_major else 1] for sizes in leading if len(sizes) == 2}
    if len(leading) != 1 or counts in (set(), {0}):
        shapes = [tuple(x.shape) for x in tf.nest.flatten(inputs)]
        raise ValueError(
            f"rnn takes inputs of shape {order} with one or more steps, all of one "
            f"batch and of as many steps. Received shapes: {shapes}."
        )
    if mask is not None:
        mask = tf.cast(mask, "bool")
        if len(mask.shape) == 3 and mask.shape[2] == 1:
            mask = mask[:, :, 0]
        if {tuple(mask.shape)} != leading:
            raise ValueError(
                f"The mask of rnn has the two first axes of its inputs, {order}="
                f"{min(leading)}. Received: mask of shape {tuple(mask.shape)}."
            )
    more = list(constants or ())

    def step(x: Nest, states: Nest) -> tuple[Nest, Nest]:
        return step_function(x, [*states, *more])

    made = all_steps(
        step,
        inputs,
        list(initial_states),
        mask=mask,
        go_backwards=go_backwards,
        unroll=unroll,
        time_major=time_major,
        zero_output_for_mask=zero_output_for_mask,
        all_outputs=return_all_outputs,
    )
    outputs = made.outputs
    if outputs is None:
        axis = 0 if time_major else 1
        outputs = tf.nest.map_structure(lambda x: tf.expand_dims(x, axis), made.last)
    return made.last, outputs, made.states


def all_steps(
    step: Callable[[Nest, Nest], tuple[Nest, Nest]],
    inputs: Nest,
    states: Nest,
    *,
    mask: Tensor | None,
    go_backwards: bool,
    unroll: bool,
    time_major: bool,
    zero_output_for_mask: bool,
    all_outputs: bool,
    output: Nest = None,
) -> Steps:
    """Go through all steps, as a loop on the device or as copies of the step.

    Args:
        step: It takes the inputs of a step and the states, and returns the output and
            the states after it.
        inputs: Tensors of the batch and the steps, or of the steps and the batch.
        states: A list of states.
        mask: Bool, of the first two axes of the inputs; or None.
        go_backwards: See ``rnn``, as for the next three.
        unroll: See ``rnn``.
        time_major: See ``rnn``.
        zero_output_for_mask: See ``rnn``.
        all_outputs: Whether the outputs of all steps are asked for.
        output: Zeros like an output; None where only the step itself can tell: the
            first one is a copy then, before the loop.
    """
    x = inputs if time_major else tf.nest.map_structure(_swapped, inputs)
    if mask is not None and not time_major:
        mask = _swapped(mask)
    if go_backwards:
        x = tf.nest.map_structure(lambda each: tf.reverse(each, [0]), x)
        mask = None if mask is None else tf.reverse(mask, [0])
    count = int(tf.nest.flatten(x)[0].shape[0])

    def one(k: Any, before: Nest, last: Nest) -> tuple[Nest, Nest]:
        made, after = step(tf.nest.map_structure(lambda each: each[k], x), before)
        after = tf.nest.pack_sequence_as(before, tf.nest.flatten(after))
        if mask is None:
            return made, after
        if last is None or zero_output_for_mask:
            last = tf.nest.map_structure(tf.zeros_like, made)
        choose = partial(_chosen, mask[k])
        return (
            tf.nest.map_structure(choose, made, last),
            tf.nest.map_structure(choose, after, before),
        )

    copies = count if unroll else 0 if output is not None else 1
    made = []
    for k in range(copies):
        output, states = one(k, states, output)
        made.append(output)

    def rows_of(like: Tensor, *before: Tensor) -> Tensor:
        """Return the rows of the copies, and zeros for those of the loop."""
        rows = [] if not before else [tf.stack(before, 0)]
        if copies < count:
            rows.append(tf.zeros((count - copies, *like.shape), like.dtype))
        return rows[0] if len(rows) == 1 else tf.concat(rows, 0)

    outputs = tf.nest.map_structure(rows_of, output, *made) if all_outputs else None
    if copies < count:
        outputs, output, states = _loop(one, copies, count, outputs, output, states)
    if outputs is not None and not time_major:
        outputs = tf.nest.map_structure(_swapped, outputs)
    return Steps(outputs, output, states)


def _loop(
    one: Callable[[Any, Nest, Nest], tuple[Nest, Nest]],
    first: int,
    count: int,
    rows: Nest,
    output: Nest,
    states: Nest,
) -> tuple[Nest, Nest, Nest]:
    parts = ([] if rows is None else rows, output, states)

    def turn(k: Tensor, *flat: Tensor) -> Any:
        rows, output, states = tf.nest.pack_sequence_as(parts, list(flat))
        made, after = one(k, states, output)
        place = tf.reshape(k, (1, 1))
        pairs = zip(tf.nest.flatten(rows), tf.nest.flatten(made), strict=False)
        written = [
            tf.tensor_scatter_nd_update(all_of_it, place, tf.expand_dims(row, 0))
            for all_of_it, row in pairs
        ]
        return (k + 1, *written, *tf.nest.flatten(made), *tf.nest.flatten(after))

    _, *flat = tf.while_loop(
        lambda k, *_: k < count,
        turn,
        (tf.constant(first), *tf.nest.flatten(parts)),
        maximum_iterations=count - first,
    )
    found = tf.nest.pack_sequence_as(parts, flat)
    return (None if rows is None else found[0], found[1], found[2])


def _swapped(x: Tensor) -> Tensor:
    """Return steps and batch exchanged."""
    return tf.transpose(x, [1, 0, *range(2, len(x.shape))])


def _chosen(live: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Choose by row."""
    axes = (1,) * (len(new.shape) - 1)
    return tf.where(tf.reshape(live, (new.shape[0], *axes)), new, old)
