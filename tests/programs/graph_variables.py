"""Variables of graphs, as resources and not, and the step counter (SDK 2.4)."""

import json
import os

import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

# Make sure we append to the environment variable, in case there are
# already other flags in there.
os.environ["TF_POPLAR_FLAGS"] = (
    os.environ.get("TF_POPLAR_FLAGS", "") + " --use_ipu_model"
)

tf.disable_v2_behavior()

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.configure_ipu_system()

with tf.device("cpu"):
    step = tf.train.get_or_create_global_step()
    pa = tf.placeholder(tf.float32, [2], name="a")

with tf.variable_scope("vs", use_resource=True):
    local = tf.get_variable(
        "local",
        shape=[2],
        dtype=tf.float32,
        initializer=tf.constant_initializer(0.5),
    )

vscope = tf.get_variable_scope()
vscope.set_use_resource(True)
var = tf.get_variable(
    "name", shape=[2], dtype=tf.float32, initializer=tf.constant_initializer(0.5)
)


def model_fn(a):
    loss = tf.reduce_sum(tf.square(var * a + local))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.control_dependencies([train]):
        return tf.identity(loss), local.assign_add(a)


with ipu.scopes.ipu_scope("/device:IPU:0"):
    out = ipu.ipu_compiler.compile(model_fn, [pa])

count = tf.assign_add(step, 1)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    losses = []
    for _ in range(3):
        loss, _ = sess.run(out, feed_dict={pa: [1.0, 2.0]})
        losses.append(float(loss))
        sess.run(count)
    values = sess.run([local, var, step])

    # one that is not a resource, on the IPU: the text's troubleshooting
    message = ""
    vscope.set_use_resource(False)
    with tf.device("/device:IPU:0"):
        plain = tf.get_variable("plain", shape=[2], initializer=tf.zeros_initializer())
    try:
        sess.run(plain.initializer)
        sess.run(plain)
    except tf.errors.InvalidArgumentError as error:
        message = str(error)

print(
    json.dumps(
        {
            "losses": losses,
            "local": values[0].tolist(),
            "var": values[1].tolist(),
            "step": int(values[2]),
            "step_device": step.device,
            "message": message,
        }
    )
)
