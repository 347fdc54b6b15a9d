# SPDX-License-Identifier: MIT
"""Initializers as TensorFlow 1 has them: each takes a dtype, some other defaults.

A normal or a uniform distribution is the standard one there, where Keras's is narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu import tf
from ipu.keras import initializers
from ipu.keras._types import Tensor
from ipu.keras.initializers import Array, Initializer


class _Typed(Initializer):
    """What the constructors add: the dtype of values where a call names none."""

    dtype: Any

    def __call__(
        self, shape: Sequence[int], dtype: Any = None, **kwargs: Any
    ) -> Tensor:
        return super().__call__(shape, self.dtype if dtype is None else dtype, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "dtype": tf.as_dtype(self.dtype).name}


class zeros_initializer(_Typed, initializers.Zeros):
    """All zeros.

    Args:
        dtype: The dtype of the values. Default: float32.

    Example:
        >>> zeros_initializer("int32")((2,)).numpy()
        array([0, 0], dtype=int32)
    """

    def __init__(self, dtype: Any = tf.float32) -> None:
        self.dtype = dtype


class ones_initializer(_Typed, initializers.Ones):
    """All ones.

    Args:
        dtype: The dtype of the values. Default: float32.

    Example:
        >>> ones_initializer()((2,)).numpy()
        array([1., 1.], dtype=float32)
    """

    def __init__(self, dtype: Any = tf.float32) -> None:
        self.dtype = dtype


class constant_initializer(_Typed, initializers.Constant):
    """Given numbers: as many as there are elements, or fewer, the last of them again.

    Args:
        value: A number or an array.
        dtype: The dtype of the values. Default: float32.
        verify_shape: Refuse an array of another shape. Default: False.

    Raises:
        TypeError: There are more numbers than elements, or the shape is another one
            where ``verify_shape`` is True.

    Example:
        >>> constant_initializer([1, 2, 3])((2, 2)).numpy().tolist()
        [[1.0, 2.0], [3.0, 3.0]]
    """

    def __init__(
        self, value: Any = 0, dtype: Any = tf.float32, verify_shape: bool = False
    ) -> None:
        super().__init__(value)
        self.dtype = dtype
        self.verify_shape = verify_shape

    def values(self, shape: tuple[int, ...]) -> Array:
        """Return the numbers in the shape."""
        given = np.asarray(self.value)
        count = int(np.prod(shape))
        if self.verify_shape and given.shape != shape:
            raise TypeError(
                f"Expected Tensor's shape: {shape}, got {given.shape}. Give "
                "constant_initializer an array of that shape, or verify_shape=False."
            )
        if given.size > count or not given.size:
            raise TypeError(
                f"constant_initializer: {given.size} numbers do not fit the shape "
                f"{shape}, which has {count} elements."
            )
        last = np.full(count - given.size, given.flat[-1], given.dtype)
        return np.concatenate([given.ravel(), last]).reshape(shape)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        return {**super().get_config(), "verify_shape": self.verify_shape}


class random_uniform_initializer(_Typed, initializers.RandomUniform):
    """Uniform, between 0 and 1 by default.

    Args:
        minval: The lower bound.
        maxval: The upper bound. Default: 1.
        seed: An integer for the same values at every call; None draws new ones.
        dtype: The dtype of the values. Default: float32.

    Example:
        >>> bool(random_uniform_initializer(seed=1)((99,)).numpy().max() > 0.9)
        True
    """

    def __init__(
        self,
        minval: float = 0.0,
        maxval: float | None = None,
        seed: int | None = None,
        dtype: Any = tf.float32,
    ) -> None:
        super().__init__(minval, 1.0 if maxval is None else maxval, seed)
        self.dtype = dtype


class random_normal_initializer(_Typed, initializers.RandomNormal):
    """Normal, of standard deviation 1 by default.

    Args:
        mean: The mean.
        stddev: The standard deviation.
        seed: An integer for the same values at every call; None draws new ones.
        dtype: The dtype of the values. Default: float32.

    Example:
        >>> bool(random_normal_initializer(seed=1)((99,)).numpy().std() > 0.5)
        True
    """

    def __init__(
        self,
        mean: float = 0.0,
        stddev: float = 1.0,
        seed: int | None = None,
        dtype: Any = tf.float32,
    ) -> None:
        super().__init__(mean, stddev, seed)
        self.dtype = dtype


class truncated_normal_initializer(_Typed, initializers.TruncatedNormal):
    """Normal, drawn again where more than two standard deviations from the mean.

    Args:
        mean: The mean.
        stddev: The standard deviation before the cut. Default: 1.
        seed: An integer for the same values at every call; None draws new ones.
        dtype: The dtype of the values. Default: float32.

    Example:
        >>> bool(abs(truncated_normal_initializer(seed=1)((99,)).numpy()).max() < 2)
        True
    """

    def __init__(
        self,
        mean: float = 0.0,
        stddev: float = 1.0,
        seed: int | None = None,
        dtype: Any = tf.float32,
    ) -> None:
        super().__init__(mean, stddev, seed)
        self.dtype = dtype


class variance_scaling_initializer(_Typed, initializers.VarianceScaling):
    """Numbers whose variance follows the number of units.

    Args:
        scale: The factor. Default: 1.
        mode: "fan_in", "fan_out" or "fan_avg".
        distribution: "normal" and "truncated_normal" are the same, "uniform",
            "untruncated_normal".
        seed: An integer for the same values at every call; None draws new ones.
        dtype: The dtype of the values. Default: float32.

    Example:
        >>> variance_scaling_initializer(distribution="normal")((2, 3)).shape
        (2, 3)
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: Any = tf.float32,
    ) -> None:
        kind = "truncated_normal" if distribution == "normal" else distribution
        super().__init__(scale, mode, kind, seed)
        self.dtype = dtype


class uniform_unit_scaling_initializer(variance_scaling_initializer):
    """Uniform, of a variance that keeps the scale of a layer's inputs.

    Args:
        factor: The factor, whose square scales the variance.
        seed: An integer for the same values at every call; None draws new ones.
        dtype: The dtype of the values. Default: float32.

    Example:
        >>> uniform_unit_scaling_initializer(1.43)((2, 3)).shape
        (2, 3)
    """

    def __init__(
        self, factor: float = 1.0, seed: int | None = None, dtype: Any = tf.float32
    ) -> None:
        super().__init__(factor * factor, "fan_in", "uniform", seed, dtype)
        self.factor = factor

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        config = super().get_config()
        return {
            "factor": self.factor,
            "seed": config["seed"],
            "dtype": config["dtype"],
        }


class glorot_uniform_initializer(_Typed, initializers.GlorotUniform):
    """Uniform, of a variance after Glorot and Bengio.

    Args:
        seed: An integer for the same values at every call; None draws new ones.
        dtype: The dtype of the values. Default: float32.

    Example:
        >>> glorot_uniform_initializer(dtype="float16")((2, 3)).dtype
        tf.float16
    """

    def __init__(self, seed: int | None = None, dtype: Any = tf.float32) -> None:
        super().__init__(seed)
        self.dtype = dtype


class glorot_normal_initializer(_Typed, initializers.GlorotNormal):
    """Normal, of a variance after Glorot and Bengio.

    Args:
        seed: An integer for the same values at every call; None draws new ones.
        dtype: The dtype of the values. Default: float32.

    Example:
        >>> glorot_normal_initializer()((2, 3)).shape
        (2, 3)
    """

    def __init__(self, seed: int | None = None, dtype: Any = tf.float32) -> None:
        super().__init__(seed)
        self.dtype = dtype


class orthogonal_initializer(_Typed, initializers.Orthogonal):
    """A matrix whose columns, or rows, are orthogonal.

    Args:
        gain: The factor.
        seed: An integer for the same values at every call; None draws new ones.
        dtype: The dtype of the values. Default: float32.

    Example:
        >>> orthogonal_initializer()((2, 2)).shape
        (2, 2)
    """

    def __init__(
        self, gain: float = 1.0, seed: int | None = None, dtype: Any = tf.float32
    ) -> None:
        super().__init__(gain, seed)
        self.dtype = dtype
