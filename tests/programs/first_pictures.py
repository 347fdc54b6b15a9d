"""A functional network of convolutions, trained on arrays (first generation)."""

import json

import numpy as np
import tensorflow as tf
from tensorflow.keras.layers import (
    Activation,
    Conv2D,
    Dense,
    Flatten,
    Input,
    MaxPooling2D,
)
from tensorflow.python import ipu

CLASSES, BATCH, STEPS = 3, 8, 128

rng = np.random.default_rng(8)
labels = rng.integers(0, CLASSES, BATCH * STEPS)
pictures = rng.normal(0.0, 0.3, (BATCH * STEPS, 16, 16, 3)).astype(np.float32)
for number, label in enumerate(labels):
    pictures[number, :, :, label] += 0.5  # a class is a colour
one_hot = tf.keras.utils.to_categorical(labels, CLASSES)


def create_model():
    inputs = Input(shape=(16, 16, 3))
    x = Conv2D(8, (3, 3), padding="same")(inputs)
    x = Activation("relu")(x)
    x = Conv2D(8, (3, 3))(x)
    x = Activation("relu")(x)
    x = MaxPooling2D(pool_size=(2, 2))(x)
    x = ipu.keras.layers.Dropout(0.25)(x)
    x = Flatten()(x)
    x = Dense(16)(x)
    x = Activation("relu")(x)
    x = ipu.keras.layers.Dropout(0.5)(x)
    x = Dense(CLASSES)(x)
    x = Activation("softmax")(x)
    return ipu.keras.Model(inputs=inputs, outputs=x)


cfg = ipu.utils.create_ipu_config(profiling=False)
cfg = ipu.utils.auto_select_ipus(cfg, 1)
ipu.utils.configure_ipu_system(cfg)

strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    model = create_model()
    lines = []
    model.summary(print_fn=lines.append)
    model.compile(
        loss="categorical_crossentropy",
        optimizer=tf.keras.optimizers.SGD(learning_rate=0.01),
        metrics=["accuracy"],
    )
    history = model.fit(
        pictures, one_hot, batch_size=BATCH, epochs=2, steps_per_epoch=STEPS, verbose=0
    )
    result = model.evaluate(pictures, one_hot, batch_size=BATCH, verbose=0)

print(
    json.dumps(
        {
            "history": {
                k: [float(v) for v in row] for k, row in history.history.items()
            },
            "result": [float(value) for value in result],
            "updates": int(model.optimizer.iterations),
            "summary": [line for line in lines if "params" in line],
        }
    )
)
