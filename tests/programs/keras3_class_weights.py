"""Rare classes: weights for classes, for samples, and an initial bias."""

import json

import keras
import numpy as np

keras.utils.set_random_seed(2)
x = np.random.normal(size=(400, 10)).astype("float32")
y = (x[:, 0] + x[:, 1] > 2.0).astype("uint8").reshape(-1, 1)
counts = np.bincount(y[:, 0])
weight_for_0, weight_for_1 = 1.0 / counts[0], 1.0 / counts[1]
class_weight = {0: weight_for_0, 1: weight_for_1}
bias = keras.initializers.Constant(np.log(counts[1] / counts[0]))

metrics = [
    keras.metrics.FalseNegatives(name="fn"),
    keras.metrics.FalsePositives(name="fp"),
    keras.metrics.TrueNegatives(name="tn"),
    keras.metrics.TruePositives(name="tp"),
    keras.metrics.Precision(name="precision"),
    keras.metrics.Recall(name="recall"),
    keras.metrics.AUC(name="prc", curve="PR"),
    keras.metrics.F1Score(threshold=0.5, name="f1"),
]
model = keras.Sequential(
    [
        keras.Input(shape=x.shape[1:]),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(1, activation="sigmoid", bias_initializer=bias),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(1e-2),
    loss="binary_crossentropy",
    metrics=metrics,
    weighted_metrics=["accuracy"],
)
history = model.fit(
    x,
    y,
    batch_size=128,
    epochs=8,
    verbose=2,
    callbacks=[keras.callbacks.ModelCheckpoint("at_{epoch}.keras")],
    validation_data=(x[:100], y[:100]),
    class_weight=class_weight,
)
focal = keras.losses.BinaryFocalCrossentropy(apply_class_balancing=True)
model.compile(optimizer="adam", loss=focal)
samples = np.where(y[:, 0] == 1, 5.0, 1.0)
model.fit(x, y, sample_weight=samples, epochs=1, verbose=0)
print(
    json.dumps(
        {
            "recall": history.history["recall"][-1],
            "keys": sorted(history.history),
            "counts": sum(history.history[k][-1] for k in ("fn", "fp", "tn", "tp")),
        }
    )
)
