"""A product as one device program (SDK 2.4)."""

import json

import tensorflow as tf
from tensorflow.python import ipu

ipu_config = ipu.config.IPUConfig()
ipu_config.auto_select_ipus = 1
ipu_config.configure_ipu_system()

strategy = ipu.ipu_strategy.IPUStrategy()


@tf.function(jit_compile=True)
def matmul_fn(x, y):
    return tf.matmul(x, y)


with strategy.scope():
    a = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[2, 3])
    b = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[3, 2])
    c = strategy.run(matmul_fn, args=(a, b))

print(json.dumps({"product": c.numpy().tolist()}))
