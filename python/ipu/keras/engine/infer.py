# SPDX-License-Identifier: MIT
"""Shapes of a layer's results, found by tracing its call.

The core has one shape rule per op and sizes are always known there. An open size (the
batch) is therefore tried with two numbers: what differs between the two results is open
as well. Nothing is computed, and no variable changes. Where a result is made of sizes
alone (``tf.shape(x)[0]``), its symbol keeps its values under the trials, for the calls
that it is an argument of.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ipu import tf
from ipu.keras._types import Nest, Shape
from ipu.keras.engine.keras_tensor import KerasTensor
from ipu.tf import _function

__all__ = ["infer_outputs"]

# multiples of many batch-splitting factors, so that reshapes of the batch succeed
_PROBES = (960, 1920)


def infer_outputs(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
) -> Nest:
    """Find what a call on symbolic values gives.

    Args:
        function: What is called; it is traced once or twice.
        args: Positional arguments with symbolic values in them.
        kwargs: Keyword arguments.
        name: The name that the results get.

    Returns:
        The results of the function, with a new ``KerasTensor`` for each tensor.
    """
    leaves = tf.nest.flatten((args, kwargs))
    symbols = [leaf for leaf in leaves if isinstance(leaf, KerasTensor)]
    known: list[list[Any]] = []  # by probe and by result

    def body(*tensors: Any) -> Any:
        supply = iter(tensors)
        trial = len(known)

        def fill(leaf: Any) -> Any:
            if not isinstance(leaf, KerasTensor):
                return leaf
            tensor = next(supply)
            return leaf.trials[trial] if trial < len(leaf.trials) else tensor

        real_args, real_kwargs = tf.nest.pack_sequence_as(
            (args, kwargs), [fill(leaf) for leaf in leaves]
        )
        result = function(*real_args, **real_kwargs)
        known.append([_size_value(leaf) for leaf in tf.nest.flatten(result)])
        return result

    is_open = any(
        symbol.trials or any(size is None for size in symbol.shape)
        for symbol in symbols
    )
    results = []
    for probe in _PROBES if is_open else _PROBES[:1]:
        specs = [
            tf.TensorSpec(
                tuple(probe if size is None else size for size in symbol.shape),
                symbol.dtype,
            )
            for symbol in symbols
        ]
        try:
            results.append(_function.scratch_trace(body, specs, may_create=True))
        except Exception as error:
            sizes = {size for symbol in symbols for size in symbol.shape}
            if probe not in sizes:
                _hide_probe(error, probe)
            raise
    first, last = results[0], results[-1]

    values = iter(zip(*known, strict=True))

    def merge(one: Any, other: Any) -> KerasTensor:
        shape: Shape = tuple(
            size if size == other_size else None
            for size, other_size in zip(one.shape, other.shape, strict=True)
        )
        symbol = KerasTensor(shape, one.dtype, name)
        trials = next(values)
        if all(value is not None for value in trials):
            symbol.trials = trials
        return symbol

    return tf.nest.map_structure(merge, first, last)


def _size_value(leaf: Any) -> Any:
    """An integer that is known although nothing was computed: a size, or several."""
    is_known = isinstance(leaf, tf.Tensor) and not leaf.is_symbolic
    return leaf if is_known and leaf.dtype.is_integer else None


def _hide_probe(error: Exception, probe: int) -> None:
    """Write open sizes as None in the text of an error, as the user knows them."""
    if len(error.args) != 1 or not isinstance(error.args[0], str):
        return
    text = re.sub(rf"(?<![\w.:]){probe}(?![\w.])", "None", error.args[0])
    error.args = (text,)
    if isinstance(error, tf.errors.OpError):
        error._message = text
