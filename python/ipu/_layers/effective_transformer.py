# SPDX-License-Identifier: MIT
"""Attention of padded sequences of numbers: ``EffectiveTransformer``.

Source: ``ipu.keras.layers.EffectiveTransformer`` of SDK 2.3 to 2.6, and of IPU
TensorFlow Addons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu._text.suggestions import refuse_unknown
from ipu.keras import activations
from ipu.keras._types import Tensor
from ipu.keras.layers import Dense, Dropout, Layer
from ipu.keras.layers.group_normalization import GroupNormalization
from ipu.tf._ops.attention import attention, serves


class EffectiveTransformer(Layer):
    """Attention of several heads between sequences of numbers, which end with padding.

    Each number becomes a query, or a key and a value, for each head. Padding has zeros
    in their places. Keys of padding have the score 0, and count as such. A dense layer
    makes the result of what all heads and queries give.

    The hardware packs sequences without their padding, some at a time; sizes that say
    how many are checked here, and change no number.

    Args:
        output_layer_size: The size of the result.
        max_batch_size: How many sequences hardware takes at once, at the most.
        use_scale: Whether there is a learned factor of the scores.
        num_attention_heads: How many heads.
        attention_head_size: The size of a head.
        sequences_per_iter: How many full sequences hardware packs them into; not more
            than ``max_batch_size``.
        qkv_activation: The activation of queries, keys and values; None for linear.
        attention_dropout_prob: The part of what the heads give that is dropped in
            training, or None.
        output_activation: The activation of the result; None for linear.
        output_dropout_prob: The part of the result that is dropped in training, or
            None.
        layer_norm_output: Whether the result is normalised.

    Raises:
        ValueError: ``sequences_per_iter`` is larger than ``max_batch_size``.

    Example:
        >>> layer = EffectiveTransformer(1, max_batch_size=1, layer_norm_output=False)
        >>> x, length = tf.constant([[1.0, 1.0]]), tf.constant([[2]])
        >>> output, context = layer([x, length, x, length])
        >>> output.numpy().tolist(), context.shape
        ([[2.0]], (1, 2, 1, 1))
    """

    def __init__(
        self,
        output_layer_size: int,
        max_batch_size: int,
        use_scale: bool = False,
        num_attention_heads: int = 1,
        attention_head_size: int = 1,
        sequences_per_iter: int = 1,
        qkv_activation: Any = None,
        attention_dropout_prob: float | None = None,
        output_activation: Any = None,
        output_dropout_prob: float | None = None,
        layer_norm_output: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if sequences_per_iter > max_batch_size:
            raise ValueError(
                "max_batch_size must be at least sequences_per_iter. Received: "
                f"max_batch_size={max_batch_size}, "
                f"sequences_per_iter={sequences_per_iter}."
            )
        self.output_layer_size = output_layer_size
        self.max_batch_size = max_batch_size
        self.use_scale = use_scale
        self.num_attention_heads = num_attention_heads
        self.attention_head_size = attention_head_size
        self.sequences_per_iter = sequences_per_iter
        self.qkv_activation = activations.get(qkv_activation)
        self.attention_dropout_prob = attention_dropout_prob
        self.output_activation = activations.get(output_activation)
        self.output_dropout_prob = output_dropout_prob
        self.layer_norm_output = layer_norm_output
        width = num_attention_heads * attention_head_size
        self._query, self._key, self._value = (
            self._dense(width, self.qkv_activation, f"{name}_layer")
            for name in ("query", "key", "value")
        )
        self._output = self._dense(
            output_layer_size, self.output_activation, "output_layer"
        )
        self._attention_dropout = Dropout(
            attention_dropout_prob or 0.0, dtype=self.dtype_policy
        )
        self._output_dropout = Dropout(
            output_dropout_prob or 0.0, dtype=self.dtype_policy
        )
        self._norm: Any = None
        if layer_norm_output:
            self._norm = GroupNormalization(groups=1, dtype=self.dtype_policy)
        self._scale: Any = None

    def _dense(self, units: int, activation: Any, name: str) -> Dense:
        return Dense(
            units,
            activation,
            kernel_initializer="ones",
            name=name,
            dtype=self.dtype_policy,
        )

    def build(self, input_shape: Any) -> None:
        """Create the factor of the scores; the other weights come with the first call.

        Raises:
            ValueError: There are not four or five inputs.
        """
        if len(input_shape) not in (4, 5):
            raise ValueError(
                "EffectiveTransformer must be built with either four or five input "
                f"shapes. Received: {len(input_shape)}."
            )
        if self.use_scale:
            self._scale = self.add_weight("scale", (1,), initializer="ones")

    def call(
        self, inputs: Sequence[Any], training: Any = None, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Attend.

        Args:
            inputs: ``[queries, lengths, keys, lengths]``, of shapes ``(batch, steps)``,
                ``(batch, 1)``, ``(batch, others)`` and ``(batch, 1)``; and, if wanted,
                a mask ``(batch, heads)``, false for heads that give zeros.
            training: Whether something is dropped out.
            *args: Not used.
            **kwargs: ``mask``, without effect.

        Returns:
            The result ``(batch, output_layer_size)``, and what the heads give,
            ``(batch, steps, heads, size)``.

        Raises:
            ValueError: There are not four or five inputs, or their shapes or dtypes do
                not fit.
        """
        refuse_unknown(type(self).__name__, kwargs, ("mask",))
        if len(inputs) not in (4, 5):
            raise ValueError(
                "EffectiveTransformer must take either four or five inputs. Received: "
                f"{len(inputs)}."
            )
        queries, lengths, keys, key_lengths = map(tf.convert_to_tensor, inputs[:4])
        mask = tf.convert_to_tensor(inputs[4]) if len(inputs) == 5 else None
        self._check(queries, lengths, keys, key_lengths, mask)
        q = self._heads(queries, lengths, self._query)
        k = self._heads(keys, key_lengths, self._key)
        v = self._heads(keys, key_lengths, self._value)
        if self._scale is not None:
            q = q * self._cast(self._scale.value())
        if serves(q):
            mixed = attention(q, k, v)
        else:
            mixed = tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v)
        if mask is not None:
            kept = tf.cast(mask, mixed.dtype)
            mixed = mixed * tf.reshape(kept, (*kept.shape, 1, 1))
        mixed = self._attention_dropout(mixed, training=training)
        context = tf.transpose(mixed, (0, 2, 1, 3))
        batch, *sizes = context.shape
        result = self._output(tf.reshape(context, (batch, math.prod(sizes))))
        result = self._output_dropout(result, training=training)
        return (result if self._norm is None else self._norm(result)), context

    def _check(
        self, queries: Tensor, lengths: Tensor, keys: Tensor, others: Tensor, mask: Any
    ) -> None:
        received = (
            f" Received shapes: {queries.shape}, {lengths.shape}, {keys.shape}, "
            f"{others.shape}."
        )
        if len(queries.shape) != 2 or len(keys.shape) != 2:
            raise ValueError(
                "from_sequences and to_sequences must be equal rank: (batch, steps)."
                + received
            )
        batch = queries.shape[0]
        if keys.shape[0] != batch:
            raise ValueError(
                "from_sequences and to_sequences must contain an equal number of "
                "sequences." + received
            )
        if math.prod(lengths.shape) != batch or others.shape != lengths.shape:
            raise ValueError(
                "from_sequence_lengths and to_sequence_lengths must have lengths equal "
                "to the number of sequences provided." + received
            )
        if queries.dtype != keys.dtype:
            raise ValueError(
                "from_sequences and to_sequences must be equal types. Received: "
                f"{queries.dtype.name} and {keys.dtype.name}."
            )
        wanted = (batch, self.num_attention_heads)
        if mask is not None and tuple(mask.shape) != wanted:
            raise ValueError(
                "q_mask must have shape [num_sequences, num_attention_heads], "
                f"{list(wanted)}. Received: {tuple(mask.shape)}."
            )

    def _heads(self, x: Tensor, lengths: Tensor, layer: Dense) -> Tensor:
        """Return ``(batch, steps)`` as ``(batch, heads, steps, size)``, zeros for
        padding."""
        batch, steps = x.shape
        numbers = self._cast(tf.cast(x, self.dtype))
        made = layer(tf.reshape(numbers, (batch * steps, 1)))
        counts = tf.reshape(tf.cast(lengths, "int32"), (batch, 1))
        real = tf.cast(tf.range(steps) < counts, made.dtype)
        sizes = (batch, steps, self.num_attention_heads, self.attention_head_size)
        split = tf.reshape(made, sizes) * tf.reshape(real, (batch, steps, 1, 1))
        return tf.transpose(split, (0, 2, 1, 3))
