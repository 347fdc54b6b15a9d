# SPDX-License-Identifier: MIT
"""``tf.compat.v1.nn``: that of TensorFlow 2, and what differed in the first one.

Example:
    >>> from ipu.tf.compat import v1
    >>> v1.nn.relu([-1.0, 2.0]).numpy().tolist()
    [0.0, 2.0]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.exports import export
from ipu.ops import nn_ops as _nn_ops
from ipu.tf import matmul, nn as _nn
from ipu.tf._ops.embeddings import look_up
from ipu.tf._tensor.dispatch import op
from ipu.tf.compat.v1 import rnn_cell
from ipu.tf.compat.v1._dropout import drop
from ipu.tf.compat.v1._old_arguments import renamed
from ipu.tf.compat.v1._recurrence import (
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    static_bidirectional_rnn,
    static_rnn,
)
from ipu.tf.nn import softmax_cross_entropy_with_logits as _softmax_cross_entropy

softmax_cross_entropy_with_logits_v2 = renamed(_softmax_cross_entropy, dim="axis")
softmax = renamed(_nn.softmax, dim="axis")
log_softmax = renamed(_nn.log_softmax, dim="axis")
l2_normalize = renamed(_nn.l2_normalize, dim="axis")
convolution = renamed(
    _nn.convolution,
    "input filter padding strides dilation_rate name data_format filters dilations",
    filter="filters",
    dilation_rate="dilations",
)
pool = renamed(
    _nn.pool,
    "input window_shape pooling_type padding dilation_rate strides name data_format",
    dilation_rate="dilations",
)
conv1d = renamed(
    _nn.conv1d,
    "value filters stride padding use_cudnn_on_gpu data_format name input dilations",
    value="input",
    use_cudnn_on_gpu="",
)
conv2d = renamed(
    _nn.conv2d,
    "input filter strides padding use_cudnn_on_gpu data_format dilations name filters",
    filter="filters",
    use_cudnn_on_gpu="",
)
conv2d_transpose = renamed(
    _nn.conv2d_transpose,
    "value filter output_shape strides padding data_format name input filters "
    "dilations",
    value="input",
    filter="filters",
)
depthwise_conv2d = renamed(
    _nn.depthwise_conv2d,
    "input filter strides padding rate name data_format dilations",
    rate="dilations",
)
depthwise_conv2d_native = renamed(
    _nn.depthwise_conv2d,
    "input filter strides padding data_format dilations name",
)
separable_conv2d = renamed(
    _nn.separable_conv2d,
    "input depthwise_filter pointwise_filter strides padding rate name data_format "
    "dilations",
    rate="dilations",
)
weighted_cross_entropy_with_logits = renamed(
    _nn.weighted_cross_entropy_with_logits, targets="labels"
)
moments = renamed(_nn.moments, keep_dims="keepdims")
weighted_moments = renamed(
    _nn.weighted_moments,
    "x axes frequency_weights name keep_dims keepdims",
    keep_dims="keepdims",
)
in_top_k = renamed(_nn.in_top_k, "predictions targets k name")
nce_loss = renamed(_nn_ops.nce_loss, partition_strategy="")
sampled_softmax_loss = renamed(_nn_ops.sampled_softmax_loss, partition_strategy="")

__all__ = [
    "avg_pool",
    "bidirectional_dynamic_rnn",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "convolution",
    "depthwise_conv2d",
    "depthwise_conv2d_native",
    "dropout",
    "dynamic_rnn",
    "embedding_lookup",
    "in_top_k",
    "l2_normalize",
    "log_softmax",
    "max_pool",
    "moments",
    "nce_loss",
    "pool",
    "relu_layer",
    "rnn_cell",
    "sampled_softmax_loss",
    "separable_conv2d",
    "sigmoid_cross_entropy_with_logits",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2",
    "sparse_softmax_cross_entropy_with_logits",
    "static_bidirectional_rnn",
    "static_rnn",
    "weighted_cross_entropy_with_logits",
    "weighted_moments",
    "xw_plus_b",
]


def _pooling(pool: Callable[..., Any], what: str) -> Callable[..., Any]:
    def function(
        value: Any,
        ksize: Any,
        strides: Any,
        padding: Any,
        data_format: str = "NHWC",
        name: str | None = None,
        input: Any = None,
    ) -> Any:
        given = value if input is None else input
        return pool(given, ksize, strides, padding, data_format)

    function.__name__ = function.__qualname__ = pool.__name__
    function.__doc__ = f"""Return the {what} of each window.

    Args:
        value: The input.
        ksize: Sizes of a window, of each axis.
        strides: From one window to the next, of each axis.
        padding: "VALID" or "SAME".
        data_format: "NHWC" or "NCHW".
        input: In place of ``value``.

    Example:
        >>> x = tf.ones([1, 4, 4, 1])
        >>> {pool.__name__}(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME").shape
        (1, 2, 2, 1)
    """
    return function


max_pool = _pooling(_nn.max_pool, "largest")
avg_pool = _pooling(_nn.avg_pool, "mean")


def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: float | None = None,
) -> Any:
    """Set elements to zero at random, and scale the others.

    Args:
        x: A float tensor.
        keep_prob: The share of elements that is kept, a number or a scalar tensor.
        noise_shape: The shape in which decisions are drawn.
        seed: Of the random numbers.
        rate: In place of ``keep_prob`` the share that is set to zero, likewise.

    Raises:
        ValueError: Neither is given, or both.

    Example:
        >>> dropout(tf.ones(2), keep_prob=1.0).numpy().tolist()
        [1.0, 1.0]
    """
    if (keep_prob is None) == (rate is None):
        raise ValueError(
            "dropout takes one of `keep_prob` and `rate`. Received: "
            f"keep_prob={keep_prob!r}, rate={rate!r}."
        )
    return drop(x, 1.0 - keep_prob if rate is None else rate, noise_shape, seed)


@op
def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: float | None = None,
) -> Any:
    """Return rows of a table, or of tables that are parts of one.

    Args:
        params: The table [rows, ...], or a list of tables.
        ids: Integers of any shape.
        partition_strategy: "mod": row ``i`` is in table ``i % len(params)``; "div": the
            first rows are in the first table, and so on.
        validate_indices: Accepted and not used.
        max_norm: Rows whose Euclidean norm is larger are scaled down to it.

    Raises:
        InvalidArgumentError: An id is not a row of the table.
        ValueError: There is no such strategy.

    Example:
        >>> even, odd = tf.constant([[0.0], [2.0]]), tf.constant([[1.0], [3.0]])
        >>> embedding_lookup([even, odd], [3, 0]).numpy().ravel().tolist()
        [3.0, 0.0]
    """
    return look_up(params, ids, max_norm, partition_strategy)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Any:
    """Return ``x @ weights + biases``.

    Args:
        x: A matrix [batch, in].
        weights: A matrix [in, out].
        biases: A vector [out].

    Example:
        >>> xw_plus_b([[1.0, 2.0]], [[3.0], [4.0]], [5.0]).numpy().tolist()
        [[16.0]]
    """
    return _nn.bias_add(matmul(x, weights), biases)


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Any:
    """Return ``relu(x @ weights + biases)``; arguments as in :func:`xw_plus_b`.

    Example:
        >>> relu_layer([[1.0]], [[2.0, -2.0]], [0.5, 0.5]).numpy().tolist()
        [[2.5, 0.0]]
    """
    return _nn.relu(xw_plus_b(x, weights, biases, name))


# --- cross-entropies, by keyword alone ------------------------------------------------


def _check(function: str, sentinel: Any, labels: Any, logits: Any) -> None:
    if sentinel is not None:
        raise ValueError(
            f"Only call `{function}` with named arguments (labels=..., logits=..., "
            "...): their order differed between versions."
        )
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")


def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: int = -1,
    name: str | None = None,
    axis: int | None = None,
) -> Any:
    """Return the cross-entropy of probabilities, which get no gradient.

    Args:
        _sentinel: Nothing: the others are given by name.
        labels: Probabilities [..., classes].
        logits: Unscaled log-probabilities [..., classes].
        dim: Where the classes are.
        axis: In place of ``dim``.

    Returns:
        The loss of each row.

    Raises:
        ValueError: An argument without its name; labels or logits are missing.

    Example:
        >>> rows = v1.nn.softmax_cross_entropy_with_logits(
        ...     labels=[[1.0, 0.0]], logits=[[0.0, 0.0]])
        >>> round(float(rows[0]), 3)
        0.693
    """
    _check("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    return tf.nn.softmax_cross_entropy_with_logits(
        tf.stop_gradient(labels), logits, dim if axis is None else axis
    )


def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    name: str | None = None,
) -> Any:
    """Return the cross-entropy of class numbers.

    Args:
        _sentinel: Nothing: the others are given by name.
        labels: Integers [...], each in [0, classes).
        logits: Unscaled log-probabilities [..., classes].

    Returns:
        The loss of each row.

    Raises:
        ValueError: An argument without its name; labels or logits are missing.

    Example:
        >>> rows = v1.nn.sparse_softmax_cross_entropy_with_logits(
        ...     labels=[0], logits=[[0.0, 0.0]])
        >>> round(float(rows[0]), 3)
        0.693
    """
    _check("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    name: str | None = None,
) -> Any:
    """Return the cross-entropy of independent yes-or-no answers, element by element.

    Args:
        _sentinel: Nothing: the others are given by name.
        labels: Probabilities, in the shape and dtype of ``logits``.
        logits: Unscaled log-odds.

    Raises:
        ValueError: An argument without its name; labels or logits are missing.

    Example:
        >>> found = v1.nn.sigmoid_cross_entropy_with_logits(labels=[1.0], logits=[0.0])
        >>> round(float(found[0]), 3)
        0.693
    """
    _check("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)


if TYPE_CHECKING:
    from ipu.tf.nn import *  # type: ignore[assignment]  # noqa: F403
else:
    _LAZY = {name: f"ipu.tf.nn:{name}" for name in _nn.__all__ if name not in __all__}
    export(__name__, [*__all__, *_LAZY], _LAZY)
