"""A pipeline whose stages make their variables, in a session (SDK 1.4)."""

import json

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import pipelining_ops

tf.disable_v2_behavior()

COUNT = 8
rng = np.random.RandomState(0)
x = rng.normal(size=(64, 4)).astype(np.float32)
y = x @ np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32)

dataset = tf.data.Dataset.from_tensor_slices((x, y))
dataset = dataset.batch(8, drop_remainder=True).repeat()
infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset, feed_name="in")
outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue(feed_name="out")


def stage1(lr, images, labels):
    with tf.variable_scope("stage1", use_resource=True):
        w = tf.get_variable(
            "w", [4, 8], initializer=tf.constant_initializer(np.eye(4, 8))
        )
        return lr, tf.matmul(images, w), labels


def stage2(lr, hidden, labels):
    with tf.variable_scope("stage2", use_resource=True):
        w = tf.get_variable("w", [8, 1], initializer=tf.zeros_initializer())
        return lr, tf.reduce_mean(tf.square(tf.matmul(hidden, w) - labels))


def optimizer_function(lr, loss):
    optimizer = tf.train.GradientDescentOptimizer(lr)
    return pipelining_ops.OptimizerFunctionOutput(optimizer, loss)


def my_net(lr):
    return pipelining_ops.pipeline(
        [stage1, stage2],
        gradient_accumulation_count=COUNT,
        repeat_count=2,
        inputs=[lr],
        infeed_queue=infeed_queue,
        outfeed_queue=outfeed_queue,
        optimizer_function=optimizer_function,
        name="Pipeline",
    )


with tf.device("cpu"):
    learning_rate = tf.placeholder(np.float32, [])

with ipu.scopes.ipu_scope("/device:IPU:0"):
    train = ipu.ipu_compiler.compile(my_net, inputs=[learning_rate])

outfeed_op = outfeed_queue.dequeue()
ipu.utils.move_variable_initialization_to_cpu()

cfg = ipu.utils.create_ipu_config()
cfg = ipu.utils.auto_select_ipus(cfg, 2)
ipu.utils.configure_ipu_system(cfg)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(infeed_queue.initializer)
    returned = sess.run(train, {learning_rate: 0.01})
    _, losses = sess.run(outfeed_op)
    weights = sess.run(tf.trainable_variables())

# the same in NumPy
first, second = np.eye(4, 8), np.zeros((8, 1))
expected = []
for _ in range(2):
    sums = np.zeros_like(first), np.zeros_like(second)
    for batch in range(COUNT):
        a, b = x[8 * batch : 8 * batch + 8], y[8 * batch : 8 * batch + 8]
        error = a @ first @ second - b
        expected.append(float(np.mean(error**2)))
        back = 2.0 * error / len(a)
        sums[0][...] += a.T @ back @ second.T
        sums[1][...] += (a @ first).T @ back
    first, second = first - 0.01 * sums[0], second - 0.01 * sums[1]

print(
    json.dumps(
        {
            "returned": returned,
            "losses": losses.tolist(),
            "expected": expected,
            "weights": [w.ravel().tolist() for w in weights],
            "expected_weights": [first.ravel().tolist(), second.ravel().tolist()],
            "names": [v.name for v in tf.trainable_variables()],
        }
    )
)
