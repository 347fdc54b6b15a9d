# SPDX-License-Identifier: MIT
"""Digits by convolutions: a functional model on one simulated IPU, or on two.

python docs/examples/mnist_cnn.py --epochs 2
python docs/examples/mnist_cnn.py --pipeline
"""

import argparse

import numpy as np

import ipu
from ipu import keras, tf

layers = keras.layers


def digits(samples: int) -> tuple:
    """The first samples of MNIST; noise where it cannot be had."""
    try:
        (x, y), _ = keras.datasets.mnist.load_data()
    except OSError:
        print("MNIST is not on this computer: training on noise.")
        rng = np.random.default_rng(0)
        x, y = rng.integers(0, 256, (4096, 28, 28)), rng.integers(0, 10, 4096)
    return x[:samples, ..., None].astype("float32") / 255, y[:samples].astype("int32")


def build(pipeline: bool) -> keras.Model:
    """Two convolutions and two dense layers, in one stage or in two."""
    inputs = keras.Input((28, 28, 1))
    with keras.PipelineStage(0):
        x = layers.Conv2D(32, 3, activation="relu")(inputs)
        x = layers.MaxPooling2D()(x)
        x = layers.Conv2D(64, 3, activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    with keras.PipelineStage(1):
        x = layers.Flatten()(x)
        x = layers.Dense(128, activation="relu")(x)
        outputs = layers.Dense(10)(layers.Dropout(0.5)(x))
    model = keras.Model(inputs, outputs)
    if pipeline:
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=8,
            pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Grouped,
        )
    else:
        model.reset_pipeline_stage_assignment()
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=60000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--pipeline", action="store_true", help="on two IPUs")
    options = parser.parse_args()

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2 if options.pipeline else 1
    config.configure_ipu_system()

    x, y = digits(options.samples)
    steps = len(x) // options.batch_size // 8 * 8  # updates of eight batches
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(10000)
    data = data.batch(options.batch_size, drop_remainder=True).repeat()

    with ipu.ipu_strategy.IPUStrategy().scope():
        model = build(options.pipeline)
        model.compile(
            keras.optimizers.Adam(0.001),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            steps_per_execution=steps,
        )
        model.summary()
        model.fit(data, epochs=options.epochs, steps_per_epoch=steps)


if __name__ == "__main__":
    main()
