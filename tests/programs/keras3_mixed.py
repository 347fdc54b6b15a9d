"""Mixed precision: a policy for all, outputs in float32, a loss that is scaled."""

import json

import keras
import numpy as np
from keras import layers, mixed_precision

keras.utils.set_random_seed(6)
keras.mixed_precision.set_global_policy("mixed_float16")
(x, y) = np.random.rand(64, 784).astype("float32"), np.random.randint(0, 10, 64)

inputs = keras.Input(shape=(784,), name="digits")
dense1 = layers.Dense(32, activation="relu", name="dense_1")
h = dense1(inputs)
policy = dense1.dtype_policy
h = layers.LayerNormalization()(h)
h = layers.Dense(10, name="dense_logits")(h)
outputs = layers.Activation("softmax", dtype="float32", name="predictions")(h)
model = keras.Model(inputs=inputs, outputs=outputs)
model.compile(
    loss="sparse_categorical_crossentropy",
    optimizer=keras.optimizers.RMSprop(),
    metrics=["accuracy"],
)
history = model.fit(x, y, batch_size=32, epochs=4, validation_split=0.25, verbose=2)

optimizer = mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())
model.compile(loss="sparse_categorical_crossentropy", optimizer=optimizer)
model.fit(x, y, batch_size=32, epochs=1, verbose=0)
got = {
    "policy": policy.name,
    "compute": dense1.compute_dtype,
    "variable": str(dense1.variable_dtype),
    "kernel": str(dense1.kernel.dtype),
    "hidden": str(h.dtype),
    "outputs": str(outputs.dtype),
    "loss": history.history["loss"],
}
keras.config.set_dtype_policy("float32")
got["after"] = keras.config.dtype_policy().name
print(json.dumps(got))
