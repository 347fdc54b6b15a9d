# SPDX-License-Identifier: MIT
"""``ipu.layers.LSTM`` and ``GRU``: the IPU's own, with its own restrictions.

Source: ``ipu.keras.layers`` of SDK 1.4 to 3.4, IPU TensorFlow Addons.
"""

from __future__ import annotations

from typing import Any

from ipu import keras
from ipu._text.refusals import refuse_given
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.base_layer import InputSpec
from ipu.keras.layers.recurrent import GRU as _GRU, LSTM as _LSTM

# what the layers hand to those of Keras as it is
_TAKEN = (
    *("units", "bias_initializer", "dropout", "return_sequences", "return_state"),
    *("stateful", "time_major"),
)
_OWN = ("partials_dtype", "seed", "dropout_seed")  # what those do not have


class _Restricted(keras.layers.RNN):
    """The checks of both layers, and the arguments that Keras's do not have."""

    def _note(self, given: dict[str, Any]) -> None:
        for name in _OWN:
            setattr(self, name, given[name])
        self.cell.dropout_seed = given["dropout_seed"]
        self.input_spec = InputSpec()

    def build(self, input_shape: Any) -> None:
        """Create the weights for an input of this shape."""
        if len(input_shape) != 3:
            raise ValueError(
                f"The input of {type(self).__name__} must have three axes: batch, "
                f"steps, features. Received: input_shape={tuple(input_shape)}."
            )
        super().build(input_shape)

    def call(self, inputs: Tensor, mask: Any = None, *args: Any, **kwargs: Any) -> Nest:
        """Go through all steps."""
        if mask is not None:
            kind = type(self).__name__
            raise NotImplementedError(
                f"IPU custom {kind} layer does not support masking. Received: mask="
                f"{mask!r}. Use keras.layers.{kind}, which does."
            )
        return super().call(inputs, None, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal layer."""
        return {**super().get_config(), **{name: getattr(self, name) for name in _OWN}}


def _of_keras(given: dict[str, Any], *more: str) -> dict[str, Any]:
    """Return the arguments for the layer of Keras, with initializers from the layer's
    seed."""
    made = {name: given[name] for name in (*_TAKEN, *more)}
    for name in ("kernel_initializer", "recurrent_initializer"):
        made[name] = _initial(given[name], given["seed"])
    return {**made, **given["kwargs"]}


def _initial(name: Any, seed: int | None) -> Any:
    """Return an initializer by name, from the layer's seed."""
    if seed is None or not isinstance(name, str):
        return name
    made: Any = keras.initializers.get(name)
    config = made.get_config() if hasattr(made, "get_config") else {}
    if "seed" not in config:
        return made
    return type(made).from_config({**config, "seed": seed})


class LSTM(_Restricted, _LSTM):
    """``keras.layers.LSTM`` without what the hardware's op does not have.

    Args:
        units: How long the states h and c and the output are.
        activation: ``"tanh"``.
        recurrent_activation: ``"sigmoid"``; ``"hard_sigmoid"`` is taken as that.
        use_bias: True.
        kernel_initializer: First values of the input's kernel.
        recurrent_initializer: First values of the state's kernel.
        bias_initializer: First values of the bias.
        unit_forget_bias: Whether the bias of the forget gate starts from ones.
        kernel_regularizer, recurrent_regularizer, bias_regularizer,
            activity_regularizer, kernel_constraint, recurrent_constraint,
            bias_constraint: Not supported.
        dropout: The part of the input that is dropped in training, alike in all steps.
        dropout_seed: An integer for a random sequence of the layer's own.
        recurrent_dropout: Not supported.
        implementation: 1 or 2, which make no difference.
        return_sequences: Whether to give the outputs of all steps, or the last one.
        return_state: Whether to give the last h and c, too.
        go_backwards: Not supported.
        stateful: Whether a call goes on from the last one's states.
        unroll: Not supported.
        partials_dtype: Accepted: sums are float32.
        seed: Of the first values.
        time_major: Whether steps come before the batch.

    Raises:
        ValueError: An argument is not supported; when built: the input has not
            three axes.
        NotImplementedError: In a call: there is a mask.

    Example:
        >>> LSTM(2)(np.ones((3, 5, 4), np.float32)).shape
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
        dropout_seed: int | None = None,
        recurrent_dropout: float = 0.0,
        implementation: int = 2,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        partials_dtype: Any = "float32",
        seed: int | None = None,
        time_major: bool = False,
        **kwargs: Any,
    ) -> None:
        given = locals()
        refuse_given(f"{__name__}.LSTM", **given)
        super().__init__(**_of_keras(given, "unit_forget_bias"))
        self._note(given)


class GRU(_Restricted, _GRU):
    """``keras.layers.GRU`` without what the hardware's op does not have.

    Args:
        units: How long state and output are.
        activation: ``"tanh"``.
        recurrent_activation: ``"sigmoid"``; ``"hard_sigmoid"`` is taken as that.
        use_bias: True.
        kernel_initializer: First values of the input's kernel.
        recurrent_initializer: First values of the state's kernel.
        bias_initializer: First values of the biases.
        kernel_regularizer, recurrent_regularizer, bias_regularizer,
            activity_regularizer, kernel_constraint, recurrent_constraint,
            bias_constraint: Not supported.
        dropout: The part of the input that is dropped in training, alike in all steps.
        dropout_seed: An integer for a random sequence of the layer's own.
        recurrent_dropout: Not supported.
        implementation: 1 or 2, which make no difference.
        return_sequences: Whether to give the outputs of all steps, or the last one.
        return_state: Whether to give the last state, too.
        go_backwards: Not supported.
        stateful: Whether a call goes on from the last one's states.
        unroll: Not supported.
        reset_after: Whether the reset gate is applied after the product with the
            state's kernel, which then has a bias of its own, or before it.
        partials_dtype: Accepted: sums are float32.
        seed: Of the first values.
        time_major: Whether steps come before the batch.

    Raises:
        ValueError: An argument is not supported; when built: the input has not
            three axes.
        NotImplementedError: In a call: there is a mask.

    Example:
        >>> GRU(2)(np.ones((3, 5, 4), np.float32)).shape
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
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        dropout_seed: int | None = None,
        recurrent_dropout: float = 0.0,
        implementation: int = 2,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        partials_dtype: Any = "float32",
        seed: int | None = None,
        time_major: bool = False,
        **kwargs: Any,
    ) -> None:
        given = locals()
        refuse_given(f"{__name__}.GRU", **given)
        super().__init__(**_of_keras(given, "reset_after"))
        self._note(given)
