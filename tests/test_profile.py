"""Profiles: the sums add up, the trace is what Perfetto reads, the command runs any
program."""

from __future__ import annotations

import gzip
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu._reports.profile import events, scaling
from ipu._reports.profile.workers import (
    DOUBLING_NS,
    JOB_NS,
    MEMORY_GB,
    Job,
    Piece,
    work_on,
)
from ipu.profiler import Profile

ROWS, DEPTH, COLUMNS, STEPS = 8, 16, 4, 6


def configure(ipus: int = 1) -> ipu.ipu_strategy.IPUStrategy:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()


@pytest.fixture(autouse=True)
def one_ipu() -> Iterator[None]:
    yield
    configure()


def train(steps: int = STEPS) -> Any:
    """Runs a loop of steps, each with a product of known size, fed and drained."""
    strategy = configure()
    data = tf.data.Dataset.from_tensors(np.ones((ROWS, DEPTH), "float32")).repeat()
    with strategy.scope():
        weights = tf.Variable(np.ones((DEPTH, COLUMNS), "float32"))
        batches = iter(data)
        results = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        @tf.function(jit_compile=True)
        def loop(batches: Any, results: Any) -> None:
            for _ in tf.range(steps):
                results.enqueue(tf.matmul(next(batches), weights))

        return strategy, lambda: strategy.run(loop, args=(batches, results))


def only(profile: Profile) -> Any:
    [program] = profile.programs
    return program


def test_the_sums_add_up() -> None:
    _, run = train()
    run()
    with Profile() as profile:
        run()
        run()
    one = only(profile)
    assert one.name.startswith("loop (")
    assert one.runs == 2 and one.steps == one.steps_seen == 2 * STEPS
    assert one.product_flops == 2 * ROWS * DEPTH * COLUMNS
    [product] = [line for line in one.ops if line.is_product]
    assert product.calls == 1 and product.flops == one.product_flops
    assert one.median_ns > 0 and one.step_ns * one.steps <= one.run_ns
    assert one.run_ns / 1e9 <= profile.seconds
    main = one.threads[0]
    for thread in one.threads:
        assert thread.total == pytest.approx(one.step_ns)
        assert min(thread[1:]) >= 0
    assert main.kernels > 0 and main.infeed > 0 and main.outfeed > 0
    kernels = sum(thread.kernels for thread in one.threads)
    assert sum(line.ns for line in one.ops) == pytest.approx(kernels)
    assert sum(line.ns for line in one.lines) == pytest.approx(kernels)
    assert f"{__file__}:" in one.lines[0].name
    assert one.ready is not None and one.ready >= 0
    assert 0 <= profile.host_seconds <= profile.seconds


def test_a_program_without_steps_is_one_step() -> None:
    @tf.function
    def double(x: Any) -> Any:
        return x + x

    with Profile() as profile:
        double(tf.ones([300, 300]))
        double(tf.ones([300, 300]))
    one = only(profile)
    assert one.steps == 2 and one.name.startswith("double (")
    assert [line.calls for line in one.ops] == [1]


def test_which_steps_are_recorded() -> None:
    _, run = train()
    with Profile(steps=(2, 9)) as profile:
        run()
        run()
    assert only(profile).steps == 7
    with Profile(steps=(1000, 1001)) as profile:
        run()
    assert profile.programs == [] and str(profile) == ""


def test_the_newest_events_are_kept() -> None:
    _, run = train(steps=200)
    with Profile(events=64) as profile:
        run()
    one = only(profile)
    assert 0 < one.steps < one.steps_seen <= 64
    assert one.ops[0].calls == 1
    assert f"the last {one.steps} of" in str(profile)


def test_fit_is_one_program() -> None:
    strategy = configure()
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        model.compile("sgd", "mse", steps_per_execution=4)
        x, y = np.ones((32, 4), "float32"), np.ones((32, 2), "float32")
        with Profile() as profile:
            model.fit(x, y, batch_size=8, epochs=2, verbose=0)
    one = only(profile)
    assert one.name == f"{model.name}.fit"
    assert one.runs == 2 and one.steps == 8


# --- the trace ------------------------------------------------------------------------


def tracks_of(events: list[dict[str, Any]]) -> dict[tuple[int, int], list[Any]]:
    """Checks what the format wants of each event; gives the spans of each track."""
    named = set()
    tracks: dict[tuple[int, int], list[Any]] = {}
    for event in events:
        assert event["ph"] in ("X", "M", "C")
        assert isinstance(event["pid"], int) and isinstance(event["name"], str)
        if event["ph"] == "M":
            assert event["name"] in (
                "process_name",
                "thread_name",
                "thread_sort_index",
            )
            named.add((event["pid"], event.get("tid")))
        elif event["ph"] == "C":
            assert event["ts"] >= 0 and event["args"]
        else:
            assert event["ts"] >= 0 and event["dur"] >= 0
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    assert set(tracks) <= named
    return tracks


def check_nesting(spans: list[dict[str, Any]]) -> None:
    """On a track two spans are apart, or one lies in the other."""
    around: list[tuple[int, int]] = []
    nanoseconds = [
        (round(span["ts"] * 1000), round((span["ts"] + span["dur"]) * 1000))
        for span in spans
    ]
    for begin, end in sorted(nanoseconds, key=lambda span: (span[0], -span[1])):
        while around and around[-1][1] <= begin:
            around.pop()
        assert not around or end <= around[-1][1]
        around.append((begin, end))


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_trace_of_threads(tmp_path: Path, name: str) -> None:
    _, run = train()
    path = tmp_path / name
    with Profile(path) as profile:
        run()
    opened: Any = gzip.open if name.endswith(".gz") else open
    with opened(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    tracks = tracks_of(events)
    for spans in tracks.values():
        check_nesting(spans)
    main = tracks[os.getpid(), os.getpid()]
    names = [span["name"] for span in main]
    assert sum(name.startswith("step ") for name in names) == STEPS
    assert names.count("dequeue") == names.count("enqueue") == STEPS
    assert sum("matmul" in name for name in names) >= STEPS
    titles = [
        e["args"]["name"] for e in events if e["ph"] == "M" and "name" in e["args"]
    ]
    assert {"main thread", "IPU 0"} <= set(titles)
    assert sum(event["ph"] == "C" for event in events) == STEPS
    assert only(profile).steps == STEPS


def test_a_trace_of_a_pipeline(tmp_path: Path) -> None:
    strategy = configure(2)
    with strategy.scope():
        layers = [keras.layers.Dense(4), keras.layers.Dense(2)]
        model = keras.Sequential([keras.Input((4,)), *layers])
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        model.set_pipeline_stage_assignment([0, 1])
        model.compile("sgd", "mse", steps_per_execution=8)
        x, y = np.ones((64, 4), "float32"), np.ones((64, 2), "float32")
        recorder = keras.callbacks.PipelineRecorder()
        with Profile(tmp_path / "trace.json") as profile:
            model.fit(x, y, batch_size=4, verbose=0, callbacks=[recorder])
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    tracks = tracks_of(events)
    for spans in tracks.values():
        check_nesting(spans)
    one = only(profile)
    actions = [event for event in events if event.get("cat") == "action"]
    # a forward and a backward pass of each of 2 stages for each of 4 micro-batches
    assert len(actions) == 2 * 2 * 4 * one.steps
    assert len({(event["pid"], event["tid"]) for event in actions}) == 2
    # the timetable is made of the same events
    assert recorder.timetable is not None
    assert len(recorder.timetable.recorded or []) == 16
    for thread in one.threads:
        assert thread.total == pytest.approx(one.step_ns)


# --- workers that are not there -------------------------------------------------------


def alone(tasks: list[float], size: float = 0.0) -> Piece:
    return Piece((0, 0), "op", 0.0, [Job("op", size, tasks)] if tasks else [], [])


def test_a_list_schedule() -> None:
    start = JOB_NS + DOUBLING_NS
    assert work_on([], 3).ns == 0.0
    assert work_on([alone([])], 3).ns == 0.0
    assert work_on([alone([5.0, 1.0])], 1).ns == 6.0
    assert work_on([alone([5.0, 1.0])], 4).ns == 5.0 + start + DOUBLING_NS
    # 2 + 2, then 3 + 4
    assert work_on([alone([2.0, 3.0, 2.0, 4.0])], 2).ns == 7.0 + start
    slow = work_on([alone([2.0, 3.0], 400 * 2**20)], 2)
    assert slow.ns == pytest.approx(400 * 2**20 / MEMORY_GB + start)
    assert slow.path["op", "memory"] == slow.ns
    assert work_on([alone([9e9] * 3)], 8).path["op", "3 tasks"] > 8e9


def test_streams_side_by_side() -> None:
    """Two stages, each a worker's: the second begins when the first has sent."""
    ns = 1e6
    pieces = [
        Piece((0, stage), f"stage {stage}", ns, [], [2 * batch] if stage else [])
        for batch in range(3)
        for stage in range(2)
    ]
    assert work_on(pieces, 1).ns == 6 * ns
    wake = JOB_NS + DOUBLING_NS
    two = work_on(pieces, 2)
    assert two.ns == 4 * ns + wake
    assert two.path == {
        ("stage 0", "few workers"): 0.0,
        ("stage 0", "serial"): ns,
        ("stage 1", "few workers"): wake,
        ("stage 1", "serial"): 3 * ns,
    }


@pytest.mark.parametrize("seed", range(40))
def test_random_pieces_keep_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pieces: list[Piece] = []
    for number in range(int(rng.integers(1, 60))):
        lane = (int(rng.integers(2)), int(rng.integers(3)))
        jobs = [
            Job("job", 0.0, rng.uniform(1e4, 9e4, rng.integers(1, 9)).tolist())
            for _ in range(rng.integers(3))
        ]
        others = [i for i in range(number) if pieces[i].lane != lane]
        after = rng.choice(others, min(len(others), rng.integers(3)), replace=False)
        serial = float(rng.uniform(0, 5e4))
        pieces.append(Piece(lane, "op", serial, jobs, [int(i) for i in after]))
    work = sum(p.serial + sum(sum(job.tasks) for job in p.jobs) for p in pieces)
    assert work_on(pieces, 1).ns == pytest.approx(work)
    ends: list[float] = []  # of the longest way with any number of workers
    for number, piece in enumerate(pieces):
        before = [i for i in range(number) if pieces[i].lane == piece.lane]
        begin = max((ends[i] for i in (*before, *piece.after)), default=0.0)
        ends.append(begin + piece.serial + sum(max(job.tasks) for job in piece.jobs))
    for workers in (2, 3, 8):
        found = work_on(pieces, workers)
        assert max(work / workers, *ends) <= found.ns * (1 + 1e-9)
        starts = len(pieces) + sum(len(piece.jobs) for piece in pieces)
        start = JOB_NS + DOUBLING_NS * math.log2(workers)
        assert found.ns <= work / workers + max(ends) + starts * start  # Graham's
        assert sum(found.path.values()) == pytest.approx(found.ns)


def test_to_record_a_task_is_no_part_of_a_step() -> None:
    """Ten tasks of 1,000 ns in an instruction that takes 2,000 more: 50 after each one,
    in which it is recorded, and what is left is done by one worker."""
    instruction = events.Instruction(
        *(0, 0, "kernel", "add", None, None, 0, 0.0, 0.0, 0, "", -1, -1, -1, 1, -1)
    )
    program = SimpleNamespace(id=1, name="p", instructions={(0, 0): instruction})
    rows = [("step", 0, 13_000, 0, 0), ("instruction", 500, 12_500, 0, 0)]
    rows += [("task", 1000 + 1050 * k, 2000 + 1050 * k, k, 10) for k in range(10)]
    found = np.zeros(len(rows), events._EVENT)
    found["program"] = 1
    for row, (kind, begin, end, a, b) in zip(found, rows, strict=True):
        row["kind"], row["begin"], row["end"] = events.KINDS[kind], begin, end
        row["a"], row["b"] = a, b
    track = events.Track("host", 0, 0, 0, np.sort(found, order="end"))
    recording = events.Recording([track], {1: program}, 0, 13_000, False)
    one = scaling.replay(program, recording, (2,))
    assert one is not None
    # between instructions 1,000; of the instruction 12,000 - 10,000 - 9 x 50
    assert one.step_ns == 13_000 - 9 * 50
    assert one.serial_share == pytest.approx((1000 + 1550) / one.step_ns)


def scaled(stages: int, replicas: int) -> Any:
    """How a model is rehearsed for 2, 4 and 8 workers."""
    strategy = configure(stages * replicas)
    x = np.random.default_rng(0).normal(size=(512, 512)).astype("float32")
    with strategy.scope():
        layers = [keras.layers.Dense(512) for _ in range(2 * stages)]
        model = keras.Sequential([keras.Input((512,)), *layers])
        if stages > 1:
            model.set_pipelining_options(gradient_accumulation_steps_per_replica=8)
            model.set_pipeline_stage_assignment([i // 2 for i in range(2 * stages)])
        model.compile("sgd", "mse", steps_per_execution=32)
        with Profile(scale=(2, 4, 8)) as profile:
            model.fit(x, x, batch_size=16, epochs=2, verbose=0)
    return next(one for one in profile.scaling if one.name.endswith(".fit"))


@pytest.mark.parametrize(("stages", "replicas"), [(2, 1), (4, 1), (1, 4), (2, 2)])
def test_streams_are_rehearsed(stages: int, replicas: int) -> None:
    """More workers do more of what streams do side by side."""
    one = scaled(stages, replicas)
    assert one.jobs > 0
    for row in one.scales:
        assert 0 < row.speed_up <= row.workers
    by_workers = [row.speed_up for row in one.scales]
    assert by_workers == sorted(by_workers)


def test_a_rehearsal_has_the_bits_and_bounds() -> None:
    x = np.random.default_rng(0).normal(size=(512, 64)).astype("float32")

    def fit() -> list[Any]:
        configure()
        keras.utils.set_random_seed(3)
        layers = [keras.layers.Dense(256, activation="relu"), keras.layers.Dense(8)]
        model = keras.Sequential([keras.Input((64,)), *layers])
        model.compile("sgd", "mse", steps_per_execution=4)
        model.fit(x, x[:, :8], batch_size=128, epochs=2, verbose=0)
        found: list[Any] = model.get_weights()
        return found

    usual = fit()
    with Profile(scale=(2, 4, 200)) as profile:
        rehearsed = fit()
    for a, b in zip(usual, rehearsed, strict=True):
        np.testing.assert_array_equal(a, b)
    [one] = [one for one in profile.scaling if one.name.endswith(".fit")]
    assert [row.workers for row in one.scales] == [2, 4, 200]
    assert 1 <= one.steps <= 8 and one.jobs >= 1 and 0 <= one.serial_share < 1
    for row in one.scales:
        assert 0 < row.speed_up <= row.workers
        assert row.step_ns >= one.step_ns * one.serial_share
        assert 0 < row.bound_share <= 1 and row.reason
    assert "on workers that are not there" in str(profile)
    assert profile.to_dict()["scaling"][0]["scales"][0]["workers"] == 2
    with Profile() as after:  # it is over
        fit()
    assert after.scaling == []


# --- rules ----------------------------------------------------------------------------


def test_one_at_a_time() -> None:
    error = tf.errors.FailedPreconditionError
    with Profile(), pytest.raises(error, match="recorded already"), Profile():
        pass
    with pytest.raises(ZeroDivisionError), Profile() as profile:
        _ = 1 // 0
    assert profile.programs == []


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="steps is"):
        Profile(steps=(3, 3))
    with pytest.raises(ValueError, match="events must be"):
        Profile(events=0)
    with pytest.raises(ValueError, match=r"from 2 to 256. Received: \(8, 1\)"):
        Profile(scale=(8, 1))
    with pytest.raises(RuntimeError, match="has not ended"):
        _ = Profile().programs


# --- the command ----------------------------------------------------------------------

OWN = """
import sys
from ipu import tf
@tf.function
def twice(x):
    return tf.matmul(x, x)
for _ in range(3):
    twice(tf.ones([8, 8]))
print("arguments", *sys.argv[1:])
"""
OLD = """
import tensorflow as tf
from tensorflow.python import ipu
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(4,))])
    model.compile("sgd", "mse", steps_per_execution=4)
    data = tf.data.Dataset.from_tensors((tf.ones([4, 4]), tf.ones([4, 2]))).repeat()
    model.fit(data, steps_per_epoch=8, verbose=0)
"""


def command(
    folder: Path, program: str | None, *words: str, after: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    names = []
    if program is not None:
        (folder / "program.py").write_text(program)
        names = ["program.py"]
    return subprocess.run(
        [sys.executable, "-m", "ipu", "profile", *words, *names, *after],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_command_prints_tables(tmp_path: Path) -> None:
    done = command(
        tmp_path,
        OWN,
        *("--peak", "--scale", "8,16", "--trace", "t.json"),
        after=("-x", "--top", "3"),
    )
    assert done.returncode == 0, done.stderr
    out = done.stdout
    assert "arguments -x --top 3" in out  # what follows the program is its own
    assert "twice (" in out and "3 steps" in out and "matmul" in out
    for word in ("kernels", "waiting", "dispatch", "infeed", "outfeed"):
        assert f"    {word}" in out
    assert "program.py:6" in out and "of peak" in out
    assert "twice" in out and "rehearsed: 3 steps" in out and "speed-up" in out
    tracks_of(json.loads((tmp_path / "t.json").read_text())["traceEvents"])


def test_the_command_prints_json(tmp_path: Path) -> None:
    done = command(tmp_path, OLD, "--json", "--steps", "2:5", "--peak")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["peak_gflops"] > 0
    [program] = [one for one in figures["programs"] if one["name"].endswith(".fit")]
    assert program["steps"] == 3
    for thread in program["threads"]:
        parts = ("kernels", "waiting", "dispatch", "infeed", "outfeed")
        assert sum(thread[part] for part in parts) == pytest.approx(program["step_ns"])


def test_what_a_program_does_before_it_fails_is_shown(tmp_path: Path) -> None:
    done = command(tmp_path, OWN + "raise KeyError('lost')\n")
    assert done.returncode == 1
    assert "KeyError: 'lost'" in done.stderr and "3 steps" in done.stdout
    done = command(tmp_path, OWN + "sys.exit(7)\n")
    assert done.returncode == 7 and "3 steps" in done.stdout


def test_wrong_usage_of_the_command(tmp_path: Path) -> None:
    done = command(tmp_path, None, "nothing.py")
    assert done.returncode == 1 and "nothing.py" in done.stderr
    done = command(tmp_path, None)
    assert done.returncode == 1 and "name a program" in done.stderr
    done = command(tmp_path, "print('quiet')")
    assert done.returncode == 0 and done.stdout.startswith("quiet")
    assert "nothing ran on a device" in done.stderr
    bad = (("--steps", "5"), ("--steps", "5:2"), ("--top", "0"), ("--scale", "8,x"))
    for words in bad:
        done = command(tmp_path, OWN, *words)
        assert done.returncode == 2 and words[1] in done.stderr
