"""Digits by softmax regression, a batch at a time (TensorFlow 1, notebook style)."""

import json

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

rng = np.random.RandomState(1)
prototypes = rng.uniform(size=(10, 784))


def next_batch(size):
    digits = rng.randint(0, 10, size)
    images = prototypes[digits] + rng.normal(scale=0.3, size=(size, 784))
    return images, np.eye(10)[digits]


sess = tf.InteractiveSession()
x = tf.placeholder(tf.float32, [None, 784])
W = tf.Variable(tf.zeros([784, 10]))
b = tf.Variable(tf.zeros([10]))
y = tf.matmul(x, W) + b
y_ = tf.placeholder(tf.float32, [None, 10])
loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y))
train_step = tf.train.GradientDescentOptimizer(0.02).minimize(loss)
correct = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))

tf.global_variables_initializer().run()
images, labels = next_batch(200)
before = loss.eval(feed_dict={x: images, y_: labels})
for _ in range(30):
    batch_xs, batch_ys = next_batch(50)
    train_step.run({x: batch_xs, y_: batch_ys})
after, share = sess.run([loss, accuracy], feed_dict={x: images, y_: labels})
print(
    json.dumps({"before": float(before), "after": float(after), "share": float(share)})
)
sess.close()
