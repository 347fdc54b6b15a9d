"""Stages side by side, in the middle and at the end of a pipeline (SDK 3.4)."""

import json

import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import pipelining_ops

config = ipu.config.IPUConfig()
config.auto_select_ipus = 4
config.configure_ipu_system()

dataset = tf.data.Dataset.range(1, 9).map(lambda x: tf.cast(x, tf.float32)).repeat()


def stage0(x):
    return x * 2.0


def stage1a(x):
    # ... do stuff on IPU 1
    return x + 1.0, x + 2.0


def stage1b(x):
    # ... do stuff on IPU 2
    return x * 10.0, x * 100.0


# stage 2 arguments are a concatenation of the results of the previous
# concurrent stages.
def stage2(a0, a1, b0, b1):
    # ... do stuff on IPU 2
    return a0 + a1, b0 + b1


def stage3(a, b):
    return a, b, a - b


def run(stages, mapping):
    infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
    outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def program():
        pipeline_op = pipelining_ops.pipeline(
            # Second element of the list is also a list of functions.
            computational_stages=stages,
            gradient_accumulation_count=8,
            infeed_queue=infeed_queue,
            outfeed_queue=outfeed_queue,
            # Second element of the list is also a list of device IDs.
            device_mapping=mapping,
        )
        return pipeline_op

    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        infeed_queue.initializer
        strategy.run(program)
        return [part.numpy().tolist() for part in outfeed_queue.dequeue()]


middle = run([stage0, [stage1a, stage1b], stage2, stage3], [0, [1, 2], 2, 3])
last = run([stage0, [stage1a, stage1b]], [0, [1, 2]])

print(json.dumps({"middle": middle, "last": last}))
