# SPDX-License-Identifier: MIT
"""``ipu.keras.backend``: settings, and a few functions that programs call."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu.keras import _names
from ipu.keras._backend_state import state
from ipu.keras.engine.call_context import current_training

__all__ = [
    "abs",
    "argmax",
    "cast",
    "cast_to_floatx",
    "clear_session",
    "clip",
    "concatenate",
    "constant",
    "dot",
    "epsilon",
    "equal",
    "exp",
    "expand_dims",
    "flatten",
    "floatx",
    "get_value",
    "image_data_format",
    "in_train_phase",
    "int_shape",
    "is_keras_tensor",
    "learning_phase",
    "log",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "ndim",
    "ones_like",
    "reshape",
    "set_epsilon",
    "set_floatx",
    "set_image_data_format",
    "set_learning_phase",
    "set_value",
    "shape",
    "sigmoid",
    "softmax",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "stop_gradient",
    "sum",
    "tanh",
    "transpose",
    "variable",
    "zeros_like",
]

abs = tf.abs
clip = tf.clip_by_value


def constant(
    value: Any, dtype: Any = None, shape: Any = None, name: str | None = None
) -> Tensor:
    """A tensor of known values, of the default float type unless ``dtype`` is given.

    Example:
        >>> constant([1, 2]).numpy().tolist()
        [1.0, 2.0]
    """
    return tf.constant(value, floatx() if dtype is None else dtype, shape)


equal = tf.equal
exp = tf.exp
log = tf.math.log
maximum = tf.maximum
minimum = tf.minimum
ones_like = tf.ones_like
reshape = tf.reshape
shape = tf.shape
sigmoid = tf.nn.sigmoid
softmax = tf.nn.softmax
sqrt = tf.sqrt
square = tf.square
squeeze = tf.squeeze
stack = tf.stack
stop_gradient = tf.stop_gradient
tanh = tf.nn.tanh
zeros_like = tf.zeros_like


def clear_session() -> None:
    """Start the automatic names of layers again."""
    _names.reset_uids()


# --- settings -----------------------------------------------------------------------


def epsilon() -> float:
    """Give the least divisor of losses, 1e-7 unless it was set."""
    return state.epsilon


def set_epsilon(value: float) -> None:
    """Set what ``epsilon`` gives, for losses that are made or traced from now on."""
    state.epsilon = float(value)


def floatx() -> str:
    """Give the dtype of layers that are not told any, ``"float32"`` unless set."""
    return state.floatx


def set_floatx(value: str) -> None:
    """Set the dtype of layers that are made from now on.

    Args:
        value: ``"float32"`` or ``"float16"``.

    Raises:
        ValueError: Another dtype; the device has these two.
    """
    if value not in ("float16", "float32"):
        raise ValueError(
            "The floating point dtype of layers must be 'float16' or 'float32', which "
            f"the device has. Received: {value!r}."
        )
    state.floatx = value


def cast_to_floatx(x: Any) -> Any:
    """Give an array or tensor in the dtype of ``floatx()``."""
    if isinstance(x, (tf.Tensor, tf.Variable)):
        return tf.cast(x, state.floatx)
    import numpy as np

    return np.asarray(x, dtype=state.floatx)


def image_data_format() -> str:
    """Give where the channels of images are, ``"channels_last"`` unless set."""
    return state.image_data_format


def set_image_data_format(data_format: str) -> None:
    """Set where the channels of images are for layers that are not told.

    Raises:
        ValueError: It is neither ``"channels_last"`` nor ``"channels_first"``.
    """
    if data_format not in ("channels_last", "channels_first"):
        known = ("channels_last", "channels_first")
        raise ValueError(
            f"Unknown data_format: {data_format!r}.{_names.nearest(data_format, known)}"
        )
    state.image_data_format = data_format


def learning_phase() -> int:
    """Give 1 inside of a layer that is called in training, else 0."""
    return int(bool(current_training()))


def set_learning_phase(value: int) -> None:
    """Refuse: a call says whether it is training.

    Raises:
        ValueError: ``value`` is not 0.
    """
    if value not in (0, False):
        raise ValueError(
            "There is no global learning phase. Pass training=True to the model's call."
        )


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Give ``x`` in training, else ``alt``; callables are called."""
    chosen = x if (current_training() if training is None else training) else alt
    return chosen() if callable(chosen) else chosen


# --- values -------------------------------------------------------------------------


def get_value(x: Any) -> Any:
    """Give a variable or tensor as a NumPy array or number."""
    return x.numpy() if hasattr(x, "numpy") else x


def set_value(x: Any, value: Any) -> None:
    """Assign a value to a variable."""
    x.assign(value)


def variable(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Make a variable, of ``floatx()`` by default."""
    return tf.Variable(value, dtype=dtype or state.floatx, name=name)


def int_shape(x: Any) -> tuple[int | None, ...]:
    """Give the sizes of a tensor, None where a symbolic one is open."""
    return tuple(x.shape)


def ndim(x: Any) -> int:
    """Give the number of axes."""
    return len(x.shape)


def is_keras_tensor(x: Any) -> bool:
    """Tell whether something is a symbolic value that a layer gave."""
    from ipu.keras.engine.keras_tensor import KerasTensor

    return isinstance(x, KerasTensor)


def cast(x: Any, dtype: Any) -> Any:
    """Give a tensor of another dtype."""
    return tf.cast(x, dtype)


def dot(x: Any, y: Any) -> Any:
    """Sum over the last axis of ``x`` and the last but one of ``y``."""
    axes = [[len(x.shape) - 1], [len(y.shape) - 2 if len(y.shape) > 1 else 0]]
    return tf.matmul(x, y) if len(x.shape) == 2 else tf.tensordot(x, y, axes)


def expand_dims(x: Any, axis: int = -1) -> Any:
    """Add an axis of size 1."""
    return tf.expand_dims(x, axis)


def flatten(x: Any) -> Any:
    """Give all elements in one axis."""
    return tf.reshape(x, (-1,))


def concatenate(tensors: Any, axis: int = -1) -> Any:
    """Put tensors one after another."""
    return tf.concat(tensors, axis)


def transpose(x: Any) -> Any:
    """Reverse the axes."""
    return tf.transpose(x)


def argmax(x: Any, axis: int = -1) -> Any:
    """Give the index of the largest element along an axis."""
    return tf.argmax(x, axis)


def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Add along axes, all by default."""
    return tf.reduce_sum(x, axis, keepdims)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Average along axes, all by default."""
    return tf.reduce_mean(x, axis, keepdims)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Take the largest along axes, all by default."""
    return tf.reduce_max(x, axis, keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Take the smallest along axes, all by default."""
    return tf.reduce_min(x, axis, keepdims)


__getattr__ = _names.missing(__name__, __all__)
