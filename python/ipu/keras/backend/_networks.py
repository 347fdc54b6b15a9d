# SPDX-License-Identifier: MIT
"""Activations, losses, convolutions, pooling, normalisation and recurrence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.arguments import checked_tensor
from ipu._text.exports import defined, like
from ipu.keras import activations
from ipu.keras._backend_state import is_channels_first
from ipu.keras.backend._settings import epsilon

elu = activations.elu
hard_sigmoid = activations.hard_sigmoid
relu = activations.relu
sigmoid = tf.nn.sigmoid
softplus = tf.nn.softplus
softsign = tf.nn.softsign
tanh = tf.nn.tanh


@like(tf.nn.softmax)
def softmax(x: Any, axis: int = -1) -> Any:
    return tf.nn.softmax(x, axis)


def dropout(x: Any, level: float, noise_shape: Any = None, seed: Any = None) -> Any:
    """Set a part of the elements to zero and make the others larger.

    Args:
        x: Of any shape.
        level: The part, in [0, 1).
        noise_shape: The shape of what is drawn, broadcast to that of ``x``.
        seed: Of the random numbers.

    Example:
        >>> kept = dropout(tf.ones(1000), level=0.5, seed=1).numpy()
        >>> sorted(set(kept.tolist()))
        [0.0, 2.0]
    """
    return tf.nn.dropout(x, level, noise_shape=noise_shape, seed=seed)


# --- losses, one number for each element or sample ------------------------------------


def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Any:
    """Return the cross-entropy of each element of yes-or-no targets.

    Example:
        >>> loss = binary_crossentropy(tf.constant([1.0]), tf.constant([0.5]))
        >>> f"{float(loss[0]):.4f}"
        '0.6931'
    """
    target = tf.cast(target, output.dtype)
    if from_logits:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=output)
    edge = epsilon()
    output = tf.clip_by_value(output, edge, 1.0 - edge)
    return -(
        target * tf.math.log(output + edge)
        + (1 - target) * tf.math.log(1 - output + edge)
    )


def categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """Return the cross-entropy of each sample, with a probability for each class.

    Example:
        >>> target = tf.constant([[0.0, 1.0, 0.0]])
        >>> loss = categorical_crossentropy(target, tf.constant([[0.25, 0.5, 0.25]]))
        >>> f"{float(loss[0]):.4f}"
        '0.6931'
    """
    from ipu.keras import losses

    return losses.categorical_crossentropy(target, output, from_logits, axis=axis)


def sparse_categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """Return the cross-entropy of each sample, with the number of its class.

    Example:
        >>> output = tf.constant([[0.25, 0.5, 0.25]])
        >>> loss = sparse_categorical_crossentropy(tf.constant([1]), output)
        >>> f"{float(loss[0]):.4f}"
        '0.6931'
    """
    from ipu.keras import losses

    return losses.sparse_categorical_crossentropy(target, output, from_logits, axis)


# --- convolutions and pooling ---------------------------------------------------------


def _layout(data_format: str | None, axes: int) -> str:
    letters = {1: "W", 2: "HW", 3: "DHW"}[axes]
    return f"NC{letters}" if is_channels_first(data_format) else f"N{letters}C"


def _padding(padding: str) -> str:
    if padding not in ("same", "valid", "causal"):
        raise ValueError(f"Invalid padding: {padding}")
    return padding.upper()


def conv1d(
    x: Any,
    kernel: Any,
    strides: int = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: int = 1,
) -> Any:
    """Slide filters over sequences.

    Args:
        x: [batch, steps, channels], or channels first as ``data_format`` says.
        kernel: [width, channels, filters].
        strides: Of the windows.
        padding: ``"valid"``, ``"same"`` or ``"causal"``, which looks back alone.
        data_format: ``"channels_last"``, ``"channels_first"``, or None for the setting.
        dilation_rate: The distance of a window's steps.

    Example:
        >>> conv1d(tf.ones((1, 8, 2)), tf.ones((3, 2, 5)), padding="causal").shape
        (1, 8, 5)
    """
    layout = _layout(data_format, 1)
    if padding == "causal":
        before = dilation_rate * (kernel.shape[0] - 1)
        pairs = [[0, 0], [0, 0], [0, 0]]
        pairs[layout.index("W")] = [before, 0]
        x, padding = tf.pad(x, pairs), "valid"
    return tf.nn.conv1d(x, kernel, strides, _padding(padding), layout, dilation_rate)


def conv2d(
    x: Any,
    kernel: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Any:
    """Slide filters [height, width, channels, filters] over images.

    Example:
        >>> conv2d(tf.ones((1, 8, 8, 3)), tf.ones((3, 3, 3, 4)), padding="same").shape
        (1, 8, 8, 4)
    """
    layout = _layout(data_format, 2)
    return tf.nn.conv2d(x, kernel, strides, _padding(padding), layout, dilation_rate)


def conv3d(
    x: Any,
    kernel: Any,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1, 1),
) -> Any:
    """Slide filters [depth, height, width, channels, filters] over volumes.

    Example:
        >>> conv3d(tf.ones((1, 5, 5, 5, 2)), tf.ones((3, 3, 3, 2, 4))).shape
        (1, 3, 3, 3, 4)
    """
    layout = _layout(data_format, 3)
    return tf.nn.convolution(
        x, kernel, strides, _padding(padding), layout, dilation_rate
    )


def conv2d_transpose(
    x: Any,
    kernel: Any,
    output_shape: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Any:
    """Return the images of which a convolution would give ``x``.

    Args:
        x: Images.
        kernel: [height, width, filters, channels].
        output_shape: All four sizes of the result.
        strides: Of the convolution.
        padding: ``"valid"`` or ``"same"``.
        data_format: ``"channels_last"``, ``"channels_first"``, or None for the setting.
        dilation_rate: The distance of a window's points.

    Example:
        >>> x, kernel = tf.ones((1, 4, 4, 3)), tf.ones((3, 3, 8, 3))
        >>> conv2d_transpose(x, kernel, (1, 8, 8, 8), (2, 2), padding="same").shape
        (1, 8, 8, 8)
    """
    layout = _layout(data_format, 2)
    return tf.nn.conv2d_transpose(
        x, kernel, output_shape, strides, _padding(padding), layout, dilation_rate
    )


def _all_axes(values: Any, layout: str) -> list[int]:
    pair = [values] * 2 if isinstance(values, int) else list(values)
    return [1, 1, *pair] if layout.startswith("NC") else [1, *pair, 1]


def depthwise_conv2d(
    x: Any,
    depthwise_kernel: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Any:
    """Slide filters [height, width, channels, multiplier] over each channel alone.

    Example:
        >>> depthwise_conv2d(tf.ones((1, 8, 8, 3)), tf.ones((3, 3, 3, 2))).shape
        (1, 6, 6, 6)
    """
    layout = _layout(data_format, 2)
    return tf.nn.depthwise_conv2d(
        x,
        depthwise_kernel,
        _all_axes(strides, layout),
        _padding(padding),
        layout,
        dilation_rate,
    )


def separable_conv2d(
    x: Any,
    depthwise_kernel: Any,
    pointwise_kernel: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Any:
    """Slide filters over each channel alone, then mix the channels of each point.

    Example:
        >>> filters, mixing = tf.ones((3, 3, 3, 2)), tf.ones((1, 1, 6, 16))
        >>> separable_conv2d(tf.ones((1, 8, 8, 3)), filters, mixing).shape
        (1, 6, 6, 16)
    """
    layout = _layout(data_format, 2)
    return tf.nn.separable_conv2d(
        x,
        depthwise_kernel,
        pointwise_kernel,
        _all_axes(strides, layout),
        _padding(padding),
        layout,
        dilation_rate,
    )


def _pooled(
    x: Any, size: Any, strides: Any, padding: str, layout: str, mode: str
) -> Any:
    if mode not in ("max", "avg"):
        raise ValueError(f"Invalid pooling mode: {mode}")
    kind = {"max": "MAX", "avg": "AVG"}[mode]
    return tf.nn.pool(
        x, size, kind, strides, padding=_padding(padding), data_format=layout
    )


def pool2d(
    x: Any,
    pool_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> Any:
    """Take the largest or the average of windows of images.

    Example:
        >>> pool2d(tf.ones((1, 4, 4, 3)), (2, 2), (2, 2), pool_mode="avg").shape
        (1, 2, 2, 3)
    """
    return _pooled(x, pool_size, strides, padding, _layout(data_format, 2), pool_mode)


def pool3d(
    x: Any,
    pool_size: Any,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> Any:
    """Take the largest or the average of windows of volumes.

    Example:
        >>> volume = tf.reshape(tf.range(8.0), (1, 2, 2, 2, 1))
        >>> float(pool3d(volume, (2, 2, 2), pool_mode="avg")[0, 0, 0, 0, 0])
        3.5
    """
    return _pooled(x, pool_size, strides, padding, _layout(data_format, 3), pool_mode)


def bias_add(x: Any, bias: Any, data_format: str | None = None) -> Any:
    """Add a number for each channel, or a tensor of all axes but the batch.

    Raises:
        ValueError: ``bias`` has neither one axis nor as many as a sample.

    Example:
        >>> bias_add(tf.zeros((1, 2, 3)), tf.constant([1.0, 2.0, 3.0])).numpy().tolist()
        [[[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]]
    """
    sizes = tuple(checked_tensor("bias", bias).shape)
    rank = len(checked_tensor("x", x).shape) - 1
    if len(sizes) not in (1, rank):
        raise ValueError(
            f"bias_add takes a bias of 1 or {rank} axes. Received shape: {sizes}."
        )
    is_first = is_channels_first(data_format)
    if len(sizes) == 1:
        sizes = (
            (*sizes, *(1,) * (rank - 1)) if is_first else (*(1,) * (rank - 1), *sizes)
        )
    elif is_first:
        sizes = (sizes[-1], *sizes[:-1])  # the numbers stay in order, as in Keras
    return x + tf.reshape(bias, (1, *sizes))


# --- normalisation --------------------------------------------------------------------


def batch_normalization(
    x: Any,
    mean: Any,
    var: Any,
    beta: Any,
    gamma: Any,
    axis: int = -1,
    epsilon: float = 1e-3,
) -> Any:
    """Return ``gamma * (x - mean) / sqrt(var + epsilon) + beta``.

    Args:
        x: Of any shape.
        mean: A number for each channel, or of a shape that broadcasts.
        var: The variance, likewise.
        beta: The shift, or None.
        gamma: The factor, or None.
        axis: That of the channels.
        epsilon: Added to the variance.

    Example:
        >>> x = tf.constant([[1.0, 20.0], [3.0, 40.0]])
        >>> mean, var = tf.constant([2.0, 30.0]), tf.constant([1.0, 100.0])
        >>> y = batch_normalization(x, mean, var, None, None, epsilon=0.0)
        >>> y.numpy().tolist()
        [[-1.0, -1.0], [1.0, 1.0]]
    """
    rank = len(checked_tensor("x", x).shape)
    sizes = [1] * rank
    sizes[axis] = x.shape[axis]

    def by_channel(value: Any) -> Any:
        if value is None or len(value.shape) != 1 or axis in (-1, rank - 1):
            return value
        return tf.reshape(value, sizes)

    return tf.nn.batch_normalization(
        x,
        by_channel(mean),
        by_channel(var),
        by_channel(beta),
        by_channel(gamma),
        epsilon,
    )


def normalize_batch_in_training(
    x: Any, gamma: Any, beta: Any, reduction_axes: Sequence[int], epsilon: float = 1e-3
) -> tuple[Any, Any, Any]:
    """Normalise by the batch's own mean and variance.

    Returns:
        The normalised batch, its mean and its variance.

    Example:
        >>> x = tf.constant([[1.0, 20.0], [3.0, 40.0]])
        >>> y, mean, variance = normalize_batch_in_training(x, None, None, [0])
        >>> mean.numpy().tolist(), variance.numpy().tolist()
        ([2.0, 30.0], [1.0, 100.0])
    """
    axes = list(reduction_axes)
    mean, var = tf.nn.moments(x, axes, keepdims=True)
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]

    def spread(value: Any) -> Any:
        return None if value is None else tf.reshape(value, kept)

    made = tf.nn.batch_normalization(x, mean, var, spread(beta), spread(gamma), epsilon)
    flat = [size for axis, size in enumerate(x.shape) if axis not in axes]
    return made, tf.reshape(mean, flat), tf.reshape(var, flat)


# --- labels of series -----------------------------------------------------------------


def _logits(probabilities: Any) -> Any:
    """Return what CTC takes of probabilities: time comes first."""
    return tf.math.log(tf.transpose(probabilities, [1, 0, 2]) + epsilon())


def ctc_batch_cost(
    y_true: Any, y_pred: Any, input_length: Any, label_length: Any
) -> Any:
    """Return the CTC loss of each sample, of probabilities.

    Args:
        y_true: Classes ``[batch, longest label]``.
        y_pred: Probabilities ``[batch, time, classes]``; the last class is the blank.
        input_length: How many times of each sample count, ``[batch, 1]``.
        label_length: How long each label is, ``[batch, 1]``.

    Returns:
        ``[batch, 1]``.

    Example:
        >>> losses = ctc_batch_cost([[0]], tf.constant([[[0.5, 0.5]]]), [[1]], [[1]])
        >>> round(float(losses[0, 0]), 4)
        0.6931
    """
    labels_end, inputs_end = (
        tf.cast(tf.reshape(one, [-1]), tf.int32) for one in (label_length, input_length)
    )
    labels = tf.cast(y_true, tf.int32)
    losses = tf.nn.ctc_loss(
        labels, _logits(y_pred), labels_end, inputs_end, blank_index=-1
    )
    return tf.expand_dims(losses, 1)


def ctc_decode(
    y_pred: Any,
    input_length: Any,
    greedy: bool = True,
    beam_width: int = 100,
    top_paths: int = 1,
) -> tuple[list[Any], Any]:
    """Return the labels that are most probable.

    Args:
        y_pred: Probabilities ``[batch, time, classes]``; the last class is the blank.
        input_length: How many times of each sample count, ``[batch]``.
        greedy: Whether the best path is taken, and not the best label of all paths.
        beam_width: How many labels a search keeps.
        top_paths: How many labels a search gives.

    Returns:
        A list of labels ``[batch, time]``, -1 after their ends; and what the decoder
        says of their probabilities.

    Example:
        >>> y = np.array([[[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.1, 0.8, 0.1]]])
        >>> (labels,), _ = ctc_decode(y, [3])
        >>> labels.numpy().tolist()
        [[1, 1, -1]]
    """
    x = tf.convert_to_tensor(y_pred)
    if greedy:
        found, scores = tf.nn.ctc_greedy_decoder(_logits(x), input_length)
    else:
        found, scores = tf.nn.ctc_beam_search_decoder(
            _logits(x), input_length, beam_width, top_paths
        )
    shape = [x.shape[0], x.shape[1]]
    dense = [tf.sparse.SparseTensor(one.indices, one.values, shape) for one in found]
    return [tf.sparse.to_dense(one, default_value=-1) for one in dense], scores


if not TYPE_CHECKING:
    _SAME = "elu hard_sigmoid relu sigmoid softplus softsign tanh "
    __all__ = defined(__name__, _SAME.split())
