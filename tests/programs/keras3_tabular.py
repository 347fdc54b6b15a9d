"""A table with numbers and categories: preprocessing layers, several inputs, AUC."""

import json

import keras
import numpy as np
import pandas as pd
from keras import layers

rng = np.random.default_rng(0)
frame = pd.DataFrame(
    {
        "age": rng.integers(20, 70, 256),
        "income": rng.normal(40.0, 9.0, 256),
        "city": rng.choice(["Bern", "Oslo", "Rome"], 256),
    }
)
target = ((frame["age"] > 45) ^ (frame["city"] == "Oslo")).astype("int64")

inputs, encoded = {}, []
for name in ("age", "income"):
    inputs[name] = keras.Input(shape=(1,), name=name, dtype="float32")
    normalize = layers.Normalization(axis=-1)
    normalize.adapt(frame[[name]].to_numpy())
    encoded.append(normalize(inputs[name]))
inputs["city"] = keras.Input(shape=(1,), name="city", dtype="string")
lookup = layers.StringLookup(output_mode="one_hot")
lookup.adapt(frame["city"])
encoded.append(lookup(inputs["city"]))

x = layers.concatenate(encoded)
x = layers.Dense(32, activation="relu")(x)
x = layers.Dropout(0.1)(x)
outputs = layers.Dense(1, activation="sigmoid")(x)
model = keras.Model(inputs=inputs, outputs=outputs, name="table")
model.compile(
    optimizer=keras.optimizers.AdamW(learning_rate=0.02),
    loss=keras.losses.BinaryCrossentropy(),
    metrics=["accuracy", keras.metrics.AUC(name="auc")],
)
model.summary()
history = model.fit(
    dict(frame),
    target,
    batch_size=48,
    epochs=20,
    validation_split=0.2,
    callbacks=[
        keras.callbacks.EarlyStopping("val_auc", mode="max", patience=20, verbose=1),
        keras.callbacks.ReduceLROnPlateau(patience=8),
    ],
    verbose=2,
)
sample = {"age": 60, "income": 38.5, "city": "Rome"}
one = {k: keras.ops.convert_to_tensor([v]) for k, v in sample.items()}
print(
    json.dumps(
        {
            "keys": sorted(history.history),
            "auc": history.history["auc"][-1],
            "one": float(model.predict(one, verbose=0)[0, 0]),
        }
    )
)
