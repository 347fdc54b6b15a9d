# SPDX-License-Identifier: MIT
"""The table of a model's layers, as text and as HTML.

Nothing is cut off: a cell that is too wide for its column goes on in the next line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ipu._text import tables
from ipu.keras._drawing.boxes import chosen

if TYPE_CHECKING:
    from ipu.keras.engine.base_layer import Layer
    from ipu.keras.engine.model import Model

_GAP = 2
# the width of a table, and where its columns end in parts of it, by their number
_LAYOUTS = {3: (65, (0.45, 0.85, 1.0)), 4: (98, (0.33, 0.55, 0.67, 1.0))}


def _need_built(model: Model) -> None:
    if not model.built:
        raise ValueError(
            "This model has not yet been built. Build the model first by calling "
            "`build()` or calling `fit()` with some data, or specify an `input_shape` "
            "argument in the first layer(s) for automatic build."
        )


def _shape(layer: Layer) -> str:
    nodes = layer._inbound_nodes
    if not nodes:
        return "multiple"
    shapes = {str(node.output_shapes) for node in nodes}
    if type(layer).__name__ == "InputLayer" and len(shapes) == 1:
        return f"[{shapes.pop()}]"
    return shapes.pop() if len(shapes) == 1 else "multiple"


def _links(layer: Layer, model: Model) -> str:
    graph = getattr(model, "_graph", None)
    known = set(graph.nodes) if graph is not None else None
    links = []
    for node in layer._inbound_nodes:
        if known is None or node in known:
            for tensor in node.keras_inputs:
                source, node_index, tensor_index = tensor._keras_history
                links.append(f"{source.name}[{node_index}][{tensor_index}]")
    return ", ".join(links)


def _is_chain(model: Model) -> bool:
    """Return whether every layer has one call, with one input from the layer before."""
    graph = getattr(model, "_graph", None)
    if graph is None:
        return True
    return (
        len(graph.nodes) == len(graph.layers)
        and all(len(node.keras_inputs) <= 1 for node in graph.nodes)
        and len({tensor for n in graph.nodes for tensor in n.keras_inputs})
        == sum(len(n.keras_inputs) for n in graph.nodes)
    )


def _rows(
    model: Model,
    expand_nested: bool,
    show_trainable: bool = False,
    layer_range: Sequence[str] | None = None,
) -> tuple[list[str], list[list[str]]]:
    with_links = not _is_chain(model)
    head = ["Layer (type)", "Output Shape", "Param #"]
    if with_links:
        head.append("Connected to")
    if show_trainable:
        head.append("Trainable")

    def rows_of(
        owner: Any, prefix: str, bounds: Sequence[str] | None = None
    ) -> Iterator[list[str]]:
        for layer in chosen(owner.layers, bounds):
            row = [
                f"{prefix}{layer.name} ({type(layer).__name__})",
                _shape(layer),
                str(layer.count_params()) if layer.built else "0 (unused)",
            ]
            if with_links:
                row.append(_links(layer, owner))
            if show_trainable:
                row.append(("Y" if layer.trainable else "N") if layer.weights else "-")
            yield row
            if expand_nested and hasattr(layer, "layers"):
                yield from rows_of(layer, prefix + "  ")

    return head, list(rows_of(model, "", layer_range))


def _totals(model: Model) -> list[str]:
    def count(variables: Sequence[Any]) -> int:
        return sum(math.prod(variable.shape) for variable in variables)

    trainable = count(model.trainable_weights)
    fixed = count(model.non_trainable_weights)
    return [
        f"Total params: {trainable + fixed:,}",
        f"Trainable params: {trainable:,}",
        f"Non-trainable params: {fixed:,}",
    ]


def table_lines(
    head: list[str],
    rows: list[list[str]],
    line_length: int | None = None,
    positions: Sequence[float] | None = None,
) -> list[str]:
    """Lay a table out.

    Args:
        line_length: The width; None for as much as is needed.
        positions: Where columns end, as parts of the width or in characters.
    """
    import textwrap

    needed = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    if positions is None and head[0] == "Layer (type)" and len(head) in _LAYOUTS:
        length, usual = _LAYOUTS[len(head)]
        widths = _widths(line_length or length, usual)
        if all(n <= width for n, width in zip(needed, widths, strict=True)):
            line_length, positions = line_length or length, usual
    if positions is not None:
        widths = _widths(line_length or 65, positions)
    elif line_length is None:
        widths = needed
        spare = 65 - sum(widths) - _GAP * (len(widths) - 1)
        widths[0] += max(0, spare)
    else:
        widths = _squeezed(needed, line_length - _GAP * (len(needed) - 1))
    widths = [max(width, 1) for width in widths]
    total = sum(widths) + _GAP * (len(widths) - 1)

    def laid_out(row: list[str]) -> Iterator[str]:
        cells = [
            textwrap.wrap(cell, width, break_on_hyphens=False) or [""]
            for cell, width in zip(row, widths, strict=True)
        ]
        for i in range(max(len(cell) for cell in cells)):
            yield (
                (" " * _GAP)
                .join(
                    (cell[i] if i < len(cell) else "").ljust(width)
                    for cell, width in zip(cells, widths, strict=True)
                )
                .rstrip()
            )

    result = ["_" * total, *laid_out(head), "=" * total]
    for row in rows:
        result += laid_out(row)
    result.append("=" * total)
    return result


def _widths(length: int, positions: Sequence[float]) -> list[int]:
    """Return how wide columns are that end at these positions."""
    ends = [int(p * length) if p <= 1 else int(p) for p in positions]
    widths = [e - b - _GAP for b, e in zip([0, *ends], ends, strict=False)]
    widths[-1] += _GAP
    return widths


def _squeezed(needed: list[int], space: int) -> list[int]:
    """Return widths that add up to ``space``; the widest columns give way first."""
    widths = list(needed)
    while sum(widths) > space and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    widths[0] += max(0, space - sum(widths))
    return widths


def lines(
    model: Model,
    line_length: int | None = None,
    positions: Sequence[float] | None = None,
    expand_nested: bool = False,
    show_trainable: bool = False,
    layer_range: Sequence[str] | None = None,
) -> list[str]:
    _need_built(model)
    head, rows = _rows(model, expand_nested, show_trainable, layer_range)
    table = table_lines(head, rows, line_length, positions)
    return [f'Model: "{model.name}"', *table, *_totals(model), "_" * len(table[0])]


def as_html(model: Model) -> str:
    import html

    name = html.escape(model.name)
    if not model.built:
        return f"<p>Model <b>{name}</b>, not built yet</p>"
    head, rows = _rows(model, expand_nested=False)
    totals = "<br>".join(html.escape(line) for line in _totals(model))
    table = tables.as_html(head, rows)
    return f"<p>Model <b>{name}</b></p>{table}<p>{totals}</p>"
