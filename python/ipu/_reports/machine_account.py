# SPDX-License-Identifier: MIT
"""The cost of a program on an IPU, by step, layer and line."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._reports.timetable.boxes import Window, boxes_of
from ipu._text.tables import as_html, as_text, duration

if TYPE_CHECKING:
    from ipu._reports.doctor import Fix
    from ipu._reports.timetable.table import Recorded, Timetable
    from ipu.machine import Machine

_TOP = 10


@dataclass(frozen=True)
class Step:
    """A step of a program on the IPU.

    Attributes:
        name: The op, with its layers in front ("model/dense/matmul"), and after a colon
            which part of it.
        kind: "compute", "exchange" (between tiles or IPUs), "sync" (of all tiles,
            before an exchange between them), "copy", "stream" (between host and IPU),
            "remote" (between remote memory and IPU) or "collective".
        ipu: Which IPU, counted from 0.
        start: Cycles from the program's beginning to its first execution.
        cycles: Of one execution, on the busiest tile.
        times: How often it runs; 0 in a branch that is not the longest.
        tiles: How many take part.
        source: The user's line, "file:line"; "" where it is not known.
        is_estimated: Whether it is counted by arithmetic and bytes alone, or by
            instructions that were compared with no measurement.
        number: Of its op, from 1 on, in program order.
    """

    name: str
    kind: str
    ipu: int
    start: float
    cycles: float
    times: float
    tiles: int
    source: str
    is_estimated: bool
    number: int

    @property
    def all_cycles(self) -> float:
        """Give the cycles of all executions."""
        return self.cycles * self.times


@dataclass(frozen=True)
class Tenant:
    """A tensor while it is live, on one IPU.

    Attributes:
        name: The op that makes it, with its layers in front.
        type: Its dtype and shape.
        bytes: Of all copies, on all tiles together.
        source: The user's line.
        copies: Of how many micro-batches it is kept, in a pipeline; else 1.
        first: The number of the op that makes it (``Step.number``).
        last: The number of the last op that uses it.
        first_tile: The first of the tiles that have a part of it.
        tiles: How many tiles these are: one after another, around the end.
        is_in_order: Whether its elements lie on them in their order; else as a
            product's plan has them.
    """

    name: str
    type: str
    bytes: float
    source: str
    copies: int
    first: int
    last: int
    first_tile: int
    tiles: int
    is_in_order: bool

    @property
    def elements(self) -> tuple[int, ...]:
        """Give the elements of a copy on each of its tiles: equal parts, of which the
        first ones have one more."""
        sizes = self.type.partition("[")[2].rstrip("]").split(",")
        each, rest = divmod(math.prod(int(n) for n in sizes if n), self.tiles)
        return tuple(each + (part < rest) for part in range(self.tiles))


@dataclass(frozen=True)
class Place:
    """Where something lies on the fullest tile of an IPU.

    Attributes:
        name: The tensor or variable; of a temporary one the op that takes it.
        kind: "variable", "tensor" or "temporary".
        address: From the beginning of the tile's memory; below 0 where no room is left.
        bytes: On this tile.
        region: 0, where code lies, too, or 1, the interleaved one; where it lies in
            both, 0.
        first: The number of the op from which on it is there.
        last: The number of the last op.
    """

    name: str
    kind: str
    address: float
    bytes: float
    region: int
    first: int
    last: int


@dataclass(frozen=True)
class Memory:
    """The memory of one IPU.

    Attributes:
        ipu: Which IPU, counted from 0.
        tile_bytes: The memory of a tile.
        tiles: How many tiles the IPU has.
        variables: Bytes of variables and constants on all tiles together: always live.
        code: Bytes of code, vertex state, stacks and buffers for the host on each tile:
            always live. The number of steps and messages counts; the bytes of each are
            nominal.
        code_by: The same by kind: "stacks", "control", "vertices" (their code and
            state), "exchange", "host_buffers".
        live: The most bytes of other tensors that are live together, on all tiles.
        at: The op and line where they are.
        peak: The number of that op.
        temporary: The most bytes that a step takes on its fullest tile, beside these.
        fullest: The op and line of that step.
        remote: Bytes that lie outside of the IPU: what is offloaded.
        tensors: All tensors that are not always live, in program order.
        held: Variables and constants, which are.
        per_tile: Bytes of each tile at the peak, without temporary ones.
        fullest_tile: The number of the fullest one.
        places: What lies where on it, beside code, which lies from address 0 on.
        with_gaps: How many bytes these places and code take, with gaps between them:
            what is there at the same time never overlaps. Whether a program fits is
            decided by it.
    """

    ipu: int
    tile_bytes: float
    tiles: int
    variables: float
    code: float
    live: float
    at: str
    peak: int
    temporary: float
    fullest: str
    remote: float
    tensors: tuple[Tenant, ...]
    held: tuple[Tenant, ...]
    per_tile: np.ndarray[Any, Any] = field(repr=False, compare=False)
    code_by: dict[str, float]
    fullest_tile: int
    places: tuple[Place, ...] = field(repr=False)
    with_gaps: float

    @property
    def always_live(self) -> float:
        """Give the bytes on all tiles that are there all the time."""
        return self.variables + self.code * self.tiles

    @property
    def total(self) -> float:
        """Give the bytes on all tiles, without temporary ones."""
        return self.always_live + self.live

    @property
    def max_tile(self) -> float:
        """Give the bytes of the fullest tile, with temporary ones and gaps."""
        return self.with_gaps

    @property
    def always_per_tile(self) -> np.ndarray[Any, Any]:
        """Give the bytes of each tile that are there all the time."""
        each = np.full(self.tiles, self.code)
        for one in self.held:
            elements = np.array(one.elements)
            size = one.bytes / max(1, elements.sum())
            each[(one.first_tile + np.arange(one.tiles)) % self.tiles] += (
                size * elements
            )
        return each

    @property
    def fits(self) -> bool:
        """Give whether the fullest tile has room for it."""
        return self.max_tile <= self.tile_bytes

    @property
    def by_tensor(self) -> tuple[Tenant, ...]:
        """Give the tensors that are live at the peak, the largest first."""
        there = [one for one in self.tensors if one.first <= self.peak <= one.last]
        return tuple(sorted(there, key=lambda one: (-one.bytes, one.first)))

    @property
    def by_layer(self) -> dict[str, float]:
        """Give the bytes of tensors at the peak by layer, the largest first."""
        sums: dict[str, float] = {}
        for one in self.by_tensor:
            layer = one.name.rpartition("/")[0]
            sums[layer] = sums.get(layer, 0.0) + one.bytes
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    @property
    def liveness(self) -> np.ndarray[Any, Any]:
        """Give the live bytes on all tiles by the number of the op, from 0 on."""
        end = max((one.last for one in self.tensors), default=0)
        changes = np.zeros(end + 2)
        for one in self.tensors:
            changes[one.first] += one.bytes
            changes[one.last + 1] -= one.bytes
        return np.cumsum(changes[:-1])


@dataclass(frozen=True)
class PipelineAccount:
    """The time that one run of a pipeline takes: an update, or an inference.

    All IPUs exchange at the end of each time step, which lasts as long as the longest
    takes.

    Attributes:
        schedule: The schedule's name.
        device_mapping: The IPU of each stage.
        micro_batches: How many go through.
        cycles: Of the whole.
        bubble: The share of the IPUs' cycles in which they compute nothing.
        forward: Cycles of each stage's forward pass for a micro-batch.
        backward: Likewise of its backward pass; 0 where nothing is trained.
        exchange: Likewise of what it sends to other IPUs.
        ends: When each time step ends, in cycles from the pipeline's beginning.
    """

    schedule: str
    device_mapping: tuple[int, ...]
    micro_batches: int
    cycles: float
    bubble: float
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    exchange: tuple[float, ...]
    ends: tuple[float, ...] = field(repr=False)
    _found: dict[str, Any] = field(repr=False)
    _clock: float = field(repr=False)

    @property
    def timetable(self) -> Timetable:
        """Give the timetable; its recorded times are those of the machine's clock.

        Example:
            >>> model = keras.SequentialPipelineModel(
            ...     [[keras.layers.Dense(8)], [keras.layers.Dense(2)]], 4)
            >>> model.compile("sgd", "mse")
            >>> spec = tf.TensorSpec([16, 8]), tf.TensorSpec([16, 2])
            >>> [pipeline] = model.account(*spec).pipelines
            >>> len(pipeline.timetable.recorded)
            16
        """
        from ipu._reports.timetable.table import Timetable

        found = self._found
        if "\n" in self.schedule:
            table = Timetable.parse(self.schedule)
        else:
            mapping: list[list[int]] = []
            positions = found["positions"] or range(len(self.device_mapping))
            for position, ipu in zip(positions, self.device_mapping, strict=True):
                mapping += [[] for _ in range(position + 1 - len(mapping))]
                mapping[position].append(ipu)
            table = Timetable(
                self.schedule,  # type: ignore[arg-type]
                device_mapping=mapping,
                micro_batches=self.micro_batches,
                training=found["training"],
            )
        table._record(self._passes(table._core), self._clock)
        return table

    def _passes(self, schedule: Any) -> list[Recorded]:
        """Return when each pass runs, in nanoseconds."""
        scale = 1e9 / self._clock
        begins = (0.0, *self.ends)
        free = dict.fromkeys(range(schedule.ipu_count), 0.0)
        found = []
        for box in boxes_of(schedule, Window.of(schedule.time_steps, 1 << 62)):
            begin = max(begins[int(box.begin)], free[box.ipu])
            end = begin + self._found["routines"][self._routine(box.kind, box.stage)]
            free[box.ipu] = end
            times = (round(begin * scale), round(end * scale))
            found.append((box.ipu, box.kind, box.stage, box.micro_batch, *times))
        return found

    def _routine(self, kind: str, stage: int) -> int:
        stages = len(self.device_mapping)
        return stage if kind == "F" else _backward(stages, stage) + (kind == "W")


def check_sizes(specs: Sequence[Any]) -> None:
    """Check that specs of tensors have all sizes.

    Raises:
        ValueError: One has not.
    """
    for spec in specs:
        if not spec.shape.is_fully_defined():
            raise ValueError(
                f"An account needs all sizes. Received: a TensorSpec of shape "
                f"{spec.shape}. Give the batch size in place of None."
            )


def _backward(stages: int, stage: int) -> int:
    """Return the number of a stage's backward routine, or of its part for the
    inputs."""
    return stages + 2 * (stages - 1 - stage)


def _pipeline(found: dict[str, Any], clock: float) -> PipelineAccount:
    stages = range(len(found["ipus"]))
    routines, sends = found["routines"], found["sends"]
    backs = [_backward(len(stages), stage) for stage in stages]
    idle = 1 - found["busy"] / (found["cycles"] * found["ipu_count"] or 1)
    return PipelineAccount(
        schedule=found["schedule"],
        device_mapping=tuple(found["ipus"]),
        micro_batches=found["micro_batches"],
        cycles=found["cycles"],
        bubble=idle,
        forward=tuple(routines[stage] for stage in stages),
        backward=tuple(routines[back] + routines[back + 1] for back in backs),
        exchange=tuple(
            sends[stage] + sends[back] + sends[back + 1]
            for stage, back in zip(stages, backs, strict=True)
        ),
        ends=tuple(found["time_steps"][1:]),
        _found=found,
        _clock=clock,
    )


def _place(node: tuple[Any, ...] | None) -> tuple[str, str]:
    """Return the name and line of a node, as the core describes it."""
    if node is None:
        return "", ""
    op, name, file, line = node
    return op if name is None else f"{name}/{op}", f"{file}:{line}" if file else ""


def _at(node: tuple[Any, ...] | None) -> str:
    name, line = _place(node)
    return f"{name} ({line})" if line else name


def size_text(count: float) -> str:
    """Return a number of bytes with a unit.

    Example:
        >>> size_text(638976)
        '624.0 KiB'
    """
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
        replicas: How many replicas of the program run.
        cycles: Of the whole, an int: each IPU has a clock, and those that exchange
            meet.
        steps: All steps in program order, a list of ``Step``.
        memories: The memory of each IPU, a list of ``Memory``.
        pipelines: The times of each pipeline, a list of ``PipelineAccount``.
        samples: How many samples the program takes, of all replicas; None where that
            is not known.
        has_unknown_turns: Whether a loop whose number of turns is not known in advance
            counts as one turn.

    Example:
        >>> account = ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([4096]))
        >>> [step.kind for step in account.steps], account.memory.fits
        (['compute'], True)
    """

    def __init__(
        self,
        machine: Machine,
        found: dict[str, Any],
        samples: int | None = None,
        replicas: int = 1,
        find_fixes: Callable[[Account], list[Fix]] | None = None,
    ) -> None:
        self.machine = machine
        self._find_fixes = find_fixes
        self.samples = samples
        self.replicas = replicas
        self.cycles: float = found["cycles"]
        self.has_unknown_turns: bool = found["has_unknown_turns"]
        self.steps: list[Step] = []
        for row in found["steps"]:
            kind, part, start, cycles, times, tiles, number, ipu, _, rough, node = row
            name, source = _place(node)
            name = f"{name}: {part}" if part else name
            self.steps.append(
                Step(
                    name,
                    kind,
                    ipu,
                    start,
                    cycles,
                    times,
                    int(tiles),
                    source,
                    rough,
                    number,
                )
            )
        tensors: list[list[Tenant]] = [[] for _ in found["memories"]]
        for size, ipu, copies, first, last, kind, node, at in found["tenants"]:
            name, source = _place(node)
            name = name or "argument"
            tensors[ipu].append(
                Tenant(name, kind, size, source, copies, first, last, *at)
            )
        held: list[list[Tenant]] = [[] for _ in found["memories"]]
        end = max((step.number for step in self.steps), default=0)
        for size, ipu, kind, variable, node, at in found["residents"]:
            name, source = _place(node)
            held[ipu].append(
                Tenant(variable or name, kind, size, source, 1, 0, end, *at)
            )
        places: list[list[Place]] = [[] for _ in found["memories"]]
        for kind, what, ipu, address, size, first, last in found["places"]:
            if kind == "temporary":
                name = _place(what)[0]
            else:
                rows = found["residents" if kind == "variable" else "tenants"]
                row = rows[what]
                name = _place(row[6 if kind == "tensor" else 4])[0]
                name = (kind == "variable" and row[3]) or name or "argument"
            region = int(address >= machine.code_bytes)
            places[ipu].append(Place(name, kind, address, size, region, first, last))
        self.memories = [
            Memory(
                ipu=ipu,
                tile_bytes=machine.tile_bytes,
                tiles=int(machine.tiles),
                variables=one["variables"],
                code=one["code"],
                live=one["live"],
                at=_at(one["at"]),
                peak=one["peak"],
                temporary=one["temporary"],
                fullest=_at(one["fullest"]),
                remote=one["remote"],
                tensors=tuple(tensors[ipu]),
                held=tuple(held[ipu]),
                per_tile=np.frombuffer(one["tiles"]),
                code_by=one["code_by"],
                fullest_tile=one["fullest_tile"],
                places=tuple(places[ipu]),
                with_gaps=one["end"],
            )
            for ipu, one in enumerate(found["memories"])
        ]
        self.pipelines = [_pipeline(one, machine.clock) for one in found["pipelines"]]

    @property
    def ipus(self) -> int:
        """Give the number of IPUs of a replica.

        Example:
            >>> ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([4096])).ipus
            1
        """
        return len(self.memories)

    @property
    def memory(self) -> Memory:
        """Give the memory of the fullest IPU.

        Example:
            >>> account = ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([4096]))
            >>> account.memory.live  # the result lies where the operand was
            16384.0
        """
        return max(self.memories, key=lambda memory: memory.max_tile)

    def fixes(self) -> list[Fix]:
        """Find changes that make a program fit: each is estimated.

        Of a function these are options of its products; of a model
        (``Model.account``) also smaller batches, recomputation, offloading, other
        schedules and more IPUs.

        Returns:
            Changes, a list of ``Fix``: first those that leave results as they are, the
            fastest first. [] where it fits.

        Example:
            >>> spec = tf.TensorSpec([512, 512])
            >>> small = ipu.machine.Machine("bow", tiles=64, tile_bytes=100_000)
            >>> account = ipu.machine.estimate(tf.matmul, spec, spec, machine=small)
            >>> account.memory.fits, [fix.note for fix in account.fixes()]
            (False, [''])
        """
        if self._find_fixes is None or all(memory.fits for memory in self.memories):
            return []
        from ipu._reports.doctor import best_first

        return best_first(self._find_fixes(self))

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
        return rough / sum(step.all_cycles for step in self.steps)

    @property
    def utilisation(self) -> float:
        """Give the mean share of the IPUs' tiles that take part, over all cycles.

        Example:
            >>> 0 < ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([8])).utilisation < 1
            True
        """
        if not self.cycles:
            return 0.0
        busy = sum(step.all_cycles * step.tiles for step in self.steps)
        return busy / self.cycles / self.machine.tiles / self.ipus

    def _sums(self, key: Callable[[Step], str]) -> dict[str, float]:
        sums: dict[str, float] = {}
        for step in self.steps:
            name = key(step)
            sums[name] = sums.get(name, 0.0) + step.all_cycles
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def by_op(self) -> dict[str, float]:
        """Return the cycles of each op, the largest first.

        Example:
            >>> list(ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([8])).by_op())
            ['relu']
        """
        return self._sums(lambda step: step.name.partition(": ")[0].rpartition("/")[2])

    def by_layer(self) -> dict[str, float]:
        """Return the cycles of each layer, the largest first; "" stands for no layer.

        Example:
            >>> model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])
            >>> account = ipu.machine.estimate(model, tf.TensorSpec([4, 8]))
            >>> [name.rpartition("/")[2][:5] for name in account.by_layer()]
            ['dense']
        """
        return self._sums(lambda step: step.name.rpartition("/")[0])

    def by_line(self) -> dict[str, float]:
        """Return the cycles of each line of the user's program, the largest first.

        Example:
            >>> len(ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([8])).by_line())
            1
        """
        return self._sums(lambda step: step.source)

    def by_kind(self) -> dict[str, float]:
        """Return the cycles of each kind of step, the largest first.

        Example:
            >>> list(ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([8])).by_kind())
            ['compute']
        """
        return self._sums(lambda step: step.kind)

    def to_json(self) -> str:
        """Return all of it as JSON.

        Example:
            >>> import json
            >>> account = ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([8]))
            >>> sorted(json.loads(account.to_json()))[:4]
            ['cycles', 'has_unknown_turns', 'machine', 'memories']
        """
        fields = type(self.machine).fields()
        memories = []
        for memory in self.memories:
            one = asdict(memory)
            del one["per_tile"]
            one.update(fits=memory.fits, max_tile=memory.max_tile, total=memory.total)
            one["by_tensor"] = [asdict(tenant) for tenant in memory.by_tensor[:_TOP]]
            memories.append(one)
        pipelines = [
            {k: v for k, v in asdict(one).items() if not k.startswith("_")}
            for one in self.pipelines
        ]
        return json.dumps(
            {
                "machine": {name: getattr(self.machine, name) for name in fields},
                "replicas": self.replicas,
                "cycles": self.cycles,
                "seconds": self.seconds,
                "samples": self.samples,
                "samples_per_second": self.samples_per_second,
                "has_unknown_turns": self.has_unknown_turns,
                "memories": memories,
                "pipelines": pipelines,
                "steps": [asdict(step) for step in self.steps],
            }
        )

    def save(
        self, path: str | os.PathLike[str], *, other: Account | None = None
    ) -> None:
        """Write it to a file: a page for a browser, or JSON.

        The page needs no network. It shows the memory of the tiles, what is live over
        the steps, when each IPU does what, and tables by layer, op, kind and line; of a
        program that does not fit also :meth:`fixes`.

        Args:
            path: Ends in ".html" or ".json", which is ``to_json()``.
            other: Another account, which the page shows beside this one, with what
                changed.

        Raises:
            OSError: The file cannot be written.
            TypeError: ``other`` is not an account.
            ValueError: The path ends in something else, or ``other`` is given for
                JSON.

        Example:
            >>> account = ipu.machine.estimate(tf.nn.relu, tf.TensorSpec([8]))
            >>> account.save("relu.html")
        """
        from ipu._reports.account_page import save

        if other is not None:
            self._check(other)
        save(self, path, other)

    @staticmethod
    def _check(other: Any) -> None:
        if not isinstance(other, Account):
            raise TypeError(f"`other` must be an Account. Received: {other!r}.")

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
        self._check(other)
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
        from ipu._reports.account_page import matches

        return f"{as_text(rows, left=1)}\n{matches(self, other)}"

    # --- as text ---------------------------------------------------------------------

    def _facts(self) -> list[tuple[str, str]]:
        memory = self.memory
        rate = self.samples_per_second
        machine = f"{self.machine!r}, {self.machine.clock / 1e9:g} GHz"
        verdict = "fits" if memory.fits else "does not fit"
        on = f" on IPU {memory.ipu}" if self.ipus > 1 else ""
        facts = [
            ("machine", machine),
            ("IPUs", f"{self.ipus}" if self.ipus > 1 else ""),
            ("replicas", f"{self.replicas}" if self.replicas > 1 else ""),
            ("time", f"{duration(1e9 * self.seconds)}, {self.cycles:,.0f} cycles"),
            ("samples a second", "" if rate is None else f"{rate:,.0f}"),
            ("tiles at work", f"{self.utilisation:.0%}"),
            (
                "fullest tile",
                f"{size_text(memory.max_tile)} of {size_text(memory.tile_bytes)}{on}: "
                f"{verdict}",
            ),
            ("variables", size_text(memory.variables)),
            ("code", f"{size_text(memory.code)} a tile"),
            ("live at most", f"{size_text(memory.live)}, at {memory.at}"),
            ("remote", size_text(memory.remote) if memory.remote else ""),
            ("estimated", f"{self.estimated_share:.0%} of the cycles"),
        ]
        for pipeline in self.pipelines:
            name = pipeline.schedule.partition("\n")[0]
            facts.append(
                (
                    "pipeline",
                    f"{name}, {pipeline.micro_batches} micro-batches, "
                    f"{pipeline.bubble:.0%} idle",
                )
            )
        if self.has_unknown_turns:
            facts.append(("loops", "one of unknown turns counts once"))
        return [fact for fact in facts if fact[1]]

    def _pipeline_tables(self) -> list[list[list[str]]]:
        """Return a row for each stage, and its IPU's memory."""
        tables = []
        for one in self.pipelines:
            rows = [["stage", "IPU", "forward", "backward", "exchange", "fullest tile"]]
            for stage, ipu in enumerate(one.device_mapping):
                cycles = (one.forward[stage], one.backward[stage], one.exchange[stage])
                memory = self.memories[ipu]
                verdict = "" if memory.fits else ", does not fit"
                rows.append(
                    [
                        str(stage),
                        str(ipu),
                        *(f"{n:,.0f}" for n in cycles),
                        f"{size_text(memory.max_tile)}{verdict}",
                    ]
                )
            tables.append(rows)
        return tables

    def _tables(self) -> list[list[list[str]]]:
        total = sum(step.all_cycles for step in self.steps) or 1.0
        tables = self._pipeline_tables()
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
