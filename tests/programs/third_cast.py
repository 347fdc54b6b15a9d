"""Gradients of float16 weights that a pipeline accumulates in float32 (SDK 2.4)."""

import json

import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import pipelining_ops


class CastGradientsSGD(tf.keras.optimizers.SGD):
    def apply_gradients(self, grads_and_vars, name=None):
        cast_grads_and_vars = [(tf.cast(g, v.dtype), v) for (g, v) in grads_and_vars]
        return super().apply_gradients(cast_grads_and_vars, name)


cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 2
cfg.configure_ipu_system()

dataset = tf.data.Dataset.from_tensors(tf.constant([0.25], tf.float16)).repeat()
strategy = ipu.ipu_strategy.IPUStrategy()


def trained(dtype):
    infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
    outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    with strategy.scope():
        w = tf.Variable(tf.constant([1024.0], tf.float16))
        optimizer = CastGradientsSGD(1.0)

        def first(x):
            return x * w

        def second(h):
            return tf.reduce_sum(tf.cast(h, tf.float32))

        def optimizer_function(loss):
            return pipelining_ops.OptimizerFunctionOutput(
                optimizer, loss, variables=[w]
            )

        @tf.function(jit_compile=True)
        def train():
            pipelining_ops.pipeline(
                computational_stages=[first, second],
                gradient_accumulation_count=4096,
                gradient_accumulation_dtype=dtype,
                infeed_queue=infeed_queue,
                outfeed_queue=outfeed_queue,
                optimizer_function=optimizer_function,
                outfeed_loss=True,
            )

        infeed_queue.initializer
        strategy.run(train)
        return [float(w.numpy()[0]), float(outfeed_queue.dequeue()[0])]


print(
    json.dumps(
        {
            "float32": trained(tf.float32),
            "callable": trained(lambda var: tf.float32),
            "none": trained(None),
        }
    )
)
