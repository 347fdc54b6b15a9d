# SPDX-License-Identifier: MIT
"""``RNN``: any cell, step by step.

On the device the steps are a loop, or with ``unroll`` as many copies of the cell. The
layers of ``recurrent`` are made of this one and go through all steps as one op where
they can.
"""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras import _functions, _serialization
from ipu.keras._recurrence import Steps, all_steps
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.base_layer import InputSpec, Layer
from ipu.keras.layers.rnn_cells import (
    StackedRNNCells,
    first_states,
    output_size_of,
    step,
)

__all__ = ["RNN"]


class RNN(Layer):
    """Applies a cell to all steps of ``(batch, steps, ...)``.

    Args:
        cell: An object with ``call(inputs, states)``, which gives ``(output, states)``,
            and ``state_size``; or a list of those, one on top of the other. It may
            have ``output_size`` and ``get_initial_state(inputs, batch_size, dtype)``,
            and take ``training`` and ``constants``.
        return_sequences: Whether to give the outputs of all steps, or the last one.
        return_state: Whether to give the last states, too.
        go_backwards: Whether to begin with the last step. The outputs lie in the order
            in which they are made.
        stateful: Whether a call begins with the states that the last one ended with:
            row i of a batch goes on from row i of the batch before. The batch size
            must be known.
        unroll: Whether the steps are copies of the cell instead of a loop.
        time_major: Whether steps come before the batch, also in the result.
        **kwargs: The arguments of ``Layer``, and ``zero_output_for_mask``: whether the
            output of a masked step is 0; else it is the one before.

    Raises:
        ValueError: The cell has no ``call`` or no ``state_size``; in a call: the state
            or the mask does not fit the input, or a stateful layer does not know its
            batch size.

    Example:
        >>> from ipu.keras.layers import SimpleRNNCell
        >>> RNN(SimpleRNNCell(2), return_sequences=True)(tf.ones((3, 5, 4))).shape
        (3, 5, 2)
    """

    _left_out = ("cell",)  # a subclass makes its own

    def __init__(
        self,
        cell: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        time_major: bool = False,
        **kwargs: Any,
    ) -> None:
        self_kwargs = dict(kwargs)
        zero_output = self_kwargs.pop("zero_output_for_mask", False)
        length = self_kwargs.pop("input_length", None)
        if "input_dim" in self_kwargs and "input_shape" not in self_kwargs:
            self_kwargs["input_shape"] = (length, self_kwargs.pop("input_dim"))
        super().__init__(**self_kwargs)
        if isinstance(cell, (list, tuple)):
            cell = StackedRNNCells(cell)
        if not hasattr(cell, "call"):
            raise ValueError(
                "`cell` should have a `call` method. The RNN was passed: "
                f"cell={cell!r}."
            )
        if not hasattr(cell, "state_size"):
            raise ValueError(
                "The RNN cell should have an attribute `state_size`: an integer, "
                f"or one for each state. Received: cell={cell!r}."
            )
        self.cell = cell
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.go_backwards = go_backwards
        self.stateful = stateful
        self.unroll = unroll
        self.time_major = time_major
        self.zero_output_for_mask = zero_output
        self.supports_masking = True
        self.input_spec = InputSpec(min_ndim=2)
        self._states: Nest = None
        self._starts = False  # whether the last call's first states may be not 0

    # --- building -----------------------------------------------------------------

    def build(self, input_shape: Any) -> None:
        """Build the cell for one step, and the states of a stateful layer.

        Raises:
            ValueError: A stateful layer with an open batch size.
        """
        shape = tuple(input_shape)
        batch = shape[1 if self.time_major else 0]
        if isinstance(self.cell, Layer) and not self.cell.built:
            self.cell._weight_scope = f"{self.path}/"
            self.cell.build((batch, *shape[2:]))
        if self.stateful:
            if batch is None:
                raise ValueError(
                    "If a RNN is stateful, it needs to know its batch size. Specify "
                    "the batch size of your input tensors: \n- If using a Sequential "
                    "model, specify the batch size by passing a `batch_input_shape` "
                    "argument to your first layer.\n- If using the functional API, "
                    "specify the batch size by passing a `batch_shape` argument to "
                    "your Input layer."
                )
            zeros = first_states(self.cell, batch, self._compute_kind)
            self._states = tf.nest.map_structure(
                lambda x: tf.Variable(x, trainable=False, name=f"{self.name}/state"),
                _as_states(zeros),
            )
        self.input_spec = InputSpec(ndim=len(shape), axes={-1: shape[-1]})

    @property
    def states(self) -> Nest:
        """The states that a stateful layer goes on from; None for each otherwise."""
        if self._states is None:
            count = len(_as_states(self.cell.state_size))
            return [None] * count
        return self._states

    def reset_states(self, states: Any = None) -> None:
        """Set the states of a stateful layer.

        Args:
            states: Arrays, one for each state; None for zeros.

        Raises:
            AttributeError: The layer is not stateful.
            ValueError: It is not built, or number or shape of the states differ.
        """
        if not self.stateful:
            raise AttributeError("Layer must be stateful.")
        if self._states is None:
            raise ValueError(
                f"Layer {self.name} has no states yet: its batch size is not known. "
                "Call it, or build the model with `batch_input_shape`."
            )
        own = tf.nest.flatten(self._states)
        if states is None:
            for variable in own:
                variable.assign(tf.zeros(variable.shape, variable.dtype))
            return
        given = tf.nest.flatten(states)
        if len(given) != len(own):
            raise ValueError(
                f"Layer {self.name} expects {len(own)} states, but it received "
                f"{len(given)} state values. Input received: {states!r}."
            )
        for index, (variable, value) in enumerate(zip(own, given, strict=True)):
            shape = tuple(tf.constant(value).shape)
            if shape != tuple(variable.shape):
                raise ValueError(
                    f"State {index} is incompatible with layer {self.name}: expected "
                    f"shape={tuple(variable.shape)}, found shape={shape}."
                )
            variable.assign(value)

    # --- calling ------------------------------------------------------------------

    def __call__(
        self, inputs: Any, initial_state: Any = None, constants: Any = None, **kw: Any
    ) -> Any:
        """Apply the layer, to an input or a list of that and the first states."""
        if isinstance(inputs, (list, tuple)):
            states = list(inputs[1:])
            count = getattr(self, "_constants", 0)
            if constants is None and count:
                constants, states = states[-count:], states[:-count]
            inputs = inputs[0]
            if states and initial_state is None:
                initial_state = states
        if initial_state is not None:
            kw["initial_state"] = initial_state
        if constants is not None:
            self._constants = len(constants)
            kw["constants"] = constants
        return super().__call__(inputs, **kw)

    def call(
        self,
        inputs: Tensor,
        mask: Any = None,
        training: Any = None,
        initial_state: Any = None,
        constants: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Nest:
        """Go through all steps.

        Args:
            inputs: ``(batch, steps, ...)``, or time-major.
            mask: Bool ``(batch, steps)``: where it is false the state stays.
            training: Handed to the cell.
            initial_state: The first states; None for zeros, or what is kept.
            constants: Further tensors for the cell.
            *args, **kwargs: Not used.

        Returns:
            The last output or all of them; with ``return_state`` a list of that and
            the last states.

        Raises:
            ValueError: State or mask do not fit.
        """
        mask = self._checked_mask(inputs, mask)
        states = self._first_states(inputs, initial_state)
        made = self._go(inputs, mask, training, states, constants)
        if self.stateful and self._states is not None:
            for variable, value in zip(
                tf.nest.flatten(self._states), tf.nest.flatten(made.states), strict=True
            ):
                variable.assign(value)
        output = made.outputs if self.return_sequences else made.last
        if not self.return_state:
            return output
        states = made.states
        return [output, *states]

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> Nest:
        """Return the input's mask where the result has all steps."""
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        of_output = mask if self.return_sequences else None
        if not self.return_state:
            return of_output
        count = len(tf.nest.flatten(self.cell.state_size))
        return [of_output] + [None] * count

    def get_initial_state(self, inputs: Tensor) -> Nest:
        """Return the states before the first step for these inputs: a list."""
        batch = inputs.shape[1 if self.time_major else 0]
        return _as_states(first_states(self.cell, batch, self._compute_kind))

    def _checked_mask(self, inputs: Tensor, mask: Any) -> Tensor | None:
        """Return the mask as bool, and as the steps of the input lie."""
        if isinstance(mask, (list, tuple)):
            mask = mask[0]
        if mask is None:
            return None
        mask = tf.cast(mask, "bool")
        shape = tuple(mask.shape)
        wanted = tuple(inputs.shape)[:2]
        if len(shape) == 3 and shape[2] == 1:
            mask, shape = mask[:, :, 0], shape[:2]
        if shape != wanted:
            order = "(steps, batch)" if self.time_major else "(batch, steps)"
            raise ValueError(
                f"The mask of layer {self.name} must have shape {order}={wanted}, as "
                f"the input has. Received: mask with shape {shape}."
            )
        return mask

    def _check_batch(self, zeros: Nest) -> None:
        """Refuse inputs of another batch size than that of the states."""
        pairs = zip(tf.nest.flatten(self._states), tf.nest.flatten(zeros), strict=True)
        for kept, zero in pairs:
            if kept.shape[0] != zero.shape[0]:
                raise ValueError(
                    f"Layer {self.name} is stateful and keeps the states of "
                    f"{kept.shape[0]} samples. Received: an input of {zero.shape[0]} "
                    "samples. Give it batches of one size (drop_remainder=True)."
                )

    def _first_states(self, inputs: Tensor, given: Any) -> Nest:
        zeros = self.get_initial_state(inputs)
        self._starts = self.stateful or given is not None
        if given is None:
            if self.stateful and self._states is not None:
                self._check_batch(zeros)
                return tf.nest.map_structure(lambda v: v.value(), self._states)
            return zeros
        if not isinstance(given, (list, tuple)):
            given = [given]
        if len(given) != len(zeros):
            raise ValueError(
                f"Layer {self.name} expects {len(zeros)} state(s), but was passed "
                f"{len(given)} initial states."
            )
        for wanted, found in zip(
            tf.nest.flatten(zeros), tf.nest.flatten(given), strict=True
        ):
            if tuple(found.shape) != tuple(wanted.shape):
                raise ValueError(
                    "An `initial_state` was passed that is not compatible with "
                    f"`cell.state_size`. Layer {self.name} needs shape (batch, "
                    f"units)={tuple(wanted.shape)}. Received: "
                    f"{tuple(found.shape)}."
                )
        return tf.nest.map_structure(
            lambda x: tf.cast(x, self._compute_kind), list(given)
        )

    def _go(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        training: Any,
        states: Nest,
        constants: Any,
    ) -> Steps:
        """Return all steps; subclasses have faster ways."""
        shape = tuple(inputs.shape)
        time = 0 if self.time_major else 1
        if hasattr(self.cell, "keep_masks"):
            self.cell.keep_masks(shape[1 - time], shape[-1], training)
        try:
            return self._step_by_step(inputs, mask, training, states, constants)
        finally:
            if hasattr(self.cell, "reset_dropout_mask"):
                self.cell.reset_dropout_mask()

    def _step_by_step(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        training: Any,
        states: Nest,
        constants: Any,
    ) -> Steps:
        """Return the cell in a loop, or in copies."""
        is_list = isinstance(self.cell.state_size, (list, tuple))
        size = output_size_of(self.cell)
        sizes = (size,) if isinstance(size, int) else tuple(size)
        batch = inputs.shape[1 if self.time_major else 0]

        def one(x: Tensor, before: Nest) -> tuple[Tensor, Nest]:
            own = before if is_list else list(before)
            return step(self.cell, x, own, training, constants)

        return all_steps(
            one,
            inputs,
            states,
            mask=mask,
            go_backwards=self.go_backwards,
            unroll=self.unroll,
            time_major=self.time_major,
            zero_output_for_mask=self.zero_output_for_mask,
            all_outputs=self.return_sequences,
            output=tf.zeros((batch, *sizes), self._compute_kind),
        )

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if self.zero_output_for_mask:
            config["zero_output_for_mask"] = True
        if type(self) is RNN:
            config["cell"] = _serialization.serialize_keras_object(self.cell)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        if "cell" in config:
            cell = _functions.make_layer(config["cell"], custom_objects)
            config = {**config, "cell": cell}
        return cls(**config)


def _as_states(states: Nest) -> Nest:
    """Return one entry for each state."""
    return list(states) if isinstance(states, (list, tuple)) else [states]
