"""A convolutional net of tf.layers, with flags, a data set, a saver (TensorFlow 1)."""

import json
import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

flags = tf.app.flags
flags.DEFINE_integer("batch_size", 16, "images in a step")
flags.DEFINE_integer("steps", 12, "steps to train")
flags.DEFINE_string("folder", "cnn", "where checkpoints go")
FLAGS = flags.FLAGS


def stripes(count):
    rng = np.random.RandomState(0)
    labels = np.arange(count) % 2
    images = rng.normal(scale=0.2, size=(count, 12, 12, 1)).astype(np.float32)
    images[labels == 0, ::3] += 1.0
    images[labels == 1, :, ::3] += 1.0
    return images, labels.astype(np.int32)


def net(images, training):
    hidden = tf.layers.conv2d(images, 4, 3, padding="same", activation=tf.nn.relu)
    hidden = tf.layers.max_pooling2d(hidden, 2, 2)
    hidden = tf.layers.conv2d(hidden, 8, 3, activation=tf.nn.relu, name="second")
    hidden = tf.layers.batch_normalization(hidden, momentum=0.5, training=training)
    hidden = tf.layers.flatten(hidden)
    hidden = tf.layers.dense(hidden, 16, activation=tf.nn.relu)
    hidden = tf.layers.dropout(hidden, rate=0.2, training=training)
    return tf.layers.dense(hidden, 2)


def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    tf.set_random_seed(4)
    images, labels = stripes(64)
    images_in = tf.placeholder(images.dtype, [None, 12, 12, 1])
    labels_in = tf.placeholder(labels.dtype, [None])
    dataset = tf.data.Dataset.from_tensor_slices((images_in, labels_in))
    dataset = dataset.shuffle(64, seed=1).repeat().batch(FLAGS.batch_size)
    iterator = dataset.make_initializable_iterator()
    batch, answers = iterator.get_next()

    training = tf.placeholder_with_default(False, [], name="training")
    logits = net(batch, training)
    loss = tf.losses.sparse_softmax_cross_entropy(answers, logits)
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = tf.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
    hits, count_hits = tf.metrics.accuracy(answers, tf.argmax(logits, axis=1))
    saver = tf.train.Saver(max_to_keep=1)

    feed = {images_in: images, labels_in: labels}
    if not tf.gfile.Exists(FLAGS.folder):
        tf.gfile.MakeDirs(FLAGS.folder)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(iterator.initializer, feed)
        losses = []
        for _ in range(FLAGS.steps):
            _, value = sess.run([train_op, loss], {training: True})
            losses.append(float(value))
        tf.logging.info("loss %f", losses[-1])
        path = saver.save(sess, os.path.join(FLAGS.folder, "model"), global_step=step)
        kernel = sess.run("second/kernel:0")
    with tf.Session() as sess:
        saver.restore(sess, tf.train.latest_checkpoint(FLAGS.folder))
        sess.run(tf.local_variables_initializer())
        sess.run(iterator.initializer, feed)
        same = bool((sess.run("second/kernel:0") == kernel).all())
        steps = int(sess.run(step))
        for _ in range(4):
            sess.run(count_hits)
        share = float(sess.run(hits))
    result = {"first": losses[0], "last": losses[-1], "same": same, "share": share}
    result.update(path=os.path.basename(path), steps=steps)
    print(json.dumps(result))


if __name__ == "__main__":
    tf.app.run()
