# SPDX-License-Identifier: MIT
"""Where 8, 64 and 512 processes end up: `python -m benchmarks.scaling`.

Nothing is run. A process has one replica on one IPU, and the batch of a replica stays.
A step takes as long as the machine's account says, with gradients of float32. Their
sums take two phases, with a chunk for each process (`docs/several_machines.md`):

    latency     2 waits for a message
    messages    2 (n - 1) messages of each process, one after the other
    bytes       2 (n - 1) / n of the gradients out of its network card
    adding      all terms of its chunk, as many bytes as the gradients

In the simulation every process takes its own time for a step, with a spread, and every
network card one message after the other in each direction: who is late makes others
late.
`--measure` takes latency, messages and bandwidth from two processes of this machine
(it needs `pip install 'ipu[mpi]'`); else they are those of an Ethernet of 100 Gbit/s.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np

COUNTS = (8, 64, 512)
NAMES = ("tutorial-512", "wide-128", "cifar-64", "resnet50-16")
BUCKET = 4 << 20  # bytes


class Network(NamedTuple):
    """What carries the messages; seconds, and bytes a second."""

    latency: float = 10e-6
    message: float = 4e-6  # of a processor, for each message
    bandwidth: float = 11e9
    adding: float = 5e9  # bytes of terms


class Job(NamedTuple):
    """A step of a replica: its seconds, and the bytes of each gradient."""

    name: str
    seconds: float
    gradients: tuple[int, ...]


def buckets(gradients: tuple[int, ...]) -> list[int]:
    """Return the bytes of sums of 4 MiB or more, each of successive gradients."""
    found = [0]
    for size in gradients:
        if found[-1] >= BUCKET:
            found.append(0)
        found[-1] += size
    return found


def paper(sums: list[int], count: int, network: Network) -> dict[str, float]:
    """Return the seconds that the sums of a step take, by what they are spent on."""
    total = sum(sums)
    return {
        "latency": 2 * network.latency * len(sums),
        "messages": 2 * (count - 1) * network.message * len(sums),
        "bytes": 2 * total * (count - 1) / count / network.bandwidth,
        "adding": total / network.adding,
    }


def simulated(
    job: Job, sums: list[int], count: int, network: Network, spread: float, steps: int
) -> float:
    """Return the seconds of a step, whose time varies by `spread` in each process."""
    rng = np.random.default_rng(0)
    now = np.zeros(count)
    for _ in range(steps):
        now += job.seconds * (1.0 + spread * np.abs(rng.normal(size=count)))
        for size in sums:
            chunk = size / count / network.bandwidth
            for phase in range(2):
                out, into = now.copy(), now.copy()
                for turn in range(1, count):
                    out += network.message
                    sent = np.roll(out, turn)  # at its receiver
                    into = np.maximum(into, sent + network.latency) + chunk
                    out += chunk
                now = np.maximum(out, into)
                if phase == 0:
                    now += size / network.adding
    return float(now.max()) / steps


def made(name: str, accumulated: int) -> Job:
    """Account a step of training of so many batches."""
    from benchmarks import machine_networks, processes
    from ipu import keras

    kind, _, batch = name.rpartition("-")
    if kind == "resnet50":
        model = machine_networks.resnet50()
    else:
        model = processes._model(name)[0]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss)
    account = model.account(batch_size=int(batch))
    sizes = [4 * math.prod(one.shape) for one in model.trainable_variables]
    return Job(name, accumulated * account.seconds, tuple(reversed(sizes)))


def measured() -> Network:
    """Measure latency, messages and bandwidth between two processes."""
    from ipu._device.launcher import _mpiexec

    command = [_mpiexec(), "-n", "2", sys.executable, "-c", _PING]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Network(**json.loads(done.stdout))


_PING = """
import json, time
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
me, other = world.rank, 1 - world.rank

def turn(size, turns):
    data, begin = np.zeros(size, np.uint8), time.perf_counter()
    for number in range(turns):
        if number % 2 == me:
            world.Send(data, other)
        else:
            world.Recv(data, other)
    return (time.perf_counter() - begin) / turns

def post(turns):
    into, out = np.zeros(64, np.uint8), np.zeros(64, np.uint8)
    begin = time.perf_counter()
    for _ in range(turns):
        MPI.Request.Waitall([world.Irecv(into, other), world.Isend(out, other)])
    return (time.perf_counter() - begin) / turns

turn(64, 200)
latency = turn(64, 4000)
bandwidth = (8 << 20) / (turn(8 << 20, 40) - latency)
message = max(post(4000) - latency, 0.0)
a, b = np.zeros(1 << 20, np.float32), np.zeros(1 << 20, np.float32)
begin = time.perf_counter()
for _ in range(20):
    np.add(a, b, out=a)
adding = 20 * a.nbytes / (time.perf_counter() - begin)
if me == 0:
    print(json.dumps(dict(latency=latency, message=message, bandwidth=bandwidth,
                          adding=adding)))
"""


def rows(job: Job, network: Network, spread: float, steps: int) -> list[list[str]]:
    """Return the lines of the table for a job."""
    found = []
    ways = {"weights": list(job.gradients), "4 MiB": buckets(job.gradients)}
    for way, sums in ways.items():
        for count in COUNTS:
            costs = paper(sums, count, network)
            share = job.seconds / (job.seconds + sum(costs.values()))
            seconds = simulated(job, sums, count, network, spread, steps)
            bound = max(costs, key=lambda one: costs[one])
            bound = bound if share < 0.5 else f"computing, then {bound}"
            cells = [job.name, way, str(count), f"{job.seconds * 1e3:.3f}"]
            cells += [f"{one * 1e3:.3f}" for one in costs.values()]
            shares = f"{share:.2f}", f"{job.seconds / seconds:.2f}"
            found.append([*cells, *shares, bound])
    return found


HEAD = (
    "job, sums of, processes, step ms, latency, messages, bytes, adding, on paper, "
    "simulated, what bounds it"
).split(", ")


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add: Any = parser.add_argument
    for field, default in Network._field_defaults.items():
        add(f"--{field}", type=float, default=default, help="%(default)s")
    add("--measure", action="store_true", help="measure these on this machine")
    add("--spread", type=float, default=0.02, help="of a step's time (%(default)s)")
    add("--steps", type=int, default=3, help="that are simulated (%(default)s)")
    add("--accumulated", type=int, default=1, help="batches of an update (%(default)s)")
    add("--jobs", default=",".join(NAMES), help="some of: %(default)s")
    given = parser.parse_args(arguments)
    network = Network(*(getattr(given, field) for field in Network._fields))
    if given.measure:
        network = measured()
    print(f"{network}, spread {given.spread}")
    print("| " + " | ".join(HEAD) + " |")
    print("|---|---" + "|---:" * 8 + "|---|")
    for name in given.jobs.split(","):
        for line in rows(
            made(name, given.accumulated), network, given.spread, given.steps
        ):
            print("| " + " | ".join(line) + " |", flush=True)


if __name__ == "__main__":
    main()
