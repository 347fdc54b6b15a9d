# SPDX-License-Identifier: MIT
"""``ipu.keras.initializers``: the first values of weights.

Values are drawn on the host by NumPy's PCG64, as a function of the initializer's own
seed or, without one, of the seed of ``tf.random.set_seed`` and of how many initializers
drew before: the same program gives the same weights on every run. With a ``seed``, an
integer, every call gives the same values; None draws new ones.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ipu._device.generators import generator
from ipu._text.exports import defined, export, like
from ipu.keras import _serialization
from ipu.keras._arguments import Configured
from ipu.keras._types import Tensor
from ipu.tf._tensor import convert
from ipu.tf.dtypes import as_dtype

_PIECE = 1 << 16  # numbers

Array = np.ndarray[Any, np.dtype[Any]]


class Initializer(Configured):
    """A callable ``(shape, dtype)`` that gives the first value of a weight.

    Example:
        >>> import math
        >>> class Ramp(Initializer):
        ...     def __call__(self, shape, dtype=None, **kwargs):
        ...         return tf.reshape(tf.range(float(math.prod(shape))), shape)
        ...
        >>> Ramp()((2, 2)).numpy().tolist()
        [[0.0, 1.0], [2.0, 3.0]]
    """

    def __call__(
        self, shape: Sequence[int], dtype: Any = "float32", **kwargs: Any
    ) -> Tensor:
        """Return a tensor of the shape and dtype.

        Args:
            shape: The sizes.
            dtype: A dtype or its name, float32 by default.
            **kwargs: Accepted and ignored, as in Keras.
        """
        sizes = tuple(int(size) for size in shape)
        wanted = as_dtype("float32" if dtype is None else dtype)
        return convert.constant(self.values_as(sizes, np.dtype(wanted.as_numpy_dtype)))

    def values_as(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return what ``values`` gives, in this dtype."""
        return self.values(shape).astype(dtype)

    def values(self, shape: tuple[int, ...]) -> Array:
        """Return the value as an array, which need not have the final dtype."""
        raise NotImplementedError(
            f"{type(self).__name__} must define __call__(shape, dtype) or "
            "values(shape)."
        )


class _Seeded(Initializer):
    """An initializer that draws its values."""

    seed: int | None

    def rng(self) -> np.random.Generator:
        """Return the generator of one draw."""
        return generator(self.seed)


def _uniform_values(
    rng: np.random.Generator,
    limits: tuple[float, float],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> Array:
    """Draw uniform numbers piece by piece: all at once take twice the room in float64.

    They are the numbers that one draw gives.
    """
    values = np.empty(math.prod(shape), dtype)
    for start in range(0, values.size, _PIECE):
        piece = values[start : start + _PIECE]
        piece[:] = rng.uniform(*limits, piece.size)
    return values.reshape(shape)


def _truncated_normal_values(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw normal numbers, again where they are outside of two deviations."""
    draw = rng.normal(size=shape)
    while True:
        outside = np.abs(draw) > 2.0
        count = int(outside.sum())
        if count == 0:
            return np.asarray(draw)
        draw = np.asarray(draw)
        draw[outside] = rng.normal(size=count)


class Zeros(Initializer):
    """All zeros.

    Example:
        >>> Zeros()((2,)).numpy().tolist()
        [0.0, 0.0]
    """

    def values(self, shape: tuple[int, ...]) -> Array:
        return np.zeros(shape)


class Ones(Initializer):
    """All ones.

    Example:
        >>> Ones()((2,)).numpy().tolist()
        [1.0, 1.0]
    """

    def values(self, shape: tuple[int, ...]) -> Array:
        return np.ones(shape)


class Constant(Initializer):
    """One given number, or a given array, everywhere.

    Args:
        value: A number, or an array that broadcasts to the weight's shape.

    Example:
        >>> Constant(2.0)((2,)).numpy().tolist()
        [2.0, 2.0]
    """

    def __init__(self, value: Any = 0) -> None:
        self.value = value
        if isinstance(value, (list, np.ndarray)):
            self.value = copy.deepcopy(value)

    def values(self, shape: tuple[int, ...]) -> Array:
        return np.broadcast_to(np.asarray(self.value), shape)


class RandomUniform(_Seeded):
    """Uniform in ``[minval, maxval)``.

    Args:
        minval: The lower end.
        maxval: The upper end, not reached.

    Example:
        >>> RandomUniform(0.0, 1.0, seed=1)((2, 3)).shape
        (2, 3)
    """

    def __init__(
        self, minval: float = -0.05, maxval: float = 0.05, seed: int | None = None
    ) -> None:
        self.minval = minval
        self.maxval = maxval
        self.seed = seed

    def values(self, shape: tuple[int, ...]) -> Array:
        return self.values_as(shape, np.dtype(np.float64))

    def values_as(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return _uniform_values(self.rng(), (self.minval, self.maxval), shape, dtype)


class RandomNormal(_Seeded):
    """Normal.

    Args:
        mean: The mean.
        stddev: The standard deviation.

    Example:
        >>> RandomNormal(seed=1)((2, 3)).shape
        (2, 3)
    """

    def __init__(
        self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None
    ) -> None:
        self.mean = mean
        self.stddev = stddev
        self.seed = seed

    def values(self, shape: tuple[int, ...]) -> Array:
        return self.rng().normal(self.mean, self.stddev, shape)


class TruncatedNormal(RandomNormal):
    """Normal, drawn again where more than two standard deviations from the mean.

    Args:
        mean: The mean.
        stddev: The standard deviation before the cut.

    Example:
        >>> bool(abs(TruncatedNormal(0.0, 1.0, seed=1)((99,)).numpy()).max() < 2)
        True
    """

    def values(self, shape: tuple[int, ...]) -> Array:
        return self.mean + self.stddev * _truncated_normal_values(self.rng(), shape)


class Orthogonal(_Seeded):
    """A matrix with orthonormal rows or columns, whichever are fewer.

    Args:
        gain: Factor of the matrix.

    Example:
        >>> q = Orthogonal(seed=1)((3, 3)).numpy()
        >>> bool(abs(q @ q.T - np.eye(3)).max() < 1e-6)
        True
    """

    def __init__(self, gain: float = 1.0, seed: int | None = None) -> None:
        self.gain = gain
        self.seed = seed

    def values(self, shape: tuple[int, ...]) -> Array:
        """Draw; all axes but the last count as rows.

        Raises:
            ValueError: ``shape`` has fewer than two axes.
        """
        if len(shape) < 2:
            raise ValueError(
                "The tensor to initialize must be at least two-dimensional. "
                f"Received: shape={shape} of rank {len(shape)}."
            )
        rows, columns = math.prod(shape[:-1]), shape[-1]
        draw = self.rng().normal(size=(max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(draw)
        # without the signs of r's diagonal, q would not be uniform
        q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
        return self.gain * (q if rows >= columns else q.T).reshape(shape)


class Identity(Initializer):
    """The identity matrix.

    Args:
        gain: Factor of the matrix.

    Example:
        >>> Identity()((2, 2)).numpy().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def values(self, shape: tuple[int, ...]) -> Array:
        """Return the matrix.

        Raises:
            ValueError: ``shape`` has not two axes.
        """
        if len(shape) != 2:
            raise ValueError(
                "Identity matrix initializer can only be used for 2D matrices. "
                f"Received: shape={shape} of rank {len(shape)}."
            )
        return self.gain * np.eye(*shape)


class VarianceScaling(_Seeded):
    """Draws with a variance that fits the number of a weight's inputs or outputs.

    Args:
        scale: Factor of the variance, above 0.
        mode: ``"fan_in"``, ``"fan_out"`` or ``"fan_avg"``: what divides ``scale``.
        distribution: ``"truncated_normal"``, ``"untruncated_normal"`` or
            ``"uniform"``.

    Raises:
        ValueError: An argument has another value.

    Example:
        >>> draw = VarianceScaling(scale=1.0, mode="fan_out", seed=1)
        >>> f"{draw((300, 100)).numpy().std():.1f}"
        '0.1'
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
    ) -> None:
        if not scale > 0.0:
            raise ValueError(
                f"`scale` must be positive float. Received: scale={scale!r}."
            )
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(
                "`mode` must be 'fan_in', 'fan_out' or 'fan_avg'. "
                f"Received: mode={mode!r}."
            )
        distribution = distribution.lower()
        if distribution == "normal":
            distribution = "truncated_normal"
        if distribution not in ("uniform", "truncated_normal", "untruncated_normal"):
            raise ValueError(
                "`distribution` must be 'uniform', 'truncated_normal' or "
                f"'untruncated_normal'. Received: distribution={distribution!r}."
            )
        self.scale = scale
        self.mode = mode
        self.distribution = distribution
        self.seed = seed

    def _variance(self, shape: tuple[int, ...]) -> float:
        fan_in, fan_out = _fans(shape)
        fan = {
            "fan_in": fan_in,
            "fan_out": fan_out,
            "fan_avg": (fan_in + fan_out) / 2.0,
        }[self.mode]
        return self.scale / max(1.0, fan)

    def values_as(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        if self.distribution != "uniform":
            return super().values_as(shape, dtype)
        limit = math.sqrt(3.0 * self._variance(shape))
        return _uniform_values(self.rng(), (-limit, limit), shape, dtype)

    def values(self, shape: tuple[int, ...]) -> Array:
        if self.distribution == "uniform":
            return self.values_as(shape, np.dtype(np.float64))
        variance = self._variance(shape)
        if self.distribution == "untruncated_normal":
            return self.rng().normal(0.0, math.sqrt(variance), shape)
        # what cutting at two standard deviations takes away from the spread
        stddev = math.sqrt(variance) / 0.87962566103423978
        return stddev * _truncated_normal_values(self.rng(), shape)


class _Named(VarianceScaling):
    """A VarianceScaling with everything fixed but the seed."""

    fixed: tuple[float, str, str]

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(*self.fixed, seed=seed)


class GlorotUniform(_Named):
    """Uniform within ``sqrt(6 / (fan_in + fan_out))`` (Glorot and Bengio 2010).

    Example:
        >>> largest = abs(GlorotUniform(seed=1)((100, 500)).numpy()).max()
        >>> bool(largest <= 0.1)
        True
    """

    fixed = (1.0, "fan_avg", "uniform")


class GlorotNormal(_Named):
    """Cut normal of variance ``2 / (fan_in + fan_out)`` (Glorot and Bengio 2010).

    Example:
        >>> f"{GlorotNormal(seed=1)((50, 150)).numpy().std():.1f}"
        '0.1'
    """

    fixed = (1.0, "fan_avg", "truncated_normal")


class HeUniform(_Named):
    """Uniform within ``sqrt(6 / fan_in)`` (He et al. 2015).

    Example:
        >>> bool(abs(HeUniform(seed=1)((600, 10)).numpy()).max() <= 0.1)
        True
    """

    fixed = (2.0, "fan_in", "uniform")


class HeNormal(_Named):
    """Cut normal of variance ``2 / fan_in`` (He et al. 2015).

    Example:
        >>> f"{HeNormal(seed=1)((200, 300)).numpy().std():.1f}"
        '0.1'
    """

    fixed = (2.0, "fan_in", "truncated_normal")


class LecunUniform(_Named):
    """Uniform within ``sqrt(3 / fan_in)`` (LeCun et al. 1998).

    Example:
        >>> bool(abs(LecunUniform(seed=1)((300, 10)).numpy()).max() <= 0.1)
        True
    """

    fixed = (1.0, "fan_in", "uniform")


class LecunNormal(_Named):
    """Cut normal of variance ``1 / fan_in`` (LeCun et al. 1998).

    Example:
        >>> f"{LecunNormal(seed=1)((100, 300)).numpy().std():.1f}"
        '0.1'
    """

    fixed = (1.0, "fan_in", "truncated_normal")


def _fans(shape: tuple[int, ...]) -> tuple[float, float]:
    """Return how many inputs and outputs a weight of this shape connects."""
    if len(shape) < 1:
        return 1.0, 1.0
    if len(shape) == 1:
        return float(shape[0]), float(shape[0])
    field = float(math.prod(shape[:-2]))
    return shape[-2] * field, shape[-1] * field


constant = Constant
glorot_normal = GlorotNormal
glorot_uniform = GlorotUniform
he_normal = HeNormal
he_uniform = HeUniform
identity = IdentityInitializer = Identity
lecun_normal = LecunNormal
lecun_uniform = LecunUniform
ones = Ones
orthogonal = OrthogonalInitializer = Orthogonal
random_normal = RandomNormal
random_uniform = RandomUniform
truncated_normal = TruncatedNormal
variance_scaling = VarianceScaling
zeros = Zeros

_BY_NAME: dict[str, Callable[..., Initializer]] = {
    name: globals()[name] for name in defined(__name__) if name != "Initializer"
}
_BY_NAME |= {
    "normal": RandomNormal,
    "uniform": RandomUniform,
    "one": Ones,
    "zero": Zeros,
}


def get(identifier: Any) -> Callable[..., Any] | None:
    """Return the initializer that a layer's argument names.

    Args:
        identifier: None, a name such as ``"glorot_uniform"``, a dict with
            ``class_name`` and ``config``, an initializer, its class, or any callable
            ``(shape, dtype)``.

    Returns:
        A callable, or None.

    Raises:
        ValueError: There is no initializer of that name; the nearest is offered.
        TypeError: It is anything else.

    Example:
        >>> get("zeros")((2,)).numpy().tolist()
        [0.0, 0.0]
    """
    wanted = "An initializer must be None, a name or a callable (shape, dtype)."
    found: Callable[..., Any] | None = _serialization.resolve(
        identifier, "initializer", _BY_NAME, wanted, Initializer
    )
    return found


def serialize(initializer: Any) -> Any:
    """Describe an initializer for a layer's configuration.

    Args:
        initializer: None, an initializer or a callable.

    Returns:
        None, a dict with ``class_name`` and ``config``, or the callable's name.

    Example:
        >>> serialize(Zeros())["class_name"]
        'Zeros'
    """
    if initializer is None:
        return None
    if isinstance(initializer, Initializer):
        return {
            "class_name": _serialization.get_registered_name(type(initializer)),
            "config": initializer.get_config(),
        }
    return _serialization.get_registered_name(initializer)


@like(_serialization.deserialize_keras_object)
def deserialize(config: Any, custom_objects: Any = None) -> Any:
    with _serialization.CustomObjectScope(custom_objects or {}):
        return get(config)


export(__name__)
