"""Two runs of a loop, the second one watched from another thread (SDK 2.4)."""

import json
import threading
import time

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

ITERATIONS = 200

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
strategy = ipu.ipu_strategy.IPUStrategy()


@tf.function(jit_compile=True)
def count_up(start):
    value = start
    for _ in tf.range(ITERATIONS):
        value += 1.0
        outfeed_queue.enqueue(value)
    return value


with strategy.scope():
    strategy.run(count_up, args=(0.0,))
seen = outfeed_queue.dequeue().numpy().tolist()
before = len(seen)

stop = threading.Event()


def poll():
    while True:
        last = stop.is_set()
        seen.extend(np.asarray(outfeed_queue.dequeue()).tolist())
        if last:
            return
        time.sleep(0.001)


thread = threading.Thread(target=poll)
thread.start()
with strategy.scope():
    strategy.run(count_up, args=(0.0,))
stop.set()
thread.join()
empty = outfeed_queue.dequeue()

wanted = [float(n) for n in range(1, ITERATIONS + 1)]
print(
    json.dumps(
        {
            "before": before,
            "total": len(seen),
            "in_order": seen == wanted + wanted,
            "empty": list(empty.shape),
        }
    )
)
