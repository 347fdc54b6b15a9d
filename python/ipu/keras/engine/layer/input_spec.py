# SPDX-License-Identifier: MIT
"""The demands of a layer on its inputs, and their check."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras._types import Nest, Shape

__all__ = ["InputSpec", "check_input_spec"]


class InputSpec:
    """The rank, dtype and sizes that a layer accepts.

    Args:
        dtype: The dtype, None for any.
        shape: The whole shape, None in it for any size.
        ndim: The number of axes.
        max_ndim: The largest number of axes.
        min_ndim: The smallest number of axes.
        axes: Sizes by axis, for example ``{-1: 784}``.

    Example:
        >>> InputSpec(min_ndim=2, axes={-1: 784}).min_ndim
        2
    """

    def __init__(
        self,
        dtype: Any = None,
        shape: Shape | None = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: dict[int, int | None] | None = None,
    ) -> None:
        self.dtype = None if dtype is None else tf.as_dtype(dtype)
        self.shape = None if shape is None else tuple(shape)
        self.ndim = len(self.shape) if self.shape is not None else ndim
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        self.axes = dict(axes or {})

    def fault(self, shape: Shape, dtype: Any) -> str | None:
        """Return what is wrong with an input, or None where it fits."""
        rank = len(shape)
        if self.ndim is not None and rank != self.ndim:
            return f"expected ndim={self.ndim}, found ndim={rank}"
        if self.max_ndim is not None and rank > self.max_ndim:
            return f"expected max_ndim={self.max_ndim}, found ndim={rank}"
        if self.min_ndim is not None and rank < self.min_ndim:
            return f"expected min_ndim={self.min_ndim}, found ndim={rank}"
        if self.dtype is not None and tf.as_dtype(dtype) != self.dtype:
            return f"expected dtype={self.dtype.name}, found dtype={dtype.name}"
        for axis, size in self.axes.items():
            if size is not None and shape[axis] not in (size, None):
                return (
                    f"expected axis {axis} of input shape to have value {size} but "
                    f"received input with shape {tuple(shape)}"
                )
        for wanted, found in zip(self.shape or (), shape, strict=False):
            if wanted is not None and found is not None and wanted != found:
                return f"expected shape={self.shape}, found shape={tuple(shape)}"
        return None


def check_input_spec(spec: Nest, inputs: Nest, layer_name: str) -> None:
    """Check the inputs of a layer against what it demands.

    Raises:
        ValueError: The number of inputs differs, or one does not fit.
    """
    if spec is None:
        return
    specs = tf.nest.flatten(spec)
    tensors = tf.nest.flatten(inputs)
    if len(specs) != len(tensors):
        raise ValueError(
            f"Layer {layer_name} expects {len(specs)} input(s), but it received "
            f"{len(tensors)} input tensors."
        )
    for index, (one, tensor) in enumerate(zip(specs, tensors, strict=True)):
        fault = None if one is None else one.fault(tensor.shape, tensor.dtype)
        if fault is not None:
            raise ValueError(
                f"Input {index} of layer {layer_name} is incompatible with the layer: "
                f"{fault}."
            )
