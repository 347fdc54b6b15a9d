# SPDX-License-Identifier: MIT
"""The benchmark's own judgement: arithmetic, loss curves, rows that are not results."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks import (
    accumulate,
    compile as compiling,
    feeding,
    image_networks,
    jobs,
    networks,
    reference,
    reference_networks,
    report,
    results,
    scaling,
    tables,
    workers,
)
from benchmarks.__main__ import parse, wrong
from benchmarks.gemms import graph_text
from benchmarks.runner import Comparison, Result, rotated

from ipu._reports.profile.scaling import Scale, Scaling

SIDES = {side.key: side for side in jobs.SIDES}


def small_job() -> tuple[jobs.Job, jobs.Data]:
    random = np.random.default_rng(3)
    job = jobs.Job("small", (6, 5, 4), 8, 50)
    weights: list[np.ndarray] = []
    for rows, columns in ((6, 5), (5, 4)):
        weights.append(random.standard_normal((rows, columns)).astype(np.float32))
        weights.append(np.zeros(columns, np.float32))
    return job, jobs.Data(
        x=random.random((400, 6), dtype=np.float32),
        y=random.integers(0, 4, 400, dtype=np.int32),
        order=random.permutation(400).astype(np.int32).reshape(1, 50, 8),
        weights=weights,
    )


def result(key: str, speed: float, disagreement: float | None = 0.0) -> Result:
    found = Result(SIDES[key], jobs.JOBS[0], 1)
    found.samples_per_s = [speed, speed * 1.1, speed * 0.9]
    found.disagreement = disagreement
    return found


def missing(key: str) -> Result:
    return Result(SIDES[key], jobs.JOBS[0], 1, not_measured="No module named 'x'")


def test_flops_of_the_tutorial_model() -> None:
    products = 784 * 256 + 256 * 128 + 128 * 64 + 64 * 32 + 32 * 10
    assert jobs.JOBS[0].flops_per_sample == 2 * (3 * products - 784 * 256)
    assert len(jobs.JOBS[0].gemms()) == 14


def test_flops_and_weights_of_the_image_networks() -> None:
    """By hand: 9 in out height width multiply-adds a convolution."""
    cifar = image_networks.IMAGES["cifar"]
    forward = 9 * (3 * 32 * 32**2 + 32 * 32 * 30**2 + 32 * 64 * 15**2 + 64 * 64 * 13**2)
    forward += 6 * 6 * 64 * 512 + 512 * 10
    assert cifar.flops(False) == 2 * forward
    assert cifar.flops(True) == 2 * (3 * forward - 9 * 3 * 32 * 32**2)
    residual = image_networks.IMAGES["residual"]
    shapes = [w.shape for w in residual.make_weights(np.random.default_rng(0))]
    assert shapes[:6] == [(3, 3, 3, 32), (32,), (32,), (32,), (32,), (3, 3, 32, 32)]
    assert len(shapes) == 7 * 5 + 2 and shapes[-2:] == [(32, 10), (10,)]


def test_reference_follows_the_gradient() -> None:
    """The first update lowers the loss by what central differences predict."""
    _, data = small_job()
    data.order = np.repeat(data.order[:, :1], 50, axis=1)  # the same batch again
    before, after = reference.loss_curve(data, 2)
    slope = 0.0
    for weight in data.weights:
        for index in np.ndindex(weight.shape):
            kept = weight[index]
            losses = []
            for moved in (kept + 1e-3, kept - 1e-3):
                weight[index] = moved
                losses.append(reference.loss_curve(data, 1)[0])
            weight[index] = kept
            slope += ((losses[0] - losses[1]) / 2e-3) ** 2
    assert before - after == pytest.approx(jobs.LEARNING_RATE * slope, rel=0.05)


def test_disagreement() -> None:
    curve = np.linspace(2.0, 1.0, jobs.COMPARED_STEPS)
    losses = curve.tolist()
    assert reference.disagreement(losses, None, curve) == 0.0
    assert reference.disagreement([], curve.mean(), curve) == pytest.approx(0.0)
    assert reference.disagreement(losses[:-1], None, curve) == float("inf")
    assert reference.disagreement([], None, curve) == float("inf")
    losses[7] += 0.01
    assert reference.disagreement(losses, None, curve) > reference.TOLERANCE
    losses[7] = float("nan")
    assert reference.disagreement(losses, None, curve) == float("inf")


def test_what_counts_as_the_fastest_peer() -> None:
    sides = [
        result("ipu", 300.0),
        result("jax", 100.0),
        result("torch", 900.0, disagreement=0.5),
        missing("keras"),
    ]
    comparison = Comparison(jobs.JOBS[0], 1, sides, [100.0, 99.0])
    fastest = comparison.fastest_peer()
    assert fastest is not None and fastest.side.key == "jax"
    rows = {row[0]: row for row in report.comparison_table(comparison).rows}
    assert rows["ipu Keras fit"][5] == "3.00"
    assert rows["torch eager"][-1].startswith("NO")
    assert rows["Keras fit"][1] == "not measured"
    assert wrong([comparison]) == ["torch eager, tutorial-32: losses differ by 5.0e-01"]


def test_nothing_to_compare_with_is_no_pass() -> None:
    comparison = Comparison(jobs.JOBS[0], 1, [result("ipu", 3.0), missing("jax")], [])
    table = report.comparison_table(comparison)
    assert table.rows[0][5] == "not measured"
    assert table.rows[0][4] == "not measured"
    assert "No module named" in table.markdown()
    assert report.as_json(comparison)["fastest_peer"] is None
    comparison = Comparison(jobs.JOBS[0], 1, [missing("ipu")], [])
    assert wrong([comparison])


def test_noise_is_told() -> None:
    sides = [result("ipu", 3.0)]
    quiet = Comparison(jobs.JOBS[0], 1, sides, [100.0, 95.0])
    loud = Comparison(jobs.JOBS[0], 1, sides, [100.0, 80.0])
    assert "NOT QUIET" not in report.peak_remark(quiet)
    assert "NOT QUIET" in report.peak_remark(loud)


def test_order_survives_json() -> None:
    order = jobs.Order(jobs.JOBS[1], "fit", 2, [0, 1], "/x", "ipu_side")
    assert jobs.Order.load(order.dump()) == order


def test_rounds_turn() -> None:
    assert rotated([1, 2, 3], 4) == [2, 3, 1]
    assert rotated([], 4) == []


def test_command_line() -> None:
    options = parse(["--jobs", "wide-128", "--threads", "1", "--peers", "none"])
    assert options.jobs == ["wide-128"] and options.peers == []
    assert set(options.sides) == {"ipu", "ipu-loop", "ipu-data"}
    for bad in (["--jobs", "x"], ["--threads", "0"], ["--peers", "x"]):
        with pytest.raises(SystemExit):
            parse(bad)


@pytest.mark.parametrize("job", jobs.JOBS[:3], ids=lambda job: job.name)
def test_graphs_of_the_products_compile(job: jobs.Job) -> None:
    core = pytest.importorskip("ipu._core")
    for gemm in job.gemms():
        assert "matmul." in core.graph_compile(graph_text(gemm, relu=True)).text


def test_products_that_are_added_up() -> None:
    core = pytest.importorskip("ipu._core")
    kernels = [p.text.count(" kernel ") for p in accumulate.programs(core, 4).values()]
    assert kernels[1:] == [2, 1]
    assert set(accumulate.measure(core, 4, 2, 1)) == set(accumulate.programs(core, 4))


def test_tables_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "queues.json"
    options = argparse.Namespace(json=file, markdown=True)
    output = tables.Output(options, "benchmarks.queues")
    output.table(tables.Table("Queues", ["what", "median"], [["a|b", "3"]], ["Noisy."]))
    text = "### Queues\n\n| what | median |\n|---|---:|\n| a\\|b | 3 |\n\nNoisy.\n"
    assert capsys.readouterr().out == text + "\n"
    assert text in results.page(tmp_path)
    assert results.page(tmp_path).count("## queues\n") == 1


def test_what_bounds_fit_from_a_data_set() -> None:
    pytest.importorskip("ipu._core")
    fits = {
        "arrays": feeding.Cost(0.010, 0.020),
        "slow": feeding.Cost(0.025, 0.040),
        "busy": feeding.Cost(0.016, 0.030),
    }
    alone = {
        "arrays": feeding.Cost(0.0, 0.0),
        "slow": feeding.Cost(0.020, 0.0),
        "busy": feeding.Cost(0.006, 0.010),
    }
    rows = [cells for cells, _ in feeding.rows_of(fits, alone, 2)]
    assert rows == [
        ["arrays", "-", "100", "1.00", "1.00", "-", "1.00"],
        ["slow", "50", "40", "0.40", "0.50", "data set", "0.80"],
        ["busy", "167", "62", "0.62", "0.67", "cores", "0.94"],
    ]


def test_jobs_on_more_workers() -> None:
    pytest.importorskip("ipu._core")
    rows = [Scale(count, 1e6 / count, count, "add", 0.5, "serial") for count in (2, 64)]
    found = {"small": Scaling("loop", 4, 1e6, 0.1, 3, rows)}
    ((name, step, serial, *ups, bound),) = workers.table_of(found).rows
    assert (name, step, serial, ups) == ("small", "1.00", "10.00%", ["2.0", "64.0"])
    assert bound == "add, 50%: serial"


def test_mixed_precision_beside_float32(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("ipu._core")
    from benchmarks import mixed

    clock = 0.0

    class Side:
        def __init__(self, policy: str, order: jobs.Order) -> None:
            self.step, self.job = 0.25 if policy == "float32" else 0.125, order.job

        def run(self, executions: int) -> None:
            nonlocal clock
            clock += executions * self.job.steps * self.step

    monkeypatch.setattr(mixed, "trained_with", Side)
    monkeypatch.setattr(jobs, "make_job", lambda folder, job: None)
    monkeypatch.setattr(mixed.time, "perf_counter", lambda: clock)
    job = jobs.JOBS[0]
    found = mixed.row(job, 2, rounds=3, folder=tmp_path)
    assert found == [job.name, "2", "250.00", "125.00", "2.00"]


def times(gradient: float, compile: float) -> compiling.Times:
    return compiling.Times(9.0, gradient, compile, 100)


def test_growth_and_limits_of_compiling() -> None:
    row = compiling.Row("mixed", compiling.mixed, 100, "nodes", True, 1.0)
    small, full = times(0.01, 0.04), times(0.1, 0.4)
    assert compiling.growth(small, full) == pytest.approx(10.0)
    assert compiling.missed_limits(row, small, full) == []
    slow, crooked = times(0.5, 0.6), times(0.004, 0.008)
    assert "1.10 s" in compiling.missed_limits(row, times(0.05, 0.06), slow)[0]
    assert "41.7 times" in compiling.missed_limits(row, crooked, full)[0]
    free = compiling.Row("chain", compiling.chain, 100, "nodes", True)
    assert compiling.missed_limits(free, crooked, slow) == []


@pytest.mark.parametrize("row", compiling.ROWS, ids=lambda row: row.name)
def test_the_programs_that_are_compiled(row: compiling.Row) -> None:
    """They have as many nodes as they say, and twice the size has twice of them."""
    pytest.importorskip("ipu._core")
    once, twice = compiling.measure(row, 60), compiling.measure(row, 120)
    assert once.nodes >= 60
    assert 1.5 < twice.nodes / once.nodes < 2.5


def test_networks() -> None:
    """Sizes, and that labels can be learned from the samples."""
    for job in jobs.JOBS:
        if job.network is None:
            continue
        random = np.random.default_rng(1)
        x, y = job.network.make_samples(random)
        assert len(x) == len(y) == job.samples
        weights = job.network.make_weights(random)
        assert all(w.dtype == np.float32 for w in weights)
        assert job.flops_per_sample == job.network.flops(job.kind == "train")
        assert job.compared_steps == min(job.steps, job.network.compared_steps)
    lstm, transformer = jobs.NETWORKS["lstm"], jobs.NETWORKS["transformer"]
    assert lstm.forward_flops == 2 * (80 * 128 * 4 * 128 * 2 + 128 * 2)
    assert transformer.title == "4 blocks, width 128, 4 heads, sequence 128"


SMALL: dict[str, networks.Network] = {
    "images": image_networks.Images(
        "small",
        (
            image_networks.Layer("conv", 3, "valid"),
            image_networks.Layer("batch_norm"),
            image_networks.RELU,
            image_networks.Layer(
                "residual", inner=(image_networks.Layer("conv", 3, bias=False),)
            ),
            image_networks.Layer("pool"),
            image_networks.Layer("flatten"),
            image_networks.Layer("dense", 10),
        ),
        (7, 6, 2),
        24,
    ),
    "images-mean": image_networks.Images(
        "small",
        (image_networks.Layer("mean"), image_networks.Layer("dense", 10)),
        (3, 3, 2),
        24,
    ),
    "lstm": networks.Recurrent("lstm", words=7, units=3, steps=4, samples=24),
    "gru": networks.Recurrent("gru", words=7, units=3, steps=4, samples=24),
    "transformer": networks.Transformer(2, 6, 2, 5, 4, 24),
}


def network_data(job: jobs.Job, network: networks.Network) -> jobs.Data:
    random = np.random.default_rng(5)
    x, y = network.make_samples(random)
    rows = random.integers(0, len(x), (1, job.steps, job.batch), dtype=np.int32)
    return jobs.Data(x, y, rows, network.make_weights(random))


@pytest.mark.parametrize("kind", ["train", "forward"])
@pytest.mark.parametrize("name", SMALL)
def test_networks_of_ipu_follow_the_reference(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where PyTorch is installed, which makes the reference's gradients."""
    pytest.importorskip("torch")
    pytest.importorskip("ipu._core")
    from benchmarks.sides.ipu_side import IpuSide

    monkeypatch.setattr(networks, "NETWORKS", SMALL)
    monkeypatch.setattr(jobs, "NETWORKS", SMALL)
    job = jobs.Job(f"small-{name}", (), 3, 4, kind, name)
    curve = reference_networks.loss_curve(job, network_data(job, SMALL[name]))
    assert kind == "forward" or curve[-1] != curve[0]
    for variant in ("loop", "fit") if kind == "train" else ("loop",):
        order = jobs.Order(job, variant, 1, [], "", "ipu_side")
        side = IpuSide()
        side.load(order)
        side.build(order, network_data(job, SMALL[name]))
        assert reference.disagreement(side.run(1), None, curve) < reference.TOLERANCE


def test_scaling_on_paper_and_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    scaling.main(["--jobs", "tutorial-512", "--steps", "1"])
    assert capsys.readouterr().out.count("| tutorial-512 |") == 6
    network = scaling.Network(0.0, 0.0, math.inf, math.inf)
    job = scaling.Job("free", 1.0, (8, 1 << 22, 8))
    assert scaling.buckets(job.gradients) == [(1 << 22) + 8, 8]
    assert sum(scaling.paper([8], 8, network).values()) == 0.0
    assert scaling.simulated(job, [8], 8, network, 0.0, 2) == 1.0
    late = scaling.Network(latency=1.0, message=0.0, bandwidth=8.0, adding=math.inf)
    assert scaling.simulated(job, [16], 2, late, 0.0, 1) == 1.0 + 2 * (1.0 + 1.0)
    assert sum(scaling.paper([16], 2, late).values()) == 2 * (1.0 + 1.0)
