"""A graph whose values do not fit into the IPU Model's memory (SDK 2.4)."""

import json
import os
import warnings

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.scopes import ipu_scope

os.environ["TF_POPLAR_FLAGS"] = (
    os.environ.get("TF_POPLAR_FLAGS", "") + " --use_ipu_model"
)
tf.disable_v2_behavior()


def configure(memory):
    os.environ["IPU_MEMORY"] = memory
    cfg = ipu.config.IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.ipu_model.compile_ipu_code = True
    cfg.ipu_model.tiles_per_ipu = 4
    cfg.configure_ipu_system()


configure("enforce")
with tf.device("cpu"):
    px = tf.placeholder(np.float32, [512, 1024], name="x")


def network(x):
    with tf.variable_scope("vs", use_resource=True):
        w = tf.get_variable(
            "w", shape=[1024, 256], initializer=tf.constant_initializer(0.01)
        )
    return tf.reduce_sum(tf.nn.relu(tf.matmul(x, w)))


with ipu_scope("/device:IPU:0"):
    [out] = ipu.ipu_compiler.compile(network, [px])

feed = {px: np.ones([512, 1024], np.float32)}
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    message = ""
    try:
        sess.run(out, feed)
    except tf.errors.ResourceExhaustedError as error:
        message = str(error)
    configure("warn")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        values = [float(sess.run(out, feed)) for _ in range(2)]

told = [str(one.message).splitlines()[0] for one in told]
print(json.dumps({"message": message, "told": told, "values": values}))
