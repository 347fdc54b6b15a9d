# SPDX-License-Identifier: MIT
"""``tf.random.Generator``: random numbers with a state of their own."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ipu._device import seed as _seed
from ipu._text.tracebacks import boundaries
from ipu.tf._random import distributions, ops
from ipu.tf._tensor.convert import Tensor
from ipu.tf.dtypes import float32, int32
from ipu.tf.variable import Variable


def _first_state(seed: Any) -> np.ndarray[Any, Any]:
    try:
        number = operator.index(seed)
    except TypeError:
        raise TypeError(f"`seed` is an integer. Received: seed={seed!r}.") from None
    return np.array([number & 0xFFFFFFFF, 0], dtype=np.uint32).view(np.int32)


@boundaries()
class Generator:
    """Draws numbers from its own stream, which no other op disturbs.

    The state is a variable of two numbers, the seed and a counter that each draw
    advances; so a generator works inside of functions and loops, too, and two with the
    same state give the same numbers.

    Args:
        copy_from: A generator whose state it begins with.
        state: Or the state itself: two integers of 32 bits.
        alg: Accepted and not used: there is one algorithm.

    Raises:
        TypeError: ``copy_from`` is not a generator.
        ValueError: ``state`` is not two integers of 32 bits.

    Example:
        >>> a, b = (tf.random.Generator.from_seed(7) for _ in range(2))
        >>> bool(tf.reduce_all(a.normal((3,)) == b.normal((3,))))
        True
    """

    def __init__(
        self, copy_from: Any = None, state: Any = None, alg: Any = None
    ) -> None:
        if copy_from is not None:
            if not isinstance(copy_from, Generator):
                raise TypeError(
                    "`copy_from` must be a tf.random.Generator. Received: "
                    f"copy_from={copy_from!r}. Write "
                    "tf.random.Generator.from_seed(seed) for one of a seed."
                )
            state = copy_from.state
        first = np.asarray(state)
        is_pair = first.shape == (2,) and first.dtype.kind in "iu"
        if not is_pair or min(first) < -(2**31) or max(first) >= 2**32:
            raise ValueError(
                f"`state` must be two integers of 32 bits. Received: state={state!r}."
            )
        self._state = Variable(first.astype(np.int32), trainable=False, name="StateVar")

    @classmethod
    def from_seed(cls, seed: int, alg: Any = None) -> Generator:
        """Return a generator whose stream is a function of ``seed``.

        Args:
            seed: Any integer.
            alg: Accepted and not used: there is one algorithm.

        Example:
            >>> tf.random.Generator.from_seed(1).uniform((2,)).shape
            (2,)
        """
        return cls(state=_first_state(seed))

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """Return a generator that differs from one run of the program to the next."""
        words = np.random.default_rng().integers(0, 2**31, 2, dtype=np.int32)
        return cls(state=words)

    def _checkpoint_parts(self, names: Any) -> dict[str, Any]:
        return {"state": self._state}

    @property
    def state(self) -> Variable:
        """The seed and the counter, an int32 variable."""
        return self._state

    @property
    def key(self) -> Tensor:
        """The seed."""
        return self._state.value()[0]

    def reset_from_seed(self, seed: int) -> None:
        """Start again, as :meth:`from_seed` does."""
        self._state.assign(_first_state(seed))

    def _next(self) -> Tensor:
        key = self._state.value()
        self._state.assign_add(np.array([0, 1], dtype=np.int32))
        return key

    def make_seeds(self, count: int = 1) -> Tensor:
        """Return seeds for the ``stateless_`` functions, int32 [2, count]."""
        info = np.iinfo(np.int32)
        return ops.stateless_uniform(
            (2, count), self._next(), info.min, info.max, int32
        )

    def split(self, count: int = 1) -> list[Generator]:
        """Return new generators, whose streams do not meet."""
        seeds = self.make_seeds(count).numpy()
        return [Generator(state=seeds[:, i]) for i in range(count)]

    def uniform(
        self,
        shape: Any,
        minval: Any = 0,
        maxval: Any = None,
        dtype: Any = float32,
        name: str | None = None,
    ) -> Tensor:
        """Return numbers drawn evenly from [minval, maxval); see
        ``tf.random.uniform``."""
        return ops.stateless_uniform(shape, self._next(), minval, maxval, dtype)

    def uniform_full_int(
        self, shape: Any, dtype: Any = int32, name: str | None = None
    ) -> Tensor:
        """Return integers from the whole range of the dtype, but its largest."""
        info = np.iinfo(np.dtype(getattr(dtype, "as_numpy_dtype", dtype)))
        return ops.stateless_uniform(shape, self._next(), info.min, info.max, dtype)

    def normal(
        self,
        shape: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = float32,
        name: str | None = None,
    ) -> Tensor:
        """Return numbers from the normal distribution; see ``tf.random.normal``."""
        return ops.stateless_normal(shape, self._next(), mean, stddev, dtype)

    def binomial(
        self,
        shape: Any,
        counts: Any,
        probs: Any,
        dtype: Any = int32,
        name: str | None = None,
    ) -> Tensor:
        """Return how many of ``counts`` trials succeed; see
        ``tf.random.stateless_binomial``.

        Example:
            >>> generator = tf.random.Generator.from_seed(1)
            >>> generator.binomial((2,), 5, 1.0).numpy().tolist()
            [5, 5]
        """
        return distributions.binomial_of_key(shape, self._next(), counts, probs, dtype)

    def skip(self, delta: int) -> Tensor:
        """Pass over ``delta`` draws; gives the state before it.

        Example:
            >>> a, b = (tf.random.Generator.from_seed(7) for _ in range(2))
            >>> _, _ = a.skip(1), b.normal((3,))
            >>> bool(tf.reduce_all(a.normal((3,)) == b.normal((3,))))
            True
        """
        before = self._state.value()
        self._state.assign_add(np.array([0, delta], dtype=np.int32))
        return before

    def reset(self, state: Any) -> None:
        """Go on from a state.

        Example:
            >>> a, b = (tf.random.Generator.from_seed(k) for k in (1, 2))
            >>> b.reset(a.state)
            >>> bool(tf.reduce_all(a.normal((3,)) == b.normal((3,))))
            True
        """
        self._state.assign(state)

    def truncated_normal(
        self,
        shape: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = float32,
        name: str | None = None,
    ) -> Tensor:
        """Work like :meth:`normal`, without what is far out."""
        return ops.stateless_truncated_normal(shape, self._next(), mean, stddev, dtype)


_global: list[Generator] = []


def get_global_generator() -> Generator:
    """Return the generator that programs share; made of the seed when first asked for.

    Example:
        >>> tf.random.get_global_generator().normal((2,)).shape
        (2,)
    """
    if not _global:
        _global.append(Generator.from_seed(_seed.current()[0]))
    return _global[0]


def set_global_generator(generator: Generator) -> None:
    """Replace the shared generator.

    Example:
        >>> tf.random.set_global_generator(tf.random.Generator.from_seed(1))
    """
    _global[:] = [generator]
