"""A counted loop with data in and out, as SDK 1.4 writes it for TensorFlow 2."""

import json

import tensorflow as tf
from tensorflow.python import ipu

cfg = ipu.utils.create_ipu_config(profiling=False)
cfg = ipu.utils.auto_select_ipus(cfg, 1)
ipu.utils.configure_ipu_system(cfg)

ones = tf.constant(1.0, shape=[800])
ds = tf.data.Dataset.from_tensors(ones).map(lambda v: [v, v]).repeat()

infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(ds, feed_name="data_in")
outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue(feed_name="data_out")


def body(counter, x1, x2):
    outfeed_queue.enqueue({"d1": x1 + x2, "d2": x1 - x2})
    return counter + 1


@tf.function(experimental_compile=True)
def count_to_ten():
    start = 0
    return ipu.loops.repeat(10, body, [start], infeed_queue)


strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    infeed_queue.initializer
    count = strategy.experimental_run_v2(count_to_ten)

taken = outfeed_queue.dequeue()
print(
    json.dumps(
        {
            "count": int(count.numpy()),
            "count_type": f"{count.dtype.name} {list(count.shape)}",
            "shapes": {k: list(v.shape) for k, v in taken.items()},
            "values": {
                key: sorted(set(one.numpy().flat)) for key, one in taken.items()
            },
        },
        default=float,
    )
)
