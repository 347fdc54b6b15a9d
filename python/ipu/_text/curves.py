# SPDX-License-Identifier: MIT
"""Results of many epochs: the first and the last ones, and a curve of all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ipu._text.tables import shown

_MOST, _FIRST, _LAST = 20, 5, 10  # rows; what is left of more
_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT, _TOP, _LEFT = 230, 90, 22, 58
# seen on white and on black
_COLOURS = ("#3b82f6", "#ea7b1c")


def is_folded(rows: Sequence[object]) -> bool:
    """Return whether there are so many rows that :func:`folded` leaves some out."""
    return len(rows) > _MOST


def folded(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Leave rows in the middle out where there are many.

    Example:
        >>> [row[0] for row in folded([[str(i)] for i in range(99)])][4:8]
        ['4', '...', '89', '90']
    """
    if not is_folded(rows):
        return list(rows)
    return [*rows[:_FIRST], ["..."], *rows[-_LAST:]]


def as_blocks(series: Mapping[str, Sequence[float]]) -> str:
    """Draw each series as a line of text.

    Example:
        >>> print(as_blocks({"loss": [3.0, 2.0, 1.0]}))
        loss  █▅▁  3.0000 -> 1.0000
    """
    lines = []
    longest = max(map(len, series), default=0)
    for name, values in series.items():
        heights = _heights(_thinned(values, 40), _is_steep([values]))
        marks = [" " if h is None else _BLOCKS[int(7 * h + 0.5)] for _, h in heights]
        ends = f"{shown(values[0])} -> {shown(values[-1])}"
        lines.append(f"{name.ljust(longest)}  {''.join(marks)}  {ends}")
    return "\n".join(lines)


def as_svg(series: Mapping[str, Sequence[float]]) -> str:
    """Draw a small picture for each metric, with that of the validation in it.

    Args:
        series: Of each name its values, one of each epoch: ``"loss"``, ``"val_loss"``.

    Example:
        >>> as_svg({"loss": [2.0, 1.0], "val_loss": [3.0, 2.0]}).count("<polyline")
        2
    """
    groups: dict[str, list[str]] = {}
    for name in series:
        base = name.removeprefix("val_")
        groups.setdefault(base if base in series else name, []).append(name)
    drawn = [_panel({n: series[n] for n in names}) for names in groups.values()]
    return f'<div style="display: flex; flex-wrap: wrap">{"".join(drawn)}</div>'


def _panel(series: Mapping[str, Sequence[float]]) -> str:
    from html import escape  # slow to import

    is_steep = _is_steep(list(series.values()))
    seen = [v for values in series.values() for v in values if math.isfinite(v)]
    low, high = (min(seen), max(seen)) if seen else (0.0, 0.0)
    count = max(map(len, series.values()))
    parts, at = [], float(_LEFT)
    for (name, values), colour in zip(series.items(), _COLOURS, strict=False):
        points, line = [], []
        for place, height in _heights(_thinned(values, _WIDTH), is_steep, low, high):
            if height is not None:
                x = _LEFT + _WIDTH * place / max(count - 1, 1)
                line.append(f"{x:.1f},{_TOP + _HEIGHT * (1 - height):.1f}")
            elif line:
                points.append(line)
                line = []
        points.append(line)
        parts += [
            f'<polyline points="{" ".join(part)}" fill="none" stroke="{colour}" '
            'stroke-width="1.5"/>'
            for part in points
            if part
        ]
        parts.append(f'<text x="{at:.0f}" y="13" fill="{colour}">{escape(name)}</text>')
        at += 6.7 * len(name) + 14
    bottom = _TOP + _HEIGHT
    right = _LEFT + _WIDTH
    end = ' text-anchor="end"'
    parts += [
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" '
        'stroke="currentColor" opacity=".4"/>',
        f'<text x="{_LEFT - 5}" y="{_TOP + 8}"{end}>{high:.3g}</text>',
        f'<text x="{_LEFT - 5}" y="{bottom}"{end}>{low:.3g}</text>',
        f'<text x="{_LEFT}" y="{bottom + 14}">1</text>',
        f'<text x="{right}" y="{bottom + 14}"{end}>{count}</text>',
        f'<text x="{_LEFT + _WIDTH // 2}" y="{bottom + 14}" text-anchor="middle" '
        f'opacity=".6">epoch{"; logarithmic" if is_steep else ""}</text>',
    ]
    width = max(right + 12.0, at)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
        f'height="{bottom + 20}" font-family="sans-serif" font-size="11" '
        f'fill="currentColor">{"".join(parts)}</svg>'
    )


def _thinned(values: Sequence[float], most: int) -> list[tuple[int, float]]:
    """Return at most so many of the values, with the first and the last, and where each
    is."""
    count, last = min(len(values), most), len(values) - 1
    places = [round(i * last / max(count - 1, 1)) for i in range(count)]
    return [(place, values[place]) for place in places]


def _is_steep(series: Sequence[Sequence[float]]) -> bool:
    """Return whether values are so different that a curve needs a logarithmic axis."""
    seen = [v for values in series for v in values if math.isfinite(v)]
    return bool(seen) and min(seen) > 0 and max(seen) > 100 * min(seen)


def _heights(
    values: Sequence[tuple[int, float]],
    is_steep: bool,
    low: float | None = None,
    high: float | None = None,
) -> list[tuple[int, float | None]]:
    """Return each place with its height from 0 to 1; None where the value is not
    finite."""
    seen = [value for _, value in values if math.isfinite(value)] or [0.0]
    low, high = min(seen) if low is None else low, max(seen) if high is None else high
    scale = math.log if is_steep else float
    span = scale(high) - scale(low)

    def height(value: float) -> float | None:
        if not math.isfinite(value):
            return None
        return (scale(value) - scale(low)) / span if span > 0 else 0.5

    return [(place, height(value)) for place, value in values]
