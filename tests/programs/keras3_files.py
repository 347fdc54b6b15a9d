"""Files of every format: .keras, .weights.h5, .h5, JSON, pickles and checkpoints."""

import json
import os
import pickle

import keras
import numpy as np
import tensorflow as tf


@keras.saving.register_keras_serializable(package="mine")
class Scale(keras.layers.Layer):
    def __init__(self, factor=1.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def build(self, input_shape):
        self.gain = self.add_weight(
            shape=(input_shape[-1],), initializer="ones", name="gain"
        )

    def call(self, inputs):
        return keras.ops.multiply(inputs, self.gain) * self.factor

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


@keras.saving.register_keras_serializable(package="mine", name="smooth")
def smooth(y_true, y_pred):
    return keras.ops.mean(keras.ops.log(keras.ops.cosh(y_pred - y_true)), axis=-1)


keras.utils.set_random_seed(4)
x, y = np.random.rand(64, 5), np.random.rand(64, 2)
model = keras.Sequential(
    [keras.layers.Input((5,)), keras.layers.Dense(7, "tanh"), Scale(0.5, name="scale")]
)
model.add(keras.layers.Dense(2))
model.compile(optimizer="adam", loss=smooth, metrics=["mae"])
model.fit(x, y, epochs=2, verbose=0)
expected = model.predict(x, verbose=0)
result = model.evaluate(x, y, verbose=0)


def is_same(other):
    return bool(np.array_equal(other.predict(x, verbose=0), expected))


got = {}
model.save("model.keras")
loaded = keras.saving.load_model("model.keras")
got["keras"] = is_same(loaded) and loaded.evaluate(x, y, verbose=0) == result
model.save("model.h5")
got["h5"] = is_same(keras.models.load_model("model.h5"))
model.save_weights("model.weights.h5")
clone = keras.models.clone_model(model)
clone.load_weights("model.weights.h5")
got["weights"] = is_same(clone)
other = keras.models.model_from_json(model.to_json())
other.set_weights(model.get_weights())
got["json"] = is_same(other)
config = keras.saving.serialize_keras_object(model)
again = keras.saving.deserialize_keras_object(config)
again.set_weights(model.get_weights())
got["object"] = is_same(again)
got["pickle"] = is_same(pickle.loads(pickle.dumps(model)))
checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
manager = tf.train.CheckpointManager(checkpoint, "kept", max_to_keep=2)
path = manager.save()
model.fit(x, y, epochs=1, verbose=0)
got["changed"] = not is_same(model)
checkpoint.restore(manager.latest_checkpoint)
got["checkpoint"] = is_same(model)
model.export("served")
got["exported"] = os.path.exists("served")
print(json.dumps(got))
