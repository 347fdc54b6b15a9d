"""Options of products and the IPU Model of the first generation (SDK 1.4), with what
a step takes."""

import json

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu


def account(proportion, version):
    cfg = ipu.utils.create_ipu_config()
    cfg = ipu.utils.set_ipu_model_options(
        cfg, compile_ipu_code=True, tiles_per_ipu=64, ipu_model_version=version
    )
    options = {"availableMemoryProportion": proportion}
    cfg = ipu.utils.set_convolution_options(cfg, options)
    cfg = ipu.utils.set_matmul_options(cfg, options)
    cfg = ipu.utils.auto_select_ipus(cfg, 1)
    ipu.utils.configure_ipu_system(cfg)
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        w = tf.Variable(np.ones((1024, 1024), np.float32))

        @tf.function(experimental_compile=True)
        def step(x):
            return tf.nn.relu(tf.matmul(x, w))

        x = tf.ones([256, 1024])
        value = strategy.experimental_run_v2(step, args=(x,))
        found = step.account(x)
    return {
        "machine": repr(found.machine),
        "temporary": found.memory.temporary,
        "cycles": found.cycles,
        "kinds": sorted({step.kind for step in found.steps}),
        "value": float(np.mean(value)),
    }


found = [account(*one) for one in (("0.6", "ipu1"), ("0.1", "ipu1"), ("0.6", "ipu2"))]
print(json.dumps(found))
