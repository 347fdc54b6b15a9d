# SPDX-License-Identifier: MIT
"""``ipu.auto_stages``: the split of a model into stages whose slowest is fastest."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ipu import tf
from ipu._device.placement import current_device
from ipu._text.arguments import as_int
from ipu._text.tables import as_html
from ipu.keras._types import Tensor
from ipu.keras.engine.files import summary
from ipu.keras.engine.layer.call_context import call_scope
from ipu.keras.engine.pipelines.calls import (
    FlatModel,
    StageCall,
    StageTree,
    flatten,
    is_nested,
    leaves_of,
)
from ipu.keras.engine.symbols.keras_tensor import KerasTensor
from ipu.tf._functions import function
from ipu.tf.dtypes import NARROW

# of a Mk2 IPU: 62.5 TFLOP/s in float32, 47.5 TB/s between its memory and its tiles
# (Graphcore, IPU-M2000 data sheet)
_FLOPS_PER_BYTE = 62.5 / 47.5
# what a layer costs, and the columns that say it
_COSTS = {
    "operations": ("Operations", "Bytes"),
    "cycles": ("Cycles",),
    "memory": ("Bytes of memory",),
}
_BATCH_SIZE = 32


class StageSplit:
    """A split of a model into stages, and what it costs.

    Attributes:
        stages: The stage of each call of a layer, in the order in which they run.
        calls: The cost of each call.
        costs: The cost of each stage: operations, cycles, or bytes of memory.
    """

    def __init__(
        self, stages: list[int], calls: list[CallCost], weights: list[float], by: str
    ) -> None:
        self.stages = stages
        self.calls = calls
        self._weights = weights
        self._by = by
        self.costs = self._costs_of(stages)

    def _costs_of(self, stages: Sequence[int]) -> list[float]:
        costs = [0.0] * (max(stages) + 1)
        for stage, weight in zip(stages, self._weights, strict=True):
            costs[stage] += weight
        return costs

    def loss_of(self, stages: Any) -> float:
        """Say what another split loses against this one.

        Args:
            stages: The stage of each call of a layer; a model whose stages are meant;
                or what its ``get_pipeline_stage_assignment()`` gives.

        Returns:
            How much more its slowest stage costs, as a part of what the slowest of this
            one does: 0.5 means half as much again.
        """
        given = _as_stages(stages)
        if len(given) != len(self.stages):
            raise ValueError(
                f"The split has {len(self.stages)} calls of layers. Received: stages "
                f"of {len(given)}."
            )
        for call, stage in zip(self.calls, given, strict=True):
            if isinstance(stage, bool) or not isinstance(stage, int) or stage < 0:
                raise ValueError(
                    f"Each call of a layer needs a stage of 0 or more. Received: "
                    f"{stage!r} for {call.name}."
                )
        return max(self._costs_of(given)) / (max(self.costs) or 1.0) - 1.0

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        total = sum(self.costs) or 1.0
        rows = []
        for stage, cost in enumerate(self.costs):
            calls = [
                call
                for at, call in zip(self.stages, self.calls, strict=True)
                if at == stage
            ]
            if self._by == "operations":
                flops = _short(sum(call.flops for call in calls))
                cells = [flops, _short(sum(call.bytes for call in calls))]
            else:
                cells = [_short(cost)]
            names = calls[0].name
            if len(calls) > 1:
                names += f" ... {calls[-1].name}"
            share = f"{100 * cost / total:.1f} %"
            rows.append([str(stage), names, *cells, share])
        return ["Stage", "Layers", *_COSTS[self._by], "Share"], rows

    def __str__(self) -> str:
        slowest = max(self.costs)
        even = sum(self.costs) / len(self.costs) or 1.0
        lines = summary.table_lines(*self._rows())
        over = 100 * (slowest / even - 1.0)
        lines.append(f"The slowest stage costs {over:.1f} % more than an even share.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<StageSplit: {self.stages}>"

    def _repr_html_(self) -> str:
        return as_html(*self._rows())


def _short(value: float) -> str:
    """Return a number of three digits and a unit."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def auto_stages(
    model: Any,
    n: int,
    batch_size: int | None = None,
    assign: bool = True,
    flops_per_byte: float = _FLOPS_PER_BYTE,
    by: str = "operations",
) -> StageSplit:
    """Split a model into pipeline stages so that the slowest costs as little as can be.

    The layers stay in the order in which they run, and all calls of a layer with
    weights are on one stage; among such splits it is the best one. The cost is that of
    training: a layer's operations, forward and backward, and the bytes that they move.

    Args:
        model: A model that is built: functional, ``Sequential`` or a subclass of
            ``Model``.
        n: The number of stages.
        batch_size: Samples in a batch; None for what the model's input says, else 32.
        assign: Whether the model gets the stages.
        flops_per_byte: How many operations a byte that is moved counts for.
        by: What a layer costs: "operations", on any computer; or of an IPU (see
            :func:`ipu.machine.estimate`) "cycles", or "memory": its weights and what
            is live at most.

    Returns:
        The split, which prints as a table and says what other splits lose against it.

    Raises:
        ValueError: ``n`` is not a positive integer, there are not so many stages, or
            ``by`` has another value.
        RuntimeError: The model is not built, or its layers are not known.

    Source: the linear partition problem, by dynamic programming (S. S. Skiena, The
    Algorithm Design Manual, 10.7).

    Example:
        >>> from ipu.keras.layers import Dense
        >>> model = ipu.keras.Sequential(
        ...     [Dense(64, input_shape=(64,)), Dense(64), Dense(64), Dense(256)])
        >>> split = ipu.auto_stages(model, 2)
        >>> split.stages
        [0, 0, 0, 1]
        >>> split.loss_of([0, 0, 1, 1]) > 0.1
        True
    """
    n = as_int(n)
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"`n` must be a positive number of stages. Received: n={n!r}.")
    if not getattr(model, "built", False):
        raise RuntimeError(
            "auto_stages needs a model that is built. Received: "
            f"{getattr(model, 'name', model)!r}. Call it on data, or "
            "build(input_shape), first."
        )
    if by not in _COSTS:
        raise ValueError(
            f"`by` must be one of {', '.join(map(repr, _COSTS))}. Received: {by!r}."
        )
    split = Splits(model, batch_size, flops_per_byte, by).into(n)
    if assign:
        model._assign_stages(tree_of(model, iter(split.stages)))
    return split


class Splits:
    """The best splits of a model into any number of stages; see :func:`auto_stages`."""

    def __init__(
        self,
        model: Any,
        batch_size: int | None,
        flops_per_byte: float = _FLOPS_PER_BYTE,
        by: str = "operations",
    ) -> None:
        model._assert_has_calls("make")
        with model._scope():
            flat = flatten(model, tree_of(model, itertools.repeat(0)), True)
            first = flat.graph.inputs[0].shape[0] if flat.graph.inputs else None
            self._calls = costs_of(flat, batch_size or first or _BATCH_SIZE, by)
        self._weights = [
            call.flops + flops_per_byte * call.bytes + call.on_ipu
            for call in self._calls
        ]
        self._together = _kept_together(flat)
        self._by = by
        self._stages: dict[int, list[int]] = {}

    def into(self, n: int) -> StageSplit:
        """Return the split into ``n`` stages."""
        if n not in self._stages:
            self._stages[n] = _best_split(self._weights, n, self._together)
        return StageSplit(self._stages[n], self._calls, self._weights, self._by)


def tree_of(model: Any, supply: Iterator[int]) -> StageTree:
    """Return stages from a flat list in the form of a model."""
    return [
        tree_of(unit.layer, supply) if is_nested(unit) else next(supply)
        for unit in model._stage_units()
    ]


def _as_stages(given: Any) -> list[Any]:
    if hasattr(given, "_stage_tree"):
        return list(leaves_of(given._stage_tree()))
    stages: list[Any] = []
    for entry in given:
        if getattr(entry, "is_nested_model", False):
            stages += _as_stages(entry.pipeline_stage_assignments)
        else:
            stages.append(getattr(entry, "pipeline_stage", entry))
    return stages


def _kept_together(flat: FlatModel) -> set[int]:
    """Return the calls that must be on the stage of the one before: between the first
    and the last use of a weight."""
    first: dict[int, int] = {}
    together: set[int] = set()
    for place, call in enumerate(flat.calls):
        for variable in call.node.layer.variables:
            begin = first.setdefault(id(variable), place)
            together.update(range(begin + 1, place + 1))
    return together


def _best_split(weights: list[float], n: int, together: set[int]) -> list[int]:
    """Cut a list into ``n`` parts so that the heaviest is as light as can be.

    Among such ways it is the one with the smallest squares: the other parts are even.
    """
    count = len(weights)
    cuts = [place for place in range(1, count) if place not in together]
    if n > len(cuts) + 1:
        raise ValueError(
            f"The model can be split into {len(cuts) + 1} stages at most: it has "
            f"{count} calls of layers, and those that share weights stay together. "
            f"Received: n={n}."
        )
    sums = [0.0, *itertools.accumulate(weights)]
    heaviest, _ = _cuts(sums, cuts, n, max, lambda part: part)
    _, chosen = _cuts(
        sums,
        cuts,
        n,
        operator.add,
        lambda part: part**2 if part <= heaviest else math.inf,
    )
    return [sum(cut <= place for cut in chosen) for place in range(count)]


_Cuts = tuple[float, tuple[int, ...]]


def _cuts(
    sums: list[float],
    cuts: list[int],
    n: int,
    join: Callable[[float, float], float],
    cost: Callable[[float], float],
) -> _Cuts:
    """Return the best way to cut a list into ``n`` parts, by dynamic programming.

    Args:
        sums: The weight of what is before each place.
        cuts: The places where cuts may be.
        n: The number of parts.
        join: Makes of the costs of two groups of parts that of both.
        cost: Makes of a part's weight its cost.
    """
    count = len(sums) - 1
    ends = [*cuts, count]
    # for each end the cost of the parts of what is before it, and their cuts
    best: dict[int, _Cuts] = {end: (cost(sums[end]), ()) for end in ends}
    for _ in range(1, n):
        best = {
            end: min(
                (join(before, cost(sums[end] - sums[cut])), (*taken, cut))
                for cut, (before, taken) in best.items()
                if cut < end
            )
            for end in ends
            if any(cut < end for cut in best)
        }
    return best[count]


class CallCost(NamedTuple):
    """The cost of a call, forward and backward.

    Attributes:
        name: The name of the layer.
        flops: Operations; a multiply-add counts as two. 0 where the split is by another
            cost, as the next one.
        bytes: The bytes that ops read and write.
        on_ipu: Cycles, or bytes of memory, of an IPU; 0 where nobody asked.
    """

    name: str
    flops: float
    bytes: float
    on_ipu: float


def costs_of(
    flat: FlatModel, batch_size: int, by: str = "operations"
) -> list[CallCost]:
    """Find what the calls of a model cost.

    Each is traced alone: its results, the gradients of its weights, and those of what
    it takes from other layers.
    """
    return [_cost(flat, call, batch_size, by) for call in flat.calls]


def _spec(symbol: KerasTensor, batch_size: int) -> tf.TensorSpec:
    sizes = tuple(batch_size if size is None else size for size in symbol.shape)
    return tf.TensorSpec(sizes, NARROW.get(symbol.dtype.name, symbol.dtype))


def _cost(flat: FlatModel, call: StageCall, batch_size: int, by: str) -> CallCost:
    node = call.node
    layer = node.layer
    symbols = list({id(s): s for s in node.keras_inputs}.values())
    data = set(flat.inputs)
    wanted = [
        i
        for i, symbol in enumerate(symbols)
        if symbol.dtype.is_floating and flat.origin(call.key(symbol)) not in data
    ]
    made = [s for s in tf.nest.flatten(node.outputs) if s.dtype.is_floating]
    specs = [_spec(symbol, batch_size) for symbol in [*symbols, *made]]

    def body(*tensors: Tensor) -> Any:
        given, seeds = tensors[: len(symbols)], tensors[len(symbols) :]
        values = {id(s): tensor for s, tensor in zip(symbols, given, strict=True)}
        with call_scope(True):
            results = [result for _, result in node.run(values)]
        for inner in layer._flatten_layers():
            inner._losses.clear()
        floats = [one for one in results if tf.as_dtype(one.dtype).is_floating]
        needed: list[Any] = [*layer.trainable_variables, *(given[i] for i in wanted)]
        if not needed or not floats:
            return results
        gradients = tf.gradients(floats, needed, list(seeds))
        return [*results, *(g for g in gradients if g is not None)]

    name = str(layer.name)
    if by != "operations":
        from ipu.machine import estimate

        account = estimate(body, *specs)
        on_ipu = account.cycles if by == "cycles" else account.memory.total
        return CallCost(name, 0.0, 0.0, on_ipu)
    program = function.trace_program(body, specs, device=current_device()).program
    # a view, such as Flatten, is copied here alone, since it is a result
    is_view = " kernel " not in program.text
    return CallCost(name, program.flops, 0.0 if is_view else program.bytes, 0.0)
