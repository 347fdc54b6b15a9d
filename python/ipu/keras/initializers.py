# SPDX-License-Identifier: MIT
"""``ipu.keras.initializers``: the first values of weights.

Values are drawn on the host by NumPy's PCG64, as a function of the initializer's own
seed or, without one, of the seed of ``tf.random.set_seed`` and of how many initializers
drew before: the same program gives the same weights on every run.

Source: ``tf.keras.initializers`` of Keras 2.6.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._text.faces import defined, face
from ipu.keras import _names, _serialization
from ipu.keras._initializer_base import (
    Array,
    Initializer as Initializer,
    SeededInitializer,
    truncated_normal_values,
    uniform_values,
)
from ipu.keras._variance_scaling import (
    GlorotNormal as GlorotNormal,
    GlorotUniform as GlorotUniform,
    HeNormal as HeNormal,
    HeUniform as HeUniform,
    LecunNormal as LecunNormal,
    LecunUniform as LecunUniform,
    VarianceScaling as VarianceScaling,
)


class Zeros(Initializer):
    """All zeros.

    Example:
        >>> Zeros()((2,)).numpy().tolist()
        [0.0, 0.0]
    """

    def values(self, shape: tuple[int, ...]) -> Array:
        """Give zeros."""
        return np.zeros(shape)


class Ones(Initializer):
    """All ones.

    Example:
        >>> Ones()((2,)).numpy().tolist()
        [1.0, 1.0]
    """

    def values(self, shape: tuple[int, ...]) -> Array:
        """Give ones."""
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
        """Give the value, broadcast to ``shape``."""
        return np.broadcast_to(np.asarray(self.value), shape)


class RandomUniform(SeededInitializer):
    """Uniform in ``[minval, maxval)``.

    Args:
        minval: The lower end.
        maxval: The upper end, not reached.
        seed: An integer for the same values at every call; None draws new ones.

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
        """Draw."""
        return self.values_as(shape, np.dtype(np.float64))

    def values_as(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Draw in this dtype."""
        return uniform_values(self.rng(), (self.minval, self.maxval), shape, dtype)


class RandomNormal(SeededInitializer):
    """Normal.

    Args:
        mean: The mean.
        stddev: The standard deviation.
        seed: An integer for the same values at every call; None draws new ones.

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
        """Draw."""
        return self.rng().normal(self.mean, self.stddev, shape)


class TruncatedNormal(RandomNormal):
    """Normal, drawn again where more than two standard deviations from the mean.

    Args:
        mean: The mean.
        stddev: The standard deviation before the cut.
        seed: An integer for the same values at every call; None draws new ones.

    Example:
        >>> bool(abs(TruncatedNormal(0.0, 1.0, seed=1)((99,)).numpy()).max() < 2)
        True
    """

    def values(self, shape: tuple[int, ...]) -> Array:
        """Draw."""
        return self.mean + self.stddev * truncated_normal_values(self.rng(), shape)


class Orthogonal(SeededInitializer):
    """A matrix with orthonormal rows or columns, whichever are fewer.

    Args:
        gain: Factor of the matrix.
        seed: An integer for the same values at every call; None draws new ones.

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
        """Give the matrix.

        Raises:
            ValueError: ``shape`` has not two axes.
        """
        if len(shape) != 2:
            raise ValueError(
                "Identity matrix initializer can only be used for 2D matrices. "
                f"Received: shape={shape} of rank {len(shape)}."
            )
        return self.gain * np.eye(*shape)


_CLASSES: dict[str, Callable[..., Initializer]] = {
    "Constant": Constant,
    "GlorotNormal": GlorotNormal,
    "GlorotUniform": GlorotUniform,
    "HeNormal": HeNormal,
    "HeUniform": HeUniform,
    "Identity": Identity,
    "LecunNormal": LecunNormal,
    "LecunUniform": LecunUniform,
    "Ones": Ones,
    "Orthogonal": Orthogonal,
    "RandomNormal": RandomNormal,
    "RandomUniform": RandomUniform,
    "TruncatedNormal": TruncatedNormal,
    "VarianceScaling": VarianceScaling,
    "Zeros": Zeros,
}
_BY_NAME: dict[str, Callable[..., Initializer]] = {
    **_CLASSES,
    **{_names.snake_case(name): kind for name, kind in _CLASSES.items()},
    "normal": RandomNormal,
    "uniform": RandomUniform,
    "one": Ones,
    "zero": Zeros,
}

constant = Constant
glorot_normal = GlorotNormal
glorot_uniform = GlorotUniform
he_normal = HeNormal
he_uniform = HeUniform
identity = Identity
lecun_normal = LecunNormal
lecun_uniform = LecunUniform
ones = Ones
orthogonal = Orthogonal
random_normal = RandomNormal
random_uniform = RandomUniform
truncated_normal = TruncatedNormal
variance_scaling = VarianceScaling
zeros = Zeros


def get(identifier: Any) -> Callable[..., Any] | None:
    """Give the initializer that a layer's argument names.

    Args:
        identifier: None, a name such as ``"glorot_uniform"``, a dict with
            ``class_name`` and ``config``, an initializer, its class, or any callable
            ``(shape, dtype)``.

    Returns:
        A callable, or None.

    Raises:
        ValueError: There is no initializer of that name; the nearest is offered.
        TypeError: It is none of these.

    Example:
        >>> get("zeros")((2,)).numpy().tolist()
        [0.0, 0.0]
    """
    if identifier is None:
        return None
    if isinstance(identifier, str):
        found = _serialization.find("initializer", identifier, _BY_NAME)
        if isinstance(found, type):
            made: Callable[..., Any] = found()
            return made
        kept: Callable[..., Any] = found
        return kept
    if _serialization.is_config(identifier):
        made = _serialization.make("initializer", identifier, _BY_NAME)
        return made
    if isinstance(identifier, type) and issubclass(identifier, Initializer):
        return identifier()
    if callable(identifier):
        function: Callable[..., Any] = identifier
        return function
    raise TypeError(
        "An initializer must be None, a name or a callable (shape, dtype). "
        f"Received: {identifier!r} ({type(identifier).__name__})."
    )


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


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    """Make a initializer from what ``serialize`` gave.

    Args:
        config: A configuration, a name or None.
        custom_objects: A user's own classes and functions by name.

    Raises:
        ValueError: There is no initializer of that name.

    Example:
        >>> type(deserialize({"class_name": "Zeros", "config": {}})).__name__
        'Zeros'
    """
    with _serialization.CustomObjectScope(custom_objects or {}):
        return get(config)


if not TYPE_CHECKING:
    __all__ = defined(
        __name__,
        """
        GlorotNormal GlorotUniform HeNormal HeUniform Initializer LecunNormal
        LecunUniform VarianceScaling
        """.split(),
    )
    __getattr__, __dir__ = face(__name__, __all__)
