"""A product that runs at once, placed on the device (SDK 2.4)."""

import json

import tensorflow as tf
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

with tf.device("/device:IPU:0"):
    left = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[2, 3])
    right = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[3, 2])
    result = tf.matmul(left, right)

print(json.dumps({"product": result.numpy().tolist()}))
