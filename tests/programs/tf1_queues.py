"""A line that is fitted to batches of queues (TensorFlow 1)."""

import json
import threading

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(1)

rng = np.random.RandomState(0)
features = rng.normal(size=(40, 3)).astype(np.float32)
labels = features @ np.float32([[0.5], [-1.0], [2.0]])

row, label = tf.train.slice_input_producer([features, labels], num_epochs=60)
rows, targets = tf.train.shuffle_batch(
    [row, label], batch_size=8, capacity=64, min_after_dequeue=16
)
weights = tf.Variable(tf.zeros([3, 1]), name="weights")
loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights) - targets))
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)

numbers = tf.queue.FIFOQueue(4, tf.float32, shapes=[])
number = tf.placeholder(tf.float32, [])
put = numbers.enqueue(number)
taken = numbers.dequeue()

with tf.Session() as sess:
    sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    steps = 0
    try:
        while not coord.should_stop():
            sess.run(train)
            steps += 1
    except tf.errors.OutOfRangeError:
        pass
    finally:
        coord.request_stop()
    coord.join(threads)

    def fill():
        for i in range(10):
            sess.run(put, {number: i})

    thread = threading.Thread(target=fill)
    thread.start()
    total = sum(float(sess.run(taken)) for _ in range(10))
    thread.join()
    found = sess.run(weights).ravel()
result = {
    "steps": steps,
    "total": total,
    "weights": [round(float(w), 2) for w in found],
}
print(json.dumps(result))
