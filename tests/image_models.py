# SPDX-License-Identifier: MIT
"""Models for images as a user writes them: `keras` is ipu's, or Keras's own, which made
the numbers of ``image_numbers.json``.

``PYTHONPATH=. python image_models.py`` in this folder, with Keras on TensorFlow
installed, writes them anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS = Path(__file__).with_name("image_numbers.json")
STEPS, BATCH, CLASSES = 4, 6, 5


def resnet18(keras: Any, width: int = 8) -> Any:
    """He et al., 2015, table 1, of fewer channels; a subclassed model.

    Source: "Deep Residual Learning for Image Recognition", https://arxiv.org/abs/1512.03385
    """
    L = keras.layers

    class Block(L.Layer):  # type: ignore[misc]
        """Two convolutions around a skip, which is projected where sizes change."""

        def __init__(self, filters: int, strides: int, projects: bool) -> None:
            super().__init__()
            self.conv1 = conv(filters, 3, strides)
            self.norm1 = L.BatchNormalization()
            self.conv2 = conv(filters, 3)
            self.norm2 = L.BatchNormalization()
            self.projects = projects
            if projects:
                self.project = conv(filters, 1, strides)
                self.project_norm = L.BatchNormalization()

        def call(self, x: Any, training: Any = None) -> Any:
            y = keras.activations.relu(self.norm1(self.conv1(x), training=training))
            y = self.norm2(self.conv2(y), training=training)
            if self.projects:
                x = self.project_norm(self.project(x), training=training)
            return keras.activations.relu(x + y)

    def conv(filters: int, window: int, strides: int = 1) -> Any:
        return L.Conv2D(filters, window, strides, padding="same", use_bias=False)

    class ResNet18(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv = conv(width, 7, 2)
            self.norm = L.BatchNormalization()
            self.pool = L.MaxPooling2D(3, 2, padding="same")
            self.blocks = []
            for stage in range(4):
                strides = 1 if stage == 0 else 2
                filters = width << stage
                self.blocks.append(Block(filters, strides, stage > 0))
                self.blocks.append(Block(filters, 1, False))
            self.mean = L.GlobalAveragePooling2D()
            self.classes = L.Dense(CLASSES)

        def call(self, x: Any, training: Any = None) -> Any:
            x = keras.activations.relu(self.norm(self.conv(x), training=training))
            x = self.pool(x)
            for block in self.blocks:
                x = block(x, training=training)
            return self.classes(self.mean(x))

    return ResNet18()


def unet(keras: Any, width: int = 6) -> Any:
    """Ronneberger et al., 2015, of three levels; a functional model with a class for
    each pixel.

    Source: "U-Net", https://arxiv.org/abs/1505.04597
    """
    L = keras.layers

    def level(x: Any, filters: int) -> Any:
        for _ in range(2):
            x = L.Conv2D(filters, 3, padding="same", activation="relu")(x)
        return x

    inputs = keras.Input((16, 16, 3))
    x, skips = inputs, []
    for filters in (width, 2 * width):
        x = level(x, filters)
        skips.append(x)
        x = L.MaxPooling2D()(x)
    x = level(x, 4 * width)
    x = L.Conv2DTranspose(2 * width, 2, 2)(x)
    x = level(L.Concatenate()([x, skips[1]]), 2 * width)
    x = L.UpSampling2D(interpolation="bilinear")(x)
    x = level(L.Concatenate()([x, skips[0]]), width)
    return keras.Model(inputs, L.Conv2D(CLASSES, 1)(x))


MODELS = {"resnet18": (resnet18, 40, False), "unet": (unet, 16, True)}


def losses(keras: Any, name: str) -> list[float]:
    """Before training; of each step of it."""
    build, size, each_pixel = MODELS[name]
    random = np.random.default_rng(11)
    x = random.random((STEPS * BATCH, size, size, 3), dtype=np.float32)
    y = random.integers(0, CLASSES, len(x), dtype=np.int32)
    if each_pixel:
        y = (x[..., 0] * np.float32(CLASSES)).astype(np.int32)
    model = build(keras)
    model.compile(
        keras.optimizers.SGD(0.01, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model(x[:BATCH])  # makes the weights
    for variable in model.trainable_variables + model.non_trainable_variables:
        variable.assign(given(variable, random))
    found = [float(model.evaluate(x, y, batch_size=BATCH, verbose=0))]
    for i in range(0, len(x), BATCH):
        batch = slice(i, i + BATCH)
        history = model.fit(x[batch], y[batch], batch_size=BATCH, verbose=0)
        found.append(float(history.history["loss"][-1]))
    return found


def given(variable: Any, random: np.random.Generator) -> Any:
    """Kernels as He et al. draw them; vectors near 1 or 0, as they were."""
    shape = tuple(variable.shape)
    if len(shape) == 1:
        noise = 0.1 * random.uniform(-1.0, 1.0, shape)
        return (np.asarray(variable) + noise).astype(np.float32)
    bound = np.sqrt(6.0 / np.prod(shape[:-1]))
    return random.uniform(-bound, bound, shape).astype(np.float32)


if __name__ == "__main__":
    import keras as original

    note = (
        "For each model of image_models.py, as Keras 3.15 on TensorFlow 2.21 computes "
        "it there: the mean loss before training, then that of each step of it."
    )
    found: dict[str, Any] = {"note": note}
    found |= {name: losses(original, name) for name in MODELS}
    NUMBERS.write_text(json.dumps(found, indent=1) + "\n")
