"""Code of the host in the middle of a compiled graph (SDK 1 and 2)."""

import json

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.scopes import ipu_scope, outside_compilation_scope

tf.disable_v2_behavior()
calls = []


def smooth(values):
    calls.append(len(values))
    return np.convolve(values, [0.25, 0.5, 0.25], mode="same").astype(np.float32)


def my_net(a):
    b = a * a
    with outside_compilation_scope():
        c = b + 2.0  # on the host
        c = tf.py_func(smooth, [c], tf.float32)
        c.set_shape(b.shape)
    return b + c


def body(x):
    with outside_compilation_scope():
        x = tf.numpy_function(lambda v: v[::-1].copy(), [x], tf.float32)
    return x * [1.0, 2.0, 3.0]


a = tf.placeholder(tf.float32, [3])
with ipu_scope("/device:IPU:0"):
    [once] = ipu.ipu_compiler.compile(my_net, inputs=[a])
    [looped] = ipu.ipu_compiler.compile(
        lambda x: ipu.loops.repeat(3, body, [x]), inputs=[a]
    )

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

with tf.Session() as sess:
    found, turned = sess.run([once, looped], {a: [1.0, 2.0, 3.0]})

print(json.dumps({"found": found.tolist(), "turned": turned.tolist(), "calls": calls}))
