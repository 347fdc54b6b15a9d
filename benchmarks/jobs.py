# SPDX-License-Identifier: MIT
"""What is measured: shapes, arithmetic, the shared data, and the list of sides.

Every side gets the same files: one float32 array of samples, one array of labels, one
permutation cut into steps, one set of initial weights. No framework is imported here.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEARNING_RATE = 0.01
MOMENTUM = 0.9
SAMPLES = 60_000
SHUFFLE_BUFFER = 10_000
CLASSES = 10

TUTORIAL_LAYERS = (784, 256, 128, 64, 32, 10)
WIDE_LAYERS = (784, 1024, 1024, 10)


@dataclasses.dataclass(frozen=True)
class Gemm:
    """One matrix product of a training step: C[m, n] = op(A)[m, k] @ op(B)[k, n]."""

    role: str
    layer: int
    m: int
    n: int
    k: int
    transpose_a: bool
    transpose_b: bool

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k


@dataclasses.dataclass(frozen=True)
class Job:
    """A model, a batch size, and how many steps one execution holds.

    `kind` is `train` (samples gathered from one preloaded array), `fit` (training fed
    by the framework's input pipeline) or `draw` (the pipeline alone).
    """

    name: str
    layers: tuple[int, ...]
    batch: int
    steps: int
    kind: str = "train"

    @property
    def executions(self) -> int:
        """Executions in one pass over the permutation, each with new samples."""
        return max(1, SAMPLES // (self.batch * self.steps))

    @property
    def samples_per_execution(self) -> int:
        return self.batch * self.steps

    def gemms(self) -> list[Gemm]:
        """The step's matrix products; no gradient of the first layer's input."""
        found = []
        for layer, (k, n) in enumerate(itertools.pairwise(self.layers)):
            b = self.batch
            found.append(Gemm("forward", layer, b, n, k, False, False))
            found.append(Gemm("dW", layer, k, n, b, True, False))
            if layer > 0:
                found.append(Gemm("dX", layer, b, k, n, False, True))
        return found

    @property
    def flops_per_sample(self) -> float:
        """Arithmetic of the matrix products alone: all else is under two per cent."""
        return sum(gemm.flops for gemm in self.gemms()) / self.batch


JOBS = (
    Job("tutorial-32", TUTORIAL_LAYERS, 32, 500),
    Job("tutorial-512", TUTORIAL_LAYERS, 512, 117),
    Job("wide-128", WIDE_LAYERS, 128, 117),
    Job("pipeline-32", TUTORIAL_LAYERS, 32, 500, "fit"),
    Job("pipeline-32", TUTORIAL_LAYERS, 32, 500, "draw"),
)


def thread_text(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


@dataclasses.dataclass(frozen=True)
class SideName:
    """A row of a table: which module runs it and what it is compared as."""

    key: str
    title: str
    module: str
    variant: str
    peer: bool
    kinds: tuple[str, ...]


SIDES = (
    SideName("ipu", "ipu Keras fit", "ipu_side", "fit", False, ("train", "fit")),
    SideName("ipu-loop", "ipu loop", "ipu_side", "loop", False, ("train",)),
    SideName("ipu-data", "ipu.tf.data", "ipu_side", "draw", False, ("draw",)),
    SideName("torch", "torch eager", "torch_side", "eager", True, ("train", "fit")),
    SideName(
        "torch-compile", "torch.compile", "torch_side", "compile", True, ("train",)
    ),
    SideName("torch-data", "torch DataLoader", "torch_side", "draw", True, ("draw",)),
    SideName("jax", "jax scan", "jax_side", "scan", True, ("train",)),
    SideName("tf-jit", "TF compiled loop", "tensorflow_side", "jit", True, ("train",)),
    SideName("tf-loop", "TF plain loop", "tensorflow_side", "plain", True, ("train",)),
    SideName("tf-data", "tf.data", "tensorflow_side", "draw", True, ("draw",)),
    SideName("keras", "Keras fit", "keras_side", "fit", True, ("train", "fit")),
)


@dataclasses.dataclass
class Order:
    """What one side's process is told, as JSON."""

    job: Job
    variant: str
    threads: int
    cpus: list[int]
    folder: str
    module: str = ""

    def dump(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def load(text: str) -> Order:
        fields: dict[str, Any] = json.loads(text)
        job = fields.pop("job")
        job["layers"] = tuple(job["layers"])
        return Order(job=Job(**job), **fields)


@dataclasses.dataclass
class Data:
    """The arrays that every side of a job shares."""

    x: NDArray[Any]
    y: NDArray[np.int32]
    order: NDArray[np.int32]
    weights: list[NDArray[np.float32]]

    @property
    def bytes(self) -> int:
        return self.x.nbytes + self.y.nbytes + self.order.nbytes


def make_samples(folder: Path) -> None:
    """Writes x, y and the permutation: images of ten classes, a tenth of wrong labels.

    A fifth of the pixels is lit, as in handwritten digits: where all inputs are large,
    training is unstable at this learning rate, and rounding alone makes curves part.
    The wrong labels keep the loss away from zero, so that no gradient ever becomes a
    denormal number, however long a side trains.
    """
    random = np.random.default_rng(20240607)
    prototypes = random.random((CLASSES, TUTORIAL_LAYERS[0]), dtype=np.float32)
    y = random.integers(0, CLASSES, SAMPLES, dtype=np.int32)
    noise = random.random((SAMPLES, TUTORIAL_LAYERS[0]), dtype=np.float32)
    np.save(folder / "x.npy", np.where(prototypes[y] > 0.8, noise, np.float32(0.0)))
    wrong = random.random(SAMPLES) < 0.1
    y[wrong] = random.integers(0, CLASSES, int(wrong.sum()), dtype=np.int32)
    np.save(folder / "y.npy", y)
    np.save(folder / "permutation.npy", random.permutation(SAMPLES).astype(np.int32))


def make_job(folder: Path, job: Job) -> None:
    """Writes the job's initial weights and, for pipelines, the tutorial's float64 x."""
    random = np.random.default_rng(7)
    for layer, (rows, columns) in enumerate(itertools.pairwise(job.layers)):
        bound = np.sqrt(6.0 / (rows + columns))
        weights = random.uniform(-bound, bound, (rows, columns)).astype(np.float32)
        np.save(folder / f"{job.name}-w{layer}.npy", weights)
    wide = folder / "x64.npy"
    if job.kind != "train" and not wide.exists():
        np.save(wide, np.load(folder / "x.npy").astype(np.float64))


def load_data(order: Order) -> Data:
    """Reads the shared files; biases start at zero."""
    folder, job = Path(order.folder), order.job
    weights: list[NDArray[np.float32]] = []
    for layer, columns in enumerate(job.layers[1:]):
        weights.append(np.load(folder / f"{job.name}-w{layer}.npy"))
        weights.append(np.zeros(columns, np.float32))
    permutation = np.load(folder / "permutation.npy")
    count = job.executions * job.samples_per_execution
    if count > SAMPLES:
        permutation = np.resize(permutation, count)
    return Data(
        x=np.load(folder / ("x.npy" if job.kind == "train" else "x64.npy")),
        y=np.load(folder / "y.npy"),
        order=permutation[:count].reshape(job.executions, job.steps, job.batch),
        weights=weights,
    )
