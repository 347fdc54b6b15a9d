"""An optimizer of one's own that casts gradients, accumulators as wide as variables.

Without accumulation the cast changes nothing, so it must train as plain SGD does.
"""

import json

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu


class CastGradientsSGD(tf.keras.optimizers.SGD):
    calls = 0

    def apply_gradients(self, grads_and_vars, name=None):
        CastGradientsSGD.calls += 1
        cast = [(tf.cast(g, v.dtype), v) for (g, v) in grads_and_vars]
        return super().apply_gradients(cast, name)


config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

x = np.linspace(-1.0, 1.0, 64, dtype=np.float32).reshape(32, 2)
y = (x[:, :1] - 3.0 * x[:, 1:]).astype(np.float32)


def train(optimizer):
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        model = tf.keras.Sequential(
            [tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(2,))]
        )
        model.compile(optimizer=optimizer, loss="mse", steps_per_execution=4)
        history = model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0)
        return history.history["loss"], model.get_weights()[0].ravel().tolist()


losses, kernel = train(CastGradientsSGD(0.1))
plain_losses, plain_kernel = train(tf.keras.optimizers.SGD(0.1))
print(
    json.dumps(
        {
            "losses": losses,
            "plain_losses": plain_losses,
            "kernel": kernel,
            "plain_kernel": plain_kernel,
            "called": CastGradientsSGD.calls > 0,
        }
    )
)
