"""An optimizer of one's own in a loop of one's own (SDK 3.4)."""

import json

import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu
from tensorflow.python.ipu.config import IPUConfig


class CastGradientsSGD(keras.optimizers.SGD):
    def apply_gradients(self, grads_and_vars, name=None):
        cast = [(tf.cast(g, v.dtype), v) for (g, v) in grads_and_vars]
        return super().apply_gradients(cast, name)


config = IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    weight = tf.Variable([2.0, -1.0])
    optimizer = CastGradientsSGD(learning_rate=0.25)

    @tf.function(jit_compile=True)
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(weight))
        gradients = tape.gradient(loss, [weight])
        # a wide gradient, as an accumulator of another type would give it
        wide = [tf.cast(g, tf.float16) for g in gradients]
        optimizer.apply_gradients(zip(wide, [weight]))
        return loss

    losses = [float(strategy.run(step)) for _ in range(3)]

print(json.dumps({"losses": losses, "weight": weight.numpy().tolist()}))
