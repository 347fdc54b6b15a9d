# SPDX-License-Identifier: MIT
"""Random numbers of further distributions, and seeds out of seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import _core
from ipu._text.tracebacks import boundary
from ipu.tf._ops.elementwise import maximum, ndtri
from ipu.tf._ops.shapes import stack
from ipu.tf._random import ops as random
from ipu.tf._tensor.convert import Tensor, apply, cast, like, sizes_of
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import as_dtype, float32, int32


def _spread(value: Tensor, shape: Any) -> Tensor:
    try:
        return apply("broadcast", (value,), {"shape": list(shape)})
    except Exception as error:
        raise ValueError(
            f"A parameter of shape {value.shape} does not broadcast to the result's "
            f"shape {tuple(shape)}."
        ) from error


def _float_of(dtype: Any) -> str:
    """Return the floating-point type in which numbers of a type are drawn."""
    kind = as_dtype(dtype)
    return kind.name if kind.is_floating else "float32"


def _gamma(
    shape: list[int], alpha: Tensor, beta: Any, seed: int | None, key: Any
) -> Tensor:
    attrs = {"seed": seed}
    drawn = apply("random_gamma", (_spread(alpha, shape), *key), attrs)
    if beta is not None:
        drawn = drawn / like(beta, drawn)
    return maximum(drawn, np.finfo(drawn.dtype.as_numpy_dtype).tiny)


@op
def gamma(
    shape: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return numbers from the gamma distribution.

    Args:
        shape: How many for each pair of parameters.
        alpha: The shape of the distribution, positive.
        beta: One over its scale; 1 where it is None.
        dtype: A floating-point type.
        seed: The op's own seed, or None.

    Returns:
        ``shape`` followed by the shape of the parameters; differentiable by both.

    Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000;
    the gradient: Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients",
    2018.

    Example:
        >>> tf.random.gamma((3,), [0.5, 1.5]).shape
        (3, 2)
    """
    first = like(alpha, Tensor(0, as_dtype(dtype).name))
    other = () if beta is None else like(beta, first).shape
    lead = np.broadcast_shapes(first.shape, other)
    return _gamma([*sizes_of(shape), *lead], first, beta, seed, ())


@op
def stateless_gamma(
    shape: Any,
    seed: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = float32,
    name: str | None = None,
) -> Tensor:
    """Work like :func:`gamma`, from ``seed`` alone; ``shape`` is that of the
    result.

    Example:
        >>> tf.random.stateless_gamma((3, 2), (1, 2), [0.5, 1.5]).shape
        (3, 2)
    """
    first = like(alpha, Tensor(0, as_dtype(dtype).name))
    return _gamma(sizes_of(shape), first, beta, None, (random.key_of(seed),))


def _poisson(
    shape: list[int], rate: Tensor, dtype: Any, seed: int | None, key: Any
) -> Tensor:
    attrs = {"seed": seed}
    drawn = apply("random_poisson", (_spread(rate, shape), *key), attrs)
    return cast(drawn, dtype)


@op
def poisson(
    shape: Any,
    lam: Any,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return numbers from the Poisson distribution.

    Args:
        shape: How many for each rate.
        lam: The rates: means, not negative.
        dtype: Any type of numbers.
        seed: The op's own seed, or None.

    Returns:
        ``shape`` followed by the shape of the rates.

    Source: Hörmann, "The transformed rejection method for generating Poisson random
    variables", 1993.

    Example:
        >>> tf.random.poisson((3,), [0.5, 1.5]).shape
        (3, 2)
    """
    rate = like(lam, Tensor(0, _float_of(dtype)))
    return _poisson([*sizes_of(shape), *rate.shape], rate, dtype, seed, ())


@op
def stateless_poisson(
    shape: Any, seed: Any, lam: Any, dtype: Any = int32, name: str | None = None
) -> Tensor:
    """Work like :func:`poisson`, from ``seed`` alone; ``shape`` is that of the
    result.

    Example:
        >>> tf.random.stateless_poisson((3, 2), (1, 2), [0.5, 1.5]).dtype
        tf.int32
    """
    rate = like(lam, Tensor(0, _float_of(dtype)))
    return _poisson(sizes_of(shape), rate, dtype, None, (random.key_of(seed),))


def binomial_of_key(
    shape: Any, key: Tensor, counts: Any, probs: Any, dtype: Any
) -> Tensor:
    """Return numbers from the binomial distribution, as a function of a key."""
    chance = Tensor(probs)
    if not chance.dtype.is_floating:
        chance = cast(chance, float32)
    sizes = sizes_of(shape)
    number = cast(Tensor(counts), chance.dtype)
    pair = (_spread(number, sizes), _spread(chance, sizes), key)
    return cast(apply("random_binomial", pair, {"seed": None}), dtype)


@op
def stateless_binomial(
    shape: Any,
    seed: Any,
    counts: Any,
    probs: Any,
    output_dtype: Any = int32,
    name: str | None = None,
) -> Tensor:
    """Return how many of ``counts`` trials succeed, each with the probability
    ``probs``.

    Args:
        shape: Of the result.
        seed: Two integers, or an int32[2] tensor.
        counts: How many trials; broadcasts to ``shape``.
        probs: In [0, 1]; broadcasts to ``shape``.
        output_dtype: Any type of numbers.

    Source: Hörmann, "The generation of binomial random variates", 1993.

    Example:
        >>> tf.random.stateless_binomial((3,), (1, 2), 5, 1.0).numpy().tolist()
        [5, 5, 5]
    """
    return binomial_of_key(shape, random.key_of(seed), counts, probs, output_dtype)


@op
def stateless_parameterized_truncated_normal(
    shape: Any,
    seed: Any,
    means: Any = 0.0,
    stddevs: Any = 1.0,
    minvals: Any = -2.0,
    maxvals: Any = 2.0,
    name: str | None = None,
) -> Tensor:
    """Return numbers from the normal distribution between two bounds, from ``seed``
    alone.

    Args:
        shape: Of the result, to which the parameters broadcast.
        seed: Two integers, or an int32[2] tensor.
        means: The means.
        stddevs: The standard deviations, positive.
        minvals: The least values.
        maxvals: The largest ones.

    Example:
        >>> made = tf.random.stateless_parameterized_truncated_normal(
        ...     (100,), (1, 2), minvals=0.0, maxvals=0.5
        ... )
        >>> bool(tf.reduce_all((made >= 0.0) & (made <= 0.5)))
        True
    """
    mean = Tensor(means)
    spread, low, high = (like(x, mean) for x in (stddevs, minvals, maxvals))
    root = float(np.sqrt(0.5))

    def below(x: Tensor) -> Tensor:
        """Return the share of the distribution below a distance from the mean."""
        return apply("erfc", (x * -root,)) * 0.5

    first, last = (low - mean) / spread, (high - mean) / spread
    # the upper half mirrored onto the lower one, where shares are not close to 1
    mirrored = first > 0.0
    start = apply("select", (mirrored, -last, first))
    end = apply("select", (mirrored, -first, last))
    drawn = random.stateless_uniform(shape, seed, dtype=mean.dtype)
    share = below(start) + (below(end) - below(start)) * drawn
    away = apply("minimum", (apply("maximum", (ndtri(share), start)), end))
    return mean + spread * apply("select", (mirrored, -away, away))


@op
def stateless_shuffle(
    value: Any, seed: Any, alg: Any = None, name: str | None = None
) -> Tensor:
    """Work like ``tf.random.shuffle``, from ``seed`` alone: two integers.

    Example:
        >>> made = tf.random.experimental.stateless_shuffle([1, 2, 3], (1, 2))
        >>> sorted(made.numpy().tolist())
        [1, 2, 3]
    """
    rows = Tensor(value)
    info = np.iinfo(np.int32)
    keys = random.stateless_uniform(
        (rows.shape[0],), seed, info.min, info.max, dtype=int32
    )
    order = _core.apply("top_k", (keys,), {"depth": rows.shape[0]})[1]
    return apply("gather", (rows, order), {"axis": 0})


def fold_in(seed: Any, data: Any, alg: Any = None) -> Tensor:
    """Return a new seed out of a seed and a number.

    Args:
        seed: Two integers.
        data: An integer.
        alg: Accepted and not used: there is one algorithm.

    Example:
        >>> tf.random.fold_in((1, 2), 3).shape
        (2,)
    """
    info = np.iinfo(np.int32)
    first = random.stateless_uniform((), seed, info.min, info.max, dtype=int32)
    return stack([first, cast(Tensor(data), int32)])


@boundary
def split(seed: Any, num: int = 2, alg: Any = None) -> Tensor:
    """Return new seeds out of a seed: int32 [num, 2].

    Example:
        >>> tf.random.split((1, 2), 3).shape
        (3, 2)
    """
    info = np.iinfo(np.int32)
    return random.stateless_uniform((num, 2), seed, info.min, info.max, dtype=int32)
