# SPDX-License-Identifier: MIT
"""``python -m ipu mnist``: train the tutorial's model on real images.

The model is that of the pipelining tutorial: Flatten, then Dense 256, 128, 64, 32 and
10, trained by SGD with momentum.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

__all__ = ["HELP", "add_arguments", "run"]

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
    """Declare the options of the command.

    Args:
        parser: The command's parser.
    """
    parser.add_argument(
        "--epochs", type=_positive, default=4, metavar="N", help="epochs (4)"
    )
    parser.add_argument(
        "--steps-per-epoch",
        type=_positive,
        default=500,
        metavar="N",
        help="batches of an epoch (500)",
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


def _default_execution(steps: int) -> int:
    """The longest program of 500 steps or less that divides an epoch."""
    return max(k for k in range(1, min(500, steps) + 1) if steps % k == 0)


def run(options: argparse.Namespace) -> int:
    """Train, evaluate, and print what came of it.

    Args:
        options: What ``add_arguments`` declared.

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

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    # the images are scaled once, so that a batch needs nothing but copying
    x_train, x_test = (_scaled(images) for images in (x_train, x_test))
    y_train, y_test = (labels.astype("int32") for labels in (y_train, y_test))
    data = tf.data.Dataset.from_tensor_slices((x_train, y_train))
    data = data.shuffle(10000).batch(options.batch_size, drop_remainder=True).repeat()

    steps = options.steps_per_epoch
    k = options.steps_per_execution or _default_execution(steps)
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        model = _model(keras)
        optimizer = keras.optimizers.SGD(_LEARNING_RATE, momentum=_MOMENTUM)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss, metrics=["accuracy"], steps_per_execution=k)
        model.summary()
        started = time.perf_counter()
        history = model.fit(data, steps_per_epoch=steps, epochs=options.epochs)
        seconds = time.perf_counter() - started

        # the largest batch up to 1000 that leaves no test image out
        batch = max(n for n in range(1, 1001) if len(x_test) % n == 0)
        model.compile(
            optimizer,
            loss,
            metrics=["accuracy"],
            steps_per_execution=len(x_test) // batch,
        )
        _, accuracy = model.evaluate(x_test, y_test, batch_size=batch, verbose=0)
    print(history)
    rate = options.epochs * steps * options.batch_size / seconds
    digits = max(0, 2 - math.floor(math.log10(rate)))
    print(
        f"test accuracy {accuracy:.4f}  samples/s {rate:.{digits}f}  dataset {name}",
        flush=True,
    )
    return 0
