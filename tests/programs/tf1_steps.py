"""Rows of pictures read by an LSTM, step by step (TensorFlow 1)."""

import json

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

rows, columns, units, classes, batch_size = 8, 6, 12, 3, 24
rng = np.random.RandomState(2)


def batch(size):
    kind = rng.randint(0, classes, size)
    pictures = rng.normal(scale=0.3, size=(size, rows, columns))
    for k in range(classes):
        pictures[kind == k, k::classes] += 1.0
    return pictures, np.eye(classes)[kind]


x = tf.placeholder(tf.float32, [None, rows, columns])
y = tf.placeholder(tf.float32, [None, classes])
lengths = tf.placeholder(tf.int32, [None])
kept = tf.placeholder_with_default(1.0, [])


def classify(outputs, name):
    with tf.variable_scope(name):
        weights = tf.get_variable("weights", [units, classes])
        biases = tf.get_variable(
            "biases", [classes], initializer=tf.zeros_initializer()
        )
    return tf.matmul(outputs, weights) + biases


cell = tf.nn.rnn_cell.BasicLSTMCell(units, forget_bias=1.0)
steps, _ = tf.nn.static_rnn(cell, tf.unstack(x, rows, 1), dtype=tf.float32)
static_logits = classify(steps[-1], "static")

layers = [tf.nn.rnn_cell.GRUCell(units) for _ in range(2)]
layers = [tf.nn.rnn_cell.DropoutWrapper(one, output_keep_prob=kept) for one in layers]
with tf.variable_scope("deep"):
    _, state = tf.nn.dynamic_rnn(
        tf.nn.rnn_cell.MultiRNNCell(layers), x, lengths, dtype=tf.float32
    )
dynamic_logits = classify(state[-1], "dynamic")

results = {}
losses = [
    tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=one))
    for one in (static_logits, dynamic_logits)
]
optimizer = tf.train.AdamOptimizer(0.02)
gradients = optimizer.compute_gradients(losses[0] + losses[1])
clipped = [(tf.clip_by_norm(g, 5.0), v) for g, v in gradients if g is not None]
train_op = optimizer.apply_gradients(clipped)
hits = [
    tf.reduce_mean(tf.cast(tf.equal(tf.argmax(one, 1), tf.argmax(y, 1)), tf.float32))
    for one in (static_logits, dynamic_logits)
]

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    seen = []
    for _ in range(40):
        pictures, answers = batch(batch_size)
        feed = {x: pictures, y: answers, lengths: [rows] * batch_size, kept: 0.9}
        seen.append([float(v) for v in sess.run([*losses, train_op], feed)[:2]])
    pictures, answers = batch(60)
    feed = {x: pictures, y: answers, lengths: [rows] * 60}
    share = [float(v) for v in sess.run(hits, feed)]
names = sorted({v.name.split("/")[0] for v in tf.trainable_variables()})
print(json.dumps({"first": seen[0], "last": seen[-1], "share": share, "names": names}))
