"""A counted loop with data in and out, as SDK 3.4 writes it."""

import json

import tensorflow.compat.v2 as tf
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.device_connection.type = ipu.config.DeviceConnectionType.ON_DEMAND
config.configure_ipu_system()

ds = tf.data.Dataset.from_tensors({"x1": tf.ones([800]), "x2": tf.ones([800])})
infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(
    ds.repeat(), prefetch_depth=3, optimise_latency=True
)
outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue(
    buffer_depth=3, optimise_latency=True
)


def body(counter, x2, x1):
    outfeed_queue.enqueue({"d1": x1 + x2, "d2": x1 - x2})
    return counter + 1


@tf.function(jit_compile=True)
def count_to(n):
    return ipu.loops.repeat(n, body, [0], infeed_queue)


infeed_queue.initializer
strategy = ipu.ipu_strategy.IPUStrategyV1()
with strategy.scope():
    count = strategy.run(count_to, args=(10,))

taken = outfeed_queue.dequeue()
print(
    json.dumps(
        {
            "count": int(count),
            "count_type": f"{count.dtype.name} {list(count.shape)}",
            "shapes": {k: list(v.shape) for k, v in taken.items()},
            "values": {
                key: sorted(set(one.numpy().flat)) for key, one in taken.items()
            },
        },
        default=float,
    )
)
