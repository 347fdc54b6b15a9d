# SPDX-License-Identifier: MIT
"""Layers that sort words and integers into buckets, without a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu.keras._types import Shape
from ipu.keras.layers._categories import checked_mode, encoded, encoded_shape
from ipu.keras.layers.host_layer import HostLayer, host_tensor
from ipu.keras.layers.index_lookup import refuse_sparse
from ipu.tf._string_ops.hashes import fingerprint64, joined_fingerprints
from ipu.tf._string_ops.tensors import to_bytes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions

__all__ = ["HashedCrossing", "Hashing"]

_CROSSING_SEED = 0xDECAFCAFFE


class _Buckets(HostLayer):
    """The base class of both: what becomes of the buckets' numbers."""

    def __init__(
        self,
        num_bins: int,
        output_mode: str,
        modes: tuple[str, ...],
        sparse: bool,
        /,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        owner = type(self).__name__
        if num_bins is None or num_bins <= 0:
            raise ValueError(
                f"`num_bins` of {owner} must be positive. Received: "
                f"num_bins={num_bins!r}."
            )
        self.num_bins = int(num_bins)
        self.output_mode = checked_mode(output_mode, modes, owner)
        refuse_sparse(type(self), sparse)

    def _result(self, bins: np.ndarray[Any, Any]) -> Any:
        if self.output_mode == "int":
            return tf.constant(bins)
        return tf.constant(encoded(bins, self.output_mode, self.num_bins))

    def _output_of(self, shape: Shape) -> tuple[Shape, Any]:
        made = encoded_shape(shape, self.output_mode, self.num_bins)
        return made, tf.int32 if self.output_mode == "int" else tf.float32


class Hashing(_Buckets):
    """A bucket for each word or integer, by a hash.

    The buckets are TensorFlow's. It works on the host, as
    :class:`~ipu.keras.layers.StringLookup` does.

    Args:
        num_bins: How many buckets there are.
        mask_value: The value that has bucket 0 to itself; None: nothing.
        salt: An integer, or two, for buckets that nobody foresees (SipHash); None:
            FarmHash.
        output_mode: "int", "one_hot", "multi_hot" or "count".
        sparse: Must be False.

    Raises:
        ValueError: ``num_bins`` is not positive, or ``salt`` is something else.

    Example:
        >>> Hashing(3)([["A"], ["B"], ["C"], ["D"], ["E"]]).numpy().ravel().tolist()
        [1, 0, 1, 1, 2]
    """

    def __init__(
        self,
        num_bins: int,
        mask_value: Any = None,
        salt: int | Sequence[int] | None = None,
        output_mode: str = "int",
        sparse: bool = False,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        modes = ("int", "one_hot", "multi_hot", "count")
        super().__init__(num_bins, output_mode, modes, sparse, **kwargs)
        self.mask_value = mask_value
        given = [salt, salt] if isinstance(salt, int) else salt
        if given is not None and len(given) != 2:
            raise ValueError(
                "The `salt` argument for `Hashing` can only be a tuple of size 2 "
                f"integers, or a single integer. Received: salt={salt!r}."
            )
        self.salt = None if given is None else [int(one) for one in given]

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        values = np.asarray(inputs)
        has_mask = self.mask_value is not None and self.num_bins > 1
        count = self.num_bins - has_mask
        texts = tf.strings.as_string(inputs) if values.dtype != object else inputs
        if values.dtype.kind not in "iuO":
            raise TypeError(
                f"Layer {self.name!r} (Hashing) takes strings or integers. "
                f"Received: {values.dtype.name}."
            )
        if self.salt is None:
            made = tf.strings.to_hash_bucket_fast(texts, count)
        else:
            made = tf.strings.to_hash_bucket_strong(texts, count, self.salt)
        bins = np.asarray(made)
        if has_mask:
            is_text = values.dtype == object
            mask = to_bytes(self.mask_value) if is_text else self.mask_value
            bins = np.where(values == mask, 0, bins + 1)
        return self._result(bins)

    def output_of(self, inputs: Any) -> tuple[Shape, Any]:
        return self._output_of(tuple(inputs.shape))


class HashedCrossing(_Buckets):
    """A bucket for each combination of several features, by a hash.

    The buckets are TensorFlow's. It works on the host, as
    :class:`~ipu.keras.layers.StringLookup` does.

    Args:
        num_bins: How many buckets there are.
        output_mode: "int" or "one_hot".
        sparse: Must be False.

    Example:
        >>> features = (["A", "B", "A"], [101, 101, 102])
        >>> HashedCrossing(5)(features).numpy().tolist()
        [1, 4, 3]
    """

    def __init__(
        self,
        num_bins: int,
        output_mode: str = "int",
        sparse: bool = False,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(num_bins, output_mode, ("int", "one_hot"), sparse, **kwargs)

    def _as_inputs(self, inputs: Any) -> Any:
        if not isinstance(inputs, (list, tuple)) or len(inputs) < 2:
            raise ValueError(
                "`HashedCrossing` should be called on a list or tuple of at least two "
                f"inputs. Received: {type(inputs).__name__}."
            )
        return [host_tensor(one) for one in inputs]

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        columns = [np.asarray(one) for one in inputs]
        shapes = {column.shape for column in columns}
        if (
            len(shapes) > 1
            or columns[0].ndim > 2
            or columns[0].shape[1:]
            not in (
                (),
                (1,),
            )
        ):
            raise ValueError(
                "All `HashedCrossing` inputs should have the same shape: (), (n,) or "
                f"(n, 1). Received: {sorted(shapes)}."
            )
        prints = [[_print_of(v) for v in column.ravel().tolist()] for column in columns]
        bins = []
        for row in zip(*prints, strict=True):
            made = _CROSSING_SEED
            for one in row:
                made = joined_fingerprints(made, one)
            bins.append(made % self.num_bins)
        return self._result(np.array(bins, np.int64).reshape(columns[0].shape))

    def output_of(self, inputs: Any) -> tuple[Shape, Any]:
        return self._output_of(tuple(tf.nest.flatten(inputs)[0].shape))


def _print_of(value: Any) -> int:
    return fingerprint64(value) if isinstance(value, bytes) else value % 2**64
