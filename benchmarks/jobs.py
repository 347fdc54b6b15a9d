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

from benchmarks.image_networks import IMAGES
from benchmarks.networks import NETWORKS, Network

LEARNING_RATE = 0.01
MOMENTUM = 0.9
SAMPLES = 60_000
SHUFFLE_BUFFER = 10_000
CLASSES = 10
COMPARED_STEPS = 50

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

    `kind` is `train` (samples gathered from one preloaded array), `forward` (the same
    without gradients and updates), `fit` (training fed by the framework's input
    pipeline) or `draw` (the pipeline alone). `layers` are those of a dense model; any
    other one is named by `model` (networks.py).
    """

    name: str
    layers: tuple[int, ...]
    batch: int
    steps: int
    kind: str = "train"
    model: str = ""

    @property
    def network(self) -> Network | None:
        return {**NETWORKS, **IMAGES}[self.model] if self.model else None

    @property
    def samples(self) -> int:
        return self.network.samples if self.network else SAMPLES

    @property
    def compared_steps(self) -> int:
        """How many losses are compared with the reference, from the first one on."""
        if self.kind not in ("train", "forward"):
            return 0
        most = self.network.compared_steps if self.network else COMPARED_STEPS
        return min(most, self.steps)

    @property
    def executions(self) -> int:
        """Executions in one pass over the permutation, each with new samples."""
        return max(1, self.samples // (self.batch * self.steps))

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
        """Arithmetic of the matrix products alone: of dense layers all else is under
        two per cent."""
        if self.network:
            return self.network.flops(self.kind == "train")
        return sum(gemm.flops for gemm in self.gemms()) / self.batch


JOBS = (
    Job("tutorial-32", TUTORIAL_LAYERS, 32, 500),
    Job("tutorial-512", TUTORIAL_LAYERS, 512, 117),
    Job("wide-128", WIDE_LAYERS, 128, 117),
    Job("pipeline-32", TUTORIAL_LAYERS, 32, 500, "fit"),
    Job("pipeline-32", TUTORIAL_LAYERS, 32, 500, "draw"),
    Job("cifar-8", (), 8, 50, "train", "cifar"),
    Job("cifar-8", (), 8, 50, "forward", "cifar"),
    Job("cifar-64", (), 64, 16, "train", "cifar"),
    Job("cifar-64", (), 64, 16, "forward", "cifar"),
    Job("residual-32", (), 32, 16, "train", "residual"),
    Job("residual-32", (), 32, 16, "forward", "residual"),
    Job("lstm-32", (), 32, 20, "train", "lstm"),
    Job("lstm-32", (), 32, 20, "forward", "lstm"),
    Job("gru-32", (), 32, 20, "train", "gru"),
    Job("gru-32", (), 32, 20, "forward", "gru"),
    Job("transformer-16", (), 16, 8, "train", "transformer"),
    Job("transformer-16", (), 16, 8, "forward", "transformer"),
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


TRAINED = ("train", "fit", "forward")
COMPILED = ("train", "forward")

SIDES = (
    SideName("ipu", "ipu Keras fit", "ipu_side", "fit", False, ("train", "fit")),
    SideName("ipu-loop", "ipu loop", "ipu_side", "loop", False, COMPILED),
    SideName("ipu-data", "ipu.tf.data", "ipu_side", "draw", False, ("draw",)),
    SideName("torch", "torch eager", "torch_side", "eager", True, TRAINED),
    SideName("torch-compile", "torch.compile", "torch_side", "compile", True, COMPILED),
    SideName("torch-data", "torch DataLoader", "torch_side", "draw", True, ("draw",)),
    SideName("jax", "jax scan", "jax_side", "scan", True, COMPILED),
    SideName("tf-jit", "TF compiled loop", "tensorflow_side", "jit", True, COMPILED),
    SideName("tf-loop", "TF plain loop", "tensorflow_side", "plain", True, COMPILED),
    SideName("tf-data", "tf.data", "tensorflow_side", "draw", True, ("draw",)),
    SideName("keras", "Keras fit", "keras_side", "fit", True, TRAINED),
    SideName("keras-plain", "Keras, no XLA", "keras_side", "plain", True, COMPILED),
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
    """Writes the job's initial weights; a network's samples; for pipelines, the
    tutorial's float64 x."""
    random = np.random.default_rng(7)
    if job.network:
        for index, weight in enumerate(job.network.make_weights(random)):
            np.save(folder / f"{job.model}-w{index}.npy", weight)
        x, y = job.network.make_samples(random)
        np.save(folder / f"{job.model}-x.npy", x)
        np.save(folder / f"{job.model}-y.npy", y)
        return
    for layer, (rows, columns) in enumerate(itertools.pairwise(job.layers)):
        bound = np.sqrt(6.0 / (rows + columns))
        weights = random.uniform(-bound, bound, (rows, columns)).astype(np.float32)
        np.save(folder / f"{job.name}-w{layer}.npy", weights)
    wide = folder / "x64.npy"
    if job.kind != "train" and not wide.exists():
        np.save(wide, np.load(folder / "x.npy").astype(np.float64))


def load_data(order: Order) -> Data:
    """Reads the shared files; biases of dense layers start at zero."""
    folder, job = Path(order.folder), order.job
    permutation = np.load(folder / "permutation.npy")
    permutation = permutation[permutation < job.samples]
    count = job.executions * job.samples_per_execution
    if count > job.samples:
        permutation = np.resize(permutation, count)
    x = "x.npy" if job.kind == "train" else "x64.npy"
    return Data(
        x=np.load(folder / (f"{job.model}-x.npy" if job.model else x)),
        y=np.load(folder / (f"{job.model}-y.npy" if job.model else "y.npy")),
        order=permutation[:count].reshape(job.executions, job.steps, job.batch),
        weights=load_weights(folder, job),
    )


def load_weights(folder: Path, job: Job) -> list[NDArray[np.float32]]:
    if job.model:
        files = range(len(list(folder.glob(f"{job.model}-w*.npy"))))
        return [np.load(folder / f"{job.model}-w{index}.npy") for index in files]
    weights: list[NDArray[np.float32]] = []
    for layer, columns in enumerate(job.layers[1:]):
        weights.append(np.load(folder / f"{job.name}-w{layer}.npy"))
        weights.append(np.zeros(columns, np.float32))
    return weights
