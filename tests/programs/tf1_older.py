"""Two classes of pictures, by names that TensorFlow 1 had (TensorFlow 1)."""

import json

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.random.set_random_seed(4)

rng = np.random.RandomState(2)
labels = rng.randint(0, 2, 64)
pictures = rng.normal(size=(64, 8, 8, 2)) * 0.5
pictures[labels == 1, 2:6, 2:6] += 0.7

x = tf.placeholder(tf.float32, [None, 8, 8, 2])
y = tf.placeholder(tf.float32, [None])
with tf.variable_scope("net", partitioner=tf.fixed_size_partitioner(2)):
    hidden = tf.layers.separable_conv2d(x, 4, 3, activation=tf.nn.relu)
    rows = tf.extract_image_patches(
        hidden, [1, 3, 3, 1], [1, 3, 3, 1], [1, 1, 1, 1], "VALID"
    )
    logits = tf.layers.dense(tf.layers.flatten(rows), 1)[:, 0]
loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
step = tf.train.get_or_create_global_step()
optimizer = tf.train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=1e-3)
train = optimizer.minimize(loss, global_step=step)
area, update = tf.metrics.auc(y, tf.sigmoid(logits))
path = tf.train.write_graph(tf.get_default_graph(), ".", "graph.pbtxt")

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(tf.local_variables_initializer())
    feed = {x: pictures, y: labels}
    first = sess.run(loss, feed)
    for _ in range(40):
        sess.run(train, feed)
    last = sess.run(loss, feed)
    sess.run(update, feed)
    found = sess.run(area)
with open(path) as file:
    nodes = file.read().count("node {")
result = {"first": float(first), "last": float(last), "area": float(found)}
print(json.dumps({**result, "nodes": nodes > 20}))
