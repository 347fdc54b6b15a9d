# SPDX-License-Identifier: MIT
"""Several processes beside one: `python -m benchmarks.processes`.

It starts itself in two processes of this machine, and measures there

- sums over two replicas in a loop of a program, by size, beside `MPI_Allreduce` of as
  many bytes: the median of the rounds, in microseconds a sum;
- a training of two replicas by `fit`, once in two processes of one thread and once in
  one process of two threads, in turn: samples a second, median of the rounds;
- the same training by PyTorch's DistributedDataParallel over gloo, in two processes of
  one thread, where PyTorch is installed;
- the time from the start of Python to the end of the first step: seconds;
- how much of the time of its sums a training step does not wait for: a loop of steps of
  784-1024-1024-10 at batch 128, and a loop of nothing but the sums of its gradients. A
  wait counts from the moment when all processes have come to the sum: before it one of
  them is late, whatever the sum costs.

Every figure is of the slower process. It needs `pip install 'ipu[mpi]'`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import Output, Table, add_options

SIZES = (1 << 10, 1 << 14, 1 << 18, 1 << 22)  # bytes
TURNS = {1 << 22: 40}  # others: 400
TORCH = ", PyTorch"
MODELS = ("tutorial-512", "wide-128", "cifar-64")


def _strategy(replicas: int) -> Any:
    import ipu
    from ipu.distributed.popdist_strategy import PopDistStrategy

    strategy = PopDistStrategy()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = replicas
    strategy.update_ipu_config(config)
    config.configure_ipu_system()
    return strategy


def _sums(rounds: int) -> dict[str, Any]:
    """Microseconds a sum: of a program, and of MPI."""
    from mpi4py import MPI

    from ipu import cross_replica_ops, distributed, tf

    strategy = _strategy(1)
    world = MPI.COMM_WORLD.Dup()
    found = {}
    for size in SIZES:
        turns = TURNS.get(size, 400)

        @tf.function(jit_compile=True)
        def add_up(x: Any, turns: int = turns) -> Any:
            for _ in tf.range(turns):
                x = cross_replica_ops.cross_replica_mean(x)
            return x

        x = tf.constant(np.ones(size // 4, np.float32))
        mine, other = np.ones(size // 4, np.float32), np.empty(size // 4, np.float32)
        times: dict[str, list[float]] = {"program": [], "MPI_Allreduce": []}
        with strategy.scope():
            strategy.run(add_up, args=(x,))
            for _ in range(rounds):
                distributed.allreduce(0.0, "SUM")
                begin = time.perf_counter()
                strategy.run(add_up, args=(x,))
                times["program"].append((time.perf_counter() - begin) / turns * 1e6)
                distributed.allreduce(0.0, "SUM")
                begin = time.perf_counter()
                for _ in range(turns):
                    world.Allreduce(mine, other)
                spent = (time.perf_counter() - begin) / turns * 1e6
                times["MPI_Allreduce"].append(spent)
        found[str(size)] = {name: statistics.median(t) for name, t in times.items()}
    return found


def _model(name: str) -> tuple[Any, Any, Any, int]:
    """A model, its data, and the batch of a replica."""
    from ipu import keras

    layers = keras.layers
    shape: tuple[int, ...]
    rng = np.random.default_rng(0)
    if name == "cifar-64":
        conv, pool = layers.Conv2D, layers.MaxPooling2D
        stack = [
            *(
                conv(32, 3, padding="same", activation="relu"),
                conv(32, 3, activation="relu"),
            ),
            pool(),
            *(
                conv(64, 3, padding="same", activation="relu"),
                conv(64, 3, activation="relu"),
            ),
            *(pool(), layers.Flatten(), layers.Dense(512, "relu")),
        ]
        samples, shape, batch = 2048, (32, 32, 3), 64
    else:
        widths = (1024, 1024) if name == "wide-128" else (256, 128, 64, 32)
        stack = [layers.Dense(width, "relu") for width in widths]
        batch = 128 if name == "wide-128" else 512
        samples, shape = batch * 64, (784,)
    model = keras.Sequential([keras.Input(shape), *stack, layers.Dense(10)])
    x = rng.random((samples, *shape), dtype=np.float32)
    return model, x, rng.integers(0, 10, samples).astype(np.int32), batch


def _training(name: str, replicas: int, rounds: int) -> dict[str, Any]:
    """Samples a second of all replicas; without rounds only one step is run."""
    from ipu import keras

    with _strategy(replicas).scope():
        model, x, y, batch = _model(name)
        if not rounds:
            x, y = x[: 2 * batch], y[: 2 * batch]
        steps = len(x) // batch // 2
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
        model.compile(optimizer, loss, steps_per_execution=steps)
        given = {"batch_size": batch, "verbose": 0, "shuffle": False}
        model.fit(x, y, **given)
        rates = []
        for _ in range(rounds):
            begin = time.perf_counter()
            model.fit(x, y, **given)
            rates.append(len(x) / (time.perf_counter() - begin))
    return {"rate": statistics.median(rates or [0.0])}


def _torch_training(name: str, folder: str, rounds: int) -> dict[str, Any]:
    """Samples a second of the two processes of PyTorch's DistributedDataParallel."""
    from mpi4py import MPI

    torch = importlib.import_module("torch")
    parallel = importlib.import_module("torch.nn.parallel")
    nn, rank = torch.nn, MPI.COMM_WORLD.Get_rank()
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", f"file://{folder}/store", rank=rank, world_size=2
    )
    model, x, y, batch = _model(name)
    stack: list[Any] = []
    size = x.shape[1]
    if name == "cifar-64":
        for wide, deep in ((3, 32), (32, 64)):
            stack += [nn.Conv2d(wide, deep, 3, padding=1), nn.ReLU()]
            stack += [nn.Conv2d(deep, deep, 3), nn.ReLU(), nn.MaxPool2d(2)]
        stack += [nn.Flatten(), nn.Linear(64 * 6 * 6, 512), nn.ReLU()]
        size = 512
        x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    else:
        for layer in model.layers[:-1]:
            stack += [nn.Linear(size, layer.units), nn.ReLU()]
            size = layer.units
    module = parallel.DistributedDataParallel(
        nn.Sequential(*stack, nn.Linear(size, 10))
    )
    optimizer = torch.optim.SGD(module.parameters(), 0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    own = [torch.from_numpy(each[rank::2]) for each in (x, y.astype(np.int64))]
    rates = []
    for _ in range(rounds + 1):
        torch.distributed.barrier()
        begin = time.perf_counter()
        for at in range(0, len(own[0]) - batch + 1, batch):
            optimizer.zero_grad()
            inputs, labels = (each[at : at + batch] for each in own)
            loss_of(module(inputs), labels).backward()
            optimizer.step()
        rates.append(len(x) / (time.perf_counter() - begin))
    torch.distributed.destroy_process_group()
    return {"rate": statistics.median(rates[1:])}


def _waits(run: Callable[[], Any], turns: int) -> tuple[float, float]:
    """Milliseconds a turn that this process waits at sums: for the sums, for others."""
    from ipu import distributed
    from ipu.profiler import Profile

    begin = time.monotonic_ns() / 1e3  # of all processes of a machine
    with tempfile.TemporaryDirectory() as folder:
        with Profile(trace=Path(folder, "trace")):
            run()
        events = json.loads(Path(folder, "trace").read_text())["traceEvents"]
    came, waits = [], []
    waited: list[tuple[float, float]] = []
    for event in sorted((e for e in events if "dur" in e), key=lambda e: e["ts"]):
        since = begin + event["ts"]
        if event.get("cat") == "peer_wait":
            waited.append((since, since + event["dur"]))
        elif event["name"].startswith("all_reduce") and "args" in event:
            if event["args"].get("flops"):
                came.append(since)
            else:  # of sums that were posted before
                waits.append(waited)
                waited = []
    all_came = distributed.allgather(np.array(came)).numpy().max(axis=0)
    for_sums = for_others = 0.0
    for last, of_one in zip(all_came, waits, strict=True):
        for since, until in of_one:
            late = min(max(last, since), until) - since
            for_others += late
            for_sums += until - since - late
    return for_sums / turns / 1e3, for_others / turns / 1e3


def _hidden(rounds: int) -> dict[str, Any]:
    """Milliseconds: of a step, of its waits, of its sums alone."""
    from ipu import cross_replica_ops, distributed, keras, tf

    turns = 16
    with _strategy(1).scope() as strategy:
        model, x, y, batch = _model("wide-128")
        optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        x, y = tf.constant(x[:batch]), tf.constant(y[:batch])
        model(x)

        @tf.function(jit_compile=True)
        def train(x: Any, y: Any) -> None:
            for _ in tf.range(turns):
                with tf.GradientTape() as tape:
                    loss = loss_of(y, model(x, training=True))
                gradients = tape.gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(
                    zip(gradients, model.trainable_variables, strict=True)
                )

        @tf.function(jit_compile=True)
        def add_up(*gradients: Any) -> Any:
            for _ in tf.range(turns):
                gradients = tuple(map(cross_replica_ops.cross_replica_sum, gradients))
            return gradients

        zeros = [tf.zeros(each.shape) for each in model.trainable_variables]
        names = "step", "sums", "waits", "waits for others"
        found: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(rounds + 1):
            for name, run, args in (("step", train, (x, y)), ("sums", add_up, zeros)):
                distributed.allreduce(0.0, "SUM")
                begin = time.perf_counter()
                strategy.run(run, args=args)
                found[name].append((time.perf_counter() - begin) / turns * 1e3)
            distributed.allreduce(0.0, "SUM")
            waits = _waits(lambda: strategy.run(train, args=(x, y)), turns)
            found["waits"].append(waits[0])
            found["waits for others"].append(waits[1])
    return {
        "wide-128": {name: statistics.median(t[1:]) for name, t in found.items()},
    }


def _of_processes(count: int, threads: int, *words: str) -> dict[str, Any]:
    """Run this file in so many processes: what the slowest of them found."""
    from ipu._device.launcher import launch

    with tempfile.TemporaryDirectory() as folder:
        os.environ["IPU_NUM_THREADS"] = str(threads)
        module = ["-m", "benchmarks.processes", "--into", folder, *words]
        if count > 1:
            status = launch(count, module)
        else:
            status = subprocess.run([sys.executable, *module], check=False).returncode
        if status != 0:
            raise SystemExit(f"{' '.join(words)} failed in {count} processes")
        found = [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]
    if "rate" in found[0]:
        return dict(min(found, key=lambda one: one["rate"]))
    return {
        size: {name: max(one[size][name] for one in found) for name in sides}
        for size, sides in found[0].items()
    }


def _sums_table(rounds: int) -> Table:
    rows = []
    sums = _of_processes(2, 1, "--part", "sums", "--rounds", str(rounds))
    for size, of in sums.items():
        program, mpi = of["program"], of["MPI_Allreduce"]
        figures = [f"{program:.1f}", f"{mpi:.1f}", f"{mpi / program:.2f}"]
        rows.append([f"{int(size):,}", *figures])
    columns = ["bytes", "program", "MPI_Allreduce", "ratio"]
    return Table("A sum over two replicas, microseconds", columns, rows)


def _hidden_table(rounds: int) -> Table:
    of = _of_processes(2, 1, "--part", "hidden", "--rounds", str(rounds))["wide-128"]
    share = 1 - of["waits"] / of["sums"]
    columns = ["step", "waits for sums", "waits for others", "sums alone", "hidden"]
    keys = ("step", "waits", "waits for others", "sums")
    row = [*(f"{of[key]:.2f}" for key in keys), f"{share:.2f}"]
    return Table("Sums of gradients, 784-1024-1024-10, milliseconds", columns, [row])


def _training_table(rounds: int) -> Table:
    has_torch = importlib.util.find_spec("torch") is not None
    given = ["--rounds", str(rounds)]
    rows = []
    for name in MODELS:
        rates: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(3):
            for count, threads in ((2, 1), (1, 2)):
                words = ["--part", name, "--replicas", str(2 // count), *given]
                rates[count].append(_of_processes(count, threads, *words)["rate"])
        two, one = (statistics.median(rates[count]) for count in (2, 1))
        row = [name, f"{two:,.0f}", f"{one:,.0f}", f"{two / one:.2f}", "-", "-"]
        if has_torch:
            words = ["--part", name + TORCH, *given]
            ddp = [_of_processes(2, 1, *words)["rate"] for _ in range(3)]
            other = statistics.median(ddp)
            row[-2:] = f"{other:,.0f}", f"{two / other:.2f}"
        rows.append(row)
    columns = ["model", "2 processes of 1 thread", "1 of 2 threads", "ratio"]
    columns += ["PyTorch DDP over gloo", "ratio"]
    return Table("Two replicas, samples/s", columns, rows)


def _start_table(rounds: int) -> Table:
    starts: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for count, threads in ((2, 1), (1, 2)):
            words = ["--part", MODELS[0], "--replicas", str(2 // count)]
            begin = time.perf_counter()
            _of_processes(count, threads, *words, "--rounds", "0")
            starts[count].append(time.perf_counter() - begin)
    two, one = (statistics.median(starts[count]) for count in (2, 1))
    columns = ["2 processes", "1 process", "ratio"]
    row = [f"{two:.2f}", f"{one:.2f}", f"{two / one:.2f}"]
    return Table("To the end of the first step, seconds", columns, [row])


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--into", help=argparse.SUPPRESS)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--replicas", type=int, help=argparse.SUPPRESS)
    add_options(parser)
    options = parser.parse_args()
    if options.into:
        if options.part in (parts := {"sums": _sums, "hidden": _hidden}):
            found = parts[options.part](options.rounds)
        elif options.part.endswith(TORCH):
            name = options.part.removesuffix(TORCH)
            found = _torch_training(name, options.into, options.rounds)
        else:
            found = _training(options.part, options.replicas, options.rounds)
        (Path(options.into) / f"{os.getpid()}.json").write_text(json.dumps(found))
        return 0
    output = Output(options, "benchmarks.processes")
    for table in (_sums_table, _hidden_table, _training_table, _start_table):
        output.table(table(options.rounds))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
