# SPDX-License-Identifier: MIT
"""Shapes of a call's results, found by tracing it.

The core has one shape rule per op and sizes are always known there. An open size (the
batch) is therefore tried with two numbers: what differs between the two results is open
as well. Nothing is computed, and no variable changes. Where a result is made of sizes
alone (``tf.shape(x)[0]``), its values under the trials are kept, for the calls that it
is an argument of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ipu._core import Tensor
from ipu.tf import nest
from ipu.tf._functions.tracing import scratch_trace
from ipu.tf.dtypes import NARROW
from ipu.tf.tensor_shape import TensorShape
from ipu.tf.tensor_spec import TensorSpec

# multiples of many batch-splitting factors, so that reshapes of the batch succeed
_PROBES = (960, 1920)


class Symbol(Protocol):
    """A value without numbers: sizes may be None.

    ``trials`` are the values that it has under the probes where it is made of sizes
    alone, else empty.
    """

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def trials(self) -> tuple[Any, ...]: ...


class OpenCountError(ValueError):
    """How many results a call has depends on an open size."""


@dataclass(frozen=True)
class Inferred:
    """What a call gives.

    Attributes:
        shape: Sizes, None where one is open; None where not even their number is known.
        dtype: The dtype.
        trials: As of a :class:`Symbol`.
        is_size: Whether it is made of sizes alone.
    """

    shape: tuple[int | None, ...] | None
    dtype: Any
    trials: tuple[Any, ...] = ()
    is_size: bool = False


def probe_sizes(shape: Sequence[int | None], trial: int) -> tuple[int, ...]:
    """Return a shape with a number for each size that is open.

    Args:
        shape: The shape.
        trial: Which number: 0 or 1.
    """
    return tuple(_PROBES[trial] if size is None else size for size in shape)


def infer(
    call: Callable[[list[Any]], Any],
    symbols: Sequence[Symbol],
    host: bool = False,
    is_open: bool = False,
) -> Any:
    """Find what a call on symbolic values gives.

    Args:
        call: Called once or twice in a trace, with a value for each symbol.
        symbols: The values that it is called with.
        host: Trace for the host.
        is_open: Whether sizes of other values that it uses are open.

    Returns:
        The nest that ``call`` returned, with an :class:`Inferred` for each tensor.
    """
    known: list[list[Any]] = []  # by probe and by result

    def body(*tensors: Any) -> Any:
        trial = len(known)
        values = [
            symbol.trials[trial] if trial < len(symbol.trials) else tensor
            for symbol, tensor in zip(symbols, tensors, strict=True)
        ]
        result = call(values)
        known.append([_size_value(leaf) for leaf in nest.flatten(result)])
        return result

    shapes = [TensorShape(symbol.shape) for symbol in symbols]
    is_open = is_open or any(symbol.trials for symbol in symbols)
    is_open = is_open or any(None in shape for shape in shapes)
    results = []
    for trial, probe in enumerate(_PROBES if is_open else _PROBES[:1]):
        narrow = {} if host else NARROW
        kinds = [narrow.get(s.dtype.name, s.dtype) for s in symbols]
        sizes = [probe_sizes(shape, trial) for shape in shapes]
        specs = [*map(TensorSpec, sizes, kinds)]
        try:
            results.append(scratch_trace(body, specs, host=host, may_create=True))
        except Exception as error:
            given = {size for shape in shapes for size in shape}
            if probe not in given:
                _hide_probe(error, probe)
            raise
    if len({len(one) for one in known}) > 1:
        raise OpenCountError(
            "The number of results depends on a size that is not known. Give the "
            "input a shape that has it."
        )
    values = iter(zip(*known, strict=True))

    def merge(one: Any, other: Any) -> Any:
        trials = next(values)
        if not isinstance(one, TensorSpec):
            return one
        shape = tuple(
            size if size == other_size else None
            for size, other_size in zip(one.shape, other.shape, strict=True)
        )
        is_size = all(value is not None for value in trials)
        return Inferred(shape, one.dtype, trials if is_size else (), is_size)

    return nest.map_structure(merge, results[0], results[-1])


def _size_value(leaf: Any) -> Any:
    """Return an integer that is known although nothing was computed: a size, or
    several."""
    is_known = isinstance(leaf, Tensor) and not leaf.is_symbolic
    return leaf if is_known and leaf.dtype.is_integer else None


def _hide_probe(error: Exception, probe: int) -> None:
    """Write open sizes as None in the text of an error, as the user knows them."""
    if len(error.args) != 1 or not isinstance(error.args[0], str):
        return
    text = re.sub(rf"(?<![\w.:]){probe}(?![\w.])", "None", error.args[0])
    error.args = (text,)
