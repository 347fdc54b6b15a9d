"""An autoencoder that writes summaries for TensorBoard (TensorFlow 1)."""

import glob
import json
import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

tf.reset_default_graph()
rng = np.random.RandomState(3)
codes = rng.normal(size=(64, 2))
data = np.tanh(codes @ rng.normal(size=(2, 20)))


def layer(inputs, size, name, activation):
    with tf.name_scope(name):
        width = int(inputs.get_shape()[-1])
        first = tf.truncated_normal([width, size], stddev=0.3, seed=5)
        weights = tf.Variable(first, name="weights")
        biases = tf.Variable(tf.zeros([size]), name="biases")
        tf.summary.histogram("weights", weights)
        return activation(tf.add(tf.matmul(inputs, weights), biases))


inputs = tf.placeholder(tf.float32, shape=[None, 20], name="inputs")
encoded = layer(inputs, 8, "encoder_1", tf.nn.tanh)
encoded = layer(encoded, 2, "encoder_2", tf.nn.tanh)
decoded = layer(encoded, 8, "decoder_1", tf.nn.tanh)
decoded = layer(decoded, 20, "decoder_2", tf.nn.tanh)

with tf.name_scope("loss"):
    loss = tf.reduce_mean(tf.square(decoded - inputs))
    tf.summary.scalar("mean_square", loss)
pictures = tf.reshape(decoded, [-1, 4, 5, 1])
tf.summary.image("decoded", pictures, max_outputs=2)
merged = tf.summary.merge_all()

global_step = tf.Variable(0, trainable=False, name="global_step")
rate = tf.train.exponential_decay(0.02, global_step, 20, 0.9, staircase=True)
train_op = tf.train.AdamOptimizer(rate).minimize(loss, global_step=global_step)

values = []
with tf.Session() as sess:
    writer = tf.summary.FileWriter("logs", sess.graph)
    sess.run(tf.global_variables_initializer())
    for step in range(60):
        summary, value, _ = sess.run([merged, loss, train_op], {inputs: data})
        values.append(float(value))
        if step % 20 == 0:
            writer.add_summary(summary, step)
    middle = sess.run(encoded, {inputs: data[:5]})
    last_rate = float(sess.run(rate))
writer.close()
(file,) = glob.glob(os.path.join("logs", "events.out.tfevents.*"))
with open(file, "rb") as opened:
    content = opened.read()
tags = [b"loss/mean_square", b"encoder_1/weights", b"decoded/image/1", b"brain.Event"]
found = [content.count(tag) for tag in tags]
result = {"first": values[0], "last": values[-1], "found": found, "rate": last_rate}
print(json.dumps({**result, "shape": list(middle.shape)}))
