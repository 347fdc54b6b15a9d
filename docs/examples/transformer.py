# SPDX-License-Identifier: MIT
"""A small transformer that learns to turn sequences of digits around.

python docs/examples/transformer.py --epochs 3
python docs/examples/transformer.py --pipeline
"""

import argparse

import numpy as np

import ipu
from ipu import keras, tf

layers = keras.layers

DIGITS = 10


class Positions(layers.Layer):
    """Adds a vector that is learned for each place."""

    def build(self, input_shape: tuple) -> None:
        self.table = self.add_weight("table", input_shape[1:], initializer="uniform")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return inputs + self.table


def block(x: tf.Tensor, width: int, heads: int) -> tf.Tensor:
    """Attention and two dense layers, each around a skip."""
    normal = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(heads, width // heads)(normal, normal)
    normal = layers.LayerNormalization()(x)
    wide = layers.Dense(4 * width, activation="gelu")(normal)
    return x + layers.Dense(width)(wide)


def build(length: int, width: int, blocks: int) -> keras.Model:
    """The first half of the blocks in stage 0, the rest in stage 1."""
    inputs = keras.Input((length,), dtype="int32")
    with keras.PipelineStage(0):
        x = Positions()(layers.Embedding(DIGITS, width)(inputs))
        for _ in range(blocks // 2):
            x = block(x, width, heads=4)
    with keras.PipelineStage(1):
        for _ in range(blocks - blocks // 2):
            x = block(x, width, heads=4)
        outputs = layers.Dense(DIGITS)(layers.LayerNormalization()(x))
    return keras.Model(inputs, outputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--length", type=int, default=16, help="of a sequence")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--pipeline", action="store_true", help="on two IPUs")
    options = parser.parse_args()

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2 if options.pipeline else 1
    config.configure_ipu_system()

    rng = np.random.default_rng(0)
    x = rng.integers(0, DIGITS, (options.samples, options.length), dtype=np.int32)
    steps = len(x) // 32 // 4 * 4  # updates of four batches, where there are stages
    data = tf.data.Dataset.from_tensor_slices((x, x[:, ::-1].copy()))
    data = data.shuffle(len(x)).batch(32, drop_remainder=True).repeat()

    with ipu.ipu_strategy.IPUStrategy().scope():
        model = build(options.length, options.width, options.blocks)
        if options.pipeline:
            model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        else:
            model.reset_pipeline_stage_assignment()
        model.compile(
            keras.optimizers.Adam(0.001),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            steps_per_execution=steps,
        )
        model.fit(data, epochs=options.epochs, steps_per_epoch=steps)


if __name__ == "__main__":
    main()
