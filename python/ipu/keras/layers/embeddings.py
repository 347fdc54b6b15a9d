# SPDX-License-Identifier: MIT
"""``Embedding``: rows of a table by number.

Source: ``tf.keras.layers`` of Keras 2.6; ``serialization_factor`` of the IPU's own.
"""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras._arguments import keep, weight_of
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.base_layer import Layer

__all__ = ["Embedding"]


class Embedding(Layer):
    """Turns whole numbers into rows of a table that is learned.

    Args:
        input_dim: How many rows; inputs are in ``[0, input_dim)``.
        output_dim: How long a row is.
        embeddings_initializer: First values of the table ``(input_dim, output_dim)``.
        embeddings_regularizer: A penalty on the table.
        activity_regularizer: A penalty on the result, divided by the batch size.
        embeddings_constraint: The constraint of the table after each update.
        mask_zero: Whether 0 means "nothing here". Then layers that know of masks leave
            those steps out (``GlobalAveragePooling1D``, ``Softmax``, the losses), and
            layers in between that support masking hand the mask on. A layer of your
            own sets ``self.supports_masking = True`` for that, or takes ``mask`` in
            ``call``.
        input_length: The number of steps, where a ``Sequential`` that begins with this
            layer goes on with ``Flatten`` and ``Dense``.
        serialization_factor: In how many parts hardware would keep the table. The
            result is the same for each.

    Raises:
        ValueError: A size is not positive, or the factor does not divide ``input_dim``.

    Example:
        >>> layer = Embedding(3, 2, embeddings_initializer="ones")
        >>> layer(tf.constant([[0, 2]])).numpy().tolist()
        [[[1.0, 1.0], [1.0, 1.0]]]
    """

    _input_dtype = "int32"  # what a Sequential that begins with this layer takes

    mask_zero: bool

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        activity_regularizer: Any = None,
        embeddings_constraint: Any = None,
        mask_zero: bool = False,
        input_length: Any = None,
        serialization_factor: int = 1,
        **kwargs: Any,
    ) -> None:
        if "input_shape" not in kwargs and "batch_input_shape" not in kwargs:
            kwargs["input_shape"] = _as_sizes(input_length)
        kwargs["autocast"] = False
        super().__init__(**kwargs)
        keep(self, locals())
        for name, value in (("input_dim", input_dim), ("output_dim", output_dim)):
            if isinstance(value, bool) or int(value) != value or value <= 0:
                raise ValueError(
                    f"`{name}` of Embedding must be a positive integer. "
                    f"Received: {name}={value!r}."
                )
        if serialization_factor < 1 or input_dim % serialization_factor:
            raise ValueError(
                "`serialization_factor` of Embedding must divide `input_dim`. "
                f"Received: serialization_factor={serialization_factor}, "
                f"input_dim={input_dim}."
            )
        self.input_dim = int(input_dim)
        self.output_dim = int(output_dim)
        self.supports_masking = mask_zero
        self.embeddings: Any = None

    def build(self, input_shape: Any) -> None:
        shape = (self.input_dim, self.output_dim)
        # rows are cast, which is less
        self.embeddings = weight_of(
            self, "embeddings", shape, experimental_autocast=False
        )

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> Nest:
        """Return true where the input is not 0, or None without ``mask_zero``."""
        del mask
        return tf.not_equal(_as_ids(inputs), 0) if self.mask_zero else None

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Return the rows: shape ``(*inputs.shape, output_dim)``."""
        rows = self.embeddings._look_up(_as_ids(inputs))
        is_mixed = self._compute_kind != self._dtype
        return tf.cast(rows, self._compute_kind) if is_mixed else rows


def _as_ids(inputs: Tensor) -> Tensor:
    kind = tf.as_dtype(inputs.dtype).name
    return inputs if kind == "int32" else tf.cast(inputs, "int32")


def _as_sizes(length: Any) -> tuple[int | None, ...]:
    is_one = length is None or isinstance(length, int)
    return (length,) if is_one else tuple(length)
