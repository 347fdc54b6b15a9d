"""How often something is compiled, and what the reports say (SDK 1.4)."""

import json

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import summary_ops

cfg = ipu.utils.create_ipu_config(profiling=True, profile_execution=True)
cfg = ipu.utils.set_ipu_model_options(cfg, compile_ipu_code=False)
cfg = ipu.utils.auto_select_ipus(cfg, num_ipus=1)
ipu.utils.configure_ipu_system(cfg)

strategy = ipu.ipu_strategy.IPUStrategy()


@tf.function(experimental_compile=True)
def step(x, w):
    return tf.reduce_sum(tf.nn.relu(tf.matmul(x, w)))


with strategy.scope():
    for rows in (4, 4, 8, 8, 4):
        x, w = np.ones((rows, 3), np.float32), np.ones((3, 2), np.float32)
        strategy.experimental_run_v2(step, args=(tf.constant(x), tf.constant(w)))

events = summary_ops.get_ipu_reports()
types = ipu.utils.extract_all_types_from_event_trace(events)
compiled = ipu.utils.extract_compile_reports(events)
executed = ipu.utils.extract_execute_reports(events)
decoded = ipu.utils.extract_all_events(events)
ends = [event.compile_end for event in decoded if event.type == 1]
mappings = [json.loads(end.tensor_map)["mappings"] for end in ends]
entries = [entry for mapping in mappings for entry in next(iter(mapping.values()))]
found = {
    "types": types,
    "names": [name for name, _ in compiled],
    "tiles": [json.loads(report)["machine"]["tiles"] for _, report in compiled],
    "cycles": [json.loads(report)["cycles"] for _, report in executed],
    "entries": [len(entry) for entry in entries],
    "text": "matmul" in ipu.utils.extract_all_strings_from_event_trace(events),
    "left": len(summary_ops.get_ipu_reports()),
}
print(json.dumps(found))
