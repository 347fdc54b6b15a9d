# SPDX-License-Identifier: MIT
"""Accounts of well-known networks: what an IPU would take for their inference.

`python -m benchmarks.machine_networks` prints them at the batch sizes of published
results, in half precision; `--training` accounts a step of training of each. Nothing is
run. The networks are built of this project's Keras layers:

    resnet50   He and others, arXiv:1512.03385, with the stride in the 3x3 convolution
    bert_base  Devlin and others, arXiv:1810.04805: 12 layers, sequence 384, and the two
               outputs of question answering
    vit_base   Dosovitskiy and others, arXiv:2010.11929: 12 layers, patches of 16x16
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from ipu import keras, tf
from ipu._text.tables import as_text

BATCHES = {"resnet50": (1, 4, 16, 64), "bert_base": (1, 2, 4, 8), "vit_base": (1, 4, 8)}


def resnet50(size: int = 224, classes: int = 1000) -> Any:
    """Build a ResNet-50: `[batch, size, size, 3]` to classes."""
    layers = keras.layers

    def convolution(x: Any, filters: int, kernel: int, stride: int = 1) -> Any:
        x = layers.Conv2D(filters, kernel, stride, padding="same", use_bias=False)(x)
        return layers.BatchNormalization()(x)

    def block(x: Any, filters: int, stride: int, projects: bool) -> Any:
        y = layers.ReLU()(convolution(x, filters, 1))
        y = layers.ReLU()(convolution(y, filters, 3, stride))
        y = convolution(y, 4 * filters, 1)
        shortcut = convolution(x, 4 * filters, 1, stride) if projects else x
        return layers.ReLU()(layers.add([shortcut, y]))

    image = keras.Input((size, size, 3))
    x = layers.ReLU()(convolution(image, 64, 7, 2))
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    for group, (filters, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for i in range(count):
            x = block(x, filters, 2 if group > 0 and i == 0 else 1, i == 0)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(classes)(x))


def _encoder(x: Any, depth: int, width: int, heads: int, first_norm: bool) -> Any:
    """Layers of a transformer; normalised before each part, or after it."""
    layers = keras.layers

    def norm(x: Any) -> Any:
        return layers.LayerNormalization(epsilon=1e-6)(x)

    for _ in range(depth):
        y = norm(x) if first_norm else x
        y = layers.MultiHeadAttention(heads, width // heads)(y, y)
        x = layers.add([x, y]) if first_norm else norm(layers.add([x, y]))
        y = norm(x) if first_norm else x
        y = layers.Dense(4 * width, "gelu")(y)
        y = layers.Dense(width)(y)
        x = layers.add([x, y]) if first_norm else norm(layers.add([x, y]))
    return x


def bert_base(
    length: int = 384, depth: int = 12, width: int = 768, heads: int = 12
) -> Any:
    """Build a BERT: numbers of tokens `[batch, length]` to begins and ends of answers
    `[batch, length, 2]`."""
    layers = keras.layers
    tokens = keras.Input((length,), dtype="int32")
    x = layers.Embedding(30522, width)(tokens)
    x = _Positions(length, width)(x)
    x = layers.LayerNormalization(epsilon=1e-12)(x)
    x = _encoder(x, depth, width, heads, first_norm=False)
    return keras.Model(tokens, layers.Dense(2)(x))


def vit_base(
    size: int = 224, depth: int = 12, width: int = 768, heads: int = 12
) -> Any:
    """Build a vision transformer: `[batch, size, size, 3]` to 1000 classes."""
    layers = keras.layers
    image = keras.Input((size, size, 3))
    x = layers.Conv2D(width, 16, 16)(image)
    patches = (size // 16) ** 2
    x = layers.Reshape((patches, width))(x)
    x = _Positions(patches, width)(x)
    x = _encoder(x, depth, width, heads, first_norm=True)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-6)(x))
    return keras.Model(image, layers.Dense(1000)(x))


class _Positions(keras.layers.Layer):  # type: ignore[misc]
    """Add a weight for each place of a sequence."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.places = self.add_weight("places", (length, width))

    def call(self, x: Any) -> Any:
        return x + tf.cast(self.places, x.dtype)


NETWORKS: dict[str, Callable[[], Any]] = {
    "resnet50": resnet50,
    "bert_base": bert_base,
    "vit_base": vit_base,
}


def made(name: str) -> Any:
    """A network in half precision, compiled."""
    keras.mixed_precision.set_global_policy("float16")
    try:
        model = NETWORKS[name]()
    finally:
        keras.mixed_precision.set_global_policy("float32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", default="bow")
    parser.add_argument("--training", action="store_true")
    options = parser.parse_args()
    rows = [
        ["network", "batch", "time", "samples/s", "fullest tile", "estimated", "took"]
    ]
    for name, batches in BATCHES.items():
        model = made(name)
        for batch in batches:
            begin = time.perf_counter()
            account = model.account(
                batch_size=batch, training=options.training, machine=options.machine
            )
            took = time.perf_counter() - begin
            memory = account.memory
            rows.append(
                [
                    name,
                    str(batch),
                    f"{1e3 * account.seconds:.3f} ms",
                    f"{account.samples_per_second or 0:,.0f}",
                    f"{memory.max_tile / 1024:.0f} KiB"
                    + ("" if memory.fits else ": does not fit"),
                    f"{account.estimated_share:.0%}",
                    f"{1e3 * took:.0f} ms",
                ]
            )
    print(as_text(rows, left=1))


if __name__ == "__main__":
    main()
