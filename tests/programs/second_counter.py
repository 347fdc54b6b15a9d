"""A counted loop with data in and out, as SDK 2.4 writes it."""

import json

import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import ipu_infeed_queue, ipu_outfeed_queue, loops

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

ds = tf.data.Dataset.from_tensors(tf.ones([800]))
ds = ds.map(lambda v: (v, v)).repeat()

infeed_queue = ipu_infeed_queue.IPUInfeedQueue(ds, prefetch_depth=2)
outfeed_queue = ipu_outfeed_queue.IPUOutfeedQueue(
    outfeed_mode=ipu_outfeed_queue.IPUOutfeedMode.ALL, buffer_depth=1
)


def body(counter, x1, x2):
    outfeed_queue.enqueue({"d1": x1 + x2, "d2": x1 - x2})
    return counter + 1


@tf.function(jit_compile=True)
def count_to_ten():
    return loops.repeat(10, body, [0], infeed_queue)


infeed_queue.initializer
strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    count = strategy.run(count_to_ten)

taken = outfeed_queue.dequeue()
again = outfeed_queue.dequeue()
print(
    json.dumps(
        {
            "count": int(count),
            "count_type": f"{count.dtype.name} {list(count.shape)}",
            "shapes": {k: list(v.shape) for k, v in taken.items()},
            "values": {
                key: sorted(set(one.numpy().flat)) for key, one in taken.items()
            },
            "drained": {k: list(v.shape) for k, v in again.items()},
        },
        default=float,
    )
)
