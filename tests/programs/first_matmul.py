"""A product as one device program, as SDK 1.4 writes it."""

import json

import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ipu_strategy import IPUStrategy

cfg = ipu.utils.create_ipu_config()
cfg = ipu.utils.auto_select_ipus(cfg, num_ipus=1)
ipu.utils.configure_ipu_system(cfg)

strategy = IPUStrategy()


@tf.function(experimental_compile=True)
def product(a, b):
    return tf.linalg.matmul(a, b)


with strategy.scope():
    a = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    b = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    result = strategy.experimental_run_v2(product, args=(a, b))

print(json.dumps({"product": result.numpy().tolist()}))
