# SPDX-License-Identifier: MIT
"""Attention: of one head, of several, and of several that share keys and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.arguments import checked_int, checked_number
from ipu.keras._arguments import KernelAttributes, keep, weight_of
from ipu.keras._tensor_notes import mask_of
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.base_layer import Layer
from ipu.tf._ops.attention import attention, serves

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import LayerOptions, PlainLayerOptions

__all__ = [
    "AdditiveAttention",
    "Attention",
    "GroupQueryAttention",
    "MultiHeadAttention",
]


def _masked(scores: Tensor, mask: Any) -> Tensor:
    """Return scores with those of what does not count far below the others."""
    if mask is None:
        return scores
    lowest = -65504.0 if scores.dtype == tf.float16 else -1e9
    return scores + (1.0 - tf.cast(mask, scores.dtype)) * lowest


def _causal_mask(queries: int, keys: int) -> Tensor:
    """Return True where a query may see a key, at its own step and before, for any
    sample."""
    rows = tf.reshape(tf.range(queries), (1, queries, 1))
    return tf.greater_equal(rows, tf.range(keys))


def _of_keys(tensor: Any) -> Tensor | None:
    """Return the mask of keys or values, for all queries."""
    mask = None if tensor is None else mask_of(tensor)
    return None if mask is None else tf.expand_dims(mask, 1)


def _joined(*masks: Any) -> Any:
    """Return True where all masks are, ``(batch, queries, keys)`` each or broadcast to
    it."""
    given = [tf.cast(mask, "bool") for mask in masks if mask is not None]
    if not given:
        return None
    joined = given[0]
    for mask in given[1:]:
        joined = tf.logical_and(joined, mask)
    return joined


class _DotAttention(Layer):
    """Attention with one score for each pair of query and key."""

    def __init__(
        self,
        causal: bool = False,
        dropout: float = 0.0,
        **kwargs: Unpack[PlainLayerOptions],
    ):
        super().__init__(**kwargs)
        self.causal = causal
        self.dropout = dropout
        self.supports_masking = True

    def _scores(self, query: Tensor, key: Tensor) -> Tensor:
        raise NotImplementedError

    def call(
        self,
        inputs: Nest,
        mask: Any = None,
        training: Any = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> Nest:
        """Attend.

        Args:
            inputs: ``[query, value]`` or ``[query, value, key]``, of shapes
                ``(batch, queries, size)`` and ``(batch, keys, size)``.
            mask: ``[query_mask, value_mask]``, either None, true for what counts.
            training: Whether weights are dropped out.
            return_attention_scores: Whether the weights are given too.
            use_causal_mask: Whether a query sees no later step, as with ``causal``.
            *args, **kwargs: Ignored.

        Returns:
            The mean of the values, weighed for each query: ``(batch, queries, size)``.

        Raises:
            ValueError: There are not two or three inputs.
        """
        if not isinstance(inputs, (list, tuple)) or len(inputs) not in (2, 3):
            raise ValueError(
                f"{type(self).__name__} layer must be called on a list of inputs, "
                f"[query, value] or [query, value, key]. Received: {inputs!r}."
            )
        query, value = inputs[0], inputs[1]
        key = inputs[2] if len(inputs) == 3 else value
        query_mask, value_mask = (*(mask or ()), None, None)[:2]
        dropout = self.dropout if training else 0.0
        weights = None
        result = None
        causal = self.causal or use_causal_mask
        if not return_attention_scores:
            result = self._attend(query, value, key, value_mask, causal, dropout)
        if result is None:
            weights = self._weights(query, key, value_mask, causal, dropout)
            result = tf.matmul(weights, value)
        if query_mask is not None:
            result = result * tf.expand_dims(tf.cast(query_mask, result.dtype), -1)
        return (result, weights) if return_attention_scores else result

    def _attend(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor,
        mask: Any,
        causal: bool,
        dropout: float,
    ) -> Any:
        """Return the result without weights in between; None where no op makes it."""
        return None

    def _weights(
        self, query: Tensor, key: Tensor, mask: Any, causal: bool, dropout: float
    ) -> Tensor:
        scores = self._scores(query, key)
        allowed = _joined(
            None if mask is None else tf.expand_dims(mask, 1),
            _causal_mask(scores.shape[1], scores.shape[2]) if causal else None,
        )
        weights = tf.nn.softmax(_masked(scores, allowed))
        return tf.nn.dropout(weights, dropout) if dropout > 0 else weights

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> Nest:
        """Return the mask of the query."""
        return mask[0] if mask else None


class Attention(_DotAttention):
    """Scores are the products of queries and keys (Luong).

    Args:
        use_scale: Whether there is a learned factor of the scores.
        causal: Whether a query sees no later step.
        dropout: The part of the weights that is dropped in training.

    Example:
        >>> query, value = tf.ones((2, 3, 4)), tf.ones((2, 5, 4))
        >>> Attention()([query, value]).shape
        (2, 3, 4)
    """

    def __init__(
        self, use_scale: bool = False, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.use_scale = use_scale
        self.scale: Any = None

    def build(self, input_shape: Any) -> None:
        if self.use_scale:
            self.scale = self.add_weight("scale", (), initializer="ones")

    def _scores(self, query: Tensor, key: Tensor) -> Tensor:
        scores = tf.matmul(query, key, transpose_b=True)
        return scores if self.scale is None else scores * self.scale

    def _attend(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor,
        mask: Any,
        causal: bool,
        dropout: float,
    ) -> Any:
        """Attend as one op, of one head."""
        if len(query.shape) != 3 or not serves(query, mask):
            return None
        if self.scale is not None:
            query = query * self.scale
        q, k, v = (tf.expand_dims(x, 1) for x in (query, key, value))
        if mask is not None:
            mask = tf.reshape(mask, (*mask.shape[:1], 1, 1, *mask.shape[1:]))
        result = attention(q, k, v, mask=mask, causal=causal, dropout=dropout)
        return tf.squeeze(result, 1)


class AdditiveAttention(_DotAttention):
    """Scores are sums of ``tanh(query + key)`` (Bahdanau).

    Args:
        use_scale: Whether there is a learned factor for each feature.
        causal: Whether a query sees no later step.
        dropout: The part of the weights that is dropped in training.

    Example:
        >>> query, value = tf.ones((2, 3, 4)), tf.ones((2, 5, 4))
        >>> AdditiveAttention()([query, value]).shape
        (2, 3, 4)
    """

    def __init__(
        self, use_scale: bool = True, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.use_scale = use_scale
        self.scale: Any = None

    def build(self, input_shape: Any) -> None:
        if self.use_scale:
            size = input_shape[1][-1]
            self.scale = self.add_weight("scale", (size,), initializer="glorot_uniform")

    def _scores(self, query: Tensor, key: Tensor) -> Tensor:
        both = tf.tanh(tf.expand_dims(query, 2) + tf.expand_dims(key, 1))
        return tf.reduce_sum(both if self.scale is None else both * self.scale, axis=-1)


class _HeadAttention(Layer, KernelAttributes):
    """Several attentions side by side, each on its own projection of the features."""

    dropout: float
    use_gate: bool

    def __init__(
        self, sliding_window: int | None, /, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        if sliding_window is not None:
            sliding_window = checked_int("sliding_window", sliding_window, 1)
        super().__init__(**kwargs)
        self._window = sliding_window
        self.supports_masking = True
        self._projections: dict[str, tuple[Any, Any]] = {}

    @property
    def _head_size(self) -> int:
        """The size of the projections of query and key."""
        raise NotImplementedError

    def _make_projections(self, query: int, value: int, key: int) -> None:
        """Create the weights, given the sizes of the features."""
        raise NotImplementedError

    def _for_each_query(self, heads: Tensor) -> Tensor:
        """Return keys or values, one head of them for each of the query."""
        return heads

    def _gated(self, mixed: Tensor, query: Tensor) -> Tensor:
        """Return what is attended to, before the last projection."""
        if not self.use_gate:
            return mixed
        return mixed * tf.nn.sigmoid(self._heads("gate", query))

    def __call__(self, query: Any, value: Any = None, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """Attend; ``key`` is ``value`` where it is not given."""
        if not self.built and value is not None:
            key = kwargs.get("key", args[0] if args else None)
            shapes = [query.shape, value.shape, (value if key is None else key).shape]
            self._make_projections(*(shape[-1] for shape in shapes))
        return super().__call__(query, value, *args, **kwargs)

    def _project(self, name: str, kernel: Sequence[int], bias: Sequence[int]) -> None:
        weight = weight_of(self, f"{name}/kernel", kernel, "kernel")
        added = None
        if self.use_bias:
            added = weight_of(self, f"{name}/bias", bias, "bias")
        self._projections[name] = (weight, added)

    def _heads(self, name: str, x: Tensor) -> Tensor:
        """Project ``(batch, steps, features)`` to ``(batch, heads, steps, size)``."""
        weight, bias = self._projections[name]
        features, heads, size = weight.shape
        batch, steps = tuple(x.shape)[:2]
        flat = tf.reshape(x, (batch * steps, features))
        result = tf.matmul(flat, tf.reshape(weight, (features, heads * size)))
        if bias is not None:
            result = result + tf.reshape(bias, (heads * size,))
        return tf.transpose(
            tf.reshape(result, (batch, steps, heads, size)), (0, 2, 1, 3)
        )

    def _near(self, queries: int, keys: int) -> Any:
        """Return True where a query sees a key of the steps around it; None for all."""
        if self._window is None:
            return None
        rows = tf.reshape(tf.range(queries), (1, queries, 1))
        return tf.less(tf.abs(rows - tf.range(keys)), self._window)

    def call(
        self,
        query: Tensor,
        value: Tensor = None,
        key: Tensor = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: Any = None,
        use_causal_mask: bool = False,
        mask: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Nest:
        """Attend.

        The masks of query, value and key, where they have any, count as well as
        ``attention_mask``.

        Args:
            query: Shape ``(batch, queries, features)``.
            value: Shape ``(batch, keys, features)``.
            key: The same; None for ``value``.
            attention_mask: Shape ``(batch, queries, keys)``, true where a query may see
                a key.
            return_attention_scores: Whether the weights are given too.
            training: Whether weights are dropped out.
            use_causal_mask: Whether a query sees no later step.
            mask: The query's mask; None for the one that it has.
            *args, **kwargs: Ignored.

        Returns:
            A tensor of shape ``(batch, queries, output_shape)``, and the weights
            ``(batch, heads, queries, keys)`` where they are asked for.
        """
        attention_mask = _joined(
            attention_mask,
            None if mask is None else tf.expand_dims(mask, 2),
            *(_of_keys(each) for each in (value, key)),
            _causal_mask(query.shape[1], value.shape[1]) if use_causal_mask else None,
            self._near(query.shape[1], value.shape[1]),
        )
        if attention_mask is not None and attention_mask.shape[-1] == 1:
            shape = (*attention_mask.shape[:2], value.shape[1])
            attention_mask = tf.broadcast_to(attention_mask, shape)
        value = self._cast(tf.convert_to_tensor(value))
        key = None if key is None else self._cast(tf.convert_to_tensor(key))
        q = self._heads("query", query) * (1.0 / math.sqrt(self._head_size))
        k = self._for_each_query(self._heads("key", value if key is None else key))
        v = self._for_each_query(self._heads("value", value))
        dropout = self.dropout if training else 0.0
        if attention_mask is not None:
            attention_mask = tf.expand_dims(attention_mask, 1)
        weights = None
        if not return_attention_scores and serves(q, attention_mask):
            mixed = attention(q, k, v, mask=attention_mask, dropout=dropout)
        else:
            scores = tf.matmul(q, k, transpose_b=True)
            weights = tf.nn.softmax(_masked(scores, attention_mask))
            kept = tf.nn.dropout(weights, dropout) if dropout > 0 else weights
            mixed = tf.matmul(kept, v)
        mixed = tf.transpose(self._gated(mixed, query), (0, 2, 1, 3))
        weight, bias = self._projections["attention_output"]
        heads, size, out = weight.shape
        batch, steps = tuple(mixed.shape)[:2]
        flat = tf.reshape(mixed, (batch * steps, heads * size))
        result = tf.matmul(flat, tf.reshape(weight, (heads * size, out)))
        result = tf.reshape(result, (batch, steps, out))
        if bias is not None:
            result = result + bias
        return (result, weights) if return_attention_scores else result


class MultiHeadAttention(_HeadAttention):
    """Several attentions side by side, each on its own projection of the features.

    Args:
        num_heads: How many.
        key_dim: The size of the projections of query and key.
        value_dim: The size of that of the value; None for ``key_dim``.
        dropout: The part of the weights that is dropped in training.
        use_bias: Whether projections have a bias.
        output_shape: The size of the result's features; None for the query's.
        attention_axes: Must be None or the one axis of steps.
        kernel_initializer: First values of the projections.
        bias_initializer: First values of their biases.
        kernel_regularizer: A penalty on the projections.
        bias_regularizer: A penalty on their biases.
        activity_regularizer: A penalty on the result.
        kernel_constraint: The constraint of the projections after each update.
        bias_constraint: The constraint of their biases.
        sliding_window: A query sees keys that are less than so many steps away; None
            for all.
        flash_attention: Accepted; attention is one op as it is.
        use_gate: Whether a projection of the query, through a sigmoid, multiplies what
            is attended to.

    Raises:
        ValueError: ``attention_axes`` names another axis; ``sliding_window`` is not a
            positive integer.

    Example:
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=3)
        >>> x = tf.zeros((1, 4, 6))
        >>> layer(x, x).shape
        (1, 4, 6)
    """

    num_heads: int
    key_dim: int
    _left_out = ("attention_axes", "flash_attention")

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: Any = None,
        attention_axes: Any = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        use_gate: bool = False,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(sliding_window, **kwargs)
        keep(self, locals())
        if attention_axes not in (None, 1, (1,), [1]):
            raise ValueError(
                "MultiHeadAttention attends over axis 1, the steps. Received: "
                f"attention_axes={attention_axes!r}. Reshape the input."
            )
        self.value_dim = value_dim or key_dim
        one = isinstance(output_shape, (list, tuple)) and len(output_shape) == 1
        self._output_shape = output_shape[0] if one else output_shape

    @property
    def _head_size(self) -> int:
        return self.key_dim

    def _make_projections(self, query: int, value: int, key: int) -> None:
        heads, size = self.num_heads, self.key_dim
        out = self._output_shape or query
        self._project("query", (query, heads, size), (heads, size))
        self._project("key", (key, heads, size), (heads, size))
        if self.use_gate:
            of_gate = (heads, self.value_dim)
            self._project("gate", (query, *of_gate), of_gate)
        self._project("value", (value, heads, self.value_dim), (heads, self.value_dim))
        self._project("attention_output", (heads, self.value_dim, out), (out,))
        self.built = True


class GroupQueryAttention(_HeadAttention):
    """Several attentions side by side, of which groups share keys and values.

    Args:
        head_dim: The size of all projections.
        num_query_heads: How many attentions.
        num_key_value_heads: How many heads keys and values have: a divisor of
            ``num_query_heads``, 1 for multi-query attention.
        dropout: The part of the weights that is dropped in training.
        use_bias: Whether projections have a bias.
        flash_attention: Accepted; attention is one op as it is.
        kernel_initializer: First values of the projections.
        bias_initializer: First values of their biases.
        kernel_regularizer: A penalty on the projections.
        bias_regularizer: A penalty on their biases.
        activity_regularizer: A penalty on the result.
        kernel_constraint: The constraint of the projections after each update.
        bias_constraint: The constraint of their biases.
        sliding_window: A query sees keys that are less than so many steps away; None
            for all.
        use_gate: Whether a projection of the query, through a sigmoid, multiplies what
            is attended to.

    Raises:
        ValueError: A size is not a positive integer; the heads of keys and values are
            no divisor; ``dropout`` is not in [0, 1).

    Source: ``keras.layers.GroupQueryAttention`` of Keras 3, after arXiv:2305.13245.

    Example:
        >>> layer = GroupQueryAttention(3, num_query_heads=4, num_key_value_heads=2)
        >>> x = tf.zeros((1, 5, 6))
        >>> layer(x, x).shape
        (1, 5, 6)
    """

    head_dim: int
    num_query_heads: int
    num_key_value_heads: int
    _left_out = ("flash_attention",)

    def __init__(
        self,
        head_dim: int,
        num_query_heads: int,
        num_key_value_heads: int,
        dropout: float = 0.0,
        use_bias: bool = True,
        flash_attention: bool | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        *,
        sliding_window: int | None = None,
        use_gate: bool = False,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        head_dim = checked_int("head_dim", head_dim, 1)
        num_query_heads = checked_int("num_query_heads", num_query_heads, 1)
        num_key_value_heads = checked_int("num_key_value_heads", num_key_value_heads, 1)
        if num_query_heads % num_key_value_heads:
            raise ValueError(
                "`num_query_heads` must be divisible by `num_key_value_heads`. "
                f"Received: num_query_heads={num_query_heads}, "
                f"num_key_value_heads={num_key_value_heads}."
            )
        dropout = checked_number(
            "dropout", dropout, "a number in [0, 1)", lambda rate: 0 <= rate < 1
        )
        super().__init__(sliding_window, **kwargs)
        keep(self, locals())

    @property
    def _head_size(self) -> int:
        return self.head_dim

    def _make_projections(self, query: int, value: int, key: int) -> None:
        heads, shared, size = (
            self.num_query_heads,
            self.num_key_value_heads,
            self.head_dim,
        )
        self._project("query", (query, heads, size), (heads, size))
        self._project("key", (key, shared, size), (shared, size))
        if self.use_gate:
            self._project("gate", (query, heads, size), (heads, size))
        self._project("value", (value, shared, size), (shared, size))
        self._project("attention_output", (heads, size, query), (query,))
        self.built = True

    def _for_each_query(self, heads: Tensor) -> Tensor:
        return tf.repeat(heads, self.num_query_heads // self.num_key_value_heads, 1)
