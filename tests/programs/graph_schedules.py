"""Pipelines under each schedule, and what they keep where (SDK 2.4, TensorFlow 1)."""

import json

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import pipelining_ops

tf.disable_v2_behavior()

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 4
cfg.configure_ipu_system()

COUNT = 12
Schedule = pipelining_ops.PipelineSchedule
x = np.random.RandomState(0).normal(size=(COUNT, 2, 3)).astype(np.float32)


def weight(name, shape):
    with tf.variable_scope(name, use_resource=True):
        return tf.get_variable("w", shape, initializer=tf.ones_initializer())


def first(lr, x):
    return lr, tf.matmul(x, weight("first", [3, 3]))


def left(lr, x):
    return lr, x * weight("left", [3])


def right(lr, x):
    return tf.tanh(x * weight("right", [3]))


def last(lr, a, b):
    return lr, tf.reduce_sum(tf.square(a - b))


def plain(lr, x):
    return lr, x * weight("left", [3]), tf.tanh(x * weight("right", [3]))


def optimizer_function(lr, loss):
    optimizer = tf.train.MomentumOptimizer(lr, 0.9)
    return pipelining_ops.OptimizerFunctionOutput(optimizer, loss)


def train(stages, mapping, **options):
    tf.reset_default_graph()
    infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensor_slices(x).repeat()
    )
    outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def my_net(lr):
        return pipelining_ops.pipeline(
            computational_stages=stages,
            device_mapping=mapping,
            gradient_accumulation_count=COUNT,
            repeat_count=2,
            inputs=[lr],
            infeed_queue=infeed_queue,
            outfeed_queue=outfeed_queue,
            optimizer_function=optimizer_function,
            **options,
        )

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        step = ipu.ipu_compiler.compile(my_net, inputs=[tf.constant(0.01)])
    losses = outfeed_queue.dequeue()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(infeed_queue.initializer)
        sess.run(step)
        found = [sess.run(losses)[1], *sess.run(tf.trainable_variables())]
    return [one.tobytes().hex() for one in found]


side_by_side = [first, [left, right], last], [0, [1, 2], 3]
in_a_row = [first, plain, last], [0, 1, 2]
runs = {
    "grouped": train(*side_by_side),
    "interleaved": train(*side_by_side, pipeline_schedule=Schedule.Interleaved),
    "sequential": train(*in_a_row, pipeline_schedule=Schedule.Sequential),
    "row": train(*in_a_row),
    "elsewhere": train([first, plain, last], [2, 0, 2]),
    "kept_on_chip": train(*in_a_row, offload_weight_update_variables=False),
    "of_a_type": train(*in_a_row, gradient_accumulation_dtype=tf.float32),
    "of_the_type_of_each": train(
        *in_a_row, gradient_accumulation_dtype=lambda var: var.dtype
    ),
}
print(json.dumps({"runs": runs, "lengths": [len(one) // 8 for one in runs["row"]]}))
