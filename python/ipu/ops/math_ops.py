# SPDX-License-Identifier: MIT
"""Products in parts, and sums of sorted segments: ``ipu.math_ops``."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu._text.exports import export
from ipu.tf._tensor.convert import known_count
from ipu.tf._tensor.dispatch import op

__all__ = ["segment_sum", "serialized_matmul"]

_DIMENSIONS = ("a_columns", "a_rows_b_columns", "b_rows")


@op
def serialized_matmul(
    a: Any,
    b: Any,
    serialization_factor: int,
    serialization_dimension: str,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return ``a`` times ``b``; on hardware in several steps, which need less memory.

    Args:
        a: A tensor ``[..., m, k]``.
        b: A tensor ``[..., k, n]``.
        serialization_factor: In how many steps; it divides the dimension below.
        serialization_dimension: Which dimension is cut: ``"a_columns"`` is m,
            ``"a_rows_b_columns"`` is k, ``"b_rows"`` is n.
        transpose_a: ``a`` is ``[..., k, m]``.
        transpose_b: ``b`` is ``[..., n, k]``.

    Returns:
        A tensor ``[..., m, n]``: that of ``tf.matmul``.

    Raises:
        ValueError: A rank below 2, another dimension, a factor below 1, or one that
            does not divide the dimension.

    Example:
        >>> product = serialized_matmul([[1.0, 2.0]], [[3.0], [4.0]], 2,
        ...                             "a_rows_b_columns")
        >>> product.numpy().tolist()
        [[11.0]]
    """
    left, right = tf.convert_to_tensor(a), tf.convert_to_tensor(b)
    for operand, letter in ((left, "a"), (right, "b")):
        if operand.ndim < 2:
            raise ValueError(
                f"serialized_matmul needs matrices: `{letter}` must have at least two "
                f"axes. Received a shape of {tuple(operand.shape)}."
            )
    m, k = left.shape[-2:][:: -1 if transpose_a else 1]
    n = right.shape[-2 if transpose_b else -1]
    sizes = dict(zip(_DIMENSIONS, (m, k, n), strict=True))
    if serialization_dimension not in sizes:
        raise ValueError(
            f"Invalid serialization_dimension={serialization_dimension!r}, expected "
            f"one of {_DIMENSIONS}."
        )
    if serialization_factor < 1:
        raise ValueError(
            "`serialization_factor` must be at least 1. Received: "
            f"{serialization_factor}."
        )
    size = sizes[serialization_dimension]
    if size % serialization_factor:
        raise ValueError(
            f"`serialization_factor` must divide {serialization_dimension}. Received: "
            f"{serialization_factor} for a size of {size}."
        )
    return tf.matmul(left, right, transpose_a, transpose_b)


@op
def segment_sum(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Return the sum of the rows with each number.

    Args:
        data: A tensor ``[rows, ...]``.
        segment_ids: Integers ``[rows]`` in rising order; negative ones are left out.
        num_segments: How many numbers there are; known when a function is traced.

    Returns:
        A tensor ``[num_segments, ...]``; 0 where no row has the number.

    Raises:
        ValueError: The ids are not a vector as long as the data; or they are known, and
            not in order.
        InvalidArgumentError: An id of ``num_segments`` or more, when it runs.

    Example:
        >>> segment_sum([1.0, 2.0, 3.0], [0, 0, 2], 4).numpy().tolist()
        [3.0, 0.0, 3.0, 0.0]
    """
    rows, ids = tf.convert_to_tensor(data), tf.convert_to_tensor(segment_ids)
    if ids.ndim != 1 or rows.ndim < 1 or rows.shape[0] != ids.shape[0]:
        raise ValueError(
            "segment_ids must be a vector with a number for each row of data. Received "
            f"shapes {tuple(ids.shape)} and {tuple(rows.shape)}."
        )
    if not ids.is_symbolic:
        known = ids.numpy()
        if (known[1:] < known[:-1]).any():
            raise ValueError(
                "segment_ids must be in rising order. Received: "
                f"{known.tolist()}. tf.math.unsorted_segment_sum takes any order."
            )
    count = known_count(num_segments, "num_segments")
    return tf.math.unsorted_segment_sum(rows, ids, count)


export(__name__)
