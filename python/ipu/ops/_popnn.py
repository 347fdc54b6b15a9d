# SPDX-License-Identifier: MIT
"""The common parts of the recurrent ops of rnn_ops."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu.tf._functions.blocks import part_of_step
from ipu.tf._functions.tracing import init_scope
from ipu.tf._ops.recurrent import GRUResult


class Popnn(tf.Module):
    """Weights and the checks of the input."""

    _gates = 0

    def __init__(
        self,
        num_units: int,
        dtype: Any = "float32",
        partials_dtype: Any = "float32",
        seed: int | None = None,
        weights_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        reset_after: bool = False,
    ) -> None:
        super().__init__(name=None)
        self._dtype = tf.as_dtype(dtype)
        if self._dtype.name not in ("float16", "float32"):
            raise ValueError(
                f"Only support float16, float32, provided {self._dtype.name}."
            )
        self._num_units = int(num_units)
        self._partials_dtype = partials_dtype
        self._seed = seed
        self._weights_initializer = weights_initializer
        self._bias_initializer = bias_initializer
        self._reset_after = reset_after
        self._label = name or type(self).__name__
        self.kernel: Any = None
        self.biases: Any = None

    @property
    def num_units(self) -> int:
        """How long state and output are."""
        return self._num_units

    @property
    def canonical_weight_shape(self) -> tuple[int, int]:
        """The shape of the kernel: [input + units, gates * units]."""
        return tuple(self.kernel.shape)

    @property
    def trainable_weights(self) -> list[Any]:
        """Kernel and biases."""
        return [self.kernel, self.biases]

    @property
    def saveable(self) -> bool:
        """Whether a checkpoint holds the weights: they are plain variables."""
        return True

    @property
    def _bias_shape(self) -> tuple[int, ...]:
        if self._reset_after:
            return (self._gates, 2, self._num_units)
        return (self._gates, self._num_units)

    def _run(self, inputs: Any, lengths: Any, initial_state: Any) -> tuple[Any, Any]:
        raise NotImplementedError

    def build(self, input_shape: Any) -> None:
        """Create the weights.

        Args:
            input_shape: [steps, batch, features].

        Raises:
            ValueError: It has not three axes, or the last one is open.
        """
        if self.kernel is not None:
            return
        shape = tuple(input_shape)
        if len(shape) != 3:
            raise ValueError(f"Expecting input_shape with 3 dims, got {len(shape)}.")
        if shape[-1] is None:
            raise ValueError("The last dimension of the inputs should be defined.")
        from ipu.keras import initializers

        n = self._num_units
        first = self._weights_initializer
        if first is None:
            first = initializers.GlorotUniform(seed=self._seed)
        bias = self._bias_initializer or initializers.Zeros()
        kernel_shape = (int(shape[-1]) + n, self._gates * n)
        with init_scope():
            self.kernel = tf.Variable(
                first(kernel_shape, dtype=self._dtype), name=f"{self._label}/kernel"
            )
            self.biases = tf.Variable(
                bias(self._bias_shape, dtype=self._dtype), name=f"{self._label}/biases"
            )

    def _project(self, inputs: Tensor, order: tuple[int, ...], bias: Tensor) -> Tensor:
        """Return what the input gives to the gates, in the order that the op has
        them."""
        steps, batch, size = tuple(inputs.shape)
        flat = tf.reshape(inputs, (steps * batch, size))
        kernel = self._ordered(self.kernel[:size], order)
        x = tf.nn.bias_add(tf.matmul(flat, kernel), bias)
        return tf.reshape(x, (steps, batch, self._gates * self._num_units))

    def _ordered(self, x: Tensor, order: tuple[int, ...]) -> Tensor:
        """Return columns of gates, put in another order."""
        n = self._num_units
        if order == tuple(range(len(order))):
            return x
        return tf.concat([x[..., g * n : (g + 1) * n] for g in order], -1)

    def _zeros(self, inputs: Tensor) -> Tensor:
        return tf.zeros((inputs.shape[1], self._num_units), self._dtype)

    def _checked(self, inputs: Any) -> Tensor:
        tensor = Tensor(inputs)
        self.build(tensor.shape)
        if tensor.dtype != self._dtype:
            raise TypeError(
                f"The input of {type(self).__name__} must be {self._dtype.name}. "
                f"Received: {tensor.dtype.name}."
            )
        return tensor

    def _state_checked(self, inputs: Tensor, state: Any, what: str) -> Tensor:
        tensor = Tensor(state)
        wanted = (inputs.shape[1], self._num_units)
        if tuple(tensor.shape) != wanted:
            raise ValueError(
                f"{what} of {type(self).__name__} must have shape (batch, units)="
                f"{wanted}. Received: {tuple(tensor.shape)}."
            )
        return tensor


def mask_of(inputs: Tensor, lengths: Any) -> Tensor | None:
    """Return [steps, batch]: which steps of each sequence are there."""
    if lengths is None:
        return None
    steps, batch = tuple(inputs.shape)[:2]
    lengths = tf.convert_to_tensor(lengths)
    if tuple(lengths.shape) != (batch,):
        raise ValueError(
            f"seq_len must have an integer for each of the {batch} sequences. "
            f"Received: shape {tuple(lengths.shape)}."
        )
    rows = tf.reshape(tf.range(steps), (steps, 1))
    return rows < tf.reshape(tf.cast(lengths, "int32"), (1, batch))


def cut(steps: Tensor, mask: Tensor | None) -> Tensor:
    """Return outputs with 0 after the end of a sequence."""
    if mask is None:
        return steps
    return tf.where(tf.expand_dims(mask, -1), steps, tf.zeros_like(steps))


@part_of_step()
def attention_gru(
    x: Tensor, kernel: Tensor, h: Tensor, score: Tensor, bias: Any, mask: Any
) -> GRUResult:
    """Return ``h' = z h + (1 - z) candidate`` with ``z = (1 - score) sigmoid(...)``.

    Source: Zhou and others, "Deep Interest Evolution Network for Click-Through Rate
    Prediction", AAAI 2019, section 4.3.2 (AUGRU).

    Args:
        x: The input's part of the gates z, r, h: [steps, batch, 3 * units].
        kernel: The recurrent kernel, [units, 3 * units].
        h: The first h, [batch, units].
        score: [steps, batch].
        bias: A bias of the recurrent product, [3 * units]: then the reset gate is
            applied to the product; None: to h before it.
        mask: Bool, [steps, batch]: where it is false the state stays. None:
            everywhere true.

    Returns:
        h of all steps, and the last one.
    """
    count, batch, _ = x.shape
    n = h.shape[1]
    of_gates, of_candidate = kernel[:, : 2 * n], kernel[:, 2 * n :]

    def step(now: Tensor, weight: Tensor, h: Tensor) -> Tensor:
        if bias is None:
            gates = tf.sigmoid(now[:, : 2 * n] + tf.matmul(h, of_gates))
            inner = tf.matmul(gates[:, n:] * h, of_candidate)
        else:
            product = tf.nn.bias_add(tf.matmul(h, kernel), bias)
            gates = tf.sigmoid(now[:, : 2 * n] + product[:, : 2 * n])
            inner = gates[:, n:] * product[:, 2 * n :]
        z = (1.0 - weight[:, None]) * gates[:, :n]
        return z * h + (1.0 - z) * tf.tanh(now[:, 2 * n :] + inner)

    def turn(k: Tensor, rows: Tensor, h: Tensor) -> Any:
        after = step(x[k], score[k], h)
        if mask is not None:
            after = tf.where(mask[k][:, None], after, h)
        place = tf.reshape(k, (1, 1))
        rows = tf.tensor_scatter_nd_update(rows, place, tf.expand_dims(after, 0))
        return k + 1, rows, after

    rows = tf.zeros((count, batch, n), h.dtype)
    _, rows, h = tf.while_loop(
        lambda k, *_: k < count,
        turn,
        (tf.constant(0), rows, h),
        maximum_iterations=count,
    )
    return GRUResult(rows, h)
