# SPDX-License-Identifier: MIT
"""Layers that turn numbers into categories, and categories into vectors.

They are made of tensor operations: they run on the device, in ``Dataset.map`` and at
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu.keras._types import Tensor
from ipu.keras.layers._categories import checked_mode
from ipu.keras.layers.host_layer import batches_of
from ipu.keras.layers.index_lookup import refuse_sparse
from ipu.keras.layers.preprocessing import PreprocessingLayer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions

__all__ = ["CategoryEncoding", "Discretization"]

_VECTORS = ("one_hot", "multi_hot", "count")


def _encoded(
    ids: Tensor, mode: str, width: int, kind: tf.DType, weights: Any = None
) -> Tensor:
    """Return numbers from 0 to ``width - 1`` as vectors; see
    ``_categories.encoded``."""
    shape = tuple(ids.shape)
    if mode == "one_hot":
        ids = tf.squeeze(ids, -1) if len(shape) > 1 and shape[-1] == 1 else ids
        return tf.one_hot(ids, width, dtype=kind)
    ids = tf.reshape(ids, (1,)) if not shape else ids
    rows = tf.one_hot(ids, width, dtype=kind)
    if weights is not None:
        given = tf.reshape(tf.cast(weights, kind), (*tuple(ids.shape), 1))
        rows = rows * given
    if mode == "count":
        return tf.reduce_sum(rows, axis=-2)
    return tf.reduce_max(rows, axis=-2)


class CategoryEncoding(PreprocessingLayer):
    """Numbers of categories as vectors.

    Args:
        num_tokens: How many categories there are; numbers are below it.
        output_mode: "one_hot" for a vector of each number; "multi_hot" or "count" for
            one of all numbers along the last axis.
        sparse: Must be False.

    Raises:
        ValueError: ``num_tokens`` is not given; on eager tensors also a number that is
            no category.

    Example:
        >>> layer = CategoryEncoding(4, output_mode="count")
        >>> layer(tf.constant([[0, 1], [2, 2]])).numpy().tolist()
        [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]]
    """

    def __init__(
        self,
        num_tokens: int | None = None,
        output_mode: str = "multi_hot",
        sparse: bool = False,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        kwargs["autocast"] = False
        super().__init__(**kwargs)
        self.output_mode = checked_mode(output_mode, _VECTORS, "CategoryEncoding")
        refuse_sparse(type(self), sparse)
        if num_tokens is None:
            raise ValueError(
                "`num_tokens` must be set to use this layer. If the number of tokens "
                "is not known beforehand, use the `IntegerLookup` layer instead."
            )
        if num_tokens < 1:
            raise ValueError(
                f"`num_tokens` must be >= 1. Received: num_tokens={num_tokens!r}."
            )
        self.num_tokens = int(num_tokens)

    def call(
        self, inputs: Tensor, count_weights: Any = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        """Make the vectors.

        Args:
            inputs: Integers.
            count_weights: The weight of each number, for ``"count"``.
            *args, **kwargs: Ignored.
        """
        if count_weights is not None and self.output_mode != "count":
            raise ValueError(
                "`count_weights` is not used when `output_mode` is not 'count'. "
                f"Received: output_mode={self.output_mode!r}."
            )
        ids = tf.convert_to_tensor(inputs)
        if not ids.is_symbolic and ids.shape.num_elements():
            values = ids.numpy()
            if values.min() < 0 or values.max() >= self.num_tokens:
                raise ValueError(
                    "Input values must be in the range 0 <= values < num_tokens with "
                    f"num_tokens={self.num_tokens}. Received: values from "
                    f"{values.min()} to {values.max()}."
                )
        return _encoded(
            tf.cast(ids, tf.int32),
            self.output_mode,
            self.num_tokens,
            self._compute_kind,
            count_weights,
        )


class Discretization(PreprocessingLayer):
    """The numbers of the ranges that values are in.

    Args:
        bin_boundaries: Where the next range begins, ascending; None: from ``adapt``.
        num_bins: How many ranges ``adapt`` makes, with as many values in each.
        epsilon: How exact ``adapt`` is: the smaller, the more it keeps in mind.
        output_mode: "int", "one_hot", "multi_hot" or "count".
        sparse: Must be False.

    Raises:
        ValueError: Both or neither of ``bin_boundaries`` and ``num_bins``.

    Example:
        >>> layer = Discretization(bin_boundaries=[0.0, 1.0])
        >>> layer(tf.constant([-1.5, 0.0, 3.4])).numpy().tolist()
        [0, 1, 2]
    """

    _dtype_is_of_result = True  # in files of Keras 3

    def __init__(
        self,
        bin_boundaries: Sequence[float] | None = None,
        num_bins: int | None = None,
        epsilon: float = 0.01,
        output_mode: str = "int",
        sparse: bool = False,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        if (bin_boundaries is None) == (num_bins is None):
            raise ValueError(
                "Discretization needs one of `bin_boundaries` and `num_bins`. "
                f"Received: bin_boundaries={bin_boundaries!r}, num_bins={num_bins!r}."
            )
        if num_bins is not None and num_bins < 1:
            raise ValueError(
                f"`num_bins` must be at least 1. Received: num_bins={num_bins!r}."
            )
        modes = ("int", *_VECTORS)
        self.output_mode = checked_mode(output_mode, modes, "Discretization")
        refuse_sparse(type(self), sparse)
        self.num_bins, self.epsilon = num_bins, float(epsilon)
        self.bin_boundaries: list[float] | None = None
        if bin_boundaries is not None:
            self.bin_boundaries = [float(one) for one in bin_boundaries]
        self._summary = np.zeros((2, 0), np.float32)

    def adapt(
        self, data: Any, batch_size: int | None = None, steps: int | None = None
    ) -> None:
        """Take the boundaries from data: their quantiles.

        Raises:
            ValueError: The boundaries were given.
        """
        del batch_size
        if self.num_bins is None:
            raise ValueError(
                "Cannot adapt a Discretization layer that has been initialized with "
                "`bin_boundaries`, use `num_bins` instead."
            )
        self._summary = np.zeros((2, 0), np.float32)
        for batch in batches_of(data, steps):
            self._add(np.asarray(batch, np.float32).ravel())
        if not self._summary.shape[1]:
            raise ValueError("There are no data to adapt to.")
        boundaries = _thinned(self._summary, 1.0 / self.num_bins)[0, :-1]
        self.bin_boundaries = [float(one) for one in boundaries]

    def _add(self, values: np.ndarray[Any, Any]) -> None:
        """Keep some of the values, with how many each stands for."""
        apart = max(values.size * self.epsilon, 1.0)
        kept = np.sort(values)[int(apart - 1.0) :: int(apart)]
        more = np.stack([kept, np.full_like(kept, apart)])
        both = np.concatenate([self._summary, more], axis=1)
        both = both[:, np.argsort(both[0])]
        self._summary = _thinned(both, self.epsilon)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self.bin_boundaries is None:
            raise ValueError(
                f"Layer {self.name!r} (Discretization) has no boundaries yet. Call "
                "adapt(data), or pass `bin_boundaries`."
            )
        x = tf.cast(inputs, self._compute_kind)
        ids = tf.zeros(tuple(x.shape), tf.int32)
        if self.bin_boundaries:
            edges = tf.constant(self.bin_boundaries, dtype=self._compute_kind)
            is_over = tf.expand_dims(x, -1) >= edges
            ids = tf.reduce_sum(tf.cast(is_over, tf.int32), axis=-1)
        if self.output_mode == "int":
            return ids
        width = len(self.bin_boundaries) + 1
        return _encoded(ids, self.output_mode, width, self._compute_kind)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal layer, with its boundaries."""
        config = super().get_config()
        if self.bin_boundaries is not None:
            config["num_bins"] = None
        return config


def _thinned(summary: np.ndarray[Any, Any], epsilon: float) -> np.ndarray[Any, Any]:
    """Return fewer values, each for a share of ``epsilon``, by interpolation."""
    if summary.shape[1] * epsilon < 1:
        return summary
    shares = epsilon + np.arange(0.0, 1.0, epsilon)
    sums = summary[1].cumsum()
    values = np.interp(shares, sums / sums[-1], summary[0])
    counts = np.diff(np.interp(shares, sums / sums[-1], sums), prepend=0.0)
    return np.stack([values, counts]).astype(np.float32)
