"""Results of a run taken by a second thread (SDK 2.4, TensorFlow 1)."""

import json
import time
from threading import Thread

import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

NUM_ITERATIONS = 100

tf.disable_v2_behavior()

dataset = tf.data.Dataset.from_tensors(tf.ones([], tf.float32)).repeat()
infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()


def body(total, x):
    total = total + x
    return total, outfeed_queue.enqueue(total)


def my_net():
    return ipu.loops.repeat(NUM_ITERATIONS, body, [0.0], infeed_queue)


with ipu.scopes.ipu_scope("/device:IPU:0"):
    (run_loop,) = ipu.ipu_compiler.compile(my_net)

dequeue_outfeed = outfeed_queue.dequeue()

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

seen = []
sizes = []
finished = []


def dequeue(sess):
    while True:
        last = bool(finished)
        values = sess.run(dequeue_outfeed)
        sizes.append(values.shape)
        seen.extend(values.tolist())
        if last:
            return
        time.sleep(0.001)


with tf.Session() as sess:
    sess.run(infeed_queue.initializer)
    first = sess.run(run_loop)

    thread = Thread(target=dequeue, args=[sess])
    thread.start()
    second = sess.run(run_loop)
    finished.append(True)
    thread.join()
    empty = sess.run(dequeue_outfeed)

wanted = [float(n + 1) for n in range(NUM_ITERATIONS)]
print(
    json.dumps(
        {
            "returned": [float(first), float(second)],
            "total": len(seen),
            "in_order": seen == wanted + wanted,
            "ranks": sorted({len(size) for size in sizes}),
            "empty": empty.size,
        }
    )
)
