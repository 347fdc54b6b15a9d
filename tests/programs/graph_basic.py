"""Additions on an IPU in a session, plain and compiled (SDK 2.4, TensorFlow 1)."""

import json

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.scopes import ipu_scope

tf.disable_v2_behavior()

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.configure_ipu_system()

with tf.device("cpu"):
    pa = tf.placeholder(np.float32, [2], name="a")
    pb = tf.placeholder(np.float32, [2], name="b")
    pc = tf.placeholder(np.float32, [2], name="c")


def basic_graph(pa, pb, pc):
    o1 = pa + pb
    o2 = pa + pc
    return o1 + o2


with ipu_scope("/device:IPU:0"):
    result = basic_graph(pa, pb, pc)
    compiled = ipu.ipu_compiler.compile(basic_graph, [pa, pb, pc])

with tf.Session() as sess:
    feed_dict = {pa: [1.0, 1.0], pb: [0.0, 1.0], pc: [1.0, 5.0]}
    basic = sess.run(result, feed_dict=feed_dict)
    listed = sess.run(compiled, feed_dict=feed_dict)

print(
    json.dumps(
        {
            "basic": str(basic),
            "type": f"{type(basic).__name__} {basic.dtype}",
            "compiled": repr(listed),
        }
    )
)
