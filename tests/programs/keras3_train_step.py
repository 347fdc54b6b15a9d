"""`train_step` and `compute_loss` of one's own, and a metric that tracks the loss."""

import json

import keras
import numpy as np
import tensorflow as tf


class CustomModel(keras.Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.mae_metric = keras.metrics.MeanAbsoluteError(name="mae")
        self.penalty = keras.ops.convert_to_tensor(1e-3)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, **kwargs):
        loss = super().compute_loss(x, y, y_pred, sample_weight, **kwargs)
        return loss + self.penalty * keras.ops.mean(keras.ops.square(y_pred))

    def train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(
                x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True
            )
        trainable_vars = self.trainable_variables
        gradients = tape.gradient(loss, trainable_vars)
        self.optimizer.apply(gradients, trainable_vars)
        self.loss_tracker.update_state(loss)
        self.mae_metric.update_state(y, y_pred, sample_weight=sample_weight)
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        y_pred = self(x, training=False)
        loss = self.compute_loss(x, y, y_pred, sample_weight)
        self.loss_tracker.update_state(loss)
        self.mae_metric.update_state(y, y_pred)
        return {"loss": self.loss_tracker.result(), "mae": self.mae_metric.result()}

    @property
    def metrics(self):
        return [self.loss_tracker, self.mae_metric]


keras.utils.set_random_seed(1)
x, y = np.random.random((100, 8)), np.random.random((100, 1))
weights = np.random.random((100,))
inputs = keras.Input(shape=(8,))
outputs = keras.layers.Dense(1)(keras.layers.Dense(16, activation="silu")(inputs))
model = CustomModel(inputs, outputs)
model.compile(optimizer=keras.optimizers.Lion(1e-3), loss="mse")
history = model.fit(x, y, sample_weight=weights, epochs=5, verbose=2)
result = model.evaluate(x, y, return_dict=True, verbose=0)
print(json.dumps({"history": history.history, "result": result}))
