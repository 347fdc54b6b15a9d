"""Logging from inside of a compiled loop; variables of a live session (SDK 2)."""

import json
import os

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.data.ops.dataset_ops import BufferDataset
from tensorflow.python.ipu.ipu_session_run_hooks import IPULoggingTensorHook

tf.disable_v2_behavior()

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

dataset = tf.data.Dataset.from_tensor_slices(np.arange(10, dtype=np.float32))
dataset = BufferDataset(dataset, 4).repeat()
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
told = []
last = IPULoggingTensorHook(every_n_iter=2, formatter=lambda v: told.append(v) or "")
every = IPULoggingTensorHook(
    at_end=True,
    formatter=lambda v: told.append(v) or "",
    logging_mode=IPULoggingTensorHook.LoggingMode.ALL,
)


def body(x):
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer(), use_resource=True)
    total = w.assign_add(x)
    with tf.control_dependencies([last.log({"total": total}), every.log([x])]):
        return tf.no_op()


def net():
    return ipu.loops.repeat(4, body, [], infeed)


with ipu.scopes.ipu_scope("/device:IPU:0"):
    run = ipu.ipu_compiler.compile(net, [])

feed = tf.placeholder(tf.float32, [2])
[inputs] = ipu.utils.export_inputs_to_file([feed], "inputs.bin", {feed: [1.0, 2.0]})
with tf.train.MonitoredTrainingSession(hooks=[last, every]) as session:
    session.run(infeed.initializer)
    for _ in range(3):
        session.run(run)

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    weight = tf.global_variables()[0]
    weight.load(7.0, session)
    ipu.utils.export_variables_from_live_session(session, "weights.bin")
    weight.load(0.0, session)
    ipu.utils.import_data_in_live_session(session, "weights.bin", "again")
    loaded = float(session.run(weight))


def plain(values):
    return {name: np.asarray(value).tolist() for name, value in values.items()}


print(
    json.dumps(
        {
            "told": [plain(values) for values in told],
            "inputs": np.load(inputs).tolist(),
            "loaded": loaded,
            "files": os.listdir("again"),
        }
    )
)
