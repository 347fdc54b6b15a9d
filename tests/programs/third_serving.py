"""A model that is exported and served (SDK 3)."""

import json
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

inputs = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)

strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    model = keras.Sequential(
        [
            keras.layers.Dense(8, activation="relu", input_shape=(3,)),
            keras.layers.Dense(2),
        ]
    )
    model.compile("sgd", "mse", steps_per_execution=1)
    model.fit(inputs, np.ones((4, 2)), batch_size=4, epochs=2, verbose=0)
    expected = model.predict(2.0 * inputs, batch_size=4)
    served = ipu.serving.export_keras(
        model,
        "served",
        batch_size=4,
        preprocessing_step=lambda x: 2.0 * x,
        preprocessing_step_signature=[tf.TensorSpec([4, 3], tf.float32, name="x")],
    )
    again = model.export_for_ipu_serving("again", batch_size=4)

    def first(x):
        return model.layers[0](x)

    def second(x):
        return model.layers[1](x)

    staged = ipu.serving.export_pipeline(
        [first, second],
        "staged",
        iterations=8,
        device_mapping=[0, 1],
        pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Grouped,
        predict_step_signature=[tf.TensorSpec([4, 3], tf.float32)],
    )

found = served(x=inputs).numpy()
print(
    json.dumps(
        {
            "names": sorted(os.listdir("served")),
            "found": found.tolist(),
            "expected": expected.tolist(),
            "shape": list(found.shape),
            "again": again(2.0 * inputs).numpy().tolist(),
            "stages": staged(2.0 * inputs).numpy().tolist(),
            "staged": found.tolist(),
        }
    )
)
