# SPDX-License-Identifier: MIT
"""Training in float16: weights in float32, and a loss that is scaled.

python docs/examples/mixed_precision.py
python docs/examples/mixed_precision.py --scaling als
"""

import argparse

import numpy as np

import ipu
from ipu import keras, tf

layers = keras.layers


def spirals(samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of two spirals, with noise, and which one they are of."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, samples, dtype=np.int32)
    angle = 3 * np.pi * np.sqrt(rng.random(samples))
    turned = angle + np.pi * y
    points = np.stack([np.cos(turned), np.sin(turned)], 1) * angle[:, None]
    points += rng.normal(0, 0.3, points.shape)
    return points.astype(np.float32), y


def optimizer_of(scaling: str) -> keras.optimizers.Optimizer:
    """Adam with a factor for the loss that is fixed, or that adjusts itself."""
    adam = keras.optimizers.Adam(0.005)
    if scaling == "fixed":
        return keras.mixed_precision.LossScaleOptimizer(adam, False, 1024)
    if scaling == "als":
        return keras.optimizers.ALSOptimizer(adam, update_frequency=16)
    return keras.mixed_precision.LossScaleOptimizer(adam)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scaling", choices=["dynamic", "fixed", "als"])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--width", type=int, default=128)
    options = parser.parse_args()

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    x, y = spirals(options.samples)
    steps = len(x) // 64
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x))
    data = data.batch(64, drop_remainder=True).repeat()

    keras.mixed_precision.set_global_policy("mixed_float16")
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = keras.Sequential(
            [
                layers.Dense(options.width, "relu", input_shape=(2,)),
                layers.Dense(options.width, "relu"),
                layers.Dense(options.width, "relu"),
                layers.Dense(2),
                layers.Activation("softmax", dtype="float32"),  # losses want digits
            ]
        )
        model.compile(
            optimizer_of(options.scaling or "dynamic"),
            "sparse_categorical_crossentropy",
            metrics=["accuracy"],
            steps_per_execution=steps,
        )
        model.fit(data, epochs=options.epochs, steps_per_epoch=steps)
    first = model.layers[0]
    print(f"computed in {first.compute_dtype}, weights in {first.kernel.dtype.name}")
    if options.scaling == "als":
        factor = model.optimizer.loss_scaling_factor
    else:
        factor = model.optimizer.loss_scale
    print(f"the loss was scaled by {float(factor):g} in the end")


if __name__ == "__main__":
    main()
