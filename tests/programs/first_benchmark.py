"""How fast a data set is, with the argument names of SDK 1.4."""

import json

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

element = (np.ones([4, 8], np.float32), np.zeros([4], np.int32))
ds = tf.data.Dataset.from_tensors(element)
ds = ds.repeat()

result = ipu.dataset_benchmark.dataset_benchmark(
    ds, 10, 512, print_stats=False, apply_options=True
)
text = result.numpy()[0]
print(json.dumps({"report": json.loads(text)}))
