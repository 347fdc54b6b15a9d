# SPDX-License-Identifier: MIT
"""What a program would cost on an IPU, by step, layer and line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._text.tables import as_html, as_text

if TYPE_CHECKING:
    from ipu.machine import Machine

_TOP = 10


@dataclass(frozen=True)
class Step:
    """Hold a step of a program on the IPU.

    Attributes:
        name: The op, with its layers in front ("model/dense/matmul"), and after a colon
            which part of it.
        kind: "compute", "exchange", "copy", "stream" (between host and IPU) or
            "collective".
        ipu: Which IPU, counted from 0.
        cycles: Of one execution, on the busiest tile.
        times: How often it runs.
        tiles: How many take part.
        source: The user's line, "file:line"; "" where it is not known.
        is_estimated: Whether it is counted by arithmetic and bytes alone, or by
            instructions that were compared with no measurement.
    """

    name: str
    kind: str
    ipu: int
    cycles: float
    times: float
    tiles: int
    source: str
    is_estimated: bool

    @property
    def all_cycles(self) -> float:
        """Give the cycles of all executions."""
        return self.cycles * self.times


@dataclass(frozen=True)
class Tenant:
    """Hold a tensor that is there when most bytes are live.

    Attributes:
        name: The op that makes it.
        type: Its dtype and shape.
        bytes: On all tiles together.
        source: The user's line.
    """

    name: str
    type: str
    bytes: float
    source: str


@dataclass(frozen=True)
class Memory:
    """Hold the memory of a program, spread evenly over the tiles.

    Attributes:
        tile_bytes: What a tile has.
        variables: Bytes of variables on all tiles together: always live.
        live: The most bytes of other tensors that are live together, on all tiles.
        at: The op and line where they are.
        temporary: The most bytes that a step takes on its fullest tile, beside these.
        by_tensor: The largest tensors that are live there.
        tiles: How many tiles the IPU has.
    """

    tile_bytes: float
    variables: float
    live: float
    at: str
    temporary: float
    by_tensor: tuple[Tenant, ...]
    tiles: int

    @property
    def total(self) -> float:
        """Give the bytes on all tiles, without temporary ones."""
        return self.variables + self.live

    @property
    def max_tile(self) -> float:
        """Give the bytes of the fullest tile, with temporary ones."""
        return float(np.ceil(self.total / self.tiles) + self.temporary)

    @property
    def fits(self) -> bool:
        """Give whether the fullest tile has room for it."""
        return self.max_tile <= self.tile_bytes


def _place(node: tuple[Any, ...] | None) -> tuple[str, str, int]:
    """The name, line and IPU of a node, as the core describes it."""
    if node is None:
        return "", "", 0
    op, name, file, line, ipu = node
    return op if name is None else f"{name}/{op}", f"{file}:{line}" if file else "", ipu


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


class Account:
    """Tell what a program would cost on an IPU: nothing of it was run.

    :func:`ipu.machine.estimate` makes one. It prints as a table, in a notebook, too.

    Attributes:
        machine: The machine it is for.
        steps: All steps in program order, a list of ``Step``.
        memory: What lies on the tiles, a ``Memory``.
        samples: How many samples the program takes; None where that is not known.
        has_unknown_turns: Whether a loop whose number of turns is not known in advance
            counts as one turn.

    Example:
        >>> account = ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([4096]))
        >>> [step.kind for step in account.steps], account.memory.fits
        (['compute'], True)
    """

    def __init__(
        self, machine: Machine, found: dict[str, Any], samples: int | None = None
    ) -> None:
        self.machine = machine
        self.samples = samples
        self.has_unknown_turns: bool = found["has_unknown_turns"]
        self.steps: list[Step] = []
        for kind, part, cycles, times, tiles, is_estimated, node in found["steps"]:
            name, source, ipu = _place(node)
            name = f"{name}: {part}" if part else name
            self.steps.append(
                Step(name, kind, ipu, cycles, times, int(tiles), source, is_estimated)
            )
        tenants = []
        for size, kind, node in found["tenants"]:
            name, source, _ = _place(node)
            tenants.append(Tenant(name or "argument", kind, size, source))
        at, line, _ = _place(found["peak_node"])
        self.memory = Memory(
            tile_bytes=machine.tile_bytes,
            variables=found["variable_bytes"],
            live=found["peak_bytes"],
            at=f"{at} ({line})" if line else at,
            temporary=found["temporary_bytes"],
            by_tensor=tuple(tenants),
            tiles=int(machine.tiles),
        )

    @property
    def cycles(self) -> float:
        """Give the cycles of all steps.

        Example:
            >>> account = ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([4096]))
            >>> account.cycles == sum(step.all_cycles for step in account.steps)
            True
        """
        return sum(step.all_cycles for step in self.steps)

    @property
    def seconds(self) -> float:
        """Give the time of all steps.

        Example:
            >>> account = ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([4096]))
            >>> account.seconds == account.cycles / account.machine.clock
            True
        """
        return self.cycles / self.machine.clock

    @property
    def samples_per_second(self) -> float | None:
        """Give the rate; None where the number of samples is not known.

        Example:
            >>> spec = tf.TensorSpec([4096, 8])
            >>> account = ipu.machine.estimate(tf.nn.relu, spec, samples=4096)
            >>> account.samples_per_second > 1e6
            True
        """
        if self.samples is None or not self.cycles:
            return None
        return self.samples / self.seconds

    @property
    def estimated_share(self) -> float:
        """Give the share of cycles that steps marked as estimated make up.

        Example:
            >>> ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([8])).estimated_share
            0.0
        """
        if not self.cycles:
            return 0.0
        rough = sum(step.all_cycles for step in self.steps if step.is_estimated)
        return rough / self.cycles

    @property
    def utilisation(self) -> float:
        """Give the mean share of tiles that take part, over all cycles.

        Example:
            >>> 0 < ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([8])).utilisation < 1
            True
        """
        if not self.cycles:
            return 0.0
        busy = sum(step.all_cycles * step.tiles for step in self.steps)
        return busy / self.cycles / self.machine.tiles

    def _sums(self, key: Callable[[Step], str]) -> dict[str, float]:
        sums: dict[str, float] = {}
        for step in self.steps:
            name = key(step)
            sums[name] = sums.get(name, 0.0) + step.all_cycles
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def by_op(self) -> dict[str, float]:
        """Give the cycles of each op, the largest first.

        Example:
            >>> list(ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([8])).by_op())
            ['relu']
        """
        return self._sums(lambda step: step.name.partition(": ")[0].rpartition("/")[2])

    def by_layer(self) -> dict[str, float]:
        """Give the cycles of each layer, the largest first; "" stands for no layer.

        Example:
            >>> model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])
            >>> account = ipu.machine.estimate(model, tf.TensorSpec([4, 8]))
            >>> [name.rpartition("/")[2][:5] for name in account.by_layer()]
            ['dense']
        """
        return self._sums(lambda step: step.name.rpartition("/")[0])

    def by_line(self) -> dict[str, float]:
        """Give the cycles of each line of the user's program, the largest first.

        Example:
            >>> len(ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([8])).by_line())
            1
        """
        return self._sums(lambda step: step.source)

    def by_kind(self) -> dict[str, float]:
        """Give the cycles of each kind of step, the largest first.

        Example:
            >>> list(ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([8])).by_kind())
            ['compute']
        """
        return self._sums(lambda step: step.kind)

    def to_json(self) -> str:
        """Give all of it as JSON.

        Example:
            >>> import json
            >>> account = ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([8]))
            >>> sorted(json.loads(account.to_json()))
            ['cycles', 'machine', 'memory', 'samples', 'seconds', 'steps']
        """
        fields = type(self.machine).fields()
        return json.dumps(
            {
                "machine": {name: getattr(self.machine, name) for name in fields},
                "cycles": self.cycles,
                "seconds": self.seconds,
                "samples": self.samples,
                "memory": asdict(self.memory),
                "steps": [asdict(step) for step in self.steps],
            }
        )

    def diff(self, other: Account) -> str:
        """Compare with another account, op by op, as a table.

        Args:
            other: An account of the same program, on another machine or changed, or of
                another one.

        Example:
            >>> spec = tf.TensorSpec([1 << 20])
            >>> bow = ipu.machine.estimate(tf.nn.relu, spec, machine="bow")
            >>> half = ipu.machine.estimate(
            ...     tf.nn.relu, spec, machine=ipu.machine.Machine("bow", tiles=736)
            ... )
            >>> print(bow.diff(half).splitlines()[0])
            op    cycles  other  change
        """
        if not isinstance(other, Account):
            raise TypeError(f"`other` must be an Account. Received: {other!r}.")
        ours, theirs = self.by_op(), other.by_op()
        rows = [["op", "cycles", "other", "change"]]
        pairs: Iterable[tuple[str, float, float]] = (
            *((op, n, theirs.get(op, 0.0)) for op, n in ours.items()),
            *((op, 0.0, n) for op, n in theirs.items() if op not in ours),
            ("all", self.cycles, other.cycles),
        )
        for op, a, b in pairs:
            change = f"{b / a - 1:+.0%}" if a else "new"
            rows.append([op, f"{a:.0f}", f"{b:.0f}", change])
        return as_text(rows, left=1)

    # --- as text ---------------------------------------------------------------------

    def _facts(self) -> list[tuple[str, str]]:
        memory = self.memory
        rate = self.samples_per_second
        machine = f"{self.machine!r}, {self.machine.clock / 1e9:g} GHz"
        verdict = "fits" if memory.fits else "does not fit"
        facts = [
            ("machine", machine),
            ("time", f"{self.seconds * 1e6:,.1f} us, {self.cycles:,.0f} cycles"),
            ("samples a second", "" if rate is None else f"{rate:,.0f}"),
            ("tiles at work", f"{self.utilisation:.0%}"),
            (
                "fullest tile",
                f"{_size(memory.max_tile)} of {_size(memory.tile_bytes)}: {verdict}",
            ),
            ("variables", _size(memory.variables)),
            ("live at most", f"{_size(memory.live)}, at {memory.at}"),
            ("estimated", f"{self.estimated_share:.0%} of the cycles"),
        ]
        if self.has_unknown_turns:
            facts.append(("loops", "one of unknown turns counts once"))
        return [fact for fact in facts if fact[1]]

    def _tables(self) -> list[list[list[str]]]:
        total = self.cycles or 1.0
        tables = []
        for head, sums in (
            ("layer", self.by_layer()),
            ("op", self.by_op()),
            ("kind", self.by_kind()),
            ("line", self.by_line()),
        ):
            rows = [[head, "cycles", "%"]]
            for name, cycles in list(sums.items())[:_TOP]:
                shown = os.path.relpath(name) if head == "line" and name else name
                rows.append(
                    [shown or "-", f"{cycles:,.0f}", f"{100 * cycles / total:.1f}"]
                )
            tables.append(rows)
        return tables

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self._facts())
        lines = [f"{name:<{width}}  {text}" for name, text in self._facts()]
        for rows in self._tables():
            lines += ["", as_text(rows, left=1)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Account of {len(self.steps)} steps: {self.cycles:,.0f} cycles>"

    def _repr_html_(self) -> str:
        tables = [as_html(["", ""], [list(fact) for fact in self._facts()])]
        tables += [as_html(rows[0], rows[1:]) for rows in self._tables()]
        return "".join(tables)
