"""Placeholders, variables and an optimizer in a session (SDK 1.4, TensorFlow 1)."""

import json

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()

rng = np.random.RandomState(0)
x = rng.normal(size=(32, 4)).astype(np.float32)
y = x @ np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32)


def model_fn(inputs, targets):
    with tf.variable_scope("model", use_resource=True):
        w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
        loss = tf.losses.mean_squared_error(targets, tf.matmul(inputs, w))
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    train = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return loss, train


with tf.device("cpu"):
    images = tf.placeholder(tf.float32, [32, 4])
    labels = tf.placeholder(tf.float32, [32, 1])
    tf.train.get_or_create_global_step()

with ipu.scopes.ipu_scope("/device:IPU:0"):
    out = ipu.ipu_compiler.compile(model_fn, [images, labels])

opts = ipu.utils.create_ipu_config()
opts = ipu.utils.auto_select_ipus(opts, 1)
ipu.utils.configure_ipu_system(opts)

losses = []
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(10):
        (loss,) = sess.run(out, feed_dict={images: x, labels: y})
        losses.append(float(loss))
    step = tf.train.global_step(sess, tf.train.get_global_step())
    (kernel,) = sess.run(tf.trainable_variables())

weights = np.zeros((4, 1))
expected = []
for _ in range(10):
    error = x @ weights - y
    expected.append(float(np.mean(error**2)))
    weights -= 0.1 * 2.0 * x.T @ error / len(x)

print(
    json.dumps(
        {
            "losses": losses,
            "expected": expected,
            "kernel": kernel.ravel().tolist(),
            "expected_kernel": weights.ravel().tolist(),
            "step": step,
        }
    )
)
