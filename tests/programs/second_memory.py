"""A training that does not fit into an IPU Model, and what makes it fit (SDK 2.4)."""

import json
import os
import warnings

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

os.environ["TF_POPLAR_FLAGS"] = (
    os.environ.get("TF_POPLAR_FLAGS", "") + " --use_ipu_model"
)
TILES, BATCH = 10, 256
generator = np.random.default_rng(4)
x = generator.normal(size=(2 * BATCH, 256)).astype(np.float32)
y = generator.integers(0, 10, 2 * BATCH).astype(np.int32)


def configure(enforces, **options):
    os.environ["IPU_MEMORY"] = "enforce" if enforces else "warn"
    cfg = ipu.config.IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.ipu_model.compile_ipu_code = True
    cfg.ipu_model.tiles_per_ipu = TILES
    cfg.matmuls.poplar_options = options
    cfg.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()


def make_model():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.layers.Dense(512, activation="relu", input_shape=(256,)),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, steps_per_execution=2)
    return model


def train(strategy):
    found = {"losses": [], "error": ""}
    with strategy.scope(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = make_model()
        before = model.get_weights()
        try:
            history = model.fit(x, y, batch_size=BATCH, epochs=2, verbose=0)
            found["losses"] = history.history["loss"]
        except tf.errors.ResourceExhaustedError as error:
            found["error"] = error.message
        after = model.get_weights()
        pairs = zip(before, after, strict=True)
        found["trained"] = any((a != b).any() for a, b in pairs)
    found["told"] = [str(one.message) for one in told if "fit" in str(one.message)]
    with strategy.scope():
        account = model.account(batch_size=BATCH)
        found["fits"] = account.memory.fits
        found["max_tile"] = account.memory.max_tile
        found["cycles"] = account.cycles
        found["fixes"] = [[fix.change, fix.max_tile] for fix in account.fixes()]
    return found


found = {
    "warned": train(configure(enforces=False)),
    "refused": train(configure(enforces=True)),
    "smaller": train(configure(enforces=True, availableMemoryProportion="0.1")),
}
print(json.dumps(found))
