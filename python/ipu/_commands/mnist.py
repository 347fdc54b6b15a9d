# SPDX-License-Identifier: MIT
"""``python -m ipu mnist``: train the tutorial's model on real images.

The model is that of the pipelining tutorial: Flatten, then Dense 256, 128, 64, 32 and
10, trained by SGD with momentum.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any, NamedTuple

HELP = "train a small model on MNIST, through the C core"

_UNITS = (256, 128, 64, 32)
_LEARNING_RATE = 0.01
_MOMENTUM = 0.9


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(
            f"expected a positive integer, received {text!r}"
        )
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "--epochs", type=_positive, default=4, metavar="N", help="epochs (4)"
    )
    parser.add_argument(
        "--steps-per-epoch",
        type=_positive,
        default=None,
        metavar="N",
        help="batches of an epoch (500; with --pipeline whole updates)",
    )
    parser.add_argument(
        "--batch-size", type=_positive, default=32, metavar="N", help="images (32)"
    )
    parser.add_argument(
        "--steps-per-execution",
        type=_positive,
        default=None,
        metavar="N",
        help="batches of one device program; must divide those of an epoch "
        "(500, or an epoch where that is shorter)",
    )
    parser.add_argument(
        "--pipeline",
        type=_positive,
        default=1,
        metavar="N",
        help="stages, each on an IPU of its own (1: no pipeline)",
    )
    parser.add_argument(
        "--schedule",
        default="Grouped",
        metavar="NAME",
        help="of the pipeline: Grouped (the default), Interleaved, Sequential, GPipe, "
        "1F1B, Interleaved1F1B or ZeroBubble",
    )
    parser.add_argument(
        "--accumulate",
        type=_positive,
        default=None,
        metavar="N",
        help="batches of an update of the weights (1; with --pipeline as many as the "
        "schedule needs)",
    )
    parser.add_argument(
        "--threads", type=_positive, default=None, metavar="N", help="threads (cores)"
    )
    parser.add_argument(
        "--data",
        default=None,
        metavar="DIR",
        help="where the images are (else the Keras cache, a download, or Debian's "
        "Fashion-MNIST)",
    )


def _model(keras: Any) -> Any:
    layers = [keras.layers.Flatten(input_shape=(28, 28), name="flatten")]
    layers += [
        keras.layers.Dense(units, activation="relu", name=f"dense{units}")
        for units in _UNITS
    ]
    layers.append(keras.layers.Dense(10, name="logits"))
    return keras.Sequential(layers, name="mnist")


def _scaled(images: Any) -> Any:
    images = images.astype("float32")
    images /= 255.0
    return images


class _Plan(NamedTuple):
    """The way the model is trained.

    Attributes:
        stages: The number of its stages; 1: it is not a pipeline.
        schedule: Of the pipeline.
        device_mapping: The IPU of each stage.
        per_update: Batches of an update.
        steps: Batches of an epoch.
        per_execution: Batches of a program.
    """

    stages: int
    schedule: Any
    device_mapping: list[int]
    per_update: int
    steps: int
    per_execution: int

    @property
    def ipus(self) -> int:
        """How many IPUs a device must have."""
        return 1 << max(self.device_mapping).bit_length()


def _plan(options: argparse.Namespace) -> _Plan:
    """Settle what was not said."""
    from ipu._config.schedules import PipelineSchedule
    from ipu._reports.timetable import Timetable
    from ipu._text.errors import OpError

    stages = options.pipeline
    schedule = PipelineSchedule.parse(options.schedule)
    mapping = list(range(stages))
    if schedule is PipelineSchedule.InterleavedOneForwardOneBackward:
        ipus = max((n for n in range(2, stages) if stages % n == 0), default=stages)
        mapping = [stage % ipus for stage in mapping]
    per_update = options.accumulate
    if stages > 1:
        try:
            table = Timetable(schedule, stages, mapping, per_update)
        except OpError as error:
            raise ValueError(f"--pipeline {stages}: {error.message}") from None
        per_update = table.micro_batches
    per_update = per_update or 1
    steps = options.steps_per_epoch or max(500 // per_update, 1) * per_update
    k = options.steps_per_execution or _default_execution(steps, per_update)
    return _Plan(stages, schedule, mapping, per_update, steps, k)


def _default_execution(steps: int, per_update: int) -> int:
    """Return the longest program of 500 steps or less that divides an epoch into
    updates."""
    if steps % per_update != 0:
        raise ValueError(
            f"--steps-per-epoch must be a multiple of the {per_update} batches of an "
            f"update. Received: {steps}. Choose for example "
            f"{max(steps // per_update, 1) * per_update}."
        )
    updates = steps // per_update
    most = max(500 // per_update, 1)
    return per_update * max(
        k for k in range(1, min(most, updates) + 1) if updates % k == 0
    )


def _settle(model: Any, plan: _Plan) -> Any:
    """Give the model its stages; what they are, or None where it is not a pipeline."""
    import ipu

    if plan.stages == 1:
        model.set_gradient_accumulation_options(plan.per_update)
        return None
    stages = ipu.auto_stages(model, plan.stages)
    model.set_pipelining_options(
        plan.per_update, plan.device_mapping, pipeline_schedule=plan.schedule
    )
    return stages


def _prepare(model: Any, plan: _Plan) -> None:
    """Give the model its stages, and say what they are and when they run."""
    stages = _settle(model, plan)
    if stages is not None:
        print(f"\n{stages}\n\n{model.pipeline_schedule()}\n", flush=True)


def _compiled(keras: Any, plan: _Plan) -> Any:
    model = _model(keras)
    optimizer = keras.optimizers.SGD(_LEARNING_RATE, momentum=_MOMENTUM)
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=plan.per_execution,
    )
    return model


def untrained(options: argparse.Namespace) -> tuple[Any, tuple[Any, Any]]:
    """Return the model as it would be trained, and what a batch looks like."""
    import ipu
    from ipu import keras, tf

    plan = _plan(options)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = plan.ipus
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = _compiled(keras, plan)
        _settle(model, plan)
    images = tf.TensorSpec([options.batch_size, 28, 28])
    return model, (images, tf.TensorSpec([options.batch_size], tf.int32))


def run(options: argparse.Namespace) -> int:
    """Train, evaluate, and print what came of it.

    Returns:
        0, the exit status.
    """
    import ipu
    from ipu import keras, tf
    from ipu.keras.datasets import _cache

    if options.threads is not None:
        ipu.set_num_threads(options.threads)
    arrays, source, name = _cache.load_mnist_or_fashion(options.data)
    x_train: Any
    x_test: Any
    y_train: Any
    y_test: Any
    (x_train, y_train), (x_test, y_test) = arrays
    print(f"Data set: {source}, {len(x_train)} + {len(x_test)} images", flush=True)
    if options.batch_size > len(x_train):
        raise ValueError(
            f"--batch-size must be at most the number of images, {len(x_train)}. "
            f"Received: {options.batch_size}."
        )

    plan = _plan(options)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = plan.ipus
    config.configure_ipu_system()

    # the images are scaled once, so that a batch needs nothing but copying
    x_train, x_test = (_scaled(images) for images in (x_train, x_test))
    y_train, y_test = (labels.astype("int32") for labels in (y_train, y_test))
    data = tf.data.Dataset.from_tensor_slices((x_train, y_train))
    data = data.shuffle(10000).batch(options.batch_size, drop_remainder=True).repeat()

    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        model = _compiled(keras, plan)
        model.summary()
        _prepare(model, plan)
        started = time.perf_counter()
        history = model.fit(data, steps_per_epoch=plan.steps, epochs=options.epochs)
        seconds = time.perf_counter() - started

        if plan.stages > 1:  # one batch after another: any number of them is legal
            model.set_pipelining_options(schedule=type(plan.schedule).Sequential)
        # the largest batch up to 1000 that leaves no test image out
        batch = max(n for n in range(1, 1001) if len(x_test) % n == 0)
        model.compile(
            model.optimizer,
            model.loss,
            metrics=["accuracy"],
            steps_per_execution=len(x_test) // batch,
        )
        _, accuracy = model.evaluate(x_test, y_test, batch_size=batch, verbose=0)
    print(history)
    rate = options.epochs * plan.steps * options.batch_size / seconds
    digits = max(0, 2 - math.floor(math.log10(rate)))
    print(
        f"test accuracy {accuracy:.4f}  samples/s {rate:.{digits}f}  dataset {name}",
        flush=True,
    )
    return 0
