# SPDX-License-Identifier: MIT
"""Random numbers: counter-based.

A number is a function of (seed, step, replica, op, element), never of time or threads:
a program gives the same numbers on every run. ``set_seed`` seeds eager ops and devices.
The ``stateless_`` functions are functions of the seed that they are given alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import _core
from ipu._device import devices, seed as _seed
from ipu._text.tracebacks import boundary
from ipu.tf._graph import mode
from ipu.tf._tensor.convert import Tensor, apply, is_plain, like, sizes_of
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import as_dtype, float32, int32


@boundary
def set_seed(seed: int) -> None:
    """Restart the random streams: of eager ops, of initializers, and of devices.

    In a graph of TensorFlow 1 it also is the seed of the graph: each session begins
    with the same numbers then, whatever ran before.

    Each thread draws from a stream of its own, which no other thread disturbs. A
    thread that calls this function has the stream of ``seed``, the same one in
    whichever thread. The other threads share the seed that was set last by any thread
    (0 until then) and are told apart by number: the main thread is number 0, the others
    are numbered in the order in which they first draw after that call. Where that order
    is left to chance, let each thread set a seed, or use ``tf.random.Generator``.

    Args:
        seed: Any integer.

    Example:
        >>> tf.random.set_seed(1)
        >>> first = tf.random.uniform((2,)).numpy()
        >>> tf.random.set_seed(1)
        >>> bool((first == tf.random.uniform((2,)).numpy()).all())
        True
    """
    graph = mode.building()
    if graph is not None:
        graph.seed = int(seed)
    _seed.set_current(seed)
    _core.set_eager_seed(seed)
    devices.seed_all(seed)


def key_of(seed: Any) -> Tensor:
    """Return the seed of a stateless function, int32[2]."""
    key = Tensor(seed, "int32") if is_plain(seed) else Tensor(seed)
    if key.shape != (2,):
        raise ValueError(f"seed must have shape [2], not {key.shape}")
    return key if key.dtype == int32 else apply("cast", (key,), {"dtype": "int32"})


def _draw(
    row: str, shape: Any, dtype: Any, seed: int | None, inputs: tuple[Tensor, ...] = ()
) -> Tensor:
    attrs = {"shape": sizes_of(shape), "dtype": as_dtype(dtype).name, "seed": seed}
    return apply(row, inputs, attrs)


def _integers(
    shape: Any, low: Any, high: Any, dtype: Any, seed: int | None, key: Any
) -> Tensor:
    kind = as_dtype(dtype)
    limits = []
    for limit in (low, high):
        tensor = Tensor(limit, kind.name) if is_plain(limit) else Tensor(limit)
        if tensor.dtype != kind:
            tensor = apply("cast", (tensor,), {"dtype": kind.name})
        limits.append(tensor)
    attrs = {"shape": sizes_of(shape), "seed": seed}
    return apply("random_integer", (*limits, *key), attrs)


def _uniform(
    shape: Any, low: Any, high: Any, dtype: Any, seed: int | None, key: Any
) -> Tensor:
    kind = as_dtype(dtype)
    if kind.is_integer:
        if high is None:
            raise ValueError("Must specify maxval for integer dtype.")
        return _integers(shape, low, high, kind, seed, key)
    high = 1.0 if high is None else high
    drawn = _draw("random_uniform", shape, kind, seed, key)
    if is_plain(low) and is_plain(high):
        if low == 0 and high == 1:
            return drawn
        return drawn * float(high - low) + float(low)
    least = like(low, drawn)
    return drawn * (like(high, drawn) - least) + least


def _scaled(drawn: Tensor, mean: Any, stddev: Any) -> Tensor:
    if not (is_plain(stddev) and stddev == 1):
        drawn = drawn * like(stddev, drawn)
    return drawn if is_plain(mean) and mean == 0 else drawn + like(mean, drawn)


@op
def uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return numbers drawn evenly from [minval, maxval); integers where ``dtype`` is
    one.

    Args:
        shape: The result's shape.
        minval: The least value.
        maxval: The end, not included; 1 for floats, required for integers.
        dtype: A floating-point or integer type.
        seed: The op's own seed, or None.

    Example:
        >>> drawn = tf.random.uniform((100,), 5, 8, dtype=tf.int32).numpy()
        >>> sorted(set(drawn.tolist()))
        [5, 6, 7]
    """
    return _uniform(shape, minval, maxval, dtype, seed, ())


@op
def normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return numbers from the normal distribution with ``mean`` and ``stddev``.

    Args:
        shape: The result's shape.
        mean: A number or a tensor that broadcasts.
        stddev: The same.
        dtype: A floating-point type.
        seed: The op's own seed, or None.

    Example:
        >>> tf.random.normal((2, 3)).shape
        (2, 3)
    """
    return _scaled(_draw("random_normal", shape, dtype, seed), mean, stddev)


@op
def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Work like ``normal``, without what is more than two deviations from the mean.

    Example:
        >>> bool(tf.reduce_all(abs(tf.random.truncated_normal((100,))) <= 2.0))
        True
    """
    return _scaled(_draw("truncated_normal", shape, dtype, seed), mean, stddev)


@op
def shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Return the rows of ``value`` in random order.

    Args:
        value: A tensor of at least one axis.
        seed: The op's own seed, or None.

    Example:
        >>> sorted(tf.random.shuffle([1, 2, 3]).numpy().tolist())
        [1, 2, 3]
    """
    rows = Tensor(value)
    if not rows.ndim:
        raise ValueError("tf.random.shuffle takes rows. Received a scalar.")
    count = rows.shape[0]
    info = np.iinfo(np.int32)
    keys = _integers((count,), info.min, info.max, int32, seed, ())
    order = _core.apply("top_k", (keys,), {"depth": count})[1]
    return apply("gather", (rows, order), {"axis": 0})


def _categorical(
    logits: Any, num_samples: int, dtype: Any, seed: int | None, key: Any
) -> Tensor:
    """Return the largest of the logits with Gumbel's noise added."""
    scores = Tensor(logits)
    if scores.ndim != 2:
        raise ValueError(f"logits must be [batch, classes]. Received {scores.shape}.")
    batch, classes = scores.shape
    drawn = _draw(
        "random_uniform", (batch, num_samples, classes), scores.dtype, seed, key
    )
    noise = -apply("log", (-apply("log", (drawn,)),))
    column = apply("reshape", (scores,), {"shape": [batch, 1, classes]})
    kind = as_dtype(dtype).name
    return apply("argmax", (column + noise,), {"axis": 2, "dtype": kind})


@op
def categorical(
    logits: Any,
    num_samples: int,
    dtype: Any = int32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return class numbers drawn by unscaled log-probabilities.

    Args:
        logits: [batch, classes].
        num_samples: How many for each row.
        dtype: int32 (or int64 on the host).
        seed: The op's own seed, or None.

    Returns:
        [batch, num_samples].

    Example:
        >>> tf.random.categorical([[0.0, -1e9]], 3).numpy().tolist()
        [[0, 0, 0]]
    """
    return _categorical(logits, num_samples, dtype, seed, ())


@op
def stateless_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    name: str | None = None,
    alg: Any = None,
) -> Tensor:
    """Work like :func:`uniform`, from ``seed`` alone: two integers, or an
    int32[2] tensor.

    Example:
        >>> a, b = (tf.random.stateless_uniform((2,), seed=(1, 2)) for _ in range(2))
        >>> bool(tf.reduce_all(a == b))
        True
    """
    return _uniform(shape, minval, maxval, dtype, None, (key_of(seed),))


@op
def stateless_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    name: str | None = None,
    alg: Any = None,
) -> Tensor:
    """Work like :func:`normal`, from ``seed`` alone.

    Example:
        >>> tf.random.stateless_normal((2, 3), seed=(1, 2)).shape
        (2, 3)
    """
    drawn = _draw("random_normal", shape, dtype, None, (key_of(seed),))
    return _scaled(drawn, mean, stddev)


@op
def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    name: str | None = None,
    alg: Any = None,
) -> Tensor:
    """Work like :func:`truncated_normal`, from ``seed`` alone.

    Example:
        >>> tf.random.stateless_truncated_normal((4,), seed=(1, 2)).shape
        (4,)
    """
    drawn = _draw("truncated_normal", shape, dtype, None, (key_of(seed),))
    return _scaled(drawn, mean, stddev)


@op
def stateless_categorical(
    logits: Any, num_samples: int, seed: Any, dtype: Any = int32, name: str = ""
) -> Tensor:
    """Work like :func:`categorical`, from ``seed`` alone.

    Example:
        >>> tf.random.stateless_categorical([[0.0, -1e9]], 2, (1, 2)).numpy().tolist()
        [[0, 0]]
    """
    return _categorical(logits, num_samples, dtype, None, (key_of(seed),))


@op
def dropout(
    x: Any,
    rate: float,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Set a share ``rate`` of the elements to 0 and scale the others by 1 / (1 - rate).

    Args:
        x: A floating-point tensor.
        rate: In [0, 1).
        noise_shape: The shape in which decisions are drawn; it broadcasts to ``x``.
        seed: The op's own seed, or None.

    Raises:
        ValueError: The rate is not in [0, 1), or the noise shape does not fit.

    Example:
        >>> tf.nn.dropout([1.0, 1.0], rate=0.0).numpy().tolist()
        [1.0, 1.0]
    """
    value = Tensor(x)
    attrs = {"rate": float(rate), "seed": seed}
    if noise_shape is None:
        kept: Tensor = _core.apply("dropout", (value,), attrs)[0]
        return kept
    sizes = [
        size if wanted is None else int(wanted)
        for wanted, size in zip(noise_shape, value.shape, strict=True)
    ]
    if any(s not in (1, whole) for s, whole in zip(sizes, value.shape, strict=True)):
        raise ValueError(
            f"noise_shape {tuple(sizes)} must be 1 or the size of the input "
            f"{value.shape} in each axis."
        )
    ones = apply("broadcast", (like(1, value),), {"shape": sizes})
    return value * _core.apply("dropout", (ones,), attrs)[0]
