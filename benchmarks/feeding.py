# SPDX-License-Identifier: MIT
"""What data sets cost `fit`: `python -m benchmarks.feeding`.

A convolutional network is trained from arrays, and from data sets whose elements take
more and more to make: a `map` of the package's ops, a `map` of a Python function, JPEG
files that are decoded, and both. Epochs alternate. Beside `fit` the data set is drained
alone, and the processor time of a batch is taken, of both. That gives a bound of the
ratio to `fit` from arrays: a step takes no less than

- the data set takes alone (*data set*), nor
- the cores take for the work of both (*cores*): data sets are made on the cores that
  train, so that two cores which are busy training have nothing left for Python.

0.9 of what the bound allows is wanted.
"""

from __future__ import annotations

import argparse
import io
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ipu
from benchmarks.tables import Output, Table, add_options
from ipu import keras, tf

WANTED = 0.9
BATCH, STEPS, EDGE, CLASSES = 32, 64, 32, 10


class Source(NamedTuple):
    """A name, and what makes the data set of an epoch."""

    name: str
    make: Callable[[], Any]


class Cost(NamedTuple):
    """Seconds of a batch on the clock, and of all cores."""

    clock: float
    cores: float


def images() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    count = BATCH * STEPS
    # smooth, so that JPEG has something to compress
    small = rng.integers(0, 256, (count, EDGE // 4, EDGE // 4, 3), dtype=np.uint8)
    large = small.repeat(4, 1).repeat(4, 2)
    return large, rng.integers(0, CLASSES, count).astype(np.int32)


def mirrored(x: Any) -> Any:
    """A Python function of a batch, as programs augment images with NumPy."""
    flips = x[:, 0, 0, 0] > 0.5
    x = np.where(flips[:, None, None, None], x[:, :, ::-1], x)
    return np.clip(x * np.float32(1.1) - np.float32(0.05), 0, 1)


def augment(x: Any, y: Any) -> tuple[Any, Any]:
    changed = tf.numpy_function(mirrored, [x], tf.float32)
    return tf.ensure_shape(changed, x.shape), y


def scale(x: Any, y: Any) -> tuple[Any, Any]:
    return tf.cast(x, tf.float32) / 255.0, y


def decode(path: Any, y: Any) -> tuple[Any, Any]:
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.ensure_shape(image, (EDGE, EDGE, 3)), y


def sources(folder: Path) -> list[Source]:
    from PIL import Image

    x, y = images()
    scaled = x.astype(np.float32) / 255
    paths = [str(folder / f"{number}.jpeg") for number in range(len(x))]
    for path, pixels in zip(paths, x, strict=True):
        encoded = io.BytesIO()
        Image.fromarray(pixels).save(encoded, "jpeg")
        Path(path).write_bytes(encoded.getvalue())
    data = tf.data.Dataset

    def batches(dataset: Any) -> Any:
        return dataset.batch(BATCH, drop_remainder=True)

    def of_files() -> Any:
        named = data.from_tensor_slices((np.array(paths), y))
        return batches(named.map(decode, tf.data.AUTOTUNE)).map(scale)

    plain = batches(data.from_tensor_slices((x, y))).map(scale)
    return [
        Source("arrays", lambda: (scaled, y)),
        Source("map of ops", lambda: plain.prefetch(2)),
        Source("Python map", lambda: plain.map(augment).prefetch(2)),
        Source("JPEG files", lambda: of_files().prefetch(2)),
        Source("JPEG files, Python map", lambda: of_files().map(augment).prefetch(2)),
    ]


def create_model() -> keras.Model:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((EDGE, EDGE, 3)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dense(CLASSES),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, steps_per_execution=STEPS)
    return model


def timed(work: Callable[[], object]) -> Cost:
    clock, cores = time.perf_counter(), time.process_time()
    work()
    return Cost(
        (time.perf_counter() - clock) / STEPS, (time.process_time() - cores) / STEPS
    )


def fit(model: Any, source: Source) -> Cost:
    made = source.make()
    x, y = made if isinstance(made, tuple) else (made, None)
    batch = None if y is None else BATCH
    return timed(lambda: model.fit(x, y, batch_size=batch, shuffle=False, verbose=0))


def drain(source: Source) -> Cost:
    made = source.make()
    if isinstance(made, tuple):
        return Cost(0.0, 0.0)
    return timed(lambda: sum(1 for _ in made))


def median(costs: list[Cost]) -> Cost:
    clocks, cores = zip(*costs, strict=True)
    return Cost(statistics.median(clocks), statistics.median(cores))


def rows_of(
    fits: dict[str, Cost], alone: dict[str, Cost], threads: int
) -> list[tuple[list[str], float]]:
    """A row of the table for each source, and its share of the bound."""
    rows = []
    own = fits["arrays"]
    for name, found in fits.items():
        made = alone[name]
        bounds = {
            "-": own.clock,
            "data set": made.clock,
            "cores": (own.cores + made.cores) / threads,
        }
        by = max(bounds, key=lambda one: bounds[one])
        share = bounds[by] / found.clock
        rate = "-" if made.clock == 0 else f"{1 / made.clock:.0f}"
        cells = [name, rate, f"{1 / found.clock:.0f}", f"{own.clock / found.clock:.2f}"]
        cells += [f"{own.clock / bounds[by]:.2f}", by, f"{share:.2f}"]
        rows.append((cells, share))
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.feeding",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--threads", type=int, default=2, help="%(default)s")
    parser.add_argument("--rounds", type=int, default=7, help="epochs (%(default)s)")
    add_options(parser)
    options = parser.parse_args(arguments)
    output = Output(options, "benchmarks.feeding")
    ipu.set_num_threads(options.threads)
    fits: dict[str, list[Cost]] = {}
    alone: dict[str, list[Cost]] = {}
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        model = create_model()
    with tempfile.TemporaryDirectory() as folder:
        found = sources(Path(folder))
        for turn in range(options.rounds + 1):  # the first one compiles
            for source in found:
                with strategy.scope():
                    trained = fit(model, source)
                costs = trained, drain(source)
                if turn > 0:
                    fits.setdefault(source.name, []).append(costs[0])
                    alone.setdefault(source.name, []).append(costs[1])
    rows = rows_of(
        {name: median(costs) for name, costs in fits.items()},
        {name: median(costs) for name, costs in alone.items()},
        options.threads,
    )
    columns = ["fit from", "batches/s alone", "batches/s in fit", "to arrays"]
    columns += ["bound", "by", "share of the bound"]
    title = f"Fed by data sets, batches of {BATCH} images, {options.threads} threads"
    output.table(Table(title, columns, [cells for cells, _ in rows]))
    return 1 if any(share < WANTED for _, share in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
