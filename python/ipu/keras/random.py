# SPDX-License-Identifier: MIT
"""``ipu.keras.random``: random numbers, by the names of Keras 3.

``seed`` is an integer, for the same numbers at each call; a :class:`SeedGenerator`, for
others at each call; or None, for those of the global seed
(``keras.utils.set_random_seed``), others at each call, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu._device.generators import generator as _generator
from ipu._text.exports import export, offered
from ipu._text.suggestions import refuse_unknown as _refuse_unknown
from ipu.keras.ops import _bodies as b, _table as t
from ipu.tf.random import experimental as _experimental

_ENDS = np.iinfo(np.int32)


class SeedGenerator(tf.Module):
    """Gives a new seed at each call: to functions of ``keras.random``.

    What it has given is counted in a variable; so a layer that holds one draws new
    numbers in each step, on the device, too, and goes on with them where its model is
    read from a file.

    Args:
        seed: An integer; None: it is drawn by the global seed.
        name: Its name.

    Attributes:
        state: The seed and the count, an int32 variable.

    Raises:
        ValueError: ``seed`` is not an integer of 32 bits.

    Source: ``keras.random.SeedGenerator`` of Keras 3.

    Example:
        >>> seeds = keras.random.SeedGenerator(1)
        >>> a, b = (keras.random.normal((3,), seed=seeds) for _ in range(2))
        >>> bool(tf.reduce_all(a == b))
        False
        >>> seeds.state.numpy().tolist()
        [1, 2]
    """

    def __init__(
        self, seed: int | None = None, name: str | None = None, **kwargs: Any
    ) -> None:
        _refuse_unknown("SeedGenerator", kwargs, ("dtype",))
        super().__init__(name=name or "seed_generator")
        if seed is None:
            seed = int(_generator(None).integers(1 << 31))
        self._initial_seed = seed
        self.state = tf.Variable(_first(seed), trainable=False, name=self.name)

    def next(self, ordered: bool = True) -> Any:
        """Return a seed, int32[2], and count it.

        Args:
            ordered: Accepted and not used: draws always have the program's order.
        """
        del ordered
        seed = self.state.value()
        self.state.assign_add(np.array([0, 1], np.int32))
        return seed

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal one."""
        return {"seed": self._initial_seed}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> SeedGenerator:
        """Make one from what ``get_config`` gave."""
        return cls(**config)


def _first(seed: Any) -> np.ndarray[Any, Any]:
    is_whole = isinstance(seed, (int, np.integer)) and not isinstance(seed, bool)
    if not is_whole or not -(2**31) <= seed < 2**32:
        raise ValueError(
            "`seed` must be an integer of 32 bits, a SeedGenerator or None. Received: "
            f"seed={seed!r} ({type(seed).__name__})."
        )
    return np.array([int(seed) & 0xFFFFFFFF, 0], np.uint32).view(np.int32)


def _key(seed: Any) -> Any:
    """Return the seed of a function that is stateless."""
    if isinstance(seed, SeedGenerator):
        return seed.next()
    if seed is None:
        return tf.random.uniform((2,), _ENDS.min, _ENDS.max, tf.int32)
    return _first(seed)


def _row(function: t.Function, text: str, example: str) -> t.Function:
    return t.op(function, text, example, "random")


def _beta(
    shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None
) -> Any:
    first, second = tf.unstack(tf.random.split(_key(seed)))
    kind = t.dtype_of(dtype)
    a = tf.random.stateless_gamma(shape, first, t.tensor(alpha, kind), None, kind)
    c = tf.random.stateless_gamma(shape, second, t.tensor(beta, kind), None, kind)
    return a / (a + c)


def _binomial(
    shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None
) -> Any:
    parts = (t.floats(counts), t.floats(probabilities))
    drawn = tf.random.stateless_binomial(shape, _key(seed), *parts)
    return tf.cast(drawn, t.dtype_of(dtype))


def _dropout(
    inputs: Any, rate: float, noise_shape: Any = None, seed: Any = None
) -> Any:
    if not 0 <= rate <= 1:
        raise ValueError(f"`rate` is in [0, 1]. Received: rate={rate!r}.")
    values = t.floats(inputs)
    wanted = [None] * values.ndim if noise_shape is None else list(noise_shape)
    sizes = [
        size if one is None else one
        for one, size in zip(wanted, values.shape, strict=True)
    ]
    kept = tf.random.stateless_uniform(sizes, _key(seed)) >= rate
    return tf.where(kept, values / max(1.0 - rate, 1e-7), tf.zeros_like(values))


def _shuffle(x: Any, axis: int = 0, seed: Any = None) -> Any:
    moved = b.moveaxis(x, axis, 0)
    return b.moveaxis(_experimental.stateless_shuffle(moved, _key(seed)), 0, axis)


# fmt: off
beta = _row(_beta, "Draw from the beta distribution",
    "beta((2, 3), 2.0, 1.0, seed=1).shape => (2, 3)")
binomial = _row(_binomial, "Draw how many of so many trials succeed",
    "binomial((2,), 5.0, 1.0, seed=1) -> [5.0, 5.0]")
categorical = _row(lambda logits, num_samples, dtype="int32", seed=None:
    tf.random.stateless_categorical(t.floats(logits), num_samples, _key(seed), dtype),
    "Draw class numbers by logits, ``[batch, classes]``",
    "categorical([[0.0, -1e9]], 3, seed=1) -> [[0, 0, 0]]")
dropout = _row(_dropout, "Put a share of the elements to 0, and scale the others",
    "dropout([1.0, 1.0], 0.0, seed=1) -> [1.0, 1.0]")
gamma = _row(lambda shape, alpha, dtype=None, seed=None: tf.random.stateless_gamma(
    shape, _key(seed), t.tensor(alpha, t.dtype_of(dtype)), None, t.dtype_of(dtype)),
    "Draw from the gamma distribution of scale 1",
    "gamma((2, 3), 2.0, seed=1).shape => (2, 3)")
normal = _row(lambda shape, mean=0.0, stddev=1.0, dtype=None, seed=None:
    tf.random.stateless_normal(shape, _key(seed), mean, stddev, t.dtype_of(dtype)),
    "Draw from the normal distribution", "normal((2, 3), seed=1).shape => (2, 3)")
randint = _row(lambda shape, minval, maxval, dtype="int32", seed=None:
    tf.random.stateless_uniform(shape, _key(seed), minval, maxval, dtype),
    "Draw integers from minval to before maxval",
    "randint((2,), 3, 4, seed=1) -> [3, 3]")
shuffle = _row(_shuffle, "Put what lies along an axis into random order",
    "shuffle([7, 7], seed=1) -> [7, 7]")
truncated_normal = _row(lambda shape, mean=0.0, stddev=1.0, dtype=None, seed=None:
    tf.random.stateless_truncated_normal(shape, _key(seed), mean, stddev,
    t.dtype_of(dtype)), "Draw from the normal distribution, within two deviations",
    "truncated_normal((2, 3), seed=1).shape => (2, 3)")
uniform = _row(lambda shape, minval=0.0, maxval=1.0, dtype=None, seed=None:
    tf.random.stateless_uniform(shape, _key(seed), minval, maxval, t.dtype_of(dtype)),
    "Draw evenly from minval to before maxval",
    "uniform((2, 3), seed=1).shape => (2, 3)")
# fmt: on

if not TYPE_CHECKING:
    export(__name__, offered(__name__))
