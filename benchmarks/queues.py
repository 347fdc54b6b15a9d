# SPDX-License-Identifier: MIT
"""`python -m benchmarks.queues`: what queues and a training loop of one's own cost.

Two figures, each of ipu alone:

- From the device's enqueue to a Python thread that waits for the result. The device
  waits for an element that a generator stamps with the time; it enqueues the element at
  once, and the thread looks at the clock when it has it. So the figure has the way
  through the infeed in it too. In the second row the device goes on with matrix
  products on all threads after the enqueue, and the waiting thread has to get a core.
- A training loop in a `tf.function` (iterator, tape, `apply_gradients`, outfeed) and
  `fit` of the same model: an epoch of one, then one of the other, and so on.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import ipu
from benchmarks.tables import Output, Table, add_options
from ipu import keras, loops, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue, IPUOutfeedQueueIterator
from ipu.ipu_strategy import IPUStrategy

LATENCY_LIMIT_S = 1e-3
RATIO_LIMIT = 0.95
BATCH = 32


def latencies(count: int, work: int) -> list[float]:
    """Seconds from the stamp of an element to its receipt.

    Args:
        count: How many are measured.
        work: Matrix products of 256 rows that follow each enqueue.
    """
    stamps = [0.0] * count

    def generate() -> Iterator[np.int32]:
        for i in range(count):
            time.sleep(0.002 if work == 0 else 0.006)
            stamps[i] = time.perf_counter()
            yield np.int32(i)

    dataset = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec((), tf.int32)
    )
    infeed, outfeed = IPUInfeedQueue(dataset, prefetch_depth=1), IPUOutfeedQueue()
    square = tf.Variable(np.eye(256, dtype=np.float32))

    def body(x: Any) -> None:
        outfeed.enqueue(x)
        for _ in range(work):
            square.assign(tf.matmul(square, square))

    program = tf.function(lambda n: loops.repeat(n, body, [], infeed))
    program.get_concrete_function(np.int32(count))
    received = []

    def wait() -> None:
        for _ in IPUOutfeedQueueIterator(outfeed, wait=True):
            received.append(time.perf_counter())

    reader = threading.Thread(target=wait)
    reader.start()
    _ = infeed.initializer
    program(np.int32(count))
    reader.join()
    _ = infeed.deleter
    pairs = zip(received, stamps, strict=True)
    return [end - start for end, start in pairs][5:]


def digits(samples: int) -> tf.data.Dataset:
    """As many samples in the form of MNIST, through the pipeline people write."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (samples, 28, 28), dtype=np.uint8)
    y = rng.integers(0, 10, samples).astype(np.int32)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(samples, seed=1)
    dataset = dataset.batch(BATCH, drop_remainder=True)
    return dataset.map(lambda d, t: (tf.cast(d, tf.float32) / 255.0, t)).repeat()


def create_model() -> keras.Model:
    tf.random.set_seed(1)
    return keras.Sequential(
        [
            keras.layers.Flatten(input_shape=(28, 28)),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


class Rounds(keras.callbacks.Callback):
    """Times epochs of ``fit``, and a round of the other side after each."""

    def __init__(self, other: Any) -> None:
        super().__init__()
        self.other = other
        self.times: list[tuple[float, float]] = []
        self.start = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        middle = time.perf_counter()
        self.other()
        end = time.perf_counter()
        self.times.append((middle - self.start, end - middle))


def loop_against_fit(steps: int, rounds: int) -> tuple[float, float, float]:
    """Steps per second of ``fit`` and of the loop, and the median of their ratios."""
    strategy = IPUStrategy()
    loss_object = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with strategy.scope():
        fitted, model = create_model(), create_model()
        fitted.compile("sgd", loss_object, steps_per_execution=steps)
        optimizer = keras.optimizers.SGD()
        outfeed = IPUOutfeedQueue()
        iterator = iter(digits(60 * BATCH))

    @tf.function(jit_compile=True)
    def training_loop(iterator: Any) -> None:
        for _ in tf.range(steps):
            features, labels = next(iterator)
            with tf.GradientTape() as tape:
                predictions = model(features, training=True)
                loss = loss_object(labels, predictions)
            gradients = tape.gradient(loss, model.trainable_variables)
            pairs = zip(gradients, model.trainable_variables, strict=True)
            optimizer.apply_gradients(pairs)
            outfeed.enqueue(loss)

    def epoch() -> None:
        strategy.run(training_loop, args=(iterator,))
        sum(outfeed) / steps

    epoch()
    timer = Rounds(epoch)
    fitted.fit(
        digits(60 * BATCH),
        steps_per_epoch=steps,
        epochs=rounds + 2,
        verbose=0,
        callbacks=[timer],
    )
    times = timer.times[2:]
    fit = statistics.median(steps / one for one, _ in times)
    loop = statistics.median(steps / other for _, other in times)
    return fit, loop, statistics.median(one / other for one, other in times)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queues")
    add = parser.add_argument
    add("--threads", type=int, default=2, help="threads of the core (%(default)s)")
    add("--count", type=int, default=300, help="results that are timed (%(default)s)")
    add("--steps", type=int, default=500, help="steps of an execution (%(default)s)")
    add("--rounds", type=int, default=15, help="epochs of each side (%(default)s)")
    add_options(parser)
    options = parser.parse_args(arguments)
    output = Output(options, "benchmarks.queues")
    ipu.set_num_threads(options.threads)
    rows = []
    missed = 0
    for what, work in (("waiting", 0), ("computing", 6)):
        found = sorted(latencies(options.count, work))
        median, late = statistics.median(found), found[int(0.95 * len(found))]
        missed += median > LATENCY_LIMIT_S
        name = f"from enqueue to a waiting thread, device {what}, microseconds"
        rows.append([name, f"{median * 1e6:.0f}", f"{late * 1e6:.0f}", "-", "1000"])
    fit, loop, ratio = loop_against_fit(options.steps, options.rounds)
    missed += ratio < RATIO_LIMIT
    name = "steps a second, a training loop of one's own to `fit`"
    rows.append(
        [name, f"{loop:.0f} to {fit:.0f}", "-", f"{ratio:.2f}", f"{RATIO_LIMIT}"]
    )
    title = f"Queues and loops, {options.threads} threads"
    columns = ["what", "median", "95 %", "ratio", "to reach"]
    output.table(Table(title, columns, rows))
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
