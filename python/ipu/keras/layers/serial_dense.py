# SPDX-License-Identifier: MIT
"""``SerialDense``: a dense layer whose product the hardware computes in parts.

Source: ``ipu.keras.layers.SerialDense`` of SDK 2.0 to 3.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu.keras._names import nearest
from ipu.keras.layers.core import Dense

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions

__all__ = ["SerialDense"]

_DIMENSIONS = ("input_columns", "input_rows_kernel_columns", "kernel_rows")


class SerialDense(Dense):
    """``Dense`` in several steps, one after another; the result is that of ``Dense``.

    Args:
        units: The size of the result's last axis.
        serialization_factor: In how many steps; it divides the dimension below.
        serialization_dimension: Which dimension is cut: ``"input_columns"``,
            ``"input_rows_kernel_columns"`` or ``"kernel_rows"``.
        **kwargs: The arguments of ``Dense``.

    Raises:
        ValueError: Another dimension, or a factor below 1; when built, a factor that
            does not divide the dimension.

    Example:
        >>> SerialDense(4, 2, "kernel_rows")(np.ones((3, 6), np.float32)).shape
        (3, 4)
    """

    def __init__(
        self,
        units: int,
        serialization_factor: int,
        serialization_dimension: str,
        *args: Any,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(units, *args, **kwargs)
        if serialization_factor < 1:
            raise ValueError(
                "`serialization_factor` of SerialDense must be at least 1. "
                f"Received: {serialization_factor}."
            )
        if serialization_dimension not in _DIMENSIONS:
            raise ValueError(
                "Invalid serialization_dimension="
                f"{serialization_dimension!r}, expected one of {_DIMENSIONS}."
                f"{nearest(str(serialization_dimension), _DIMENSIONS)}"
            )
        self.serialization_factor = serialization_factor
        self.serialization_dimension = serialization_dimension

    def build(self, input_shape: Any) -> None:
        """Create kernel and bias.

        Raises:
            ValueError: The factor does not divide the dimension.
        """
        super().build(input_shape)
        # the IPU's names: the kernel counts as transposed, so its "rows" are units
        size = {
            "input_columns": input_shape[-2],
            "input_rows_kernel_columns": input_shape[-1],
            "kernel_rows": self.units,
        }[self.serialization_dimension]
        if size is not None and size % self.serialization_factor:
            raise ValueError(
                f"`serialization_factor` must divide {self.serialization_dimension}. "
                f"Received: {self.serialization_factor} for a size of {size}."
            )
