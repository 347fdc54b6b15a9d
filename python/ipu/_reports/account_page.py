# SPDX-License-Identifier: MIT
"""The machine's account as a file: one page without a network, or JSON.

The page's data are columns, so that a program of many steps stays small: names, types
and lines are lists, and steps and tensors hold numbers into them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipu._reports.timetable.boxes import colour, ink

if TYPE_CHECKING:
    from ipu._reports.machine_account import Account, Memory, PipelineAccount

_PAGE = Path(__file__).with_name("account_page.html")


def save(account: Account, path: str | os.PathLike[str], other: Account | None) -> None:
    """Write a page or JSON, as the path ends; see ``Account.save``."""
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in (".html", ".json"):
        raise ValueError(
            "An account is saved as a page or as JSON: `path` must end in .html or "
            f".json. Received: {os.fspath(path)!r}."
        )
    if kind == ".json" and other is not None:
        raise ValueError(
            "JSON holds one account; `other` is for a page. Save each to its own "
            ".json, or both to one .html."
        )
    text = page(account, other) if kind == ".html" else account.to_json()
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        why = error.strerror or str(error)
        raise type(error)(
            error.errno, f"The account cannot be written: {why}", os.fspath(path)
        ) from None


def page(account: Account, other: Account | None = None) -> str:
    """Return the whole page."""
    accounts = [account] if other is None else [account, other]
    data: dict[str, Any] = {
        "folder": os.getcwd() + os.sep,
        "accounts": [columns(one) for one in accounts],
    }
    if other is not None:
        same = renamed(account, other)
        theirs = data["accounts"][1]
        theirs["names_layer"] = [same.get(n, n) for n in theirs["names_layer"]]
        data["matches"] = matches(account, other)
        data["compared"] = compared(account, other)
    # no end of a script's element may stand in it
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    head, mark, tail = _PAGE.read_text("utf-8").partition("/*DATA*/")
    assert mark
    return head + text + tail


class _Names:
    """Numbers names in the order in which they come."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def list(self) -> list[str]:
        return list(self.numbers)


def _short(numbers: Iterable[float]) -> list[float]:
    """Write whole numbers without a point."""
    return [int(n) if n == int(n) else n for n in numbers]


def columns(account: Account) -> dict[str, Any]:
    """Return what the page draws of an account."""
    names, sources, kinds, types = _Names(), _Names(), _Names(), _Names()
    steps = account.steps
    tensors = [
        (memory.ipu, one) for memory in account.memories for one in memory.tensors
    ]
    found: dict[str, Any] = {
        "facts": account._facts(),
        "fits": all(memory.fits for memory in account.memories),
        "fixes": [
            [fix.change, fix.max_tile, fix.saves, fix.price, fix.note]
            for fix in account.fixes()
        ],
        "cycles": account.cycles,
        "clock": account.machine.clock,
        "ipus": account.ipus,
        "steps": {
            "name": [names(one.name) for one in steps],
            "kind": [kinds(one.kind) for one in steps],
            "ipu": [one.ipu for one in steps],
            "start": _short(one.start for one in steps),
            "cycles": _short(one.cycles for one in steps),
            "times": _short(one.times for one in steps),
            "tiles": [one.tiles for one in steps],
            "source": [sources(one.source) for one in steps],
            "rough": [int(one.is_estimated) for one in steps],
            "number": [one.number for one in steps],
        },
        "tensors": {
            "ipu": [ipu for ipu, _ in tensors],
            "name": [names(one.name) for _, one in tensors],
            "type": [types(one.type) for _, one in tensors],
            "bytes": _short(one.bytes for _, one in tensors),
            "source": [sources(one.source) for _, one in tensors],
            "copies": [one.copies for _, one in tensors],
            "first": [one.first for _, one in tensors],
            "last": [one.last for _, one in tensors],
        },
        "memories": [_memory(memory) for memory in account.memories],
        "pipelines": [_pipeline(one) for one in account.pipelines],
    }
    found["names"] = names.list()
    found["names_layer"] = [layer_of(name) for name in found["names"]]
    found["names_op"] = [op_of(name) for name in found["names"]]
    found.update(sources=sources.list(), kinds=kinds.list(), types=types.list())
    return found


def layer_of(step: str) -> str:
    """Return the layers in front of a step's op."""
    return step.rpartition("/")[0]


def op_of(step: str) -> str:
    """Return a step's op."""
    return step.partition(": ")[0].rpartition("/")[2]


def _memory(memory: Memory) -> dict[str, Any]:
    always, present = memory.always_per_tile.tolist(), memory.per_tile.tolist()
    tiles = list(zip(always, present, strict=True))
    runs = [(len(list(same)), *sizes) for sizes, same in groupby(tiles)]
    return {
        "tile_bytes": memory.tile_bytes,
        "tiles": memory.tiles,
        "always_live": memory.always_live,
        "live": memory.live,
        "temporary": memory.temporary,
        "max_tile": memory.max_tile,
        "fits": memory.fits,
        "peak": memory.peak,
        "per_tile": runs,
        "fullest": tiles[memory.fullest_tile],
    }


def _pipeline(one: PipelineAccount) -> dict[str, Any]:
    passes = one.timetable.recorded or []
    heads = ("ipu", "kind", "stage", "micro_batch", "begin", "end")
    stages = range(len(one.device_mapping))
    return {
        "schedule": one.schedule.partition("\n")[0],
        "micro_batches": one.micro_batches,
        "start": one._found["start"],
        "cycles": one.cycles,
        "ends": _short(one.ends),
        "passes": {head: [row[i] for row in passes] for i, head in enumerate(heads)},
        "colours": {k: [colour(stage, k) for stage in stages] for k in "FBIW"},
        "inks": {kind: ink(kind) for kind in "FBIW"},
    }


def _kinds_of_layers(account: Account, but: set[str]) -> dict[tuple[str, int], str]:
    """Return layers by their name without numbers, and which of that name it is."""
    found: dict[tuple[str, int], str] = {}
    counts: dict[str, int] = {}
    for name in dict.fromkeys(layer_of(step.name) for step in account.steps):
        base = "/".join(re.sub(r"_\d+$", "", part) for part in name.split("/"))
        counts[base] = counts.get(base, -1) + 1
        if name not in but:
            found[base, counts[base]] = name
    return found


def renamed(account: Account, other: Account) -> dict[str, str]:
    """Return layers of the other account that are one of this under another number.

    A model that is made twice has ``dense`` and ``dense_1`` first, then ``dense_2``
    and ``dense_3``.
    """
    both = set(account.by_layer()) & set(other.by_layer())
    ours, theirs = (_kinds_of_layers(one, both) for one in (account, other))
    return {name: ours[kind] for kind, name in theirs.items() if kind in ours}


def matches(account: Account, other: Account) -> str:
    """Return a sentence about what two accounts have in common."""
    same = renamed(account, other)
    layers, others = set(account.by_layer()), set(other.by_layer())
    others = {same.get(name, name) for name in others}
    ops, theirs = set(account.by_op()), set(other.by_op())
    return (
        f"{len(layers & others)} of {len(layers | others)} layers and "
        f"{len(ops & theirs)} of {len(ops | theirs)} ops are in both."
    )


def compared(account: Account, other: Account) -> list[tuple[str, Any, Any, str]]:
    """Return rows of what the whole takes: name, this, other, and what the numbers
    are."""

    def bubble(one: Account) -> float | None:
        return one.pipelines[0].bubble if one.pipelines else None

    rows = (
        ("machine", lambda one: repr(one.machine), "text"),
        (
            "memory",
            lambda one: "fits" if all(m.fits for m in one.memories) else "does not fit",
            "text",
        ),
        ("time", lambda one: 1e6 * one.seconds, "us"),
        ("cycles", lambda one: one.cycles, "count"),
        ("samples a second", lambda one: one.samples_per_second, "rate"),
        ("fullest tile", lambda one: one.memory.max_tile, "bytes"),
        ("variables", lambda one: sum(m.always_live for m in one.memories), "bytes"),
        ("live at the peak", lambda one: one.memory.live, "bytes"),
        ("steps", lambda one: len(one.steps), "count"),
        ("tiles at work", lambda one: one.utilisation, "share"),
        ("IPUs idle in the pipeline", bubble, "share"),
        ("estimated", lambda one: one.estimated_share, "share"),
    )
    found = [(name, value(account), value(other), kind) for name, value, kind in rows]
    return [row for row in found if row[1:3] != (None, None)]
