"""How fast a data set is, and the infeed that takes it (SDK 2.4)."""

import json

import tensorflow as tf
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

ds = tf.data.Dataset.from_tensors((tf.ones([4, 8]), tf.zeros([4], tf.int32))).repeat()
result = ipu.dataset_benchmark.dataset_benchmark(ds, 10, 512, print_stats=False)

infeed_queue = ipu.ipu_infeed_queue.IPUInfeedQueue(ds)
fed = ipu.dataset_benchmark.infeed_benchmark(infeed_queue, 2, 64, print_stats=False)
print(
    json.dumps(
        {
            "report": json.loads(result.numpy()[0]),
            "fed": json.loads(fed.numpy()[0]),
            "shape": list(result.shape),
        }
    )
)
