# SPDX-License-Identifier: MIT
"""Rows of tables, and tables on the host: ``ipu.embedding_ops``."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu._text.exports import export
from ipu.ops._host_embedding import (
    HostEmbedding,
    HostEmbeddingOptimizerSpec,
    HostEmbeddingSGDGAOptimizerSpec,
    create_host_embedding,
)
from ipu.tf._tensor.dispatch import op

__all__ = [
    "HostEmbedding",
    "HostEmbeddingOptimizerSpec",
    "HostEmbeddingSGDGAOptimizerSpec",
    "create_host_embedding",
    "embedding_lookup",
]


@op
def embedding_lookup(
    params: Any,
    ids: Any,
    name: str | None = None,
    serialization_factor: int = 1,
    indices_are_sorted: bool = False,
    one_hot_threshold: int = 0,
    min_encoding_size: int = 1216,
) -> Tensor:
    """Return rows of a table; the gradient adds up what comes back for each row.

    Args:
        params: The table ``[rows, ...]``.
        ids: Integers of any shape.
        name: Accepted and not used. SDK 2 and later have ``serialization_factor`` and
            ``indices_are_sorted`` in its place: an integer here counts as the factor.
        serialization_factor: In how many steps the hardware looks up; it divides the
            number of rows.
        indices_are_sorted, one_hot_threshold, min_encoding_size: Accepted and not used.

    Returns:
        A tensor ``[*ids.shape, ...]``.

    Raises:
        ValueError: The factor is below 1 or does not divide the number of rows.
        InvalidArgumentError: An id is not a row of the table.

    Example:
        >>> embedding_lookup([[1.0, 2.0], [3.0, 4.0]], [1, 0]).numpy().tolist()
        [[3.0, 4.0], [1.0, 2.0]]
    """
    factor = name if isinstance(name, int) else serialization_factor
    rows = (params if hasattr(params, "shape") else tf.convert_to_tensor(params)).shape[
        0
    ]
    if factor < 1 or rows % factor:
        raise ValueError(
            "`serialization_factor` must be at least 1 and divide the number of rows. "
            f"Received: {factor} for {rows} rows."
        )
    return tf.nn.embedding_lookup(params, ids)


export(__name__)
