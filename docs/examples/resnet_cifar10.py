# SPDX-License-Identifier: MIT
"""A residual network on images of CIFAR-10's format.

python docs/examples/resnet_cifar10.py --epochs 2
python docs/examples/resnet_cifar10.py --random --samples 2048 --pipeline

Source: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", 2015,
section 4.2: 6 n + 2 layers.
"""

import argparse

import numpy as np

import ipu
from ipu import keras, tf

layers = keras.layers


def images(samples: int, random: bool) -> tuple:
    """Images and classes: CIFAR-10's, or random ones whose colour is their class."""
    if not random:
        (x, y), _ = keras.datasets.cifar10.load_data()
        return x[:samples].astype("float32") / 255, y[:samples, 0].astype("int32")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, samples, dtype=np.int32)
    x = rng.random((samples, 32, 32, 3), np.float32)
    return x * np.float32(0.5) + y[:, None, None, None] / np.float32(20), y


def convolution(x: tf.Tensor, filters: int, stride: int = 1) -> tf.Tensor:
    x = layers.Conv2D(filters, 3, stride, padding="same", use_bias=False)(x)
    return layers.BatchNormalization()(x)


def residual(x: tf.Tensor, filters: int, stride: int) -> tf.Tensor:
    """Two convolutions around a skip, which is projected where sizes change."""
    inner = layers.ReLU()(convolution(x, filters, stride))
    inner = convolution(inner, filters)
    if stride != 1 or x.shape[-1] != filters:
        x = layers.Conv2D(filters, 1, stride, use_bias=False)(x)
        x = layers.BatchNormalization()(x)
    return layers.ReLU()(layers.Add()([x, inner]))


def build(n: int) -> keras.Model:
    """Stages 0 and 1 have about the same work."""
    inputs = keras.Input((32, 32, 3))
    with keras.PipelineStage(0):
        x = layers.ReLU()(convolution(inputs, 16))
        for _ in range(n):
            x = residual(x, 16, 1)
    with keras.PipelineStage(1):
        for filters in (32, 64):
            for i in range(n):
                x = residual(x, filters, 2 if i == 0 else 1)
        outputs = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, outputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=3, help="blocks of each size")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--samples", type=int, default=50000)
    parser.add_argument("--random", action="store_true", help="random images")
    parser.add_argument("--pipeline", action="store_true", help="on two IPUs")
    options = parser.parse_args()

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2 if options.pipeline else 1
    config.configure_ipu_system()

    x, y = images(options.samples, options.random)
    steps = len(x) // 32 // 4 * 4  # updates of four batches, where there are stages
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(10000)
    data = data.batch(32, drop_remainder=True).repeat()

    with ipu.ipu_strategy.IPUStrategy().scope():
        model = build(options.n)
        if options.pipeline:
            model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        else:
            model.reset_pipeline_stage_assignment()
        model.compile(
            keras.optimizers.SGD(0.1, 0.9),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            steps_per_execution=steps,
        )
        model.fit(data, epochs=options.epochs, steps_per_epoch=steps)


if __name__ == "__main__":
    main()
