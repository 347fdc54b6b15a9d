"""A straight line through points, fed one by one (TensorFlow 1)."""

import json

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

learning_rate, epochs, show_every = 0.01, 60, 20
xs = np.linspace(0.0, 4.0, 17)
ys = 1.5 * xs + 0.5
samples = len(xs)

X = tf.placeholder("float")
Y = tf.placeholder("float")
W = tf.Variable(0.1, name="weight")
b = tf.Variable(-0.2, name="bias")

prediction = tf.add(tf.multiply(X, W), b)
cost = tf.reduce_sum(tf.pow(prediction - Y, 2)) / (2 * samples)
optimizer = tf.train.GradientDescentOptimizer(learning_rate).minimize(cost)
init = tf.global_variables_initializer()

costs = []
with tf.Session() as sess:
    sess.run(init)
    for epoch in range(epochs):
        for x, y in zip(xs, ys):
            sess.run(optimizer, feed_dict={X: x, Y: y})
        if (epoch + 1) % show_every == 0:
            costs.append(float(sess.run(cost, feed_dict={X: xs, Y: ys})))
    found = [float(sess.run(W)), float(sess.run(b))]
    guess = float(sess.run(prediction, feed_dict={X: 10.0}))

w, c = 0.1, -0.2
for _ in range(epochs):
    for x, y in zip(xs, ys):
        off = (w * x + c - y) / samples
        w, c = w - learning_rate * off * x, c - learning_rate * off
print(json.dumps({"costs": costs, "found": found, "wanted": [w, c], "guess": guess}))
