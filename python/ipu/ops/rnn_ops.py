# SPDX-License-Identifier: MIT
"""``ipu.rnn_ops``: LSTM and GRU of the hardware's library, time-major.

Source: ``ipu.ops.rnn_ops`` of SDK 1.4 to 3.4.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ipu import tf
from ipu._core import Tensor
from ipu._text.exports import export
from ipu.ops._popnn import Popnn, attention_gru, cut, mask_of
from ipu.tf._ops import recurrent


class LSTMStateTuple(NamedTuple):
    """The states of an LSTM.

    Attributes:
        c: The cells, [batch, units].
        h: The output, [batch, units].

    Example:
        >>> LSTMStateTuple(c=0.0, h=1.0).h
        1.0
    """

    c: Any
    h: Any


class PopnnLSTM(Popnn):
    """An LSTM over [steps, batch, features].

    Weights are made at the first call: ``kernel`` [features + units, 4 * units] and
    ``biases`` [4, units]. The gates lie in the order forget, input, candidate, output.

    Args:
        num_units: How long the states and the output are.
        dtype: ``"float32"`` or ``"float16"``.
        partials_dtype: Accepted: sums are float32.
        seed: Of the first values of the kernel.
        weights_initializer: First values of the kernel; None for Glorot's uniform ones.
        bias_initializer: First values of the biases; None for zeros.
        name: A prefix of the weights' names.

    Raises:
        ValueError: Another dtype; in a call: the input has not three axes, or states
            do not fit it.

    Example:
        >>> output, state = PopnnLSTM(2)(np.ones((5, 3, 4), np.float32))
        >>> output.shape, state.c.shape
        ((5, 3, 2), (3, 2))
    """

    _gates = 4
    _order = (1, 0, 2, 3)

    def __init__(
        self,
        num_units: int,
        dtype: Any = "float32",
        partials_dtype: Any = "float32",
        seed: int | None = None,
        weights_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
    ) -> None:
        weights = seed, weights_initializer, bias_initializer
        super().__init__(num_units, dtype, partials_dtype, *weights, name)

    def __call__(
        self, inputs: Any, initial_state: Any = None, training: bool = True
    ) -> tuple[Tensor, Any]:
        """Go through all steps.

        Args:
            inputs: [steps, batch, features].
            initial_state: ``LSTMStateTuple(c, h)``, or a tuple (h, c); None for zeros.
            training: Accepted: the result is the same.

        Returns:
            The outputs [steps, batch, units], and the last states, as a tuple of the
            kind that ``initial_state`` is.
        """
        return self._run(inputs, None, initial_state)

    def _run(self, inputs: Any, lengths: Any, initial_state: Any) -> tuple[Tensor, Any]:
        x = self._checked(inputs)
        is_plain = False
        if initial_state is None:
            c = h = self._zeros(x)
        elif isinstance(initial_state, LSTMStateTuple):
            c, h = initial_state
        else:
            h, c = initial_state
            is_plain = True
        c = self._state_checked(x, c, "State c")
        h = self._state_checked(x, h, "State h")
        bias = self._ordered(tf.reshape(self.biases, (-1,)), self._order)
        size = int(x.shape[-1])
        mask = mask_of(x, lengths)
        made = recurrent.lstm(
            self._project(x, self._order, bias),
            self._ordered(self.kernel[size:], self._order),
            h,
            c,
            mask,
            time_major=True,
        )
        last = (made.h, made.c) if is_plain else LSTMStateTuple(made.c, made.h)
        return cut(made.steps, mask), last


class _OfLengths(Popnn):
    """A layer over sequences of several lengths."""

    def __call__(
        self,
        inputs: Any,
        seq_len: Any,
        initial_state: Any = None,
        training: bool = True,
    ) -> tuple[Tensor, Any]:
        """Go through the first ``seq_len[i]`` steps of sequence i.

        Args:
            inputs: [steps, batch, features].
            seq_len: Integers, [batch].
            initial_state: As where there is no ``seq_len``.
            training: Accepted: the result is the same.

        Returns:
            The outputs, 0 after the end of a sequence, and the states at its end.
        """
        return self._run(inputs, seq_len, initial_state)


class PopnnDynamicLSTM(_OfLengths, PopnnLSTM):  # type: ignore[misc]
    """``PopnnLSTM`` over sequences of several lengths.

    The arguments are those of :class:`PopnnLSTM`.

    Example:
        >>> x = tf.ones((5, 2, 3))  # steps, batch, features
        >>> output, state = PopnnDynamicLSTM(4)(x, tf.constant([5, 2]))
        >>> output.shape, state.h.shape
        ((5, 2, 4), (2, 4))
    """


class PopnnGRU(Popnn):
    """A GRU over [steps, batch, features].

    Weights are made at the first call: ``kernel`` [features + units, 3 * units] and
    ``biases`` [3, units], or with ``reset_after`` [3, 2, units]: of the input's product
    and of the state's. The gates lie in the order reset, update, candidate.

    Args:
        num_units: How long state and output are.
        dtype, partials_dtype, seed, weights_initializer, bias_initializer, name: As for
            :class:`PopnnLSTM`.
        reset_after: Whether the reset gate is applied after the product with the
            state's kernel, or before it.

    Raises:
        ValueError: Another dtype; in a call: the input has not three axes, or the state
            does not fit it.

    Example:
        >>> output, state = PopnnGRU(2)(np.ones((5, 3, 4), np.float32))
        >>> output.shape, state.shape
        ((5, 3, 2), (3, 2))
    """

    _gates = 3
    _order = (1, 0, 2)

    def __call__(
        self, inputs: Any, initial_state: Any = None, training: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Go through all steps.

        Args:
            inputs: [steps, batch, features].
            initial_state: [batch, units]; None for zeros.
            training: Accepted: the result is the same.

        Returns:
            The outputs [steps, batch, units], and the last state.
        """
        return self._run(inputs, None, initial_state)

    def _run(
        self, inputs: Any, lengths: Any, initial_state: Any, score: Any = None
    ) -> tuple[Tensor, Tensor]:
        x = self._checked(inputs)
        h = self._zeros(x) if initial_state is None else initial_state
        h = self._state_checked(x, h, "The state")
        size = int(x.shape[-1])
        of_state = None
        biases = self.biases
        if self._reset_after:
            own = tf.reshape(biases[:, 1], (-1,))
            of_state = self._ordered(own, self._order)
            biases = biases[:, 0]
        bias = self._ordered(tf.reshape(biases, (-1,)), self._order)
        mask = mask_of(x, lengths)
        gates = self._project(x, self._order, bias)
        kernel = self._ordered(self.kernel[size:], self._order)
        if score is None:
            made = recurrent.gru(gates, kernel, h, of_state, mask, time_major=True)
        else:
            made = attention_gru(gates, kernel, h, score, of_state, mask)
        return cut(made.steps, mask), made.h


class PopnnDynamicGRU(_OfLengths, PopnnGRU):  # type: ignore[misc]
    """``PopnnGRU`` over sequences of several lengths.

    The arguments are those of :class:`PopnnGRU`.

    Example:
        >>> x = tf.ones((5, 2, 3))  # steps, batch, features
        >>> output, state = PopnnDynamicGRU(4)(x, tf.constant([5, 2]))
        >>> output.shape, state.shape
        ((5, 2, 4), (2, 4))
    """


class PopnnAUGRU(PopnnGRU):
    """A GRU over sequences of several lengths whose update gate a score weakens.

    With the gate's ``u`` and the score ``a`` of a step and a sample the state becomes
    ``u' h + (1 - u') candidate``, ``u' = (1 - a) u``.

    The arguments are those of :class:`PopnnGRU`.

    Source: ``ipu.rnn_ops.PopnnAUGRU`` of SDK 2.0 to 2.5.

    Example:
        >>> x, score = np.ones((5, 3, 4), np.float32), np.ones((5, 3), np.float32)
        >>> output, state = PopnnAUGRU(2)(x, [5, 2, 1], score)
        >>> output.shape, state.shape
        ((5, 3, 2), (3, 2))
    """

    def __call__(  # type: ignore[override]
        self,
        inputs: Any,
        seq_len: Any,
        attention_score: Any,
        initial_state: Any = None,
        training: bool = True,
        time_major: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """Go through the first ``seq_len[i]`` steps of sequence i.

        Args:
            inputs: [steps, batch, features].
            seq_len: Integers, [batch]; None for all steps.
            attention_score: [steps, batch].
            initial_state: [batch, units]; None for zeros.
            training: Accepted: the result is the same.
            time_major: Whether steps come before the batch, in inputs, score and
                output.

        Returns:
            The outputs, 0 after the end of a sequence, and the state at its end.

        Raises:
            ValueError: The score does not go with the inputs.
        """
        x, score = Tensor(inputs), Tensor(attention_score)
        if len(x.shape) == 3 and not time_major:
            x = tf.transpose(x, (1, 0, 2))
            score = tf.transpose(score) if len(score.shape) == 2 else score
        if tuple(score.shape) != tuple(x.shape)[:2]:
            raise ValueError(
                "attention_score of PopnnAUGRU must have a number for each step and "
                f"sequence: {tuple(x.shape)[:2]}. Received: {tuple(score.shape)}."
            )
        score = tf.cast(score, self._dtype)
        steps, h = self._run(x, seq_len, initial_state, score)
        return (steps if time_major else tf.transpose(steps, (1, 0, 2))), h


export(__name__)
