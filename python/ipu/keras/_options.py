# SPDX-License-Identifier: MIT
"""Keywords that layers and ``compile`` take beside those of their own.

Type checkers alone read these, to find what is misspelt; users' classes that hand on
``**kwargs: Any`` are not concerned.
"""

from __future__ import annotations

from typing import Any, TypedDict


class LayerOptions(TypedDict, total=False):
    """Arguments that every layer takes."""

    autocast: bool
    batch_input_shape: Any
    batch_size: int | None
    dtype: Any
    dynamic: bool
    input_dim: int | None
    input_shape: Any
    name: str | None
    trainable: bool
    weights: Any


class PlainLayerOptions(LayerOptions, total=False):
    """Arguments of layers without a regularizer of their outputs of their own."""

    activity_regularizer: Any


class NormalizationOptions(PlainLayerOptions, total=False):
    """Arguments of ``BatchNormalization`` beside those that it lists."""

    adjustment: None
    fused: bool | None
    virtual_batch_size: None


class CellOptions(PlainLayerOptions, total=False):
    """Arguments of cells of recurrent layers beside those that they list."""

    implementation: int


class RecurrentOptions(LayerOptions, total=False):
    """Arguments of recurrent layers beside those that they list."""

    implementation: int
    input_length: int | None
    zero_output_for_mask: bool


class CompileOptions(TypedDict, total=False):
    """Arguments of ``compile`` that have no effect."""

    auto_scale_loss: bool
    jit_compile: Any
    sample_weight_mode: Any
