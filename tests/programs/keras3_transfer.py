"""Weights taken over by the names of layers, frozen, then trained at a low rate."""

import json

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(5)
x = np.random.rand(96, 16, 16, 3).astype("float32")
y = (x[..., 0].mean(axis=(1, 2)) > 0.5).astype("int32")


def body(inputs):
    h = layers.Rescaling(1.0, name="rescaling")(inputs)
    h = layers.Conv2D(8, 3, activation="relu", name="conv_a")(h)
    h = layers.BatchNormalization(name="norm")(h)
    h = layers.Conv2D(8, 3, activation="relu", name="conv_b")(h)
    return layers.GlobalAveragePooling2D(name="pool")(h)


inputs = keras.Input(shape=(16, 16, 3))
first = keras.Model(inputs, layers.Dense(10, name="head")(body(inputs)), name="first")
first.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
first.fit(x, y, batch_size=32, epochs=1, verbose=0)
first.save_weights("first.weights.h5")
first.save("first.keras")

inputs = keras.Input(shape=(16, 16, 3))
augmented = keras.Sequential(
    [layers.RandomFlip("horizontal"), layers.RandomRotation(0.1)], name="augment"
)(inputs)
second = keras.Model(
    inputs, layers.Dense(1, name="logit")(body(augmented)), name="second"
)
second.get_layer("conv_a").set_weights(first.get_layer("conv_a").get_weights())
second.load_weights("first.weights.h5", skip_mismatch=True)
same = all(
    np.array_equal(a, b)
    for name in ("conv_a", "conv_b", "norm")
    for a, b in zip(
        first.get_layer(name).get_weights(), second.get_layer(name).get_weights()
    )
)

base = keras.models.load_model("first.keras")
features = keras.Model(base.input, base.get_layer("pool").output, name="features")
features.trainable = False
inputs = keras.Input(shape=(16, 16, 3))
h = features(inputs, training=False)
h = layers.Dropout(0.2)(h)
third = keras.Model(inputs, layers.Dense(1)(h))
third.compile(
    optimizer=keras.optimizers.Adam(),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[keras.metrics.BinaryAccuracy()],
)
third.summary(show_trainable=True, expand_nested=True)
frozen = [w.numpy() for w in features.weights]
third.fit(x, y, epochs=1, verbose=2)
still = all(np.array_equal(a, b) for a, b in zip(frozen, features.get_weights()))

features.trainable = True
for layer in features.layers[:-2]:
    layer.trainable = False
third.compile(
    optimizer=keras.optimizers.Adam(1e-5),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[keras.metrics.BinaryAccuracy()],
)
third.fit(x, y, epochs=1, verbose=2)
print(
    json.dumps(
        {
            "same": same,
            "still": still,
            "trainable": len(third.trainable_weights),
            "weights": len(third.weights),
        }
    )
)
