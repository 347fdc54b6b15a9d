"""How fast a data set is, measured in a session (SDK 2.4, TensorFlow 1)."""

import json

import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()

dataset = tf.data.Dataset.from_tensors(
    (tf.ones([4, 8]), tf.zeros([4], tf.int32))
).repeat()
benchmark_op = ipu.dataset_benchmark.dataset_benchmark(dataset, 10, 512)
infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
infeed_op = ipu.dataset_benchmark.infeed_benchmark(infeed_queue, 2, 64, False)

with tf.Session() as sess:
    json_string = sess.run(benchmark_op)
    json_object = json.loads(json_string[0])
    fed = json.loads(sess.run(infeed_op)[0])

print(json.dumps({"report": json_object, "fed": fed, "shape": list(json_string.shape)}))
