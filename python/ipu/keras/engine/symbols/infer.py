# SPDX-License-Identifier: MIT
"""Shapes of a layer's results, found by tracing its call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu import tf
from ipu.keras._tensor_notes import mask_of, set_mask
from ipu.keras._types import Nest
from ipu.keras.engine.symbols.keras_tensor import KerasTensor
from ipu.tf._functions import inference


def infer_outputs(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
) -> Nest:
    """Find what a call on symbolic values gives.

    Args:
        function: The function that is called; it is traced once or twice.
        args: Positional arguments with symbolic values in them.
        kwargs: Keyword arguments.
        name: The name that the results get.

    Returns:
        The results of the function, with a new ``KerasTensor`` for each tensor.
    """
    leaves = tf.nest.flatten((args, kwargs))
    symbols = [leaf for leaf in leaves if isinstance(leaf, KerasTensor)]

    def call(values: list[Any]) -> Any:
        values, given = values[: len(symbols)], iter(values[len(symbols) :])
        for one, value in zip(symbols, values, strict=True):
            if one.mask is not None:
                set_mask(value, next(given))
        supply = iter(values)
        real_args, real_kwargs = tf.nest.pack_sequence_as(
            (args, kwargs),
            [next(supply) if isinstance(x, KerasTensor) else x for x in leaves],
        )
        results = function(*real_args, **real_kwargs)
        return results, [mask_of(result) for result in tf.nest.flatten(results)]

    def symbol(found: Any) -> KerasTensor:
        made = KerasTensor(found.shape, found.dtype, name)
        made.trials = found.trials
        return made

    masks_of_symbols = [one.mask for one in symbols if one.mask is not None]
    found, masks = inference.infer(call, [*symbols, *masks_of_symbols])
    results = tf.nest.map_structure(symbol, found)
    for result, mask in zip(tf.nest.flatten(results), masks, strict=True):
        result.mask = None if mask is None else symbol(mask)
    return results
