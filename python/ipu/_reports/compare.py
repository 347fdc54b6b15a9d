# SPDX-License-Identifier: MIT
"""One model under several schedules: the same weights, other times and bytes."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ipu import tf
from ipu._config.schedules import PipelineSchedule
from ipu._reports.timetable import Timetable
from ipu._text.errors import FailedPreconditionError
from ipu._text.tables import as_html, as_text, duration
from ipu.keras.callbacks import PipelineRecorder
from ipu.keras.engine.training.batches import cast_elements
from ipu.keras.engine.training.execution import settle

if TYPE_CHECKING:
    from ipu.machine import Account, Machine


class ComparedSchedule(NamedTuple):
    """The results of one schedule.

    Attributes:
        schedule: Its name.
        seconds: How long the fastest execution of the pipeline took on this computer;
            None where the schedule cannot run the model.
        idle_share: The share of time steps in which IPUs have nothing to do, by the
            timetable.
        recorded_idle_share: The same of the time that was measured.
        stash_bytes: For each IPU what it keeps of one pass for a later one.
        peak_bytes: For each IPU the most bytes in use, variables not counted.
        legal_counts: The numbers of micro-batches that the schedule can run, a range.
        reason: Why it cannot run the model; "" where it can.
        timetable: With the times that were measured; of IPUs where nothing was trained.
        account: The cost of an update on IPUs; None where it cannot run.
    """

    schedule: str
    seconds: float | None
    idle_share: float | None
    recorded_idle_share: float | None
    stash_bytes: list[int]
    peak_bytes: list[int]
    legal_counts: range | None
    reason: str
    timetable: Timetable | None
    account: Account | None


_MEASURED = ("time", "idle", "recorded idle", "stash per IPU", "peak per IPU")
_PLANNED = ("samples/s on IPUs", "idle there", "fullest tile per IPU")


class ScheduleComparison(Sequence[ComparedSchedule]):
    """The results of :func:`compare_schedules`: a sequence that prints as a table.

    Args:
        rows: One for each schedule.
        updates: How many updates of the weights were compared; 0: nothing was trained.
    """

    def __init__(self, rows: list[ComparedSchedule], updates: int) -> None:
        self._rows = rows
        self.updates = updates

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def _heads(self) -> list[str]:
        measured = _MEASURED if self.updates else ()
        return ["schedule", *measured, *_PLANNED, "legal counts"]

    def _cells(self, row: ComparedSchedule) -> list[str]:
        if row.account is None:
            return [row.schedule, row.reason]
        assert row.legal_counts is not None
        counts = ", ".join(str(n) for n in row.legal_counts[:3])
        measured = []
        if row.seconds is not None:
            measured = [
                duration(1e9 * row.seconds),
                f"{100 * (row.idle_share or 0.0):.1f} %",
                f"{100 * (row.recorded_idle_share or 0.0):.1f} %",
                _bytes_text(row.stash_bytes),
                _bytes_text(row.peak_bytes),
            ]
        tiles = [int(memory.max_tile) for memory in row.account.memories]
        fits = all(memory.fits for memory in row.account.memories)
        return [
            row.schedule,
            *measured,
            f"{row.account.samples_per_second or 0:,.0f}",
            f"{100 * row.account.pipelines[0].bubble:.1f} %",
            _bytes_text(tiles) + ("" if fits else ": does not fit"),
            f"{counts}, ...",
        ]

    def _note(self) -> str:
        ran = sum(row.account is not None for row in self._rows)
        accounts = [row.account for row in self._rows if row.account is not None]
        on = f" IPUs are {accounts[0].machine!r}." if accounts else ""
        if not self.updates:
            return f"{ran} schedules; nothing was trained.{on}"
        what = "update" if self.updates == 1 else "updates"
        return (
            f"{ran} schedules from the same start: the same weights, to the bit, after "
            f"{self.updates} {what}.{on}"
        )

    def __str__(self) -> str:
        table = [self._heads, *(self._cells(row) for row in self._rows)]
        return f"{as_text(table, left=len(self._heads))}\n\n{self._note()}"

    def __repr__(self) -> str:
        return f"<ipu.ScheduleComparison of {len(self)} schedules>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        del cycle
        printer.text(str(self))

    def _repr_html_(self) -> str:
        table = as_html(self._heads, [self._cells(row) for row in self._rows])
        return f"{table}<p>{escape(self._note())}</p>"


def _bytes_text(values: Sequence[int]) -> str:
    largest = max(values, default=0)
    for unit, size in (("MiB", 2**20), ("KiB", 2**10)):
        if largest >= 10 * size:
            return f"{', '.join(f'{v / size:.0f}' for v in values)} {unit}"
    return f"{', '.join(str(v) for v in values)} B"


_CHANGED = ("history", "stop_training", "_data_order")  # attributes of a model, by fit


class _State:
    """All that training changes, to begin anew with."""

    def __init__(self, model: Any) -> None:
        self._model = model
        of_metrics = [v for metric in model.metrics for v in metric.weights]
        self._variables = [
            *model.weights,
            *model.optimizer.variables(),
            *of_metrics,
        ]
        self._values = [variable.numpy() for variable in self._variables]
        self._attributes = {key: getattr(model, key) for key in _CHANGED}

    def restore(self) -> None:
        for variable, value in zip(self._variables, self._values, strict=True):
            variable.assign(value)
        for key, value in self._attributes.items():
            is_order = key == "_data_order"  # which counts
            setattr(self._model, key, copy.deepcopy(value) if is_order else value)

    def now(self) -> list[np.ndarray[Any, Any]]:
        return [variable.numpy() for variable in self._variables]

    def names(self) -> list[str]:
        return [str(variable.name) for variable in self._variables]


def _first_batches(data: Any, batches: int) -> Any:
    """Return so many batches, the same whenever they are read, over and over."""
    kept = list(cast_elements(data).take(batches).as_numpy_iterator())
    if len(kept) < batches:
        raise ValueError(
            f"The data has {len(kept)} batches, but {batches} are needed: one for each "
            "micro-batch of each update. Give fewer updates, or data.repeat()."
        )
    columns = [tf.nest.flatten(element) for element in kept]
    stacked = [np.stack([row[i] for row in columns]) for i in range(len(columns[0]))]
    structure = tf.nest.pack_sequence_as(kept[0], stacked)
    return tf.data.Dataset._slices_held(structure).repeat()


def compare_schedules(
    model: Any,
    data: Any,
    schedules: Iterable[Any] | PipelineSchedule | str | None = None,
    updates: int = 4,
    machine: Machine | str | None = None,
) -> ScheduleComparison:
    """Train a pipelined Keras model for some steps under each schedule, and compare.

    Where ``data`` is not a data set but the shapes of a batch, nothing is trained: the
    table says what IPUs would take.

    Every schedule begins with the weights and the optimizer that the model has now,
    sees the same batches, and draws the same random numbers; in the end the model is as
    it was, its history and its metrics, too. The random seed is set
    (``tf.random.set_seed(0)``).

    Args:
        model: A compiled model whose layers have stages, with accumulation steps
            (``set_pipelining_options``).
        data: A ``tf.data.Dataset`` of batches ``(x, y)``, of which the first
            ``updates`` times the accumulation steps are used, of each replica; or a
            tuple ``(x, y)`` of ``tf.TensorSpec`` as such a batch has.
        schedules: Members of ``PipelineSchedule`` or their names, or one of them;
            None: all.
        updates: How many updates of the weights; from 1 on. Times are of the fastest.
        machine: An ``ipu.machine.Machine`` or its name, for what IPUs would take; None
            for "gc200".

    Returns:
        A table: a row for each schedule, in a notebook as HTML. Schedules that cannot
        run the model say why.

    Raises:
        TypeError: ``data`` is neither.
        ValueError: The model is not pipelined, or ``data`` has too few batches.
        RuntimeError: The model is not compiled.
        AssertionError: Two schedules gave other weights, which is a defect of this
            package.

    Example:
        >>> model = keras.SequentialPipelineModel(
        ...     [[keras.layers.Dense(4)], [keras.layers.Dense(2)]], 4,
        ...     device_mapping=[0, 0])
        >>> model.compile("sgd", "mse")
        >>> data = tf.data.Dataset.from_tensors((np.ones((8, 3)), np.ones((8, 2))))
        >>> rows = ipu.compare_schedules(model, data.repeat(), ["Grouped", "GPipe"])
        >>> [row.schedule for row in rows]
        ['Grouped', 'GPipe']
        >>> batch = tf.TensorSpec([8, 3]), tf.TensorSpec([8, 2])
        >>> rows = ipu.compare_schedules(model, batch, machine="bow")
        >>> rows[0].account.samples
        32
    """
    if not model._is_pipelined():
        raise ValueError(
            f"Model {model.name!r} is not pipelined: its layers have no stages. Call "
            "set_pipeline_stage_assignment() first."
        )
    if isinstance(schedules, (str, PipelineSchedule)):
        schedules = [schedules]
    names = PipelineSchedule if schedules is None else schedules
    found = [PipelineSchedule.parse(name) for name in names]
    leaves = tf.nest.flatten(data) if isinstance(data, tuple) else [None]
    if len(leaves) > 1 and all(isinstance(leaf, tf.TensorSpec) for leaf in leaves):
        rows = [_planned(model, schedule, data, machine) for schedule in found]
        return ScheduleComparison(rows, 0)
    if not isinstance(data, tf.data.Dataset):
        raise TypeError(
            "`data` must be a tf.data.Dataset of batches, such as "
            "tf.data.Dataset.from_tensor_slices((x, y)).batch(32, True), or a tuple of "
            f"the tf.TensorSpec of a batch. Received: {type(data).__name__}."
        )
    per_update = model._pipelining_steps or 1
    steps = updates * per_update * settle(model, "train").replicas
    batches = _first_batches(data, steps)
    model._prepare("train", batches.element_spec)
    state = _State(model)
    options, count = dict(model._pipelining_kwargs), model._steps_per_execution
    rows = []
    first: tuple[str, list[np.ndarray[Any, Any]]] | None = None
    try:
        model._steps_per_execution = per_update  # each update is measured
        for schedule in found:
            model._pipelining_kwargs = {**options, "pipeline_schedule": schedule}
            model._drop_programs()
            state.restore()
            row = _run(model, schedule, batches, steps, machine)
            rows.append(row)
            if row.seconds is None:
                continue
            weights = state.now()
            if first is None:
                first = (row.schedule, weights)
            _check_same(first, (row.schedule, weights), state.names())
    finally:
        model._pipelining_kwargs = options
        model._steps_per_execution = count
        model._drop_programs()
        state.restore()
    return ScheduleComparison(rows, updates)


def _refusal(model: Any, schedule: PipelineSchedule) -> ComparedSchedule | None:
    """Return why the schedule cannot run the model; None where it can."""
    try:
        model.pipeline_schedule()
    except (NotImplementedError, FailedPreconditionError) as error:
        name, reason = schedule.core_name, str(error).split(". ")[0]
        return ComparedSchedule(
            name, None, None, None, [], [], None, reason, None, None
        )
    return None


def _planned(
    model: Any, schedule: PipelineSchedule, batch: tuple[Any, Any], machine: Any
) -> ComparedSchedule:
    options = dict(model._pipelining_kwargs)
    try:
        model._pipelining_kwargs = {**options, "pipeline_schedule": schedule}
        refusal = _refusal(model, schedule)
        if refusal is not None:
            return refusal
        account = model.account(*batch, machine=machine)
        table = account.pipelines[0].timetable
        counts = model.pipeline_schedule().legal_counts
    finally:
        model._pipelining_kwargs = options
    idle = table.idle_share
    name = schedule.core_name
    return ComparedSchedule(name, None, idle, None, [], [], counts, "", table, account)


def _run(
    model: Any, schedule: PipelineSchedule, batches: Any, steps: int, machine: Any
) -> ComparedSchedule:
    refusal = _refusal(model, schedule)
    if refusal is not None:
        return refusal
    recorder = PipelineRecorder()
    tf.random.set_seed(0)
    model.fit(batches, steps_per_epoch=steps, verbose=0, callbacks=[recorder])
    table = recorder.timetable
    assert table is not None and table.recorded is not None
    began = min(action[4] for action in table.recorded)
    ended = max(action[5] for action in table.recorded)
    own = [stream for stream in recorder.streams if stream["ipu"] >= 0]
    return ComparedSchedule(
        schedule.core_name,
        (ended - began) * 1e-9,
        table.idle_share,
        table.recorded_idle_share,
        [stream["ring_bytes"] for stream in own],
        [stream["peak_live_bytes"] + stream["message_bytes"] for stream in own],
        table.legal_counts,
        "",
        table,
        model.account(*batches.element_spec, machine=machine),
    )


def _check_same(
    first: tuple[str, list[np.ndarray[Any, Any]]],
    other: tuple[str, list[np.ndarray[Any, Any]]],
    names: list[str],
) -> None:
    for name, a, b in zip(names, first[1], other[1], strict=True):
        if a.tobytes() != b.tobytes():
            raise AssertionError(
                f"{first[0]} and {other[0]} gave different values of {name}. That is a "
                "defect of ipu: please report the model."
            )
