# SPDX-License-Identifier: MIT
"""Variables and constants: made, read, assigned, drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu._core import Tensor
from ipu._text.arguments import checked_list, checked_tensor, checked_variable
from ipu._text.exports import defined, like
from ipu.keras._backend_state import state
from ipu.tf._functions.tracing import in_trace, init_scope


def constant(
    value: Any, dtype: Any = None, shape: Any = None, name: str | None = None
) -> Tensor:
    """Return a tensor of known values, of the default float type unless ``dtype`` is
    given.

    Example:
        >>> constant([1, 2]).numpy().tolist()
        [1.0, 2.0]
    """
    return tf.constant(value, _kind(dtype), shape)


def _kind(dtype: Any) -> Any:
    return state.floatx if dtype is None else dtype


def variable(
    value: Any, dtype: Any = None, name: str | None = None, constraint: Any = None
) -> Any:
    """Make a variable, of ``floatx()`` by default.

    Example:
        >>> weights = variable([[1.0, 2.0]], name="weights")
        >>> weights.dtype.name, weights.shape
        ('float32', (1, 2))
    """
    return tf.Variable(value, dtype=_kind(dtype), name=name, constraint=constraint)


def _filled(make: Any, shape: Any, dtype: Any, name: str | None) -> Any:
    if in_trace():  # no variable is made while a function is traced
        return make(shape, _kind(dtype))
    with init_scope():
        return variable(make(shape, _kind(dtype)), dtype, name)


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Make a variable of zeros; while a function is traced, a tensor.

    Example:
        >>> zeros((2, 3)).shape
        (2, 3)
    """
    return _filled(tf.zeros, shape, dtype, name)


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Make a variable of ones; while a function is traced, a tensor.

    Example:
        >>> get_value(ones((2, 2))).tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """
    return _filled(tf.ones, shape, dtype, name)


def eye(size: int, dtype: Any = None, name: str | None = None) -> Any:
    """Make a variable of the identity matrix; while a function is traced, a tensor.

    Example:
        >>> get_value(eye(2)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return _filled(lambda n, kind: tf.eye(n, dtype=kind), size, dtype, name)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = "int32") -> Tensor:
    """Return the numbers from ``start`` to before ``stop``; of one number, from 0.

    Example:
        >>> arange(3).numpy().tolist()
        [0, 1, 2]
    """
    if stop is None:
        start, stop = 0, start
    return tf.range(start, stop, step, dtype=dtype)


def placeholder(
    shape: Sequence[int | None] | None = None,
    ndim: int | None = None,
    dtype: Any = None,
    sparse: bool = False,
    name: str | None = None,
    ragged: bool = False,
) -> Any:
    """Return the symbolic input of a functional model: ``keras.Input`` with the batch.

    Args:
        shape: All sizes, that of the batch first; None for an open one.
        ndim: How many open sizes, where ``shape`` is not given.
        dtype: ``floatx()`` by default.
        sparse: Must be False.
        name: A name.
        ragged: Must be False.

    Raises:
        ValueError: Neither shape nor ndim; sparse or ragged.

    Example:
        >>> placeholder((None, 28, 28)).shape
        (None, 28, 28)
    """
    from ipu.keras import Input

    if sparse or ragged:
        raise ValueError("A placeholder here is dense: leave sparse and ragged False.")
    if shape is None and ndim is None:
        raise ValueError("placeholder takes a shape or ndim. Received neither.")
    sizes = (
        tuple(checked_list("shape", shape))
        if shape is not None
        else (None,) * (ndim or 0)
    )
    return Input(batch_shape=sizes, dtype=_kind(dtype), name=name)


# --- what a value is ------------------------------------------------------------------


def int_shape(x: Any) -> tuple[int | None, ...] | None:
    """Return the sizes of a tensor, None where a symbolic one is open.

    Example:
        >>> int_shape(placeholder((None, 5)))
        (None, 5)
    """
    return tuple(checked_tensor("x", x).shape)


def ndim(x: Any) -> int:
    """Return the number of axes.

    Example:
        >>> ndim(tf.ones((2, 3, 4)))
        3
    """
    return len(checked_tensor("x", x).shape)


def dtype(x: Any) -> str:
    """Return the name of a tensor's dtype.

    Example:
        >>> dtype(tf.constant([1, 2]))
        'int32'
    """
    return str(checked_tensor("x", x).dtype.name)


def count_params(x: Any) -> int:
    """Return the number of elements.

    Example:
        >>> count_params(zeros((2, 3)))
        6
    """
    return int(np.prod(checked_tensor("x", x).shape, dtype=np.int64))


def is_sparse(tensor: Any) -> bool:
    """Return whether something is a ``tf.sparse.SparseTensor``.

    Example:
        >>> is_sparse(tf.sparse.SparseTensor([[0, 1]], [5.0], [1, 3]))
        True
    """
    return isinstance(tensor, tf.sparse.SparseTensor)


def to_dense(tensor: Any) -> Any:
    """Return a tensor as it is, a sparse one with its zeros.

    Example:
        >>> to_dense(tf.sparse.SparseTensor([[0, 1]], [5.0], [1, 3])).numpy().tolist()
        [[0.0, 5.0, 0.0]]
    """
    return tf.sparse.to_dense(tensor) if is_sparse(tensor) else tensor


def is_keras_tensor(x: Any) -> bool:
    """Return whether something is a symbolic value that a layer gave.

    Example:
        >>> is_keras_tensor(placeholder((None, 5))), is_keras_tensor(tf.ones(5))
        (True, False)
    """
    from ipu.keras.engine.symbols.keras_tensor import KerasTensor

    return isinstance(x, KerasTensor)


# --- reading and writing --------------------------------------------------------------


def get_value(x: Any) -> Any:
    """Return a variable or tensor as a NumPy array or number.

    Example:
        >>> get_value(variable([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """
    return x.numpy() if hasattr(x, "numpy") else x


eval = get_value


def batch_get_value(tensors: Sequence[Any]) -> list[Any]:
    """Return the values of several variables or tensors.

    Example:
        >>> [float(v) for v in batch_get_value([variable(1.0), variable(2.0)])]
        [1.0, 2.0]
    """
    return [get_value(tensor) for tensor in checked_list("tensors", tensors)]


def set_value(x: Any, value: Any) -> None:
    """Assign a value to a variable.

    Example:
        >>> x = variable([1.0, 2.0])
        >>> set_value(x, [3.0, 4.0])
        >>> get_value(x).tolist()
        [3.0, 4.0]
    """
    checked_variable("x", x).assign(np.asarray(value, dtype=x.dtype.as_numpy_dtype))


def batch_set_value(tuples: Sequence[tuple[Any, Any]]) -> None:
    """Assign values, given as pairs of a variable and a value.

    Example:
        >>> x, y = variable(1.0), variable(2.0)
        >>> batch_set_value([(x, 3.0), (y, 4.0)])
        >>> float(x), float(y)
        (3.0, 4.0)
    """
    for x, value in checked_list("tuples", tuples):
        set_value(x, value)


def update(x: Any, new_x: Any) -> Any:
    """Assign ``new_x`` to a variable.

    Example:
        >>> x = variable(1.0)
        >>> float(update(x, 5.0)), float(x)
        (5.0, 5.0)
    """
    return checked_variable("x", x).assign(new_x)


def update_add(x: Any, increment: Any) -> Any:
    """Add to a variable.

    Example:
        >>> x = variable([1.0, 2.0])
        >>> get_value(update_add(x, [10.0, 10.0])).tolist()
        [11.0, 12.0]
    """
    return checked_variable("x", x).assign_add(increment)


def update_sub(x: Any, decrement: Any) -> Any:
    """Subtract from a variable.

    Example:
        >>> x = variable(5.0)
        >>> float(update_sub(x, 2.0))
        3.0
    """
    return checked_variable("x", x).assign_sub(decrement)


def moving_average_update(x: Any, value: Any, momentum: Any) -> Any:
    """Assign ``x * momentum + value * (1 - momentum)`` to the variable ``x``.

    Example:
        >>> average = variable(10.0)
        >>> float(moving_average_update(average, 20.0, momentum=0.75))
        12.5
    """
    checked_variable("x", x)
    momentum = tf.cast(momentum, x.dtype)
    value = tf.cast(value, x.dtype)
    return x.assign(x * momentum + value * (1 - momentum))


def print_tensor(x: Any, message: str = "", summarize: int = 3) -> Any:
    """Print a tensor when it is computed, and give it back.

    Example:
        >>> y = print_tensor(tf.constant([1.0, 2.0]), message="x is")
    """
    tf.print(message, x, summarize=summarize)
    return x


def gradients(loss: Any, variables: Any) -> Any:
    """Return the gradients of a loss inside of a function for the device.

    Example:
        >>> @tf.function
        ... def slope(x):
        ...     return gradients(x**3, x)
        ...
        >>> float(slope(tf.constant(2.0))[0])
        12.0
    """
    return tf.gradients(loss, variables)


def function(
    inputs: Any, outputs: Any, updates: Any = None, name: str | None = None
) -> Any:
    """Make a function of a list of arrays from symbolic inputs and outputs.

    Args:
        inputs: Symbolic inputs, as of ``keras.Input``; one or a list.
        outputs: Symbolic values that they lead to; one or a list.
        updates: Must be None or empty.
        name: A name.

    Returns:
        A function that takes a list of arrays and gives arrays as ``outputs`` has
        values.

    Raises:
        ValueError: There are updates: layers make their own.

    Example:
        >>> x = keras.Input((2,))
        >>> function([x], [x * 2.0])([[[1.0, 2.0]]])[0].tolist()
        [[2.0, 4.0]]
    """
    from ipu.keras import Model

    if updates:
        raise ValueError("updates are not taken: assign in a layer's call.")
    model = Model(inputs, outputs, name=name)
    kinds = [x.dtype for x in tf.nest.flatten(inputs)]

    def call(values: Any) -> Any:
        given = values if isinstance(values, (list, tuple)) else [values]
        tensors = [tf.cast(v, k) for v, k in zip(given, kinds, strict=True)]
        found: Any = model(tensors if len(tensors) > 1 else tensors[0])
        if isinstance(outputs, list) and len(outputs) == 1:
            found = [found]  # a model unpacks the only one
        return tf.nest.map_structure(get_value, found)

    return call


# --- random numbers -------------------------------------------------------------------


@like(tf.random.normal)
def random_normal(
    shape: Any,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = None,
    seed: int | None = None,
) -> Tensor:
    return tf.random.normal(shape, mean, stddev, _kind(dtype), seed)


@like(tf.random.uniform)
def random_uniform(
    shape: Any,
    minval: float = 0.0,
    maxval: float = 1.0,
    dtype: Any = None,
    seed: int | None = None,
) -> Tensor:
    return tf.random.uniform(shape, minval, maxval, _kind(dtype), seed)


@like(tf.random.truncated_normal)
def truncated_normal(
    shape: Any,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = None,
    seed: int | None = None,
) -> Tensor:
    return tf.random.truncated_normal(shape, mean, stddev, _kind(dtype), seed)


def random_bernoulli(
    shape: Any, p: float = 0.0, dtype: Any = None, seed: int | None = None
) -> Tensor:
    """Draw ones with probability ``p``, else zeros.

    Example:
        >>> x = random_bernoulli((1000,), p=0.25, seed=1).numpy()
        >>> sorted(set(x.tolist())), bool(100 < x.sum() < 400)
        ([0.0, 1.0], True)
    """
    drawn = tf.random.uniform(shape, seed=seed) < p
    return tf.cast(drawn, _kind(dtype))


random_binomial = random_bernoulli  # its name before Keras 2.4


def random_uniform_variable(
    shape: Any,
    low: float,
    high: float,
    dtype: Any = None,
    name: str | None = None,
    seed: int | None = None,
) -> Any:
    """Make a variable of even random values in [low, high).

    Example:
        >>> x = random_uniform_variable((2, 3), -1.0, 1.0, seed=1)
        >>> x.shape, bool(abs(x.numpy()).max() <= 1.0)
        ((2, 3), True)
    """
    return variable(random_uniform(shape, low, high, dtype, seed), dtype, name)


def random_normal_variable(
    shape: Any,
    mean: float,
    scale: float,
    dtype: Any = None,
    name: str | None = None,
    seed: int | None = None,
) -> Any:
    """Make a variable of normally distributed values.

    Example:
        >>> x = random_normal_variable((100, 100), mean=1.0, scale=2.0, seed=1)
        >>> mean, deviation = x.numpy().mean(), x.numpy().std()
        >>> bool(0.5 < mean < 1.5), bool(1.5 < deviation < 2.5)
        (True, True)
    """
    return variable(random_normal(shape, mean, scale, dtype, seed), dtype, name)


if not TYPE_CHECKING:
    __all__ = defined(__name__, "eval random_binomial".split())
