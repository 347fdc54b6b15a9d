# SPDX-License-Identifier: MIT
"""``tf.compat.v1.layers``: layers as functions, with variables by name.

They take their variables from :func:`ipu.tf.compat.v1.get_variable`, in a variable
scope of their name, so that a scope that reuses variables shares them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ipu import tf
from ipu._text.exports import export
from ipu.tf._graph import mode
from ipu.tf._graph.scopes import get_variable, variable_scope
from ipu.tf.compat.v1._dropout import drop
from ipu.tf.tensor_shape import TensorShape

# of each number of axes beside batch and channels
_FORMATS = {
    "channels_last": ("NWC", "NHWC", "NDHWC"),
    "channels_first": ("NCW", "NCHW", "NCDHW"),
}


def _graph() -> Any:
    return mode.current() or mode.default()


def _pair(value: Any) -> tuple[int, int]:
    first, second = value if isinstance(value, (list, tuple)) else (value, value)
    return int(first), int(second)


def _sizes(value: Any, rank: int) -> list[int]:
    """Return one number for each axis, of one for all or of as many."""
    given = list(value) if isinstance(value, (list, tuple)) else [value]
    found = [int(one) for one in given]
    return found * rank if len(found) == 1 else found


def _format(data_format: str, rank: int = 2) -> str:
    try:
        return _FORMATS[data_format][rank - 1]
    except KeyError:
        raise ValueError(
            "`data_format` is 'channels_last' or 'channels_first'. Received: "
            f"{data_format!r}."
        ) from None


def _size(x: Any, axis: int, layer: str) -> int:
    """Return the size of an axis, which the shapes of a layer's variables need."""
    shape = TensorShape(x.shape)
    size = shape[axis] if -len(shape) <= axis < len(shape) else None
    if size is None:
        raise ValueError(
            f"The size of axis {axis} of the inputs of `{layer}` has to be known when "
            f"the graph is made. Received: shape={shape}. Give the placeholder a "
            "shape, with None for sizes that vary, or call set_shape."
        )
    return int(size)


def _weights(
    dtype: Any,
    shape: list[int],
    kernel: tuple[Any, Any, Any],
    bias: tuple[Any, Any, Any] | None,
    trainable: bool,
    channels: int = -1,
) -> list[Any]:
    """Return a kernel and a bias, or None, each by initializer, regularizer and
    constraint.

    Args:
        channels: The axis of the kernel whose size the bias has.
    """
    made = []
    of_bias = [shape[channels]]
    for name, sizes, how in (("kernel", shape, kernel), ("bias", of_bias, bias)):
        variable = None
        if how is not None:
            first, penalty, constraint = how
            variable = get_variable(
                *(name, sizes, dtype, first, penalty, trainable), constraint=constraint
            )
        made.append(variable)
    return made


def _finished(y: Any, bias: Any, layout: str, activation: Any, regularizer: Any) -> Any:
    """Return a result with bias, activation, and what is added to the losses."""
    y = y if bias is None else tf.nn.bias_add(y, bias, data_format=layout)
    y = y if activation is None else activation(y)
    if regularizer is not None:
        count = tf.cast(tf.shape(y)[0], y.dtype)
        _graph().add_to_collection("regularization_losses", regularizer(y) / count)
    return y


def dense(
    inputs: Any,
    units: int,
    activation: Callable[..., Any] | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = "zeros",
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Any:
    """Return a product with a kernel, a bias, an activation.

    Args:
        inputs: ``(..., size)``.
        units: How many results there are.
        activation: A function of the result, or None.
        use_bias: Whether there is a bias.
        kernel_initializer: Of the kernel; None: the variable scope's.
        bias_initializer: Of the bias.
        kernel_regularizer: A function of the kernel that is added to the losses.
        bias_regularizer: The same of the bias.
        activity_regularizer: A function of the result that is added to the losses,
            divided by the size of the batch.
        kernel_constraint: Applied to the kernel after updates.
        bias_constraint: Applied to the bias after updates.
        trainable: Whether optimizers take the variables by default.
        name: The variable scope; None: ``dense``, ``dense_1``, ...
        reuse: Whether the variables have to be there already.

    Returns:
        ``(..., units)``.

    Example:
        >>> with v1.Graph().as_default():
        ...     y = v1.layers.dense(v1.zeros([2, 3]), 4)
        ...     print(y.shape, [v.name for v in v1.trainable_variables()])
        (2, 4) ['dense/kernel:0', 'dense/bias:0']
    """
    x = tf.convert_to_tensor(inputs)
    with variable_scope(name, "dense", reuse=reuse):
        kernel, bias = _weights(
            x.dtype,
            [_size(x, -1, "dense"), units],
            (kernel_initializer, kernel_regularizer, kernel_constraint),
            (bias_initializer, bias_regularizer, bias_constraint) if use_bias else None,
            trainable,
        )
        y = tf.matmul(x, kernel) if len(x.shape) == 2 else tf.tensordot(x, kernel, 1)
        return _finished(y, bias, "NHWC", activation, activity_regularizer)


class _Convolution(Protocol):
    def __call__(
        self,
        inputs: Any,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        activation: Callable[..., Any] | None = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        reuse: Any = None,
    ) -> Any: ...


_CONVOLUTION = """A convolution in {count}, a bias, an activation.

    Args:
        inputs: ``(batch, {sizes}, channels)``, or channels in front of the sizes.
        filters: How many channels the result has.
        kernel_size: {each} of the kernel, or one number.
        strides: {each} from one result to the next.
        padding: "valid" or "same".
        data_format: "channels_last" or "channels_first".
        dilation_rate: {each} between elements of the kernel.
        activation, use_bias, kernel_initializer, bias_initializer, kernel_regularizer,
            bias_regularizer, activity_regularizer, kernel_constraint, bias_constraint,
            trainable: As for :func:`dense`.
        name: The variable scope; None: ``{name}``, ``{name}_1``, ...
        reuse: Whether the variables have to be there already.

    Returns:
        The result, with ``filters`` channels.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.layers.{name}(v1.zeros({given}), 4, 3).shape
        {found}
    """
_COUNTS = {
    1: ("one dimension", "steps", "Steps"),
    2: ("two dimensions", "rows, columns", "Rows and columns"),
    3: ("three dimensions", "planes, rows, columns", "Planes, rows and columns"),
}


def _convolution(rank: int) -> _Convolution:
    own = f"conv{rank}d"

    def layer(
        inputs: Any,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        activation: Callable[..., Any] | None = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        reuse: Any = None,
    ) -> Any:
        x = tf.convert_to_tensor(inputs)
        layout = _format(data_format, rank)
        channels = _size(x, layout.index("C"), own)
        with variable_scope(name, own, reuse=reuse):
            kernel, bias = _weights(
                x.dtype,
                [*_sizes(kernel_size, rank), channels, filters],
                (kernel_initializer, kernel_regularizer, kernel_constraint),
                (bias_initializer, bias_regularizer, bias_constraint)
                if use_bias
                else None,
                trainable,
            )
            y = getattr(tf.nn, own)(
                x,
                kernel,
                _sizes(strides, rank),
                padding.upper(),
                data_format=layout,
                dilations=_sizes(dilation_rate, rank),
            )
            return _finished(y, bias, layout, activation, activity_regularizer)

    layer.__name__ = layer.__qualname__ = own
    count, sizes, each = _COUNTS[rank]
    layer.__doc__ = _CONVOLUTION.format(
        **{"count": count, "sizes": sizes, "each": each, "name": own},
        given=[1, *[8] * rank, 3],
        found=(1, *[6] * rank, 4),
    )
    return layer


conv1d, conv2d, conv3d = (_convolution(rank) for rank in (1, 2, 3))


def conv2d_transpose(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    activation: Callable[..., Any] | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = "zeros",
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Any:
    """Return what a convolution would have been made of, with a bias, an activation.

    Args:
        inputs: ``(batch, rows, columns, channels)``, or channels in front of rows.
        filters: How many channels the result has.
        kernel_size: Rows and columns of the kernel.
        strides: Rows and columns of the result for each of the input.
        padding: "valid" or "same".
        data_format: "channels_last" or "channels_first".
        activation, use_bias, kernel_initializer, bias_initializer, kernel_regularizer,
            bias_regularizer, activity_regularizer, kernel_constraint, bias_constraint,
            trainable: As for :func:`dense`.
        name: The variable scope; None: ``conv2d_transpose``, ...
        reuse: Whether the variables have to be there already.

    Example:
        >>> with v1.Graph().as_default():
        ...     v1.layers.conv2d_transpose(v1.zeros([1, 4, 4, 3]), 2, 3, 2).shape
        (1, 9, 9, 2)
    """
    x = tf.convert_to_tensor(inputs)
    layout = _format(data_format)
    channels = _size(x, layout.index("C"), "conv2d_transpose")
    window, steps = _pair(kernel_size), _pair(strides)
    with variable_scope(name, "conv2d_transpose", reuse=reuse):
        kernel, bias = _weights(
            x.dtype,
            [*window, filters, channels],
            (kernel_initializer, kernel_regularizer, kernel_constraint),
            (bias_initializer, bias_regularizer, bias_constraint) if use_bias else None,
            trainable,
            -2,
        )
        shape: list[Any] = []
        given = x.shape.as_list()
        for axis, letter in enumerate(layout):
            size: Any = tf.shape(x)[axis] if given[axis] is None else given[axis]
            if letter in "HW":
                k, step = window["HW".index(letter)], steps["HW".index(letter)]
                over = max(k - step, 0) if padding.lower() == "valid" else 0
                size = size * step + over
            shape.append(filters if letter == "C" else size)
        y = tf.nn.conv2d_transpose(
            x, kernel, shape, list(steps), padding.upper(), data_format=layout
        )
        return _finished(y, bias, layout, activation, activity_regularizer)


def separable_conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = (1, 1),
    depth_multiplier: int = 1,
    activation: Callable[..., Any] | None = None,
    use_bias: bool = True,
    depthwise_initializer: Any = None,
    pointwise_initializer: Any = None,
    bias_initializer: Any = "zeros",
    depthwise_regularizer: Any = None,
    pointwise_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    depthwise_constraint: Any = None,
    pointwise_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Any:
    """Return a convolution of each channel by itself, then a mixture of them, and a
    bias.

    Args:
        inputs: ``(batch, rows, columns, channels)``, or channels in front of rows.
        filters: How many channels the result has.
        kernel_size: Rows and columns of the kernel of each channel.
        strides: Rows and columns from one result to the next.
        padding: "valid" or "same".
        data_format: "channels_last" or "channels_first".
        dilation_rate: Rows and columns between elements of the kernel.
        depth_multiplier: How many results each channel has before they are mixed.
        activation, use_bias, bias_initializer, bias_regularizer, activity_regularizer,
            bias_constraint, trainable: As for :func:`dense`.
        depthwise_initializer, pointwise_initializer: Of the channels' kernels, and of
            the mixture; None: the variable scope's.
        depthwise_regularizer, pointwise_regularizer: Functions of these that are added
            to the losses.
        depthwise_constraint, pointwise_constraint: Applied to them after updates.
        name: The variable scope; None: ``separable_conv2d``, ...
        reuse: Whether the variables have to be there already.

    Returns:
        The result, with ``filters`` channels.

    Example:
        >>> with v1.Graph().as_default():
        ...     y = v1.layers.separable_conv2d(v1.zeros([1, 8, 8, 3]), 4, 3)
        ...     print(y.shape, v1.trainable_variables()[0].name)
        (1, 6, 6, 4) separable_conv2d/depthwise_kernel:0
    """
    x = tf.convert_to_tensor(inputs)
    layout = _format(data_format)
    channels = _size(x, layout.index("C"), "separable_conv2d")
    middle = channels * depth_multiplier
    kernels = {
        "depthwise": (
            [*_pair(kernel_size), channels, depth_multiplier],
            (depthwise_initializer, depthwise_regularizer, depthwise_constraint),
        ),
        "pointwise": (
            [1, 1, middle, filters],
            (pointwise_initializer, pointwise_regularizer, pointwise_constraint),
        ),
    }
    with variable_scope(name, "separable_conv2d", reuse=reuse):
        depthwise, pointwise = [
            get_variable(
                *(f"{word}_kernel", shape, x.dtype, first, penalty, trainable),
                constraint=constraint,
            )
            for word, (shape, (first, penalty, constraint)) in kernels.items()
        ]
        bias = None
        if use_bias:
            bias = get_variable(
                *("bias", [filters], x.dtype, bias_initializer, bias_regularizer),
                trainable=trainable,
                constraint=bias_constraint,
            )
        steps = [1, 1, 1, 1]
        for axis, step in zip("HW", _pair(strides), strict=True):
            steps[layout.index(axis)] = step
        y = tf.nn.separable_conv2d(
            x,
            depthwise,
            pointwise,
            steps,
            padding.upper(),
            data_format=layout,
            dilations=list(_pair(dilation_rate)),
        )
        return _finished(y, bias, layout, activation, activity_regularizer)


def _pooling(kind: str, rank: int, name: str, what: str) -> Callable[..., Any]:
    pool = getattr(tf.nn, f"{kind}_pool{rank}d")

    def function(
        inputs: Any,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
    ) -> Any:
        window, steps = _sizes(pool_size, rank), _sizes(strides, rank)
        layout = _format(data_format, rank)
        return pool(inputs, window, steps, padding.upper(), data_format=layout)

    function.__name__ = function.__qualname__ = name
    _, sizes, each = _COUNTS[rank]
    function.__doc__ = f"""Return the {what} of each window.

    Args:
        inputs: ``(batch, {sizes}, channels)``, or channels in front of the sizes.
        pool_size: {each} of a window, or one number.
        strides: {each} from one window to the next.
        padding: "valid" or "same".
        data_format: "channels_last" or "channels_first".

    Example:
        >>> {name}(tf.ones({[1, *[8] * rank, 3]}), 2, 2).shape
        {(1, *[4] * rank, 3)}
    """
    return function


max_pooling1d, max_pooling2d, max_pooling3d = (
    _pooling("max", rank, f"max_pooling{rank}d", "largest") for rank in (1, 2, 3)
)
average_pooling1d, average_pooling2d, average_pooling3d = (
    _pooling("avg", rank, f"average_pooling{rank}d", "mean") for rank in (1, 2, 3)
)


def flatten(inputs: Any, name: str | None = None) -> Any:
    """Return all axes but the first as one.

    Args:
        inputs: ``(batch, ...)``.

    Example:
        >>> flatten(tf.ones([2, 3, 4])).shape
        (2, 12)
    """
    x = tf.convert_to_tensor(inputs)
    if TensorShape(x.shape).rank is None or not x.shape[1:].is_fully_defined():
        return tf.reshape(x, [tf.shape(x)[0], -1])
    return tf.reshape(x, [-1, math.prod(x.shape[1:])])


def dropout(
    inputs: Any,
    rate: float = 0.5,
    noise_shape: Sequence[int] | None = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Any:
    """Set elements to zero at random while a model is trained.

    Args:
        inputs: A tensor.
        rate: The share of elements, a number or a scalar tensor.
        noise_shape: The shape of what is drawn.
        seed: Of the random numbers.
        training: Whether to do so, a bool or a scalar tensor of one.

    Example:
        >>> float(dropout(tf.constant(2.0)))
        2.0
    """
    if not tf.is_tensor(training) and not training:
        return tf.identity(inputs)
    dropped = drop(inputs, rate, noise_shape, seed)
    if not tf.is_tensor(training):
        return dropped
    return tf.where(tf.reshape(training, []), dropped, inputs)


def batch_normalization(
    inputs: Any,
    axis: int = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = "zeros",
    gamma_initializer: Any = "ones",
    moving_mean_initializer: Any = "zeros",
    moving_variance_initializer: Any = "ones",
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    beta_constraint: Any = None,
    gamma_constraint: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
    fused: bool | None = None,
) -> Any:
    """Normalise channels by mean and variance of the batch, or by moving ones.

    What moves them is put in the collection ``update_ops``: it happens where a run, or
    what a compiled function returns, needs it.

    Args:
        inputs: A tensor.
        axis: That of the channels, the last one.
        momentum: Of the moving mean and variance.
        epsilon: Added to the variance.
        center: Whether there is an offset.
        scale: Whether there is a factor.
        beta_initializer, gamma_initializer: Of offset and factor.
        moving_mean_initializer, moving_variance_initializer: Of what is kept.
        beta_regularizer, gamma_regularizer: Penalties of offset and factor, or None.
        beta_constraint, gamma_constraint: Applied to them after an update, or None.
        training: Whether the batch's own are used, a bool or a scalar tensor of one.
        trainable: Whether optimizers take the variables by default.
        name: The variable scope; None: ``batch_normalization``, ...
        reuse: Whether the variables have to be there already.
        fused: Accepted and not used.

    Raises:
        ValueError: Another axis.

    Example:
        >>> with v1.Graph().as_default():
        ...     y = v1.layers.batch_normalization(v1.ones([4, 3]), training=True)
        ...     print(y.shape, len(v1.get_collection(v1.GraphKeys.UPDATE_OPS)))
        (4, 3) 2
    """
    x = tf.convert_to_tensor(inputs)
    size = _size(x, -1, "batch_normalization")
    if axis not in (-1, len(x.shape) - 1):
        raise ValueError(
            f"batch_normalization is along the last axis. Received: axis={axis}. "
            "Transpose the input, or use data_format='channels_last'."
        )
    sizes = [size]
    with variable_scope(name, "batch_normalization", reuse=reuse):
        gamma = beta = None
        if scale:
            gamma = get_variable(
                "gamma",
                sizes,
                None,
                gamma_initializer,
                regularizer=gamma_regularizer,
                trainable=trainable,
                constraint=gamma_constraint,
            )
        if center:
            beta = get_variable(
                "beta",
                sizes,
                None,
                beta_initializer,
                regularizer=beta_regularizer,
                trainable=trainable,
                constraint=beta_constraint,
            )
        mean = get_variable(
            "moving_mean", sizes, None, moving_mean_initializer, trainable=False
        )
        variance = get_variable(
            "moving_variance", sizes, None, moving_variance_initializer, trainable=False
        )
        chosen_in_run = tf.is_tensor(training)
        if chosen_in_run:  # a placeholder of it often has no shape
            training = tf.reshape(training, [])
        if not chosen_in_run and not training:
            return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)
        axes = list(range(len(x.shape) - 1))
        batch_mean, batch_variance = tf.nn.moments(x, axes)
        old_mean, old_variance = mean.value(), variance.value()
        for moving, new in ((mean, batch_mean), (variance, batch_variance)):
            change = (1.0 - momentum) * (moving.value() - new)
            if chosen_in_run:
                change = tf.where(training, change, tf.zeros_like(change))
            moved = moving.assign_sub(change)
            _graph().add_to_collection("update_ops", moved.op)
        if chosen_in_run:
            batch_mean = tf.where(training, batch_mean, old_mean)
            batch_variance = tf.where(training, batch_variance, old_variance)
        return tf.nn.batch_normalization(
            x, batch_mean, batch_variance, beta, gamma, epsilon
        )


export(__name__)
