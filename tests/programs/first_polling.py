"""Results taken from another thread while the device runs, as SDK 1.4 writes it.

Elements of the data set are one tensor of two rows, which unpacks into two tensors.
"""

import json
from threading import Thread

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

STEPS = 25

cfg = ipu.utils.create_ipu_config()
cfg = ipu.utils.auto_select_ipus(cfg, 1)
cfg = ipu.utils.set_ipu_model_options(cfg, compile_ipu_code=False)
ipu.utils.configure_ipu_system(cfg)

pairs = np.arange(40, dtype=np.float32).reshape([2, 20])
ds = tf.data.Dataset.from_tensors(pairs).repeat()

outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue(feed_name="losses")


@tf.function
def training_step(x, y):
    flat = tf.keras.layers.Flatten()(x)
    loss = tf.reduce_mean(tf.square(flat - tf.expand_dims(y, 1)))
    outfeed_queue.enqueue(loss)
    return flat


results = []
sizes = []
finished = []


def poll():
    while True:
        last = bool(finished)
        losses = np.asarray(outfeed_queue.dequeue())
        sizes.append(losses.shape)
        results.extend(losses.tolist())
        if last:
            return


strategy = ipu.ipu_strategy.IPUStrategy()
thread = None
with strategy.scope():
    for (x, y), step in zip(ds, range(STEPS)):
        flat = strategy.experimental_run_v2(training_step, args=[x, y])
        if step == 0:
            thread = Thread(target=poll)
            thread.start()
finished.append(True)
thread.join()
empty = np.asarray(outfeed_queue.dequeue())

print(
    json.dumps(
        {
            "total": len(results),
            "values": sorted(set(results)),
            "rank": {len(size) for size in sizes} == {1},
            "flat": list(flat.shape),
            "empty": empty.size,
        }
    )
)
