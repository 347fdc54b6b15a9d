"""Optimizers that add up over replicas and micro-batches (SDK 2.4, TensorFlow 1)."""

import json

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()

REPLICAS, COUNT, STEPS, RATE = 4, 3, 6, 0.1

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 2 * REPLICAS  # for a graph of two shards
cfg.configure_ipu_system()

optimizers = ipu.optimizers
x = np.arange(REPLICAS * STEPS, dtype=np.float32) / 8.0


def descent():
    return tf.train.GradientDescentOptimizer(RATE)


def momentum():
    return tf.train.MomentumOptimizer(RATE, 0.5)


WRAPPED = {
    "mean": lambda: optimizers.CrossReplicaOptimizer(descent()),
    "accumulated": lambda: optimizers.CrossReplicaGradientAccumulationOptimizer(
        descent(), COUNT
    ),
    "accumulated_momentum": (
        lambda: optimizers.CrossReplicaGradientAccumulationOptimizer(momentum(), COUNT)
    ),
    "accumulated_v2": lambda: optimizers.CrossReplicaGradientAccumulationOptimizerV2(
        momentum(), COUNT
    ),
    "kept_on_chip": lambda: optimizers.CrossReplicaGradientAccumulationOptimizerV2(
        momentum(), COUNT, offload_weight_update_variables=False
    ),
    "of_a_type": lambda: optimizers.CrossReplicaGradientAccumulationOptimizerV2(
        momentum(), COUNT, dtype=lambda var: var.dtype
    ),
}


def train(name):
    """A loop of one variable; the loss is 1/2 (v - x)^2 on each replica."""
    infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensor_slices(x).repeat()
    )
    outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def body(x):
        with tf.variable_scope(name, use_resource=True):
            v = tf.get_variable("v", initializer=1.0)
        with ipu.scopes.ipu_shard(0):
            error = v - x
        with ipu.scopes.ipu_shard(1):
            loss = 0.5 * error * error
        return outfeed_queue.enqueue(loss), WRAPPED[name]().minimize(loss)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        loop = ipu.ipu_compiler.compile(
            lambda: ipu.loops.repeat(STEPS, body, [], infeed_queue)
        )
    losses = outfeed_queue.dequeue()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(infeed_queue.initializer)
        sess.run(loop)
        (value,) = sess.run(tf.trainable_variables(name))
        return float(value), list(sess.run(losses).shape)


def expected(name):
    count = 1 if name == "mean" else COUNT
    rate_of_last = 0.0 if name in ("mean", "accumulated") else 0.5
    v, slot = 1.0, 0.0
    rows = x.reshape(STEPS, REPLICAS)
    for step in range(0, STEPS, count):
        gradients = v - rows[step : step + count]
        slot = rate_of_last * slot + gradients.mean(1).sum()
        v -= RATE * slot
    return float(v)


print(
    json.dumps(
        {
            "values": {name: train(name) for name in WRAPPED},
            "expected": {name: expected(name) for name in WRAPPED},
        }
    )
)
