"""A loop with data in and out, in a session (SDK 2.4, TensorFlow 1).

Devices are configured behind the graph.
"""

import json

import tensorflow.compat.v1 as tf
from tensorflow.python.ipu import (
    config,
    ipu_compiler,
    ipu_infeed_queue,
    ipu_outfeed_queue,
    loops,
    scopes,
)

tf.disable_v2_behavior()

ds = tf.data.Dataset.from_tensors(tf.constant(1.0, shape=[800]))
ds = ds.map(lambda x: [x, x])
ds = ds.repeat()

infeed_queue = ipu_infeed_queue.IPUInfeedQueue(ds)
outfeed_queue = ipu_outfeed_queue.IPUOutfeedQueue()


def body(x1, x2):
    d1 = x1 + x2
    d2 = x1 - x2
    return outfeed_queue.enqueue({"d1": d1, "d2": d2})


def my_net():
    return loops.repeat(10, body, [], infeed_queue)


with scopes.ipu_scope("/device:IPU:0"):
    run_loop = ipu_compiler.compile(my_net, inputs=[])

dequeue_outfeed = outfeed_queue.dequeue()

cfg = config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.configure_ipu_system()

with tf.Session() as sess:
    sess.run(infeed_queue.initializer)
    returned = sess.run(run_loop)
    result = sess.run(dequeue_outfeed)
    empty = sess.run(dequeue_outfeed)

print(
    json.dumps(
        {
            "returned": returned,
            "type": type(result).__name__,
            "shapes": {key: list(value.shape) for key, value in result.items()},
            "values": {
                k: sorted({float(x) for x in v.flat}) for k, v in result.items()
            },
            "empty": {key: list(value.shape) for key, value in empty.items()},
        }
    )
)
